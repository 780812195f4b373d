// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

// An oracle knows what docs/life.md promises, and nothing of how the server decides. It is told what users ask for and what
// operators do in Ironic, sees each request that the server sends, and each status that it records; and it sees the disks of the
// machines, which are known by the addresses of their BMCs.
type oracle struct {
	w *world

	mu sync.Mutex
	// asked is what users have asked for, version by version.
	asked map[types.NamespacedName][]version
	// operators is which machines run what the record of no host knows: an operator has deployed it, or etcd was restored
	// since; unless a person has confirmed since that it is the host's.
	operators map[string]bool
	// wipedAt is when an operator has undeployed a machine that was provisioned.
	wipedAt map[string]time.Time
	// pointedAt is when an operator has given a node another BMC.
	pointedAt map[string]time.Time
	// markedAt is when the server of another cluster has marked a node, unless a person has confirmed since that it is
	// the host's.
	markedAt map[string]time.Time
	// confirmed is which machines run what the spec says, whatever Ironic says of their nodes: according to a person, or because
	// Ironic's database was restored.
	confirmed map[types.NamespacedName]bool
	// meddled reports whether an operator has done something to the machine of a host.
	meddled map[types.NamespacedName]bool
	// sent is when the server has last sent a request, by host and target.
	sent map[types.NamespacedName]map[string]time.Time
	// ended is when the server has last asked for the end of a deployment, unless Ironic has refused that.
	ended map[types.NamespacedName]time.Time
	// provisioned is when and where a host has become provisioned.
	provisioned map[types.NamespacedName]place
	// rebuilds is which hosts a user wants rebuilt, and has not got yet.
	rebuilds map[types.NamespacedName]bool
	// erasures is how often users have asked for the disks of a host to be erased.
	erasures map[types.NamespacedName]int

	// leftOut is which hosts have a machine that ran when they were created from a YAML without spec.online, as long as nobody has set
	// that, or done anything to the machine.
	leftOut map[types.NamespacedName]bool

	// foundOn is which hosts have come with spec.online false while their machines ran, which goes on: it may be that it was left out.
	foundOn map[types.NamespacedName]bool

	// state is what was recorded last.
	state map[types.NamespacedName]metal3.ProvisioningState

	log  []string
	harm string
}

// version is what a user asked for from a time on.
type version struct {
	since time.Time
	host  *metal3.BareMetalHost // nil while it is not there
}

// place is a machine, and since when something is so there.
type place struct {
	machine string
	since   time.Time
}

func newOracle(w *world) *oracle {
	return &oracle{
		w: w, asked: map[types.NamespacedName][]version{}, operators: map[string]bool{}, wipedAt: map[string]time.Time{}, pointedAt: map[string]time.Time{},
		markedAt: map[string]time.Time{}, ended: map[types.NamespacedName]time.Time{}, provisioned: map[types.NamespacedName]place{},
		confirmed: map[types.NamespacedName]bool{}, meddled: map[types.NamespacedName]bool{}, sent: map[types.NamespacedName]map[string]time.Time{},
		rebuilds: map[types.NamespacedName]bool{}, erasures: map[types.NamespacedName]int{}, leftOut: map[types.NamespacedName]bool{}, foundOn: map[types.NamespacedName]bool{}, state: map[types.NamespacedName]metal3.ProvisioningState{},
	}
}

// isNew notes that a host is created again.
func (o *oracle) isNew(key types.NamespacedName) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.rebuilds, key)
	delete(o.asked, key)
	delete(o.confirmed, key)
	delete(o.provisioned, key)
}

// moved notes that a host is another one now. The record of what was asked for does not move with it, so an undeployment that comes
// late looks like another user's.
func (o *oracle) moved(key types.NamespacedName, foundOn bool) {
	o.isNew(key)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.foundOn[key] = foundOn
	if time.Since(o.sent[key]["deleted"]) < 10*time.Minute {
		o.meddled[key] = true
	}
}

// forget notes that Ironic knows nothing of a machine any more, so that nobody can know what it runs.
func (o *oracle) forget(machine string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.operators, machine)
	delete(o.wipedAt, machine)
	o.interrupted()
}

func (o *oracle) forgetAll() {
	o.mu.Lock()
	defer o.mu.Unlock()
	clear(o.operators)
	clear(o.wipedAt)
	o.interrupted()
}

// interrupted notes that nobody knows any more how far a rebuild has come.
func (o *oracle) interrupted() {
	for key := range o.rebuilds {
		o.meddled[key] = true
	}
}

// takenOver notes that a person has confirmed that a node and what it runs are a host's.
func (o *oracle) takenOver(key types.NamespacedName, id string) {
	o.forget(o.machineOf(id))
	o.mu.Lock()
	defer o.mu.Unlock()
	o.confirmed[key] = true
	delete(o.markedAt, id)
}

func (o *oracle) marks(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.markedAt[id] = time.Now()
}

func (o *oracle) meddles(key types.NamespacedName) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.meddled[key] = true
	delete(o.leftOut, key)
}

func (o *oracle) leavesOnlineOut(key types.NamespacedName) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.leftOut[key] = true
	o.note("%s: created anew, without spec.online", key.Name)
}

// presses notes that somebody presses the button of a host's machine, which may be off by that when it is taken over.
func (o *oracle) presses(key types.NamespacedName) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.leftOut, key)
}

func (o *oracle) points(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pointedAt[id] = time.Now()
}

// restoredIronic notes that Ironic's database is replaced by a backup: the states of nodes say nothing of the machines then.
func (o *oracle) restoredIronic(keys []types.NamespacedName) {
	o.forgetAll()
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, key := range keys {
		o.meddled[key], o.confirmed[key] = true, true
		delete(o.leftOut, key)
	}
}

// restored notes that etcd is replaced by a backup: what was written to the disks since is known to no record.
func (o *oracle) restored(backup map[types.NamespacedName]*metal3.BareMetalHost) {
	o.mu.Lock()
	defer o.mu.Unlock()
	known := map[string]bool{"": true}
	for key, host := range backup {
		known[host.Status.Provisioning.Image.URL] = true
		o.meddled[key] = true // what was under way then has ended in some way
	}
	clear(o.leftOut)
	for machine := range promiseHosts + 1 {
		if address := enginetest.BMCAddress(machine); !known[o.imageOn(address)] {
			o.operators[address] = true
		}
	}
	clear(o.rebuilds)
}

// look notes what users ask for now.
func (o *oracle) look(key types.NamespacedName) {
	o.saw(key, o.w.hostOf(key))
}

func (o *oracle) saw(key types.NamespacedName, host *metal3.BareMetalHost) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked[key] = append(o.asked[key], version{time.Now(), host})
	if host == nil || host.Spec.Online || isDeletedHost(host) {
		delete(o.leftOut, key)
		delete(o.foundOn, key)
	}
}

func (o *oracle) note(format string, args ...any) {
	o.log = append(o.log, time.Now().Format("04:05.0 ")+fmt.Sprintf(format, args...))
}

func (o *oracle) notes(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.note(format, args...)
}

func (o *oracle) blame(format string, args ...any) {
	if o.harm == "" {
		o.harm = fmt.Sprintf(format, args...)
		o.note("HARM: %s", o.harm)
	}
}

// lookAge is for how long a look at host and node counts: docs/life.md, "When parts of the server fail".
const lookAge = 20 * time.Second

// askedWithin reports whether a user has asked for something at some moment of the last lookAge.
func (o *oracle) askedWithin(key types.NamespacedName, is func(h *metal3.BareMetalHost) bool) bool {
	versions := o.asked[key]
	if len(versions) == 0 {
		return true // it has only just been created
	}
	for i := len(versions) - 1; i >= 0; i-- {
		if versions[i].host != nil && is(versions[i].host) {
			return true
		}
		if time.Since(versions[i].since) > lookAge {
			return false
		}
	}
	return false
}

func isLeftAlone(h *metal3.BareMetalHost) bool { return metal3.IsPaused(h) }

func isDeletedHost(h *metal3.BareMetalHost) bool { return !h.DeletionTimestamp.IsZero() }

func isToBeDetached(h *metal3.BareMetalHost) bool {
	_, detached := h.Annotations[metal3.DetachedAnnotation]
	return detached
}

func wantsToRun(h *metal3.BareMetalHost) bool {
	return h.Spec.Image != nil && !isDeletedHost(h) && !isLeftAlone(h)
}

// isRunning reports whether a node in this state runs a deployment.
func isRunning(state string) bool {
	switch state {
	case "active", "rescue", "service failed", "service wait":
		return true
	}
	return false
}

func hasReboot(h *metal3.BareMetalHost) bool {
	for key := range h.Annotations {
		if metal3.IsRebootAnnotation(key) {
			return true
		}
	}
	return false
}

// imageOn is the image that was last written to a machine, unless it was wiped since.
func (o *oracle) imageOn(machine string) string { return o.lastWrite(machine).Image }

// lastWrite is what was last done to the disks of a machine; nothing for no machine.
func (o *oracle) lastWrite(machine string) (last ironicsim.DiskWrite) {
	if bmc := o.w.sim.Sim.BMC(machine); bmc != nil {
		for _, last = range bmc.DiskWrites() {
		}
	}
	return last
}

// imageAsked is the image that Ironic has for a node.
func (o *oracle) imageAsked(id string) (image string) {
	if fields, there := o.w.sim.Sim.Node(id); there {
		info, _ := fields["instance_info"].(map[string]any)
		image, _ = info["image_source"].(string)
	}
	return image
}

// machineOf is the machine that Ironic has for a node at this moment, or empty.
func (o *oracle) machineOf(id string) (machine string) {
	if fields, there := o.w.sim.Sim.Node(id); there {
		info, _ := fields["driver_info"].(map[string]any)
		machine, _ = info["ipmi_address"].(string)
	}
	return machine
}

func (o *oracle) hostWith(id string) (types.NamespacedName, *metal3.BareMetalHost) {
	o.w.hosts.Mu.Lock()
	defer o.w.hosts.Mu.Unlock()
	for key, host := range o.w.hosts.ByName {
		if host.Status.Provisioning.ID == id {
			return key, host.DeepCopy()
		}
	}
	return types.NamespacedName{Namespace: enginetest.Namespace, Name: "?"}, nil
}

// recorded judges what users are shown.
func (o *oracle) recorded(host *metal3.BareMetalHost) {
	key := enginetest.KeyOf(host)
	o.mu.Lock()
	defer o.mu.Unlock()
	status := &host.Status
	if state := status.Provisioning.State; state != o.state[key] {
		// What has begun goes on, though the host is to be off by then; and what was called off and begins late is shown.
		late := time.Since(o.sent[key]["active"]) < 10*time.Minute
		if state == metal3.StateProvisioning && !late && !o.rebuilds[key] && !o.operators[o.machineOf(status.Provisioning.ID)] && !o.askedWithin(key, func(h *metal3.BareMetalHost) bool { return wantsToRun(h) && h.Spec.Online }) {
			o.blame("%s: it becomes %s, and is to be off", key.Name, state)
		}
		if state == metal3.StateProvisioned && o.state[key] != metal3.StateDeprovisioning {
			o.provisioned[key] = place{o.machineOf(status.Provisioning.ID), time.Now()}
		}
		o.note("%s is %s", key.Name, state)
		o.state[key] = state
	}
	if status.Provisioning.State == metal3.StateProvisioned && o.rebuilds[key] {
		delete(o.rebuilds, key) // it is over, or was called off
	}
	if held := status.Record.Hold; held != nil && held.Reason == metal3.DeploymentGoneReason && !o.meddled[key] {
		o.blame("%s: an operator is said to have undeployed it, and none has: %s", key.Name, held.Message)
	}
	if !showsAllWell(host) {
		delete(o.wipedAt, o.machineOf(status.Provisioning.ID)) // it is noticed
		return
	}
	switch state := status.Ironic.ProvisionState; {
	case state == "active":
		delete(o.confirmed, key)
	case o.confirmed[key], isDeletedHost(host): // it is being adopted, or on its way out
	case slices.Contains([]string{"deleting", "cleaning", "clean wait", "clean failed", "available", "error", "deploy failed", "deploying", "wait call-back"}, state):
		o.blame("%s: shown as provisioned, while its node is %s", key.Name, state)
	}
}

// showsAllWell reports whether a host is shown as one that runs what its spec says.
func showsAllWell(host *metal3.BareMetalHost) bool {
	return host.Status.Provisioning.State == metal3.StateProvisioned && host.Status.OperationalStatus == metal3.OperationalStatusOK &&
		host.Status.ErrorMessage == "" && host.Status.Ironic != nil && conditionOf(host, metal3.IronicReachableCondition).Status != "False"
}

// answering notes that Ironic can be reached again: until then, what an operator has done could not be noticed.
func (o *oracle) answering() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for machine := range o.wipedAt {
		o.wipedAt[machine] = time.Now()
	}
}

// settled judges hosts that nobody has touched for a while.
func (o *oracle) settled(keys []types.NamespacedName) {
	for _, key := range keys {
		host := o.w.hostOf(key)
		if host == nil {
			continue
		}
		machine := o.machineOf(host.Status.Provisioning.ID)
		o.mu.Lock()
		erased := 0
		for _, write := range o.w.sim.Sim.DiskWrites(host.Status.Provisioning.ID) {
			if write.Step == "deploy."+eraseStep {
				erased++
			}
		}
		if erased > o.erasures[key] {
			o.blame("%s: its disks were erased %d times, and users have asked for that %d times", key.Name, erased, o.erasures[key])
		}
		if at, wiped := o.wipedAt[machine]; wiped && showsAllWell(host) && time.Since(at) > 30*time.Second && !o.operators[machine] && o.imageOn(machine) == "" {
			o.blame("%s: shown as provisioned %s after an operator has undeployed it", key.Name, time.Since(at))
		}
		o.mu.Unlock()
	}
}

func (o *oracle) story() string { return strings.Join(o.log, "\n") }
