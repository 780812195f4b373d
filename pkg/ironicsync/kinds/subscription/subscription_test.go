// SPDX-License-Identifier: Apache-2.0

package subscription

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/kinds"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
)

// world is one subscription with its host, and a BMC behind Ironic.
type world struct {
	subscription *metal3.BMCEventSubscription // nil if it does not exist
	host         *metal3.BareMetalHost
	secret       map[string][]byte
	bmc          map[string]ironic.Subscription
	bmcError     error  // of each request
	quotes       string // what Ironic says when a subscription is created
	deleteError  error
	notShown     string // the ID of one that the BMC cannot show
	nodeError    error  // of each read of the node
	lateAnswer   bool   // the BMC creates subscriptions, and Ironic has no answer in time
	oddAnswer    bool   // the BMC creates subscriptions, and Ironic does not understand its answer
	looked       func() // is called when the node is read
	created      func() // is called when the BMC has created one
	notAllowed   error  // the destination
	unproven     string // why the node is not the host's
	requests     []string
	events       enginetest.Events
	store        *enginetest.Slot[*metal3.BMCEventSubscription]
	made         int
	// ironics are those that there are, by name. The world is that of the server's flags.
	ironics enginetest.Ironics[Ironic]
}

var key = types.NamespacedName{Namespace: "metal3", Name: "alerts"}

func newWorld() *world {
	w := &world{
		subscription: &metal3.BMCEventSubscription{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: "subscription"},
			Spec: metal3.BMCEventSubscriptionSpec{
				HostName: "worker-0", Destination: "https://events.example/", Context: "rack 7",
				HTTPHeadersRef: &corev1.SecretReference{Namespace: key.Namespace, Name: "headers"},
			},
		},
		host: &metal3.BareMetalHost{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "worker-0"},
			Status: metal3.BareMetalHostStatus{
				Provisioning: metal3.ProvisionStatus{ID: "node", State: metal3.StateProvisioned},
				Record:       metal3.HostRecord{RegisteredWith: &metal3.RegisteredWith{}},
				Ironic:       &metal3.IronicStatus{ProvisionState: string(ironic.Active)},
			},
		},
		secret: map[string][]byte{"X-Rack": []byte("7"), "Authorization": []byte("Bearer token")},
		bmc:    map[string]ironic.Subscription{},
	}
	w.ironics = enginetest.Ironics[Ironic]{"": w}
	w.store = &enginetest.Slot[*metal3.BMCEventSubscription]{Resource: "bmceventsubscriptions", Object: &w.subscription}
	return w
}

func (w *world) GetNode(context.Context, string) (*ironic.Node, error) {
	if w.looked != nil {
		w.looked()
	}
	return &ironic.Node{UUID: "node"}, w.nodeError
}

func (w *world) controller() *Controller { return New(w.deps()) }

func (w *world) deps() Deps {
	return Deps{
		Subscriptions: w.store, Hosts: &enginetest.Slot[*metal3.BareMetalHost]{Resource: "baremetalhosts", Object: &w.host}, Nodes: enginetest.NodesOf(w.ironics, &w.unproven), Events: &w.events, Clock: clock.RealClock{},
		CheckURL: func(context.Context, string) error { return w.notAllowed },
		Secret: func(context.Context, string, string) (map[string][]byte, error) {
			if w.secret == nil {
				return nil, apierrors.NewNotFound(corev1.Resource("secrets"), "headers")
			}
			return w.secret, nil
		},
	}
}

// reconcile reconciles the subscription until it is as it is to be, and returns the last error.
func (w *world) reconcile(t *testing.T, c *Controller) error {
	t.Helper()
	var err error
	for range 3 {
		_, err = c.reconcile(t.Context(), key)
	}
	return err
}

func (w *world) CreateSubscription(ctx context.Context, fence ironic.Fence, _ string, s ironic.Subscription) (string, error) {
	if err := fence.Check(); err != nil { // as the client does
		return "", err
	}
	w.requests = append(w.requests, "create")
	if w.quotes != "" {
		return "", ironic.NewAPIError(ctx, "create", 400, []byte(`{"error_message":"{\"faultstring\":\"`+w.quotes+`\"}"}`), nil)
	}
	if w.bmcError != nil {
		return "", w.bmcError
	}
	w.made++
	id := strconv.Itoa(w.made)
	w.bmc[id] = s
	if w.created != nil {
		w.created()
	}
	if w.oddAnswer {
		return "", ironicSays(500, "HTTP POST returned code 200 without a Location")
	}
	if w.lateAnswer {
		return "", &ironic.UnavailableError{Class: ironic.ClassTimeout, Reason: "no answer in time"}
	}
	return id, nil
}

func (w *world) GetSubscription(_ context.Context, _, id string) (ironic.Subscription, error) {
	w.requests = append(w.requests, "get "+id)
	if id == w.notShown {
		return ironic.Subscription{}, ironicSays(500, "get_subscription failed")
	}
	is := w.bmc[id]
	is.Headers = nil // as a BMC does
	return is, w.bmcError
}

func (w *world) DeleteSubscription(_ context.Context, fence ironic.Fence, _, id string) error {
	if err := fence.Check(); err != nil { // as the client does
		return err
	}
	w.requests = append(w.requests, "delete "+id)
	if w.deleteError != nil {
		return w.deleteError
	}
	delete(w.bmc, id)
	return w.bmcError
}

func (w *world) ListSubscriptions(context.Context, string) ([]string, error) {
	w.requests = append(w.requests, "list")
	var ids []string
	for id := range w.bmc {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids, w.bmcError
}

func ironicSays(status int, fault string) error {
	return ironic.NewAPIError(context.Background(), "vendor passthru", status, []byte(`{"error_message":"{\"faultstring\":\"`+fault+`\"}"}`), nil)
}

// The subscription is created once, with what its spec and the Secret say. Errors are told, and clear.
func TestSubscribe(t *testing.T) {
	for name, test := range map[string]struct {
		wrong, mended func(*world)
		says          string
		fails         bool // and so is tried again after a back-off
	}{
		"no Secret":                 {func(w *world) { w.secret = nil }, func(w *world) { w.secret = newWorld().secret }, "Secret headers", false},
		"long headers":              {func(w *world) { w.secret["Authorization"] = make([]byte, 64<<10) }, func(w *world) { w.secret = newWorld().secret }, "Secret headers: it has HTTP headers of more than 64 KiB in all", false},
		"a header in UTF-16":        {func(w *world) { w.secret["X-Rack"] = []byte("\xff\xfe7\x00") }, func(w *world) { w.secret = newWorld().secret }, "Secret headers: the HTTP header X-Rack is text in UTF-16: it has to be one line", false},
		"a header of two lines":     {func(w *world) { w.secret["X-Rack"] = []byte("7\nX-Row: 8") }, func(w *world) { w.secret = newWorld().secret }, "Secret headers: the HTTP header X-Rack has a line break", false},
		"headers from files":        {func(w *world) { w.secret = nil }, func(w *world) { w.secret = newWorld().secret; w.secret["X-Rack"] = []byte(" 7\r\n") }, "Secret headers", false},
		"no host":                   {func(w *world) { w.host = nil }, func(w *world) { w.host = newWorld().host }, "no host worker-0", false},
		"a host not registered":     {func(w *world) { w.host.Status.Ironic = nil }, func(w *world) { w.host = newWorld().host }, "waiting for host worker-0", false},
		"a detached host":           {func(w *world) { w.host.Status.OperationalStatus = metal3.OperationalStatusDetached }, func(w *world) { w.host = newWorld().host }, "waiting for host worker-0", false},
		"a node of another cluster": {func(w *world) { hold(w.host) }, func(w *world) { w.host = newWorld().host }, "the BMC of host worker-0 is not asked: not yours", false},
		"a restored status":         {func(w *world) { w.host.Status.Record.RegisteredWith = nil }, func(w *world) { w.host = newWorld().host }, "waiting for host worker-0", false},
		"the BMC does not answer":   {func(w *world) { w.bmcError = ironicSays(500, "no route") }, func(w *world) { w.bmcError = nil }, "failed to create a subscription: no route", true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			c := w.controller()
			test.wrong(w)
			if err := w.reconcile(t, c); (err != nil) != test.fails {
				t.Errorf("reconciled with %v", err)
			}
			if status := w.subscription.Status; !strings.Contains(status.Error, test.says) || status.SubscriptionID != "" || len(w.bmc) != 0 {
				t.Errorf("status %+v, want %q; the BMC has %v", status, test.says, w.bmc)
			}
			if diff := cmp.Diff([]string{metal3.BMCEventSubscriptionFinalizer}, w.subscription.Finalizers); diff != "" {
				t.Errorf("finalizers (-want +got):\n%s", diff)
			}
			test.mended(w)
			if err := w.reconcile(t, c); err != nil {
				t.Fatal(err)
			}
			if status := w.subscription.Status; status != (metal3.BMCEventSubscriptionStatus{SubscriptionID: "1"}) {
				t.Errorf("status %+v", status)
			}
			want := map[string]ironic.Subscription{"1": {Destination: "https://events.example/", Context: "rack 7",
				Headers: []map[string]string{{"Authorization": "Bearer token"}, {"X-Rack": "7"}}}}
			if diff := cmp.Diff(want, w.bmc); diff != "" {
				t.Errorf("the BMC has (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{"Warning SubscriptionFailed", "Normal Subscribed"}, []string(w.events)); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

// A subscription whose ID could not be recorded is deleted again: nobody else would.
func TestNotRecorded(t *testing.T) {
	w := newWorld()
	c := w.controller()
	w.created = func() { w.store.StatusError = errors.New("etcd is full") }
	if err := w.reconcile(t, c); err == nil || w.made == 0 || len(w.bmc) != 0 {
		t.Errorf("reconciled with %v, %d made, the BMC has %v", err, w.made, w.bmc)
	}
}

// TestNothingRecorded: what cannot be recorded before it is sent is not sent, nor is it recorded that something was sent that a leader
// must not send.
func TestNothingRecorded(t *testing.T) {
	for name, change := range map[string]func(*world, *Controller){
		"etcd is full":     func(w *world, _ *Controller) { w.store.StatusError = errors.New("etcd is full") },
		"another leads":    func(_ *world, c *Controller) { c.Fence = ironic.Fence{Term: func() bool { return false }} },
		"written meantime": func(w *world, _ *Controller) { w.looked = func() { w.subscription.ResourceVersion += "+" } },
	} {
		w := newWorld()
		c := w.controller()
		change(w, c)
		if err := w.reconcile(t, c); err == nil || w.subscription.Status.Error != "" || w.made > 0 {
			t.Errorf("%s: %v, status %+v, %d made", name, err, w.subscription.Status, w.made)
		}
	}
}

// TestKilledWhileCreating: a leader that ends after the BMC has created a subscription, and before it has recorded the ID, leaves none that
// nobody knows of: the next one finds it.
func TestKilledWhileCreating(t *testing.T) {
	for _, isDeleted := range []bool{false, true} {
		w := newWorld()
		killed := errors.New("killed")
		w.created = func() { w.store.StatusError, w.deleteError = killed, killed }
		if err := w.reconcile(t, w.controller()); err == nil || len(w.bmc) != 1 {
			t.Fatalf("%v, the BMC has %v", err, w.bmc)
		}
		w.store.StatusError, w.deleteError = nil, nil
		if isDeleted {
			w.subscription.DeletionTimestamp = new(metav1.Now())
		}
		if err := w.reconcile(t, w.controller()); err != nil || w.made != 1 {
			t.Errorf("the next leader: %v, %d made", err, w.made)
		}
		switch {
		case isDeleted && (w.subscription != nil || len(w.bmc) > 0):
			t.Errorf("deleted: %+v, the BMC has %v", w.subscription, w.bmc)
		case !isDeleted && (w.subscription.Status != metal3.BMCEventSubscriptionStatus{SubscriptionID: "1"} || len(w.bmc) != 1):
			t.Errorf("status %+v, the BMC has %v", w.subscription.Status, w.bmc)
		}
	}
}

// TestLockedWhileCreating: what Ironic has refused because it works on the node is not looked for, and hides no earlier problem.
func TestLockedWhileCreating(t *testing.T) {
	for _, before := range []string{"", "waiting for host worker-0 to be registered in Ironic"} {
		w := newWorld()
		w.subscription.Status.Error = before
		w.bmcError = ironicSays(409, "Node n is locked by host c")
		if err := w.reconcile(t, w.controller()); !ironic.IsLocked(err) || w.subscription.Status.Error != before || len(w.events) > 0 {
			t.Errorf("%v, status %+v, events %v", err, w.subscription.Status, w.events)
		}
		w.subscription.DeletionTimestamp, w.requests = new(metav1.Now()), nil
		if err := w.reconcile(t, w.controller()); err != nil || w.subscription != nil || w.requests != nil {
			t.Errorf("deleted: %v, %+v, requests %q", err, w.subscription, w.requests)
		}
	}
}

// A BMC that creates a subscription after Ironic's caller has given up is not given a second one, whatever happens in between: it has
// room for a few. If its object is deleted then, it is deleted, too. Those of others, and others for the same receiver, are not taken
// for it.
func TestCreatedWithoutAnAnswer(t *testing.T) {
	for name, spec := range map[string]metal3.BMCEventSubscriptionSpec{
		"with a context": {HostName: "worker-0", Destination: "https://events.example/", Context: "rack 7"},
		"without one":    {HostName: "worker-0", Destination: "https://events.example/"},
	} {
		for _, isDeleted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, deleted %t", name, isDeleted), func(t *testing.T) {
				w := newWorld()
				w.subscription.Spec = spec
				w.bmc["of others"] = ironic.Subscription{Destination: "https://others.example/"}
				w.bmc["with another context"] = ironic.Subscription{Destination: "https://events.example/", Context: "rack 8"}
				w.bmc["without anything"] = ironic.Subscription{}
				w.lateAnswer = true
				c := w.controller()
				if err := w.reconcile(t, c); err == nil {
					t.Fatal("no error")
				}
				away := w.host.DeepCopy()
				w.host.Status.Ironic = nil
				if err := w.reconcile(t, c); err != nil || !strings.HasSuffix(w.subscription.Status.Error, "waiting for host worker-0 to be registered in Ironic") {
					t.Fatalf("%v, status %+v", err, w.subscription.Status)
				}
				w.host, w.lateAnswer = away, false
				c.bmcs.Reset(kinds.NodeOf(w.host))
				want := 4
				if isDeleted {
					w.subscription.DeletionTimestamp = new(metav1.Now())
					want = 3
				}
				if err := w.reconcile(t, c); err != nil {
					t.Fatal(err)
				}
				if _, has := w.bmc["1"]; len(w.bmc) != want || has == isDeleted {
					t.Errorf("the BMC has %v", w.bmc)
				}
				if !isDeleted && w.subscription.Status != (metal3.BMCEventSubscriptionStatus{SubscriptionID: "1"}) || isDeleted && w.subscription != nil {
					t.Errorf("%+v", w.subscription)
				}
			})
		}
	}
}

// That a BMC has lost a subscription, and may have another one without an answer, outlives the leader that has found it: the next one
// does not take back the error without a look, and makes no second one.
func TestErrorOutlivesTheLeader(t *testing.T) {
	w := newWorld()
	c := w.controller()
	if err := w.reconcile(t, c); err != nil {
		t.Fatal(err)
	}
	w.bmc = map[string]ironic.Subscription{}
	w.lateAnswer = true
	c.setDue(w.subscription, time.Now())
	if err := w.reconcile(t, c); err == nil || !mayBeCreated(w.subscription) || len(w.bmc) != 1 {
		t.Fatalf("%v, status %+v, the BMC has %v", err, w.subscription.Status, w.bmc)
	}
	w.lateAnswer = false
	w.bmcError = ironicSays(500, "no route")
	if err := w.reconcile(t, w.controller()); err == nil || !mayBeCreated(w.subscription) {
		t.Errorf("without a look: %v, status %+v", err, w.subscription.Status)
	}
	w.bmcError = nil
	if err := w.reconcile(t, w.controller()); err != nil {
		t.Fatal(err)
	}
	if _, has := w.bmc["2"]; !has || len(w.bmc) != 1 || w.subscription.Status != (metal3.BMCEventSubscriptionStatus{SubscriptionID: "2"}) {
		t.Errorf("status %+v, the BMC has %v", w.subscription.Status, w.bmc)
	}
}

// A subscription that the BMC cannot show hides no other one, but a BMC that shows none has not said that it has not ours.
func TestSubscriptionThatIsNotShown(t *testing.T) {
	w := newWorld()
	w.subscription.Finalizers = []string{metal3.BMCEventSubscriptionFinalizer}
	w.subscription.Status.Error = notAnswered
	w.bmc["of others"] = ironic.Subscription{}
	w.notShown = "of others"
	c := w.controller()
	if err := w.reconcile(t, c); err == nil || w.made > 0 {
		t.Errorf("%v, %d made", err, w.made)
	}
	w.bmc["shown"] = ironic.Subscription{}
	if err := w.reconcile(t, c); err != nil || w.made != 1 {
		t.Errorf("%v, %d made", err, w.made)
	}
}

// A driver that knows no subscriptions, as that of another type of address, says nothing of the one that is recorded: it is neither lost
// nor made again.
func TestRecordedSubscriptionOfAnotherDriver(t *testing.T) {
	w := newWorld()
	w.subscription.Finalizers = []string{metal3.BMCEventSubscriptionFinalizer}
	w.subscription.Status.SubscriptionID = "7"
	w.bmcError = ironicSays(400, "No handler for method get_all_subscriptions")
	c := w.controller()
	c.setDue(w.subscription, time.Now())
	err := w.reconcile(t, c)
	if err == nil || slices.Contains(w.requests, "create") || strings.Contains(fmt.Sprint(w.events), "SubscriptionLost") || w.subscription.Status.SubscriptionID != "7" {
		t.Errorf("%v, requests %q, events %v, status %+v", err, w.requests, w.events, w.subscription.Status)
	}
}

// A BMC that was reset gives the number of a lost subscription to the next one, whoever makes that.
func TestAnotherOfItsID(t *testing.T) {
	w := newWorld()
	c := w.controller()
	if err := w.reconcile(t, c); err != nil {
		t.Fatal(err)
	}
	w.bmc = map[string]ironic.Subscription{"1": {Destination: "https://others.example/"}}
	c.setDue(w.subscription, time.Now())
	if err := w.reconcile(t, c); err != nil || w.subscription.Status.SubscriptionID != "2" || len(w.bmc) != 2 {
		t.Errorf("%v, status %+v, the BMC has %v", err, w.subscription.Status, w.bmc)
	}
}

// The BMC is asked for a subscription when the host returns, and once after a start. It is not polled.
func TestWhenTheBMCIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.subscription.Finalizers = []string{metal3.BMCEventSubscriptionFinalizer}
		w.subscription.Status.SubscriptionID = "1"
		w.bmc["1"] = ironic.Subscription{}
		c := w.controller()
		defer func() {
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			_ = c.Run(ended) // which ends what New has begun
		}()
		after, err := c.reconcile(t.Context(), key)
		if err != nil || after <= 0 || after > firstLook || len(w.requests) > 0 {
			t.Errorf("after the start: again after %s, %v, requests %q", after, err, w.requests)
		}
		time.Sleep(after)
		for range 3 { // nothing happens
			if after, err := c.reconcile(t.Context(), key); after != 0 || err != nil {
				t.Errorf("again after %s, %v", after, err)
			}
		}
		away := w.host.DeepCopy()
		away.Status.Ironic.Fault = ironic.FaultPowerFailure
		if hasReturned(w.host, away) || !hasReturned(away, w.host) {
			t.Error("the return of the BMC is not seen")
		}
		w.bmc = map[string]ironic.Subscription{} // the BMC was reset
		c.setDue(w.subscription, time.Now())
		w.quotes = "the node is locked"
		for range 2 { // it is tried until it succeeds, and the error stays
			if err := w.reconcile(t, c); err == nil || w.subscription.Status.Error == "" {
				t.Errorf("%v, status.error %q", err, w.subscription.Status.Error)
			}
		}
		if diff := cmp.Diff([]string{"list", "get 1", "list", "create", "list", "create"}, w.requests[:6]); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
		w.quotes, w.requests = "", nil
		if err := w.reconcile(t, c); err != nil || w.subscription.Status.Error != "" {
			t.Fatalf("%v, status.error %q", err, w.subscription.Status.Error)
		}
		if diff := cmp.Diff([]string{"list", "create"}, w.requests); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
		if id := w.subscription.Status.SubscriptionID; id != "1" || len(w.bmc) != 1 {
			t.Errorf("the subscription is %q, the BMC has %v", id, w.bmc)
		}
		if diff := cmp.Diff([]string{"Warning SubscriptionLost", "Warning SubscriptionFailed", "Normal Subscribed"}, []string(w.events)); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

func hold(host *metal3.BareMetalHost) {
	host.Status.Record.Hold = &metal3.Hold{Reason: metal3.NodeOfAnotherClusterReason, Message: "not yours"}
}

// Neither the password of the BMC nor the value of a header is in an error, also if there is no Secret with headers. What
// the user wrote is shown.
func TestNoSecretInErrors(t *testing.T) {
	w := newWorld()
	w.quotes = "at " + w.subscription.Spec.Destination + " with Bearer token: root:" + enginetest.Password
	if err := w.reconcile(t, w.controller()); err == nil || strings.Contains(err.Error(), enginetest.Password) {
		t.Errorf("the error is %v", err)
	}
	if got, want := w.subscription.Status.Error, "at https://events.example/ with ******: root:******"; !strings.HasSuffix(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	w.subscription.Spec.HTTPHeadersRef = nil
	_ = w.reconcile(t, w.controller())
	if got := w.subscription.Status.Error; !strings.HasSuffix(got, "root:******") {
		t.Errorf("without headers: %q", got)
	}
}

// Nothing is remembered of a subscription that is gone, whoever has removed its finalizer. One of the same name is another one.
func TestNothingIsRememberedOfSubscriptionsThatAreGone(t *testing.T) {
	w := newWorld()
	c := w.controller()
	if err := w.reconcile(t, c); err != nil || len(c.due) != 1 {
		t.Fatalf("%v, remembered: %v", err, c.due)
	}
	next := w.subscription.DeepCopy()
	next.UID = "another"
	if after, _ := c.isDue(next, time.Now()); after == 0 {
		t.Error("another subscription of the same name is taken for the one that was made just now")
	}
	w.subscription = nil
	if err := w.reconcile(t, c); err != nil || len(c.due) != 0 {
		t.Errorf("%v, remembered: %v", err, c.due)
	}
}

// The BMC of a node that has become another host's since it was observed is not asked.
func TestUnprovenNode(t *testing.T) {
	w := newWorld()
	w.unproven = "the node is another host's"
	if err := w.reconcile(t, w.controller()); err == nil || !strings.HasSuffix(w.subscription.Status.Error, w.unproven) {
		t.Errorf("the error is %v, %q", err, w.subscription.Status.Error)
	}
	if len(w.requests) > 0 {
		t.Errorf("Ironic was asked: %v", w.requests)
	}
}

// TestDestinationNotAllowed: the BMC is not told of a destination that is not allowed, and it is looked at
// again, because its name may have other addresses then.
func TestDestinationNotAllowed(t *testing.T) {
	w := newWorld()
	w.notAllowed = errors.New("the host a is not allowed")
	c := w.controller()
	if err := w.reconcile(t, c); err != nil {
		t.Fatal(err)
	}
	if after, err := c.reconcile(t.Context(), key); after != destinationRetry || err != nil {
		t.Errorf("it is looked at again after %s, error %v", after, err)
	}
	if got := w.subscription.Status.Error; got != "spec.destination: the host a is not allowed" || len(w.requests) != 0 {
		t.Errorf("the error is %q, the requests are %v", got, w.requests)
	}
	w.notAllowed = nil
	if err := w.reconcile(t, c); err != nil || w.subscription.Status.Error != "" || len(w.bmc) != 1 {
		t.Errorf("the error is %v, %q, and the BMC has %v", err, w.subscription.Status.Error, w.bmc)
	}
}

// A subscription that is refused is tried again after a back-off, though its status is written before each try and after it.
func TestRefusedAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.bmcError = ironicSays(400, "No handler for method create_subscription")
		w.subscription.Finalizers = []string{metal3.BMCEventSubscriptionFinalizer}
		deps := w.deps()
		deps.Subscriptions = enginetest.NewStock("bmceventsubscriptions", w.subscription)
		deps.Hosts, deps.Events = enginetest.NewStock("baremetalhosts", w.host), enginetest.NoEvents{}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		looks := 0
		w.looked = func() {
			if looks++; looks == 100 {
				cancel() // time would stand still without a pause
			}
		}
		ended := make(chan error)
		go func() { ended <- New(deps).Run(ctx) }()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if n := len(w.requests); n < 2 || n > 8 {
			t.Errorf("%d requests in a minute: %q", n, w.requests)
		}
	})
}
