// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/deploy"
)

// Where ramdisk images are built for single hosts, a host asks for one in the states in which its machine
// may boot a ramdisk, and waits for it in those that begin with that. These states are those of the Bare
// Metal Operator. A machine that runs something is never touched because of its image. Before a service, which
// boots the ramdisk in most releases of Ironic, it is off anyway: the image is asked for then, as it is by the operator.

// Image is what is known of the ramdisk image of a host.
type Image struct {
	// Built is the image; nil if there is none that the host can boot.
	Built *deploy.HostImage
	// Problem is why the image cannot be built, and Waiting what it waits for. Only one of the three is
	// set.
	Problem, Waiting string
}

// Digest identifies the image; empty if there is none.
func (i *Image) Digest() string {
	if i == nil || i.Built == nil {
		return ""
	}
	return i.Built.Digest()
}

// AsksForImage reports whether a host in this state may boot a ramdisk.
func AsksForImage(host *metal3.BareMetalHost) bool {
	switch host.Status.Provisioning.State {
	case metal3.StateInspecting, metal3.StateMatchProfile:
		return host.Spec.InspectionMode != metal3.InspectionModeFast
	case metal3.StatePreparing, metal3.StateAvailable, metal3.StateReady, metal3.StateProvisioning:
		return true
	case metal3.StateDeprovisioning:
		return host.Spec.AutomatedCleaningMode != metal3.CleaningModeDisabled
	case metal3.StateProvisioned, metal3.StateExternallyProvisioned:
		return host.Status.Record.AwaitedImage != "" // for a service
	}
	return false
}

// takesImage reports whether Ironic can be told another image for the node now, and will boot it: the
// node is at rest, and runs nothing, unless that is about to be undeployed or serviced.
func takesImage(host *metal3.BareMetalHost, node *Node) bool {
	if node == nil || !AsksForImage(host) || !isUpdatable(node) || node.ProvisionState == ironic.Enroll {
		return false
	}
	switch state := host.Status.Provisioning.State; {
	case state.RunsSomething():
		return node.ProvisionState == ironic.Active
	case state == metal3.StateDeprovisioning:
		return node.ProvisionState != ironic.Available // where it ends
	}
	return !node.ProvisionState.IsDeployed()
}

// isImageRegistered reports whether the node was registered with the host's image, as far as the node takes
// it now.
func isImageRegistered(s Situation, with *metal3.RegisteredWith) bool {
	if s.Image == nil {
		return with.Image == "" // otherwise, the images are not built any more
	}
	return s.Image.Built == nil || with.Image == s.Image.Digest() || !takesImage(s.Host, s.node)
}

// imageObstacle returns the step for a host whose image cannot be built: to report the reason, or to wait
// if it has been reported. The second result is false if nothing is in the way.
func imageObstacle(s Situation) (Step, bool) {
	if s.Image == nil || s.Image.Problem == "" || !takesImage(s.Host, s.node) || s.Host.Status.Provisioning.State.RunsSomething() {
		return Step{}, false
	}
	return reportOnce(s.Host, metal3.ImageNotBuiltReason, s.Image.Problem), true
}

// awaitImage returns the step for a host that cannot go on before its image is built: to record that, or
// to wait if it has been recorded. It also returns a step if the record has to be removed. The second
// result is false if there is nothing to do. What a host with a service waits for, awaitServiceImage says.
func awaitImage(s Situation) (Step, bool) {
	why := ""
	switch {
	case s.Host.Status.Provisioning.State.RunsSomething():
		return Step{}, false
	case s.Image != nil && requiresImage(s.Host) && takesImage(s.Host, s.node):
		why = CutMessage(s.Image.Waiting)
	}
	return recordAwaited(s.Host, why)
}

// recordAwaited returns the step that records why a host waits for its image, or a wait if it has been
// recorded. The second result is false if it does not wait, and that is recorded.
func recordAwaited(host *metal3.BareMetalHost, why string) (Step, bool) {
	switch recorded := host.Status.Record.AwaitedImage; {
	case why == "" && recorded == "":
		return Step{}, false
	case recorded != why:
		return Step{Do: AwaitImage, Message: why}, true
	}
	return Step{Do: Wait}, true
}

// imageNotGiven is why a host waits whose image is built, and whose node does not have it. With that recorded, it is
// registered with the image.
const imageNotGiven = "Its node is about to be given the PreprovisioningImage"

// awaitServiceImage returns the step for a host that is about to be serviced, and whose node does not have its image yet. If the
// image cannot be built, it is power, which switches the machine on without the change. The second result is false
// if the service can begin.
func awaitServiceImage(s Situation, power Step) (Step, bool) {
	why, with := "", s.Host.Status.Record.RegisteredWith
	switch image := s.Image; {
	case image == nil:
	case image.Problem != "":
		return s.orReport(power, image.Problem+". The host is switched on without the change"), true
	case image.Built == nil:
		why = CutMessage(image.Waiting)
	case with == nil, with.Image != image.Digest():
		why = imageNotGiven
	}
	return recordAwaited(s.Host, why)
}

// awaitsInVain reports whether a host that runs something waits for its image, and is not about to be serviced any more.
func awaitsInVain(s Situation) bool {
	return s.Host.Status.Record.AwaitedImage != "" && s.Host.Status.Provisioning.State.RunsSomething() && !s.isAboutToBeServiced()
}

// requiresImage reports whether the next thing that Ironic does with the node is to boot its ramdisk. (What
// follows goes on with the image that the node has.)
func requiresImage(host *metal3.BareMetalHost) bool {
	switch host.Status.Provisioning.State {
	case metal3.StateInspecting, metal3.StateMatchProfile, metal3.StatePreparing, metal3.StateDeprovisioning:
		return true
	}
	return false
}
