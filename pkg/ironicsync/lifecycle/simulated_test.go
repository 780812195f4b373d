package lifecycle

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/deploy"
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
	// raidCleans counts the cleans that changed them.
	raidCleans int
	// bios is the setting of the machine's BIOS, wantsBIOS what its user wants; empty is nothing.
	// biosNext is what a clean in progress sets.
	bios, wantsBIOS, biosNext string
	// biosCleans counts the cleans that changed it.
	biosCleans int
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
	if w.host.Spec.RAID == nil && w.volumes == nil {
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
			w.event(node, "fail")
			node.LastError = "IPMI call failed: power status."
			if node.ProvisionState == ironic.CleanFail {
				w.volumes = nil
				node.Maintenance, node.Fault = true, ironic.FaultCleanFailure
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
		}
		return true
	}
	return false
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
		if step.Clean.RAID != nil {
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
	case Deploy, Rebuild, Prepare:
		return true
	case SwitchPower:
		return step.Power != ironic.TargetPowerOn
	case Provision:
		return step.Target != ironic.TargetManage && step.Target != ironic.TargetAdopt
	}
	return false
}

// explore executes steps until there is nothing more to do, with each of the
// first `crashes` steps three times over: as it should be, with the process
// killed before it recorded anything, and executed twice. end is called at each
// end. It returns how many ends there were.
func explore(t *testing.T, w *world, crashes, bound int, end func(*world)) int {
	t.Helper()
	for ; bound > 0; bound-- {
		w.permit()
		step := w.plan()
		w.permit()
		w.log = append(w.log, step.String())
		if w.released {
			end(w)
			return 1
		}
		if step.Do == Wait {
			if !w.tick() {
				end(w)
				return 1
			}
			continue
		}
		if crashes == 0 {
			w.do(step, true)
			if w.illegal != "" || w.harm != "" {
				t.Fatalf("Ironic refuses %s; harm: %s; steps: %v", w.illegal, w.harm, w.log)
			}
			continue
		}
		lost, twice := w.clone(), w.clone()
		w.do(step, true)
		lost.log = append(lost.log, "(killed)")
		lost.do(step, false)
		twice.log = append(twice.log, "(twice)")
		twice.do(step, false)
		twice.do(step, true)
		if w.illegal != "" || lost.illegal != "" {
			t.Fatalf("Ironic refuses %s; steps: %v", w.illegal+lost.illegal, w.log)
		}
		twice.illegal = "" // the second request came too late, which is no harm
		ends := explore(t, lost, crashes-1, bound-1, end) + explore(t, twice, crashes-1, bound-1, end)
		return ends + explore(t, w, crashes-1, bound-1, end)
	}
	t.Fatalf("no end after the steps %v", w.log)
	return 0
}

// wanted is what a host that nothing keeps back comes to.
func (w *world) wanted() string {
	host := w.host
	node := w.nodes[host.Status.Provisioning.ID]
	want := metal3.StateAvailable
	power := ironic.PowerOff
	if host.Spec.Online {
		power = ironic.PowerOn
	}
	switch {
	case host.Spec.ExternallyProvisioned:
		want = metal3.StateExternallyProvisioned
	case w.wants() != workload{} && host.Spec.Online:
		want = metal3.StateProvisioned
	case w.wants() != workload{}:
		// What runs it goes on running it, switched off; what does not begins when it
		// is online.
		if host.Status.Provisioning.State == metal3.StateProvisioned {
			want = metal3.StateProvisioned
		}
	case node != nil && node.ProvisionState == ironic.Active && (w.restored || strings.HasPrefix(node.InstanceUUID, "by-hand")) && !deploy.Deployed(host):
		want = metal3.StateProvisioned // nobody has asked for its end
	}
	s := &host.Status
	switch {
	case w.restored && node != nil && (node.ProvisionState == ironic.DeployFail || node.ProvisionState == ironic.Error) && !isUnderWay(s.OperationHistory.Provision) && s.ErrorType != "":
		// What the host's record knows nothing of has failed, and is shown until somebody decides.
	case len(w.nodes) != 1 || node == nil:
		return fmt.Sprintf("%d nodes", len(w.nodes))
	case s.Provisioning.State != want:
		return fmt.Sprintf("state %q, not %q", s.Provisioning.State, want)
	case want == metal3.StateAvailable && node.ProvisionState != ironic.Available && node.ProvisionState != ironic.Manageable, want != metal3.StateAvailable && node.ProvisionState != ironic.Active:
		return fmt.Sprintf("the node is %s while the host is %s", node.ProvisionState, want)
	case node.PowerState != power && !isPowerKept(host):
		return fmt.Sprintf("the node is %s", node.PowerState)
	case want == metal3.StateAvailable && w.wants() != workload{} && (s.ProvisioningFailCount > 0 || s.ErrorType == metal3.ProvisioningError):
		// It has failed, and is not tried again while the host is not to be online.
	case s.OperationalStatus != metal3.OperationalStatusOK || s.ErrorMessage != "" || s.ErrorCount != 0 || s.ProvisioningFailCount != 0:
		return fmt.Sprintf("the host shows %s %q, %d errors, %d failures", s.OperationalStatus, s.ErrorMessage, s.ErrorCount, s.ProvisioningFailCount)
	case want == metal3.StateProvisioned && w.mayWipe:
		return fmt.Sprintf("it runs %q, which is not wanted", w.runs)
	case want == metal3.StateProvisioned && w.disk != "foreign" && !w.restored && !w.rebuildLost && w.disk != w.runs.String():
		return fmt.Sprintf("it runs %q, on the disk is %q", w.runs, w.disk)
	case want == metal3.StateAvailable && s.Provisioning.Image.URL != "":
		return fmt.Sprintf("image is %q", s.Provisioning.Image.URL)
	case verdictsOf(host, metal3.RegisteredCondition) != "T/Registered":
		return "Registered is " + verdictsOf(host, metal3.RegisteredCondition)
	case findCondition(s, metal3.StepFailedCondition) != nil:
		return "a failed step is still shown"
	case want == metal3.StateAvailable && settingsDiffer(host):
		return "settings are not applied"
	case want == metal3.StateAvailable && w.wantsBIOS != "" && w.bios != w.wantsBIOS:
		return fmt.Sprintf("the BIOS setting is %q, and not %q", w.bios, w.wantsBIOS)
	case want == metal3.StateAvailable && !w.restored && !hasVolumes(w.volumes, s.Provisioning.RAID):
		return fmt.Sprintf("the machine has the RAID volumes %+v, and recorded are %+v", w.volumes, s.Provisioning.RAID)
	}
	return ""
}

// hasVolumes tells whether a machine has the volumes that are recorded.
func hasVolumes(has, recorded *metal3.RAIDConfig) bool {
	if recorded == nil {
		return true
	}
	if has == nil {
		has = &metal3.RAIDConfig{}
	}
	return (len(recorded.HardwareRAIDVolumes) == 0 || cmp.Equal(has.HardwareRAIDVolumes, recorded.HardwareRAIDVolumes)) &&
		(len(recorded.SoftwareRAIDVolumes) == 0 || cmp.Equal(has.SoftwareRAIDVolumes, recorded.SoftwareRAIDVolumes))
}

func newWorld(t *testing.T, release string, options ...hostOption) *world {
	w := &world{machine: stateMachine(t, release), host: newHost(), nodes: map[string]*ironic.Node{}, mayWipe: true}
	w.host.Finalizers, w.host.Status = nil, metal3.BareMetalHostStatus{}
	wantsRAID(nil)(w.host)
	for _, o := range options {
		o(w.host)
	}
	return w
}

// From an empty host to where it is to be, whatever is killed on the way.
func TestLifeComesToItsEnd(t *testing.T) {
	for _, release := range releases {
		for name, options := range map[string][]hostOption{
			"available":              nil,
			"off":                    {offline},
			"not inspected":          {inspectionDisabled},
			"provisioned":            {wantsImage("http://images/a")},
			"externally provisioned": {externallyProvisioned},
			"with RAID":              {wantsRAID(hardwareRAID)},
			"with RAID, provisioned": {wantsRAID(softwareRAID), wantsImage("http://images/a")},
		} {
			for failures := range 2 {
				w := newWorld(t, release, options...)
				w.failures = failures
				shortest := 1000
				ends := explore(t, w, 4, 80, func(w *world) {
					shortest = min(shortest, len(w.log))
					if wrong := w.wanted(); wrong != "" {
						t.Fatalf("%s, %s: %s after %v", release, name, wrong, w.log)
					}
				})
				t.Logf("%s, %s, %d failures: %d ways, the shortest has %d steps", release, name, failures, ends, shortest)
			}
		}
	}
}

// A host whose node somebody deleted in Ironic gets it back, and what it runs
// stays.
func TestLostNodeIsRegisteredAgain(t *testing.T) {
	w := newWorld(t, "trixie", wantsImage("http://images/a"))
	explore(t, w, 0, 80, func(*world) {})
	w.nodes, w.log = map[string]*ironic.Node{}, nil
	explore(t, w, 4, 40, func(w *world) {
		if wrong := w.wanted(); wrong != "" || w.deployments != 1 {
			t.Fatalf("%s, deployed %d times, after %v", wrong, w.deployments, w.log)
		}
	})
}

// A deleted host goes, from each state that it and its node can be in, with requests
// that its Ironic accepts, whatever is killed on the way, and without its Secret too.
func TestDeletionComesToAnEnd(t *testing.T) {
	for _, release := range releases {
		machine := stateMachine(t, release)
		for _, state := range sets.List(sets.KeySet(machine)) {
			for column, before := range storedStates {
				for _, noSecret := range []bool{false, true} {
					w := deletedWorld(machine, ironic.ProvisionState(state), before)
					w.noSecret = noSecret
					crashes := 1
					if release == "trixie" {
						crashes = 2
					}
					if noSecret {
						crashes--
					}
					ends := explore(t, w, crashes, 40, func(w *world) {
						switch {
						case !w.released:
							t.Fatalf("%s, %s, %s: the host stays %s after %v", release, column, state, w.host.Status.Provisioning.State, w.log)
						case len(w.nodes) != 0:
							t.Fatalf("%s, %s, %s: the host is gone and its node is not, after %v", release, column, state, w.log)
						case w.harm != "":
							t.Fatalf("%s, %s, %s: %s: %v", release, column, state, w.harm, w.log)
						}
					})
					if ends <= crashes {
						t.Errorf("%s, %s, %s: only %d ways were tried", release, column, state, ends)
					}
				}
			}
		}
	}
}

// deletedWorld has a host that was deleted in the state before, and its node in state.
func deletedWorld(machine map[string]map[string]string, state ironic.ProvisionState, before metal3.ProvisioningState) *world {
	host := newHost(withState(before), deleted)
	if before == metal3.StateProvisioning {
		attempting("http://images/a")(host)
	}
	id := host.Status.Provisioning.ID
	node := &ironic.Node{UUID: id, Name: NodeName(host), ProvisionState: state, PowerState: ironic.PowerOn}
	node.InstanceUUID = recordedInstance(host)
	w := &world{machine: machine, host: host, nodes: map[string]*ironic.Node{id: node}, mayWipe: true}
	switch before {
	case metal3.StateProvisioning, metal3.StateProvisioned, metal3.StateDeprovisioning:
		w.asked = true
	case metal3.StateExternallyProvisioned:
		host.Spec.ExternallyProvisioned = true
	}
	switch state {
	case ironic.Enroll, ironic.Verifying, ironic.Manageable, ironic.Available, ironic.Active, ironic.Adopting, ironic.AdoptFail:
		if before == metal3.StateExternallyProvisioned {
			w.disk, w.mayWipe = "foreign", false
		}
	case ironic.Inspecting, ironic.InspectWait, ironic.InspectFail, ironic.CleanFail, ironic.DeployFail, ironic.Error:
	default:
		w.asked = true // Ironic may be at it already
	}
	if w.working(node) {
		node.Reservation = "conductor-0"
	}
	return w
}
