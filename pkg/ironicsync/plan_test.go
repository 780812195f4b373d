package ironicsync

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

func (s Step) String() string {
	switch {
	case s.Do == Provision:
		return string(s.Target)
	case s.Do == SetState && s.Failed:
		return "!" + strings.ReplaceAll(string(s.State), " ", "-")
	case s.Do == SetState:
		return "=" + strings.ReplaceAll(string(s.State), " ", "-")
	case s.Do == SwitchPower:
		return strings.ReplaceAll(string(s.Power), " ", "-")
	case s.Do == Begin:
		return "Begin=" + string(s.State)
	case s.Do == Report:
		return "Report:" + s.Reason
	case s.After != 0:
		return string(s.Do) + ":" + s.After.String()
	}
	return string(s.Do)
}

// planned is the situation of a host whose Secret is there and was not touched,
// and of which nothing has to be left alone.
func planned(host *metal3.BareMetalHost, node *ironic.Node) Situation {
	return Situation{Host: host, Node: node, SecretVersion: "7", MaxRetries: 3}
}

// lifeTable: the one thing to do for a registered host that is to run an image,
// for each provisioning state of the host (columns) and each of Ironic (rows).
// "=x" enters the state x, "!x" too, and what was under way has failed; words in
// lower case are verbs and power states of Ironic's. In the columns of deployed
// states the power is as it is to be.
const lifeTable = `
                 registering      inspecting       inspected        preparing        available        wanted           provisioning     cancelled        foreign          provisioned      changed          external         deprovisioning
enroll           Register         Register         Register         Register         Register         Register         Register         Register         Register         Register         Register         Register         Register
verifying        Wait             Wait             Wait             Wait             Wait             Wait             Wait             Wait             Wait             Wait             Wait             Wait             Wait
manageable       =inspecting      inspect          =preparing       provide          Wait             Wait             provide          =deprovisioning  provide          adopt            =deprovisioning  adopt            provide
available        =inspecting      manage           manage           =available       Wait             =provisioning    Deploy           =deprovisioning  =available       manage           =deprovisioning  manage           =available
active           =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     Wait             =deprovisioning  Wait             deleted
deploying        Wait             Wait             Wait             Wait             Wait             Wait             Wait             =deprovisioning  Wait             Wait             =deprovisioning  Wait             Wait
wait call-back   Wait             Wait             Wait             Wait             Wait             Wait             Wait             =deprovisioning  Wait             Wait             =deprovisioning  Wait             deleted
deploy failed    =inspecting      Wait             Wait             Wait             Wait             Wait             !deprovisioning  =deprovisioning  Wait             Wait             =deprovisioning  Wait             deleted
deploy hold      Wait             Wait             Wait             Wait             Wait             Wait             Wait             =deprovisioning  Wait             Wait             =deprovisioning  Wait             abort
deleting         Wait             Wait             Wait             Wait             Wait             Wait             Wait             =deprovisioning  Wait             Wait             =deprovisioning  Wait             Wait
error            =deprovisioning  Wait             Wait             =deprovisioning  Wait             Wait             !deprovisioning  =deprovisioning  Wait             Wait             =deprovisioning  Wait             deleted
cleaning         Wait             Wait             Wait             Wait             Wait             Wait             Wait             =deprovisioning  Wait             Wait             =deprovisioning  Wait             Wait
clean wait       Wait             Wait             Wait             Wait             Wait             Wait             Wait             =deprovisioning  Wait             Wait             =deprovisioning  Wait             Wait
clean failed     =inspecting      manage           manage           manage           Wait             Wait             manage           =deprovisioning  manage           manage           =deprovisioning  manage           manage
clean hold       Wait             Wait             Wait             Wait             Wait             Wait             Wait             =deprovisioning  Wait             Wait             =deprovisioning  Wait             abort
inspecting       Wait             Wait             Wait             Wait             Wait             Wait             Wait             =deprovisioning  Wait             Wait             =deprovisioning  Wait             Wait
inspect wait     Wait             Wait             Wait             Wait             Wait             Wait             Wait             =deprovisioning  Wait             Wait             =deprovisioning  Wait             Wait
inspect failed   =inspecting      inspect          inspect          manage           Wait             Wait             manage           =deprovisioning  manage           manage           =deprovisioning  manage           manage
adopting         Wait             Wait             Wait             Wait             Wait             Wait             Wait             =deprovisioning  Wait             Wait             =deprovisioning  Wait             Wait
adopt failed     =inspecting      manage           manage           manage           Wait             Wait             manage           =deprovisioning  manage           adopt            =deprovisioning  adopt            manage
rescue           =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     Wait             =deprovisioning  Wait             deleted
rescuing         =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     Wait             =deprovisioning  Wait             Wait
rescue wait      =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     Wait             =deprovisioning  Wait             deleted
rescue failed    =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     Wait             =deprovisioning  Wait             deleted
unrescuing       =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     Wait             =deprovisioning  Wait             Wait
unrescue failed  =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     Wait             =deprovisioning  Wait             deleted
servicing        =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     Wait             =deprovisioning  Wait             Wait
service wait     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     Wait             =deprovisioning  Wait             deleted
service failed   =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     Wait             =deprovisioning  Wait             deleted
service hold     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     Wait             =deprovisioning  Wait             abort
`

// lifeColumns are the hosts of lifeTable.
var lifeColumns = map[string][]hostOption{
	"registering":    {withState(metal3.StateRegistering)},
	"inspecting":     {withState(metal3.StateInspecting), inspectionBegan},
	"inspected":      {withState(metal3.StateInspecting), inspectionBegan, inspectionEnded},
	"preparing":      {withState(metal3.StatePreparing)},
	"available":      {withState(metal3.StateAvailable), prepared},
	"wanted":         {withState(metal3.StateAvailable), prepared, wantsImage("http://images/a")},
	"provisioning":   {withState(metal3.StateProvisioning), wantsImage("http://images/a"), attempting("http://images/a")},
	"cancelled":      {withState(metal3.StateProvisioning), attempting("http://images/a")},
	"foreign":        {withState(metal3.StateProvisioning)},
	"provisioned":    {withState(metal3.StateProvisioned), wantsImage("http://images/a"), runs("http://images/a"), withPower(true)},
	"changed":        {withState(metal3.StateProvisioned), wantsImage("http://images/b"), runs("http://images/a"), withPower(true)},
	"external":       {withState(metal3.StateExternallyProvisioned), externallyProvisioned, withPower(true)},
	"deprovisioning": {withState(metal3.StateDeprovisioning), runs("http://images/a")},
}

func inspectionBegan(h *metal3.BareMetalHost) {
	h.Status.OperationHistory.Inspect = metal3.OperationMetric{Start: seconds(now)}
}
func inspectionEnded(h *metal3.BareMetalHost) { h.Status.OperationHistory.Inspect.End = seconds(now) }

func prepared(h *metal3.BareMetalHost) {
	enter(h, nil, Step{Do: SetState, State: metal3.StatePreparing}, now)
	enter(h, nil, Step{Do: SetState, State: metal3.StateAvailable}, now)
}

func wantsImage(url string) hostOption {
	return func(h *metal3.BareMetalHost) { h.Spec.Image = &metal3.Image{URL: url, Checksum: url + ".sha256sum"} }
}

func attempting(url string) hostOption {
	return func(h *metal3.BareMetalHost) {
		h.Status.LastAttemptedImage = &metal3.Image{URL: url}
		h.Status.OperationHistory.Provision = metal3.OperationMetric{Start: seconds(now)}
	}
}

func runs(url string) hostOption {
	return func(h *metal3.BareMetalHost) { h.Status.Provisioning.Image = metal3.Image{URL: url} }
}

const lifeColumn = 17

func TestNextByState(t *testing.T) {
	lines := strings.Split(strings.Trim(lifeTable, "\n"), "\n")
	columns := strings.Fields(lines[0])
	if len(columns) != len(lifeColumns) {
		t.Fatalf("the table has %d columns of %d", len(columns), len(lifeColumns))
	}
	tested := map[ironic.ProvisionState]bool{}
	for _, line := range lines[1:] {
		state := ironic.ProvisionState(strings.TrimSpace(line[:lifeColumn]))
		tested[state] = true
		for i, want := range strings.Fields(line[lifeColumn:]) {
			name := fmt.Sprintf("%s, %s", columns[i], state)
			situation := func(change ...func(*Situation)) Situation {
				s := planned(newHost(lifeColumns[columns[i]]...), &ironic.Node{UUID: "u", ProvisionState: state, PowerState: ironic.PowerOn})
				for _, c := range change {
					c(&s)
				}
				return s
			}
			if got := Next(situation()).String(); got != want {
				t.Errorf("%s: %s, want %s", name, got, want)
			}

			// A node that a conductor has locked is left alone.
			if got := Next(situation(func(s *Situation) { s.Node.Reservation = "conductor-0" })); got != (Step{Do: Wait}) {
				t.Errorf("%s, reserved: %s, want Wait", name, got)
			}
			// So is a paused host, and one in maintenance that is not Ironic's own.
			if got := Next(situation(func(s *Situation) { annotated(metal3.PausedAnnotation, "metal3.io/capm3")(s.Host) })); got != (Step{Do: Wait}) {
				t.Errorf("%s, paused: %s, want Wait", name, got)
			}
			for _, fault := range []string{"", ironic.FaultPowerFailure} {
				got := Next(situation(func(s *Situation) { s.Node.Maintenance, s.Node.Fault = true, fault }))
				if state != ironic.Enroll && got != (Step{Do: Wait}) {
					t.Errorf("%s, in maintenance, fault %q: %s, want Wait", name, fault, got)
				}
			}

			// Without the Secret, the host says so, once.
			s := situation(func(s *Situation) { s.SecretVersion = "" })
			got := Next(s)
			if got.Do != Report || got.Reason != metal3.SecretNotFoundReason || !strings.Contains(got.Message, `"host-0-bmc"`) {
				t.Errorf("%s, no Secret: %s %q", name, got, got.Message)
			}
			withRegistered(metav1.ConditionFalse, got.Reason, got.Message)(s.Host)
			if got := Next(s); got != (Step{Do: Wait}) {
				t.Errorf("%s, no Secret, reported: %s, want Wait", name, got)
			}
		}
	}
	for _, state := range allStates {
		if !tested[state] {
			t.Errorf("the table has no row for %q", state)
		}
	}
}

var stateMachines = map[string]map[string]map[string]string{}

// stateMachine is that of a release's Ironic: state, event, next state.
func stateMachine(t testing.TB, release string) map[string]map[string]string {
	t.Helper()
	if m, ok := stateMachines[release]; ok {
		return m
	}
	m := map[string]map[string]string{}
	if err := json.Unmarshal(readTestdata(t, release+"-fsm.json"), &m); err != nil {
		t.Fatal(err)
	}
	stateMachines[release] = m
	return m
}

// eventOf is what Ironic calls the event that a provision verb causes.
func eventOf(target ironic.ProvisionTarget) string {
	switch target {
	case ironic.TargetDeleted:
		return "delete"
	case ironic.TargetActive:
		return "deploy"
	}
	return string(target)
}
