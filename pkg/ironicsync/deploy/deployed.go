// SPDX-License-Identifier: Apache-2.0

package deploy

import metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"

// AsDeployed returns a provisioned host whose spec is what was deployed on it, or nil if this server has
// deployed nothing on it.
func AsDeployed(host *metal3.BareMetalHost) *metal3.BareMetalHost {
	if host.Status.Provisioning.State != metal3.StateProvisioned || !Deployed(host) {
		return nil
	}
	deployed := host.DeepCopy()
	deployed.Spec.CustomDeploy = host.Status.Provisioning.CustomDeploy.DeepCopy()
	deployed.Spec.Image = nil
	if image := host.Status.Provisioning.Image; image.URL != "" {
		deployed.Spec.Image = image.DeepCopy()
	}
	return deployed
}
