// SPDX-License-Identifier: Apache-2.0

package safety

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	plugin "github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/app"
	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// TestClusterctlMove: the real clusterctl moves hosts to another cluster with a server of its own, and back. Nothing is done to
// their machines, and the servers go on with them without anybody's help.
func TestClusterctlMove(t *testing.T) {
	if os.Getenv("CLUSTERCTL") == "" {
		t.Skip("clusterctl takes minutes to be built: make test-clusterctl or make test-all")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 6*testbed.Patience)
	defer cancel()
	kube, err := testbed.StartKube(ctx, testbed.KubeOptions{Dir: t.TempDir(), ControllerManager: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := kube.Stop(); err != nil {
			t.Error(err)
		}
	})
	here, there := newCluster(t, ctx, "the first cluster", s.Kube), newCluster(t, ctx, "the second cluster", kube)

	// with starts a server in each cluster.
	with := func(t *testing.T, inFirst, inSecond []ironicUnderTest) *moved {
		here.serve(t, inFirst[0], inFirst[1:]...)
		there.serve(t, inSecond[0], inSecond[1:]...)
		return newMoved(t, here, map[*cluster][]ironicUnderTest{here: inFirst, there: inSecond})
	}
	t.Run("one Ironic", func(t *testing.T) {
		shared := []ironicUnderTest{startIronic(t, ctx)}
		m := with(t, shared, shared)
		m.move(there)
		m.move(here)
		m.inHand()
	})
	t.Run("two Ironics", func(t *testing.T) {
		testbed.OnSimulator(t, "the servers go by Ironic's answers, which are those of one")
		both := []ironicUnderTest{startIronic(t, ctx), startIronic(t, ctx)}
		m := with(t, both, both)
		m.move(there)
		m.move(here)
		m.inHand()
	})
	t.Run("an Ironic of each", func(t *testing.T) {
		m := with(t, []ironicUnderTest{startIronic(t, ctx)}, []ironicUnderTest{startIronic(t, ctx)})
		m.move(there)
		m.forget(here)
		m.move(here)
		m.inHand()
	})
}

// movedHost is a host that is moved.
type movedHost struct {
	name string
	// external: its machine runs something that nobody has deployed with Ironic.
	external, claimed bool
	// own: somebody has provisioned it without Cluster API. consumer is the kind of whoever has claimed it, if anybody has.
	own      bool
	consumer string
	// used: it was provisioned, and is not any more.
	used bool
	off  bool
	// in is the number of its Ironic.
	in int
	// url is that of its image.
	url string

	machine machine
	// twin is what another simulated Ironic has of the machine; nil if there is none.
	twin   machine
	before hostState
}

// hostState is what must be the same after a move.
type hostState struct {
	Machine, Twin machineState
	Provisioning  metal3.ProvisionStatus
	Hardware      *metal3.HardwareDetails
	Labels        map[string]string
	Spec          metal3.BareMetalHostSpec
}

type machineState struct {
	Account account
	On      bool
}

// moved is a namespace with hosts in several states. It is in one cluster at a time.
type moved struct {
	t       *testing.T
	ironics map[*cluster][]ironicUnderTest
	at      *cluster
	ns      string
	hosts   []*movedHost
}

func newMoved(t *testing.T, at *cluster, ironics map[*cluster][]ironicUnderTest) *moved {
	t.Helper()
	m := &moved{t: t, ironics: ironics, at: at, ns: s.NewNamespace(t, at.ctx), hosts: []*movedHost{
		{name: "claimed", claimed: true}, {name: "claimed-off", claimed: true, off: true}, {name: "external", external: true},
		{name: "spare"}, {name: "spare-off", off: true}, {name: "used", used: true},
		{name: "own", own: true}, {name: "own-claimed", own: true, consumer: "Tenant"},
	}}
	(&bed{t: t, ctx: at.ctx, ns: m.ns}).createSecret("bmc")
	at.createCluster(m.ns)
	for i, h := range m.hosts {
		h.in = i % len(ironics[at])
		for number, ironic := range ironics[at] { // the machines of simulated Ironics have the same addresses
			if machine := ironic.NewMachine(t); number == h.in {
				h.machine = machine
			}
		}
		host := newHost(h.name, h.machine)
		host.Labels = map[string]string{room: fmt.Sprint(h.in)}
		if h.external {
			h.machine.Press(true)
			host.Spec.ExternallyProvisioned = true
		}
		if h.claimed || h.used || h.own {
			host.Spec.Image = imageOf(ironics[at][h.in].Image("first.raw"))
			h.url = host.Spec.Image.URL
		}
		if _, err := at.hosts(m.ns).Create(at.ctx, host, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, h := range m.hosts {
		state, url := metal3.StateAvailable, ""
		switch {
		case h.external:
			state = metal3.StateExternallyProvisioned
		case h.claimed || h.used || h.own:
			state, url = metal3.StateProvisioned, h.url
		}
		m.wait(h, isAtRest(state, url))
		if h.used {
			at.patchHost(m.ns, h.name, object{"spec": object{"image": nil}})
		}
		if h.off {
			at.patchHost(m.ns, h.name, object{"spec": object{"online": false}})
		}
		if h.claimed {
			at.claim(m.ns, h.name)
		}
		if h.consumer != "" {
			at.patchHost(m.ns, h.name, object{"spec": object{"consumerRef": object{"apiVersion": "example.com/v1", "kind": h.consumer, "name": h.name, "namespace": m.ns}}})
		}
	}
	m.waitAll()
	return m
}

// ironic is that of a host, in the cluster where it is.
func (m *moved) ironic(h *movedHost) ironicUnderTest { return m.ironics[m.at][h.in] }

// wait waits until a host is as wanted in the cluster where it is.
func (m *moved) wait(h *movedHost, wanted func(*metal3.BareMetalHost) bool) (host *metal3.BareMetalHost) {
	m.t.Helper()
	testbed.Eventually(m.t, m.at.ctx, func() string {
		var err error
		if host, err = m.at.hosts(m.ns).Get(m.at.ctx, h.name, metav1.GetOptions{}); err != nil {
			return err.Error()
		}
		if wanted(host) {
			return ""
		}
		return fmt.Sprintf("%s in %s is %s %q, on %t, error %q, Ironic %+v, annotations %v, conditions %+v", h.name, m.at.name, host.Status.Provisioning.State,
			host.Status.OperationalStatus, host.Status.PoweredOn, host.Status.ErrorMessage, host.Status.Ironic, host.Annotations, host.Status.Conditions)
	})
	return host
}

// waitAll waits until all hosts are at rest, and marked as those of the cluster where they are.
func (m *moved) waitAll() map[string]*metal3.BareMetalHost {
	m.t.Helper()
	hosts := map[string]*metal3.BareMetalHost{}
	for _, h := range m.hosts {
		state, url := metal3.StateAvailable, ""
		switch {
		case h.external:
			state = metal3.StateExternallyProvisioned
		case h.claimed || h.own:
			state, url = metal3.StateProvisioned, h.url
		}
		hosts[h.name] = m.wait(h, func(host *metal3.BareMetalHost) bool {
			_, paused := host.Annotations[metal3.PausedAnnotation]
			_, annotated := host.Annotations[metal3.StatusAnnotation]
			return !paused && !annotated && !meta.IsStatusConditionTrue(host.Status.Conditions, metal3.HeldCondition) &&
				isAtRest(state, url)(host) && (host.Status.HardwareDetails != nil) != h.external
		})
	}
	return hosts
}

// move moves the namespace, and compares what was and what is.
func (m *moved) move(to *cluster) {
	m.t.Helper()
	m.at.reportRunning(m.ns)
	before := m.waitAll()
	nodes := m.nodes(before)
	anew := m.ironics[m.at][0] != m.ironics[to][0]
	// With the same Ironic, hosts that run nothing need no pause.
	paused := []string{"--all"}
	if !anew {
		paused = nil
		for _, h := range m.hosts {
			if h.own {
				paused = append(paused, h.name)
			}
		}
	}
	m.bmh("pause", paused...)
	for _, h := range m.hosts {
		if anew {
			m.meetAgain(h, to)
		}
		h.before = h.stateOf(before[h.name])
	}
	for _, ironic := range m.ironics[to] {
		if sim, is := ironic.(simulatedIronic); is {
			sim.ResetStats()
		}
	}
	m.withCAPM3(to, func() { m.at.move(to, m.ns) })
	if left, err := m.at.hosts(m.ns).List(m.at.ctx, metav1.ListOptions{}); err != nil || len(left.Items) != 0 {
		m.t.Errorf("%d hosts are left in %s: %v", len(left.Items), m.at.name, err)
	}
	m.at = to
	m.bmh("unpause", paused...)
	after := m.waitAll()
	for _, h := range m.hosts {
		now := h.stateOf(after[h.name])
		if anew {
			now.Provisioning.ID = h.before.Provisioning.ID // its node there
		}
		if diff := cmp.Diff(h.before, now); diff != "" {
			m.t.Errorf("%s (-before the move +after):\n%s", h.name, diff)
		}
	}
	testbed.Eventually(m.t, m.at.ctx, func() string {
		var marked []string
		for name, node := range m.nodes(after) {
			if node.Extra["metal3_apiserver_host"] != string(after[name].UID) {
				marked = append(marked, fmt.Sprintf("the node of %s has %v", name, node.Extra))
			}
		}
		return strings.Join(marked, "; ")
	})
	if !anew {
		m.sameNodes(nodes, m.nodes(after))
	}
}

// sameNodes requires that nothing was asked for the nodes, and that there are no others.
func (m *moved) sameNodes(before, after map[string]testbed.Node) {
	m.t.Helper()
	for name, node := range after {
		was := before[name]
		if node.UUID != was.UUID || node.ProvisionState != was.ProvisionState || !node.ProvisionUpdatedAt.Equal(*was.ProvisionUpdatedAt) {
			m.t.Errorf("the node of %s is %s, %s since %s; was %s, %s since %s", name, node.UUID, node.ProvisionState, node.ProvisionUpdatedAt, was.UUID, was.ProvisionState, was.ProvisionUpdatedAt)
		}
	}
	for _, ironic := range m.ironics[m.at] {
		sim, is := ironic.(simulatedIronic)
		if !is {
			continue
		}
		if got, want := len(m.allNodes(ironic)), len(m.hosts)/len(m.ironics[m.at]); got != want {
			m.t.Errorf("Ironic has %d nodes, want %d", got, want)
		}
		for kind, n := range sim.Stats().Requests {
			// A node whose name is taken is refused: the server learns so that there is one, before it knows whose it is.
			if !strings.HasPrefix(kind, "GET ") && kind != "PATCH /v1/nodes/{node}" && kind != "POST /v1/nodes" {
				m.t.Errorf("%d requests %s", n, kind)
			}
		}
	}
}

// bmh has the plugin pause hosts, or let them go on, as docs/life.md advises: Cluster API pauses only those of its Machines.
func (m *moved) bmh(command string, hosts ...string) {
	m.t.Helper()
	var out bytes.Buffer
	args := append([]string{"--kubeconfig=" + m.at.kube.Admin.Kubeconfig, "--namespace=" + m.ns, command}, hosts...)
	if code := plugin.Run(m.at.ctx, args, genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &out}); code != 0 {
		m.t.Fatalf("kubectl bmh %s %v: exit code %d\n%s", command, hosts, code, &out)
	}
}

// meetAgain makes a machine known to the simulated Ironic of another cluster.
func (m *moved) meetAgain(h *movedHost, to *cluster) {
	if sim, is := m.ironics[to][h.in].(simulatedIronic); is && h.twin == nil {
		h.twin = simulatedMachine{sim.AddBMC(h.machine.Address(), "admin", "password"), h.machine.Address(), h.machine.MAC()}
		h.twin.Press(h.machine.IsOn())
	}
}

// forget removes from the Ironic of a cluster the nodes of hosts that have moved elsewhere, as docs/life.md advises.
func (m *moved) forget(c *cluster) {
	m.t.Helper()
	operator := m.ironics[c][0].Operator()
	for _, node := range m.allNodes(m.ironics[c][0]) {
		if err := operator.SetMaintenance(c.ctx, node.UUID, true, "moved"); err != nil {
			m.t.Fatal(err)
		}
		if err := operator.DeleteNode(c.ctx, node.UUID); err != nil {
			m.t.Fatal(err)
		}
	}
}

func (m *moved) allNodes(ironic ironicUnderTest) []testbed.Node {
	m.t.Helper()
	nodes, err := allNodes(m.at.ctx, ironic)
	if err != nil {
		m.t.Fatal(err)
	}
	return nodes
}

func (h *movedHost) stateOf(host *metal3.BareMetalHost) hostState {
	return hostState{
		Machine: stateOfMachine(h.machine), Twin: stateOfMachine(h.twin),
		Provisioning: host.Status.Provisioning, Hardware: host.Status.HardwareDetails, Labels: host.Labels, Spec: host.Spec,
	}
}

func stateOfMachine(m machine) machineState {
	if m == nil {
		return machineState{}
	}
	return machineState{account{m.Images(), m.Updates(), m.Erasures(), m.PowerCuts()}, m.IsOn()}
}

// nodes asks Ironic itself.
func (m *moved) nodes(hosts map[string]*metal3.BareMetalHost) map[string]testbed.Node {
	m.t.Helper()
	nodes := map[string]testbed.Node{}
	for _, h := range m.hosts {
		node, err := m.ironic(h).Operator().Node(m.at.ctx, hosts[h.name].Status.Provisioning.ID)
		if err != nil {
			m.t.Fatal(err)
		}
		nodes[h.name] = node
	}
	return nodes
}

// withCAPM3 runs CAPM3 in both clusters while something is moved, and until the claimed hosts go on.
func (m *moved) withCAPM3(to *cluster, do func()) {
	m.t.Helper()
	ctx, cancel := context.WithCancel(m.at.ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	for _, c := range []*cluster{m.at, to} {
		running.Go(func() {
			_ = wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
				if err := c.capm3(ctx, m.ns); err != nil && ctx.Err() == nil {
					m.t.Logf("CAPM3 in %s tries again: %v", c.name, err) // a host may have gone meanwhile
				}
				return false, nil
			})
		})
	}
	for _, h := range m.hosts {
		if h.claimed {
			m.wait(h, func(host *metal3.BareMetalHost) bool { _, is := host.Annotations[blockMoveAnnotation]; return is })
		}
	}
	do()
	for _, h := range m.hosts {
		if h.claimed {
			at := m.at
			m.at = to
			m.wait(h, func(host *metal3.BareMetalHost) bool { _, is := host.Annotations[metal3.PausedAnnotation]; return !is })
			m.at = at
		}
	}
}

// inHand requires that the server does with a host what it is asked for, after all.
func (m *moved) inHand() {
	m.t.Helper()
	h := m.hosts[0]
	m.at.patchHost(m.ns, h.name, object{"spec": object{"image": nil, "userData": nil}})
	m.wait(h, isAtRest(metal3.StateAvailable, ""))
	if erased := h.machine.Erasures(); erased <= h.before.Machine.Account.Erasures {
		m.t.Errorf("the disks were erased %d times, as before", erased)
	}
}
