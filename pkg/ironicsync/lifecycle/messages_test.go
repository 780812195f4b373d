// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/validation"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

func TestCutMessage(t *testing.T) {
	for _, size := range []int{0, 1, validation.MaxMessage} {
		if text := strings.Repeat("x", size); CutMessage(text) != text {
			t.Errorf("%d bytes are not left as they are", size)
		}
	}
	long := strings.Repeat("\u00e9", 100_000) // two bytes each
	cut := CutMessage(long)
	if len(cut) > validation.MaxMessage || !strings.HasSuffix(cut, "\u00e9... (cut: 200000 bytes in all)") || CutMessage(cut) != cut {
		t.Errorf("%d bytes, the end is %q", len(cut), cut[len(cut)-50:])
	}
}

// TestLongMessages checks that a status has bounded messages whatever a driver says, and that a
// long error is counted once and not written again with each observation.
func TestLongMessages(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	long := strings.Repeat("<", 1<<20)
	node := &ironic.Node{
		UUID: "n", ProvisionState: ironic.CleanFail, PowerState: ironic.PowerOff, LastError: "a" + long, Maintenance: true,
		MaintenanceReason: "b" + long, CleanStep: ironic.Step{Interface: "deploy", Step: long},
	}
	host := &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "h"}}
	host.Status.Provisioning.ID, host.Status.Provisioning.State = "n", metal3.StatePreparing
	SetFailure(host, metal3.PreparationError, "c"+long)
	for i := range 2 {
		status, changed := Observe(host, Observation{Node: node}, now)
		if changed != (i == 0) {
			t.Errorf("observation %d of the same node: changed is %t", i, changed)
		}
		host.Status = status
	}
	status := &host.Status
	messages := []string{status.ErrorMessage, status.Ironic.LastError, status.Ironic.MaintenanceReason, status.Ironic.Step}
	for _, c := range status.Conditions {
		messages = append(messages, c.Message)
	}
	for i, message := range messages {
		if len(message) > validation.MaxMessage || strings.Contains(message, "<<<<") && !strings.HasSuffix(message, "bytes in all)") {
			t.Errorf("message %d has %d bytes and begins with %.10q", i, len(message), message)
		}
	}
	if status.ErrorCount != 1 {
		t.Errorf("the error is counted %d times", status.ErrorCount)
	}
	if !SetRequestFailing(host, Step{Do: SetState}, fmt.Sprint("d", long)) || SetRequestFailing(host, Step{Do: SetState}, fmt.Sprint("d", long)) {
		t.Error("a request that keeps failing with a long message changes the status each time")
	}
}
