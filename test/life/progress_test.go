package life

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// A watcher sees which step each operation of Ironic is at, and of how many. The numbers of an
// operation never go down.
func TestProgress(t *testing.T) {
	t.Parallel()
	h := newHost(t, withImage)
	h.provisioned()
	h.mu.Lock()
	defer h.mu.Unlock()
	var shown []string
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
		words := strings.TrimSpace(fmt.Sprintf("%s %d/%d %s", now.Operation, now.StepIndex, now.StepCount, now.Step))
		if now.Operation != "" && !slices.Contains(shown, words) {
			shown = append(shown, words)
		}
	}
	t.Logf("%q", shown)
	begins := func(prefix string) bool {
		return slices.ContainsFunc(shown, func(s string) bool { return strings.HasPrefix(s, prefix) })
	}
	want := []string{"clean 0/0", "clean 1/2 deploy.erase_devices_metadata", "deploy 1/0 deploy.deploy", "deploy 2/6 deploy.write_image"}
	if s.inspects() {
		want = append(want, "inspect 0/0")
	}
	for _, prefix := range want {
		if !begins(prefix) {
			t.Errorf("%q was not shown", prefix)
		}
	}
}
