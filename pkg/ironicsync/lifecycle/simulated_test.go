package lifecycle

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// world is a host and a tiny Ironic, in which planned steps are executed.
type world struct {
	machine  map[string]map[string]string
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
// or a custom deployment in the spec, now or since the host was last at rest without,
// or the end of externallyProvisioned, which has the host deprovisioned.
func (w *world) permit() {
	host := w.host
	state := host.Status.Provisioning.State
	switch {
	case w.wants() != workload{}:
		w.asked = true
	case state == metal3.StateAvailable && !w.isInTransit():
		w.asked = false
	case state == metal3.StateExternallyProvisioned && !host.Spec.ExternallyProvisioned:
		w.asked = true
	}
	switch want := w.wants(); {
	case !host.DeletionTimestamp.IsZero():
		// Nothing of an externally provisioned host is ours to clean.
		w.mayWipe = w.mayWipe || w.state == metal3.StateProvisioned
	case state == metal3.StateProvisioned:
		if w.state != state {
			w.runs = workloadOf(&host.Status.Provisioning.Image, host.Status.Provisioning.CustomDeploy)
		}
		removed := want == workload{}
		changed := w.runs.url != "" && w.runs.url != want.url || w.runs.method != "" && w.runs.method != want.method
		w.mayWipe = w.runs != workload{} && (removed || changed)
	case state == metal3.StateExternallyProvisioned:
		w.mayWipe = !host.Spec.ExternallyProvisioned && want == workload{}
	}
	w.state = state
}

// isInTransit tells whether Ironic is at work on the host's node.
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
		seen := Observation{Node: w.nodes[w.host.Status.Provisioning.ID]}
		if seen.Node != nil && NeedsInventory(w.host, seen.Node) {
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
	_, s.CanService = w.machine[string(ironic.Active)][string(ironic.TargetService)]
	_, s.CanAbortService = w.machine[string(ironic.ServiceFail)][string(ironic.TargetAbort)]
	s.Cluster, s.NodesWithSameBMC, s.NodeOfAnother = "this", w.bmcShared && s.Node != nil, w.isAnothers && s.Node != nil
	if w.noSecret {
		s.SecretVersion = ""
	}
	return Next(s)
}

// event moves a node on; Ironic locks it while it works.
func (w *world) event(node *ironic.Node, event string) {
	next, ok := w.machine[string(node.ProvisionState)][event]
	if !ok {
		w.illegal = fmt.Sprintf("%s in %s", event, node.ProvisionState)
		return
	}
	if next := ironic.ProvisionState(next); (next == ironic.Cleaning || next == ironic.Deploying) && node.TargetProvisionState == "" {
		w.wiped()
	} else if next != ironic.Cleaning && next != ironic.CleanWait {
		node.TargetProvisionState = "" // that of a manual clean
	}
	w.changes++
	changed := now.Add(time.Duration(w.changes) * time.Second)
	node.ProvisionState, node.ProvisionUpdatedAt, node.LastError, node.Reservation = ironic.ProvisionState(next), &changed, "", ""
	if w.working(node) {
		node.Reservation = "conductor-0"
	}
}

// working tells whether a conductor has the node locked and moves it on.
func (w *world) working(node *ironic.Node) bool {
	events := w.machine[string(node.ProvisionState)]
	_, done := events["done"]
	_, resumes := events["resume"]
	return done && !resumes || node.ProvisionState == ironic.Deleting
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
		if node.TargetPowerState != "" {
			switch node.TargetPowerState {
			case ironic.TargetPowerOn:
				node.PowerState = ironic.PowerOn
			case ironic.TargetPowerOff, ironic.TargetSoftPowerOff:
				node.PowerState = ironic.PowerOff
			}
			node.TargetPowerState, node.Reservation = "", ""
			return true
		}
		before := node.ProvisionState
		if _, waits := w.machine[string(before)]["resume"]; waits { // its ramdisk calls
			w.event(node, "resume")
			return true
		}
		if !w.working(node) {
			continue
		}
		switch {
		case w.failures > 0 && before != ironic.Deleting:
			w.failures--
			isManual := node.TargetProvisionState == string(ironic.Manageable)
			w.event(node, "fail")
			node.LastError = "IPMI call failed: power status."
			if node.ProvisionState == ironic.CleanFail {
				if !isManual || w.cleansRAID {
					w.volumes = nil
				}
				node.Maintenance, node.Fault = true, ironic.FaultCleanFailure
			}
			if node.ProvisionState == ironic.ServiceFail {
				node.Maintenance, node.Fault, node.PowerState = true, ironic.FaultServiceFailure, ironic.PowerOn // in the ramdisk
			}
			return true
		case before == ironic.Deleting:
			node.InstanceUUID = ""
			w.event(node, "clean")
			return true
		}
		if before == ironic.Cleaning && node.TargetProvisionState == string(ironic.Manageable) {
			w.event(node, "manage")
			w.bios = firstOf(w.biosNext, w.bios)
			node.RAIDVolumes = 0
			if w.volumes != nil {
				node.RAIDVolumes = ironic.VolumeCount(len(w.volumes.HardwareRAIDVolumes) + len(w.volumes.SoftwareRAIDVolumes))
			}
			return true
		}
		w.event(node, "done")
		switch before {
		case ironic.Verifying:
			node.PowerState = ironic.PowerOff
			if w.disk != "" {
				node.PowerState = ironic.PowerOn
			}
		case ironic.Inspecting:
			finished := now.Add(time.Duration(len(w.log)) * time.Second)
			node.InspectionFinishedAt = &finished
		case ironic.Deploying:
			node.PowerState = ironic.PowerOn
			w.deployments++
			w.disk, w.instance = w.deploying, node.InstanceUUID
			w.rebuilding, w.rebuildLost = false, false
		case ironic.Cleaning:
			node.PowerState = ironic.PowerOff
		case ironic.Servicing:
			node.PowerState, w.bios, w.biosNext = ironic.PowerOn, firstOf(w.biosNext, w.bios), ""
		}
		return true
	}
	return false
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
	node.Maintenance, node.Fault, w.biosNext = false, "", ""
	if w.event(node, string(target)); target == ironic.TargetAbort {
		node.PowerState = ironic.PowerOn
	}
}

// do executes a step as Controller.do does. Without recorded, the process ends
// after it has spoken to Ironic and before it has written anything to etcd.
func (w *world) do(step Step, recorded bool) {
	host := w.host
	record := func(change func(*metal3.BareMetalHost)) {
		if recorded {
			h := host.DeepCopy()
			change(h)
			SetError(&h.Status, firstError(registrationError(&h.Status), StepError(&h.Status)), false)
			SetConditions(&h.Status, h, nil, now)
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
		record(func(h *metal3.BareMetalHost) { Enter(h, node, step, now) })
	case Report:
		record(func(h *metal3.BareMetalHost) { withRegistered(metav1.ConditionFalse, step.Reason, step.Message)(h) })
	case ClearRebootRequest:
		record(RemoveRebootAnnotation)
	case ForgetFailures:
		record(func(h *metal3.BareMetalHost) { ClearFailures(h, now) })
	case Detach:
		record(func(h *metal3.BareMetalHost) { MarkDetached(h, now) })
	case Attach:
		record(func(h *metal3.BareMetalHost) { h.Status.OperationalStatus = metal3.OperationalStatusOK })
	case ClearMaintenance:
		node.Maintenance, node.Fault = false, ""
	case SwitchPower:
		node.TargetPowerState, node.Reservation = step.Power, "conductor-0"
	case Prepare:
		if step.Clean == nil {
			record(func(h *metal3.BareMetalHost) { SetStepError(h, step.Error, step.Message, now) })
			break
		}
		// It is requested before Ironic is asked, also by a process that ends then.
		h := host.DeepCopy()
		RequestPreparation(h, node, step.Clean, now)
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
		node.TargetProvisionState = string(ironic.Manageable)
		w.event(node, string(ironic.TargetClean))
		record(func(h *metal3.BareMetalHost) { AcceptPreparation(h, now) })
	case Service:
		if step.Clean == nil {
			record(func(h *metal3.BareMetalHost) { SetStepError(h, step.Error, step.Message, now) })
			break
		}
		h := host.DeepCopy() // it is requested before Ironic is asked, too
		RequestService(h, node, step.Clean, now)
		w.host, host = h, h
		w.beginService(node, step.Clean.FirmwareSettings["Turbo"])
		record(func(h *metal3.BareMetalHost) {
			AcceptService(h)
			SetStepError(h, "", "", now)
		})
	case LeaveService:
		w.leaveService(node, step.Target)
		record(func(h *metal3.BareMetalHost) {
			if IsSameService(h, host.Status.Servicing) {
				LeaveServiceBegun(h)
			}
		})
	case EndServicing:
		policy := map[bool]*metal3.HostUpdatePolicySpec{true: onReboot}[w.mayService]
		record(func(h *metal3.BareMetalHost) { ConcludeService(h, policy, now) })
	case Deploy:
		w.event(node, "deploy")
		w.deploying = w.wants().String()
		node.InstanceUUID = recordedInstance(host)
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
			w.nodes[id] = &ironic.Node{UUID: id, Name: NodeName(host), ProvisionState: ironic.Enroll}
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
		w.event(node, eventOf(step.Target))
		if step.Target == ironic.TargetAdopt && node.InstanceUUID == "" && host.Status.Deployment != nil {
			node.InstanceUUID = host.Status.Deployment.InstanceUUID // as prepareInstance does
		}
	case Hold:
		record(func(h *metal3.BareMetalHost) { SetHeld(h, step.Reason, step.Message, now) })
	case SetCleaning:
		node.AutomatedClean = "false"
	case DeleteNode:
		delete(w.nodes, id)
		w.forgetInstance() // whoever has the machine attached again says that it is the host's
	case Release:
		w.released = w.released || recorded
	}
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

// needsProof tells whether a step ends what a machine runs, or writes to its disks. Unlike
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
