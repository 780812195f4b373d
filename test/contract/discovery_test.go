// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// kindOfCRD is what the CRD of a kind says of it, and an object with what kubectl get
// prints of it: a name, the columns, and the age as AGE.
type kindOfCRD struct {
	resource, singular, kind string
	shortNames               []string
	hasStatus                bool
	spec, status             string // in JSON
	table                    string
}

var kindsOfCRDs = []kindOfCRD{
	{"baremetalhosts", "baremetalhost", "BareMetalHost", []string{"bmh", "bmhost"}, true, `{"online": false}`, ``, ``}, // its table has tests of its own
	{"baremetalswitches", "baremetalswitch", "BareMetalSwitch", []string{"bms"}, true,
		`{"address": "192.0.2.1", "macAddress": "00:00:5e:00:53:01", "deviceType": "netmiko_arista_eos"}`, condition("Valid", "True", "Configured"),
		`NAME|DRIVER|DEVICE TYPE|ADDRESS|VALID
		x|generic-switch|netmiko_arista_eos|192.0.2.1|True`},
	{"bmceventsubscriptions", "bmceventsubscription", "BMCEventSubscription", []string{"bes", "bmcevent"}, true,
		`{"hostName": "h", "destination": "https://192.0.2.1/"}`, `{"error": "refused"}`,
		`NAME|ERROR|AGE
		x|refused|AGE`},
	{"dataimages", "dataimage", "DataImage", nil, true, `{"url": "http://192.0.2.1/data.iso"}`, `{"attachedImage": {"url": "http://192.0.2.1/data.iso"}}`, justAge},
	{"firmwareschemas", "firmwareschema", "FirmwareSchema", nil, false, `{"schema": {"ProcTurboMode": {"attribute_type": "Boolean"}}}`, ``, justAge},
	{"hardwaredata", "hardwaredata", "HardwareData", []string{"hd"}, false, `{"hardware": {"hostname": "h"}}`, ``, justAge},
	{"hostclaims", "hostclaim", "HostClaim", nil, true, `{"poweredOn": true}`, `{"poweredOn": true}`, justAge},
	{"hostdeploypolicies", "hostdeploypolicy", "HostDeployPolicy", nil, true, `{"hostClaimNamespaces": {"names": ["a"]}}`, ``, justAge},
	{"hostfirmwarecomponents", "hostfirmwarecomponents", "HostFirmwareComponents", nil, true, `{"updates": []}`, `{"components": [{"component": "bios", "initialVersion": "1"}]}`, justAge},
	{"hostfirmwaresettings", "hostfirmwaresettings", "HostFirmwareSettings", []string{"hfs"}, true, `{"settings": {"ProcVirtualization": "Enabled", "Retries": 3}}`, `{"settings": {"Retries": "2"}}`, justAge},
	{"hostnetworkattachments", "hostnetworkattachment", "HostNetworkAttachment", nil, true, `{"nativeVLAN": 10}`, ``,
		`NAME|MODE|NATIVE VLAN|AGE
		x|access|10|AGE`},
	{"hostupdatepolicies", "hostupdatepolicy", "HostUpdatePolicy", nil, false, `{"firmwareUpdates": "onReboot"}`, ``, justAge},
	{"preprovisioningimages", "preprovisioningimage", "PreprovisioningImage", []string{"ppimg"}, true, `{"architecture": "x86_64", "acceptFormats": ["iso"]}`, condition("Ready", "False", "Building"),
		`NAME|READY|REASON
		x|False|Building`},
	{"provisionings", "provisioning", "Provisioning", nil, true, `{"provisioningNetwork": "Managed"}`, `{"readyReplicas": 1}`, justAge},
}

// isNamespaced reports whether objects of the kind are in a namespace.
func (k kindOfCRD) isNamespaced() bool { return k.kind != "Provisioning" }

// justAge is what is printed of a kind whose CRD names no columns.
const justAge = `NAME|AGE
		x|AGE`

func condition(name, status, reason string) string {
	return fmt.Sprintf(`{"conditions": [{"type": %q, "status": %q, "reason": %q, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}`, name, status, reason)
}

// TestTables has one object of each kind, found by each of its names.
func TestTables(t *testing.T) {
	k := newShell(t)
	for _, of := range kindsOfCRDs {
		if of.table == "" {
			continue
		}
		t.Run(of.kind, func(t *testing.T) {
			k := k.in(t)
			k.ok(fmt.Sprintf(`{"apiVersion": "metal3.io/v1alpha1", "kind": %q, "metadata": {"name": "x", "annotations": {%q: ""}}, "spec": %s}`, of.kind, metal3.PausedAnnotation, of.spec), "create", "-f", "-") // paused, so that the status remains as it is set here
			if !of.isNamespaced() {
				defer func() { _, _, _ = k.run("", "delete", of.resource, "x") }() // which warns that it is in no namespace
			}
			if of.status != "" {
				k.ok("", "patch", of.resource, "x", "--subresource=status", "--type=merge", "-p", `{"status": `+of.status+`}`)
			}
			var want []string
			for line := range strings.Lines(of.table) {
				want = append(want, strings.TrimSpace(line))
			}
			for _, name := range append(of.shortNames, of.singular, of.resource) {
				var got []string
				for line := range strings.Lines(k.ok("", "get", name)) {
					cells := columnsOf(line)
					if last := len(cells) - 1; regexp.MustCompile(`^\d+[smh]`).MatchString(cells[last]) {
						cells[last] = "AGE"
					}
					got = append(got, strings.Join(cells, "|"))
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("kubectl get %s (- want, + got):\n%s", name, diff)
				}
			}
			if of.hasStatus {
				k.prints(of.resource+"/x", "", "get", of.resource, "x", "--subresource=status", "-o", "jsonpath="+of.resource+"/{.metadata.name}")
			}
		})
	}
}
