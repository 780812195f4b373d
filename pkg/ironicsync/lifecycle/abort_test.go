// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"testing"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// What a host asks to be aborted is no error of it when it is; what fails by itself, and
// what another client of Ironic aborts, is.
func TestAbortThatTheHostAskedFor(t *testing.T) {
	const byRequest = "Inspection was aborted by request."
	inspecting := []hostOption{withState(metal3.StateInspecting), inspectionBegan}
	preparing := []hostOption{withState(metal3.StatePreparing)}
	deploying := []hostOption{withState(metal3.StateProvisioning), wantsImage("http://images/a"), attempting("http://images/a")}
	detached := annotated(metal3.DetachedAnnotation, `{"force":true}`)
	reboot := annotated(metal3.RebootAnnotation, `{"force":true}`)
	held := annotated(metal3.RebootAnnotationPrefix+"fencing", `{"force":true}`)
	for name, tt := range map[string]struct {
		options         []hostOption
		waiting, failed ironic.ProvisionState
		ask             hostOption
		want            metal3.ErrorType
	}{
		"detached while inspected":       {inspecting, ironic.InspectWait, ironic.InspectFail, detached, ""},
		"detached while cleaned":         {preparing, ironic.CleanWait, ironic.CleanFail, detached, ""},
		"detached while deployed":        {deploying, ironic.DeployWait, ironic.DeployFail, detached, ""},
		"not detached by force":          {inspecting, ironic.InspectWait, ironic.InspectFail, annotated(metal3.DetachedAnnotation, ""), metal3.InspectionError},
		"deleted while inspected":        {inspecting, ironic.InspectWait, ironic.InspectFail, deleted, ""},
		"deleted while cleaned":          {preparing, ironic.CleanWait, ironic.CleanFail, deleted, ""},
		"deleted while deployed":         {deploying, ironic.DeployWait, ironic.DeployFail, deleted, ""},
		"rebooted while inspected":       {inspecting, ironic.InspectWait, ironic.InspectFail, reboot, ""},
		"rebooted while cleaned":         {preparing, ironic.CleanWait, ironic.CleanFail, reboot, ""},
		"rebooted before it is deployed": {deploying, ironic.CleanWait, ironic.CleanFail, reboot, ""},
		"held while inspected":           {inspecting, ironic.InspectWait, ironic.InspectFail, held, ""},
		"rebooted, not by force":         {inspecting, ironic.InspectWait, ironic.InspectFail, annotated(metal3.RebootAnnotation, ""), metal3.InspectionError},
		"image changed while deployed":   {deploying, ironic.DeployWait, ironic.DeployFail, wantsImage("http://images/b"), ""},
		"image given up while deployed":  {deploying, ironic.Deploying, ironic.DeployFail, func(h *metal3.BareMetalHost) { h.Spec.Image = nil }, ""},
		"fails by itself":                {deploying, ironic.DeployWait, ironic.DeployFail, func(*metal3.BareMetalHost) {}, metal3.ProvisioningError},
		"aborted by an operator":         {inspecting, ironic.InspectWait, ironic.InspectFail, func(*metal3.BareMetalHost) {}, metal3.InspectionError},
		"aborted while the host pauses":  {and(inspecting, detached), ironic.InspectWait, ironic.InspectFail, annotated(metal3.PausedAnnotation, ""), metal3.InspectionError},
		"cleaning after deprovisioning":  {[]hostOption{withState(metal3.StateDeprovisioning), deleted}, ironic.CleanWait, ironic.CleanFail, func(*metal3.BareMetalHost) {}, metal3.ProvisioningError},
		"deprovisioned while deployed":   {[]hostOption{withState(metal3.StateDeprovisioning)}, ironic.DeployWait, ironic.DeployFail, func(*metal3.BareMetalHost) {}, ""},
		"cleaning fault after the abort": {preparing, ironic.CleanWait, ironic.CleanFail, reboot, metal3.PreparationError},
	} {
		t.Run(name, func(t *testing.T) {
			host := observe(newHost(tt.options...), nodeIn(tt.waiting))
			tt.ask(host)
			host = observe(host, nodeIn(tt.waiting))
			aborted := nodeIn(tt.failed, lastError(byRequest))
			if name == "cleaning fault after the abort" {
				fault(ironic.FaultCleanFailure)(aborted)
			}
			host = observe(host, aborted)
			if got := host.Status; got.ErrorType != tt.want || (got.ErrorCount != 0) != (tt.want != "") || (got.OperationalStatus == metal3.OperationalStatusError) != (tt.want != "") {
				t.Errorf("error %q (%s), counted %d, %s; want %q", got.ErrorType, got.ErrorMessage, got.ErrorCount, got.OperationalStatus, tt.want)
			}
			if tt.want != "" {
				return
			}
			// Nor does it become one when the annotation is gone,
			delete(host.Annotations, metal3.RebootAnnotation)
			if host = observe(host, aborted); host.Status.ErrorType != "" {
				t.Errorf("without the annotation: %s", host.Status.ErrorMessage)
			}
			// and the next failure is one again.
			host = observe(host, nodeIn(ironic.Manageable))
			if host = observe(host, aborted); host.Status.ErrorType == "" && tt.failed != ironic.DeployFail {
				t.Error("a later failure is no error")
			}
		})
	}
}
