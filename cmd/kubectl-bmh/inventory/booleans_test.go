// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// TestBooleansOfManifests: a Boolean of a manifest is what kubectl makes of it, wherever it is in the spec.
func TestBooleansOfManifests(t *testing.T) {
	for _, word := range []string{
		"true", "True", "TRUE", "false", "False", "y", "Y", "yes", "Yes", "YES", "n", "N", "no", "No", "NO", "on", "On", "ON", "off", "Off", "OFF",
		"yEs", "oN", "t", "1", "~", `"yes"`, `'off'`, `"true"`, "perhaps", "[on]", "{on: off}",
	} {
		for _, spec := range []string{
			"{online: %s}", "{online: false, externallyProvisioned: %s}", "{bmc: {address: a, credentialsName: s, disableCertificateVerification: %s}}",
			"{rootDeviceHints: {rotational: %s}}", "{raid: {hardwareRAIDVolumes: [{level: '1', rotational: no}, {level: '1', rotational: %s}]}}",
			"{description: '', online: &b %s, disablePowerOff: *b}",
		} {
			text := "apiVersion: metal3.io/v1alpha1\nkind: BareMetalHost\nmetadata: {name: h}\nspec: " + fmt.Sprintf(spec, word) + "\n"
			var want metal3.BareMetalHost
			asJSON, err := yaml.YAMLToJSON([]byte(text)) // as kubectl, which does not know the type
			if err == nil {
				err = json.Unmarshal(asJSON, &want)
			}
			entries, mistakes, _ := Read([]byte(text), "metal3")
			switch {
			case len(mistakes) > 0 != (err != nil):
				t.Errorf("%q: mistakes %v, and kubectl's %v", text, mistakes, err)
			case err == nil:
				if diff := cmp.Diff(want.Spec, entries[0].Spec); diff != "" {
					t.Errorf("%q: %s", text, diff)
				}
			}
		}
	}
}

// TestWordsThatAreNoBooleans: where a text is wanted, the same words are what is written, also if an anchor gives them to a Boolean, too.
func TestWordsThatAreNoBooleans(t *testing.T) {
	for _, text := range []string{
		"apiVersion: metal3.io/v1alpha1\nkind: BareMetalHost\nmetadata: {name: on, namespace: n, labels: {numlock: On}}\n" +
			"spec: {description: &d Yes, online: *d, image: {url: off}, bmc: {address: \"ipmi://192.0.2.1\", credentialsName: y}}\n",
		"- {name: on, namespace: n, labels: {numlock: On}, description: Yes, image: off, address: \"ipmi://192.0.2.1\", credentialsName: y, online: yes}\n",
		"name,namespace,labels,description,image,address,credentialsName,online\non,n,numlock=On,Yes,off,ipmi://192.0.2.1,y,yes\n",
	} {
		entries, mistakes, err := Read([]byte(text), "metal3")
		if err != nil || len(mistakes) > 0 {
			t.Errorf("%q: %v %v", text, mistakes, err)
			continue
		}
		e := entries[0]
		got := []string{e.Name, e.Namespace, e.Labels["numlock"], e.Spec.Description, e.Spec.Image.URL, e.Spec.BMC.CredentialsName, fmt.Sprint(e.Spec.Online)}
		if diff := cmp.Diff([]string{"on", "n", "On", "Yes", "off", "y", "true"}, got); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}

// TestBooleansOfOtherFiles: the words are known whatever the format is.
func TestBooleansOfOtherFiles(t *testing.T) {
	for format, of := range map[string]func(Entry) bool{
		"name,address,credentialsName,online\nh,192.0.2.1,s,%s\n":                                                                    func(e Entry) bool { return e.Spec.Online },
		"- {name: h, address: 192.0.2.1, credentialsName: s, externallyProvisioned: %s}\n":                                           func(e Entry) bool { return e.Spec.ExternallyProvisioned },
		"platform: {baremetal: {hosts: [{name: h, bmc: {address: a, disableCertificateVerification: %s}}]}}\n":                       func(e Entry) bool { return e.Spec.BMC.DisableCertificateVerification },
		"platform: {baremetal: {hosts: [{name: h, bmc: {address: a}, rootDeviceHints: {rotational: %s}}]}}\n":                        func(e Entry) bool { return *e.Spec.RootDeviceHints.Rotational },
		"nodes: [{name: h, driver: redfish, driver_info: {redfish_address: 192.0.2.1, redfish_verify_ca: %s}}]\n":                    func(e Entry) bool { return !e.Spec.BMC.DisableCertificateVerification },
		"nodes: [{name: h, driver: ipmi, driver_info: {ipmi_address: 192.0.2.1}, ports: [{address: a, pxe_enabled: %s}]}]\n":         func(e Entry) bool { return e.Spec.BootMACAddress != "" },
		"nodes: [{name: h, driver: ipmi, driver_info: {ipmi_address: 192.0.2.1}, properties: {root_device: {rotational: %s}}}]\n":    func(e Entry) bool { return *e.Spec.RootDeviceHints.Rotational },
		"nodes: [{name: h, driver: ipmi, driver_info: {ipmi_address: 192.0.2.1}, properties: {capabilities: {secure_boot: %s}}}]\n":  func(e Entry) bool { return e.Spec.BootMode == metal3.UEFISecureBoot },
		"nodes: [{name: h, driver: ipmi, driver_info: {ipmi_address: 192.0.2.1}, properties: {capabilities: 'secure_boot:%s,a:b'}}]": func(e Entry) bool { return e.Spec.BootMode == metal3.UEFISecureBoot },
	} {
		for word, want := range map[string]bool{"true": true, "FALSE": false, "y": true, "Yes": true, "ON": true, "n": false, "NO": false, "off": false} {
			text := fmt.Sprintf(format, word)
			entries, mistakes, err := Read([]byte(text), "metal3")
			if err != nil || len(mistakes) > 0 {
				t.Errorf("%q: %v %v", strings.TrimSpace(text), mistakes, err)
			} else if got := of(entries[0]); got != want {
				t.Errorf("%q: %t", strings.TrimSpace(text), got)
			}
		}
	}
}

// TestGivenBooleans: false takes back what was applied before, and what is not given does not.
func TestGivenBooleans(t *testing.T) {
	const field = "disableCertificateVerification"
	for text, want := range map[string]bool{
		"name,address,credentialsName,disableCertificateVerification\nh,192.0.2.1,s,no\n":                                           true,
		"name,address,credentialsName,disableCertificateVerification\nh,192.0.2.1,s,\n":                                             false,
		"- {name: h, bmc: {address: a, disableCertificateVerification: false}}\n":                                                   true,
		"- {name: h, bmc: {address: a}}\n":                                                                                          false,
		"nodes: [{name: h, driver: redfish, driver_info: {redfish_address: 192.0.2.1, redfish_verify_ca: True}}]\n":                 true,
		"nodes: [{name: h, driver: redfish, driver_info: {redfish_address: 192.0.2.1, disable_certificate_verification: false}}]\n": true,
		"nodes: [{name: h, driver: redfish, driver_info: {redfish_address: 192.0.2.1}}]\n":                                          false,
	} {
		entries, mistakes, err := Read([]byte(text), "metal3")
		if err != nil || len(mistakes) > 0 {
			t.Errorf("%q: %v %v", text, mistakes, err)
		} else if e := entries[0]; e.Given.Has(field) != want || e.Spec.BMC.DisableCertificateVerification {
			t.Errorf("%q: given is %v, want %t", text, e.Given.UnsortedList(), want)
		}
	}
}
