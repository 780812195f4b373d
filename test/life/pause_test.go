// SPDX-License-Identifier: Apache-2.0

package life

import (
	"encoding/json"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// A host that is created paused waits, whatever the value of the annotation.
func TestCreatedPaused(t *testing.T) {
	t.Parallel()
	h := newHost(t, annotated(metal3.PausedAnnotation, "metal3.io/capm3"), notInspected, notCleaned)
	// Another one goes all the way meanwhile.
	newHostIn(t, h.ctx, h.ns, "worker-1", notInspected, notCleaned).available()
	if bmh := h.get(); bmh.Status.Provisioning.State != "" || bmh.Status.Ironic != nil {
		t.Errorf("something was done for a paused host: %+v", bmh.Status)
	}
	h.nodeGone()
	h.annotateNot(metal3.PausedAnnotation)
	h.available()
}

// Nothing happens to a paused host, not even its deletion, until it goes on.
func TestPaused(t *testing.T) {
	t.Parallel()
	h := newHost(t, notInspected, withImage)
	h.provisioned()
	h.annotate(metal3.PausedAnnotation, "")
	h.patch(`{"spec":{"online":false,"image":null}}`)
	h.delete()
	newHostIn(t, h.ctx, h.ns, "worker-1", notInspected, notCleaned).available()
	if bmh := h.get(); bmh.Status.Provisioning.State != metal3.StateProvisioned || bmh.Status.Ironic.ProvisionState != string(ironic.Active) || h.machine.Power() != bmcsim.On {
		t.Errorf("a paused host became %+v", bmh.Status)
	}
	h.annotateNot(metal3.PausedAnnotation)
	h.isGone()
}

// statusForMove is the status as Cluster API Provider Metal3 writes it into an annotation: through types that lack our fields, and
// without the hardware, which the HardwareData has.
func statusForMove(t *testing.T, host *metal3.BareMetalHost) string {
	t.Helper()
	status := host.Status.DeepCopy()
	status.HardwareDetails, status.Ironic, status.Record = nil, nil, metal3.HostRecord{}
	text, err := json.Marshal(status)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// As clusterctl moves a host to another cluster, whose Ironic knows nothing of it:
// it is created paused, with the status in an annotation, and then goes on.
func TestMoved(t *testing.T) {
	t.Parallel()
	needsInspection(t)
	old := newHost(t, withImage)
	old.secret("user-data", map[string]string{"userData": "#cloud-config\n"})
	old.provisioned()
	boots := len(old.machine.Boots())
	data, err := s.Metal3.Metal3V1alpha1().HardwareData(old.ns).Get(old.ctx, old.name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// Out of the first cluster without anybody acting on it.
	old.annotate(metal3.PausedAnnotation, "metal3.io/capm3")
	before := old.get()
	old.patch(`{"metadata":{"finalizers":null}}`)
	old.delete()
	old.gone()
	operator := s.ironic.Operator()
	if err := operator.SetMaintenance(old.ctx, before.Status.Provisioning.ID, true, "moved"); err != nil {
		t.Fatal(err)
	}
	if err := operator.DeleteNode(old.ctx, before.Status.Provisioning.ID); err != nil {
		t.Fatal(err)
	}

	status := statusForMove(t, before)
	h := &host{t: t, ctx: old.ctx, ns: old.ns, name: "moved", machine: old.machine, api: old.api}
	h.secret("moved-bmc", map[string]string{"username": h.machine.Username(), "password": h.machine.Password()})
	moved := &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Name: h.name, Annotations: map[string]string{
		metal3.PausedAnnotation: "metal3.io/capm3", metal3.StatusAnnotation: status,
	}}, Spec: before.Spec}
	moved.Spec.BMC.CredentialsName = "moved-bmc"
	h.create(moved)
	if _, err := s.Metal3.Metal3V1alpha1().HardwareData(h.ns).Create(h.ctx, &metal3.HardwareData{ObjectMeta: metav1.ObjectMeta{Name: h.name}, Spec: data.Spec}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	h.annotateNot(metal3.PausedAnnotation)
	h.provisioned()
	h.ironicIn(ironic.Active)
	after := h.wait("its hardware is known", func(b *metal3.BareMetalHost) bool { return b.Status.HardwareDetails != nil })
	h.expectStates(metal3.StateProvisioned)
	if after.Status.Provisioning.Image != before.Status.Provisioning.Image || after.Annotations[metal3.StatusAnnotation] != "" {
		t.Errorf("image %+v, was %+v; annotations %v", after.Status.Provisioning.Image, before.Status.Provisioning.Image, after.Annotations)
	}
	if !after.Status.OperationHistory.Provision.End.Equal(&before.Status.OperationHistory.Provision.End) {
		t.Errorf("history %+v, was %+v", after.Status.OperationHistory.Provision, before.Status.OperationHistory.Provision)
	}
	h.wrote(1)
	if got := len(h.machine.Boots()); got != boots {
		t.Errorf("the machine booted %d times more", got-boots)
	}
	h.patch(`{"spec":{"image":null}}`)
	h.available()
}

// As clusterctl moves a host to another cluster that uses the same Ironic: the copy is there first, and paused if it is
// claimed. The deletion gives the node up, so that the other cluster's server may have it, and nothing is done to the
// machine on either side.
func TestMovedWithTheSameIronic(t *testing.T) {
	t.Parallel()
	needsInspection(t)
	for name, claimed := range map[string]bool{"claimed": true, "unclaimed": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var before *metal3.BareMetalHost
			old := newHost(t)
			if claimed {
				old.wantImage()
				before = old.provisioned()
			} else {
				before = old.available()
			}
			id, boots := before.Status.Provisioning.ID, len(old.machine.Boots())
			nodeNow := func() testbed.Node {
				node, err := s.ironic.Operator().Node(old.ctx, id)
				if err != nil {
					t.Fatal(err)
				}
				return node
			}
			data, err := s.Metal3.Metal3V1alpha1().HardwareData(old.ns).Get(old.ctx, old.name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if claimed {
				old.annotate(metal3.PausedAnnotation, "metal3.io/capm3")
			}
			old.annotate(metal3.DeleteForMoveAnnotation, "")
			node := nodeNow()
			// What is owned goes first.
			hardware := s.Metal3.Metal3V1alpha1().HardwareData(old.ns)
			if _, err := hardware.Patch(old.ctx, old.name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
			if err := hardware.Delete(old.ctx, old.name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			old.patch(`{"metadata":{"finalizers":null}}`)
			old.delete()
			old.gone()
			given := nodeNow()
			if given.Extra[ironic.HostMark] != nil || given.Extra[ironic.ClusterMark] != nil {
				t.Errorf("the node is still marked: %v", given.Extra)
			}

			moved := &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Name: old.name}, Spec: before.Spec}
			if claimed {
				moved.Annotations = map[string]string{metal3.PausedAnnotation: "metal3.io/capm3", metal3.StatusAnnotation: statusForMove(t, before)}
			}
			h := &host{t: t, ctx: old.ctx, ns: old.ns, name: old.name, machine: old.machine, api: old.api}
			if _, err := hardware.Create(old.ctx, &metal3.HardwareData{ObjectMeta: metav1.ObjectMeta{Name: old.name}, Spec: data.Spec}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			h.create(moved)
			var after *metal3.BareMetalHost
			if claimed {
				h.annotateNot(metal3.PausedAnnotation)
				h.provisioned() // as the copy says
				h.expectStates(metal3.StateProvisioned)
				after = h.wait("its deployment is known", func(b *metal3.BareMetalHost) bool { return b.Status.Record.Deployment != nil })
				if after.Status.Provisioning.Image.URL != before.Status.Provisioning.Image.URL {
					t.Errorf("the deployment is %+v of %+v", after.Status.Record.Deployment, after.Status.Provisioning.Image)
				}
			} else {
				after = h.available()
			}
			var now testbed.Node
			h.eventually(func() string {
				if now = nodeNow(); now.Extra[ironic.HostMark] == string(after.UID) {
					return ""
				}
				return fmt.Sprintf("the node has the marks %v", now.Extra)
			})
			if after.Status.Provisioning.ID != id {
				t.Errorf("the host has node %s, which had %s", after.Status.Provisioning.ID, id)
			}
			if now.ProvisionState != node.ProvisionState || !now.ProvisionUpdatedAt.Equal(*node.ProvisionUpdatedAt) {
				t.Errorf("the node is %s since %s, was %s since %s", now.ProvisionState, now.ProvisionUpdatedAt, node.ProvisionState, node.ProvisionUpdatedAt)
			}
			if got := len(h.machine.Boots()); got != boots {
				t.Errorf("the machine booted %d times more", got-boots)
			}
		})
	}
}
