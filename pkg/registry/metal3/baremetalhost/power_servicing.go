// SPDX-License-Identifier: Apache-2.0

package baremetalhost

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
)

// isServicedAtReboot reports whether settings of the host, which runs something, may be changed when it
// is switched on. The controller does that then, unless the host is held.
func (p *power) isServicedAtReboot(ctx context.Context, host *metal3.BareMetalHost) (bool, error) {
	if host.Status.Record.Hold != nil || host.Spec.DisablePowerOff || !host.Status.Provisioning.State.RunsSomething() {
		return false, nil
	}
	policy, err := p.policies.Get(ctx, host.Namespace, host.Name)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, err
	case lifecycle.IsOfFormerHost(host, policy):
		return false, nil
	}
	return policy.Spec.FirmwareSettings == metal3.UpdateOnReboot || policy.Spec.FirmwareUpdates == metal3.UpdateOnReboot, nil
}

// requestReboot has the controller reboot the host, by the annotation for that, if settings may be
// changed on the way. Otherwise it returns the host as it is: Ironic reboots it then. So it does if the
// annotation would wait, perhaps for days, and reboot the host when nobody expects that any more: also
// while the BMC does not answer, for which Ironic has put the node into maintenance.
func (p *power) requestReboot(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node, request *metal3.HostPower, dryRun bool) (*metal3.BareMetalHost, error) {
	if node.PowerState != ironic.PowerOn || node.Fault == ironic.FaultPowerFailure || !lifecycle.SwitchesOn(host, node) {
		return host, nil
	}
	serviced, err := p.isServicedAtReboot(ctx, host)
	if err != nil || !serviced {
		return host, err
	}
	return changeHost(ctx, p.hosts.User, host, dryRun, func(h *metal3.BareMetalHost) error {
		metav1.SetMetaDataAnnotation(&h.ObjectMeta, metal3.RebootAnnotation, fmt.Sprintf(`{"mode":%q}`, request.Spec.Mode))
		return p.checkHost(h, request)
	})
}

// isRebootRequested reports whether requestReboot has changed the host to written.
func isRebootRequested(host, written *metal3.BareMetalHost, request *metal3.HostPower) bool {
	return request.Spec.Action == metal3.PowerActionReboot && written != host
}
