package reconcile_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/enginetest"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

// act is something that somebody does, or that happens, to a host, and how long nothing else does after it.
type act struct {
	What  string
	Pause time.Duration
}

// often are the acts that come more often than others, because it takes several of them to do harm.
var often = []string{"image a", "no image", "image a", "no image", "image b", "late undeployments", "late deployments", "killed", "operator undeploys", "operator deploys"}

// acts are what users, operators and the world do.
var acts = map[string]func(p *play, key types.NamespacedName){
	"image a":  func(p *play, key types.NamespacedName) { p.user(key, image("a")) },
	"image b":  func(p *play, key types.NamespacedName) { p.user(key, image("b")) },
	"no image": func(p *play, key types.NamespacedName) { p.user(key, noImage) },
	"off": func(p *play, key types.NamespacedName) {
		p.user(key, func(h *metal3.BareMetalHost) { h.Spec.Online = false })
	},
	"on": func(p *play, key types.NamespacedName) {
		p.user(key, func(h *metal3.BareMetalHost) { h.Spec.Online = true })
	},
	"delete": (*play).delete,
	"pause":  func(p *play, key types.NamespacedName) { p.user(key, toggle(metal3.PausedAnnotation)) },
	"detach": func(p *play, key types.NamespacedName) { p.user(key, toggle(metal3.DetachedAnnotation)) },
	"reboot": func(p *play, key types.NamespacedName) { p.user(key, toggle(metal3.RebootAnnotation)) },
	"do not clean": func(p *play, key types.NamespacedName) {
		p.user(key, func(h *metal3.BareMetalHost) { h.Spec.AutomatedCleaningMode = metal3.CleaningModeDisabled })
	},
	"rebuild":  (*play).rebuild,
	"erase":    (*play).erase,
	"takeover": (*play).takeOver,

	"operator undeploys": (*play).undeployByHand,
	"operator deploys":   (*play).deployByHand,
	"maintenance":        (*play).maintain,
	"node lost":          (*play).loseNode,

	"late undeployments": func(p *play, _ types.NamespacedName) { p.late(ironic.TargetDeleted) },
	"late deployments":   func(p *play, _ types.NamespacedName) { p.late(ironic.TargetActive) },
	"late rebuilds":      func(p *play, _ types.NamespacedName) { p.late(ironic.TargetRebuild) },
	"late cleans":        func(p *play, _ types.NamespacedName) { p.late(ironic.TargetClean) },
	"late power-offs": func(p *play, _ types.NamespacedName) {
		p.late(ironic.ProvisionTarget(ironic.TargetPowerOff))
		p.late(ironic.ProvisionTarget(ironic.TargetSoftPowerOff))
	},
	"killed":      func(p *play, _ types.NamespacedName) { p.restart() },
	"Ironic away": (*play).outage,
}

// play is a script as it is played.
type play struct {
	w      *world
	oracle *oracle
	away   bool
	lates  map[ironic.ProvisionTarget]bool
}

// perform plays a script in a bubble of its own, and returns what was promised and not kept, with all that has happened.
func perform(t *testing.T, script []act) (harm, story string) {
	synctest.Test(t, func(t *testing.T) {
		w := newSimulatedWorld(t, ironicsim.Options{})
		p := &play{w: w, oracle: newOracle(w), lates: map[ironic.ProvisionTarget]bool{}}
		w.onRecord(p.oracle.recorded)
		p.begin()
		defer func() { w.stop() }()
		key := w.enrol(enginetest.Namespace, 1)[0]
		p.oracle.look(key)
		time.Sleep(30 * time.Second)
		for _, a := range script {
			p.oracle.mu.Lock()
			p.oracle.note("%s", a.What)
			p.oracle.mu.Unlock()
			acts[a.What](p, key)
			p.oracle.look(key)
			time.Sleep(a.Pause)
			if !p.away {
				p.oracle.settled(key)
			}
		}
		p.end(key)
		harm, story = p.oracle.harm, p.oracle.story()
	})
	return harm, story
}

// begin starts a process of the server.
func (p *play) begin() {
	ctx, cancel := context.WithCancel(p.w.t.Context())
	p.w.secrets.mu.Lock()
	p.w.secrets.fuse = &fuse{kill: cancel}
	p.w.secrets.mu.Unlock()
	p.w.run(ctx, cancel, p.w.hosts, judged{p.w.sim, p.oracle}, fleetSettings())
}

// outage makes Ironic unreachable, or reachable again.
func (p *play) outage(types.NamespacedName) {
	p.away = !p.away
	p.w.sim.SetAway(p.away)
	p.oracle.answering()
}

func (p *play) restart() {
	p.w.stop()
	p.begin()
}

// end lets everything be as it should, and waits until the host is as its spec says, or says why it is not.
func (p *play) end(key types.NamespacedName) {
	p.w.sim.SetAway(false)
	for target := range p.lates {
		p.w.sim.SetLate(string(target), 0)
	}
	if host := p.w.hostOf(key); host != nil {
		p.user(key, func(h *metal3.BareMetalHost) { h.Annotations = nil })
		p.oracle.look(key)
		if id := host.Status.Provisioning.ID; id != "" {
			_ = p.w.sim.ClearMaintenance(p.w.t.Context(), ironic.NoFence, id)
		}
	}
	var host *metal3.BareMetalHost
	for range 60 {
		time.Sleep(time.Minute)
		if host = p.w.hostOf(key); host == nil || hasArrived(host) && host.Status.Record.Asked == nil {
			return
		}
	}
	p.oracle.mu.Lock()
	defer p.oracle.mu.Unlock()
	if !hasArrived(host) && host.Status.ErrorMessage == "" {
		p.oracle.blame("after an hour it is %s, %s, deleted %t, and says nothing; its node is %+v", host.Status.Provisioning.State, host.Status.OperationalStatus, isDeletedHost(host), host.Status.Ironic)
	}
}

func hasArrived(host *metal3.BareMetalHost) bool {
	state := host.Status.Provisioning.State
	switch {
	case isDeletedHost(host) || host.Status.Ironic == nil || host.Status.PoweredOn != host.Spec.Online:
		return false
	case host.Spec.Image != nil && host.Spec.Online:
		return state == metal3.StateProvisioned && host.Status.Ironic.ProvisionState == "active"
	case host.Spec.Image != nil:
		return state == metal3.StateProvisioned || state == metal3.StateAvailable || state == metal3.StateProvisioning
	}
	// What an operator has deployed stays.
	return state == metal3.StateAvailable || state == metal3.StateProvisioned && host.Status.Provisioning.Image.URL == ""
}

func image(name string) func(h *metal3.BareMetalHost) {
	return func(h *metal3.BareMetalHost) {
		h.Spec.Image = &metal3.Image{URL: "http://images/" + name + ".qcow2", Checksum: "abc"}
	}
}

func toggle(annotation string) func(h *metal3.BareMetalHost) {
	return func(h *metal3.BareMetalHost) {
		if _, has := h.Annotations[annotation]; has {
			delete(h.Annotations, annotation)
			return
		}
		metav1.SetMetaDataAnnotation(&h.ObjectMeta, annotation, "")
	}
}

// user edits a host, if it is there.
func (p *play) user(key types.NamespacedName, change func(h *metal3.BareMetalHost)) {
	if p.w.hostOf(key) != nil {
		p.w.edit(key, func(h *metal3.BareMetalHost) {
			change(h)
			p.oracle.saw(key, h.DeepCopy()) // the server may act before this returns
		})
	}
}

// delete has a host deleted, or created again if it is gone.
func (p *play) delete(key types.NamespacedName) {
	if p.w.hostOf(key) != nil {
		p.user(key, func(h *metal3.BareMetalHost) {
			if h.DeletionTimestamp.IsZero() && len(h.Finalizers) > 0 {
				h.DeletionTimestamp = &metav1.Time{Time: time.Now()}
			}
		})
		return
	}
	p.oracle.mu.Lock()
	delete(p.oracle.operators, key)
	delete(p.oracle.wipedAt, key)
	delete(p.oracle.rebuilds, key)
	delete(p.oracle.asked, key)
	p.oracle.mu.Unlock()
	number := 0
	if _, err := fmt.Sscanf(key.Name, key.Namespace+"-%d", &number); err != nil {
		p.w.t.Error(err)
	}
	p.w.addWithSecret(enrolledIn(key.Namespace, key.Name, number))
}

// node is that of a host, as it is now; nil if there is none.
func (p *play) node(key types.NamespacedName) *ironic.Node {
	host := p.w.hostOf(key)
	if host == nil || host.Status.Provisioning.ID == "" {
		return nil
	}
	node, err := p.w.sim.Process(nil).GetNode(p.w.t.Context(), host.Status.Provisioning.ID)
	if err != nil {
		return nil
	}
	return node
}

func (p *play) rebuild(key types.NamespacedName) {
	node := p.node(key)
	if node == nil {
		return
	}
	p.user(key, func(h *metal3.BareMetalHost) {
		if lifecycle.RequestRebuild(h, node, time.Now()) == nil {
			p.oracle.mu.Lock()
			p.oracle.rebuilds[key] = true
			p.oracle.note("%s: rebuild accepted", key.Name)
			p.oracle.mu.Unlock()
		}
	})
}

func (p *play) takeOver(key types.NamespacedName) {
	node := p.node(key)
	if node == nil {
		return
	}
	p.user(key, func(h *metal3.BareMetalHost) {
		if lifecycle.TakeOver(h, node, time.Now()) != nil {
			return
		}
		p.oracle.mu.Lock()
		defer p.oracle.mu.Unlock()
		p.oracle.confirmed[key] = true
		delete(p.oracle.operators, key)
		delete(p.oracle.wipedAt, key)
	})
}

// byHand is what an operator asks Ironic for, and waits for.
func (p *play) byHand(id string, target ironic.ProvisionTarget) bool {
	if p.lates[target] {
		p.late(target)
		defer p.late(target)
	}
	return p.w.sim.Process(nil).SetProvisionState(p.w.t.Context(), ironic.NoFence, id, target, ironic.ProvisionOptions{}) == nil
}

func (p *play) undeployByHand(key types.NamespacedName) {
	node := p.node(key)
	if node == nil || node.ProvisionState != ironic.Active || !p.byHand(node.UUID, ironic.TargetDeleted) {
		return
	}
	p.oracle.mu.Lock()
	defer p.oracle.mu.Unlock()
	delete(p.oracle.operators, key)
	p.oracle.wipedAt[key], p.oracle.meddled[key] = time.Now(), true
	p.oracle.note("%s: undeployed", key.Name)
}

func (p *play) deployByHand(key types.NamespacedName) {
	node := p.node(key)
	if node == nil || node.ProvisionState != ironic.Available {
		return
	}
	client := p.w.sim.Process(nil)
	_, err := client.UpdateNode(p.w.t.Context(), ironic.NoFence, node.UUID, []ironic.Patch{
		{Op: ironic.PatchAdd, Path: "/instance_info", Value: map[string]any{"image_source": "http://images/operator.qcow2", "image_checksum": "abc"}},
		{Op: ironic.PatchAdd, Path: "/instance_uuid", Value: fmt.Sprintf("00000000-0000-4000-8000-%012d", time.Now().Unix()%1e12)},
	})
	if err != nil || !p.byHand(node.UUID, ironic.TargetActive) {
		return
	}
	p.oracle.mu.Lock()
	defer p.oracle.mu.Unlock()
	p.oracle.operators[key], p.oracle.meddled[key] = true, true
	p.oracle.note("%s: deployed by the operator", key.Name)
}

func (p *play) maintain(key types.NamespacedName) {
	node := p.node(key)
	if node == nil {
		return
	}
	client := p.w.sim.Process(nil)
	if node.Maintenance {
		_ = client.ClearMaintenance(p.w.t.Context(), ironic.NoFence, node.UUID)
		return
	}
	_ = client.SetMaintenance(p.w.t.Context(), ironic.NoFence, node.UUID, "an operator replaces a fan")
}

// loseNode has Ironic forget a node, with what is deployed on it.
func (p *play) loseNode(key types.NamespacedName) {
	node := p.node(key)
	if node == nil || p.w.sim.Sim.LoseNode(node.UUID) != nil {
		return
	}
	p.oracle.mu.Lock()
	defer p.oracle.mu.Unlock()
	delete(p.oracle.operators, key) // nothing knows of it any more
	delete(p.oracle.wipedAt, key)
}

// eraseStep is one that no automated cleaning carries out.
const eraseStep = "erase_devices"

// erase has a user ask for a clean step that erases the disks.
func (p *play) erase(key types.NamespacedName) {
	node := p.node(key)
	if node == nil {
		return
	}
	p.user(key, func(h *metal3.BareMetalHost) {
		if lifecycle.RequestClean(h, node, []metal3.CleanStep{{Interface: "deploy", Step: eraseStep}}, time.Now()) == nil {
			p.oracle.mu.Lock()
			defer p.oracle.mu.Unlock()
			p.oracle.erasures[key]++
		}
	})
}

// late has requests for a transition carried out two minutes late, or at once again.
func (p *play) late(target ironic.ProvisionTarget) {
	p.lates[target] = !p.lates[target]
	after := time.Duration(0)
	if p.lates[target] {
		after = lateBy
	}
	p.w.sim.SetLate(string(target), after)
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
			Pause: time.Duration(rapid.SampledFrom([]int{0, 100, 1000, 3000, 10000, 30000, 150000}).Draw(r, "pause ms")) * time.Millisecond,
		}
	})
	rapid.Check(t, func(r *rapid.T) {
		script := rapid.SliceOfN(anAct, 1, 25).Draw(r, "script")
		if rapid.Bool().Draw(r, "provisioned") {
			script = append([]act{{"image a", time.Minute}}, script...)
		}
		if harm, story := perform(t, script); harm != "" {
			r.Fatalf("%s\n%s", harm, story)
		}
	})
}
