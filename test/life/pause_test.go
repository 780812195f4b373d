package life

import (
	"encoding/json"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
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

	status, err := json.Marshal(before.Status)
	if err != nil {
		t.Fatal(err)
	}
	h := &host{t: t, ctx: old.ctx, ns: old.ns, name: "moved", machine: old.machine, api: old.api}
	h.secret("moved-bmc", map[string]string{"username": h.machine.Username(), "password": h.machine.Password()})
	moved := &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Name: h.name, Annotations: map[string]string{
		metal3.PausedAnnotation: "metal3.io/capm3", metal3.StatusAnnotation: string(status),
	}}, Spec: before.Spec}
	moved.Spec.BMC.CredentialsName = "moved-bmc"
	h.create(moved)
	if _, err := s.Metal3.Metal3V1alpha1().HardwareData(h.ns).Create(h.ctx, &metal3.HardwareData{ObjectMeta: metav1.ObjectMeta{Name: h.name}, Spec: data.Spec}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	h.annotateNot(metal3.PausedAnnotation)
	after := h.provisioned()
	h.ironicIn(ironic.Active)
	h.expectStates(metal3.StateProvisioned)
	if after.Status.Provisioning.Image != before.Status.Provisioning.Image || after.Status.HardwareDetails == nil || after.Annotations[metal3.StatusAnnotation] != "" {
		t.Errorf("image %+v, was %+v; hardware %v; annotations %v", after.Status.Provisioning.Image, before.Status.Provisioning.Image, after.Status.HardwareDetails, after.Annotations)
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
