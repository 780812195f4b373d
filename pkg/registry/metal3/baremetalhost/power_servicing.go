// SPDX-License-Identifier: Apache-2.0

package baremetalhost

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// isServicedAtReboot reports whether settings of the host, which runs something, may be changed when it
// is switched on. The controller does that then. It does nothing for a paused host.
func (p *power) isServicedAtReboot(ctx context.Context, host *metal3.BareMetalHost) (bool, error) {
	if metal3.IsPaused(host) || host.Spec.DisablePowerOff || !host.Status.Provisioning.State.RunsSomething() {
		return false, nil
	}
	policy, err := p.policies.Get(ctx, host.Namespace, host.Name)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, err
	}
	return policy.Spec.FirmwareSettings == metal3.UpdateOnReboot || policy.Spec.FirmwareUpdates == metal3.UpdateOnReboot, nil
}

// requestReboot has the controller reboot the host, by the annotation for that, if settings may be
// changed on the way. Otherwise it returns the host as it is: Ironic reboots it then.
func (p *power) requestReboot(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node, request *metal3.HostPower, dryRun bool) (*metal3.BareMetalHost, error) {
	serviced, err := p.isServicedAtReboot(ctx, host)
	if err != nil || !serviced || node.PowerState != ironic.PowerOn || isLeftAlone(host) {
		return host, err
	}
	return changeHost(ctx, p.hosts.User, host, dryRun, func(h *metal3.BareMetalHost) {
		metav1.SetMetaDataAnnotation(&h.ObjectMeta, metal3.RebootAnnotation, fmt.Sprintf(`{"mode":%q}`, request.Spec.Mode))
	})
}

// isRebootRequested reports whether requestReboot has changed the host to written.
func isRebootRequested(host, written *metal3.BareMetalHost, request *metal3.HostPower) bool {
	return request.Spec.Action == metal3.PowerActionReboot && written != host
}
