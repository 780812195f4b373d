// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestKubectlApply: the client's three-way merge.
func TestKubectlApply(t *testing.T) {
	k := newShell(t)
	k.prints("baremetalhost.metal3.io/h created", hostYAML("h", "online: true, description: rack 7, networkInterfaces: [{name: eth0}, {name: eth1}]"), "apply", "-f", "-")
	k.settled("h")
	k.prints("baremetalhost.metal3.io/h unchanged", hostYAML("h", "online: true, description: rack 7, networkInterfaces: [{name: eth0}, {name: eth1}]"), "apply", "-f", "-")
	// What the manifest leaves out is removed if it was applied, and kept if another manager has set it.
	k.ok("", "patch", "bmh", "h", "--type=merge", "-p", `{"spec":{"bootMACAddress":"00:00:00:00:00:01"}}`)
	k.prints("baremetalhost.metal3.io/h configured", hostYAML("h", "online: false, networkInterfaces: [{name: eth2}]"), "apply", "-f", "-")
	if got, want := k.field("h", ".spec.online}/{.spec.description}/{.spec.bootMACAddress}/{.spec.networkInterfaces[*].name"), "false//00:00:00:00:00:01/eth2"; got != want {
		t.Errorf("after apply %q, want %q", got, want)
	}
	t.Run("of what was created without it", func(t *testing.T) {
		k := k.in(t)
		k.create("created")
		_, stderr, code := k.run(hostYAML("created", "online: false"), "apply", "-f", "-")
		if code != 0 || !strings.Contains(stderr, "is missing the kubectl.kubernetes.io/last-applied-configuration annotation") {
			t.Errorf("exit code %d: %s", code, stderr)
		}
		k.prints("baremetalhost.metal3.io/created unchanged", hostYAML("created", "online: false"), "apply", "-f", "-")
		if got := k.ok("", "apply", "view-last-applied", "bmh/created"); !strings.Contains(got, "online: false") {
			t.Errorf("view-last-applied prints %q", got)
		}
	})
	t.Run("prune", func(t *testing.T) {
		k := k.in(t)
		apply := []string{"apply", "-f", "-", "--prune", "-l", "set=a", "--prune-allowlist=metal3.io/v1alpha1/BareMetalHost"}
		labelled := func(name string) string {
			return strings.Replace(hostYAML(name, "online: true"), "{name:", "{labels: {set: a}, name:", 1)
		}
		k.ok(labelled("first"), apply...)
		k.prints("baremetalhost.metal3.io/second created\nbaremetalhost.metal3.io/first pruned", labelled("second"), apply...)
	})
}

// TestKubectlDiff: what would change is shown, and nothing else.
func TestKubectlDiff(t *testing.T) {
	k := newShell(t)
	for name, flags := range map[string][]string{"client-side": nil, "server-side": {"--server-side"}} {
		t.Run(name, func(t *testing.T) {
			k := k.in(t)
			k.ok(hostYAML(name, "online: true, description: rack 7"), append([]string{"apply", "-f", "-"}, flags...)...)
			k.settled(name)
			diff := append([]string{"diff", "-f", "-"}, flags...)
			if stdout, stderr, code := k.run(hostYAML(name, "online: true, description: rack 7"), diff...); code != 0 || stdout+stderr != "" {
				t.Errorf("without a change: exit code %d: %s%s", code, stdout, stderr)
			}
			stdout, stderr, code := k.run(hostYAML(name, "online: false, description: rack 7"), diff...)
			if code != 1 {
				t.Errorf("with a change: exit code %d: %s", code, stderr)
			}
			if got, want := changedLines(stdout), []string{"-  generation: 1", "+  generation: 2", "-  online: true", "+  online: false"}; !slices.Equal(got, want) {
				t.Errorf("shows %q, want %q:\n%s", got, want, stdout)
			}
			if stdout, _, code := k.run(hostYAML("new", "online: true"), diff...); code != 1 || !strings.Contains(stdout, "+  name: new\n") {
				t.Errorf("of a new host: exit code %d: %s", code, stdout)
			}
			if got := k.field(name, ".spec.online"); got != "true" {
				t.Error("diff has changed the host")
			}
			k.refused("", []string{"get", "bmh", "new"}, "NotFound")
		})
	}
}

func changedLines(diff string) (changed []string) {
	for _, line := range strings.Split(diff, "\n") {
		if (strings.HasPrefix(line, "-") || strings.HasPrefix(line, "+")) && !strings.HasPrefix(line, "---") && !strings.HasPrefix(line, "+++") {
			changed = append(changed, line)
		}
	}
	return changed
}

// TestKubectlServerSideApply: who owns which field, and what happens when another
// wants it.
func TestKubectlServerSideApply(t *testing.T) {
	k := newShell(t)
	apply := func(manager string, more ...string) []string {
		return append([]string{"apply", "--server-side", "--field-manager=" + manager, "-f", "-"}, more...)
	}
	first := hostYAML("h", "online: true, description: rack 7, networkInterfaces: [{name: eth0}, {name: eth1}], consumerRef: {kind: Pod, name: a}")
	k.prints("baremetalhost.metal3.io/h serverside-applied", first, apply("first")...)
	k.settled("h")
	before := k.field("h", ".metadata.resourceVersion")
	k.prints("baremetalhost.metal3.io/h serverside-applied", first, apply("first")...)
	if after := k.field("h", ".metadata.resourceVersion"); after != before {
		t.Errorf("applying the same again has written: resourceVersion %s, then %s", before, after)
	}

	t.Run("another manager's field", func(t *testing.T) {
		k := k.in(t)
		k.ok(hostYAML("h", "online: true"), apply("second")...) // the same value is shared
		k.refused(hostYAML("h", "online: false, description: rack 8"), apply("third"),
			"Apply failed with 3 conflicts: conflicts with \"first\":\n- .spec.description\n- .spec.online\nconflicts with \"second\":\n- .spec.online\n", "--force-conflicts")
	})
	t.Run("lists and references that are owned as a whole", func(t *testing.T) {
		k := k.in(t)
		k.refused(hostYAML("h", "online: true, networkInterfaces: [{name: eth2}]"), apply("third"), `conflict with "first": .spec.networkInterfaces`)
		k.refused(hostYAML("h", "online: true, consumerRef: {kind: Machine}"), apply("third"), `conflict with "first": .spec.consumerRef`)
	})
	t.Run("force-conflicts", func(t *testing.T) {
		k := k.in(t)
		k.ok(hostYAML("h", "online: false, networkInterfaces: [{name: eth2}]"), apply("third", "--force-conflicts")...)
		if got := k.field("h", ".spec.online} {.spec.networkInterfaces[*].name} {.spec.description"); got != "false eth2 rack 7" {
			t.Errorf("after --force-conflicts: %q", got)
		}
		owners := managedBy(t, k, "h")
		if owners["first"]["spec"]["f:online"] || owners["first"]["spec"]["f:networkInterfaces"] || !owners["first"]["spec"]["f:description"] || !owners["third"]["spec"]["f:online"] {
			t.Errorf("owners are %v", owners)
		}
		k.refused(first, apply("first"), `"third"`, ".spec.networkInterfaces", ".spec.online")
	})
	t.Run("what a manager no longer applies goes", func(t *testing.T) {
		k := k.in(t)
		k.ok(hostYAML("h", "online: false"), apply("first")...)
		if got := k.field("h", ".spec.description} {.spec.networkInterfaces[*].name} {.spec.consumerRef.name"); got != " eth2 " {
			t.Errorf("left are %q", got)
		}
	})
}

// TestKubectlServerSideApplyOfStatus: conditions are merged by their type, and the
// owners of status and spec are told apart.
func TestKubectlServerSideApplyOfStatus(t *testing.T) {
	k := newShell(t)
	k.create("h")
	status := func(manager, kind string) []string {
		k.ok(`{"apiVersion":"metal3.io/v1alpha1","kind":"BareMetalHost","metadata":{"name":"h","labels":{"not":"here"}},"spec":{"online":false},"status":{"conditions":[
			{"type":"`+kind+`","status":"True","reason":"Tested","message":"by `+manager+`","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`,
			"apply", "--server-side", "--subresource=status", "--field-manager="+manager, "-f", "-")
		return strings.Fields(k.field("h", ".status.conditions[*].type"))
	}
	before := strings.Fields(k.field("h", ".status.conditions[*].type"))
	if got, want := status("rack", "example.com/Racked"), append(slices.Clone(before), "example.com/Racked"); !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
		t.Errorf("conditions are %v, want %v", got, want)
	}
	if got := status("cable", "example.com/Cabled"); len(got) != len(before)+2 {
		t.Errorf("conditions are %v: lists of two managers are not merged", got)
	}
	if got := k.field("h", ".spec.online}/{.metadata.labels.not"); got != "true/" {
		t.Errorf("/status has changed spec and labels: %q", got)
	}
	owners := managedBy(t, k, "h")
	if got := slices.Sorted(maps.Keys(owners["rack"])); !slices.Equal(got, []string{"status"}) {
		t.Errorf("rack owns %v", owners["rack"])
	}
	if got := slices.Sorted(maps.Keys(owners["kubectl-create"])); !slices.Equal(got, []string{"spec"}) {
		t.Errorf("kubectl-create owns %v", owners["kubectl-create"])
	}
	t.Run("not by the main resource", func(t *testing.T) {
		k := k.in(t)
		k.ok(`{"apiVersion":"metal3.io/v1alpha1","kind":"BareMetalHost","metadata":{"name":"h"},"spec":{"online":true},"status":{"errorMessage":"no"}}`,
			"apply", "--server-side", "--field-manager=main", "-f", "-")
		if owners := managedBy(t, k, "h"); owners["main"]["status"] != nil || !owners["main"]["spec"]["f:online"] {
			t.Errorf("main owns %v", owners["main"])
		}
		if got := k.field("h", ".status.errorMessage"); got != "" {
			t.Errorf("errorMessage is %q", got)
		}
	})
}

// managedBy are the fields of a host that each manager owns: by the part of the
// host (spec, status, metadata), two levels of field names.
func managedBy(t *testing.T, k kubectlShell, host string) map[string]map[string]map[string]bool {
	t.Helper()
	var object metav1.PartialObjectMetadata
	if err := json.Unmarshal([]byte(k.ok("", "get", "bmh", host, "-o", "json", "--show-managed-fields")), &object); err != nil {
		t.Fatal(err)
	}
	owners := map[string]map[string]map[string]bool{}
	for _, entry := range object.ManagedFields {
		if entry.Time.IsZero() || entry.APIVersion != "metal3.io/v1alpha1" {
			t.Errorf("managedFields has %+v", entry)
		}
		var parts map[string]map[string]any
		if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &parts); err != nil {
			t.Fatal(err)
		}
		if owners[entry.Manager] == nil {
			owners[entry.Manager] = map[string]map[string]bool{}
		}
		for part, fields := range parts {
			owned := map[string]bool{}
			for field := range fields {
				owned[field] = true
			}
			owners[entry.Manager][strings.TrimPrefix(part, "f:")] = owned
		}
		if _, status := parts["f:status"]; status != (entry.Subresource == "status") {
			t.Errorf("%s owns %v by the subresource %q", entry.Manager, parts, entry.Subresource)
		}
	}
	return owners
}
