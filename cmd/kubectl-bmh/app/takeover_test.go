// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// held makes a host one that is held for a reason, with a node.
func held(reason string) func(*metal3.BareMetalHost) {
	return func(h *metal3.BareMetalHost) {
		h.Status.Conditions = []metav1.Condition{{Type: metal3.HeldCondition, Status: metav1.ConditionTrue, Reason: reason, Message: "the node is odd"}}
		h.Status.Provisioning.ID = "node-of-" + h.Name
		h.Status.Ironic.NodeUUID, h.Status.Ironic.InstanceUUID, h.Status.Ironic.MarkedCluster = "node-of-"+h.Name, "instance-of-"+h.Name, "another"
	}
}

func takenOver(t *testing.T, c *cluster) []string {
	t.Helper()
	var all []string
	for _, action := range c.metal3.Actions() {
		if create, ok := action.(clienttesting.CreateActionImpl); ok {
			spec := create.Object.(*metal3.HostTakeover).Spec
			all = append(all, spec.NodeUUID+" "+ptr.Deref(spec.InstanceUUID, "whatever"))
		}
	}
	return all
}

// answerTakeover makes the fake server confirm nodes, but for that of the host called "changed".
func (c *cluster) answerTakeover() {
	c.metal3.PrependReactor("create", "baremetalhosts", func(action clienttesting.Action) (bool, runtime.Object, error) {
		create := action.(clienttesting.CreateActionImpl)
		if create.Name == "changed" {
			return true, nil, apierrors.NewConflict(metal3.Resource("baremetalhosts"), create.Name, errors.New("look at the machine once more"))
		}
		return true, create.Object, nil
	})
}

// TestTakeover: what is confirmed is what was shown, and hosts that are not held are left out.
func TestTakeover(t *testing.T) {
	fleet := func() *cluster {
		c := newCluster(
			host("moved", metal3.StateProvisioned, held(metal3.NodeOfAnotherClusterReason)),
			host("emptied", metal3.StateProvisioned, held(metal3.AnotherDeploymentReason), func(h *metal3.BareMetalHost) { h.Spec.Image = nil }),
			host("changed", metal3.StateProvisioned, held(metal3.DeploymentGoneReason), func(h *metal3.BareMetalHost) { h.Spec.Online = false }),
			host("restored", metal3.StateProvisioned, held(metal3.RestoredReason)),
			host("two-engines", metal3.StateProvisioned, held(metal3.OperatorRunningReason)),
			host("healthy", metal3.StateProvisioned),
			host("foreign", metal3.StateRegistering, held(metal3.NodeOfAnotherClusterReason), func(h *metal3.BareMetalHost) {
				h.Status.Ironic = &metal3.IronicStatus{NodeUUID: h.Status.Provisioning.ID, Unproven: metal3.NodeOfAnotherClusterReason}
			}),
			host("idle", metal3.StateAvailable, held(metal3.AnotherDeploymentReason), func(h *metal3.BareMetalHost) { h.Status.Ironic.InstanceUUID = "" }),
		)
		c.answerTakeover()
		return c
	}
	const (
		moved   = "node-of-moved instance-of-moved"
		emptied = "node-of-emptied instance-of-emptied"
		changed = "node-of-changed instance-of-changed"
	)
	tests := map[string]struct {
		args   []string
		stdin  string
		posted []string
		code   int
		says   []string
	}{
		"by name, asked": {args: []string{"moved"}, stdin: "y\n", posted: []string{moved}, says: []string{
			"held: NodeOfAnotherCluster: the node is odd", "node-of-moved, active, power on, instance instance-of-moved, of cluster another",
			"then: it counts as provisioned with the image of its spec\n", "This confirms the nodes of 1 host in namespace metal3: moved."}},
		"no":           {args: []string{"moved"}, stdin: "n\n", code: exitError, says: []string{"nothing was done"}},
		"yes":          {args: []string{"emptied", "--yes"}, posted: []string{emptied}, says: []string{"WHAT THE MACHINE RUNS IS UNDEPLOYED"}},
		"nothing runs": {args: []string{"idle", "--yes"}, posted: []string{"node-of-idle "}},
		"not shown": {args: []string{"foreign", "--yes"}, posted: []string{"node-of-foreign whatever"}, says: []string{
			"node-of-foreign, of which nothing else is shown", "if something is deployed on the node, it counts as provisioned"}},
		"not held":       {args: []string{"healthy", "--yes"}, code: exitError, says: []string{"there is nothing to do"}},
		"all":            {args: []string{"--all", "--yes"}, code: exitError, posted: []string{changed, emptied, "node-of-foreign whatever", "node-of-idle ", moved}, says: []string{"and is switched off", "changed: ", "look at the machine once more"}},
		"no such host":   {args: []string{"absent", "--yes"}, code: exitError, says: []string{"not found"}},
		"server dry run": {args: []string{"moved", "--dry-run=server"}, posted: []string{moved}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := fleet()
			c.stdin, c.canAsk = test.stdin, test.stdin != ""
			if code := c.run(t, append([]string{"takeover"}, test.args...)...); code != test.code {
				t.Errorf("exit code %d, want %d: %s", code, test.code, c.errOut)
			}
			got := takenOver(t, c)
			slices.Sort(got)
			if !slices.Equal(got, test.posted) {
				t.Errorf("taken over: %q, want %q", got, test.posted)
			}
			expect(t, "stderr", c.errOut, test.says...)
			if strings.Contains(c.errOut, "restored") || test.code == 0 && strings.Contains(c.errOut, "healthy") {
				t.Errorf("shows a host that cannot be confirmed:\n%s", c.errOut)
			}
		})
	}
}
