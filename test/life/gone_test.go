// SPDX-License-Identifier: Apache-2.0

package life

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// isGone reports whether a host shows that its deployment is gone.
func isGone(bmh *metal3.BareMetalHost) bool {
	provisioned := meta.FindStatusCondition(bmh.Status.Conditions, metal3.ProvisionedCondition)
	return provisioned != nil && provisioned.Reason == metal3.DeploymentGoneReason && !meta.IsStatusConditionTrue(bmh.Status.Conditions, metal3.ReadyCondition) &&
		bmh.Status.OperationalStatus == metal3.OperationalStatusError
}

// An operator undeploys the node of a provisioned host in Ironic. The host shows that at once, and nothing is done
// to the machine until a person asks for the image once more.
func TestUndeployedPastUs(t *testing.T) {
	t.Parallel()
	h := newHost(t, notInspected, notCleaned, withImage)
	id := h.provisioned().Status.Provisioning.ID
	h.wrote(1)
	h.states()
	if err := s.ironic.Operator().Provision(h.ctx, id, "deleted"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	h.wait("its deployment is gone", isGone)
	t.Logf("shown after %s", time.Since(began).Round(time.Millisecond))
	h.ironicIn(ironic.Available)
	h.stays(15*time.Second, "is left alone", func(bmh *metal3.BareMetalHost) bool {
		return isGone(bmh) && bmh.Status.Ironic.ProvisionState == string(ironic.Available)
	})
	h.wrote(1)

	if err := h.rebuild(metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	h.provisioned()
	h.wrote(2)
	h.expectStates(metal3.StateProvisioned, metal3.StateProvisioning, metal3.StateProvisioned)
}

// An operator rebuilds the node of a provisioned host in Ironic. Until a person has looked at it, the machine is switched off only
// for who has to know that it is off.
func TestRebuiltPastUsAndFenced(t *testing.T) {
	t.Parallel()
	h := newHost(t, notInspected, notCleaned, withImage)
	id := h.provisioned().Status.Provisioning.ID
	if err := s.ironic.Operator().Provision(h.ctx, id, "rebuild"); err != nil {
		t.Fatal(err)
	}
	h.wait("its deployment is gone", isGone)
	h.ironicIn(ironic.Active)
	fence := metal3.RebootAnnotationPrefix + "fence"
	h.annotate(fence, `{"mode":"hard"}`)
	h.wait("off", func(bmh *metal3.BareMetalHost) bool { return isGone(bmh) && !bmh.Status.PoweredOn })
	h.annotateNot(fence)
	h.stays(5*time.Second, "is left off", func(bmh *metal3.BareMetalHost) bool { return isGone(bmh) && !bmh.Status.PoweredOn })
	h.wrote(2)
}
