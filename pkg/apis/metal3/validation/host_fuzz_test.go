// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/install"
	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/validation"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
)

// requestDecoder decodes the bodies of requests as the server does, with defaults.
func requestDecoder() runtime.Decoder {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	codecs := serializer.NewCodecFactory(scheme)
	return codecs.DecoderToVersion(codecs.UniversalDeserializer(), schema.GroupVersion{Group: v1alpha1.GroupName, Version: runtime.APIVersionInternal})
}

// FuzzHost checks, for any host that a client can send, that validation errors name a field
// and contain no password, that an update that changes nothing is accepted, and that an
// accepted host can be parsed by the code that acts on it.
func FuzzHost(f *testing.F) {
	const begin = `{"kind":"BareMetalHost","apiVersion":"metal3.io/v1alpha1","metadata":{"name":"a","namespace":"b"`
	for _, rest := range []string{
		`},"spec":{"online":true,"bmc":{"address":"libvirt://[::1]:6233"},"bootMode":"UEFISecureBoot","inspectionMode":"fast"}}`,
		`},"spec":{"bmc":{"address":"redfish://root:zq9xjkw7vb@h/a"},"image":{"url":"http://root:zq9xjkw7vb@h/a b","checksum":"c"}}}`,
		`},"spec":{"image":{"url":"OCI://h/a"},"rootDeviceHints":{"deviceName":"/dev/disk/by-path/a"},"raid":{"softwareRAIDVolumes":[{"rootVolume":true},{"rootVolume":true}]}}}`,
		`,"annotations":{"reboot.metal3.io/a":"{\"mode\":\"x\"}","baremetalhost.metal3.io/status":"{\"errorType\":\"x\"}","inspect.metal3.io":"disabled"}}}`,
		`,"annotations":{"baremetalhost.metal3.io/detached":"{}","inspect.metal3.io/hardwaredetails":"{}"}},"spec":{"networkInterfaces":[{},{"name":"a"},{"name":"A"}]}}`,
		`},"spec":{"raid":{"hardwareRAIDVolumes":[{"level":"1","sizeGibibytes":-1,"numberOfPhysicalDisks":0,"physicalDisks":["a"]}]},"rootDeviceHints":{"minSizeGigabytes":-1}}}`,
		`},"status":{"operationalStatus":"x","errorType":"y","conditions":[{}],"provisioning":{"bootMode":"z","image":{"format":"iso"},"raid":{"softwareRAIDVolumes":[{"physicalDisks":[{}]}]}}}}`,
		`},"status":{"hardware":{"nics":[{"mac":"a","vlanId":4095,"vlans":[{"id":-1}]}],"storage":[{"type":"TAPE"}]},"lastAttemptedImage":{"checksumType":"a"}}}`,
		`},"spec":{"userData":{"namespace":"c"},"firmware":{},"disablePowerOff":true,"taints":[{}],"customDeploy":{}}}`,
	} {
		f.Add([]byte(begin + rest))
	}
	decoder := requestDecoder()
	f.Fuzz(func(t *testing.T, body []byte) {
		obj, err := runtime.Decode(decoder, body)
		if err != nil {
			return
		}
		host, ok := obj.(*v1alpha1.BareMetalHost)
		if !ok {
			return
		}
		errs := validation.ValidateBareMetalHost(host)
		checkErrors(t, errs, len(body), "metadata", "spec")
		if len(errs) == 0 {
			checkAccepted(t, host)
		}
		host.ResourceVersion = "1"
		checkErrors(t, without(validation.ValidateBareMetalHostUpdate(host, host.DeepCopy()), "metadata"), 0, "nothing")
		checkErrors(t, validation.ValidateBareMetalHostStatusUpdate(host, &v1alpha1.BareMetalHost{ObjectMeta: host.ObjectMeta}), len(body), "metadata", "status")

		// No error contains a password from an address, whatever else is wrong.
		const password = "zq9xjkw7vb"
		host = host.DeepCopy()
		host.Spec.BMC.Address = "redfish://root:" + password + "@" + host.Spec.BMC.Address
		if host.Spec.Image != nil {
			host.Spec.Image.URL = "http://root:" + password + "@" + host.Spec.Image.URL
		}
		if strings.Contains(string(body), password) {
			return
		}
		if text := validation.ValidateBareMetalHost(host).ToAggregate().Error(); strings.Contains(text, password) {
			t.Errorf("an error contains a password: %s", text)
		}
	})
}

// checkErrors checks that errors are about one of the given fields, and that their length is
// in proportion to the size of the request.
func checkErrors(t *testing.T, errs field.ErrorList, size int, fields ...string) {
	t.Helper()
	total := 0
	for _, err := range errs {
		total += len(err.Error())
		first, _, _ := strings.Cut(err.Field, ".")
		first, _, _ = strings.Cut(first, "[")
		ok := false
		for _, f := range fields {
			ok = ok || first == f
		}
		if !ok || err.Error() == "" {
			t.Errorf("unexpected: %v", err)
		}
	}
	if limit := 500*size + 10000; total > limit {
		t.Errorf("%d bytes of errors about %d bytes", total, size)
	}
}

// without returns the errors that are not about path. Errors about annotations always
// remain.
func without(errs field.ErrorList, path string) field.ErrorList {
	var all field.ErrorList
	for _, err := range errs {
		if !strings.HasPrefix(err.Field, path) || strings.HasPrefix(err.Field, "metadata.annotations[") {
			all = append(all, err)
		}
	}
	return all
}

// checkAccepted parses an accepted host with the parsers of the code that acts on it.
func checkAccepted(t *testing.T, host *v1alpha1.BareMetalHost) {
	t.Helper()
	if address := host.Spec.BMC.Address; address != "" {
		if _, err := bmc.Parse(address, false); err != nil {
			t.Errorf("accepted: %v", err)
		}
	}
	for key, value := range host.Annotations {
		var err error
		switch {
		case v1alpha1.IsRebootAnnotation(key):
			_, err = v1alpha1.ParseRebootAnnotation(value)
		case key == v1alpha1.DetachedAnnotation:
			_, err = v1alpha1.ParseDetachedAnnotation(value)
		case key == v1alpha1.InspectAnnotation:
			_, err = v1alpha1.ParseInspectAnnotation(value)
		case key == v1alpha1.HardwareDetailsAnnotation:
			_, err = v1alpha1.ParseHardwareDetailsAnnotation(value)
		case key == v1alpha1.StatusAnnotation:
			_, err = v1alpha1.ParseStatusAnnotation(value)
		}
		if err != nil {
			t.Errorf("accepted: annotation %s: %v", key, err)
		}
	}
	if errs := validation.ValidateBareMetalHostUpdate(withVersion(host), withVersion(&v1alpha1.BareMetalHost{ObjectMeta: host.ObjectMeta})); len(without(errs, "spec.externallyProvisioned")) > 0 {
		t.Errorf("accepted, and refused as an update of an empty host: %v", errs.ToAggregate())
	}
}

func withVersion(host *v1alpha1.BareMetalHost) *v1alpha1.BareMetalHost {
	host = host.DeepCopy()
	host.ResourceVersion, host.CreationTimestamp = "1", metav1.Time{}
	return host
}

// FuzzActions checks, for any body of a request for an action, that it is either refused or
// has a known action and, where one is needed, a mode.
func FuzzActions(f *testing.F) {
	for _, kind := range []string{"HostPower", "HostInspection", "HostRetry", "HostTakeover"} {
		for _, rest := range []string{
			`}`, `,"spec":{}}`, `,"spec":null}`, `,"spec":{"action":"on"}}`, `,"spec":{"action":"off","mode":"hard"}}`, `,"spec":{"action":"reboot","mode":"soft"}}`,
			`,"spec":{"action":"OFF"}}`, `,"spec":{"action":"off","mode":"warm"}}`, `,"spec":{"action":7}}`, `,"metadata":{"name":"a"},"status":{"powerState":"power on"}}`,
		} {
			f.Add([]byte(`{"kind":"` + kind + `","apiVersion":"metal3.io/v1alpha1"` + rest))
		}
	}
	decoder := requestDecoder()
	f.Fuzz(func(t *testing.T, body []byte) {
		obj, err := runtime.Decode(decoder, body)
		if err != nil {
			return
		}
		switch action := obj.(type) {
		case *v1alpha1.HostPower:
			errs := validation.ValidateHostPower(action)
			checkErrors(t, errs, len(body), "spec")
			if len(errs) > 0 {
				return
			}
			switch spec := action.Spec; spec.Action {
			case v1alpha1.PowerActionOn:
			case v1alpha1.PowerActionOff, v1alpha1.PowerActionReboot:
				if spec.Mode != v1alpha1.PowerModeSoft && spec.Mode != v1alpha1.PowerModeHard {
					t.Errorf("accepted: %+v", spec)
				}
			default:
				t.Errorf("accepted: %+v", spec)
			}
		case *v1alpha1.HostInspection:
			checkErrors(t, validation.ValidateHostInspection(action), len(body), "spec")
		}
	})
}
