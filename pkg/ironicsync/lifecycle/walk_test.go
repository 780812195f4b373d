package lifecycle

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

var (
	walkSeed = flag.Uint64("walk-seed", 1, "seed of the random walk; 0 takes another one each time")
	walks    = flag.Int("walks", 3000, "how many random walks there are")
)

// disturbances are what can happen to a host at any moment: its user changes the
// spec, an operator or a machine does something behind our back, something fails,
// the process ends.
var disturbances = map[string]func(w *world, r *rand.Rand){
	"image": func(w *world, r *rand.Rand) {
		w.edit(func(h *metal3.BareMetalHost) { wantsImage(fmt.Sprintf("http://images/%c", 'a'+rune(r.IntN(3))))(h) })
	},
	"no image": func(w *world, _ *rand.Rand) { w.edit(func(h *metal3.BareMetalHost) { h.Spec.Image = nil }) },
	"format": func(w *world, _ *rand.Rand) {
		w.edit(func(h *metal3.BareMetalHost) {
			if image := h.Spec.Image; image != nil {
				image.DiskFormat = ptr.To(map[bool]metal3.DiskFormat{true: "raw", false: metal3.LiveISO}[image.IsLiveISO()])
			}
		})
	},
	"custom deploy": func(w *world, r *rand.Rand) {
		w.edit(func(h *metal3.BareMetalHost) {
			h.Spec.CustomDeploy = []*metal3.CustomDeploy{nil, {Method: "install"}, {Method: "burn"}}[r.IntN(3)]
		})
	},
	"online": func(w *world, r *rand.Rand) {
		w.edit(func(h *metal3.BareMetalHost) { h.Spec.Online = r.IntN(3) > 0 })
	},
	"boot mode": func(w *world, r *rand.Rand) {
		w.edit(func(h *metal3.BareMetalHost) {
			h.Spec.BootMode = []metal3.BootMode{metal3.UEFI, metal3.Legacy}[r.IntN(2)]
		})
	},
	"RAID": func(w *world, r *rand.Rand) {
		w.edit(func(h *metal3.BareMetalHost) {
			h.Spec.RAID = []*metal3.RAIDConfig{nil, {}, hardwareRAID, softwareRAID, {HardwareRAIDVolumes: []metal3.HardwareRAIDVolume{}, SoftwareRAIDVolumes: []metal3.SoftwareRAIDVolume{}}}[r.IntN(5)]
		})
	},
	"BIOS":   func(w *world, r *rand.Rand) { w.wantsBIOS = []string{"", "on", "off"}[r.IntN(3)] },
	"policy": func(w *world, _ *rand.Rand) { w.mayService = !w.mayService },
	"change at a reboot": func(w *world, r *rand.Rand) {
		w.mayService = true
		w.wantsBIOS = map[bool]string{true: "on", false: "off"}[w.bios != "on"]
		if r.IntN(2) == 0 {
			w.failures++
		}
		w.change(func(h *metal3.BareMetalHost) {
			metav1.SetMetaDataAnnotation(&h.ObjectMeta, metal3.RebootAnnotation, "")
		})
	},
	"BIOS, by hand": func(w *world, r *rand.Rand) { w.bios = []string{"on", "off"}[r.IntN(2)] },
	"external": func(w *world, _ *rand.Rand) {
		if h := w.host; h.Spec.ExternallyProvisioned || h.Status.Provisioning.State == metal3.StateAvailable { // as validation has it
			w.edit(func(h *metal3.BareMetalHost) { h.Spec.ExternallyProvisioned = !h.Spec.ExternallyProvisioned })
			if w.host.Spec.ExternallyProvisioned && w.disk == "" {
				w.disk = "foreign"
			}
			if state := w.host.Status.Provisioning.State; state != metal3.StateExternallyProvisioned && state != metal3.StateProvisioned {
				w.mayWipe = !w.host.Spec.ExternallyProvisioned
			}
		}
	},
	"reboot":       toggle(metal3.RebootAnnotation, `{"mode":"hard"}`),
	"force reboot": toggle(metal3.RebootAnnotation, `{"force":true}`),
	"hold":         toggle(metal3.RebootAnnotationPrefix+"test", ""),
	"force hold":   toggle(metal3.RebootAnnotationPrefix+"force", `{"force":true}`),
	"inspect":      toggle(metal3.InspectAnnotation, ""),
	"inspect now": func(w *world, _ *rand.Rand) { // as /inspect does
		node := w.nodes[w.host.Status.Provisioning.ID]
		if node == nil || node.Reservation != "" || w.host.Spec.ExternallyProvisioned || w.host.InspectionDisabled() {
			return
		}
		if node.ProvisionState == ironic.Available {
			w.event(node, string(ironic.TargetManage))
		}
		if node.ProvisionState == ironic.Manageable {
			w.event(node, string(ironic.TargetInspect))
		}
	},
	"rebuild": func(w *world, _ *rand.Rand) { // as /rebuild does
		node := w.nodes[w.host.Status.Provisioning.ID]
		if node == nil || node.Reservation != "" || !w.host.DeletionTimestamp.IsZero() {
			return
		}
		w.change(func(h *metal3.BareMetalHost) {
			if RequestRebuild(h, node, now) == nil {
				w.mayWipe, w.rebuildAsked = true, true
			}
		})
	},
	"clean": func(w *world, _ *rand.Rand) { // as /clean does
		node := w.nodes[w.host.Status.Provisioning.ID]
		if node == nil || node.Reservation != "" || !w.host.DeletionTimestamp.IsZero() {
			return
		}
		w.change(func(h *metal3.BareMetalHost) {
			if RequestClean(h, node, []metal3.CleanStep{{Interface: "deploy", Step: "erase_devices"}}, now) == nil {
				w.mayWipe, w.cleanAsked = true, true
			}
		})
	},
	"retry": func(w *world, _ *rand.Rand) { // as /retry does
		w.change(func(h *metal3.BareMetalHost) { h.Status.ErrorCount, h.Status.ProvisioningFailCount = 0, 0 })
	},
	"deletion": func(w *world, r *rand.Rand) {
		switch {
		case r.IntN(3) > 0 || !w.host.DeletionTimestamp.IsZero():
		case len(w.host.Finalizers) == 0:
			w.createAgain()
		default:
			w.change(func(h *metal3.BareMetalHost) { h.DeletionTimestamp = &created })
		}
	},
	"detach":       toggle(metal3.DetachedAnnotation, ""),
	"force detach": toggle(metal3.DetachedAnnotation, `{"force":true}`),
	"pause":        toggle(metal3.PausedAnnotation, "test"),
	"secret":       func(w *world, _ *rand.Rand) { w.noSecret = !w.noSecret },
	"failure":      func(w *world, _ *rand.Rand) { w.failures++ },
	"power": func(w *world, _ *rand.Rand) {
		w.onNode(func(n *ironic.Node) {
			if n.PowerState == ironic.PowerOn {
				n.PowerState = ironic.PowerOff
			} else {
				n.PowerState = ironic.PowerOn
			}
		})
	},
	"silent BMC": func(w *world, _ *rand.Rand) {
		w.onNode(func(n *ironic.Node) {
			if n.Fault == ironic.FaultPowerFailure {
				n.Maintenance, n.Fault = false, ""
			} else if !n.Maintenance {
				n.Maintenance, n.Fault = true, ironic.FaultPowerFailure
			}
		})
	},
	"database wiped": func(w *world, r *rand.Rand) {
		if r.IntN(4) == 0 {
			w.nodes = map[string]*ironic.Node{}
			w.forgetInstance()
		}
	},
	"deployed by hand": func(w *world, r *rand.Rand) {
		w.onNode(func(n *ironic.Node) {
			if n.Reservation == "" && (n.ProvisionState == ironic.Available || n.ProvisionState == ironic.Manageable) && w.disk == "" {
				w.byHand++
				n.ProvisionState, n.InstanceUUID, n.PowerState = ironic.Active, fmt.Sprintf("by-hand-%d", w.byHand), ironic.PowerOn
				w.disk, w.instance, w.mayWipe = "foreign", n.InstanceUUID, false
			}
		})
	},
	"another cluster": func(w *world, _ *rand.Rand) { w.markedByOthers = !w.markedByOthers },
	"another host":    func(w *world, _ *rand.Rand) { w.isAnothers = !w.isAnothers },
	"another BMC":     func(w *world, _ *rand.Rand) { w.pointedElsewhere = !w.pointedElsewhere },
	"shared BMC":      func(w *world, _ *rand.Rand) { w.bmcShared = !w.bmcShared },
	"backup":          func(w *world, _ *rand.Rand) { w.backup = w.clone() },
	"etcd restored": func(w *world, r *rand.Rand) {
		if b := w.backup; b != nil && r.IntN(3) == 0 && !w.isInTransit() { // what Ironic is at was asked for with proof
			w.host, w.state, w.runs, w.mayWipe, w.asked, w.released = b.host.DeepCopy(), b.state, b.runs, b.mayWipe || w.unknown, b.asked, b.released
			w.rebuildAsked, w.cleanAsked = b.rebuildAsked, w.cleanAsked && b.cleanAsked
			w.restored = true
		}
	},
	"killed": func(w *world, r *rand.Rand) {
		step := w.plan()
		switch {
		case step.Do == Wait || w.illegal != "":
		case step.Do == DeleteNode && r.IntN(2) == 0: // which takes two requests
			node := w.nodes[w.host.Status.Provisioning.ID]
			node.Maintenance, node.MaintenanceReason = true, LeavingReason(w.host)
		default:
			w.do(step, false)
			w.illegal = ""
		}
	},
}

func toggle(key, value string) func(*world, *rand.Rand) {
	return func(w *world, _ *rand.Rand) {
		w.change(func(h *metal3.BareMetalHost) {
			switch {
			case hasAnnotation(h, key):
				delete(h.Annotations, key)
			case h.Annotations == nil:
				h.Annotations = map[string]string{key: value}
			default:
				h.Annotations[key] = value
			}
		})
	}
}

// change is a write to the host's metadata, edit one to its spec.
func (w *world) change(f func(*metal3.BareMetalHost)) {
	w.host = w.host.DeepCopy()
	f(w.host)
}

func (w *world) edit(f func(*metal3.BareMetalHost)) {
	w.change(func(h *metal3.BareMetalHost) { f(h); h.Generation++ })
}

func (w *world) onNode(f func(*ironic.Node)) {
	for _, n := range w.nodes {
		f(n)
	}
}

// advance takes one step, or lets Ironic move on; false: there is nothing to do.
func (w *world) advance() bool {
	step := w.plan()
	if step.Do == Wait {
		return w.tick()
	}
	w.log = append(w.log, step.String())
	w.do(step, true)
	if w.released {
		w.createAgain()
	}
	return true
}

// createAgain creates a host of the same name and spec when the last one is gone.
// Once its spec asks for something, nothing keeps the machine from being wiped, except
// for the flag that says that it runs something.
func (w *world) createAgain() {
	w.log = append(w.log, "<created>")
	w.released = false
	w.host = &metal3.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.host.Namespace, Name: w.host.Name, UID: w.host.UID, Generation: 1},
		Spec:       w.host.Spec,
	}
	w.state, w.asked, w.rebuildAsked, w.mayWipe = "", false, false, !w.host.Spec.ExternallyProvisioned
	w.instance, w.backup, w.unknown = "", nil, false // who enrols a machine anew and asks for an image means it
	w.restored = len(w.nodes) > 0                    // the last host went without its node, and the next one takes that over
	if w.host.Spec.ExternallyProvisioned && w.disk == "" {
		w.disk = "foreign"
	}
}

// takeOver confirms the node of a held host, as its user does in the end; false: there is
// nothing to confirm.
func (w *world) takeOver() bool {
	node := w.nodes[w.host.Status.Provisioning.ID]
	if node == nil || w.host.Status.Record.Hold == nil {
		return false
	}
	w.log = append(w.log, "<takeover>")
	w.change(func(h *metal3.BareMetalHost) { _ = TakeOver(h, node, now) }) // which may not be possible now
	w.instance, w.mayWipe, w.asked = node.InstanceUUID, true, true
	if w.disk != "" && w.wants() != (workload{}) {
		w.disk = "foreign"
		w.runs = w.wants()
	}
	return true
}

// rebootAfterFailure has the host rebooted if a service has failed, as its user does in the end;
// false: none has.
func (w *world) rebootAfterFailure() bool {
	if s := &w.host.Status; !hasServicingError(s) || recordedMessage(w.host) == noServiceMessage || !w.host.Spec.Online {
		return false
	}
	w.log = append(w.log, "<reboot after a failure>")
	w.change(func(h *metal3.BareMetalHost) {
		metav1.SetMetaDataAnnotation(&h.ObjectMeta, metal3.RebootAnnotation, "")
	})
	return true
}

// A random walk: whatever happens in whatever order, the host comes to where its
// spec wants it once all is quiet, never is a machine wiped that runs what it is to
// run, and no disk is written to before a spec asks for that.
func TestRandomWalk(t *testing.T) {
	seed := *walkSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("to repeat: -walk-seed=%d", seed)
	names := make([]string, 0, len(disturbances))
	for name := range disturbances {
		names = append(names, name)
	}
	slices.Sort(names)
	deployments, rebuilds, raidCleans, biosCleans, cleans, services := 0, 0, 0, 0, 0, 0
	for walk := range *walks {
		r := rand.New(rand.NewPCG(seed, uint64(walk)))
		w := newWorld(t, releases[r.IntN(len(releases))])
		check := func(when string) {
			t.Helper()
			w.permit()
			if w.illegal != "" || w.harm != "" {
				t.Fatalf("walk %d, %s: Ironic refuses %q; harm: %q; state %q, node %+v; after %v", walk, when, w.illegal, w.harm, w.host.Status.Provisioning.State, w.nodes[w.host.Status.Provisioning.ID], w.log)
			}
		}
		for range 60 {
			if r.IntN(3) == 0 {
				name := names[r.IntN(len(names))]
				if RunsSomething(w.host) && r.IntN(2) == 0 { // what is possible in few moments only
					name = []string{"rebuild", "change at a reboot"}[r.IntN(2)]
				}
				w.log = append(w.log, "<"+name+">")
				disturbances[name](w, r)
			} else {
				w.advance()
			}
			check("on the way")
		}
		// Quiet.
		w.log = append(w.log, "<quiet>")
		w.failures, w.noSecret = 0, false
		w.markedByOthers, w.isAnothers, w.pointedElsewhere, w.bmcShared = false, false, false, false
		w.onNode(func(n *ironic.Node) {
			if n.Fault == ironic.FaultPowerFailure {
				n.Maintenance, n.Fault = false, ""
			}
		})
		w.edit(func(h *metal3.BareMetalHost) {
			h.Annotations = nil
			h.Status.ProvisioningFailCount = min(h.Status.ProvisioningFailCount, 1) // as /retry does
		})
		for n := 0; w.advance() || w.takeOver() || w.rebootAfterFailure(); n++ {
			check("when quiet")
			if n > 300 {
				t.Fatalf("walk %d: no end: %v", walk, w.log)
			}
		}
		if wrong := w.wanted(); wrong != "" {
			t.Fatalf("walk %d: %s; state %q, node %+v; after %v", walk, wrong, w.host.Status.Provisioning.State, w.nodes[w.host.Status.Provisioning.ID], w.log)
		}
		cleans += w.cleans
		deployments, rebuilds, raidCleans, biosCleans = deployments+w.deployments, rebuilds+w.rebuilds, raidCleans+w.raidCleans, biosCleans+w.biosCleans
		services += w.services
	}
	t.Logf("%d requested cleans", cleans)
	if cleans < *walks/300 {
		t.Errorf("only %d requested cleans: the walk does not go far", cleans)
	}
	t.Logf("%d deployments, %d rebuilds, %d changes of RAID volumes, %d of the BIOS, %d services", deployments, rebuilds, raidCleans, biosCleans, services)
	if deployments < *walks/10 || rebuilds < *walks/100 || raidCleans < *walks/10 || biosCleans < *walks/10 || services < *walks/50 {
		t.Errorf("only %d deployments, %d rebuilds, %d changes of RAID volumes, %d of the BIOS and %d services: the walk does not go far", deployments, rebuilds, raidCleans, biosCleans, services)
	}
}
