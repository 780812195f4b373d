// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"strings"
	"testing"
)

func TestKubectlCreate(t *testing.T) {
	k := newShell(t)
	k.prints("baremetalhost.metal3.io/h created", hostYAML("h", "online: true"), "create", "-f", "-")
	k.refused(hostYAML("h", "online: true"), []string{"create", "-f", "-"}, `(AlreadyExists)`, `baremetalhosts.metal3.io "h" already exists`)
	k.refused(hostYAML("", "online: true"), []string{"create", "-f", "-"}, "metadata.name: Required value: name or generateName is required")
	k.refused(hostYAML("Upper_Case", "online: true"), []string{"create", "-f", "-"}, `The BareMetalHost "Upper_Case" is invalid`, "metadata.name")
	if got := k.field("h", ".spec.automatedCleaningMode"); got != "metadata" {
		t.Errorf("automatedCleaningMode is %q by default", got)
	}
	t.Run("by name prefix", func(t *testing.T) {
		k := k.in(t)
		manifest := strings.Replace(hostYAML("x", "online: true"), "name: x", "generateName: rack-", 1)
		if got := k.ok(manifest, "create", "-f", "-", "-o", "name"); !strings.HasPrefix(got, "baremetalhost.metal3.io/rack-") {
			t.Errorf("created %q", got)
		}
	})
	t.Run("save-config", func(t *testing.T) {
		k := k.in(t)
		k.ok(hostYAML("saved", "online: true"), "create", "--save-config", "-f", "-")
		k.prints("baremetalhost.metal3.io/saved unchanged", hostYAML("saved", "online: true"), "apply", "-f", "-")
	})
}

func TestKubectlReplace(t *testing.T) {
	k := newShell(t)
	k.create("h")
	k.prints("baremetalhost.metal3.io/h replaced", hostYAML("h", "online: false, description: rack 7"), "replace", "-f", "-")
	if got := k.field("h", ".spec.online} {.spec.description} {.metadata.generation} {.status.provisioning.state"); got != "false rack 7 2 unmanaged" {
		t.Errorf("after replace: %q", got)
	}
	k.refused(hostYAML("none", "online: true"), []string{"replace", "-f", "-"}, `(NotFound)`, `baremetalhosts.metal3.io "none" not found`)

	t.Run("what get has printed", func(t *testing.T) {
		k := k.in(t)
		before := k.field("h", ".metadata.generation}/{.metadata.resourceVersion")
		k.prints("baremetalhost.metal3.io/h replaced", k.ok("", "get", "bmh", "h", "-o", "yaml"), "replace", "-f", "-")
		if after := k.field("h", ".metadata.generation}/{.metadata.resourceVersion"); after != before {
			t.Errorf("generation/resourceVersion went from %s to %s", before, after)
		}
	})
	t.Run("of an old version", func(t *testing.T) {
		k := k.in(t)
		old := k.ok("", "get", "bmh", "h", "-o", "yaml")
		k.ok("", "label", "bmh", "h", "changed=since")
		k.refused(old, []string{"replace", "-f", "-"}, "(Conflict)", "the object has been modified; please apply your changes to the latest version and try again")
	})
	t.Run("force", func(t *testing.T) {
		k := k.in(t)
		uid := k.field("h", ".metadata.uid")
		out := k.ok(hostYAML("h", "online: true"), "replace", "--force", "-f", "-")
		if !strings.Contains(out, `baremetalhost.metal3.io "h" deleted`) || !strings.Contains(out, "baremetalhost.metal3.io/h replaced") {
			t.Errorf("replace --force prints %q", out)
		}
		if got := k.field("h", ".metadata.uid"); got == uid {
			t.Error("replace --force has kept the host")
		}
	})
}
