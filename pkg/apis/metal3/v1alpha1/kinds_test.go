// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestBytesOfKinds checks that the Go types encode the same bytes as those of the operator: an
// empty object, which shows the fields that are never omitted, and one with all fields.
func TestBytesOfKinds(t *testing.T) {
	const conditions = `"conditions":[{"type":"Ready","status":"True","observedGeneration":1,"lastTransitionTime":"2026-01-01T00:00:00Z","reason":"A","message":"a"}]`
	const secret = `{"name":"a","namespace":"b"}`
	tests := []struct {
		obj         runtime.Object
		empty, full string
	}{
		{&BareMetalSwitch{},
			`{"metadata":{},"spec":{"address":"","macAddress":"","deviceType":""},"status":{}}`,
			`{"metadata":{},"spec":{"address":"a","macAddress":"b","driver":"generic-switch","deviceType":"c","credentials":` + secret + `,"port":22,"disableCertificateVerification":true},"status":{` + conditions + `}}`},
		{&BMCEventSubscription{},
			`{"metadata":{},"spec":{},"status":{}}`,
			`{"metadata":{},"spec":{"hostName":"a","destination":"b","context":"c","httpHeadersRef":` + secret + `},"status":{"subscriptionID":"1","error":"a"}}`},
		{&DataImage{},
			`{"metadata":{},"spec":{"url":""},"status":{"attachedImage":{"url":""},"error":{"count":0,"message":""}}}`,
			`{"metadata":{},"spec":{"url":"a"},"status":{"lastReconciled":"2026-01-01T00:00:00Z","attachedImage":{"url":"a"},"error":{"count":1,"message":"a"}}}`},
		{&FirmwareSchema{},
			`{"metadata":{},"spec":{"schema":null}}`,
			`{"metadata":{},"spec":{"hardwareVendor":"a","hardwareModel":"b","schema":{"A":{"attribute_type":"Integer","allowable_values":["a"],"lower_bound":0,"upper_bound":1,"min_length":0,"max_length":1,"read_only":false,"unique":true},"B":{}}}}`},
		{&HostClaim{},
			`{"metadata":{},"spec":{"poweredOn":false,"hostSelector":{}},"status":{}}`,
			`{"metadata":{},"spec":{"poweredOn":true,"image":{"url":"a"},"userData":` + secret + `,"networkData":` + secret + `,"metaData":` + secret + `,"customDeploy":{"method":"a"},` +
				`"hostSelector":{"matchLabels":{"a":"b"},"matchExpressions":[{"key":"a","operator":"in","values":["b"]},{"key":"a","operator":"!","values":[]}],"inNamespace":"a"},` +
				`"consumerRef":{"kind":"Machine","name":"a"},"failureDomain":"a"},` +
				`"status":{"lastUpdated":"2026-01-01T00:00:00Z",` + conditions + `,"bareMetalHost":{"namespace":"a","name":"b"},"hardwareData":{"namespace":"a","name":"b"},"poweredOn":true}}`},
		{&HostDeployPolicy{},
			`{"metadata":{},"spec":{},"status":{}}`,
			`{"metadata":{},"spec":{"hostClaimNamespaces":{"names":["a"],"nameMatches":"^b$","hasLabels":[{"name":"a","value":"b"},{"name":"c"}]}},"status":{}}`},
		{&HostFirmwareComponents{},
			`{"metadata":{},"spec":{"updates":null},"status":{}}`,
			`{"metadata":{},"spec":{"updates":[{"component":"bios","url":"a"}]},"status":{"updates":[{"component":"bios","url":"a"}],` +
				`"components":[{"component":"bios","initialVersion":"1","currentVersion":"2","lastVersionFlashed":"2","updatedAt":"2026-01-01T00:00:00Z"},{"component":"bmc","initialVersion":"1","updatedAt":null}],` +
				`"lastUpdated":"2026-01-01T00:00:00Z",` + conditions + `}}`},
		{&HostFirmwareSettings{},
			`{"metadata":{},"spec":{"settings":null},"status":{"settings":null}}`,
			`{"metadata":{},"spec":{"settings":{"A":"a","B":1}},"status":{"schema":{"namespace":"a","name":"b"},"settings":{"A":"b","B":"0"},"lastUpdated":"2026-01-01T00:00:00Z",` + conditions + `}}`},
		{&HostNetworkAttachment{},
			`{"metadata":{},"spec":{"nativeVLAN":0}}`, // mode is never empty in a stored object
			`{"metadata":{},"spec":{"mode":"trunk","nativeVLAN":1,"allowedVLANs":["1","2-3"],"mtu":9000}}`},
		{&HostUpdatePolicy{},
			`{"metadata":{},"spec":{},"status":{}}`,
			`{"metadata":{},"spec":{"firmwareSettings":"onReboot","firmwareUpdates":"onPreparing"},"status":{}}`},
		{&Provisioning{},
			`{"metadata":{}}`,
			`{"metadata":{},"spec":{"provisioningNetwork":"Managed","unknown":{"list":[1.5,null],"size":9007199254740993}},"status":{"readyReplicas":1}}`},
		{&PreprovisioningImage{},
			`{"metadata":{},"spec":{},"status":{"networkData":{}}}`,
			`{"metadata":{},"spec":{"networkDataName":"a","architecture":"b","acceptFormats":["iso","initrd"]},"status":{"imageUrl":"a","kernelUrl":"b","extraKernelParams":"c","format":"iso","networkData":{"name":"a","version":"1"},"architecture":"d",` + conditions + `}}`},
	}
	for _, test := range tests {
		name := reflect.TypeOf(test.obj).Elem().Name()
		t.Run(name, func(t *testing.T) {
			for _, want := range []string{test.empty, test.full} {
				obj := reflect.New(reflect.TypeOf(test.obj).Elem()).Interface().(runtime.Object)
				decoder := json.NewDecoder(strings.NewReader(want))
				decoder.DisallowUnknownFields()
				if err := decoder.Decode(obj); err != nil {
					t.Fatal(err)
				}
				got, err := json.Marshal(obj.DeepCopyObject())
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, string(got)); diff != "" {
					t.Errorf("- want, + got:\n%s", diff)
				}
			}
		})
	}
}

func TestDefaultsOfKinds(t *testing.T) {
	device, attachment := &BareMetalSwitch{}, &HostNetworkAttachment{}
	scheme(t).Default(device)
	scheme(t).Default(attachment)
	if device.Spec.Driver != GenericSwitch || attachment.Spec.Mode != SwitchPortAccess {
		t.Errorf("defaults are %q and %q", device.Spec.Driver, attachment.Spec.Mode)
	}
}
