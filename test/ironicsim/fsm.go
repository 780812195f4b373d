package ironicsim

// The provision states of ironic/common/states.py.
const (
	stEnroll       = "enroll"
	stVerifying    = "verifying"
	stManageable   = "manageable"
	stAvailable    = "available"
	stActive       = "active"
	stDeploying    = "deploying"
	stDeployWait   = "wait call-back"
	stDeployFail   = "deploy failed"
	stDeployHold   = "deploy hold"
	stDeleting     = "deleting"
	stError        = "error"
	stCleaning     = "cleaning"
	stCleanWait    = "clean wait"
	stCleanFail    = "clean failed"
	stCleanHold    = "clean hold"
	stInspecting   = "inspecting"
	stInspectWait  = "inspect wait"
	stInspectFail  = "inspect failed"
	stAdopting     = "adopting"
	stAdoptFail    = "adopt failed"
	stRescue       = "rescue"
	stRescuing     = "rescuing"
	stRescueWait   = "rescue wait"
	stRescueFail   = "rescue failed"
	stUnrescuing   = "unrescuing"
	stUnrescueFail = "unrescue failed"
	stServicing    = "servicing"
	stServiceWait  = "service wait"
	stServiceFail  = "service failed"
	stServiceHold  = "service hold"
)

// verbs maps the targets of PUT states/provision to events of the machine.
// Ironic takes a target that is not here for an event of the same name.
var verbs = map[string]string{
	"active": "deploy", "deploy": "deploy", "deleted": "delete", "undeploy": "delete",
	"manage": "manage", "provide": "provide", "inspect": "inspect", "abort": "abort",
	"clean": "clean", "adopt": "adopt", "rescue": "rescue", "unrescue": "unrescue",
	"unhold": "unhold", "service": "service",
}

func verb(target string) string {
	if v, ok := verbs[target]; ok {
		return v
	}
	return target
}

// stateTargets are the states that want to become another one, and which.
// States that are missing here are stable.
var stateTargets = map[string]string{
	stVerifying: stManageable,
	stDeploying: stActive, stDeployWait: stActive, stDeployFail: stActive, stDeployHold: stActive,
	stCleaning: stAvailable, stCleanWait: stAvailable, stCleanFail: stAvailable, stCleanHold: stAvailable,
	stDeleting:   stAvailable,
	stInspecting: stManageable, stInspectWait: stManageable, stInspectFail: stManageable,
	stAdopting: stActive, stAdoptFail: stActive,
	stRescuing: stRescue, stRescueWait: stRescue, stRescueFail: stRescue,
	stUnrescuing: stActive, stUnrescueFail: stActive,
	stServicing: stActive, stServiceWait: stActive, stServiceFail: stActive, stServiceHold: stActive,
}

func stable(state string) bool { return stateTargets[state] == "" }

// transitions is the machine: state, event, next state.
var transitions = map[string]map[string]string{
	stEnroll:     {"manage": stVerifying},
	stVerifying:  {"done": stManageable, "fail": stEnroll},
	stManageable: {"provide": stCleaning, "clean": stCleaning, "inspect": stInspecting, "adopt": stAdopting},
	stAvailable:  {"deploy": stDeploying, "manage": stManageable},
	stActive:     {"rebuild": stDeploying, "delete": stDeleting, "rescue": stRescuing, "service": stServicing},

	stDeploying:  {"done": stActive, "fail": stDeployFail, "wait": stDeployWait, "hold": stDeployHold},
	stDeployWait: {"resume": stDeploying, "fail": stDeployFail, "hold": stDeployHold, "delete": stDeleting},
	stDeployHold: {"unhold": stDeployWait, "abort": stDeployFail},
	stDeployFail: {"rebuild": stDeploying, "deploy": stDeploying, "delete": stDeleting},
	stDeleting:   {"fail": stError, "clean": stCleaning},
	stError:      {"rebuild": stDeploying, "delete": stDeleting},

	stCleaning:  {"done": stAvailable, "manage": stManageable, "fail": stCleanFail, "wait": stCleanWait, "hold": stCleanHold},
	stCleanWait: {"resume": stCleaning, "fail": stCleanFail, "abort": stCleanFail, "hold": stCleanHold},
	stCleanHold: {"unhold": stCleanWait, "abort": stCleanFail},
	stCleanFail: {"manage": stManageable},

	stInspecting:  {"done": stManageable, "fail": stInspectFail, "wait": stInspectWait},
	stInspectWait: {"done": stManageable, "fail": stInspectFail, "abort": stInspectFail, "resume": stInspecting},
	stInspectFail: {"manage": stManageable, "inspect": stInspecting},

	stAdopting:  {"done": stActive, "fail": stAdoptFail},
	stAdoptFail: {"adopt": stAdopting, "manage": stManageable},

	stRescue:       {"rescue": stRescuing, "unrescue": stUnrescuing, "delete": stDeleting},
	stRescuing:     {"done": stRescue, "fail": stRescueFail, "wait": stRescueWait},
	stRescueWait:   {"resume": stRescuing, "fail": stRescueFail, "abort": stRescueFail, "delete": stDeleting},
	stRescueFail:   {"rescue": stRescuing, "unrescue": stUnrescuing, "delete": stDeleting},
	stUnrescuing:   {"done": stActive, "fail": stUnrescueFail},
	stUnrescueFail: {"rescue": stRescuing, "unrescue": stUnrescuing, "delete": stDeleting},

	stServicing:   {"done": stActive, "fail": stServiceFail, "wait": stServiceWait, "hold": stServiceHold},
	stServiceWait: {"resume": stServicing, "fail": stServiceFail, "abort": stServiceFail, "hold": stServiceHold, "delete": stDeleting},
	stServiceHold: {"unhold": stServiceWait, "abort": stServiceFail, "service": stServicing},
	stServiceFail: {"service": stServicing, "rescue": stRescuing, "delete": stDeleting, "abort": stActive},
}

// ironic32 is the highest API version of Ironic 32.0, which can abort a service that has failed.
const ironic32 = 101

// allows reports whether the machine of the release has an event in a state.
func (s *Sim) allows(state, event string) bool {
	if state == stServiceFail && event == "abort" {
		return s.minor >= ironic32
	}
	_, ok := transitions[state][event]
	return ok
}

// next gives the state after an event and its target_provision_state. override,
// when it is not empty, replaces the machine's own target (manual cleaning goes
// to manageable). A state that is stable has no target.
func next(state, target, event, override string) (newState, newTarget string, ok bool) {
	newState, ok = transitions[state][event]
	if !ok {
		return state, target, false
	}
	switch {
	case override != "":
		newTarget = override
	case stateTargets[newState] != "":
		newTarget = stateTargets[newState]
	case target != newState:
		newTarget = target
	}
	if stable(newState) {
		newTarget = ""
	}
	return newState, newTarget, true
}

// Lists of states that Ironic's rules name.
var (
	// updateAllowed are the transitional states in which PATCH is allowed.
	updateAllowed = []string{stDeployFail, stInspecting, stInspectFail, stInspectWait, stCleanFail, stError,
		stVerifying, stAdoptFail, stRescueFail, stUnrescueFail, "service", stServiceHold, stServiceFail}
	// deleteAllowed are the states in which DELETE is allowed without maintenance.
	deleteAllowed = []string{stManageable, stEnroll, stAdoptFail, stAvailable}
	// interfaceChangeAllowed are those in which hardware interfaces may change.
	interfaceChangeAllowed = []string{stEnroll, stInspecting, stInspectWait, stManageable, stAvailable}
	// powerSyncExcluded are those in which the power state is not synchronised.
	powerSyncExcluded = []string{stDeployWait, stCleanWait, stEnroll, stAdoptFail}
	// stuckAsFail fail when the conductor starts again; the wait states go on.
	stuckAsFail = []string{stDeploying, stCleaning, stVerifying, stInspecting, stAdopting, stRescuing,
		stUnrescuing, stDeleting, stServicing}
)
