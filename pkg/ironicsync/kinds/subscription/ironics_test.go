// SPDX-License-Identifier: Apache-2.0

package subscription

import (
	"context"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
)

// untouched is an Ironic that panics when it is asked for anything.
type untouched struct{ Ironic }

// Only the Ironic that has the host's node is asked: when the subscription is created, looked for, and deleted.
func TestTheHostsOwnIronicIsAsked(t *testing.T) {
	w := newWorld()
	w.ironics = enginetest.Ironics[Ironic]{"": untouched{}, "room-b": w, "room-c": untouched{}}
	w.host.Status.Record.Ironic = "room-b"
	c := w.controller()
	if err := w.reconcile(t, c); err != nil || len(w.bmc) != 1 {
		t.Errorf("%v, the BMC has %v", err, w.bmc)
	}
	c.setDue(w.subscription, time.Now())
	if err := w.reconcile(t, c); err != nil || w.requests[len(w.requests)-1] != "get 1" {
		t.Errorf("%v, requests %q", err, w.requests)
	}
	w.subscription.DeletionTimestamp = new(metav1.Now())
	if err := w.reconcile(t, c); err != nil || len(w.bmc) != 0 || w.subscription != nil {
		t.Errorf("%v, the BMC has %v, what is left is %+v", err, w.bmc, w.subscription)
	}
}

// While it is not known where the Ironic of a host is, nothing is asked, and the status says why. The subscription is tried again.
func TestUnknownIronic(t *testing.T) {
	w := newWorld()
	w.host.Status.Record.Ironic = "room-b"
	w.ironics = enginetest.Ironics[Ironic]{"": untouched{}}
	c := w.controller()
	const want = "IronicInstance room-b does not exist"
	fails := func(what string) {
		t.Helper()
		if err := w.reconcile(t, c); !ironic.IsUnavailable(err) || w.subscription == nil || w.subscription.Status.Error != what+": "+want {
			t.Errorf("reconciled with %v; %+v", err, w.subscription)
		}
	}
	fails("failed to create a subscription")
	w.ironics["room-b"] = w
	if err := w.reconcile(t, c); err != nil || len(w.bmc) != 1 || w.subscription.Status.Error != "" {
		t.Errorf("when the Ironic is known: %v, %q, the BMC has %v", err, w.subscription.Status.Error, w.bmc)
	}
	delete(w.ironics, "room-b")
	w.subscription.DeletionTimestamp = new(metav1.Now())
	fails("failed to delete a subscription")
	w.ironics["room-b"] = w
	if err := w.reconcile(t, c); err != nil || len(w.bmc) != 0 || w.subscription != nil {
		t.Errorf("when the Ironic is known: %v, the BMC has %v, what is left is %+v", err, w.bmc, w.subscription)
	}
}

// hanging is an Ironic that does not answer.
type hanging struct{ Ironic }

func (hanging) GetNode(ctx context.Context, _ string) (*ironic.Node, error) {
	return nil, enginetest.Hang(ctx)
}

// The subscription of a host whose Ironic answers is created at once, though there are many in another Ironic, which does not
// answer.
func TestAnIronicThatHangsDelaysItsOwnHostsOnly(t *testing.T) {
	w := newWorld()
	w.ironics["room-b"] = hanging{}
	enginetest.HangsAlone(t, w.host, ironic.SubscriptionConnections*4, func(hosts []*metal3.BareMetalHost) func(context.Context) error {
		subscriptions := enginetest.NewStock[*metal3.BMCEventSubscription]("bmceventsubscriptions")
		for _, host := range hosts {
			subscription := w.subscription.DeepCopy()
			subscription.Name, subscription.Spec.HostName = strings.Replace(host.Name, "worker", "alerts", 1), host.Name
			subscription.Finalizers = []string{metal3.BMCEventSubscriptionFinalizer}
			_, _ = subscriptions.Create(t.Context(), subscription)
		}
		deps := w.deps()
		deps.Subscriptions, deps.Hosts, deps.Events = subscriptions, enginetest.NewStock("baremetalhosts", hosts...), enginetest.NoEvents{}
		return New(deps).Run
	}, func() {
		if len(w.bmc) != 1 {
			t.Errorf("the BMC has %v, after the requests %q", w.bmc, w.requests)
		}
	})
}
