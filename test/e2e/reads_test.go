// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/generated/informers/externalversions"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// rounds is how often a node is changed behind our back.
const rounds = 100

// TestReadsAreNeverStale changes a node through Ironic's own API and reads at
// once, in every way that a client can read. All that a read has shown reaches a
// watcher and an informer too, in order.
func TestReadsAreNeverStale(t *testing.T) {
	ctx, ns := s.Begin(t)
	host := fakeHost(t, ctx, ns, "worker-0")
	id := host.Status.Provisioning.ID
	bed(ctx).PatchHost(t, ctx, ns, "worker-0", `{"metadata":{"annotations":{"baremetalhost.metal3.io/paused":"test"}}}`)

	var seen recorder
	watcher, err := bed(ctx).Hosts(ns).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var watching sync.WaitGroup
	watching.Go(func() { seen.follow(watcher) })
	informed := startInformer(t, ctx, ns)

	var shown []string // the states that reads have shown, in order
	for round := range rounds {
		want := changeNode(t, ctx, id, round)
		how, got := readSomehow(t, ctx, ns, "worker-0", round)
		if got.Status.Ironic == nil || !equality.Semantic.DeepEqual(withoutParent(got.Status.Ironic), &want) {
			t.Fatalf("round %d: %s shows %+v, Ironic says %+v", round, how, got.Status.Ironic, want)
		}
		shown = append(shown, fingerprint(got))
	}
	testbed.Eventually(t, ctx, func() string { return seen.missing(shown) })
	testbed.Eventually(t, ctx, func() string { return informed.missing(shown) })
	watcher.Stop()
	watching.Wait()
	if complaint := seen.disorder(); complaint != "" {
		t.Error(complaint)
	}
	t.Logf("%d rounds: every read showed the change; %d events reached the watcher in order", rounds, len(seen.versions))
}

// changeNode changes the node in one of several ways and returns what the host
// must show from then on.
func changeNode(t *testing.T, ctx context.Context, id string, round int) metal3.IronicStatus {
	t.Helper()
	o := bed(ctx).ironic.Operator()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
	}
	var done func(testbed.Node) bool
	switch round % 4 {
	case 0:
		target := map[bool]string{true: "power on", false: "power off"}[round%8 == 0]
		must(o.Power(ctx, id, target))
		done = func(n testbed.Node) bool { return n.PowerState == target && n.TargetPowerState == "" }
	case 1:
		reason := "round " + strconv.Itoa(round)
		must(o.SetMaintenance(ctx, id, true, reason))
		done = func(n testbed.Node) bool { return n.MaintenanceReason == reason }
	case 2:
		must(o.SetMaintenance(ctx, id, false, ""))
		done = func(n testbed.Node) bool { return !n.Maintenance }
	case 3:
		n, err := o.Node(ctx, id)
		must(err)
		target, state := "manage", "manageable"
		if n.ProvisionState == state {
			target, state = "provide", "available"
		}
		must(o.Provision(ctx, id, target))
		done = func(n testbed.Node) bool { return n.ProvisionState == state && n.TargetProvisionState == "" }
	}
	return shownOf(waitNode(t, ctx, id, func(n testbed.Node) bool { return n.Reservation == "" && done(n) }))
}

// withoutParent is what a host shows of its node, apart from its parent, which the API version of the operator in
// these tests does not know.
func withoutParent(shown *metal3.IronicStatus) *metal3.IronicStatus {
	if shown == nil {
		return nil
	}
	other := *shown
	other.OwnParent = false
	return &other
}

// shownOf is what a host shows of its node.
func shownOf(n testbed.Node) metal3.IronicStatus {
	var inspected *metav1.MicroTime
	if n.InspectionFinishedAt != nil {
		inspected = &metav1.MicroTime{Time: *n.InspectionFinishedAt}
	}
	var changed *metav1.MicroTime
	if n.ProvisionUpdatedAt != nil && !ironic.ProvisionState(n.ProvisionState).IsInTransit() {
		changed = &metav1.MicroTime{Time: *n.ProvisionUpdatedAt}
	}
	text := func(values map[string]any, key string) string { value, _ := values[key].(string); return value }
	bmc := ""
	if address := text(n.DriverInfo, "ipmi_address"); address != "" {
		bmc = "ipmi " + address + ":" + text(n.DriverInfo, "ipmi_port")
	}
	clean := ""
	if n.AutomatedClean != nil {
		clean = strconv.FormatBool(*n.AutomatedClean)
	}
	return metal3.IronicStatus{
		NodeName: n.Name, AutomatedClean: clean,
		InstanceUUID: n.InstanceUUID, BMC: bmc,
		MarkedHost: text(n.Extra, "metal3_apiserver_host"), MarkedCluster: text(n.Extra, "metal3_apiserver_cluster"),
		NodeUUID: n.UUID, ProvisionState: n.ProvisionState, TargetProvisionState: n.TargetProvisionState,
		PowerState: n.PowerState, TargetPowerState: n.TargetPowerState,
		Maintenance: n.Maintenance, MaintenanceReason: n.MaintenanceReason, Fault: n.Fault, LastError: n.LastError,
		InspectionFinishedAt: inspected, StateChangedAt: changed,
	}
}

// readSomehow reads the host in one of the ways that clients read.
func readSomehow(t *testing.T, ctx context.Context, ns, name string, round int) (string, *metal3.BareMetalHost) {
	t.Helper()
	hosts := bed(ctx).Hosts(ns)
	if round%5 == 0 {
		got, err := hosts.Get(ctx, name, metav1.GetOptions{ResourceVersion: []string{"", "0"}[round/5%2]})
		if err != nil {
			t.Fatal(err)
		}
		return "GET", got
	}
	options := []metav1.ListOptions{1: {}, 2: {ResourceVersion: "0"}, 3: {ResourceVersion: "0", Limit: 1}, 4: {FieldSelector: "metadata.name=" + name}}[round%5]
	list, err := hosts.List(ctx, options)
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 1 {
		t.Fatalf("LIST %+v has %d hosts, want 1", options, len(list.Items))
	}
	return fmt.Sprintf("LIST %+v", options), &list.Items[0]
}

func fingerprint(h *metal3.BareMetalHost) string {
	text, err := json.Marshal(h.Status.Ironic)
	if err != nil {
		return err.Error()
	}
	return h.ResourceVersion + " " + string(text)
}

// recorder keeps what a watcher was sent.
type recorder struct {
	mu       sync.Mutex
	states   []string
	versions []uint64
}

func (r *recorder) follow(w watch.Interface) {
	for event := range w.ResultChan() {
		if host, ok := event.Object.(*metal3.BareMetalHost); ok && event.Type != watch.Bookmark {
			r.add(host)
		}
	}
}

func (r *recorder) add(host *metal3.BareMetalHost) {
	version, err := strconv.ParseUint(host.ResourceVersion, 10, 64)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.states = append(r.states, fingerprint(host))
	if err == nil {
		r.versions = append(r.versions, version)
	}
}

// missing looks for the states of shown, in their order, among those recorded.
func (r *recorder) missing(shown []string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := 0
	for _, state := range r.states {
		for i < len(shown) && shown[i] == state {
			i++ // a state can be shown twice and sent once
		}
	}
	if i < len(shown) {
		return fmt.Sprintf("state %d of %d that a read has shown did not arrive: %s", i, len(shown), shown[i])
	}
	return ""
}

func (r *recorder) disorder() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := 1; i < len(r.versions); i++ {
		if r.versions[i] <= r.versions[i-1] {
			return fmt.Sprintf("event %d has resourceVersion %d after %d", i, r.versions[i], r.versions[i-1])
		}
	}
	return ""
}

// startInformer starts a client-go informer, which uses WatchList by default, and
// waits until it is in sync.
func startInformer(t *testing.T, ctx context.Context, ns string) *recorder {
	t.Helper()
	r := &recorder{}
	factory := externalversions.NewSharedInformerFactoryWithOptions(bed(ctx).Metal3, 0, externalversions.WithNamespace(ns))
	informer := factory.Metal3().V1alpha1().BareMetalHosts().Informer()
	add := func(obj any) {
		if host, ok := obj.(*metal3.BareMetalHost); ok {
			r.add(host)
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, obj any) { add(obj) }}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	t.Cleanup(func() { cancel(); factory.Shutdown() })
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		t.Fatal("the informer is not in sync")
	}
	return r
}

// TestChangesReachWatchersWithNobodyReading: the leader's poll sees them.
func TestChangesReachWatchersWithNobodyReading(t *testing.T) {
	ctx, ns := s.Begin(t)
	host := fakeHost(t, ctx, ns, "worker-0")
	watcher, err := bed(ctx).Hosts(ns).Watch(ctx, metav1.ListOptions{ResourceVersion: host.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	for round := range 5 {
		reason := fmt.Sprintf("poll %d", round)
		if err := bed(ctx).ironic.Operator().SetMaintenance(ctx, host.Status.Provisioning.ID, true, reason); err != nil {
			t.Fatal(err)
		}
		awaitEvent(t, ctx, watcher, func(h *metal3.BareMetalHost) bool {
			return h.Status.Ironic != nil && h.Status.Ironic.MaintenanceReason == reason
		})
	}
}

func awaitEvent(t *testing.T, ctx context.Context, w watch.Interface, wanted func(*metal3.BareMetalHost) bool) {
	t.Helper()
	for {
		select {
		case event, open := <-w.ResultChan():
			if !open {
				t.Fatal("the watch has ended")
			}
			if host, ok := event.Object.(*metal3.BareMetalHost); ok && wanted(host) {
				return
			}
		case <-ctx.Done():
			t.Fatal("the event did not come")
		}
	}
}

// TestQuietHostsAreNotWritten: reads and polls of what does not change leave the
// resourceVersion alone.
func TestQuietHostsAreNotWritten(t *testing.T) {
	ctx, ns := s.Begin(t)
	fakeHost(t, ctx, ns, "worker-0")
	bed(ctx).WaitHost(t, ctx, ns, "worker-0", "is on", func(h *metal3.BareMetalHost) bool { return h.Status.PoweredOn })
	before := settled(t, ctx, ns, "worker-0")
	polls := ironicRequests(t, ctx)
	// Six polls of the leader and a few reads go by.
	testbed.Eventually(t, ctx, func() string {
		if n := ironicRequests(t, ctx)["ChangedSince"] - polls["ChangedSince"]; n < 6 {
			return fmt.Sprintf("%d polls", n)
		}
		return ""
	})
	list, err := bed(ctx).Hosts(ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := list.Items[0].ResourceVersion; got != before.ResourceVersion {
		t.Errorf("resourceVersion went from %s to %s while nothing changed: %+v -> %+v", before.ResourceVersion, got, before.Status, list.Items[0].Status)
	}
}

// settled waits until the leader has looked at Ironic three times without a change of the host.
func settled(t *testing.T, ctx context.Context, ns, name string) *metal3.BareMetalHost {
	t.Helper()
	var last *metal3.BareMetalHost
	looks := 0
	testbed.Eventually(t, ctx, func() string {
		host, looked := bed(ctx).GetHost(t, ctx, ns, name), ironicRequests(t, ctx)["ChangedSince"]
		if last == nil || host.ResourceVersion != last.ResourceVersion {
			last, looks = host, looked
		}
		if looked < looks+4 { // the first of them may have been under way
			return "resourceVersion still moves"
		}
		return ""
	})
	return last
}

// ironicRequests reads from /metrics how many requests of each kind our server
// has sent to Ironic.
func ironicRequests(t *testing.T, ctx context.Context) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for line := range strings.Lines(metrics(t, ctx)) {
		rest, ok := strings.CutPrefix(line, "metal3_ironic_request_duration_seconds_count{")
		if !ok {
			continue
		}
		labels, value, _ := strings.Cut(strings.TrimSpace(rest), "} ")
		_, operation, _ := strings.Cut(labels, `operation="`)
		operation, _, _ = strings.Cut(operation, `"`)
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			t.Fatalf("metrics: %q: %v", line, err)
		}
		counts[operation] += int(n)
	}
	return counts
}

// metrics is what /metrics of our server says.
func metrics(t *testing.T, ctx context.Context) string {
	t.Helper()
	client, err := discovery.NewDiscoveryClientForConfig(bed(ctx).Server.Direct.Config)
	if err != nil {
		t.Fatal(err)
	}
	text, err := client.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestReadersShare: two hundred GETs of two hundred hosts at once cost Ironic a
// handful of requests, a lone GET one and a LIST one.
func TestReadersShare(t *testing.T) {
	testbed.OnSimulator(t, "this is about the requests that the server makes")
	const n = 200
	ctx, ns := s.Begin(t)
	// The suite's server also asks Ironic for the hosts of other tests, and a leader for its own work. No read gives up while Ironic
	// is held.
	somebodyElseLeads(t, ctx, ns)
	ctx = onServerOfItsOwn(t, ctx, ns, "--ironic-read-timeout="+testbed.Patience.String())
	for i := range n {
		observedHost(t, ctx, ns, fmt.Sprintf("w-%03d", i))
	}
	hosts := bed(ctx).Hosts(ns)
	if _, err := hosts.List(ctx, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}

	// At once: Ironic is held until all of them are with our server.
	if err := bed(ctx).ironic.Pause(); err != nil {
		t.Fatal(err)
	}
	before := ironicRequests(t, ctx)
	var readers sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		readers.Go(func() { _, errs[i] = hosts.Get(ctx, fmt.Sprintf("w-%03d", i), metav1.GetOptions{}) })
	}
	testbed.Eventually(t, ctx, func() string {
		if waiting := waitingReads(t, ctx); waiting < n {
			return fmt.Sprintf("%d of %d reads wait for Ironic", waiting, n)
		}
		return ""
	})
	if err := bed(ctx).ironic.Resume(); err != nil {
		t.Fatal(err)
	}
	readers.Wait()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	spent := requestsSince(t, ctx, before)
	t.Logf("%d GETs of %d hosts at once cost Ironic %v", n, n, spent)
	if total := spent["GetNode"] + spent["ListNodes"]; total > 12 {
		t.Errorf("%d GETs at once cost Ironic %d requests, want a handful", n, total)
	}

	before = ironicRequests(t, ctx)
	if _, err := hosts.Get(ctx, "w-000", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	if spent := requestsSince(t, ctx, before); spent["GetNode"] != 1 {
		t.Errorf("a lone GET cost Ironic %v, want one GetNode", spent)
	}
	before = ironicRequests(t, ctx)
	if _, err := hosts.List(ctx, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	spent = requestsSince(t, ctx, before)
	// A sweep may be due by now.
	if lists := spent["ChangedSince"] + spent["ListNodes"]; spent["GetNode"] != 0 || lists < 1 || lists > 2 {
		t.Errorf("a LIST cost Ironic %v, want one list of what has changed", spent)
	}
	t.Logf("a LIST of %d hosts cost Ironic %v", n, spent)
}

// somebodyElseLeads has the servers of a namespace follow for as long as the test runs.
func somebodyElseLeads(t *testing.T, ctx context.Context, ns string) {
	t.Helper()
	_, err := s.Core.CoordinationV1().Leases(ns).Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "metal3-apiserver"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To("another"), LeaseDurationSeconds: ptr.To[int32](24 * 3600), RenewTime: ptr.To(metav1.NowMicro())},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// waitingReads reads from /metrics how many reads of hosts wait for Ironic.
func waitingReads(t *testing.T, ctx context.Context) int {
	t.Helper()
	for line := range strings.Lines(metrics(t, ctx)) {
		if value, ok := strings.CutPrefix(line, `metal3_ironic_waiting_reads{ironic=""} `); ok {
			reads, err := strconv.Atoi(strings.TrimSpace(value))
			if err != nil {
				t.Fatal(err)
			}
			return reads
		}
	}
	t.Fatal("there is no metal3_ironic_waiting_reads")
	return 0
}

// observedHost makes a host that is read from Ironic and otherwise left alone.
func observedHost(t *testing.T, ctx context.Context, ns, name string) *metal3.BareMetalHost {
	t.Helper()
	node, err := bed(ctx).ironic.Operator().CreateNode(ctx, fakeNode(ns, name, name+"."+ns+".example.org"))
	if err != nil {
		t.Fatal(err)
	}
	hosts := bed(ctx).Hosts(ns)
	host, err := hosts.Create(ctx, &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{
		Name: name, Annotations: map[string]string{metal3.PausedAnnotation: "test"},
	}, Spec: metal3.BareMetalHostSpec{
		BMC: metal3.BMCDetails{Address: "ipmi://" + name + "." + ns + ".example.org", CredentialsName: "bmc"},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	host.Status.Provisioning.ID = node.UUID
	if host, err = hosts.UpdateStatus(ctx, host, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	return host
}

func requestsSince(t *testing.T, ctx context.Context, before map[string]int) map[string]int {
	t.Helper()
	spent := ironicRequests(t, ctx)
	for operation, n := range before {
		spent[operation] -= n
		if spent[operation] == 0 {
			delete(spent, operation)
		}
	}
	return spent
}
