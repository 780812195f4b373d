// SPDX-License-Identifier: Apache-2.0

package baremetalhost

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/validation"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/store"
)

// power is the action of baremetalhosts/power. The DataImage and the HostUpdatePolicy of a host have its name.
type power struct {
	Sources
	hosts    HostChangers
	images   store.Getter[*metal3.DataImage]
	policies store.Getter[*metal3.HostUpdatePolicy]
	cuts     PowerCuts
}

// NewPowerREST returns the storage of baremetalhosts/power: POST switches the power, and GET
// returns the power state.
func NewPowerREST(sources Sources, hosts HostChangers, images store.Getter[*metal3.DataImage], policies store.Getter[*metal3.HostUpdatePolicy], cuts PowerCuts) rest.Storage {
	p := &power{sources, hosts, images, policies, cuts}
	kind := requestKind[*metal3.HostPower]{
		kind:        "HostPower",
		newRequest:  func() *metal3.HostPower { return &metal3.HostPower{} },
		resetStatus: func(r *metal3.HostPower) { r.Status = metal3.HostPowerStatus{Mode: r.Spec.Mode} },
		validate:    validation.ValidateHostPower,
	}
	return newReadableActionREST(kind, sources, nil, p, describing(p))
}

// checkHost refuses actions that contradict the spec.
func (*power) checkHost(host *metal3.BareMetalHost, request *metal3.HostPower) error {
	if err := checkNotDeleting(host); err != nil {
		return err
	}
	switch action := request.Spec.Action; {
	case action == metal3.PowerActionOff && host.Spec.DisablePowerOff:
		return apierrors.NewInvalid(metal3.Kind("HostPower"), host.Name, field.ErrorList{
			field.Forbidden(field.NewPath("spec", "action"), "spec.disablePowerOff of the host is true: it can only be rebooted")})
	case action != metal3.PowerActionOff && lifecycle.KeptOffBy(host) != "":
		// Also a reboot of a machine that is off switches it on, while what ran on it may have been started elsewhere.
		return conflict(host, lifecycle.KeptOffError(host))
	case action == metal3.PowerActionReboot && !host.Spec.Online:
		return conflict(host, errors.New("it is to be off (spec.online is false): use the action on"))
	case action != metal3.PowerActionReboot && host.Spec.Online != (action == metal3.PowerActionOn) && host.IsBoundToClaim() && !metal3.IsPaused(host):
		// A machine would be shown as off, and what ran on it started elsewhere, seconds before the claim's poweredOn has it switched on again.
		ref := host.Spec.ConsumerRef
		return conflict(host, fmt.Errorf("HostClaim %s/%s decides whether it is on, and would undo this: change spec.poweredOn of the claim, or keep the host off with the annotation %s/KEY",
			ref.Namespace, ref.Name, metal3.RebootAnnotation))
	}
	return nil
}

// warnOfConsumer tells who switches a host off that Cluster API Provider Metal3 will switch it on again: it sets spec.online whenever it
// looks at the Metal3Machine of the host.
func warnOfConsumer(ctx context.Context, host *metal3.BareMetalHost) {
	if ref := host.Spec.ConsumerRef; ref != nil && ref.Kind == "Metal3Machine" {
		warning.AddWarning(ctx, "", fmt.Sprintf("Cluster API Provider Metal3 sets spec.online to true again, as Metal3Machine %s/%s uses the host: to keep it off, use the annotation %s/KEY",
			ref.Namespace, ref.Name, metal3.RebootAnnotation))
	}
}

// checkNode refuses actions that would interfere with what Ironic is doing, or that Ironic would
// refuse.
func (*power) checkNode(host *metal3.BareMetalHost, node *ironic.Node, request *metal3.HostPower) error {
	underWay := isUnderWay(request.Spec.Action, node)
	switch {
	case node.ProvisionState == ironic.Enroll || node.ProvisionState == ironic.Verifying:
		return notVerified(host, node)
	case underWay && powerTarget(request.Spec) == ironic.TargetPowerOff:
		return tooMany(fmt.Sprintf("baremetalhost %q: %s", host.Name, hardOffMustWait))
	case underWay:
		return nil
	case node.Reservation != "":
		return locked(host, node)
	case node.ProvisionState.IsInTransit():
		return busy(host, node, "that has ended")
	}
	return nil
}

// write sets spec.online before Ironic is asked. So even if the server dies in between, the
// controller does not undo the action. Where spec.online says so already, it is recorded that it is meant.
func (p *power) write(ctx context.Context, _ Ironic, host *metal3.BareMetalHost, node *ironic.Node, request *metal3.HostPower, dryRun bool) (*metal3.BareMetalHost, error) {
	if request.Spec.Action == metal3.PowerActionReboot {
		return p.requestReboot(ctx, host, node, request, dryRun)
	}
	online, asIs := request.Spec.Action != metal3.PowerActionOff, false
	if asIs = host.Spec.Online == online; asIs && !online && !dryRun {
		newest, err := p.stillMayGoOff(ctx, host, request)
		if err != nil {
			return nil, err
		}
		asIs = !newest.Spec.Online
	}
	cut := isCut(request, node) && !dryRun
	if cut {
		if err := p.cuts.record(ctx, host, node); err != nil {
			return nil, err
		}
	}
	if asIs {
		if !online {
			warnOfConsumer(ctx, host)
		}
		if lifecycle.KeepsPower(host) && !cut && !dryRun {
			return host, p.cuts.countOnline(ctx, host)
		}
		return host, nil
	}
	written, err := changeHost(ctx, p.hosts.User, host, dryRun, func(h *metal3.BareMetalHost) error {
		err := p.checkHost(h, request) // Ironic may have taken long to show the node
		h.Spec.Online = online
		return err
	})
	if err == nil && !online {
		warnOfConsumer(ctx, written)
	}
	if err != nil && cut {
		p.cuts.forget(ctx, host)
	}
	return written, err
}

// stillMayGoOff looks at a host once more that was to be off, before its machine is switched off: it may be to be on by now.
func (p *power) stillMayGoOff(ctx context.Context, host *metal3.BareMetalHost, request *metal3.HostPower) (*metal3.BareMetalHost, error) {
	newest, err := p.Hosts.Get(ctx, host.Namespace, host.Name)
	if err == nil {
		err = checkSame(host, newest)
	}
	if err == nil {
		err = p.checkHost(newest, request)
	}
	return newest, err
}

// isCut reports whether the power of a machine is to be cut that may be on, or may come on.
func isCut(request *metal3.HostPower, node *ironic.Node) bool {
	return powerTarget(request.Spec) == ironic.TargetPowerOff && (node.PowerState != ironic.PowerOff || node.TargetPowerState != "")
}

// act asks Ironic to switch the power, unless it is doing so already.
func (p *power) act(ctx context.Context, asked Ironic, host, written *metal3.BareMetalHost, node *ironic.Node, request *metal3.HostPower) error {
	if isUnderWay(request.Spec.Action, node) {
		reportUnderWay(request)
		return nil
	}
	if isRebootRequested(host, written, request) {
		request.Status.Mode = request.Spec.Mode
		request.Status.Message = "the host is switched off and on by way of the annotation " + metal3.RebootAnnotation + ", so that changes can be made that its HostUpdatePolicy permits"
		return nil
	}
	switch left, err := p.leaveToController(ctx, host, node, request); {
	case err != nil:
		return onlineWritten(host, written, err)
	case left:
		return nil
	}
	target, powerOn := powerTarget(request.Spec), ""
	if lifecycle.MaySwitchOn(target) {
		powerOn = string(uuid.NewUUID())
		if err := p.beginPowerOn(ctx, powerOn, host, written, node, request); err != nil {
			return err
		}
	}
	used, softRefusal, err := asked.SwitchPower(ctx, ironic.NoFence, node.UUID, target)
	refused := refusalOf(host, err)
	if powerOn != "" && (err == nil || ironic.IsNotCarriedOut(err)) {
		if err != nil {
			used = ""
		}
		p.cuts.endPowerOn(ctx, host, powerOn, used)
	}
	if isCut(request, node) && (err == nil || ironic.IsNotCarriedOut(err)) {
		p.cuts.answered(ctx, host)
	}
	switch {
	case err == nil:
		if used != target {
			request.Status.Mode = metal3.PowerModeHard
			request.Status.Message = "soft was refused, hard was used instead: " + softRefusal
		}
		return nil
	case ironic.IsWithoutConductor(err) && request.Spec.Action != metal3.PowerActionReboot:
		// The controller switches the host when there is one again: who fences a machine must not have to come back for that.
		return store.Unavailable(host.Name, fmt.Sprintf("Ironic has no conductor for the node at the moment: %s; spec.online is %t now", ironic.ReasonOf(err), request.Spec.Action == metal3.PowerActionOn))
	case ironic.IsLocked(err):
		return p.lockedMeanwhile(ctx, asked, host, node, request, err)
	case refused != nil:
		if target == ironic.TargetPowerOff {
			p.cuts.forget(ctx, host)
		}
		return p.restoreOnline(ctx, host, written, refused)
	case request.Spec.Action == metal3.PowerActionReboot:
		return outcomeUnknown(host, err, "whether the host is being rebooted is not known, look before you try again (GET of its subresource power)")
	}
	// Unlike a reboot, the actions on and off can safely be repeated, so this error has a Retry-After.
	return store.Unavailable(host.Name, fmt.Sprintf("Ironic did not confirm it: %s; spec.online is %t now, try again to act at once", ironic.ReasonOf(err), request.Spec.Action != metal3.PowerActionOff))
}

// beginPowerOn records that Ironic is about to be asked to switch the machine on, in one write with a look at the newest host: one that
// somebody has fenced or switched off while Ironic was asked for the node is not switched on, because what ran on it may have been started
// elsewhere. What write has written is taken back then, unless somebody has changed it.
func (p *power) beginPowerOn(ctx context.Context, id string, host, written *metal3.BareMetalHost, node *ironic.Node, request *metal3.HostPower) error {
	var refused, toBeOff error
	err := p.cuts.change(ctx, host, func(newest *metal3.BareMetalHost) error {
		if refused = checkSame(host, newest); refused == nil && newest.Spec.Online {
			refused = p.checkHost(newest, request)
		}
		switch {
		case refused != nil:
			return refused
		case !newest.Spec.Online:
			toBeOff = conflict(host, errors.New("spec.online was set to false meanwhile: it is to be off"))
			return toBeOff
		}
		lifecycle.BeginPowerOn(newest, id, node.UUID, time.Now())
		return nil
	})
	switch {
	case refused != nil:
		return p.restoreOnline(ctx, host, written, refused)
	case toBeOff != nil:
		return toBeOff
	}
	return onlineWritten(host, written, err)
}

// onlineWritten returns err, unless the host is there. Then it also says what was written, which the controller acts on.
func onlineWritten(host, written *metal3.BareMetalHost, err error) error {
	if err == nil || written == host || apierrors.IsNotFound(err) {
		return err
	}
	return store.Unavailable(host.Name, fmt.Sprintf("%v; spec.online is true now, try again to act at once", err))
}

// leaveToController reports whether the controller is to switch the host on, as spec.online asks for now:
// a host with a DataImage is switched on only when the image is in its virtual drive, and one whose
// settings may be changed at a reboot only when they have been changed. What the controller would not do
// now, but unasked when a pause, a maintenance or a hold ends, is left to Ironic.
func (p *power) leaveToController(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node, request *metal3.HostPower) (bool, error) {
	if request.Spec.Action != metal3.PowerActionOn || node.PowerState != ironic.PowerOff || !host.Status.Provisioning.State.RunsSomething() || !lifecycle.SwitchesOn(host, node) {
		return false, nil
	}
	serviced, err := p.isServicedAtReboot(ctx, host)
	if err != nil {
		return false, err
	}
	image, err := p.images.Get(ctx, host.Namespace, host.Name)
	none := apierrors.IsNotFound(err) || err == nil && lifecycle.IsOfFormerHost(host, image)
	switch {
	case none && serviced:
		request.Status.Mode = ""
		request.Status.Message = "the host is switched on when the changes have been made that its HostUpdatePolicy permits"
		return true, nil
	case none:
		return false, nil
	}
	if err == nil {
		request.Status.Mode = ""
		request.Status.Message = "the host is switched on as soon as its DataImage is attached; if that fails, status.error of the DataImage and the host say why"
	}
	return true, err
}

// restoreOnline restores spec.online after the action was refused, unless somebody has
// changed the spec since write. It returns refused, or an error that also says that the spec could
// not be restored.
func (p *power) restoreOnline(ctx context.Context, host, written *metal3.BareMetalHost, refused error) (err error) {
	switch {
	case lifecycle.KeepsPower(host):
		err = p.cuts.keepPower(ctx, host, written)
	case written != host:
		err = undoChange(ctx, p.hosts.Own, host, func(h *metal3.BareMetalHost) {
			if h.Generation == written.Generation {
				h.Spec.Online = host.Spec.Online
			}
		})
	}
	switch {
	case err == nil, apierrors.IsNotFound(err):
		return refused
	case written == host:
		return apierrors.NewInternalError(fmt.Errorf("%w; and the machine, which runs although spec.online is false, may be switched off, because this could not be taken back: %w", refused, err))
	}
	return apierrors.NewInternalError(fmt.Errorf("%w; and spec.online could not be set back to %t: %w", refused, host.Spec.Online, err))
}

// powerTarget returns the target that Ironic is asked for.
func powerTarget(spec metal3.HostPowerSpec) ironic.PowerTarget {
	soft := spec.Mode == metal3.PowerModeSoft
	switch {
	case spec.Action == metal3.PowerActionOn:
		return ironic.TargetPowerOn
	case spec.Action == metal3.PowerActionOff && soft:
		return ironic.TargetSoftPowerOff
	case spec.Action == metal3.PowerActionOff:
		return ironic.TargetPowerOff
	case soft:
		return ironic.TargetSoftReboot
	}
	return ironic.TargetReboot
}

func (*power) describe(request *metal3.HostPower, _ *metal3.BareMetalHost, node *ironic.Node) {
	request.Status.PowerState = string(node.PowerState)
	request.Status.TargetPowerState = string(node.TargetPowerState)
	request.Status.LastError = node.LastError
}
