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
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/enginetest"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/reconcile"
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
	ironic *fakeIronic
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
	n := &neighbours{t: t, random: random, ironic: newFakeIronic(), runs: map[string]deployer{}}
	for i, server := range []**neighbour{&n.east, &n.west} {
		w := newWorld(t)
		w.ironic = n.ironic
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
	client := accountedIronic{s.neighbours.ironic, s}
	s.run(ctx, cancel, mortalHosts{s.hosts, s.fuse}, client, reconcile.Settings{
		BMCs: anywhere, Images: anywhere, MaxProvisioningRetries: 3, Workers: 4, PollInterval: time.Second, Cluster: s.cluster,
	})
}

// accountedIronic is Ironic as one server sees it, and accounts for what is done to machines.
type accountedIronic struct {
	*fakeIronic
	by *neighbour
}

func (a accountedIronic) SetProvisionState(ctx context.Context, fence ironic.Fence, id string, target ironic.ProvisionTarget, options ironic.ProvisionOptions) error {
	done := a.by.account(id, string(target))
	err := a.fakeIronic.SetProvisionState(ctx, fence, id, target, options)
	if err == nil {
		done()
	}
	return err
}

func (a accountedIronic) SwitchPower(ctx context.Context, fence ironic.Fence, id string, target ironic.PowerTarget) (ironic.PowerTarget, string, error) {
	done := a.by.account(id, string(target))
	used, refusal, err := a.fakeIronic.SwitchPower(ctx, fence, id, target)
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
	n.ironic.Mu.Lock()
	address := n.addressOf(id)
	n.ironic.Mu.Unlock()
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
			inIronic := slices.ContainsFunc(n.nodesAt(address), func(node ironic.Node) bool { return node.UUID == other.Status.Provisioning.ID })
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
	return host.Status.OperationalStatus == metal3.OperationalStatusOK && !lifecycle.IsDetached(host)
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

// nodesAt returns the nodes in Ironic that have the BMC of a machine.
func (n *neighbours) nodesAt(address string) (nodes []ironic.Node) {
	n.ironic.Mu.Lock()
	defer n.ironic.Mu.Unlock()
	for id, node := range n.ironic.ByID {
		if n.addressOf(id) == address {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// addressOf returns the BMC that Ironic was told for a node. n.ironic.Mu is held.
func (n *neighbours) addressOf(id string) string {
	if r := n.ironic.registrations[id]; r != nil {
		address, _ := r.DriverInfo["ipmi_address"].(string)
		return address
	}
	return ""
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
		if node.ProvisionState == ironic.Enroll || node.ProvisionState == ironic.Verifying {
			continue
		}
		if by.who == operator && strings.HasPrefix(node.InstanceUUID, "by-hand") || node.Marks.Host != "" && strings.HasSuffix(by.who, "/"+string(node.Marks.Host)) {
			return true
		}
	}
	return false
}

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
		s.onNode(func(id string) {
			delete(s.neighbours.ironic.ByID, id)
			delete(s.neighbours.ironic.registrations, id)
			for mac, node := range s.neighbours.ironic.ports {
				if node == id {
					delete(s.neighbours.ironic.ports, mac)
				}
			}
		})
	},
	"pointed elsewhere": func(s *neighbour) {
		s.onNode(func(id string) {
			r := s.neighbours.ironic.registrations[id]
			if s.neighbours.ironic.ByID[id].Reservation == "" {
				was := r.DriverInfo["ipmi_address"]
				r.DriverInfo["ipmi_address"] = machines[s.random.IntN(len(machines))]
				s.note(fmt.Sprintf("(%s from %s to %s)", s.neighbours.ironic.ByID[id].Name, was, r.DriverInfo["ipmi_address"]))
				s.neighbours.ironic.edit(id, func(*ironic.Node) {})
			}
		})
	},
	"deployed by hand": func(s *neighbour) {
		s.onNode(func(id string) {
			node, address := s.neighbours.ironic.ByID[id], s.addressOf(id)
			s.mu.Lock()
			defer s.mu.Unlock()
			if node.Reservation != "" || s.runs[address].who != "" || node.ProvisionState != ironic.Available && node.ProvisionState != ironic.Manageable {
				return
			}
			s.runs[address] = deployer{who: operator, node: id}
			s.neighbours.ironic.registrations[id].InstanceUUID = fmt.Sprintf("by-hand-%d", s.random.IntN(1000))
			s.neighbours.ironic.edit(id, func(n *ironic.Node) { n.ProvisionState, n.PowerState = ironic.Active, ironic.PowerOn })
		})
	},
}

// onHost changes a host of the server.
func (s *neighbour) onHost(change func(*metal3.BareMetalHost)) {
	if hosts := s.all(); len(hosts) > 0 {
		s.hosts.Edit(s.world.t, hosts[s.random.IntN(len(hosts))].Name, change)
	}
}

// onNode lets an operator do something to a node in Ironic, which is locked meanwhile.
func (s *neighbour) onNode(do func(id string)) {
	s.neighbours.ironic.Mu.Lock()
	defer s.neighbours.ironic.Mu.Unlock()
	if ids := slices.Sorted(maps.Keys(s.neighbours.ironic.ByID)); len(ids) > 0 {
		do(ids[s.random.IntN(len(ids))])
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
