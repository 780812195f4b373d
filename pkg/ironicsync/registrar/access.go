// SPDX-License-Identifier: Apache-2.0

package registrar

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/secrets"
)

// prepare gathers what Ironic is to be told of a host. The node is nil if it is yet to be created.
func (r *Registrar) prepare(ctx context.Context, fence ironic.Fence, host *metal3.BareMetalHost, node *ironic.Node) (reg registration, err error) {
	reg.host, reg.fence = host, fence
	if tried := host.Status.TriedCredentials.Reference; tried != nil {
		reg.former = tried.Name
	}
	access, err := r.accessTo(ctx, host)
	if err != nil {
		return reg, err
	}
	if reg.credentials, err = r.claimCredentials(ctx, host); err != nil {
		return reg, err
	}
	if reg.wanted, err = r.requirements.wantedOf(ctx, host, access); err != nil {
		return reg, err
	}
	if node == nil || lifecycle.IsIdle(node.ProvisionState) {
		err = r.requirements.readNetwork(ctx, host, reg.wanted)
	}
	return reg, err
}

// accessTo is how Ironic reaches the host's BMC.
func (r *Registrar) accessTo(ctx context.Context, host *metal3.BareMetalHost) (bmc.Access, error) {
	access, err := bmc.Parse(host.Spec.BMC.Address, host.Spec.BMC.DisableCertificateVerification)
	if err != nil {
		return access, &problem{metal3.InvalidAddressReason, err.Error()}
	}
	scheme := access.Scheme
	if access.IsPlainHTTP() {
		scheme += "+http"
	}
	if err := r.settings.BMCs.Check(ctx, scheme, access.Host()); err != nil {
		return access, &problem{metal3.AddressNotAllowedReason, "spec.bmc.address: " + err.Error()}
	}
	return access, nil
}

func (r *Registrar) claimCredentials(ctx context.Context, host *metal3.BareMetalHost) (secrets.Credentials, error) {
	credentials, err := r.Secrets.Claim(ctx, host)
	incomplete := new(secrets.IncompleteError)
	switch {
	case err == nil:
		return credentials, nil
	case apierrors.IsNotFound(err):
		return secrets.Credentials{}, errSecretGone
	case errors.As(err, &incomplete):
		return secrets.Credentials{}, &problem{metal3.SecretIncompleteReason, incomplete.Error()}
	}
	return secrets.Credentials{}, fmt.Errorf("claiming Secret %s/%s: %w", host.Namespace, host.Spec.BMC.CredentialsName, err)
}
