// SPDX-License-Identifier: Apache-2.0

package fsm

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestStateMachine checks for each state which verbs Ironic accepts, and that
// all others are refused.
func TestStateMachine(t *testing.T) {
	accepted := map[string][]string{
		Enroll:       {"manage"},
		Verifying:    nil,
		Manageable:   {"adopt", "clean", "inspect", "provide"},
		Available:    {"active", "deploy", "manage"},
		Active:       {"deleted", "rebuild", "rescue", "service", "undeploy"},
		Deploying:    nil,
		DeployWait:   {"deleted", "undeploy"},
		DeployFail:   {"active", "deleted", "deploy", "rebuild", "undeploy"},
		Deleting:     {"clean"}, // the machine's own event of that name; Ironic lets it pass here
		Error:        {"deleted", "rebuild", "undeploy"},
		Cleaning:     {"manage"}, // likewise
		CleanWait:    {"abort"},
		CleanFail:    {"manage"},
		Inspecting:   nil,
		InspectWait:  {"abort"},
		InspectFail:  {"inspect", "manage"},
		Adopting:     nil,
		AdoptFail:    {"adopt", "manage"},
		Rescue:       {"deleted", "rescue", "undeploy", "unrescue"},
		Rescuing:     nil,
		RescueWait:   {"abort", "deleted", "undeploy"},
		RescueFail:   {"deleted", "rescue", "undeploy", "unrescue"},
		Unrescuing:   nil,
		UnrescueFail: {"deleted", "rescue", "undeploy", "unrescue"},
		Servicing:    nil,
		ServiceWait:  {"abort", "deleted", "undeploy"},
		ServiceFail:  {"deleted", "rescue", "service", "undeploy"},
		CleanHold:    {"abort", "unhold"},
		DeployHold:   {"abort", "unhold"},
		ServiceHold:  {"abort", "service", "unhold"},
	}
	machine := Of(Ironic29)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(accepted)), machine.States()); diff != "" {
		t.Fatalf("states (-want +got):\n%s", diff)
	}
	if !Of(Ironic32).Allows(ServiceFail, "abort") {
		t.Error("Ironic 32 must allow to abort a service that has failed")
	}
	for state, want := range accepted {
		var got []string
		for _, verb := range slices.Sorted(maps.Keys(verbs)) {
			if machine.Allows(state, verb) {
				got = append(got, verb)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("verbs from %q (-want +got):\n%s", state, diff)
		}
	}
}

// The tables that real Ironics have printed: state, event, next state.
func TestTransitionsAreThoseOfRealIronics(t *testing.T) {
	for name, minor := range map[string]int{"bookworm": Ironic21, "trixie": Ironic29, "sid": Ironic39} {
		printed, err := os.ReadFile("testdata/" + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		var want map[string]map[string]string
		if err := json.Unmarshal(printed, &want); err != nil {
			t.Fatal(err)
		}
		machine := Of(minor)
		got := map[string]map[string]string{}
		for _, state := range machine.States() {
			got[state] = map[string]string{}
			for _, event := range machine.Events(state) {
				got[state][event], _ = machine.Next(state, event)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-Ironic +machine):\n%s", name, diff)
		}
	}
}

// Each state that is no end leads somewhere, and the goal of each is a state that has none.
func TestGoals(t *testing.T) {
	for state, goal := range goals {
		if goals[goal] != "" || transitions[goal] == nil {
			t.Errorf("the goal of %q is %q", state, goal)
		}
	}
	for _, state := range Of(Ironic39).States() {
		if (isWorked(state) || IsWaiting(state) || state != Error && isFailed(state)) && goals[state] == "" {
			t.Errorf("%q has no goal", state)
		}
	}
}

// A manual clean keeps its own goal, whatever becomes of it.
func TestManualCleanKeepsItsGoal(t *testing.T) {
	machine := Of(Ironic29)
	for _, events := range [][]string{{"wait", "resume", "fail"}, {"wait", "abort"}, {"hold", "unhold", "fail"}, {"hold", "abort"}} {
		n := &Node{ProvisionState: Manageable}
		machine.Start(n, "clean")
		for _, event := range events {
			if !machine.Move(n, event) || n.TargetProvisionState != Manageable {
				t.Errorf("%v: after %s the node is %q, on its way to %q", events, event, n.ProvisionState, n.TargetProvisionState)
			}
		}
		if !machine.Move(n, "manage") || n.TargetProvisionState != "" || n.ProvisionState != Manageable {
			t.Errorf("%v: in the end the node is %q, on its way to %q", events, n.ProvisionState, n.TargetProvisionState)
		}
	}
}
