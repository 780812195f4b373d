// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"regexp"
	"strings"
	"testing"

	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// What kubectl tells about a kind and a host beside `get`.

func TestKubectlExplain(t *testing.T) {
	k := newShell(t)
	for path, wants := range map[string][]string{
		"bmh":                             {"GROUP:      metal3.io\nKIND:       BareMetalHost\nVERSION:    v1alpha1\n", "BareMetalHost is a physical server", "subresources: power, inspect, retry, rebuild,", "\n  spec\t<BareMetalHostSpec>\n"},
		"bmh.spec.bmc":                    {"FIELD: bmc <BMCDetails>", "address\t<string> -required-", "credentialsName\t<string> -required-"},
		"bmh.spec.automatedCleaningMode":  {"ENUM:\n    disabled\n    metadata\n", "DESCRIPTION:\n    What is done to the disks"},
		"bmh.status.conditions":           {"FIELD: conditions <[]Condition>", "lastTransitionTime\t<string> -required-"},
		"bmh.status.ironic":               {"reservation\t<string>"},
		"bmh.status.hardware.cpu":         {"clockMegahertz\t<number>"},
		"hardwaredata.spec.hardware.nics": {"FIELD: nics <[]NIC>", "DESCRIPTION:\n"},
	} {
		out := k.ok("", "explain", path)
		for _, want := range wants {
			if !strings.Contains(out, want) {
				t.Errorf("explain %s lacks %q:\n%s", path, want, out)
			}
		}
	}
	for _, kind := range []string{"bmh", "hardwaredata"} {
		out := k.ok("", "explain", kind, "--recursive")
		if strings.Contains(out, "<empty>") || strings.Contains(out, "__internal") || len(strings.Split(out, "\n")) < 30 {
			t.Errorf("explain %s --recursive prints\n%s", kind, out)
		}
	}
	k.refused("", []string{"explain", "bmh.spec.nope"}, `field "nope" does not exist`)
}

func TestKubectlDescribeAndEvents(t *testing.T) {
	k := newShell(t)
	// No Secret of that name: the controller says so in the status and in an event.
	k.ok(hostYAML("h", "online: true, bmc: {address: 'ipmi://192.0.2.1', credentialsName: missing}"), "create", "-f", "-")
	k.ok("", "wait", "bmh/h", "--for=jsonpath={.status.operationalStatus}=error", "--timeout=5m")
	testbed.Eventually(t, k.ctx, func() string {
		if out, _, _ := k.run("", "events", "--for=bmh/h"); !regexp.MustCompile(`Warning +\w+ +BareMetalHost/h +.*missing`).MatchString(out) {
			return "events print " + out
		}
		return ""
	})
	out := k.ok("", "describe", "bmh", "h")
	for _, want := range []string{
		`(?m)^Name: +h$`, `(?m)^Namespace: +` + k.ns + `$`, `(?m)^Kind: +BareMetalHost$`, `(?m)^  Bmc:\n    Address: +ipmi://192.0.2.1\n    Credentials Name: +missing$`,
		`(?m)^  Operational Status: +error$`, `(?m)^Events:\n  Type +Reason +Age +From +Message\n`, `(?m)^  Warning +\w+ .*Secret "missing"`,
	} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("describe lacks %s:\n%s", want, out)
		}
	}
}
