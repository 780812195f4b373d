package baremetalhost

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/validation"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// softTimeout is how long Ironic waits for the operating system to shut down.
const softTimeout = 180 * time.Second

// PowerREST serves baremetalhosts/power: POST switches, GET reads.
type PowerREST struct {
	hosts *REST
	nodes Nodes
	actionTable
}

// NewPowerREST returns the power subresource of hosts.
func NewPowerREST(hosts *REST, nodes Nodes) *PowerREST { return &PowerREST{hosts: hosts, nodes: nodes} }

var (
	_ rest.NamedCreater   = &PowerREST{}
	_ rest.Getter         = &PowerREST{}
	_ rest.TableConvertor = &PowerREST{}
)

// New returns an empty HostPower.
func (*PowerREST) New() runtime.Object { return &metal3.HostPower{} }

// Destroy has nothing to destroy.
func (*PowerREST) Destroy() {}

// Get tells what Ironic says of the power now.
func (r *PowerREST) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, actionTimeout)
	defer cancel()
	host, node, err := hostAndNode(ctx, r.hosts, r.nodes, name)
	if err != nil {
		return nil, err
	}
	power := &metal3.HostPower{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: host.Namespace}}
	describePower(power, node)
	return power, nil
}

// Create hands a power action to Ironic. On and off also set spec.online, before
// Ironic is asked: from then on the spec wants what the action does, whoever dies
// in between.
func (r *PowerREST) Create(ctx context.Context, name string, obj runtime.Object, createValidation rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	power, ok := obj.(*metal3.HostPower)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not a HostPower: %T", obj))
	}
	power.Status = metal3.HostPowerStatus{}
	err := admit(ctx, "HostPower", name, power, &power.ObjectMeta, createValidation, func() field.ErrorList { return validation.ValidateHostPower(power) })
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, actionTimeout)
	defer cancel()
	host, err := recordedHost(ctx, r.hosts, name)
	if err != nil {
		return nil, err
	}
	if err := checkWill(host, power); err != nil {
		return nil, err
	}
	node, err := nodeOf(ctx, r.hosts, r.nodes, host)
	if err != nil {
		return nil, err
	}
	if err := checkPowerAllowed(host, node); err != nil {
		return nil, err
	}
	if dryrun.IsDryRun(options.DryRun) {
		describePower(power, node)
		power.Status.Mode = power.Spec.Mode
		return power, nil
	}
	if err := r.act(ctx, host, node, power); err != nil {
		return nil, err
	}
	// What the action changed is recorded for everybody, and shown to this caller.
	_ = r.hosts.live.RefreshHost(ctx, host.Namespace, name) // too late for an error: Ironic has accepted
	if after, err := nodeOf(ctx, r.hosts, r.nodes, host); err == nil {
		node = after
	}
	describePower(power, node)
	return power, nil
}

// act brings the spec in step and then asks Ironic. When Ironic refuses, the spec
// is put back, unless somebody has changed it since.
func (r *PowerREST) act(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node, power *metal3.HostPower) error {
	online := power.Spec.Action != metal3.PowerActionOff
	changed := host.Spec.Online != online
	written := host
	if changed {
		var err error
		if written, err = updateHost(ctx, r.hosts, host.Name, &metav1.UpdateOptions{}, func(h *metal3.BareMetalHost) error {
			h.Spec.Online = online
			return nil
		}); err != nil {
			return err
		}
	}
	err := r.switchPower(ctx, node, power)
	if err == nil {
		return nil
	}
	if changed && isRefusal(err) {
		undo := context.WithoutCancel(ctx)
		_, undoErr := updateHost(undo, r.hosts, host.Name, &metav1.UpdateOptions{}, func(h *metal3.BareMetalHost) error {
			if h.Generation == written.Generation {
				h.Spec.Online = host.Spec.Online
			}
			return nil
		})
		if undoErr != nil {
			return apierrors.NewInternalError(fmt.Errorf("baremetalhost %q: %w; and spec.online could not be set back to %t: %w", host.Name, err, host.Spec.Online, undoErr))
		}
	}
	if changed && !isRefusal(err) {
		return unavailableAfterWill(host, online, err)
	}
	if power.Spec.Action == metal3.PowerActionReboot && !isRefusal(err) {
		// Perhaps it has begun: with a Retry-After, clients would reboot the host again.
		return apierrors.NewTimeoutError(fmt.Sprintf("baremetalhost %q: Ironic did not answer: %s; whether the host is being rebooted is not known, look before you try again", host.Name, ironic.ReasonOf(err)), 0)
	}
	return ironicError(host, err)
}

// isRefusal tells whether Ironic has certainly not begun the action. After a
// time-out or a broken connection it may have, and spec.online stays what the
// user asked for.
func isRefusal(err error) bool {
	return ironic.IsLocked(err) || ironic.IsNotFound(err) || ironic.IsBadRequest(err) || ironic.IsConflict(err)
}

func unavailableAfterWill(host *metal3.BareMetalHost, online bool, err error) error {
	status := apierrors.NewServiceUnavailable(fmt.Sprintf("baremetalhost %q: Ironic did not answer: %s; spec.online is %t now, try again to act at once", host.Name, ironic.ReasonOf(err), online))
	status.ErrStatus.Details = &metav1.StatusDetails{
		Group: metal3.GroupName, Kind: "baremetalhosts", Name: host.Name, RetryAfterSeconds: int32(awayRetry.Seconds()),
	}
	return status
}

// switchPower asks Ironic, and falls back to hard where the driver has no soft
// power-off; Ironic answers that with 400.
func (r *PowerREST) switchPower(ctx context.Context, node *ironic.Node, power *metal3.HostPower) error {
	soft := power.Spec.Mode == metal3.PowerModeSoft
	power.Status.Mode = power.Spec.Mode
	err := r.nodes.SetPowerState(ctx, node.UUID, powerTarget(power.Spec.Action, soft), powerTimeout(soft))
	if soft && ironic.IsBadRequest(err) {
		refusal := err
		if err = r.nodes.SetPowerState(ctx, node.UUID, powerTarget(power.Spec.Action, false), 0); err == nil {
			power.Status.Mode = metal3.PowerModeHard
			power.Status.Message = "soft was refused, hard was used instead: " + wordsOf(refusal)
		}
	}
	return err
}

func powerTarget(action metal3.PowerAction, soft bool) ironic.PowerTarget {
	switch {
	case action == metal3.PowerActionOn:
		return ironic.TargetPowerOn
	case action == metal3.PowerActionOff && soft:
		return ironic.TargetSoftPowerOff
	case action == metal3.PowerActionOff:
		return ironic.TargetPowerOff
	case soft:
		return ironic.TargetSoftReboot
	}
	return ironic.TargetReboot
}

func powerTimeout(soft bool) time.Duration {
	if soft {
		return softTimeout
	}
	return 0
}

// checkWill refuses an action that the spec would undo.
func checkWill(host *metal3.BareMetalHost, power *metal3.HostPower) error {
	switch {
	case !host.DeletionTimestamp.IsZero():
		return conflict(host, fmt.Errorf("it is being deleted"))
	case power.Spec.Action == metal3.PowerActionOff && host.Spec.DisablePowerOff:
		return apierrors.NewInvalid(metal3.Kind("HostPower"), host.Name, field.ErrorList{
			field.Forbidden(field.NewPath("spec", "action"), "spec.disablePowerOff of the host is true: it can only be rebooted")})
	case power.Spec.Action == metal3.PowerActionReboot && !host.Spec.Online:
		return conflict(host, fmt.Errorf("it is to be off (spec.online is false): use the action on"))
	}
	return nil
}

// checkPowerAllowed refuses what would disturb Ironic, or be refused by it.
func checkPowerAllowed(host *metal3.BareMetalHost, node *ironic.Node) error {
	switch {
	case node.ProvisionState == ironic.Enroll || node.ProvisionState == ironic.Verifying:
		return conflict(host, fmt.Errorf("its BMC has not been verified (Ironic: %s); see its status for what is missing%s", node.ProvisionState, because(host)))
	case node.Reservation != "":
		return locked(host, node)
	case isInTransit(node):
		return conflict(host, fmt.Errorf("Ironic is busy with it (%s, target %s); wait until that has ended", node.ProvisionState, node.TargetProvisionState))
	}
	return nil
}

// isInTransit tells whether an operation is under way. Ironic sets the target in
// failed states too, and there the power may be switched.
func isInTransit(node *ironic.Node) bool {
	if node.TargetProvisionState == "" {
		return false
	}
	switch node.ProvisionState {
	case ironic.DeployFail, ironic.CleanFail, ironic.InspectFail, ironic.AdoptFail, ironic.RescueFail, ironic.UnrescueFail, ironic.ServiceFail, ironic.Error:
		return false
	}
	return true
}

func describePower(power *metal3.HostPower, node *ironic.Node) {
	power.Status.PowerState = string(node.PowerState)
	power.Status.TargetPowerState = string(node.TargetPowerState)
	power.Status.LastError = node.LastError
}
