// SPDX-License-Identifier: Apache-2.0

package life

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// clean asks for clean steps of the interface deploy.
func (h *host) clean(options metav1.CreateOptions, steps ...string) error {
	h.t.Helper()
	request := &metal3.HostClean{}
	for _, step := range steps {
		request.Spec.Steps = append(request.Spec.Steps, metal3.CleanStep{Interface: "deploy", Step: step})
	}
	answer, err := h.api.Clean(h.ctx, h.name, request, options)
	if err == nil {
		tell(h.t, "clean", answer)
	}
	return err
}

// TestRequestedClean: the disks of an available host are erased once when a user asks for that, and a
// step that does not exist is explained.
func TestRequestedClean(t *testing.T) {
	t.Parallel()
	h := newHost(t, virtualMedia, notInspected, notCleaned)
	h.available()
	if err := h.clean(metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}, "erase_devices"); err != nil {
		t.Fatal(err)
	}
	expectCode(t, "a clean without steps", h.clean(metav1.CreateOptions{}), http.StatusUnprocessableEntity, "spec.steps")
	erased := func() (n int) {
		for _, step := range h.machine.Steps() {
			if step == "clean erase_devices" {
				n++
			}
		}
		return n
	}
	if erased() != 0 {
		t.Fatal("the disks were erased by a dry run")
	}
	if err := h.clean(metav1.CreateOptions{}, "erase_devices"); err != nil {
		t.Fatal(err)
	}
	if state := h.get().Status.Provisioning.State; state != metal3.StatePreparing {
		t.Errorf("after the request, the host is %s", state)
	}
	expectCode(t, "a second clean", h.clean(metav1.CreateOptions{}, "erase_devices"), http.StatusConflict, "already")
	bmh := h.available()
	if p := bmh.Status.Record.Preparation; p == nil || p.Phase != metal3.PreparationSucceeded || !p.IsRequested || !slices.Equal(p.Steps, []string{"deploy.erase_devices"}) || erased() != 1 {
		t.Errorf("erased %d times; the preparation is %+v", erased(), p)
	}

	if err := h.clean(metav1.CreateOptions{}, "erase_pstore"); err != nil {
		t.Fatal(err)
	}
	bmh = h.wait("failed", func(bmh *metal3.BareMetalHost) bool {
		return bmh.Status.ErrorType == metal3.PreparationError && bmh.Status.Record.RequestedClean == nil
	})
	if p := bmh.Status.Record.Preparation; !strings.Contains(bmh.Status.ErrorMessage, "erase_pstore") || p.Phase != metal3.PreparationFailed || !strings.Contains(p.Message, "erase_pstore") {
		t.Errorf("the error is %q, and the preparation %+v", bmh.Status.ErrorMessage, p)
	}
	// Whoever does not want to wait for the back-off has it end.
	if _, err := h.api.Retry(h.ctx, h.name, &metal3.HostRetry{}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	h.available()
	if erased() != 1 {
		t.Errorf("erased %d times", erased())
	}
	h.wantImage()
	h.provisioned()
	expectCode(t, "a clean of a provisioned host", h.clean(metav1.CreateOptions{}, "erase_devices"), http.StatusConflict, "only an available host")
}
