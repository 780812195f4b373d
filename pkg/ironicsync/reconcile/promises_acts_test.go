// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/validation"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
)

// often are the acts that come more often than others, because it takes several of them to do harm.
var often = []string{"image a", "no image", "image a", "no image", "image b", "late undeployments", "late deployments", "killed", "operator undeploys", "operator deploys", "detach", "another BMC"}

// acts are what users, operators and the world do.
var acts = map[string]func(p *play, key types.NamespacedName){
	"image a":  func(p *play, key types.NamespacedName) { p.user(key, image(key, "a")) },
	"image b":  func(p *play, key types.NamespacedName) { p.user(key, image(key, "b")) },
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
	"detach by force": func(p *play, key types.NamespacedName) {
		p.user(key, annotate(metal3.DetachedAnnotation, `{"force":true}`))
	},
	"attach": func(p *play, key types.NamespacedName) {
		p.user(key, func(h *metal3.BareMetalHost) { delete(h.Annotations, metal3.DetachedAnnotation) })
	},
	"reboot": func(p *play, key types.NamespacedName) { p.user(key, toggle(metal3.RebootAnnotation)) },
	"force reboot": func(p *play, key types.NamespacedName) {
		p.user(key, annotate(metal3.RebootAnnotation, `{"force":true}`))
	},
	"fence":   func(p *play, key types.NamespacedName) { p.user(key, toggle(metal3.RebootAnnotationPrefix+"fence")) },
	"inspect": func(p *play, key types.NamespacedName) { p.user(key, toggle(metal3.InspectAnnotation)) },
	"RAID":    func(p *play, key types.NamespacedName) { p.user(key, mirrored) },
	"no RAID": func(p *play, key types.NamespacedName) {
		p.user(key, func(h *metal3.BareMetalHost) { h.Spec.RAID = nil })
	},
	"boot mode": func(p *play, key types.NamespacedName) {
		p.user(key, func(h *metal3.BareMetalHost) { h.Spec.BootMode = metal3.Legacy })
	},
	"Secret": (*play).loseSecret,
	"retry":  (*play).retry,
	"do not clean": func(p *play, key types.NamespacedName) {
		p.user(key, func(h *metal3.BareMetalHost) { h.Spec.AutomatedCleaningMode = metal3.CleaningModeDisabled })
	},
	"external": func(p *play, key types.NamespacedName) {
		p.user(key, func(h *metal3.BareMetalHost) { h.Spec.ExternallyProvisioned = !h.Spec.ExternallyProvisioned })
	},
	"another BMC":           (*play).anotherBMC,
	"moved":                 func(p *play, key types.NamespacedName) { p.move(key, false) },
	"moved with its status": func(p *play, key types.NamespacedName) { p.move(key, true) },
	"rebuild":               (*play).rebuild,
	"erase":                 (*play).erase,
	"takeover":              (*play).takeOver,

	"operator undeploys": (*play).undeployByHand,
	"operator deploys":   (*play).deployByHand,
	"operator rescues":   (*play).rescueByHand,
	"operator renames":   (*play).renameByHand,
	"operator points":    (*play).pointByHand,
	"stranger marks":     (*play).markByStranger,
	"maintenance":        (*play).maintain,
	"operator protects":  (*play).protectByHand,
	"node lost":          (*play).loseNode,
	"all nodes lost": func(p *play, _ types.NamespacedName) {
		p.w.sim.Sim.LoseAllNodes()
		p.oracle.forgetAll()
	},
	"Ironic backed up": func(p *play, _ types.NamespacedName) { p.ironicBackup = p.w.sim.Sim.Snapshot() },
	"Ironic restored":  (*play).restoreIronic,
	"etcd backed up":   (*play).backUpEtcd,
	"etcd restored":    (*play).restoreEtcd,
	"let go":           func(p *play, _ types.NamespacedName) { p.letGo() },

	"late undeployments": func(p *play, _ types.NamespacedName) { p.late(ironic.TargetDeleted) },
	"late deployments":   func(p *play, _ types.NamespacedName) { p.late(ironic.TargetActive) },
	"late rebuilds":      func(p *play, _ types.NamespacedName) { p.late(ironic.TargetRebuild) },
	"late cleans":        func(p *play, _ types.NamespacedName) { p.late(ironic.TargetClean) },
	"late power-offs": func(p *play, _ types.NamespacedName) {
		p.late(ironic.ProvisionTarget(ironic.TargetPowerOff))
		p.late(ironic.ProvisionTarget(ironic.TargetSoftPowerOff))
	},
	"verification fails": fails("verify"),
	"inspection fails":   fails("inspect"),
	"cleaning fails":     fails("clean"),
	"deployment fails":   fails("deploy"),
	"undeployment fails": fails("delete"),
	"adoption fails":     fails("adopt"),
	"power fails":        fails("power"),
	"BMC silent":         func(p *play, key types.NamespacedName) { p.w.sim.BMC(p.number(key)).SetDead(true) },
	"BMC answers":        func(p *play, key types.NamespacedName) { p.w.sim.BMC(p.number(key)).SetDead(false) },
	"power button": func(p *play, key types.NamespacedName) {
		p.oracle.presses(key)
		bmc := p.w.sim.BMC(p.number(key))
		bmc.SetPower(map[string]string{"power on": "power off", "power off": "power on"}[bmc.Power()])
	},
	"killed":      func(p *play, _ types.NamespacedName) { p.restart() },
	"Ironic away": (*play).outage,
	"blind": func(p *play, _ types.NamespacedName) { // a new leader that cannot read which nodes there are
		p.blind = true
		p.w.sim.Refuse("ListNodes", 500, "Internal error")
		p.restart()
	},
	"sees again": func(p *play, _ types.NamespacedName) {
		p.blind = false
		p.w.sim.Accept("ListNodes")
		p.oracle.answering()
	},
}

// outage makes Ironic unreachable, or reachable again.
func (p *play) outage(types.NamespacedName) {
	p.away = !p.away
	p.w.sim.SetAway(p.away)
	p.oracle.answering()
}

// image is an image of a host's own, so that the disks of a machine tell whose they are.
func image(key types.NamespacedName, name string) func(h *metal3.BareMetalHost) {
	return func(h *metal3.BareMetalHost) {
		url := fmt.Sprintf("http://images/%s-%s.qcow2", key.Name, name)
		h.Spec.Image = &metal3.Image{URL: url, Checksum: url + ".sha256sum"}
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

func annotate(annotation, value string) func(h *metal3.BareMetalHost) {
	return func(h *metal3.BareMetalHost) { metav1.SetMetaDataAnnotation(&h.ObjectMeta, annotation, value) }
}

// fails has the next operation of a kind fail on the node of a host.
func fails(phase string) func(p *play, key types.NamespacedName) {
	return func(p *play, key types.NamespacedName) {
		if node := p.node(key); node != nil {
			_ = p.w.sim.Sim.FailNext(node.UUID, phase, "it failed")
		}
	}
}

// loseSecret has somebody delete the Secret of a host, or create it again.
func (p *play) loseSecret(key types.NamespacedName) {
	secrets, name := p.w.secrets, key.Name+"-bmc"
	if _, err := secrets.client.Tracker().Get(secretsResource, key.Namespace, name); err != nil {
		p.w.putCredentials(key.Namespace, name)
		return
	}
	err := errors.Join(secrets.client.Tracker().Delete(secretsResource, key.Namespace, name),
		secrets.metadata.Tracker().Delete(secretsResource, key.Namespace, name))
	if err != nil {
		p.w.t.Error(err)
	}
}

// retry does what the subresource does.
func (p *play) retry(key types.NamespacedName) {
	if p.w.hostOf(key) != nil {
		p.w.hosts.EditStatus(p.w.t, key.Name, func(h *metal3.BareMetalHost) {
			h.Status.ErrorCount, h.Status.ProvisioningFailCount = 0, 0
		})
	}
}

// user edits a host, if it is there and the API server admits it.
func (p *play) user(key types.NamespacedName, change func(h *metal3.BareMetalHost)) {
	if p.w.hostOf(key) == nil {
		return
	}
	p.w.edit(key, func(h *metal3.BareMetalHost) {
		was := h.DeepCopy()
		change(h)
		deleted := h.DeletionTimestamp // which no user sets by an update
		h.DeletionTimestamp = was.DeletionTimestamp
		refused := validation.ValidateBareMetalHostUpdate(h, was)
		if h.DeletionTimestamp = deleted; len(refused) > 0 {
			p.oracle.notes("%s: refused: %v", key.Name, refused.ToAggregate())
			*h = *was
			return
		}
		p.oracle.saw(key, h.DeepCopy()) // the server may act before this returns
	})
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
	p.oracle.isNew(key)
	p.w.addWithSecret(enrolledIn(key.Namespace, key.Name, p.number(key)))
}

// move does what clusterctl does to a host that moves to another cluster with the same Ironic, and has it come back at once: its node
// is released by the API server, and its copy has its status in an annotation if Cluster API has claimed it.
func (p *play) move(key types.NamespacedName, withStatus bool) {
	host := p.w.hostOf(key)
	if host == nil || isDeletedHost(host) {
		return
	}
	moved := enrolledIn(key.Namespace, key.Name, p.number(key))
	moved.Spec, moved.Annotations = host.Spec, maps.Clone(host.Annotations)
	if withStatus {
		status, err := json.Marshal(host.Status)
		if err != nil {
			p.w.t.Fatal(err)
		}
		metav1.SetMetaDataAnnotation(&moved.ObjectMeta, metal3.StatusAnnotation, string(status))
	}
	if node := p.node(key); node != nil && string(node.Marks.Host) == string(host.UID) &&
		!p.patch(node.UUID, ironic.Patch{Op: ironic.PatchRemove, Path: "/extra/" + ironic.HostMark}) {
		return // the API server refuses the deletion
	}
	p.w.edit(key, func(h *metal3.BareMetalHost) {
		metav1.SetMetaDataAnnotation(&h.ObjectMeta, metal3.DeleteForMoveAnnotation, "")
		h.DeletionTimestamp, h.Finalizers = &metav1.Time{Time: time.Now()}, nil
	})
	time.Sleep(2 * time.Second)
	p.oracle.moved(key, !host.Spec.Online && p.w.sim.BMC(p.number(key)).Power() == string(ironic.PowerOn))
	p.w.addWithSecret(moved)
}

// rebuildCluster has a host whose machine runs created anew from a YAML that says that it is provisioned externally, and leaves
// spec.online out, after its cluster was lost: its node has the marks of the former one.
func (p *play) rebuildCluster(key types.NamespacedName) {
	host, node := p.w.hostOf(key), p.node(key)
	switch {
	case host == nil || node == nil || isDeletedHost(host) || host.Status.Record.Hold != nil || host.Status.Ironic == nil || p.w.sim.BMC(p.number(key)).Power() != string(ironic.PowerOn):
		return
	case node.PowerState != ironic.PowerOn || node.TargetPowerState != "" || node.Reservation != "" || node.Maintenance || node.ProvisionState != ironic.Active && node.ProvisionState != ironic.Manageable,
		p.oracle.machineOf(node.UUID) != enginetest.BMCAddress(p.number(key)):
		return // its machine does not run, or is another one
	}
	anew := enrolledIn(key.Namespace, key.Name, p.number(key))
	anew.Spec.ExternallyProvisioned, anew.Spec.Online = true, false
	p.w.edit(key, func(h *metal3.BareMetalHost) {
		h.DeletionTimestamp, h.Finalizers = &metav1.Time{Time: time.Now()}, nil
	})
	time.Sleep(2 * time.Second)
	p.patch(node.UUID, ironic.Patch{Op: ironic.PatchAdd, Path: "/extra/" + ironic.ClusterMark, Value: "another-cluster"})
	p.oracle.marks(node.UUID)
	p.oracle.moved(key, true)
	p.oracle.leavesOnlineOut(key)
	p.w.addWithSecret(anew)
}

// number is that of a host, and of the machine with which it is created.
func (p *play) number(key types.NamespacedName) (number int) {
	if _, err := fmt.Sscanf(key.Name, key.Namespace+"-%d", &number); err != nil {
		p.w.t.Error(err)
	}
	return number
}

// anotherBMC has a user give a host the BMC of the next machine, which may be that of another host.
func (p *play) anotherBMC(key types.NamespacedName) {
	p.user(key, func(h *metal3.BareMetalHost) {
		for machine := range promiseHosts + 1 {
			if h.Spec.BMC.Address == "ipmi://"+enginetest.BMCAddress(machine) {
				h.Spec.BMC.Address = "ipmi://" + enginetest.BMCAddress((machine+1)%(promiseHosts+1))
				return
			}
		}
	})
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
		held := h.Status.Record.Hold
		if lifecycle.TakeOver(h, node, time.Now()) != nil {
			return
		}
		p.oracle.notes("%s: taken over", key.Name)
		if held == nil || held.Other == "" { // otherwise only that there are two machines is confirmed
			p.oracle.takenOver(key, node.UUID)
		}
	})
}

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

// eraseStep is one that no automated cleaning carries out.
const eraseStep = "erase_devices"

// byHand is what an operator asks Ironic for, and waits for.
func (p *play) byHand(id string, target ironic.ProvisionTarget) bool {
	if p.lates[target] {
		p.late(target)
		defer p.late(target)
	}
	return p.w.sim.Process(nil).SetProvisionState(p.w.t.Context(), ironic.NoFence, id, target, ironic.ProvisionOptions{}) == nil
}

// patch is what an operator changes of a node.
func (p *play) patch(id string, patch ...ironic.Patch) bool {
	_, err := p.w.sim.Process(nil).UpdateNode(p.w.t.Context(), ironic.NoFence, id, patch)
	return err == nil
}

func (p *play) undeployByHand(key types.NamespacedName) {
	node := p.node(key)
	if node == nil || node.ProvisionState != ironic.Active || !p.byHand(node.UUID, ironic.TargetDeleted) {
		return
	}
	machine := p.oracle.machineOf(node.UUID)
	p.oracle.mu.Lock()
	defer p.oracle.mu.Unlock()
	delete(p.oracle.operators, machine)
	p.oracle.wipedAt[machine], p.oracle.meddled[key] = time.Now(), true
	p.oracle.note("%s: undeployed", key.Name)
}

func (p *play) deployByHand(key types.NamespacedName) {
	node := p.node(key)
	if node == nil || node.ProvisionState != ironic.Available {
		return
	}
	if !p.patch(node.UUID,
		ironic.Patch{Op: ironic.PatchAdd, Path: "/instance_info", Value: map[string]any{"image_source": "http://images/operator.qcow2", "image_checksum": "abc"}},
		ironic.Patch{Op: ironic.PatchAdd, Path: "/instance_uuid", Value: fmt.Sprintf("00000000-0000-4000-8000-%012d", time.Now().Unix()%1e12)},
	) || !p.byHand(node.UUID, ironic.TargetActive) {
		return
	}
	machine := p.oracle.machineOf(node.UUID)
	p.oracle.mu.Lock()
	defer p.oracle.mu.Unlock()
	p.oracle.operators[machine], p.oracle.meddled[key] = true, true
	p.oracle.note("%s: deployed by the operator", key.Name)
}

// rescueByHand has an operator rescue a node, or end that.
func (p *play) rescueByHand(key types.NamespacedName) {
	node := p.node(key)
	if node == nil || node.ProvisionState != ironic.Active && node.ProvisionState != ironic.Rescue {
		return
	}
	to := string(ironic.Rescue)
	if node.ProvisionState == ironic.Rescue {
		to = string(ironic.Active)
	}
	if err := p.w.sim.Sim.SetNode(node.UUID, map[string]any{"provision_state": to}); err != nil {
		p.w.t.Error(err)
	}
	p.oracle.meddles(key)
}

// renameByHand has an operator give a node another name.
func (p *play) renameByHand(key types.NamespacedName) {
	if node := p.node(key); node != nil {
		p.patch(node.UUID, ironic.Patch{Op: ironic.PatchAdd, Path: "/name", Value: fmt.Sprintf("rack-7-%d", time.Now().UnixNano())})
	}
}

// pointByHand has an operator give a node the BMC of the next machine.
func (p *play) pointByHand(key types.NamespacedName) {
	node := p.node(key)
	if node == nil {
		return
	}
	next := enginetest.BMCAddress((p.number(key) + 1) % (promiseHosts + 1))
	if p.patch(node.UUID, ironic.Patch{Op: ironic.PatchAdd, Path: "/driver_info/ipmi_address", Value: next}) {
		p.oracle.meddles(key)
		p.oracle.points(node.UUID)
	}
}

// markByStranger has the server of another cluster mark a node.
func (p *play) markByStranger(key types.NamespacedName) {
	node := p.node(key)
	mark := ironic.Patch{Op: ironic.PatchAdd, Path: "/extra/" + ironic.ClusterMark, Value: "another-cluster"}
	if node != nil && p.patch(node.UUID, mark) {
		p.oracle.marks(node.UUID)
	}
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

// protectByHand has an operator protect a node from being undeployed, or end that.
func (p *play) protectByHand(key types.NamespacedName) {
	node := p.node(key)
	if node == nil || node.ProvisionState != ironic.Active {
		return
	}
	fields, _ := p.w.sim.Sim.Node(node.UUID)
	p.protect(node.UUID, fields["protected"] != true)
}

func (p *play) protect(id string, protected bool) {
	_ = p.w.sim.Sim.SetNode(id, map[string]any{"protected": protected})
}

// loseNode has Ironic forget a node, with what is deployed on it.
func (p *play) loseNode(key types.NamespacedName) {
	node := p.node(key)
	if node == nil {
		return
	}
	machine := p.oracle.machineOf(node.UUID)
	if p.w.sim.Sim.LoseNode(node.UUID) == nil {
		p.oracle.forget(machine)
	}
}

// restoreIronic replaces Ironic's database by that of a backup.
func (p *play) restoreIronic(types.NamespacedName) {
	if p.ironicBackup == nil {
		return
	}
	p.w.sim.Sim.Restore(p.ironicBackup)
	p.oracle.restoredIronic(p.keys)
}

func (p *play) backUpEtcd(types.NamespacedName) {
	p.etcdBackup = map[types.NamespacedName]*metal3.BareMetalHost{}
	for _, key := range p.keys {
		if host := p.w.hostOf(key); host != nil {
			p.etcdBackup[key] = host
		}
	}
}

// restoreEtcd replaces all hosts by those of a backup, and has the server notice that, as its count does.
func (p *play) restoreEtcd(types.NamespacedName) {
	if p.etcdBackup == nil {
		return
	}
	p.w.stop()
	p.oracle.restored(p.etcdBackup)
	p.w.hosts.Restore(p.etcdBackup)
	p.w.restored = "The server's etcd was restored from a backup"
	p.w.restoredAt++
	p.begin()
	for _, key := range p.keys {
		p.oracle.look(key)
	}
}

// letGo ends the hold of a restore: somebody has looked at what is recorded.
func (p *play) letGo() {
	p.w.restored = ""
	p.w.hold.Set(metal3.RestoredReason, "")
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
