// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"testing"
)

func TestKubectlPatch(t *testing.T) {
	k := newShell(t)
	k.ok(hostYAML("h", "online: true, networkInterfaces: [{name: eth0}, {name: eth1}]"), "create", "-f", "-")
	k.settled("h")
	patch := func(kind, patch string, more ...string) []string {
		return append([]string{"patch", "bmh", "h", "--type=" + kind, "-p", patch}, more...)
	}
	t.Run("merge", func(t *testing.T) {
		k := k.in(t)
		k.prints("baremetalhost.metal3.io/h patched", "", patch("merge", `{"spec":{"description":"rack 7","networkInterfaces":[{"name":"eth2"}]}}`)...)
		if got := k.field("h", ".spec.description} {.spec.networkInterfaces[*].name} {.metadata.generation"); got != "rack 7 eth2 2" {
			t.Errorf("after the patch: %q", got)
		}
		k.prints("baremetalhost.metal3.io/h patched (no change)", "", patch("merge", `{"spec":{"description":"rack 7"}}`)...)
		k.prints("baremetalhost.metal3.io/h patched", "", patch("merge", `{"spec":{"description":null}}`)...)
		if got := k.field("h", ".spec.description"); got != "" {
			t.Errorf("null has left %q", got)
		}
		k.refused("", patch("merge", `{"metadata":{"resourceVersion":"1"},"spec":{"online":false}}`), "(Conflict)", "the object has been modified")
		k.refused("", patch("merge", `{"metadata":{"uid":"1"}}`), "metadata.uid")
		k.refused("", patch("merge", `{"spec":{"online":"yes"}}`), "BareMetalHostSpec.spec.online of type bool")
		k.refused("", patch("merge", `{"spec":{"inspectionMode":"sometimes"}}`), `The BareMetalHost "h" is invalid: spec.inspectionMode: Unsupported value: "sometimes"`)
		k.refused("", patch("merge", `{"spec":`), "invalid JSON patch")
	})
	t.Run("json", func(t *testing.T) {
		k := k.in(t)
		k.prints("baremetalhost.metal3.io/h patched", "", patch("json", `[{"op":"test","path":"/spec/online","value":true},{"op":"replace","path":"/spec/online","value":false},{"op":"add","path":"/spec/networkInterfaces/-","value":{"name":"eth3"}}]`)...)
		if got := k.field("h", ".spec.online} {.spec.networkInterfaces[*].name"); got != "false eth2 eth3" {
			t.Errorf("after the patch: %q", got)
		}
		k.refused("", patch("json", `[{"op":"test","path":"/spec/online","value":true},{"op":"add","path":"/spec/description","value":"no"}]`), "The request is invalid")
		k.refused("", patch("json", `[{"op":"remove","path":"/spec/description"}]`), "The request is invalid")
		if got := k.field("h", ".spec.description"); got != "" {
			t.Errorf("a patch whose test fails has written %q", got)
		}
	})
	t.Run("strategic, as a CRD does", func(t *testing.T) {
		k := k.in(t)
		before := k.field("h", ".metadata.resourceVersion")
		k.refused("", patch("strategic", `{"spec":{"description":"rack 8"}}`), "application/strategic-merge-patch+json is not supported by metal3.io/v1alpha1, Kind=BareMetalHost")
		if after := k.field("h", ".metadata.resourceVersion"); after != before {
			t.Errorf("the host was written: %s, before %s", after, before)
		}
	})
	t.Run("from a file", func(t *testing.T) {
		k := k.in(t)
		k.ok("", "patch", "-f", k.file("h.yaml", hostYAML("h", "online: true")), "--type=merge", "--patch-file", k.file("patch.yaml", "spec: {description: from a file}"))
		if got := k.field("h", ".spec.description"); got != "from a file" {
			t.Errorf("description is %q", got)
		}
	})
	t.Run("the status, and only that", func(t *testing.T) {
		k := k.in(t)
		generation := k.field("h", ".metadata.generation")
		k.ok("", patch("merge", `{"status":{"errorMessage":"patched"},"spec":{"description":"no"},"metadata":{"labels":{"no":"no"}}}`, "--subresource=status")...)
		k.ok("", patch("merge", `{"status":{"errorMessage":"no"}}`)...)
		if got, want := k.field("h", ".status.errorMessage}/{.spec.description}/{.metadata.labels.no}/{.metadata.generation"), "patched/from a file//"+generation; got != want {
			t.Errorf("after both patches %q, want %q", got, want)
		}
		if got := k.ok("", "get", "bmh", "h", "--subresource=status", "-o", "jsonpath={.status.errorMessage}"); got != "patched" {
			t.Errorf("get --subresource=status has the errorMessage %q", got)
		}
		k.refused("", patch("merge", `{"status":{"operationalStatus":"splendid"}}`, "--subresource=status"), "status.operationalStatus", "splendid")
	})
	k.refused("", []string{"patch", "bmh", "none", "--type=merge", "-p", `{"spec":{"online":true}}`}, `baremetalhosts.metal3.io "none" not found`)
}
