// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestAttachmentInUse: a HostNetworkAttachment stays as it is, and there, while an
// interface of a host of its namespace refers to it. Hosts of other namespaces cannot hold it.
func TestAttachmentInUse(t *testing.T) {
	k := newShell(t)
	_, elsewhere := s.Begin(t)
	attachment := func(vlan int) string {
		return fmt.Sprintf("apiVersion: metal3.io/v1alpha1\nkind: HostNetworkAttachment\nmetadata: {name: net}\nspec: {nativeVLAN: %d}\n", vlan)
	}
	far := k
	far.ns = elsewhere
	for _, user := range []kubectlShell{k, far} {
		user.ok(hostYAML("h", fmt.Sprintf("online: false, networkInterfaces: [{name: eno1, hostNetworkAttachment: {name: net, namespace: %s}}, {name: eno2}]", k.ns)), "create", "-f", "-")
	}
	for _, shell := range []kubectlShell{k, far} { // the other namespace's own one is nobody's
		shell.ok(attachment(10), "create", "-f", "-")
	}
	const near = "host h, interface eno1"
	k.refused("", []string{"delete", "hostnetworkattachment", "net"}, "Forbidden", "while it is used by "+near)
	if _, stderr, _ := k.run("", "delete", "hostnetworkattachment", "net"); strings.Contains(stderr, elsewhere) {
		t.Errorf("the refusal names another namespace: %s", stderr)
	}
	k.refused("", []string{"delete", "hostnetworkattachment", "--all"}, "while it is used by")
	k.refused(attachment(11), []string{"replace", "-f", "-"}, "spec: Forbidden: cannot change while it is used by", near)
	k.ok("", "label", "hostnetworkattachment", "net", "a=b")
	far.ok(attachment(11), "apply", "--server-side", "--force-conflicts", "-f", "-")
	far.ok("", "delete", "hostnetworkattachment", "net")

	remove := `[{"op": "remove", "path": "/spec/networkInterfaces/0"}]`
	k.ok("", "patch", "bmh", "h", "--type=json", "-p", remove)
	// The host of the other namespace still refers to it.
	k.ok("", "patch", "hostnetworkattachment", "net", "--type=merge", "-p", `{"spec": {"nativeVLAN": 12}}`)
	k.ok("", "delete", "hostnetworkattachment", "net")
}

// TestNamespaceOfAttachment: a namespace goes with its attachments and the hosts that
// refer to them, in whatever order its kinds are deleted.
func TestNamespaceOfAttachment(t *testing.T) {
	k := newShell(t)
	k.ok("apiVersion: metal3.io/v1alpha1\nkind: HostNetworkAttachment\nmetadata: {name: net}\nspec: {nativeVLAN: 10}\n", "create", "-f", "-")
	k.ok(hostYAML("h", "online: false, networkInterfaces: [{name: eno1, hostNetworkAttachment: {name: net}}]"), "create", "-f", "-")
	if err := s.Core.CoreV1().Namespaces().Delete(k.ctx, k.ns, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	comes(t, k.ctx, func() string {
		ns, err := s.Core.CoreV1().Namespaces().Get(k.ctx, k.ns, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return ""
		}
		return fmt.Sprintf("the namespace is still there: %v, %v", ns.Status.Conditions, err)
	})
}
