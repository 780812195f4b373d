package contract

import (
	"os"
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

func TestKubectlEdit(t *testing.T) {
	k := newShell(t)
	k.create("h")
	edit := func(t *testing.T, script string) kubectlShell {
		k := k.in(t)
		// What kubectl cannot save it keeps in TMPDIR.
		return k.with("KUBE_EDITOR="+k.file("editor", "#!/bin/sh\n"+script+"\n"), "TMPDIR="+t.TempDir())
	}
	t.Run("saved", func(t *testing.T) {
		k := edit(t, `sed -i 's/online: true/online: false/' "$1"`)
		k.prints("baremetalhost.metal3.io/h edited", "", "edit", "bmh", "h")
		if got := k.field("h", ".spec.online"); got != "false" {
			t.Errorf("online is %s", got)
		}
	})
	t.Run("left alone", func(t *testing.T) {
		k := edit(t, "true")
		if _, stderr, code := k.run("", "edit", "bmh", "h"); code != 0 || !strings.Contains(stderr, "Edit cancelled, no changes made.") {
			t.Errorf("exit code %d: %s", code, stderr)
		}
	})
	t.Run("refused and given back to the editor with the reason", func(t *testing.T) {
		seen := k.in(t).file("seen", "")
		k := edit(t, `grep -q 'was not valid' "$1" && grep '^# \*' "$1" >`+seen+`
grep -q inspectionMode "$1" && exec sed -i '/inspectionMode/d' "$1"
sed -i 's/^spec:/spec:\n  inspectionMode: sometimes/' "$1"`)
		k.run("", "edit", "bmh", "h")
		reason, err := os.ReadFile(seen)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(reason), `spec.inspectionMode: Unsupported value: "sometimes"`) {
			t.Errorf("the editor was shown %q", reason)
		}
	})
	t.Run("status", func(t *testing.T) {
		k := edit(t, `sed -i 's/errorMessage: .*/errorMessage: edited/; s/online: false/online: true/' "$1"`)
		k.prints("baremetalhost.metal3.io/h edited", "", "edit", "bmh", "h", "--subresource=status")
		if got := k.field("h", ".spec.online} {.status.errorMessage"); got != "false edited" {
			t.Errorf("online and errorMessage are %q", got)
		}
	})
}
