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
		"not held":        {args: []string{"healthy", "--yes"}, code: exitError, says: []string{"healthy is left out: it is not held\n", "there is nothing to do"}},
		"held as all are": {args: []string{"restored", "--yes"}, code: exitError, says: []string{"restored is left out: it is held as all hosts are, for Restored"}},
		"all":             {args: []string{"--all", "--yes"}, code: exitError, posted: []string{changed, emptied, "node-of-foreign whatever", "node-of-idle ", moved}, says: []string{"and if it is on, it stays on", "changed: ", "look at the machine once more"}},
		"no such host":    {args: []string{"absent", "--yes"}, code: exitError, says: []string{"not found"}},
		"server dry run":  {args: []string{"moved", "--dry-run=server"}, posted: []string{moved}},
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
			if strings.Contains(c.errOut, "node-of-restored") || test.code == 0 && strings.Contains(c.errOut, "healthy") {
				t.Errorf("shows a host that cannot be confirmed:\n%s", c.errOut)
			}
		})
	}
}

// TestAfterTakeover: the question says what the server does after a yes.
func TestAfterTakeover(t *testing.T) {
	const (
		wiped      = "WHAT THE MACHINE RUNS IS UNDEPLOYED"
		kept       = "and if it is on, it stays on until spec.online changes"
		switchedOn = "and is switched on"
	)
	node := func(state, instance string) func(*metal3.BareMetalHost) {
		return func(h *metal3.BareMetalHost) {
			h.Status.Ironic = &metal3.IronicStatus{NodeUUID: "n", ProvisionState: state, InstanceUUID: instance, PowerState: "power on"}
		}
	}
	noImage := func(h *metal3.BareMetalHost) { h.Spec.Image = nil }
	ran := func(h *metal3.BareMetalHost) { h.Status.Provisioning.Image.URL = "http://images/x" }
	offline := func(h *metal3.BareMetalHost) { h.Spec.Online = false }
	isOff := func(h *metal3.BareMetalHost) { h.Status.Ironic.PowerState = "power off" }
	external := func(h *metal3.BareMetalHost) { h.Spec.ExternallyProvisioned = true }
	deprovisioning := func(h *metal3.BareMetalHost) { h.Status.OperationHistory.Deprovision.Start = metav1.NewTime(now) }
	deployment := func(instance string, keep bool) func(*metal3.BareMetalHost) {
		return func(h *metal3.BareMetalHost) {
			h.Status.Record.Deployment = &metal3.Deployment{NodeUUID: "n", InstanceUUID: instance, KeepPower: keep}
		}
	}
	type changes = []func(*metal3.BareMetalHost)
	for _, c := range []struct {
		name     string
		state    metal3.ProvisioningState
		change   changes
		says, no string
	}{
		{"runs its image", metal3.StateProvisioned, changes{node("active", "i")}, "it counts as provisioned with the image of its spec", wiped},
		{"without an image", metal3.StateProvisioned, changes{node("active", "i"), noImage}, wiped, ""},
		{"is rescued, without an image", metal3.StateProvisioned, changes{node("rescue", "i"), noImage}, wiped, "goes on as its spec says"},
		{"is serviced, with its image", metal3.StateProvisioned, changes{node("service failed", "i")}, "it counts as provisioned with the image of its spec", "node is adopted"},
		{"lost since a backup, without an image", metal3.StateProvisioned, changes{node("manageable", ""), noImage, ran}, wiped, "goes on as its spec says"},
		{"of nobody's, without anything to confirm", metal3.StateProvisioned, changes{node("active", ""), noImage}, "goes on as its spec says", wiped},
		{"was external, without an image", metal3.StateExternallyProvisioned, changes{node("manageable", "i"), noImage}, wiped, ""},
		{"to be adopted", metal3.StateProvisioned, changes{node("manageable", ""), ran}, "its node is adopted", "IS WRITTEN"},
		{"nothing runs", metal3.StateAvailable, changes{node("manageable", "")}, "THE IMAGE OF ITS SPEC IS WRITTEN", ""},
		{"undeploying", metal3.StateDeprovisioning, changes{node("rescue", "i"), deprovisioning}, wiped, "counts as provisioned"},
		{"undeploying, and wanted again", metal3.StateDeprovisioning, changes{node("active", "i"), deprovisioning}, "counts as provisioned", wiped},
		{"external", metal3.StateExternallyProvisioned, changes{node("active", ""), external, noImage}, "goes on as externally provisioned", wiped},
		{"external, but provisioned by the server", metal3.StateProvisioned, changes{node("active", "i"), external, noImage, ran}, wiped, "externally"},

		{"runs, offline", metal3.StateProvisioned, changes{node("active", "i"), offline}, kept, "is switched off"},
		{"runs another deployment, offline", metal3.StateProvisioned, changes{node("active", "i"), offline, deployment("j", false)}, kept, "is switched off"},
		{"runs its deployment, for which online has counted", metal3.StateProvisioned, changes{node("active", "i"), offline, deployment("i", false)}, "and is switched off", kept},
		{"runs its deployment, left on", metal3.StateProvisioned, changes{node("active", "i"), offline, deployment("i", true)}, kept, "is switched off"},
		{"to be adopted, for which online has counted", metal3.StateProvisioned, changes{node("manageable", ""), offline, ran, deployment("i", false)}, "and is switched off", kept},
		{"nothing runs, offline", metal3.StateAvailable, changes{node("manageable", ""), noImage, offline}, "and is switched off", kept},
		{"off, offline", metal3.StateProvisioned, changes{node("active", "i"), offline, isOff}, "with the image of its spec", "and i"},
		{"off, online", metal3.StateProvisioned, changes{node("active", "i"), isOff}, switchedOn, ""},
	} {
		if got := afterTakeover(host("w", c.state, c.change...)); !strings.Contains(got, c.says) || c.no != "" && strings.Contains(got, c.no) {
			t.Errorf("%s: %q, want %q and not %q", c.name, got, c.says, c.no)
		}
	}
}
