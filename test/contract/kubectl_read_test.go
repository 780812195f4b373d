// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// columnsOf splits a line of a table at two and more spaces.
func columnsOf(line string) []string {
	return regexp.MustCompile(` {2,}`).Split(strings.TrimSpace(line), -1)
}

func TestKubectlGetFormats(t *testing.T) {
	k := newShell(t)
	k.create("b", "a")
	k.ok("", "label", "bmh", "a", "rack=7")
	for _, resource := range []string{"bmh", "bmhost", "baremetalhost", "baremetalhosts", "baremetalhosts.metal3.io", "baremetalhosts.v1alpha1.metal3.io", "BareMetalHost"} {
		k.prints("baremetalhost.metal3.io/a\nbaremetalhost.metal3.io/b", "", "get", resource, "-o", "name")
	}
	table := strings.Split(k.ok("", "get", "bmh"), "\n")
	if len(table) != 3 || columnsOf(table[0])[0] != "NAME" || !strings.HasPrefix(table[1], "a ") || !strings.Contains(table[1], " unmanaged ") || !regexp.MustCompile(` \d+s$`).MatchString(table[1]) {
		t.Errorf("table is %q", table)
	}
	wide := strings.Split(k.ok("", "get", "bmh", "-o", "wide"), "\n")
	if normal := columnsOf(table[0]); len(columnsOf(wide[0])) <= len(normal) || !slices.Equal(columnsOf(wide[0])[:len(normal)], normal) {
		t.Errorf("wide columns are %q, without wide they are %q", columnsOf(wide[0]), normal)
	}
	for want, format := range map[string]string{
		"a true|b true|": `jsonpath={range .items[*]}{.metadata.name} {.spec.online}|{end}`,
		"NAME   STATE       RACK\na      unmanaged   7\nb      unmanaged   <none>": "custom-columns=NAME:.metadata.name,STATE:.status.provisioning.state,RACK:.metadata.labels.rack",
		"a unmanaged, b unmanaged, ": `go-template={{range .items}}{{.metadata.name}} {{.status.provisioning.state}}, {{end}}`,
	} {
		k.prints(want, "", "get", "bmh", "-o", format)
	}
	if got := k.ok("", "get", "bmh", "-L", "rack", "--show-labels", "--show-kind", "--no-headers"); !regexp.MustCompile(`(?s)^baremetalhost.metal3.io/a .*s +7 +rack=7\nbaremetalhost.metal3.io/b .*s +<none>$`).MatchString(got) {
		t.Errorf("labels are printed as %q", got)
	}
	for format, wants := range map[string][]string{
		"yaml":                     {"apiVersion: metal3.io/v1alpha1\nkind: BareMetalHost\nmetadata:\n", "\n  automatedCleaningMode: metadata\n", "\n    state: unmanaged\n"},
		"json":                     {`"kind": "BareMetalHost"`, `"online": true`},
		"jsonpath-as-json={.spec}": {`"online": true`},
	} {
		got := k.ok("", "get", "bmh", "a", "-o", format)
		for _, want := range wants {
			if !strings.Contains(got, want) {
				t.Errorf("-o %s lacks %q:\n%s", format, want, got)
			}
		}
		if strings.Contains(got, "managedFields") {
			t.Errorf("-o %s shows managedFields", format)
		}
	}
	if got := k.ok("", "get", "bmh", "-o", "yaml"); !strings.HasPrefix(got, "apiVersion: v1\nitems:\n- apiVersion: metal3.io/v1alpha1\n  kind: BareMetalHost\n") {
		t.Errorf("the list begins %q", got[:min(len(got), 200)])
	}
	if got := k.ok("", "get", "bmh,hd,secrets", "-o", "name"); !strings.HasPrefix(got, "baremetalhost.metal3.io/a\n") {
		t.Errorf("of several kinds: %q", got)
	}
	if got := k.ok("", "get", "bmh", "-A", "-o", "custom-columns=:.metadata.namespace"); !strings.Contains(got, k.ns) {
		t.Errorf("hosts are in the namespaces %q", got)
	}
	k.refused("", []string{"get", "bmh", "none"}, `Error from server (NotFound): baremetalhosts.metal3.io "none" not found`)
	if _, stderr, code := k.run("", "get", "hardwaredata"); code != 0 || !strings.Contains(stderr, "No resources found in "+k.ns) {
		t.Errorf("of none: exit code %d, %q", code, stderr)
	}
}
