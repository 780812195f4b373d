// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"k8s.io/apimachinery/pkg/api/equality"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// customStepPriority places the custom step where Ironic's own deploy interfaces
// have the step that writes the image.
const customStepPriority = 80

// workload is what a host runs or is to run: an image, a custom deploy procedure,
// or both, the procedure then being what deals with the image.
type workload struct {
	image  *metal3.Image
	method string
}

func wanted(spec *metal3.BareMetalHostSpec) workload {
	return workload{image: spec.Image, method: methodOf(spec.CustomDeploy)}
}

func recorded(host *metal3.BareMetalHost) workload {
	status := &host.Status.Provisioning
	return workload{image: &status.Image, method: methodOf(status.CustomDeploy)}
}

func methodOf(custom *metal3.CustomDeploy) string {
	if custom == nil {
		return ""
	}
	return custom.Method
}

func (w workload) url() string {
	if w.image == nil {
		return ""
	}
	return w.image.URL
}

func (w workload) isNothing() bool { return w.url() == "" && w.method == "" }

// isLiveISO reports whether Ironic boots the host from an ISO for good. A custom
// procedure needs its own ramdisk, so it goes before a live ISO.
func (w workload) isLiveISO() bool {
	return w.method == "" && w.url() != "" && w.image.IsLiveISO()
}

// WantsImage reports whether the host is to run something: an image, or what a
// custom deploy procedure makes.
func WantsImage(spec *metal3.BareMetalHostSpec) bool { return !wanted(spec).isNothing() }

// Deployed reports whether it is recorded that the host runs something of ours.
func Deployed(host *metal3.BareMetalHost) bool { return !recorded(host).isNothing() }

// MustDeprovision reports whether a provisioned host runs something else than the
// spec wants: when the image is gone or has another URL, when the custom deploy
// procedure is gone or is another one. Nothing else does: not the checksum or
// format of the image, not user data, and not a procedure that is added to a host
// that runs the image still wanted. Of a host whose record is empty (adopted, or
// externally provisioned before) it is taken that it runs what the spec wants.
func MustDeprovision(host *metal3.BareMetalHost) bool {
	want, has := wanted(&host.Spec), recorded(host)
	if want.isNothing() {
		return true
	}
	if has.method != "" && has.method != want.method {
		return true
	}
	return has.url() != "" && has.url() != want.url()
}

// AttemptChanged reports whether the spec wants something else than the last
// attempt to provision was begun with: another image URL, another custom deploy
// procedure, or nothing at all. It goes by status.lastAttemptedImage and
// status.provisioning.customDeploy, which have to be recorded as an attempt
// begins, also when they are empty, and kept until its failures are forgotten. Of
// an attempt that recorded neither it is taken that nothing changed.
func AttemptChanged(host *metal3.BareMetalHost) bool {
	want := wanted(&host.Spec)
	tried := workload{image: host.Status.LastAttemptedImage, method: methodOf(host.Status.Provisioning.CustomDeploy)}
	if want.isNothing() || tried.isNothing() {
		return want.isNothing()
	}
	return want.url() != tried.url() || want.method != tried.method
}

// ImageCorrected reports whether the image in the spec differs from that of the last attempt in anything: its checksum or format, too.
// That calls no attempt off, but what has failed before says nothing of the next one.
func ImageCorrected(host *metal3.BareMetalHost) bool {
	tried := host.Status.LastAttemptedImage
	return tried != nil && host.Spec.Image != nil && !equality.Semantic.DeepEqual(tried, host.Spec.Image)
}

// The deploy interfaces that a host may need. They must be among Ironic's
// enabled_deploy_interfaces.
const (
	ramdiskInterface     = "ramdisk"
	customAgentInterface = "custom-agent"
)

// DeployInterface returns the deploy interface that the host needs; empty is
// Ironic's default. What a deployed host runs counts, not what its spec says.
func DeployInterface(host *metal3.BareMetalHost) string {
	w := current(host)
	switch {
	case w.method != "":
		return customAgentInterface
	case w.isLiveISO():
		return ramdiskInterface
	}
	return ""
}

// current is what the host runs, where it is known to run something, and
// otherwise what it is to run.
func current(host *metal3.BareMetalHost) workload {
	switch host.Status.Provisioning.State {
	case metal3.StateProvisioned, metal3.StateExternallyProvisioned, metal3.StateDeprovisioning,
		metal3.StatePoweringOffBeforeDelete, metal3.StateDeleting:
		if has := recorded(host); !has.isNothing() {
			return has
		}
	}
	return wanted(&host.Spec)
}

// DeploySteps returns the deploy steps to ask for beside those of the deploy
// interface; none but for a custom deploy procedure.
func DeploySteps(host *metal3.BareMetalHost) []ironic.StepRequest {
	method := wanted(&host.Spec).method
	if method == "" {
		return nil
	}
	priority := customStepPriority
	return []ironic.StepRequest{{
		Interface: "deploy",
		Step:      method,
		Args:      map[string]any{}, // required of deploy steps, unlike clean steps
		Priority:  &priority,
	}}
}
