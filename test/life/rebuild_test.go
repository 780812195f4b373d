// SPDX-License-Identifier: Apache-2.0

package life

import (
	"net/http"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
)

func (h *host) rebuild(options metav1.CreateOptions) error {
	h.t.Helper()
	answer, err := h.api.Rebuild(h.ctx, h.name, &metal3.HostRebuild{}, options)
	if err == nil {
		tell(h.t, "rebuild", answer)
	}
	return err
}

// The same image is written once more, with the user data of now. Nobody sees the host in another
// state than provisioning meanwhile, and nothing is cleaned.
func TestRebuild(t *testing.T) {
	t.Parallel()
	h := newHost(t, notInspected, notCleaned)
	h.available()
	expectCode(t, "rebuild of an available host", h.rebuild(metav1.CreateOptions{}), http.StatusConflict, "only what this server has provisioned")
	h.secret("user-data", map[string]string{"userData": "first"})
	h.patch(`{"spec":{"userData":{"name":"user-data","namespace":%q}}}`, h.ns)
	h.wantImage()
	before := h.provisioned()
	h.wrote(1)
	h.states()
	h.patchSecret("user-data", map[string]string{"userData": "second"})

	if err := h.rebuild(metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Fatal(err)
	}
	h.patch(`{"spec":{"image":{"checksum":"another"}}}`)
	expectCode(t, "rebuild with another checksum", h.rebuild(metav1.CreateOptions{}), http.StatusConflict, "put that back first")
	h.wantImage()
	h.wrote(1)

	if err := h.rebuild(metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if state := h.get().Status.Provisioning.State; state != metal3.StateProvisioning {
		t.Errorf("after the request, the host is %s", state)
	}
	expectCode(t, "a second rebuild", h.rebuild(metav1.CreateOptions{}), http.StatusConflict, "already")
	after := h.provisioned()
	h.expectStates(metal3.StateProvisioned, metal3.StateProvisioning, metal3.StateProvisioned)
	h.wrote(2)
	if got := h.machine.ConfigDrive().UserData(); got != "second" {
		t.Errorf("the user data is %q", got)
	}
	if slices.ContainsFunc(h.machine.Steps(), func(s string) bool { return s[:5] == "clean" }) {
		t.Errorf("the machine was cleaned: %v", h.machine.Steps())
	}
	if is, was := after.Status.Record.Deployment, before.Status.Record.Deployment; is.NodeUUID != was.NodeUUID || is.InstanceUUID != was.InstanceUUID || is.Rebuild != nil || is.Gone != nil {
		t.Errorf("the deployment is %+v, was %+v", after.Status.Record.Deployment, before.Status.Record.Deployment)
	}
	h.stays(10*time.Second, "is not rebuilt once more", isIn(metal3.StateProvisioned))
	h.wrote(2)
}

// A rebuild that fails shows the error and is tried again, and the host does not become available.
func TestRebuildFails(t *testing.T) {
	t.Parallel()
	h := newHost(t, notInspected, notCleaned, withImage)
	h.provisioned()
	h.states()
	h.fault(bmcsim.DeployStepFails)
	if err := h.rebuild(metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	h.failed(metal3.ProvisioningError, "write_image")
	h.mend(bmcsim.DeployStepFails)
	h.retry()
	h.provisioned()
	h.expectStates(metal3.StateProvisioned, metal3.StateProvisioning, metal3.StateProvisioned)
	h.wrote(2)
}
