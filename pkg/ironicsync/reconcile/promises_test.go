// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

// act is something that somebody does, or that happens, to a host, and how long nothing else does after it.
type act struct {
	What  string
	Host  int
	Pause time.Duration
}

// promiseHosts is how many hosts there are in a script. Machines are one more.
const promiseHosts = 2

// script is what happens, and whether all machines report the serial number of their chassis.
type script struct {
	Chassis bool
	Acts    []act
}

// play is a script as it is played.
type play struct {
	w      *world
	oracle *oracle
	keys   []types.NamespacedName
	away   bool // nobody can notice what happens in Ironic, as with blind
	blind  bool
	lates  map[ironic.ProvisionTarget]bool

	// ironicBackup and etcdBackup are of a moment of the script; nil before.
	ironicBackup *ironicsim.Snapshot
	etcdBackup   map[types.NamespacedName]*metal3.BareMetalHost
}

// perform plays a script in a bubble of its own, and returns what was promised and not kept, with all that has happened.
func perform(t *testing.T, s script) (harm, story string) {
	synctest.Test(t, func(t *testing.T) {
		w := newSimulatedWorld(t, ironicsim.Options{})
		p := &play{w: w, oracle: newOracle(w), lates: map[ironic.ProvisionTarget]bool{}}
		w.onRecord(p.oracle.recorded)
		for machine := range promiseHosts + 1 {
			if s.Chassis {
				w.sim.BMC(machine).SetSerial("CHASSIS-0815")
			}
		}
		p.begin()
		defer func() { w.stop() }()
		p.keys = w.enrol(enginetest.Namespace, promiseHosts)
		for _, key := range p.keys {
			p.oracle.look(key)
		}
		time.Sleep(30 * time.Second)
		for _, a := range s.Acts {
			key := p.keys[a.Host]
			p.oracle.notes("%s: %s", key.Name, a.What)
			actOf(a.What)(p, key)
			p.oracle.look(key)
			time.Sleep(a.Pause)
			if !p.away && !p.blind {
				p.oracle.settled(p.keys)
			}
		}
		p.end()
		harm, story = p.oracle.harm, p.oracle.story()
	})
	return harm, story
}

// clusterRebuilt is an act that no random script has: what it is about happens to machines that run only once their nodes were confirmed.
const clusterRebuilt = "cluster rebuilt"

func actOf(what string) func(p *play, key types.NamespacedName) {
	if what == clusterRebuilt {
		return (*play).rebuildCluster
	}
	return acts[what]
}

// begin starts a process of the server.
func (p *play) begin() {
	ctx, cancel := context.WithCancel(p.w.t.Context())
	p.w.secrets.mu.Lock()
	p.w.secrets.fuse = &fuse{kill: cancel}
	p.w.secrets.mu.Unlock()
	settings := fleetSettings()
	settings.Cluster = "this-cluster"
	p.w.run(ctx, cancel, p.w.hosts, judged{p.w.sim, p.oracle}, settings)
}

func (p *play) restart() {
	p.w.stop()
	p.begin()
}

// end lets everything be as it should, and waits until each host is as its spec says, or says why it is not.
func (p *play) end() {
	p.w.sim.SetAway(false)
	p.w.sim.Accept("ListNodes")
	for target := range p.lates {
		p.w.sim.SetLate(string(target), 0)
	}
	p.letGo()
	for machine := range promiseHosts + 1 {
		p.w.sim.BMC(machine).SetDead(false)
	}
	for _, key := range p.keys {
		host := p.w.hostOf(key)
		if host == nil {
			continue
		}
		p.w.putCredentials(key.Namespace, key.Name+"-bmc")
		p.retry(key)
		p.user(key, func(h *metal3.BareMetalHost) { h.Annotations = nil })
		p.oracle.look(key)
		if id := host.Status.Provisioning.ID; id != "" {
			_ = p.w.sim.ClearMaintenance(p.w.t.Context(), ironic.NoFence, id)
			p.protect(id, false)
		}
	}
	var waiting []*metal3.BareMetalHost
	for range 60 {
		time.Sleep(time.Minute)
		waiting = nil
		for _, key := range p.keys {
			if host := p.w.hostOf(key); host != nil && (!p.hasArrived(host) || host.Status.Record.Asked != nil) {
				waiting = append(waiting, host)
			}
		}
		if len(waiting) == 0 {
			return
		}
	}
	p.oracle.mu.Lock()
	defer p.oracle.mu.Unlock()
	for _, host := range waiting {
		saysWhy := host.Status.Record.Hold != nil || condition(host, metal3.RegisteredCondition) != metal3.RegisteredReason
		if !p.hasArrived(host) && (!saysWhy || host.Status.ErrorMessage == "") {
			s := &host.Status
			p.oracle.blame("%s: after an hour it is %s, %s, deleted %t, and says %q; its node is %+v",
				host.Name, s.Provisioning.State, s.OperationalStatus, isDeletedHost(host), s.ErrorMessage, s.Ironic)
		}
	}
}

func (p *play) hasArrived(host *metal3.BareMetalHost) bool {
	state := host.Status.Provisioning.State
	runsOn := p.oracle.foundOn[enginetest.KeyOf(host)] && host.Status.PoweredOn
	switch {
	case isDeletedHost(host) || host.Status.Ironic == nil:
		return false
	case host.Spec.ExternallyProvisioned: // a machine that runs when it is taken over goes on running
		return state == metal3.StateExternallyProvisioned && host.Status.Ironic.ProvisionState == "active"
	case host.Status.PoweredOn != host.Spec.Online && !runsOn:
		return false
	case host.Spec.Image != nil && host.Spec.Online:
		return state == metal3.StateProvisioned && host.Status.Ironic.ProvisionState == "active"
	case host.Spec.Image != nil:
		return state == metal3.StateProvisioned || state == metal3.StateAvailable || state == metal3.StateProvisioning
	}
	// What an operator has deployed stays.
	return state == metal3.StateAvailable || state == metal3.StateProvisioned && host.Status.Provisioning.Image.URL == ""
}

// TestPromises plays random scripts, and asks of each whether the server has kept what docs/life.md promises. A script that
// finds something is cut down to what is needed. -rapid.checks says how many there are, and -rapid.seed which; without them,
// they are always the same five hundred.
func TestPromises(t *testing.T) {
	for name, value := range map[string]string{"rapid.seed": "1", "rapid.checks": "500"} {
		if given := flag.Lookup(name); given.Value.String() == given.DefValue {
			if err := given.Value.Set(value); err != nil {
				t.Fatal(err)
			}
		}
	}
	names := slices.Concat(slices.Sorted(maps.Keys(acts)), often)
	anAct := rapid.Custom(func(r *rapid.T) act {
		return act{
			What:  rapid.SampledFrom(names).Draw(r, "what"),
			Host:  rapid.SampledFrom([]int{0, 0, 1}).Draw(r, "host"),
			Pause: time.Duration(rapid.SampledFrom([]int{0, 100, 1000, 3000, 10000, 30000, 150000}).Draw(r, "pause ms")) * time.Millisecond,
		}
	})
	rapid.Check(t, func(r *rapid.T) {
		s := script{Acts: rapid.SliceOfN(anAct, 1, 25).Draw(r, "script"), Chassis: rapid.Bool().Draw(r, "one chassis")}
		for host := range promiseHosts {
			if rapid.Bool().Draw(r, fmt.Sprintf("host %d is provisioned", host)) {
				s.Acts = slices.Insert(s.Acts, 0, act{"image a", host, time.Minute})
			}
		}
		if harm, story := perform(t, s); harm != "" {
			r.Fatalf("%s\n%s", harm, story)
		}
	})
}

// TestClusterRebuilt: machines run on when their cluster was lost, and hosts are created anew for them from a YAML that leaves spec.online
// out; when a person confirms their nodes, and whatever happens to the hosts then, unless somebody asks for a reboot.
func TestClusterRebuilt(t *testing.T) {
	for name, then := range map[string][]string{
		"confirmed":                       {"takeover"},
		"confirmed while it is not known": {"blind", "takeover", "sees again"},
		"confirmed twice":                 {"takeover", "stranger marks", "takeover"},
		"another leader":                  {"takeover", "killed"},
		"moved":                           {"takeover", "moved"},
		"moved with its status":           {"takeover", "moved with its status"},
		"its node is lost":                {"takeover", "node lost"},
		"moved, and its node is lost":     {"takeover", "moved with its status", "node lost"},
		"detached for a while":            {"takeover", "detach", "detach"},
		"rebooted":                        {"takeover", "reboot", "killed"},
		"fenced for a while":              {"takeover", "fence", "fence", "moved with its status"},
	} {
		for _, image := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, with an image %t", name, image), func(t *testing.T) {
				var s script
				if image {
					s.Acts = append(s.Acts, act{"image a", 0, 2 * time.Minute})
				}
				s.Acts = append(s.Acts, act{clusterRebuilt, 0, time.Minute})
				for _, what := range then {
					s.Acts = append(s.Acts, act{what, 0, time.Minute})
				}
				if harm, story := perform(t, s); harm != "" || !strings.Contains(story, "created anew") {
					t.Errorf("%s\n%s", harm, story)
				}
			})
		}
	}
}

// TestBMCReplacedByHand: a machine on which nothing was ever written may be undeployed for another image, when somebody has given the BMC
// of it to a node, and somebody to its host.
func TestBMCReplacedByHand(t *testing.T) {
	s := script{Acts: []act{
		{"image a", 1, time.Minute}, {"operator points", 1, 10 * time.Second}, {"image b", 1, time.Minute}, {"another BMC", 1, time.Minute},
	}}
	if harm, story := perform(t, s); harm != "" || !strings.Contains(story, "asks for deleted") {
		t.Errorf("%s\n%s", harm, story)
	}
}
