// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// TestInstallHosts: the hosts of an install-config are read as in it if they are all that the file has.
func TestInstallHosts(t *testing.T) {
	const hosts = `
- name: m-0
  role: master
  bmc:
    address: redfish-virtualmedia://192.0.2.1/redfish/v1/Systems/1
    username: admin
    password: pw
    disableCertificateVerification: true
  bootMACAddress: 00:00:5e:00:53:01
  rootDeviceHints: {deviceName: /dev/sda}
- name: w-0
  role: worker
  bmc: {address: "ipmi://192.0.2.2", credentialsName: s}
`
	single, _, _ := strings.Cut(strings.ReplaceAll(strings.TrimPrefix(hosts, "\n- "), "\n  ", "\n"), "\n- ")
	want := []string{
		`metal3/m-0 map[installer.openshift.io/role:control-plane] - {bmc: address: redfish-virtualmedia://192.0.2.1/redfish/v1/Systems/1 credentialsName: m-0-bmc-secret disableCertificateVerification: true bootMACAddress: 00:00:5e:00:53:01 online: true rootDeviceHints: deviceName: /dev/sda} metal3/m-0-bmc-secret admin pw`,
		`metal3/w-0 - - {bmc: address: ipmi://192.0.2.2 credentialsName: s online: true}`,
	}
	for text, want := range map[string][]string{
		"platform:\n  baremetal:\n    hosts:" + strings.ReplaceAll(hosts, "\n", "\n    "): want,
		"baremetal:\n  hosts:" + strings.ReplaceAll(hosts, "\n", "\n  "):                  want,
		"hosts:" + hosts: want,
		hosts:            want,
		single:           want[:1],
		`[{"name": "m-0", "bmc": null}, {"name": "w-0", "bmc": {"address": "ipmi://192.0.2.2", "credentialsName": "s"}}]`: want[1:],
	} {
		_, mistakes, objects := read(t, text)
		if diff := gocmp.Diff(want, summary(t, objects)); diff != "" {
			t.Errorf("%s: mistakes %q, %s", text, mistakes, diff)
		}
	}
}

// TestNoInstallHosts: a bmc that is one value is the address, and what only the first document is, is told.
func TestNoInstallHosts(t *testing.T) {
	names, mistakes, _ := read(t, "hosts:\n- {name: a, bmc: 192.0.2.1, username: u, password: p}\n")
	if len(names) != 1 || len(mistakes) > 0 {
		t.Errorf("hosts %q, mistakes %q", names, mistakes)
	}
	names, mistakes, _ = read(t, "- {name: a, bmc: {address: 192.0.2.1, username: u, password: S3cret, pasword: S3cret}}\n---\n- {name: b, bmc: 192.0.2.2}\n")
	want := []string{`line 1: a: bmc: "pasword": this is no field of a host of an install-config`, "line 3: this document has no hosts with a bmc, as the first has"}
	if diff := gocmp.Diff(want, mistakes); len(names) > 0 || diff != "" {
		t.Errorf("hosts %q, mistakes %s", names, diff)
	}
}
