package lifecycle

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/deploy"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim/fsm"
)

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
	// A machine that is to be off is not led out of a service that has failed, which would start it.
	isDeployed := node != nil && (node.ProvisionState == ironic.Active || node.ProvisionState == ironic.ServiceFail && !host.Spec.Online)
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
	case isDeployed && (w.restored || w.disk == "foreign" || strings.HasPrefix(node.InstanceUUID, "by-hand")) && !deploy.Deployed(host):
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
	case want == metal3.StateAvailable && node.ProvisionState != ironic.Available && node.ProvisionState != ironic.Manageable, want != metal3.StateAvailable && !isDeployed:
		return fmt.Sprintf("the node is %s while the host is %s", node.ProvisionState, want)
	case node.PowerState != power && !isPowerKept(host):
		return fmt.Sprintf("the node is %s", node.PowerState)
	case want == metal3.StateAvailable && w.wants() != workload{} && (s.ProvisioningFailCount > 0 || s.ErrorType == metal3.ProvisioningError):
		// It has failed, and is not tried again while the host is not to be online.
	case w.mayService && hasServicingError(s) && (recordedMessage(host) == noServiceMessage || !host.Spec.Online):
		// A service has failed, and is not tried again before the host is rebooted.
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
	case s.Record.Failure != nil:
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

// hasVolumes reports whether a machine has the volumes that are recorded.
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
	w := &world{machine: machineOf(release), host: newHost(), nodes: map[string]*ironic.Node{}, mayWipe: true}
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
		machine := machineOf(release)
		for _, state := range machine.States() {
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
func deletedWorld(machine fsm.Machine, state ironic.ProvisionState, before metal3.ProvisioningState) *world {
	host := newHost(withState(before), deleted)
	if before == metal3.StateProvisioning {
		attempting("http://images/a")(host)
	}
	id := host.Status.Provisioning.ID
	node := &ironic.Node{Address: ownBMC, UUID: id, Name: NodeName(host), ProvisionState: state, PowerState: ironic.PowerOn}
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
	if fsm.IsWorked(string(state)) {
		node.Reservation = "conductor-0"
	}
	return w
}
