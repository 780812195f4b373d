// SPDX-License-Identifier: Apache-2.0

package safety

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/generated/clientset/versioned"
	typed "github.com/metal3-io/metal3-apiserver/pkg/generated/clientset/versioned/typed/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// inAnotherRoom is a host in another Ironic than that of the flags, by an IronicInstance.
const inAnotherRoom = "resting-elsewhere"

// TestUpgrade replaces replicas of this version by those of a later one, whose records have another epoch, and goes back and forth
// again, while hosts live. The account of their machines is that of TestKilled. Other hosts rest: their machines are left alone, they
// are hardly written, nothing that is recorded of them is lost, and this version writes nothing of what the later one has recorded.
// LATER_SERVER is the program of the later version.
func TestUpgrade(t *testing.T) {
	program := os.Getenv("LATER_SERVER")
	if program == "" {
		t.Skip("a later version takes a minute to be built: make test-upgrade")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 6*testbed.Patience)
	defer cancel()
	b := newIronicBed(t, ctx)
	options := testbed.ServerOptions{EtcdServers: s.Kube.EtcdEndpoint, Args: append([]string{"--etcd-prefix=/registry/" + b.ns}, lease...)}
	present, _ := b.newServer(options)
	options.Program = program
	later, _ := b.newServer(options)
	b.client = throughEither(t, present, later)
	b.hosts = b.client.Metal3V1alpha1().BareMetalHosts(b.ns)
	start := func(server *testbed.Server) {
		t.Helper()
		if err := server.Start(ctx); err != nil {
			t.Fatal(err)
		}
	}
	stop := func(server *testbed.Server) {
		t.Helper()
		if _, err := server.Stop(); err != nil {
			t.Fatal(err)
		}
	}

	start(present)
	b.leader(present)
	r := b.rest(later)
	lives := b.beginLives(manyHosts(t))
	r.during("this version alone", 10, present)
	start(later)
	if _, err := r.through(later).List(ctx, metav1.ListOptions{}); err != nil { // it records what it reads, so that this version gives the Lease up
		t.Fatal(err)
	}
	b.leader(later)
	r.during("both, the later one leads", 25, present, later)
	stop(present)
	r.elsewhere(later)
	r.during("the later version alone", 25, later)
	start(present)
	r.during("both again", 15, present, later)
	stop(later)
	r.during("rolled back, nobody leads", 15, present)
	b.leader(present) // it has given the Lease up for a minute, for a later version to lead
	r.during("rolled back", 25, present)
	start(later)
	stop(present)
	b.leader(later)
	r.during("the later version again", 15, later)
	ended, steps := lives.end()
	t.Logf("%d lives with %d steps", ended, steps)
	r.during("at the end", 3, later)
}

// throughEither returns a client whose connections lead to one of the servers that runs.
func throughEither(t *testing.T, servers ...*testbed.Server) versioned.Interface {
	t.Helper()
	config := rest.CopyConfig(servers[0].Direct.Config)
	config.WarningHandler = rest.NoWarnings{}
	config.NextProtos = []string{"http/1.1"} // one connection for each of the hosts at a time, and not one for all
	var mu sync.Mutex
	next := 0
	config.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		mu.Lock()
		next++
		first := next
		mu.Unlock()
		var errs error
		for i := range servers {
			to, err := url.Parse(servers[(first+i)%len(servers)].Direct.Config.Host)
			if err != nil {
				return nil, err
			}
			conn, err := (&net.Dialer{}).DialContext(ctx, network, to.Host)
			if err == nil {
				return conn, nil
			}
			errs = errors.Join(errs, err)
		}
		return nil, errs
	}
	client, err := versioned.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// resting are hosts that nobody wants anything of.
type resting struct {
	*bed
	// later is the server of the later version.
	later *testbed.Server
	etcd  *clientv3.Client
	hosts map[string]*restingHost
}

type restingHost struct {
	machine machine
	arrived func(*metal3.BareMetalHost) bool
	before  machineState
}

func (b *bed) rest(later *testbed.Server) *resting {
	b.t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Kube.EtcdEndpoint}, DialTimeout: testbed.Patience})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = client.Close() })
	r := &resting{b, later, client, map[string]*restingHost{}}
	url, checksum := b.Image("first.raw")
	for name, change := range map[string]func(*metal3.BareMetalHost, machine){
		"resting-available": func(*metal3.BareMetalHost, machine) {},
		"resting-external": func(h *metal3.BareMetalHost, m machine) {
			m.Press(true)
			h.Spec.ExternallyProvisioned = true
		},
		"resting-provisioned": func(h *metal3.BareMetalHost, _ machine) { h.Spec.Image = imageOf(url, checksum) },
	} {
		r.add(b.hosts, name, b.NewMachine(b.t), change)
	}
	return r
}

// add creates a host and waits until it rests.
func (r *resting) add(hosts typed.BareMetalHostInterface, name string, m machine, change func(*metal3.BareMetalHost, machine)) {
	r.t.Helper()
	host := newHost(name, m)
	change(host, m)
	state, image := metal3.StateAvailable, ""
	switch {
	case host.Spec.ExternallyProvisioned:
		state = metal3.StateExternallyProvisioned
	case host.Spec.Image != nil:
		state, image = metal3.StateProvisioned, host.Spec.Image.URL
	}
	if _, err := hosts.Create(r.ctx, host, metav1.CreateOptions{}); err != nil {
		r.t.Fatal(err)
	}
	added := &restingHost{machine: m, arrived: func(h *metal3.BareMetalHost) bool {
		// A request that a slow Ironic has not answered is forgotten after a while, by whoever leads.
		return isAtRest(state, image)(h) && len(h.Status.Record.PowerOns) == 0 && h.Status.Record.Asked == nil
	}}
	testbed.Eventually(r.t, r.ctx, func() string {
		h, err := hosts.Get(r.ctx, name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if !added.arrived(h) {
			return describe(h)
		}
		return ""
	})
	added.before = stateOfMachine(m)
	r.hosts[name] = added
}

// elsewhere adds a host in another Ironic.
func (r *resting) elsewhere(server *testbed.Server) {
	r.t.Helper()
	other := startIronic(r.t, r.ctx)
	for range r.hosts { // the machines of simulated Ironics have the same addresses
		other.NewMachine(r.t)
	}
	for range fromEnv(r.t, "HOSTS", 20) {
		other.NewMachine(r.t)
	}
	if _, _, err := server.Direct.Kubectl(r.ctx, fmt.Sprintf(`
apiVersion: ironic.metal3-apiserver.io/v1alpha1
kind: IronicInstance
metadata: {name: room-1}
spec:
  endpoint: %s
  selector: {matchLabels: {%s: "1"}}
`, other.Operator().Endpoint, room), "create", "-f", "-"); err != nil {
		r.t.Fatal(err)
	}
	waitReachable(r.t, r.ctx, server.Direct, "room-1")
	r.add(r.through(server), inAnotherRoom, other.NewMachine(r.t), func(h *metal3.BareMetalHost, _ machine) {
		h.Labels = map[string]string{room: "1"}
		h.Spec.Image = imageOf(other.Image("first.raw"))
	})
}

func (r *resting) through(server *testbed.Server) typed.BareMetalHostInterface {
	r.t.Helper()
	return throughEither(r.t, server).Metal3V1alpha1().BareMetalHosts(r.ns)
}

// during relabels the hosts through each of the servers and lists them so many times, and then looks at what has become of them.
func (r *resting) during(phase string, lists int, servers ...*testbed.Server) {
	r.t.Helper()
	records, versions := r.stored()
	labels := map[string]int64{}
	for round := range lists {
		for i, server := range servers {
			hosts := r.through(server)
			if _, err := hosts.List(r.ctx, metav1.ListOptions{}); err != nil {
				r.t.Errorf("%s: %v", phase, err)
			}
			if round > 0 {
				continue
			}
			for name := range r.hosts {
				if r.relabel(phase, name, i, server) {
					labels[name]++
				}
			}
		}
		waitFor(r.ctx, 300*time.Millisecond)
	}
	recordsNow, versionsNow := r.stored()
	for name, host := range r.hosts {
		// The first replica of another version may write what it says in other words, but not by turns with the others, nor with each read.
		if writes := versionsNow[name] - versions[name] - labels[name]; writes > int64(max(3, lists/2)) {
			r.t.Errorf("%s: %s was written %d times, with %d reads of each replica", phase, name, writes, lists)
		}
		r.isNotWrittenBack(phase, name, versions[name])
		for field, was := range records[name] {
			if _, is := recordsNow[name][field]; !is {
				r.t.Errorf("%s: the record of %s has lost %s: %v", phase, name, field, was)
			}
		}
		if diff := cmp.Diff(host.before, stateOfMachine(host.machine)); diff != "" {
			r.t.Errorf("%s: what was done to the machine of %s (-before +now):\n%s", phase, name, diff)
		}
		for _, server := range servers {
			h, err := r.through(server).Get(r.ctx, name, metav1.GetOptions{})
			if err != nil {
				r.t.Errorf("%s: %v", phase, err)
			} else if !host.arrived(h) {
				r.t.Errorf("%s: %s", phase, describe(h))
			}
		}
	}
}

// relabel changes a label of a host through a server, and reports whether it was changed: this version refuses that if the later one has
// recorded the host.
func (r *resting) relabel(phase, name string, number int, server *testbed.Server) (changed bool) {
	r.t.Helper()
	before, _ := r.stored()
	patch := fmt.Sprintf(`{"metadata":{"labels":{"server-%d":%q}}}`, number, time.Now().Format("150405"))
	_, err := withoutRetries(r.t, server).Metal3V1alpha1().BareMetalHosts(r.ns).Patch(r.ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	after, _ := r.stored()
	switch wasLater, isLater := epochOf(before[name]) > metal3.RecordEpoch, epochOf(after[name]) > metal3.RecordEpoch; {
	case err == nil && (server == r.later || !wasLater):
		return true
	case server != r.later && isLater && apierrors.IsServiceUnavailable(err):
		return false
	}
	r.t.Errorf("%s: relabelling %s, recorded with epoch %d and then %d, through server %d: %v", phase, name, epochOf(before[name]), epochOf(after[name]), number, err)
	return err == nil
}

func epochOf(record map[string]any) int {
	epoch, _ := record["epoch"].(float64)
	return int(epoch)
}

// withoutRetries returns a client that does not repeat a request after a 503.
func withoutRetries(t *testing.T, server *testbed.Server) versioned.Interface {
	t.Helper()
	config := rest.CopyConfig(server.Direct.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			answer, err := next.RoundTrip(request)
			if err == nil {
				answer.Header.Del("Retry-After")
			}
			return answer, err
		})
	})
	client, err := versioned.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

// isNotWrittenBack checks that what a host says does not go back and forth in the versions written after one, but for times and labels.
// Once may be a moment in which a new leader does not know something yet.
func (r *resting) isNotWrittenBack(phase, name string, after int64) {
	r.t.Helper()
	var contents []string // from the last one
	for revision := int64(0); ; {
		found, err := r.etcd.Get(r.ctx, r.key(name), clientv3.WithRev(revision))
		if errors.Is(err, rpctypes.ErrCompacted) || err == nil && len(found.Kvs) == 0 {
			break
		}
		if err != nil {
			r.t.Fatal(err)
		}
		kv := found.Kvs[0]
		var host map[string]any
		if err := json.Unmarshal(kv.Value, &host); err != nil {
			r.t.Fatal(err)
		}
		contents = append(contents, string(mustJSON(r.t, withoutTimes(host))))
		if kv.Version <= after {
			break
		}
		revision = kv.ModRevision - 1
	}
	contents = slices.Compact(contents)
	for i, content := range contents {
		if slices.Contains(contents[i+1:], content) && slices.Contains(contents[:i], content) {
			r.t.Errorf("%s: %s is written by turns (-earlier +later):\n%s", phase, name, cmp.Diff(contents[i+1], content))
			return
		}
	}
}

// withoutTimes removes what differs between two writes of one content, and the labels, which the test changes.
func withoutTimes(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for _, key := range []string{"managedFields", "labels", "generation", "lastUpdated", "lastTransitionTime"} {
			delete(value, key)
		}
		for _, part := range value {
			withoutTimes(part)
		}
	case []any:
		for _, part := range value {
			withoutTimes(part)
		}
	}
	return value
}

func mustJSON(t *testing.T, value any) []byte {
	t.Helper()
	text, err := json.MarshalIndent(value, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// key is that of a host in etcd.
func (r *resting) key(name string) string {
	return "/registry/" + r.ns + "/metal3.io/baremetalhosts/" + r.ns + "/" + name
}

// stored returns the records of the hosts as they are in etcd, and how often each host was written since it was created.
func (r *resting) stored() (records map[string]map[string]any, versions map[string]int64) {
	r.t.Helper()
	records, versions = map[string]map[string]any{}, map[string]int64{}
	for name := range r.hosts {
		found, err := r.etcd.Get(r.ctx, r.key(name))
		if err != nil || len(found.Kvs) != 1 {
			r.t.Fatalf("%s: %d hosts in etcd: %v", name, len(found.Kvs), err)
		}
		var host struct {
			Status struct{ Record map[string]any }
		}
		if err := json.Unmarshal(found.Kvs[0].Value, &host); err != nil {
			r.t.Fatal(err)
		}
		records[name], versions[name] = host.Status.Record, found.Kvs[0].Version
	}
	return records, versions
}
