// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/deploy"
)

// Where ramdisk images are built for single hosts, a host asks for one in the states in which its machine
// may boot a ramdisk, and waits for it in those that begin with that. These states are those of the Bare
// Metal Operator. A provisioned machine is never touched because of its image.

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
	}
	return false
}

// takesImage reports whether Ironic can be told another image for the node now, and will boot it: the
// node is at rest, and runs nothing, unless that is about to be undeployed.
func takesImage(host *metal3.BareMetalHost, node *Node) bool {
	if node == nil || !AsksForImage(host) || !isUpdatable(node) || node.ProvisionState == ironic.Enroll {
		return false
	}
	if host.Status.Provisioning.State == metal3.StateDeprovisioning {
		return node.ProvisionState != ironic.Available // where it ends
	}
	return !isDeployed(node.ProvisionState)
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
	if s.Image == nil || s.Image.Problem == "" || !takesImage(s.Host, s.node) {
		return Step{}, false
	}
	return reportOnce(s.Host, metal3.ImageNotBuiltReason, s.Image.Problem), true
}

// awaitImage returns the step for a host that cannot go on before its image is built: to record that, or
// to wait if it has been recorded. It also returns a step if the record has to be removed. The second
// result is false if there is nothing to do.
func awaitImage(s Situation) (Step, bool) {
	why := ""
	if s.Image != nil && requiresImage(s.Host) && takesImage(s.Host, s.node) {
		why = CutMessage(s.Image.Waiting)
	}
	switch recorded := s.Host.Status.Record.AwaitedImage; {
	case why == "" && recorded == "":
		return Step{}, false
	case recorded != why:
		return Step{Do: AwaitImage, Message: why}, true
	}
	return Step{Do: Wait}, true
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
