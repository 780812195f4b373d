// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/reconcile"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

var (
	neighbourWalks = flag.Int("neighbour-walks", 100, "how many random walks of neighbours there are")
	neighbourSeed  = flag.Uint64("neighbour-seed", 1, "seed of the random walks of neighbours")
)

// neighbours are the servers of two clusters, each with its own etcd, that share an Ironic. Their
// hosts have the same names, and several of them name the BMC of the same machine.
type neighbours struct {
	t      *testing.T
	random *rand.Rand
	sim    *enginetest.Ironic
	east   *neighbour
	west   *neighbour

	mu sync.Mutex
	// runs is who has deployed what a machine runs, by the address of its BMC.
	runs map[string]deployer
	log  []string
	// harm is what must never be done and was.
	harm string
}

// deployer is a host with an image, or an operator with a node. (What becomes of a host whose own node an operator has
// deployed is for TestPromises.)
type deployer struct{ who, image, node string }

// neighbour is one of the servers.
type neighbour struct {
	*world
	*neighbours
	cluster string
}

const operator = "an operator"

func newNeighbours(t *testing.T, random *rand.Rand) *neighbours {
	const quick = 200 * time.Millisecond
	n := &neighbours{t: t, random: random, runs: map[string]deployer{}}
	n.sim = enginetest.NewIronic(t, ironicsim.Options{Delays: ironicsim.All(quick), RamdiskDelay: quick})
	for _, address := range machines {
		n.sim.Sim.AddBMC(address, enginetest.BMCUser, enginetest.BMCPassword)
	}
	for i, server := range []**neighbour{&n.east, &n.west} {
		w := newWorldOf(t, n.sim)
		w.hosts.Version = i * 1_000_000 // which the UIDs of hosts are made of
		w.secret("secret")
		*server = &neighbour{world: w, neighbours: n, cluster: []string{"east", "west"}[i]}
		(*server).begin()
	}
	return n
}

// begin starts the process of a server.
func (s *neighbour) begin() {
	ctx, cancel := context.WithCancel(s.neighbours.t.Context())
	s.fuse = &fuse{kill: cancel}
	s.secrets.mu.Lock()
	s.secrets.fuse = s.fuse
	s.secrets.mu.Unlock()
	client := accountedIronic{s.neighbours.sim, s}
	s.run(ctx, cancel, mortalHosts{s.hosts, s.fuse}, client, reconcile.Settings{
		BMCs: anywhere, Images: anywhere, MaxProvisioningRetries: 3, Workers: 4, PollInterval: time.Second, Cluster: s.cluster,
	})
}

// accountedIronic is Ironic as one server sees it, and accounts for what is done to machines.
type accountedIronic struct {
	ironicClient
	by *neighbour
}

func (a accountedIronic) SetProvisionState(ctx context.Context, fence ironic.Fence, id string, target ironic.ProvisionTarget, options ironic.ProvisionOptions) error {
	done := a.by.account(id, string(target))
	err := a.ironicClient.SetProvisionState(ctx, fence, id, target, options)
	if err == nil {
		done()
	}
	return err
}

func (a accountedIronic) SwitchPower(ctx context.Context, fence ironic.Fence, id string, target ironic.PowerTarget) (ironic.PowerTarget, string, error) {
	done := a.by.account(id, string(target))
	used, refusal, err := a.ironicClient.SwitchPower(ctx, fence, id, target)
	if err == nil {
		done()
	}
	return used, refusal, err
}

// account judges a request of a server by what is so when it is made. What it returns is to be
// called when Ironic has accepted it.
func (s *neighbour) account(id, target string) (accepted func()) {
	n := s.neighbours
	switch target {
	case string(ironic.TargetManage), string(ironic.TargetAdopt), string(ironic.TargetAbort), string(ironic.TargetPowerOn):
		return func() {}
	}
	address := n.known(id).address
	n.mu.Lock()
	runs := n.runs[address]
	n.mu.Unlock()
	host := s.hostOf(id)
	complaint := n.complaint(s, host, address, id, target, runs)
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.log = append(n.log, fmt.Sprintf("%s: %s of %s", s.cluster, target, address))
		if complaint != "" && n.harm == "" {
			n.harm = fmt.Sprintf("%s of node %s, machine %s, for a host of %s: %s", target, id, address, s.cluster, complaint)
		}
		switch target {
		case string(ironic.TargetActive):
			n.runs[address] = deployer{who: s.nameOf(host), image: host.Spec.Image.URL}
		case string(ironic.TargetDeleted), string(ironic.TargetProvide):
			delete(n.runs, address)
		}
	}
}

// complaint says what speaks against a request that destroys or interrupts; empty if nothing does.
func (n *neighbours) complaint(s *neighbour, host *metal3.BareMetalHost, address, id, target string, runs deployer) string {
	switch {
	case host == nil:
		return "no host has the node"
	case "ipmi://"+address != host.Spec.BMC.Address:
		return "the host's BMC is " + host.Spec.BMC.Address
	case runs.who != "" && runs.who != s.nameOf(host) && runs.node != id && s.canKnow(runs, address):
		return "the machine runs what was deployed by " + runs.who
	}
	for _, server := range []*neighbour{n.east, n.west} {
		for _, other := range server.all() {
			if server.nameOf(&other) == s.nameOf(host) || other.Spec.BMC.Address != host.Spec.BMC.Address {
				continue
			}
			inIronic := slices.ContainsFunc(n.nodesAt(address), func(node nodeInIronic) bool { return node.id == other.Status.Provisioning.ID })
			if hasMachine(&other) && other.Status.Provisioning.ID != id && (server == s || inIronic) {
				return "the machine is that of " + server.nameOf(&other)
			}
		}
	}
	wanted := ""
	if host.Spec.Image != nil {
		wanted = host.Spec.Image.URL
	}
	switch target {
	case string(ironic.TargetPowerOff), string(ironic.TargetSoftPowerOff):
		if host.Spec.Online && host.DeletionTimestamp.IsZero() {
			return "its spec does not ask for that"
		}
	case string(ironic.TargetDeleted), string(ironic.TargetProvide), string(ironic.TargetInspect), string(ironic.TargetActive):
		if runs.who == s.nameOf(host) && host.Status.Provisioning.State == metal3.StateProvisioned && runs.image == wanted && host.DeletionTimestamp.IsZero() {
			return "it runs what its spec wants"
		}
	}
	return ""
}

// hasMachine reports whether a host got as far as having its machine inspected or deployed.
func hasMachine(host *metal3.BareMetalHost) bool {
	switch host.Status.Provisioning.State {
	case metal3.StateNone, metal3.StateUnmanaged, metal3.StateRegistering:
		return false
	}
	return host.Status.OperationalStatus == metal3.OperationalStatusOK && !host.IsDetached()
}

func (s *neighbour) nameOf(host *metal3.BareMetalHost) string {
	return fmt.Sprintf("%s/%s/%s", s.cluster, host.Name, host.UID)
}

// all returns the hosts of a server, in order.
func (s *neighbour) all() []metal3.BareMetalHost {
	list, err := s.hosts.List(context.Background(), metav1.ListOptions{})
	if err != nil {
		s.world.t.Error(err)
		return nil
	}
	return list.Items
}

// hostOf returns the host whose node it is; nil if there is none.
func (s *neighbour) hostOf(id string) *metal3.BareMetalHost {
	for _, host := range s.all() {
		if host.Status.Provisioning.ID == id {
			return &host
		}
	}
	return nil
}

// nodeInIronic is what matters here of a node.
type nodeInIronic struct {
	id, name, address, instance, mark string
	state                             ironic.ProvisionState
	info                              map[string]any // driver_info
	isLocked                          bool
}

// known returns a node as it is in Ironic; an empty one if there is none.
func (n *neighbours) known(id string) nodeInIronic {
	fields, exists := n.sim.Sim.Node(id)
	if !exists {
		return nodeInIronic{}
	}
	text := func(value any) string { s, _ := value.(string); return s }
	info, extra := fields["driver_info"].(map[string]any), fields["extra"].(map[string]any)
	return nodeInIronic{
		id: id, name: text(fields["name"]), address: text(info["ipmi_address"]), instance: text(fields["instance_uuid"]), mark: text(extra[ironic.HostMark]),
		state: ironic.ProvisionState(text(fields["provision_state"])), info: info, isLocked: text(fields["reservation"]) != "",
	}
}

// nodesAt returns the nodes in Ironic that have the BMC of a machine.
func (n *neighbours) nodesAt(address string) (nodes []nodeInIronic) {
	for _, id := range n.sim.Sim.NodeUUIDs() {
		if node := n.known(id); node.address == address {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// canKnow reports whether a server can know who has deployed what a machine runs: it has the host
// itself, or Ironic has the node, and has not lost it and only just got it again.
func (s *neighbour) canKnow(by deployer, address string) bool {
	for _, host := range s.all() {
		if s.nameOf(&host) == by.who {
			return true
		}
	}
	for _, node := range s.nodesAt(address) {
		if node.state == ironic.Enroll || node.state == ironic.Verifying {
			continue
		}
		if by.who == operator && strings.HasPrefix(node.instance, byHandPrefix) || node.mark != "" && strings.HasSuffix(by.who, "/"+node.mark) {
			return true
		}
	}
	return false
}

// byHandPrefix is what the UUIDs of an operator's instances begin with.
const byHandPrefix = "0b0b0b0b-0000-4000-8000-"

var machines = []string{"192.0.2.1", "192.0.2.2"}

// neighbourEvents are what can happen to the hosts of a server at any moment.
var neighbourEvents = map[string]func(s *neighbour){
	"create": func(s *neighbour) {
		host := enrolled(s.random.IntN(2))
		if _, err := s.hosts.Get(context.Background(), host.Namespace, host.Name); err == nil {
			return
		}
		machine := s.random.IntN(len(machines))
		host.Spec.BMC.Address = "ipmi://" + machines[machine]
		host.CreationTimestamp = metav1.Now()
		switch s.random.IntN(3) {
		case 0:
			host.Spec.BootMACAddress = ""
		case 1:
			host.Spec.BootMACAddress = fmt.Sprintf("00:ab:4f:d8:9e:%02x", machine)
		default:
			host.Spec.BootMACAddress = fmt.Sprintf("00:ab:4f:d8:%02x:%02x", s.random.IntN(256), s.random.IntN(256))
		}
		s.hosts.Add(host)
		s.note(fmt.Sprintf("(%s on %s, %q)", host.Name, machines[machine], host.Spec.BootMACAddress))
	},
	"delete": func(s *neighbour) {
		s.onHost(func(host *metal3.BareMetalHost) {
			if len(host.Finalizers) > 0 {
				host.DeletionTimestamp = &metav1.Time{Time: time.Now()}
			}
		})
	},
	"image": func(s *neighbour) {
		s.onHost(func(host *metal3.BareMetalHost) {
			wantImage(host)
			host.Spec.Image.URL += fmt.Sprint(s.random.IntN(2))
		})
	},
	"no image": func(s *neighbour) { s.onHost(func(host *metal3.BareMetalHost) { host.Spec.Image = nil }) },
	"online": func(s *neighbour) {
		s.onHost(func(host *metal3.BareMetalHost) { host.Spec.Online = s.random.IntN(3) > 0 })
	},
	"detach": func(s *neighbour) {
		s.onHost(func(host *metal3.BareMetalHost) {
			if _, detached := host.Annotations[metal3.DetachedAnnotation]; detached {
				host.Annotations = nil
			} else {
				host.Annotations = map[string]string{metal3.DetachedAnnotation: ""}
			}
		})
	},
	"killed": func(s *neighbour) { s.stop(); s.begin() },
	"node lost": func(s *neighbour) {
		s.onNode(func(node nodeInIronic) error { return s.neighbours.sim.Sim.LoseNode(node.id) })
	},
	"pointed elsewhere": func(s *neighbour) {
		s.onNode(func(node nodeInIronic) error {
			if node.isLocked {
				return nil
			}
			node.info["ipmi_address"] = machines[s.random.IntN(len(machines))]
			s.note(fmt.Sprintf("(%s from %s to %s)", node.name, node.address, node.info["ipmi_address"]))
			return s.neighbours.sim.Sim.SetNode(node.id, map[string]any{"driver_info": node.info})
		})
	},
	"deployed by hand": func(s *neighbour) {
		s.onNode(func(node nodeInIronic) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			if node.isLocked || s.runs[node.address].who != "" || node.state != ironic.Available && node.state != ironic.Manageable {
				return nil
			}
			s.runs[node.address] = deployer{who: operator, node: node.id}
			s.neighbours.sim.Sim.BMC(node.address).SetPower(string(ironic.PowerOn))
			return s.neighbours.sim.Sim.SetNode(node.id, map[string]any{
				"instance_uuid": byHandPrefix + fmt.Sprintf("%012d", s.random.IntN(1000)), "provision_state": string(ironic.Active), "power_state": string(ironic.PowerOn),
			})
		})
	},
}

// onHost changes a host of the server.
func (s *neighbour) onHost(change func(*metal3.BareMetalHost)) {
	if hosts := s.all(); len(hosts) > 0 {
		s.hosts.Edit(s.world.t, hosts[s.random.IntN(len(hosts))].Name, change)
	}
}

// onNode lets an operator do something to a node in Ironic.
func (s *neighbour) onNode(do func(nodeInIronic) error) {
	ids := slices.Sorted(slices.Values(s.neighbours.sim.Sim.NodeUUIDs()))
	if len(ids) == 0 {
		return
	}
	if err := do(s.known(ids[s.random.IntN(len(ids))])); err != nil {
		s.world.t.Error(err)
	}
}

// TestNeighbours is a random walk of two clusters' servers at one Ironic, with hosts that have
// names and BMCs in common. Whatever happens, nothing is undeployed, cleaned, inspected, deployed
// or switched off but for the host whose machine it is.
func TestNeighbours(t *testing.T) {
	names := slices.Sorted(maps.Keys(neighbourEvents))
	requests := 0
	for walk := range *neighbourWalks {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(*neighbourSeed, uint64(walk)))
			n := newNeighbours(t, random)
			defer func() { n.east.stop(); n.west.stop() }()
			for range 40 {
				s := []*neighbour{n.east, n.west}[random.IntN(2)]
				name := names[random.IntN(len(names))]
				if random.IntN(3) == 0 {
					name = "create"
				}
				n.note(s.cluster + " <" + name + ">")
				neighbourEvents[name](s)
				switch {
				case name == "pointed elsewhere", name == "deployed by hand":
					time.Sleep(3 * time.Second) // what an operator does is seen with the next poll
				case random.IntN(4) > 0: // otherwise the next event comes at the same moment
					time.Sleep(time.Duration(random.IntN(6000)) * time.Millisecond)
				}
				synctest.Wait()
			}
			n.mu.Lock()
			defer n.mu.Unlock()
			requests += len(n.log)
			if n.harm != "" {
				t.Fatalf("walk %d (-neighbour-seed=%d): %s; after %s", walk, *neighbourSeed, n.harm, strings.Join(n.log, "; "))
			}
		})
		if t.Failed() {
			return
		}
	}
	t.Logf("%d walks with %d events and requests", *neighbourWalks, requests)
}

func (n *neighbours) note(what string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.log = append(n.log, what)
}

// TestBMCIsComparedWithNodesOfNow: the server of another cluster has registered the machine since
// Ironic was last polled.
func TestBMCIsComparedWithNodesOfNow(t *testing.T) {
	settings := fleetSettings()
	settings.PollInterval = time.Hour
	inSimulatedFleet(t, settings, ironicsim.Options{}, func(t *testing.T, w *world) {
		w.secret("secret")
		synctest.Wait()
		w.addNode(map[string]any{"name": "metal3~theirs", "driver": "ipmi", "driver_info": map[string]any{"ipmi_address": enginetest.BMCAddress(0)}})
		w.hosts.Add(enrolled(0))
		w.after(20*time.Second, "refused", func() bool { return condition(w.host(), metal3.RegisteredCondition) == metal3.BMCInUseReason })
		if n := w.sim.Count("CreateNode"); n != 0 {
			t.Errorf("%d nodes were created", n)
		}
	})
}

// TestDeletedThoughItsBMCIsAnothers: a host that was never verified, whose address was then corrected to that of another host, goes when it is
// deleted, as its error asks for, without Ironic being asked again and again.
func TestDeletedThoughItsBMCIsAnothers(t *testing.T) {
	inSimulatedFleet(t, fleetSettings(), ironicsim.Options{BMCTimeout: time.Second}, func(t *testing.T, w *world) {
		owner, second := enrolled(0), enrolled(1)
		w.addWithSecret(owner)
		w.after(5*time.Minute, "the owner is available", w.in(metal3.StateAvailable))
		w.sim.BMC(1).SetDead(true)
		w.addWithSecret(second)
		key := types.NamespacedName{Namespace: second.Namespace, Name: second.Name}
		w.after(5*time.Minute, "it has a node", func() bool {
			return w.hostOf(key).Status.ErrorType == metal3.RegistrationError && w.hostOf(key).Status.Provisioning.ID != ""
		})
		w.edit(key, func(h *metal3.BareMetalHost) { h.Spec.BMC.Address = owner.Spec.BMC.Address })
		w.after(10*time.Minute, "refused", func() bool { return condition(w.hostOf(key), metal3.RegisteredCondition) == metal3.BMCInUseReason })
		reads := w.sim.Count("ListNodes") + w.sim.Count("GetNode")
		w.hosts.Remove(t, second.Name)
		w.after(2*time.Minute, "deleted", func() bool { return w.hostOf(key) == nil })
		if n := w.sim.Count("ListNodes") + w.sim.Count("GetNode") - reads; n > 150 {
			t.Errorf("Ironic was asked %d times", n)
		}
		if w.host().Status.Provisioning.State != metal3.StateAvailable {
			t.Errorf("the owner is %s", w.host().Status.Provisioning.State)
		}
	})
}

// TestDuplicatesAtTheSameMoment: of two hosts with one BMC that are verified at the same moment, the older one goes on, and the node
// of the other one, which nobody can use, is no reason to wait.
func TestDuplicatesAtTheSameMoment(t *testing.T) {
	delays := ironicsim.All(time.Second)
	delays.Verify = 5 * time.Second
	settings := fleetSettings()
	settings.Cluster = "this"
	inSimulatedFleet(t, settings, ironicsim.Options{Delays: delays}, func(t *testing.T, w *world) {
		older, younger := enrolled(0), enrolled(1)
		older.CreationTimestamp, younger.CreationTimestamp = metav1.NewTime(time.Now()), metav1.NewTime(time.Now().Add(time.Second))
		older.UID, younger.UID = "older", "younger"
		younger.Namespace, younger.Spec.BMC.Address = "other", older.Spec.BMC.Address
		w.addWithSecret(older)
		w.addWithSecret(younger)
		w.after(2*time.Minute, "the older one is available", w.in(metal3.StateAvailable))
		if n := w.sim.Count("CreateNode"); n != 2 {
			t.Fatalf("%d nodes were created: the hosts were not verified at the same moment", n)
		}
		refused := w.hostOf(types.NamespacedName{Namespace: "other", Name: younger.Name})
		if got := condition(refused, metal3.RegisteredCondition); got != metal3.BMCInUseReason {
			t.Errorf("the younger one is %s: %s", got, refused.Status.ErrorMessage)
		}
		if n := w.sim.Count("DeleteNode"); n != 1 {
			t.Errorf("%d nodes were deleted", n)
		}
		time.Sleep(10 * time.Minute)
		if n := w.sim.Count("CreateNode"); n != 2 {
			t.Errorf("%d nodes were created", n)
		}
		w.hosts.Remove(t, older.Name)
		w.after(2*time.Minute, "the younger one has the machine", func() bool {
			return w.hostOf(types.NamespacedName{Namespace: "other", Name: younger.Name}).Status.Provisioning.State == metal3.StateAvailable
		})
	})
}
