// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

// judged is Ironic as the server sees it, with the oracle between them.
type judged struct {
	ironicClient
	oracle *oracle
}

func (j judged) SetProvisionState(ctx context.Context, fence ironic.Fence, id string, target ironic.ProvisionTarget, options ironic.ProvisionOptions) error {
	if fence.Check() != nil { // the client does not send it
		return j.ironicClient.SetProvisionState(ctx, fence, id, target, options)
	}
	j.oracle.judge(id, string(target))
	err := j.ironicClient.SetProvisionState(ctx, fence, id, target, options)
	if target == ironic.TargetDeleted && !ironic.IsNotCarriedOut(err) {
		j.oracle.ends(id)
	}
	return err
}

func (j judged) SwitchPower(ctx context.Context, fence ironic.Fence, id string, target ironic.PowerTarget) (ironic.PowerTarget, string, error) {
	if fence.Check() == nil {
		j.oracle.judge(id, string(target))
	}
	return j.ironicClient.SwitchPower(ctx, fence, id, target)
}

func (j judged) DeleteNode(ctx context.Context, fence ironic.Fence, id string) error {
	machine := j.oracle.machineOf(id)
	if fence.Check() == nil {
		j.oracle.judge(id, "DELETE")
	}
	err := j.ironicClient.DeleteNode(ctx, fence, id)
	if err == nil {
		j.oracle.forget(machine)
	}
	return err
}

// ends notes that Ironic may end a deployment, because the server has asked for that.
func (o *oracle) ends(id string) {
	key, _ := o.hostWith(id)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended[key] = time.Now()
}

// judge says what speaks against a request.
func (o *oracle) judge(id, target string) {
	key, host := o.hostWith(id)
	machine, state, isMarked := o.machineOf(id), "", false
	if fields, there := o.w.sim.Sim.Node(id); there {
		state, _ = fields["provision_state"].(string)
		extra, _ := fields["extra"].(map[string]any)
		isMarked = extra[ironic.ClusterMark] == "another-cluster"
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.note("%s: server asks for %s (node %s, %s)", key.Name, target, state, machine)
	if host == nil {
		if target != "DELETE" || state != "enroll" && state != "manageable" { // one that the server has only just made
			o.blame("%s of node %s, which is no host's", target, id)
		}
		return
	}
	if o.sent[key] == nil {
		o.sent[key] = map[string]time.Time{}
	}
	before := o.sent[key]["deleted"]
	o.sent[key][target] = time.Now()
	if machine == "" {
		return // Ironic has lost the node, and refuses the request
	}
	if !o.askedWithin(key, func(h *metal3.BareMetalHost) bool { return !isLeftAlone(h) }) {
		o.blame("%s: %s, while it is paused", key.Name, target)
	}
	o.judgeMachine(key, id, machine, target)
	if !slices.Contains([]string{"power on", "manage", "adopt", "abort", "DELETE"}, target) {
		o.judgeInterruption(key, machine, target)
		if at, marked := o.markedAt[id]; marked && isMarked && time.Since(at) > lookAge {
			o.blame("%s: %s of a node that another cluster has marked", key.Name, target)
		}
	}
	interrupts := false
	switch target {
	case "active":
		interrupts = true
		if !o.askedWithin(key, wantsToRun) {
			o.blame("%s: an image is to be written that nobody wants", key.Name)
		}
	case "rebuild":
		interrupts = true
		if !o.rebuilds[key] {
			o.blame("%s: it is rebuilt, and nobody has asked for that", key.Name)
		}
	case "provide":
		interrupts = true
		// The end of a deployment whose node Ironic has lost is its cleaning.
		ends := o.state[key] == metal3.StateDeprovisioning && o.askedWithin(key, func(h *metal3.BareMetalHost) bool { return isDeletedHost(h) || h.Spec.Image == nil })
		if !ends && !o.askedWithin(key, wantsToRun) {
			o.blame("%s: it is cleaned before an image that nobody wants", key.Name)
		}
		if o.runsWhatItWants(key, machine) {
			o.blame("%s: it is cleaned, and its spec wants what is on its disks", key.Name)
		}
	case "inspect":
		interrupts = true
		if isRunning(state) {
			o.blame("%s: it is inspected, while its node is %s", key.Name, state)
		}
	case "clean":
		hadRAID := slices.ContainsFunc(o.asked[key], func(v version) bool { return v.host != nil && v.host.Spec.RAID != nil })
		if o.erasures[key] == 0 && !hadRAID {
			o.blame("%s: it is cleaned by steps, and nobody has asked for any", key.Name)
		}
	case "deleted":
		interrupts = true
		failed := state == "deploy failed" || state == "error"
		called := time.Since(before) < 10*time.Minute // what was asked for may still come, so it goes on
		image := o.imageOn(machine)
		if state == "deploying" || state == "wait call-back" || o.lastWrite(machine) == (ironicsim.DiskWrite{}) {
			image = o.imageAsked(id) // the one that is about to be written, or, on a machine that was given to the node since, nothing
		}
		over := func(h *metal3.BareMetalHost) bool {
			return isDeletedHost(h) || h.Spec.Image == nil || image != "" && h.Spec.Image.URL != image
		}
		aborts := state == "wait call-back" && o.askedWithin(key, hasReboot) // by force, and it begins again
		if !failed && !called && !aborts && !o.askedWithin(key, over) {
			o.blame("%s: it is undeployed (node %s), and its spec wants what it runs", key.Name, state)
		}
	case "power off", "soft power off", "rebooting", "soft rebooting": // also of what an operator has deployed
		if !o.askedWithin(key, func(h *metal3.BareMetalHost) bool {
			return !h.Spec.Online || isDeletedHost(h) || isToBeDetached(h) || hasReboot(h)
		}) {
			o.blame("%s: %s, which nobody has asked for", key.Name, target)
		}
		if o.leftOut[key] && !o.askedWithin(key, func(h *metal3.BareMetalHost) bool { return isToBeDetached(h) || hasReboot(h) }) {
			o.blame("%s: %s of a machine that has run since before it was taken over, and nobody has set spec.online", key.Name, target)
		}
	case "DELETE":
		// Of a node that was never used, nothing is lost.
		unused := state == "enroll" || state == "manageable" && o.state[key] == metal3.StateRegistering
		if !unused && !o.askedWithin(key, func(h *metal3.BareMetalHost) bool { return isDeletedHost(h) || isToBeDetached(h) }) {
			o.blame("%s: its node is deleted from Ironic", key.Name)
		}
	}
	if interrupts && o.operators[machine] && isRunning(state) {
		o.blame("%s: %s of a machine that runs what an operator has deployed", key.Name, target)
	}
}

// judgeMachine: the machine that a request reaches is one that a user has named for this host.
func (o *oracle) judgeMachine(key types.NamespacedName, id, machine, target string) {
	if target == "DELETE" || time.Since(o.pointedAt[id]) < lookAge {
		return // it reaches no machine, or the node was looked at before
	}
	for _, v := range o.asked[key] {
		if v.host != nil && v.host.Spec.BMC.Address == "ipmi://"+machine {
			return
		}
	}
	if len(o.asked[key]) > 0 {
		o.blame("%s: %s of the machine at %s, which was never this host's", key.Name, target, machine)
	}
}

// judgeInterruption: a machine that another host is known to run on is left to that one, and an externally provisioned one to
// itself.
func (o *oracle) judgeInterruption(key types.NamespacedName, machine, target string) {
	if other, runs := o.runsFor(machine); runs && other != key {
		o.blame("%s: %s of the machine at %s, which runs what the spec of %s wants", key.Name, target, machine, other.Name)
	}
	switch target {
	case "power off", "soft power off", "rebooting", "soft rebooting": // as the spec asks
	default:
		if !o.askedWithin(key, func(h *metal3.BareMetalHost) bool { return !h.Spec.ExternallyProvisioned }) {
			o.blame("%s: %s of a machine that is provisioned externally", key.Name, target)
		}
	}
}

// runsFor returns the host that has wanted what is on the disks of a machine, on that machine, ever since it was written.
func (o *oracle) runsFor(machine string) (key types.NamespacedName, runs bool) {
	last := o.lastWrite(machine)
	image, written := last.Image, last.At
	if image == "" || time.Since(written) < lookAge {
		return key, false
	}
	for key, versions := range o.asked {
		wants := false
		for i, v := range versions {
			if i+1 < len(versions) && versions[i+1].since.Before(written) {
				continue
			}
			wants = v.host != nil && !isDeletedHost(v.host) && v.host.Spec.Image != nil && v.host.Spec.Image.URL == image && v.host.Spec.BMC.Address == "ipmi://"+machine
			if !wants {
				break
			}
		}
		if wants {
			return key, true
		}
	}
	return key, false
}

// runsWhatItWants reports whether a host has become provisioned with what is on the disks of a machine, nobody has asked Ironic to end that,
// and its spec wants it, and did at each moment of the last lookAge.
func (o *oracle) runsWhatItWants(key types.NamespacedName, machine string) bool {
	last, there := o.lastWrite(machine), o.provisioned[key]
	if last.Image == "" || there.machine != machine || there.since.Before(last.At) || !o.ended[key].Before(there.since) || o.meddled[key] {
		return false
	}
	return !o.askedWithin(key, func(h *metal3.BareMetalHost) bool {
		return isDeletedHost(h) || h.Spec.Image == nil || h.Spec.Image.URL != last.Image
	})
}
