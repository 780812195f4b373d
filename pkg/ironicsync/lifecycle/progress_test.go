// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// shownProgress is what a host shows of the operation.
type shownProgress struct {
	Operation           metal3.IronicOperation
	Since               time.Duration // after the beginning of the test
	Step                string
	Index, Count        int
	StepSince           time.Duration
	HasSince, HasStepAt bool
}

func progressOf(host *metal3.BareMetalHost, begin time.Time) shownProgress {
	s := host.Status.Ironic
	shown := shownProgress{Operation: s.Operation, Step: s.Step, Index: s.StepIndex, Count: s.StepCount, HasSince: s.OperationStartedAt != nil, HasStepAt: s.StepStartedAt != nil}
	if shown.HasSince {
		shown.Since = s.OperationStartedAt.Sub(begin)
	}
	if shown.HasStepAt {
		shown.StepSince = s.StepStartedAt.Sub(begin)
	}
	return shown
}

// A deployment after cleaning, as Ironic 29.0 shows it: each step keeps the time at which it was first
// seen, whatever Ironic changes between the steps.
func TestProgressOfAnOperation(t *testing.T) {
	begin := now.Truncate(time.Second)
	erase := ironic.Step{Interface: "deploy", Step: "erase_devices"}
	metadata := ironic.Step{Interface: "deploy", Step: "erase_devices_metadata"}
	deploy := ironic.Step{Interface: "deploy", Step: "deploy"}
	write := ironic.Step{Interface: "deploy", Step: "write_image"}
	minute := time.Minute
	host := newHost()
	for i, seen := range []struct {
		node ironic.Node
		want shownProgress
	}{
		{ironic.Node{Address: ownBMC, ProvisionState: ironic.Cleaning}, shownProgress{Operation: "clean", HasSince: true}},
		{ironic.Node{Address: ownBMC, ProvisionState: ironic.CleanWait}, shownProgress{Operation: "clean", HasSince: true}},
		{ironic.Node{Address: ownBMC, ProvisionState: ironic.Cleaning, CleanStep: metadata, Internals: ironic.Internals{Clean: ironic.StepPosition{Number: 1, Count: 2}}},
			shownProgress{Operation: "clean", HasSince: true, Step: "deploy.erase_devices_metadata", Index: 1, Count: 2, HasStepAt: true, StepSince: 2 * minute}},
		{ironic.Node{Address: ownBMC, ProvisionState: ironic.CleanWait, CleanStep: metadata, Internals: ironic.Internals{Clean: ironic.StepPosition{Number: 1, Count: 2}}},
			shownProgress{Operation: "clean", HasSince: true, Step: "deploy.erase_devices_metadata", Index: 1, Count: 2, HasStepAt: true, StepSince: 2 * minute}},
		{ironic.Node{Address: ownBMC, ProvisionState: ironic.CleanWait, CleanStep: erase, Internals: ironic.Internals{Clean: ironic.StepPosition{Number: 2, Count: 2}}},
			shownProgress{Operation: "clean", HasSince: true, Step: "deploy.erase_devices", Index: 2, Count: 2, HasStepAt: true, StepSince: 4 * minute}},
		// Cleaning leaves the list behind when it fails, but there is no step.
		{ironic.Node{Address: ownBMC, ProvisionState: ironic.CleanFail, Internals: ironic.Internals{Clean: ironic.StepPosition{Count: 2}}}, shownProgress{}},
		{ironic.Node{Address: ownBMC, ProvisionState: ironic.DeployWait, DeployStep: deploy, Internals: ironic.Internals{Deploy: ironic.StepPosition{Number: 1}}},
			shownProgress{Operation: "deploy", HasSince: true, Since: 6 * minute, Step: "deploy.deploy", Index: 1, HasStepAt: true, StepSince: 6 * minute}},
		{ironic.Node{Address: ownBMC, ProvisionState: ironic.Deploying, DeployStep: write, Internals: ironic.Internals{Deploy: ironic.StepPosition{Number: 2, Count: 6}}},
			shownProgress{Operation: "deploy", HasSince: true, Since: 6 * minute, Step: "deploy.write_image", Index: 2, Count: 6, HasStepAt: true, StepSince: 7 * minute}},
		{ironic.Node{Address: ownBMC, ProvisionState: ironic.Active}, shownProgress{}},
		{ironic.Node{Address: ownBMC, ProvisionState: ironic.InspectWait}, shownProgress{Operation: "inspect", HasSince: true, Since: 9 * minute}},
	} {
		seen.node.UUID = "a"
		for _, again := range []time.Duration{0, 30 * time.Second} {
			host.Status, _ = Observe(stored(t, host), Observation{Node: &seen.node}, begin.Add(time.Duration(i)*minute+again))
			if diff := cmp.Diff(seen.want, progressOf(host, begin)); diff != "" {
				t.Errorf("%d, %s, after %s (-want +shown):\n%s", i, seen.node.ProvisionState, again, diff)
			}
		}
	}
}

// What is seen for the first time began when Ironic last changed the node's state, or before that.
// How long ago that was is measured by Ironic's clock alone, which is a day ahead here.
func TestProgressBeganBeforeItWasSeen(t *testing.T) {
	ironicNow := now.Add(24 * time.Hour)
	changed := ironicNow.Add(-5 * time.Minute)
	node := &ironic.Node{Address: ownBMC, UUID: "a", ProvisionState: ironic.InspectWait, ProvisionUpdatedAt: &changed, AnsweredAt: ironicNow}
	status, _ := Observe(newHost(), Observation{Node: node}, now)
	want := metav1.NewTime(now.Add(-5 * time.Minute).Truncate(time.Second))
	if got := status.Ironic.OperationStartedAt; !got.Equal(&want) {
		t.Errorf("it began at %v, want %v", got, want)
	}
}
