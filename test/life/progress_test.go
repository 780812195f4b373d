// SPDX-License-Identifier: Apache-2.0

package life

import (
	"fmt"
	"slices"
	"testing"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
)

// A watcher sees which step each operation of Ironic is at, and of how many. The numbers of an
// operation never go down.
func TestProgress(t *testing.T) {
	t.Parallel()
	// Steps that end at once need not be shown, so that each of those below waits until it was.
	h := newHost(t, faulty(bmcsim.CleanStepHangs))
	h.available()
	image := newSlowImage(t)
	h.wantImageAt(image.url, image.checksum)
	h.shows("clean", 1, "deploy.erase_devices_metadata")
	h.mend(bmcsim.CleanStepHangs)
	h.shows("deploy", 2, "deploy.write_image")
	image.release()
	h.provisioned()
	h.mu.Lock()
	defer h.mu.Unlock()
	last := metal3.IronicStatus{}
	for _, now := range h.progress {
		if (now.Operation == "") != (now.OperationStartedAt == nil) || (now.Step == "") != (now.StepStartedAt == nil) {
			t.Errorf("times without what they are of: %+v", now)
		}
		if now.Operation != "" && now.Operation == last.Operation {
			if !now.OperationStartedAt.Equal(last.OperationStartedAt) {
				t.Errorf("%s began at %s, and then at %s", now.Operation, last.OperationStartedAt, now.OperationStartedAt)
			}
			if now.StepIndex < last.StepIndex && now.Step != "" || now.StepCount < last.StepCount && now.Step != "" {
				t.Errorf("%s went back from step %d of %d to %d of %d", now.Operation, last.StepIndex, last.StepCount, now.StepIndex, now.StepCount)
			}
		}
		last = now
	}
	inspected := slices.ContainsFunc(h.progress, func(now metal3.IronicStatus) bool { return now.Operation == "inspect" })
	if s.inspects() && !inspected {
		t.Error("the inspection was not shown")
	}
}

// shows waits until the host shows a step of an operation, and how many there are.
func (h *host) shows(operation metal3.IronicOperation, index int, step string) {
	h.t.Helper()
	h.wait(fmt.Sprintf("%s %d %s", operation, index, step), func(bmh *metal3.BareMetalHost) bool {
		now := bmh.Status.Ironic
		return now != nil && now.Operation == operation && now.StepIndex == index && now.Step == step && now.StepCount >= now.StepIndex
	})
}
