// SPDX-License-Identifier: Apache-2.0

package safety

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/metal3-io/metal3-apiserver/pkg/generated/clientset/versioned"
	typed "github.com/metal3-io/metal3-apiserver/pkg/generated/clientset/versioned/typed/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

const (
	// someReads is how many reads have to succeed, through any replica, before a part dies and while it is away.
	someReads = 20
	// attempt is how long clients wait before they try the next replica: longer than a read waits for Ironic (3 s), which
	// is answered then.
	attempt = 5 * time.Second
	// suspension is how long a part is suspended: longer than it takes etcd's client in k8s.io/apiserver to give up a
	// connection on which nothing is answered (40 s).
	suspension = 42 * time.Second
)

// TestPartsDie kills and suspends each part of a highly available installation, one at a time, while hosts
// live: with three members of etcd and two replicas of the server. Reads go on, changes are carried
// out, and the account of the machines is that of TestKilled. It logs how long each interruption took, which
// docs/high-availability.md tells. HA=all, as in make test-ha, has all parts and both ways, and HA="leader suspended" that
// one; otherwise it is the two whose successors have to be elected, killed.
func TestPartsDie(t *testing.T) {
	if !testbed.IsSimulated() {
		t.Skip("which parts of the installation die does not depend on the Ironic")
	}
	ha := os.Getenv("HA")
	everything := ha != ""
	if !everything {
		inParallel(t)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 9*testbed.Patience)
	defer cancel()
	in := newInstallation(t, ctx)
	lives := in.beginLives(fromEnv(t, "HOSTS", map[bool]int{true: 20, false: 3}[everything]))
	probe := in.newProbe()
	for _, fault := range in.faults(everything) {
		if !everything || ha == "all" || fault.what == ha {
			probe.survive(fault)
		}
	}
	probe.end()
	ended, steps := lives.end()
	t.Logf("%d lives with %d steps were interrupted", ended, steps)
}

// installation is a bed with three members of etcd and two replicas.
type installation struct {
	*bed
	etcd     *testbed.EtcdCluster
	replicas [2]*testbed.Server
	ways     []*url.URL // to the replicas
}

func newInstallation(t *testing.T, ctx context.Context) *installation {
	t.Helper()
	in := &installation{bed: newIronicBed(t, ctx)}
	in.etcd = newEtcd(t, ctx, 3)
	options := testbed.ServerOptions{EtcdServers: in.etcd.Endpoints(), Args: in.etcd.ClientArgs()}
	for i := range in.replicas {
		in.replicas[i], in.client = in.newServer(options)
		if err := in.replicas[i].Start(ctx); err != nil {
			t.Fatal(err)
		}
		way, err := url.Parse(in.replicas[i].Direct.Config.Host)
		if err != nil {
			t.Fatal(err)
		}
		in.ways = append(in.ways, way)
	}
	in.client = in.newClient()
	in.hosts = in.client.Metal3V1alpha1().BareMetalHosts(in.ns)
	return in
}

// newEtcd starts an etcd of its own.
func newEtcd(t *testing.T, ctx context.Context, members int) *testbed.EtcdCluster {
	t.Helper()
	etcd, err := testbed.NewEtcdCluster(t.TempDir(), members)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := etcd.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := etcd.Start(ctx); err != nil {
		t.Fatal(err)
	}
	return etcd
}

// newClient returns a client that sends its requests to one replica, until one of them fails or is not answered
// in time, and then to the next, as a Service does without the ones that are not ready.
func (in *installation) newClient() versioned.Interface {
	in.t.Helper()
	config := rest.CopyConfig(in.replicas[0].Direct.Config)
	config.WarningHandler, config.Timeout = rest.NoWarnings{}, attempt
	config.Wrap(func(through http.RoundTripper) http.RoundTripper { return &failover{through: through, ways: in.ways} })
	client, err := versioned.NewForConfig(config)
	if err != nil {
		in.t.Fatal(err)
	}
	return client
}

type failover struct {
	through http.RoundTripper
	ways    []*url.URL
	current atomic.Int64
}

// WrappedRoundTripper lets client-go cancel requests.
func (f *failover) WrappedRoundTripper() http.RoundTripper { return f.through }

// RoundTrip implements http.RoundTripper.
func (f *failover) RoundTrip(request *http.Request) (*http.Response, error) {
	current := f.current.Load()
	request = request.Clone(request.Context())
	request.URL.Host = f.ways[current].Host
	response, err := f.through.RoundTrip(request)
	if err != nil || response.StatusCode >= http.StatusInternalServerError {
		f.current.CompareAndSwap(current, (current+1)%int64(len(f.ways)))
	}
	return response, err
}

// fault is a part of the installation that dies, and comes back.
type fault struct {
	what      string
	die, back func() error
	// lasts is how long it is away at least.
	lasts time.Duration
	// nobodyLeads is set where nothing is changed until the part is back.
	nobodyLeads bool
}

// faults returns how parts die. What leads is looked up when it is to die.
func (in *installation) faults(everything bool) []fault {
	var leader, follower *testbed.Server
	choose := func() {
		leader = in.leader(in.replicas[:]...)
		follower = in.replicas[0]
		if leader == follower {
			follower = in.replicas[1]
		}
	}
	var member *testbed.EtcdMember
	chooseMember := func(leads bool) error {
		first, err := in.etcd.Leader(in.ctx)
		if err != nil {
			return err
		}
		for _, member = range in.etcd.Members {
			if (member == first) == leads {
				return nil
			}
		}
		return errors.New("etcd has no such member")
	}
	restart := func(member *testbed.EtcdMember) error {
		if err := member.Start(); err != nil {
			return err
		}
		return member.WaitReady(in.ctx)
	}
	all := []fault{
		{what: "leader killed", die: func() error { choose(); return leader.Kill() }, back: func() error { return leader.Start(in.ctx) }},
		{what: "leader of etcd killed", die: func() error { return errors.Join(chooseMember(true), member.Kill()) }, back: func() error { return restart(member) }},
	}
	if !everything {
		return all
	}
	signal := func(server *testbed.Server, signal syscall.Signal) error { return syscall.Kill(server.PID(), signal) }
	return append(all,
		fault{what: "other replica killed", die: func() error { choose(); return follower.Kill() }, back: func() error { return follower.Start(in.ctx) }},
		fault{what: "other member of etcd killed", die: func() error { return errors.Join(chooseMember(false), member.Kill()) }, back: func() error { return restart(member) }},
		fault{what: "leader suspended", lasts: suspension, die: func() error { choose(); return signal(leader, syscall.SIGSTOP) }, back: func() error { return signal(leader, syscall.SIGCONT) }},
		fault{what: "other replica suspended", lasts: suspension, die: func() error { choose(); return signal(follower, syscall.SIGSTOP) }, back: func() error { return signal(follower, syscall.SIGCONT) }},
		fault{what: "leader of etcd suspended", lasts: suspension, die: func() error { return errors.Join(chooseMember(true), member.Suspend()) }, back: func() error { return member.Resume() }},
		fault{what: "other member of etcd suspended", lasts: suspension, die: func() error { return errors.Join(chooseMember(false), member.Suspend()) }, back: func() error { return member.Resume() }},
		fault{what: "volume of a member of etcd lost", die: func() error { return errors.Join(chooseMember(false), member.LoseData()) }, back: func() error {
			args := append([]string{"etcd", "replace", member.Name(), "--etcd-servers=" + in.etcd.Endpoints()}, in.etcd.ClientArgs()...)
			if out, err := exec.CommandContext(in.ctx, leader.Program(), args...).CombinedOutput(); err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			return restart(member)
		}},
		// Nothing is changed while it is away: nobody leads, because the Lease cannot be renewed.
		fault{what: "kube-apiserver killed for 20 s", lasts: 20 * time.Second, nobodyLeads: true, die: s.Kube.StopAPIServer, back: func() error { return s.Kube.StartAPIServer(in.ctx) }},
		fault{what: "kube-apiserver suspended", lasts: suspension, nobodyLeads: true, die: s.Kube.SuspendAPIServer, back: s.Kube.ResumeAPIServer},
	)
}

// probe is a host whose power is switched, and that is read all the time, through each of the replicas.
type probe struct {
	*installation
	machine machine

	stop    context.CancelFunc
	reading sync.WaitGroup

	mu    sync.Mutex
	last  time.Time     // of a read that succeeded
	worst time.Duration // between two of them
	ended time.Time     // when the latter did
	count int           // of those that succeeded
}

const probeName = "probe"

func (in *installation) newProbe() *probe {
	in.t.Helper()
	p := &probe{installation: in, machine: in.NewMachine(in.t), last: time.Now()}
	if _, err := in.hosts.Create(in.ctx, newHost(probeName, p.machine), metav1.CreateOptions{}); err != nil {
		in.t.Fatal(err)
	}
	testbed.Eventually(in.t, in.ctx, func() string {
		host, err := in.hosts.Get(in.ctx, probeName, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if !isAtRest("available", "")(host) {
			return describe(host)
		}
		return ""
	})
	ctx, stop := context.WithCancel(in.ctx)
	p.stop = stop
	p.noteGap(func() { p.last = time.Now() })
	for _, replica := range in.replicas {
		config := rest.CopyConfig(replica.Direct.Config)
		config.WarningHandler, config.Timeout = rest.NoWarnings{}, attempt
		client, err := versioned.NewForConfig(config)
		if err != nil {
			in.t.Fatal(err)
		}
		p.reading.Go(func() { p.read(ctx, client.Metal3V1alpha1().BareMetalHosts(in.ns)) })
	}
	return p
}

func (p *probe) end() {
	p.stop()
	p.reading.Wait()
}

// read reads the host until ctx ends.
func (p *probe) read(ctx context.Context, hosts typed.BareMetalHostInterface) {
	for ctx.Err() == nil {
		if _, err := hosts.Get(ctx, probeName, metav1.GetOptions{}); err == nil {
			p.noteGap(func() { p.last, p.count = time.Now(), p.count+1 })
		}
		waitFor(ctx, 100*time.Millisecond)
	}
}

// noteGap notes the time since the last read that succeeded, and then calls next.
func (p *probe) noteGap(next func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if gap := time.Since(p.last); gap > p.worst {
		p.worst, p.ended = gap, time.Now()
	}
	next()
}

// survive lets a part die, waits until a change was carried out nevertheless, and until the part is back and
// another change was carried out.
func (p *probe) survive(f fault) {
	p.t.Helper()
	usual := p.usualGap()
	p.noteGap(func() { p.worst = 0 })
	if err := f.die(); err != nil {
		p.t.Fatalf("%s: %v", f.what, err)
	}
	died := time.Now()
	var step time.Duration
	if !f.nobodyLeads {
		step = p.switchPower(f.what, died)
	}
	p.readSome("while " + f.what)
	waitFor(p.ctx, time.Until(died.Add(f.lasts)))
	if err := f.back(); err != nil {
		p.t.Fatalf("%s, and started again: %v", f.what, err)
	}
	back := p.switchPower(f.what+" and back", time.Now())
	var reads, ended time.Duration
	p.noteGap(func() { reads, ended = p.worst, p.ended.Sub(died) })
	p.t.Logf("%s: no read for %s until %s (before: %s), a change carried out after %s, and after %s when it was back",
		f.what, reads.Round(10*time.Millisecond), ended.Round(10*time.Millisecond), usual.Round(10*time.Millisecond), step.Round(10*time.Millisecond), back.Round(10*time.Millisecond))
}

// usualGap returns the longest time between two reads while nothing is wrong.
func (p *probe) usualGap() (usual time.Duration) {
	p.t.Helper()
	p.noteGap(func() { p.worst = 0 })
	p.readSome("before anything was done")
	p.noteGap(func() { usual = p.worst })
	return usual
}

// readSome waits until some reads have succeeded from now on.
func (p *probe) readSome(when string) {
	p.t.Helper()
	p.noteGap(func() { p.count = 0 })
	testbed.Eventually(p.t, p.ctx, func() (complaint string) {
		p.noteGap(func() {
			if p.count < someReads {
				complaint = fmt.Sprintf("%d reads have succeeded %s", p.count, when)
			}
		})
		return complaint
	})
}

// switchPower asks for the other power state, and returns how long after since the machine had it.
func (p *probe) switchPower(what string, since time.Time) time.Duration {
	p.t.Helper()
	on := !p.machine.IsOn()
	patch := []byte(fmt.Sprintf(`{"spec":{"online":%t}}`, on))
	asked := false
	testbed.EventuallyEvery(p.t, p.ctx, 100*time.Millisecond, func() string {
		if !asked {
			_, err := p.hosts.Patch(p.ctx, probeName, types.MergePatchType, patch, metav1.PatchOptions{})
			if err != nil {
				return fmt.Sprintf("%s: asking for the power: %v", what, err)
			}
			asked = true
		}
		if p.machine.IsOn() != on {
			return fmt.Sprintf("%s: the machine is not switched", what)
		}
		return ""
	})
	return time.Since(since)
}
