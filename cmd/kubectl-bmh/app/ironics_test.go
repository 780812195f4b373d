// SPDX-License-Identifier: Apache-2.0

package app

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	ironic "github.com/metal3-io/metal3-apiserver/pkg/apis/ironic/v1alpha1"
)

func instance(name string, status map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": ironic.SchemeGroupVersion.String(), "kind": "IronicInstance", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"endpoint": "https://" + name}, "status": status,
	}}
}

func conditions(acceptedStatus, reachableStatus, message string) []any {
	return []any{
		map[string]any{"type": ironic.IronicInstanceAccepted, "status": acceptedStatus, "reason": "Accepted", "lastTransitionTime": "2026-11-22T11:00:00Z"},
		map[string]any{"type": ironic.IronicInstanceReachable, "status": reachableStatus, "reason": "Unreachable", "message": message, "lastTransitionTime": "2026-11-22T11:56:00Z"},
	}
}

func TestIronics(t *testing.T) {
	c := newCluster(
		instance("room-b", map[string]any{"conditions": conditions("True", "True", ""), "apiVersion": "1.96", "nodes": int64(412), "hosts": int64(2), "hostsByState": map[string]any{"provisioned": int64(2)}, "observedAt": "2026-11-22T11:59:57Z"}),
		instance("room-c", map[string]any{"conditions": conditions("True", "False", "connection refused"), "hosts": int64(0)}),
	)
	if code := c.run(t, "ironics"); code != exitOK {
		t.Errorf("exit code %d: %s", code, c.errOut)
	}
	if want := "room-b has answered for 4m: version 1.96 of its API, 412 nodes.\n2 hosts have their nodes in it: 2 provisioned. They were last observed 3s ago.\n\nroom-c has not answered for 4m (Unreachable): connection refused.\n"; !strings.HasPrefix(c.out, want) {
		t.Errorf("printed is\n%s", c.out)
	}
	expect(t, "the explanation", c.out, "https://room-c")
	if code := c.run(t, "ironics", "-o", "name"); code != exitOK || c.out != "ironicinstance.ironic.metal3-apiserver.io/room-b\nironicinstance.ironic.metal3-apiserver.io/room-c\n" {
		t.Errorf("exit code %d: %s%s", code, c.out, c.errOut)
	}
	if c.run(t, "__complete", "--field-selector", "status.i"); c.out != "status.ironic.instance=room-b\nstatus.ironic.instance=room-c\n:4\n" {
		t.Errorf("completed is %q", c.out)
	}
}

// TestNoIronics: where there are none, or they are not shown, the command says so.
func TestNoIronics(t *testing.T) {
	resource := instanceResource.GroupResource()
	for name, test := range map[string]struct {
		err  error
		code int
		says string
	}{
		"there are none":    {nil, exitOK, "all hosts are in the Ironic of the server's flags"},
		"an older server":   {apierrors.NewNotFound(resource, ""), exitError, "the server does not serve ironicinstances: it is too old"},
		"without the right": {apierrors.NewForbidden(resource, "", nil), exitError, "metal3-ironics-editor"},
	} {
		c := newCluster()
		if test.err != nil {
			c.dynamic.PrependReactor("list", "ironicinstances", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, test.err })
		}
		if code := c.run(t, "ironics"); code != test.code || c.out != "" || !strings.Contains(c.errOut, test.says) {
			t.Errorf("%s: exit code %d: %s%s", name, code, c.out, c.errOut)
		}
		if code := c.run(t, "__complete", "--field-selector", "status.i"); code != exitOK || c.out != ":4\n" {
			t.Errorf("%s: completed is %q", name, c.out)
		}
	}
}
