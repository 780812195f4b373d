package lifecycle

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim/fsm"
)

// world is a host and a tiny Ironic, in which planned steps are executed.
type world struct {
	machine  fsm.Machine
	host     *metal3.BareMetalHost
	nodes    map[string]*ironic.Node
	failures int  // operations that will fail yet
	noSecret bool // the Secret is gone
	uuids    int
	released bool
	log      []string
	illegal  string // a step that Ironic would refuse for ever

	// disk is what the machine holds: what was deployed, or "foreign".
	disk string
	// mayWipe is set while somebody has allowed that to be wiped; see permit.
	mayWipe bool
	// asked is set while the spec has asked for something to be written to the
	// machine's disks, until the host has come back to available; see permit.
	asked bool
	// runs is what the host was recorded to run when it arrived in state.
	runs   workload
	state  metal3.ProvisioningState
	backup *world // of the host, not of the machine
	byHand int    // deployments past the server
	// unknown is set when there is a deployment that Ironic does not know any more.
	unknown bool
	// restored is set when the host is from a backup: what it runs is what its spec says.
	restored bool
	// instance identifies what was deployed on the machine, as Ironic was told.
	instance string
	// deploying is what is being written to it.
	deploying string
	// What is not the host's: its node is marked by the server of another cluster, is another
	// host's, or is pointed at another BMC; or another node has the BMC.
	markedByOthers, isAnothers, pointedElsewhere, bmcShared bool
	// changes counts the changes of the node's state, for the time of the last one.
	changes int
	// rebuildAsked is set from the request for a rebuild until Ironic begins it.
	rebuildAsked bool
	// rebuilding is set while the machine is written to for a rebuild. rebuildLost is set when
	// Ironic has forgotten the node meanwhile: nobody can tell what is on the disk then.
	rebuilding, rebuildLost bool
	// deployments counts how often something was written to it, and rebuilds how often that was
	// asked for with a rebuild.
	deployments, rebuilds int
	// volumes are the RAID volumes of the machine; nil if it has none, or if nobody knows them.
	volumes *metal3.RAIDConfig
	// raidCleans counts the cleans that changed them. cleansRAID is set if the last one was to.
	// raidAsked is set when a spec has asked for any.
	raidCleans            int
	cleansRAID, raidAsked bool
	// bios is the setting of the machine's BIOS, wantsBIOS what its user wants; empty is nothing.
	// biosNext is what a clean in progress sets.
	bios, wantsBIOS, biosNext string
	// biosCleans counts the cleans that changed it, and services the services, failed ones included.
	biosCleans, services int
	// cleanAsked is set from the request for a clean that erases the disks until Ironic begins it.
	// cleans counts these.
	cleanAsked bool
	cleans     int
	// mayService is set while the host's policy permits that.
	mayService bool
	// harm is what must never be done and was.
	harm string
}

func (w *world) clone() *world {
	c := *w
	c.host = w.host.DeepCopy()
	c.nodes = map[string]*ironic.Node{}
	for id, n := range w.nodes {
		node := *n
		c.nodes[id] = &node
	}
	c.log = append([]string(nil), w.log...)
	return &c
}

// workload is what a spec wants run, and what a status says is: the URL of an image
// and the method of a custom deployment.
type workload struct{ url, method string }

func workloadOf(image *metal3.Image, custom *metal3.CustomDeploy) (w workload) {
	if image != nil {
		w.url = image.URL
	}
	if custom != nil {
		w.method = custom.Method
	}
	return w
}

func (w workload) String() string { return w.url + " " + w.method }

func (w *world) wants() workload { return workloadOf(w.host.Spec.Image, w.host.Spec.CustomDeploy) }

// permit follows who may have the machine wiped, by rules of its own: from the arrival
// at provisioned or externally provisioned on nobody may, until the user wants
// something else, as docs/life.md has it, or deletes the host. Once the host has
// left that state, the way to the next arrival is free, failures included.
//
// It also follows whether anything has asked for a write to the disks at all: an image
// or a custom deployment in the spec, now or since the host was last at rest without.
func (w *world) permit() {
	host := w.host
	state := host.Status.Provisioning.State
	switch {
	case w.wants() != workload{}:
		w.asked = true
	case state == metal3.StateAvailable && !w.isInTransit():
		w.asked = false
	}
	switch want := w.wants(); {
	case !host.DeletionTimestamp.IsZero():
		// Nothing of an externally provisioned host is ours to clean.
		w.mayWipe = w.mayWipe || w.state == metal3.StateProvisioned && w.runs != workload{}
	case state == metal3.StateProvisioned:
		if w.state != state {
			w.runs = workloadOf(&host.Status.Provisioning.Image, host.Status.Provisioning.CustomDeploy)
		}
		removed := want == workload{}
		changed := w.runs.url != "" && w.runs.url != want.url || w.runs.method != "" && w.runs.method != want.method
		w.mayWipe = w.runs != workload{} && (removed || changed)
	case state == metal3.StateExternallyProvisioned:
		w.mayWipe = false
	}
	w.state = state
}

// isInTransit reports whether Ironic is at work on the host's node.
func (w *world) isInTransit() bool {
	node := w.nodes[w.host.Status.Provisioning.ID]
	return node != nil && node.ProvisionState.IsInTransit()
}

// plan observes, as the controller does before each step, and asks what to do.
func (w *world) plan() Step {
	if w.host.Status.Provisioning.ID != "" {
		if node := w.nodes[w.host.Status.Provisioning.ID]; node != nil {
			node.Marks.Cluster = map[bool]ironic.Text{false: "this", true: "another"}[w.markedByOthers]
			node.Address = ironic.Address{IPMIAddress: "192.0.2.1"}
			if strings.HasPrefix(w.host.Spec.BMC.Address, "redfish") {
				onRedfish(node)
			}
			if w.pointedElsewhere {
				node.Address = ironic.Address{IPMIAddress: "192.0.2.2"}
			}
		}
		seen := Observation{Node: w.nodes[w.host.Status.Provisioning.ID], Cluster: "this"}
		if seen.NeedsInventory(w.host) {
			seen.Inspected = &Inspected{Hardware: &metal3.HardwareDetails{Hostname: "host-0"}}
		}
		h := w.host.DeepCopy()
		h.Status, _ = Observe(w.host, seen, now)
		w.host = h
	}
	s := planned(w.host, nil)
	s.Node = w.nodes[w.host.Status.Provisioning.ID]
	s.Firmware, s.Schema = w.firmware()
	if w.mayService {
		s.Policy = onReboot
	}
	s.CanService = w.machine.Allows(fsm.Active, string(ironic.TargetService))
	s.CanAbortService = w.machine.AbortsService()
	s.Cluster, s.OtherNodes.Exist, s.NodeOfAnother = "this", w.bmcShared && s.Node != nil, w.isAnothers && s.Node != nil
	if w.noSecret {
		s.SecretVersion = ""
	}
	return nextOf(s)
}

// inIronic lets something happen to a node in Ironic's state machine. What that refuses changes
// nothing.
func (w *world) inIronic(node *ironic.Node, happen func(n *fsm.Node) error) error {
	n := fsm.Node{
		UUID: node.UUID, ProvisionState: string(node.ProvisionState), TargetProvisionState: node.TargetProvisionState,
		PowerState: string(node.PowerState), TargetPowerState: string(node.TargetPowerState), LastError: node.LastError,
		Reservation: node.Reservation, Fault: node.Fault, Maintenance: node.Maintenance, MaintenanceReason: node.MaintenanceReason,
		InstanceUUID: node.InstanceUUID,
	}
	if err := happen(&n); err != nil {
		return err
	}
	if before := node.ProvisionState; n.ProvisionState != string(before) {
		w.changes++
		changed := now.Add(time.Duration(w.changes) * time.Second)
		node.ProvisionUpdatedAt = &changed
	}
	node.ProvisionState, node.TargetProvisionState = ironic.ProvisionState(n.ProvisionState), n.TargetProvisionState
	node.PowerState, node.TargetPowerState, node.LastError = ironic.PowerState(n.PowerState), ironic.PowerTarget(n.TargetPowerState), n.LastError
	node.Reservation, node.Fault, node.Maintenance, node.MaintenanceReason = n.Reservation, n.Fault, n.Maintenance, n.MaintenanceReason
	node.InstanceUUID = n.InstanceUUID
	return nil
}

// event asks Ironic for a verb, which locks the node while there is work to do.
func (w *world) event(node *ironic.Node, verb string) {
	before := node.ProvisionState
	err := w.inIronic(node, func(n *fsm.Node) error {
		if err := cmp.Or(w.machine.Check(n, verb), n.Lock("conductor-0")); err != nil {
			return err
		}
		if err := w.machine.Admit(n, verb); err != nil {
			return err
		}
		if !w.machine.Start(n, verb) {
			n.Unlock()
		}
		return nil
	})
	if err != nil {
		w.illegal = fmt.Sprintf("%s in %s: %v", verb, before, err)
		return
	}
	w.begun(node, before)
}

// begun is called when a node has come from one state to another.
func (w *world) begun(node *ironic.Node, before ironic.ProvisionState) {
	switch {
	case node.ProvisionState == ironic.Cleaning && before != ironic.CleanWait && node.TargetProvisionState != string(ironic.Manageable),
		node.ProvisionState == ironic.Deploying && before != ironic.DeployWait:
		w.wiped()
	}
}

// wiped is called when Ironic begins to clean the machine or to write to it.
func (w *world) wiped() {
	if !w.asked {
		w.harm = "the disks are written to, and no spec has asked for that"
	}
	if w.disk != "" && !w.mayWipe {
		w.harm = fmt.Sprintf("%q is wiped, and nobody has allowed that", w.disk)
	}
	if w.disk != "" && w.instance != "" && w.instance != recordedInstance(w.host) {
		w.harm = fmt.Sprintf("%q is wiped, deployed as %s, and the host's status is about %s", w.disk, w.instance, recordedInstance(w.host))
	}
	w.disk, w.instance = "", ""
}

// firmware are the settings of the machine's BIOS, of which there is one, as the server has them
// while the host runs nothing.
func (w *world) firmware() (*metal3.HostFirmwareSettings, *metal3.FirmwareSchema) {
	if w.wantsBIOS == "" {
		return nil, nil
	}
	firmware := &metal3.HostFirmwareSettings{}
	firmware.Spec.Settings = metal3.DesiredSettingsMap{"Turbo": intstr.FromString(w.wantsBIOS)}
	firmware.Status.Settings = metal3.SettingsMap{"Turbo": w.bios}
	schema := &metal3.FirmwareSchema{}
	schema.Spec.Schema = map[string]metal3.SettingSchema{"Turbo": {AttributeType: metal3.SettingString}}
	return firmware, schema
}

// raidChanged is called when Ironic begins to change the RAID volumes of the machine.
func (w *world) raidChanged(after *metal3.RAIDConfig) {
	w.raidAsked = w.raidAsked || w.host.Spec.RAID != nil // what a clean that has failed has left is removed
	if !w.raidAsked && w.volumes == nil {
		w.harm = "the RAID volumes are changed, and no spec has asked for that"
	}
	asked := w.asked
	w.asked = true
	w.wiped()
	w.asked = asked
	w.volumes, w.raidCleans = after, w.raidCleans+1
}

// forgetInstance is for when Ironic has forgotten what was deployed past the server, so that
// nobody can tell that it is there.
func (w *world) forgetInstance() {
	if strings.HasPrefix(w.instance, "by-hand") {
		w.mayWipe, w.unknown = true, true
	}
	w.instance = ""
	w.rebuildLost = w.rebuildLost || w.rebuilding
}

// tick lets Ironic finish what it is doing; false: it does nothing.
func (w *world) tick() bool {
	for _, node := range w.nodes {
		switch before := node.ProvisionState; {
		case node.TargetPowerState != "":
			w.mustHappen(node, func(n *fsm.Node) bool { n.PowerChanged(n.TargetPowerState); n.Unlock(); return true })
		case fsm.IsWaiting(string(before)): // its ramdisk calls
			w.mustHappen(node, func(n *fsm.Node) bool {
				return n.Lock("conductor-0") == nil && w.machine.Move(n, w.goesOn(before))
			})
			w.begun(node, before)
			w.unlockIdle(node)
		case before == ironic.ServiceFail && node.Reservation != "": // it is aborted
			w.mustHappen(node, func(n *fsm.Node) bool {
				n.PowerState = fsm.PowerOn
				n.Unlock()
				return w.machine.ServiceAborted(n, "By request, the service operation was aborted")
			})
		case before == ironic.CleanFail && node.Reservation != "": // the machine leaves the ramdisk
			w.mustHappen(node, func(n *fsm.Node) bool { n.PowerState = fsm.PowerOff; n.Unlock(); return true })
		case !fsm.IsWorked(string(before)):
			if !w.syncPower(node) {
				continue
			}
		case w.failures > 0 && before != ironic.Deleting:
			w.failures--
			w.fail(node)
		default:
			w.finish(node)
		}
		return true
	}
	return false
}

// syncPower lets Ironic ask the BMC of a node of which it does not know the power state, after an
// adoption that has failed; false: it does not ask.
func (w *world) syncPower(node *ironic.Node) (asked bool) {
	w.mustHappen(node, func(n *fsm.Node) bool {
		if asked = n.PowerState == "" && n.IsPowerSynced(); asked {
			n.PowerState = w.power()
		}
		return true
	})
	return asked
}

// power is what the BMC of the machine says that somebody has switched on who has deployed it.
func (w *world) power() string {
	if w.disk != "" {
		return fsm.PowerOn
	}
	return fsm.PowerOff
}

// goesOn is the event with which a ramdisk ends a state. In Ironic 21.4 that of an inspection ends it.
func (w *world) goesOn(state ironic.ProvisionState) string {
	if _, ok := w.machine.Next(string(state), "resume"); ok {
		return "resume"
	}
	return "done"
}

// mustHappen is for what Ironic does by itself.
func (w *world) mustHappen(node *ironic.Node, happen func(n *fsm.Node) bool) {
	_ = w.inIronic(node, func(n *fsm.Node) error {
		if !happen(n) {
			panic(fmt.Sprintf("Ironic's own work is not possible on %+v", n))
		}
		return nil
	})
}

// unlockIdle gives back the lock of a node that nothing works on.
func (w *world) unlockIdle(node *ironic.Node) {
	if !fsm.IsWorked(string(node.ProvisionState)) {
		node.Reservation = ""
	}
}

// fail is when what Ironic works on fails.
func (w *world) fail(node *ironic.Node) {
	isManual := node.TargetProvisionState == string(ironic.Manageable)
	w.mustHappen(node, func(n *fsm.Node) bool {
		defer n.Unlock()
		if !w.machine.Fail(n) {
			return false
		}
		n.LastError = "IPMI call failed: power status."
		switch n.ProvisionState {
		case fsm.CleanFail:
			n.BreakDown()
			n.PowerState = fsm.PowerOff
		case fsm.ServiceFail:
			n.BreakDown()
			n.PowerState = fsm.PowerOn // in the ramdisk
		}
		return true
	})
	if node.ProvisionState == ironic.CleanFail && (!isManual || w.cleansRAID) {
		w.volumes = nil
	}
}

// finish is when it succeeds.
func (w *world) finish(node *ironic.Node) {
	before, isManual := node.ProvisionState, node.TargetProvisionState == string(ironic.Manageable)
	w.mustHappen(node, func(n *fsm.Node) bool {
		power := fsm.PowerGoal(fsm.PowerAfter(n.ProvisionState))
		switch before {
		case ironic.Verifying:
			defer n.Unlock()
			return w.machine.Verified(n, w.power())
		case ironic.Deploying, ironic.Cleaning, ironic.Servicing, ironic.Inspecting, ironic.Deleting:
			n.PowerState = power
		}
		return w.machine.Done(n)
	})
	w.unlockIdle(node)
	switch before {
	case ironic.Deleting:
		w.begun(node, before)
	case ironic.Inspecting:
		finished := now.Add(time.Duration(len(w.log)) * time.Second)
		node.InspectionFinishedAt = &finished
	case ironic.Deploying:
		w.deployments++
		w.disk, w.instance = w.deploying, node.InstanceUUID
		w.rebuilding, w.rebuildLost = false, false
	case ironic.Cleaning:
		if !isManual {
			break
		}
		w.bios = firstOf(w.biosNext, w.bios)
		node.RAIDVolumes = 0
		if w.volumes != nil {
			node.RAIDVolumes = ironic.VolumeCount(len(w.volumes.HardwareRAIDVolumes) + len(w.volumes.SoftwareRAIDVolumes))
		}
	case ironic.Servicing:
		w.bios, w.biosNext = firstOf(w.biosNext, w.bios), ""
	}
}

// beginService is called when Ironic is asked for a service that changes the BIOS of the machine.
func (w *world) beginService(node *ironic.Node, value string) {
	switch {
	case !w.mayService || value == "" || value != w.wantsBIOS:
		w.harm = "the machine is serviced, and nobody has asked for that"
	case node.PowerState == ironic.PowerOn:
		w.harm = fmt.Sprintf("%q is serviced while it runs", w.disk)
	}
	w.services++
	w.biosNext = value
	w.event(node, string(ironic.TargetService))
}

// leaveService is called when Ironic is asked to lead the machine out of a service.
func (w *world) leaveService(node *ironic.Node, target ironic.ProvisionTarget) {
	if !isWantedOn(w.host) {
		w.harm = fmt.Sprintf("%q is started, and the host is to be off", w.disk)
	}
	w.biosNext = ""
	w.clearMaintenance(node)
	w.event(node, string(target))
}

// do executes a step as Controller.do does. Without recorded, the process ends
// after it has spoken to Ironic and before it has written anything to etcd.
func (w *world) do(step Step, recorded bool) {
	host := w.host
	record := func(change func(*metal3.BareMetalHost)) {
		if recorded {
			h := host.DeepCopy()
			change(h)
			Render(h, now)
			w.host = h
		}
	}
	id := host.Status.Provisioning.ID
	node := w.nodes[id]
	if wrong := w.foreign(); wrong != "" && node != nil && needsProof(step) {
		w.harm = fmt.Sprintf("%s, and %s", step, wrong)
	}
	switch step.Do {
	case Begin:
		record(func(h *metal3.BareMetalHost) { _ = StartManaging(h, step.State) })
	case SetState:
		record(func(h *metal3.BareMetalHost) { enter(h, node, step, now) })
	case Report:
		record(func(h *metal3.BareMetalHost) { withRegistration(step.Reason, step.Message)(h) })
	case ClearRebootRequest:
		record(RemoveRebootAnnotation)
	case ForgetFailures:
		record(func(h *metal3.BareMetalHost) { ClearFailures(h, now) })
	case ForgetRequest:
		record(ClearFailure)
	case Detach:
		record(func(h *metal3.BareMetalHost) { MarkDetached(h, now) })
	case Attach:
		record(func(h *metal3.BareMetalHost) { h.Status.OperationalStatus = metal3.OperationalStatusOK })
	case ClearMaintenance:
		w.clearMaintenance(node)
	case SwitchPower:
		w.refusable("power", w.inIronic(node, func(n *fsm.Node) error {
			if err := cmp.Or(n.CheckPower(string(step.Power), n.UUID), n.Lock("conductor-0")); err != nil {
				return err
			}
			n.AskPower(string(step.Power))
			return nil
		}))
	case Prepare:
		if step.Clean == nil {
			record(func(h *metal3.BareMetalHost) { SetFailure(h, step.Error, step.Message) })
			break
		}
		// It is requested before Ironic is asked, also by a process that ends then.
		h := host.DeepCopy()
		RequestPreparation(h, step.Clean, now)
		w.host, host = h, h
		if step.Clean.IsRequested {
			switch {
			case !w.cleanAsked:
				w.harm = "the disks are erased, and nobody has asked for that, or it was done already"
			case w.disk != "" && !w.mayWipe:
				w.harm = fmt.Sprintf("%q is erased", w.disk)
			}
			w.cleanAsked = false
			w.cleans++
		}
		if w.cleansRAID = step.Clean.RAID != nil; w.cleansRAID {
			w.raidChanged(step.Clean.RAID)
		}
		if w.biosNext = step.Clean.FirmwareSettings["Turbo"]; w.biosNext != "" {
			w.biosCleans++
			if w.disk != "" && !w.mayWipe {
				w.harm = fmt.Sprintf("%q is rebooted for a BIOS setting", w.disk)
			}
		}
		w.event(node, string(ironic.TargetClean))
		record(func(h *metal3.BareMetalHost) { AcceptPreparation(h, now) })
	case Service:
		if step.Clean == nil {
			record(func(h *metal3.BareMetalHost) { SetFailure(h, step.Error, step.Message) })
			break
		}
		h := host.DeepCopy() // it is requested before Ironic is asked, too
		RequestService(h, step.Clean, now)
		w.host, host = h, h
		w.beginService(node, step.Clean.FirmwareSettings["Turbo"])
		record(func(h *metal3.BareMetalHost) {
			AcceptService(h)
			ClearFailure(h)
		})
	case LeaveService:
		w.leaveService(node, step.Target)
		record(func(h *metal3.BareMetalHost) {
			if IsSameService(h, host.Status.Record.Servicing) {
				LeaveServiceBegun(h)
			}
		})
	case EndServicing:
		policy := map[bool]*metal3.HostUpdatePolicySpec{true: onReboot}[w.mayService]
		record(func(h *metal3.BareMetalHost) { ConcludeService(h, policy) })
	case Deploy:
		w.deploying = w.wants().String()
		node.InstanceUUID = recordedInstance(host)
		w.event(node, string(ironic.TargetActive))
	case Rebuild:
		if node.ProvisionState == ironic.Active && !w.rebuildAsked {
			w.harm = fmt.Sprintf("%q is written again, and nobody has asked for that, or it was done already", w.disk)
		}
		w.rebuildAsked, w.rebuilding = false, true
		w.rebuilds++
		w.event(node, string(ironic.TargetRebuild))
		w.deploying = w.wants().String()
	case FindNode:
		found := ""
		for _, n := range w.nodes {
			if n.Name == NodeName(host) {
				found = n.UUID
			}
		}
		if found == "" {
			w.uuids++
			found = fmt.Sprintf("00000000-0000-4000-8000-%012d", w.uuids)
		}
		record(func(h *metal3.BareMetalHost) { h.Status.Provisioning.ID = found })
	case CreateNode:
		if node == nil {
			w.nodes[id] = &ironic.Node{Address: ownBMC, UUID: id, Name: NodeName(host), ProvisionState: ironic.Enroll}
		}
		record(func(h *metal3.BareMetalHost) { SetTriedCredentials(h, "7") })
	case Register:
		if node != nil && node.ProvisionState == ironic.Enroll {
			w.event(node, string(ironic.TargetManage))
		}
		record(func(h *metal3.BareMetalHost) {
			SetTriedCredentials(h, "7")
			registeredAs()(h)
		})
	case Provision:
		w.event(node, string(step.Target))
		if step.Target == ironic.TargetAdopt && node.InstanceUUID == "" && host.Status.Record.Deployment != nil {
			node.InstanceUUID = host.Status.Record.Deployment.InstanceUUID // as prepareInstance does
		}
	case Hold:
		record(func(h *metal3.BareMetalHost) { SetHold(h, step) })
	case SetCleaning:
		node.AutomatedClean = "false"
	case ChangeIronic:
		record(func(h *metal3.BareMetalHost) { MarkTransferred(h, now) })
	case DeleteNode, LeaveIronic:
		if node != nil && w.refusable("delete", w.inIronic(node, func(n *fsm.Node) error {
			if n.CheckDelete() != nil {
				n.SetMaintenance(true, LeavingReason(host))
			}
			return cmp.Or(n.Lock("conductor-0"), n.CheckDelete())
		})) {
			break
		}
		delete(w.nodes, id)
		w.forgetInstance() // whoever has the machine attached again says that it is the host's
	case Release:
		w.released = w.released || recorded
	}
}

// refusable notes what Ironic has refused, and reports whether it has.
func (w *world) refusable(request string, err error) bool {
	if err != nil {
		w.illegal = fmt.Sprintf("%s: %v", request, err)
	}
	return err != nil
}

func (w *world) clearMaintenance(node *ironic.Node) {
	w.refusable("maintenance", w.inIronic(node, func(n *fsm.Node) error {
		if err := n.Lock("conductor-0"); err != nil {
			return err
		}
		n.SetMaintenance(false, "")
		n.Unlock()
		return nil
	}))
}

// foreign says what keeps the host from having its machine destroyed or interrupted.
func (w *world) foreign() string {
	switch {
	case w.markedByOthers:
		return "the node is that of another cluster"
	case w.isAnothers:
		return "the node is that of another host"
	case w.pointedElsewhere:
		return "the node has another BMC"
	case w.bmcShared:
		return "another node has the BMC"
	}
	return ""
}

// needsProof reports whether a step ends what a machine runs, or writes to its disks. Unlike
// Step.Interrupts it counts the requests to Ironic, and not what is recorded before.
func needsProof(step Step) bool {
	switch step.Do {
	case Deploy, Rebuild, Prepare, Service, LeaveService:
		return true
	case SwitchPower:
		return step.Power != ironic.TargetPowerOn
	case Provision:
		return step.Target != ironic.TargetManage && step.Target != ironic.TargetAdopt
	}
	return false
}
