// SPDX-License-Identifier: Apache-2.0

package life

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
)

// An event of the BMC arrives where the subscription says, with the headers of a Secret that comes
// later. The subscription is created again when the BMC has lost it, and is deleted from the BMC with
// its object.
func TestBMCEventSubscription(t *testing.T) {
	t.Parallel()
	h := newHost(t, external, runsAlready)
	h.in(metal3.StateExternallyProvisioned)
	received := make(chan string, 10)
	listener := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var body struct {
			Context string
			Events  []struct{ Message string }
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || len(body.Events) != 1 {
			t.Errorf("received %+v, %v", body, err)
			return
		}
		received <- strings.Join([]string{r.Header.Get("Authorization"), r.Header.Get("X-Rack"), body.Context, body.Events[0].Message}, "|")
	}))
	t.Cleanup(listener.Close)
	subscriptions := s.Metal3.Metal3V1alpha1().BMCEventSubscriptions(h.ns)
	wait := func(what string, wanted func(*metal3.BMCEventSubscription) bool) *metal3.BMCEventSubscription {
		t.Helper()
		var last *metal3.BMCEventSubscription
		h.eventually(func() string {
			is, err := subscriptions.Get(h.ctx, "alerts", metav1.GetOptions{})
			if err != nil {
				return err.Error()
			}
			if last = is; !wanted(is) {
				return fmt.Sprintf("the subscription not: %s; it is %+v", what, is.Status)
			}
			return ""
		})
		return last
	}

	_, err := subscriptions.Create(h.ctx, &metal3.BMCEventSubscription{ObjectMeta: metav1.ObjectMeta{Name: "alerts"}, Spec: metal3.BMCEventSubscriptionSpec{
		HostName: h.name, Destination: listener.URL + "/events", Context: "rack 7",
		HTTPHeadersRef: &corev1.SecretReference{Namespace: h.ns, Name: "headers"},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	wait("waits for its Secret", func(is *metal3.BMCEventSubscription) bool { return strings.Contains(is.Status.Error, "Secret headers") })
	h.secret("headers", map[string]string{"Authorization": "Bearer token", "X-Rack": "7"})
	first := wait("is created", func(is *metal3.BMCEventSubscription) bool {
		return is.Status.SubscriptionID != "" && is.Status.Error == ""
	})
	if err := h.machine.SendEvent(h.ctx, "a fan has failed"); err != nil {
		t.Fatal(err)
	}
	if got, want := <-received, "Bearer token|7|rack 7|a fan has failed"; got != want {
		t.Errorf("the listener received %q, want %q", got, want)
	}

	h.fault(bmcsim.RefuseConnections)
	h.wait("its BMC is seen to be away", func(bmh *metal3.BareMetalHost) bool {
		return bmh.Status.Ironic != nil && bmh.Status.Ironic.Fault == "power failure"
	})
	h.machine.ForgetSubscriptions()
	h.mend(bmcsim.RefuseConnections)
	wait("is created again", func(is *metal3.BMCEventSubscription) bool {
		return is.Status.SubscriptionID != first.Status.SubscriptionID && is.Status.Error == ""
	})
	if err := h.machine.SendEvent(h.ctx, "the fan is back"); err != nil {
		t.Fatal(err)
	}
	if got, want := <-received, "Bearer token|7|rack 7|the fan is back"; got != want {
		t.Errorf("the listener received %q, want %q", got, want)
	}

	gone := func() {
		t.Helper()
		h.eventually(func() string {
			is, err := subscriptions.Get(h.ctx, "alerts", metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return ""
			}
			return fmt.Sprintf("the subscription is still there: %+v, %v", is, err)
		})
	}
	if err := subscriptions.Delete(h.ctx, "alerts", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	gone()
	if left := h.machine.Subscriptions(); len(left) != 0 {
		t.Errorf("the BMC still has %+v", left)
	}
}
