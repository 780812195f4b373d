// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return scheme
}

// TestBytesOfNewHost checks the fields that the operator always writes, because scripts with
// jsonpath rely on them.
func TestBytesOfNewHost(t *testing.T) {
	host := &BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: "metal3", Name: "worker-0"}}
	scheme(t).Default(host)
	got, err := json.MarshalIndent(host, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want := `{
  "metadata": {
    "name": "worker-0",
    "namespace": "metal3"
  },
  "spec": {
    "bmc": {
      "address": "",
      "credentialsName": ""
    },
    "online": false,
    "automatedCleaningMode": "metadata"
  },
  "status": {
    "operationalStatus": "",
    "provisioning": {
      "state": "",
      "ID": "",
      "image": {
        "url": ""
      }
    },
    "goodCredentials": {},
    "triedCredentials": {},
    "errorMessage": "",
    "poweredOn": false,
    "operationHistory": {
      "register": {
        "start": null,
        "end": null
      },
      "inspect": {
        "start": null,
        "end": null
      },
      "provision": {
        "start": null,
        "end": null
      },
      "deprovision": {
        "start": null,
        "end": null
      }
    },
    "errorCount": 0,
    "provisioningFailCount": 0
  }
}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// everyField has every field of the operator's API, so that a field that is lost or renamed is
// noticed.
const everyField = `{
  "architecture": "x86_64", "automatedCleaningMode": "disabled",
  "bmc": {"address": "a", "credentialsName": "b", "disableCertificateVerification": true},
  "bootMACAddress": "c", "bootMode": "UEFI",
  "consumerRef": {"apiVersion": "v1", "fieldPath": "a", "kind": "a", "name": "a", "namespace": "a", "resourceVersion": "1", "uid": "a"},
  "customDeploy": {"method": "a"}, "description": "a", "disablePowerOff": true, "externallyProvisioned": true,
  "firmware": {"simultaneousMultithreadingEnabled": false, "sriovEnabled": false, "virtualizationEnabled": false},
  "hardwareProfile": "a",
  "image": {"url": "a", "checksum": "a", "checksumType": "auto", "format": "raw", "ociAuthSecretName": "a"},
  "inspectionMode": "fast",
  "metaData": {"name": "a", "namespace": "a"}, "networkData": {"name": "a", "namespace": "a"}, "userData": {"name": "a", "namespace": "a"},
  "networkInterfaces": [{"name": "a", "macAddress": "a", "hostNetworkAttachment": {"name": "a", "namespace": "a"}, "switchPort": {"switchID": "a", "portID": "a"}}],
  "online": true, "preprovisioningNetworkDataName": "a",
  "raid": {
    "hardwareRAIDVolumes": [{"level": "1", "sizeGibibytes": 0, "name": "a", "rotational": false, "numberOfPhysicalDisks": 1, "controller": "a", "physicalDisks": ["a"]}],
    "softwareRAIDVolumes": [{"level": "1", "rootVolume": false, "sizeGibibytes": 0, "physicalDisks": [{"rotational": true}]}]
  },
  "rootDeviceHints": {"deviceName": "a", "hctl": "a", "model": "a", "vendor": "a", "serialNumber": "a", "minSizeGigabytes": 1,
    "wwn": "a", "wwnWithExtension": "a", "wwnVendorExtension": "a", "rotational": false},
  "taints": [{"key": "a", "effect": "NoSchedule", "value": "a", "timeAdded": "2026-01-01T00:00:00Z"}]
}`

const everyStatusField = `{
  "operationalStatus": "OK", "errorType": "inspection error", "errorMessage": "a", "errorCount": 1, "provisioningFailCount": 1,
  "poweredOn": true, "lastUpdated": "2026-01-01T00:00:00Z",
  "lastAttemptedImage": {"url": "a"}, "hardwareProfile": "a",
  "goodCredentials": {"credentials": {"name": "a", "namespace": "a"}, "credentialsVersion": "1"},
  "triedCredentials": {"credentials": {"name": "a", "namespace": "a"}, "credentialsVersion": "1"},
  "record": {"epoch": 1, "state": {"name": "available", "since": "2026-01-01T00:00:00Z"}, "observed": true, "firstAvailableAt": "2026-01-01T00:00:00Z",
    "registration": {"generation": 1, "reason": "a", "message": "a"},
    "registeredWith": {"settingsDigest": "a", "networkDataVersion": "1", "dueWhenIdle": true, "powerSupply": true},
    "hold": {"reason": "a", "message": "a"}, "failure": {"type": "inspection error", "cause": "RequestFailed", "message": "a"},
    "error": {"type": "inspection error", "message": "a", "cause": "Interrupted"}, "awaitedImage": "a",
    "unusableInventory": {"inspectionFinishedAt": "2026-01-01T00:00:00.000000Z", "problem": "a"},
    "silence": {"since": "2026-01-01T00:00:00Z", "refused": true, "reason": "a"}, "network": {"generation": 1, "reason": "a", "message": "a"}, "health": "OK"},
  "operationHistory": {
    "register": {"start": "2026-01-01T00:00:00Z", "end": null}, "inspect": {"start": null, "end": null},
    "provision": {"start": null, "end": null}, "deprovision": {"start": null, "end": "2026-01-01T00:00:00Z"}
  },
  "conditions": [{"type": "Ready", "status": "True", "reason": "Provisioned", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
  "provisioning": {
    "state": "available", "ID": "a", "image": {"url": "a"}, "rootDeviceHints": {"hctl": "a"}, "bootMode": "legacy",
    "raid": {"hardwareRAIDVolumes": null, "softwareRAIDVolumes": []}, "firmware": {"sriovEnabled": true}, "customDeploy": {"method": "a"}
  },
  "hardware": {
    "systemVendor": {"manufacturer": "a", "productName": "a", "serialNumber": "a"},
    "firmware": {"bios": {"date": "a", "vendor": "a", "version": "a"}}, "ramMebibytes": 1, "hostname": "a",
    "cpu": {"arch": "a", "model": "a", "clockMegahertz": 2100.5, "flags": ["a"], "count": 1},
    "nics": [{"name": "a", "model": "a", "mac": "a", "ip": "a", "speedGbps": 1, "vlans": [{"id": 1, "name": "a"}], "vlanId": 1, "pxe": true,
      "lldp": {"switchID": "a", "portID": "a", "switchSystemName": "a"}, "pciAddress": "a"}],
    "storage": [{"name": "a", "alternateNames": ["a"], "rotational": true, "type": "NVME", "sizeBytes": 9007199254740993, "vendor": "a", "model": "a",
      "serialNumber": "a", "wwn": "a", "wwnVendorExtension": "a", "wwnWithExtension": "a", "hctl": "a"}]
  },
  "ironic": {"nodeUUID": "a", "provisionState": "a", "targetProvisionState": "a", "powerState": "a", "targetPowerState": "a", "operation": "a", "operationStartedAt": "2026-01-01T00:00:00Z", "step": "a", "stepIndex": 1, "stepCount": 1, "stepStartedAt": "2026-01-01T00:00:00Z",
    "maintenance": true, "maintenanceReason": "a", "fault": "a", "reservation": "a", "lastError": "a",
    "inspectionFinishedAt": "2026-01-01T00:00:00.123456Z", "unreadInventory": "a"}
}`

func TestEveryFieldIsKept(t *testing.T) {
	for name, test := range map[string]struct {
		json string
		into any
	}{
		"spec":   {everyField, &BareMetalHostSpec{}},
		"status": {everyStatusField, &BareMetalHostStatus{}},
		"HardwareData": {`{"metadata": {"name": "a"}, "spec": {"hardware": {
			"systemVendor": {}, "firmware": {"bios": {}}, "cpu": {}, "hostname": "a"}}}`, &HardwareData{}},
	} {
		t.Run(name, func(t *testing.T) {
			decoder := json.NewDecoder(strings.NewReader(test.json))
			decoder.DisallowUnknownFields()
			if err := decoder.Decode(test.into); err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(test.into)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(normal(t, []byte(test.json)), normal(t, got)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func normal(t *testing.T, data []byte) any {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

// TestRAIDNullAndEmptyDiffer checks that null and an empty list are both preserved: null keeps
// the RAID layout, an empty list removes it.
func TestRAIDNullAndEmptyDiffer(t *testing.T) {
	for _, want := range []string{
		`{"hardwareRAIDVolumes":null,"softwareRAIDVolumes":null}`,
		`{"hardwareRAIDVolumes":[],"softwareRAIDVolumes":null}`,
		`{"hardwareRAIDVolumes":null,"softwareRAIDVolumes":[]}`,
	} {
		var raid RAIDConfig
		if err := json.Unmarshal([]byte(want), &raid); err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(raid.DeepCopy())
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("%s has become %s", want, got)
		}
	}
}

func TestDefaults(t *testing.T) {
	for _, test := range []struct {
		in, want HostPowerSpec
	}{
		{HostPowerSpec{Action: "off"}, HostPowerSpec{Action: "off", Mode: "soft"}},
		{HostPowerSpec{Action: "reboot"}, HostPowerSpec{Action: "reboot", Mode: "soft"}},
		{HostPowerSpec{Action: "off", Mode: "hard"}, HostPowerSpec{Action: "off", Mode: "hard"}},
		{HostPowerSpec{Action: "on"}, HostPowerSpec{Action: "on"}},
		{HostPowerSpec{}, HostPowerSpec{}},
	} {
		power := &HostPower{Spec: test.in}
		scheme(t).Default(power)
		if power.Spec != test.want {
			t.Errorf("%+v has become %+v, want %+v", test.in, power.Spec, test.want)
		}
	}
	host := &BareMetalHost{Spec: BareMetalHostSpec{AutomatedCleaningMode: CleaningModeDisabled}}
	scheme(t).Default(host)
	if host.Spec.AutomatedCleaningMode != CleaningModeDisabled {
		t.Errorf("automatedCleaningMode has become %q", host.Spec.AutomatedCleaningMode)
	}
}

func TestFieldSelectors(t *testing.T) {
	kind := SchemeGroupVersion.WithKind("BareMetalHost")
	for _, label := range []string{
		"metadata.name", "metadata.namespace", "status.provisioning.state", "status.operationalStatus",
		"status.poweredOn", "status.ironic.instance", "spec.online", "spec.bmc.address", "spec.consumerRef.name",
	} {
		if got, value, err := scheme(t).ConvertFieldLabel(kind, label, "x"); err != nil || got != label || value != "x" {
			t.Errorf("%s: %q %q %v", label, got, value, err)
		}
	}
	_, _, err := scheme(t).ConvertFieldLabel(kind, "spec.description", "x")
	if err == nil || !strings.Contains(err.Error(), "spec.consumerRef.name") {
		t.Errorf("the error does not say what is supported: %v", err)
	}
}

func TestParseRebootAnnotation(t *testing.T) {
	for value, want := range map[string]RebootAnnotationArguments{
		"":                             {Mode: PowerModeSoft},
		"{}":                           {Mode: PowerModeSoft},
		`{"mode":""}`:                  {Mode: PowerModeSoft},
		`{"mode":"hard"}`:              {Mode: PowerModeHard},
		`{"force":true}`:               {Mode: PowerModeSoft, Force: true},
		`{"mode":"hard","force":true}`: {Mode: PowerModeHard, Force: true},
	} {
		if got, err := ParseRebootAnnotation(value); err != nil || got != want {
			t.Errorf("%q: %+v, %v", value, got, err)
		}
	}
	for key, want := range map[string]bool{
		"reboot.metal3.io": true, "reboot.metal3.io/a": true, "reboot.metal3.iox": false, "metal3.io": false,
	} {
		if got := IsRebootAnnotation(key); got != want {
			t.Errorf("%s: %v", key, got)
		}
	}
}

func TestParseDetachedAnnotation(t *testing.T) {
	for value, want := range map[string]DetachedAnnotationArguments{
		"":                         {DeleteAction: DetachedDeleteActionDelete},
		"true":                     {DeleteAction: DetachedDeleteActionDelete},
		"anything":                 {DeleteAction: DetachedDeleteActionDelete},
		"{}":                       {DeleteAction: DetachedDeleteActionDelete},
		`{"deleteAction":"delay"}`: {DeleteAction: DetachedDeleteActionDelay},
		`{"force":true}`:           {DeleteAction: DetachedDeleteActionDelete, Force: true},
	} {
		if got, err := ParseDetachedAnnotation(value); err != nil || got != want {
			t.Errorf("%q: %+v, %v", value, got, err)
		}
	}
	for _, value := range []string{`{"deleteAction":"x"}`, `{"force":1}`, `{`} {
		if got, err := ParseDetachedAnnotation(value); err == nil {
			t.Errorf("%q was accepted: %+v", value, got)
		}
	}
}

func TestCredentialsMatch(t *testing.T) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "metal3", Name: "a", ResourceVersion: "7"}}
	for _, test := range []struct {
		status CredentialsStatus
		want   bool
	}{
		{CredentialsStatus{}, false},
		{CredentialsStatus{Reference: &corev1.SecretReference{Namespace: "metal3", Name: "a"}, Version: "7"}, true},
		{CredentialsStatus{Reference: &corev1.SecretReference{Namespace: "metal3", Name: "a"}, Version: "6"}, false},
		{CredentialsStatus{Reference: &corev1.SecretReference{Namespace: "metal3", Name: "b"}, Version: "7"}, false},
		{CredentialsStatus{Reference: &corev1.SecretReference{Namespace: "other", Name: "a"}, Version: "7"}, false},
	} {
		if got := test.status.Match(secret); got != test.want {
			t.Errorf("%+v: %v", test.status, got)
		}
	}
}
