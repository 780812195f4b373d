// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"fmt"
	"testing"
)

func TestKubectlDelete(t *testing.T) {
	k := newShell(t)
	k.create("a", "b", "c", "d", "e")
	k.ok("", "label", "bmh", "b", "c", "rack=7")
	k.prints(fmt.Sprintf("baremetalhost.metal3.io \"a\" deleted from %s namespace", k.ns), "", "delete", "bmh", "a")
	k.refused("", []string{"delete", "bmh", "a"}, `Error from server (NotFound): baremetalhosts.metal3.io "a" not found`)
	k.ok("", "delete", "bmh", "a", "--ignore-not-found")
	k.ok("", "delete", "bmh", "-l", "rack=7")
	k.prints("baremetalhost.metal3.io/d\nbaremetalhost.metal3.io/e", "", "get", "bmh", "-o", "name")
	k.ok("", "delete", "bmh", "--field-selector=metadata.name=d")
	k.prints("baremetalhost.metal3.io/e", "", "get", "bmh", "-o", "name")
	k.ok(hostYAML("e", "online: true"), "delete", "-f", "-")
	k.create("f", "g")
	k.ok("", "delete", "bmh", "--all")
	k.prints("", "", "get", "bmh", "-o", "name")
}

// TestKubectlDeleteOfManagedHosts: kubectl waits until their nodes are gone.
func TestKubectlDeleteOfManagedHosts(t *testing.T) {
	k := newShell(t)
	for _, name := range []string{"a", "b"} {
		k.available(name)
		if _, ok := s.ironic.Node(k.ns + "~" + name); !ok {
			t.Fatalf("Ironic has no node of %s", name)
		}
	}
	k.ok("", "delete", "bmh", "--all", "--timeout=5m")
	for _, name := range []string{"a", "b"} {
		if _, ok := s.ironic.Node(k.ns + "~" + name); ok {
			t.Errorf("the node of %s has outlived it", name)
		}
	}
}

// TestKubectlDeleteCascade: what becomes of a ConfigMap that a host owns.
func TestKubectlDeleteCascade(t *testing.T) {
	for _, cascade := range []string{"background", "foreground", "orphan"} {
		t.Run(cascade, func(t *testing.T) {
			k := newShell(t)
			k.create("h")
			k.ok(fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: owned, ownerReferences: [{apiVersion: metal3.io/v1alpha1, kind: BareMetalHost, name: h, uid: %s, blockOwnerDeletion: true}]}", k.field("h", ".metadata.uid")),
				"create", "-f", "-")
			// The garbage collector looks for new kinds every 30 seconds.
			k.ok("", "delete", "bmh", "h", "--cascade="+cascade, "--timeout=5m")
			switch cascade {
			case "background":
				k.ok("", "wait", "configmap/owned", "--for=delete", "--timeout=5m")
			case "foreground":
				k.refused("", []string{"get", "configmap", "owned"}, "NotFound")
			case "orphan":
				if owners := k.ok("", "get", "configmap", "owned", "-o", "jsonpath={.metadata.ownerReferences}{.metadata.deletionTimestamp}"); owners != "" {
					t.Errorf("the orphan has the owners %s", owners)
				}
			}
		})
	}
}

// TestKubectlDryRun: the server says what would become of a request, and nothing
// is stored, nor does Ironic hear of it.
func TestKubectlDryRun(t *testing.T) {
	k := newShell(t)
	existing := k.available("h")
	node, _ := s.ironic.Node(k.ns + "~h")
	id := fmt.Sprint(node["uuid"])
	before := k.field("h", ".metadata.generation}{.metadata.labels}{.metadata.deletionTimestamp}{.spec")
	dryRun := func(stdin string, args ...string) string {
		return k.ok(stdin, append(args, "--dry-run=server")...)
	}
	k.ok("", "create", "secret", "generic", "new-bmc", "--from-literal=username=admin", "--from-literal=password=password")
	created := managedHostYAML("new")

	for _, c := range []struct{ want, got string }{
		{"baremetalhost.metal3.io/new created (server dry run)", dryRun(created, "create", "-f", "-")},
		{"baremetalhost.metal3.io/new created (server dry run)", dryRun(created, "apply", "-f", "-")},
		{"baremetalhost.metal3.io/new serverside-applied (server dry run)", dryRun(created, "apply", "--server-side", "-f", "-")},
		{"baremetalhost.metal3.io/h patched", dryRun("", "patch", "bmh", "h", "--type=merge", "-p", `{"spec":{"online":false}}`)},
		{"baremetalhost.metal3.io/h labeled (server dry run)", dryRun("", "label", "bmh", "h", "dry=run")},
		{"baremetalhost.metal3.io/h replaced (server dry run)", dryRun(existing, "replace", "-f", "-")},
		{fmt.Sprintf("baremetalhost.metal3.io \"h\" deleted from %s namespace (server dry run)", k.ns), dryRun("", "delete", "bmh", "h")},
		{"false", dryRun("", "patch", "bmh", "h", "--type=merge", "-p", `{"spec":{"online":false}}`, "-o", "jsonpath={.spec.online}")},
		// What the server fills in is shown.
		{"metadata", dryRun(hostYAML("new", "online: true"), "create", "-f", "-", "-o", "jsonpath={.spec.automatedCleaningMode}")},
	} {
		if c.got != c.want {
			t.Errorf("kubectl prints %q, want %q", c.got, c.want)
		}
	}
	k.refused(hostYAML("new", "online: true, inspectionMode: sometimes"), []string{"create", "--dry-run=server", "-f", "-"}, "spec.inspectionMode")
	k.ok(`{"spec":{"action":"off"}}`, "create", "--raw", "/apis/metal3.io/v1alpha1/namespaces/"+k.ns+"/baremetalhosts/h/power?dryRun=All", "-f", "-")

	// By the time that another host has got through, these would have.
	k.available("later")
	if after := k.field("h", ".metadata.generation}{.metadata.labels}{.metadata.deletionTimestamp}{.spec"); after != before {
		t.Errorf("the host was %s and is %s", before, after)
	}
	k.refused("", []string{"get", "bmh", "new"}, "NotFound")
	if _, ok := s.ironic.Node(k.ns + "~new"); ok {
		t.Error("Ironic has a node of a host that was created on trial")
	}
	if node, _ := s.ironic.Node(k.ns + "~h"); node["uuid"] != id || node["power_state"] != "power on" {
		t.Errorf("the node is %v, %v", node["uuid"], node["power_state"])
	}
}
