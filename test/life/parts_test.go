// SPDX-License-Identifier: Apache-2.0

package life

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
)

// A machine whose BMC fails with all that a deployment does not need is enrolled, deployed and deleted; who asks for what fails is told.
// It takes minutes: the client of Redfish asks eleven times for what fails.
func TestPartsOfTheBMCFail(t *testing.T) {
	t.Parallel()
	h := newHost(t, withImage, faulty(bmcsim.PartsFail))
	bmh := h.provisioned()
	if s.inspects() && bmh.Status.HardwareDetails == nil {
		t.Error("the hardware is not known")
	}
	subscriptions := s.Metal3.Metal3V1alpha1().BMCEventSubscriptions(h.ns)
	if _, err := subscriptions.Create(h.ctx, &metal3.BMCEventSubscription{ObjectMeta: metav1.ObjectMeta{Name: "alerts"},
		Spec: metal3.BMCEventSubscriptionSpec{HostName: h.name, Destination: "https://events.example/"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	h.eventually(func() string {
		is, err := subscriptions.Get(h.ctx, "alerts", metav1.GetOptions{})
		if err == nil && strings.HasPrefix(is.Status.Error, "failed to create a subscription") {
			return ""
		}
		return "the subscription does not say that it fails"
	})
	h.delete()
	h.gone()
}
