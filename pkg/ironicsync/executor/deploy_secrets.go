// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/deploy"
)

// checkSecrets returns what is wrong with the Secrets that the deployment of a host needs. They are read again when it begins, which
// is after the cleaning and may be an hour later.
func (d *deployments) checkSecrets(ctx context.Context, host *metal3.BareMetalHost) error {
	if _, err := d.pullSecret(ctx, host); err != nil {
		return err
	}
	_, err := d.configDrive(ctx, host)
	return err
}

// configDrive reads the Secrets of the config drive and builds it.
func (d *deployments) configDrive(ctx context.Context, host *metal3.BareMetalHost) (map[string]any, error) {
	var sources deploy.ConfigSources
	named := deploy.ConfigSecrets(host)
	for role, into := range map[deploy.ConfigRole]*map[string][]byte{
		deploy.UserData: &sources.UserData, deploy.NetworkData: &sources.NetworkData, deploy.MetaData: &sources.MetaData,
		deploy.PreprovisioningNetworkData: &sources.PreprovisioningNetworkData,
	} {
		name, ok := named[role]
		if !ok {
			continue
		}
		secret, err := d.secrets.Data(ctx, host.Namespace, name)
		if apierrors.IsNotFound(err) {
			return nil, &blocked{fmt.Sprintf("Secret %q with the %s does not exist in namespace %q", name, role, host.Namespace)}
		}
		if err != nil {
			return nil, fmt.Errorf("reading Secret %s/%s with the %s: %w", host.Namespace, name, role, err)
		}
		*into = secret.Data
	}
	drive, err := deploy.ConfigDrive(host, sources)
	if err != nil {
		return nil, &blocked{err.Error()}
	}
	return drive, nil
}

// pullSecret reads the credentials for the registry of an image; empty when the
// host names none.
func (d *deployments) pullSecret(ctx context.Context, host *metal3.BareMetalHost) (string, error) {
	image := host.Spec.Image
	if image == nil || !deploy.IsOCI(image.URL) || image.OCIAuthSecretName == nil || *image.OCIAuthSecretName == "" {
		return "", nil // of an image from elsewhere, it means nothing
	}
	secret, err := d.secrets.Data(ctx, host.Namespace, *image.OCIAuthSecretName)
	if apierrors.IsNotFound(err) {
		return "", &blocked{fmt.Sprintf("Secret %q with the registry's credentials does not exist in namespace %q", *image.OCIAuthSecretName, host.Namespace)}
	}
	if err != nil {
		return "", fmt.Errorf("reading Secret %s/%s with the registry's credentials: %w", host.Namespace, *image.OCIAuthSecretName, err)
	}
	credentials, err := deploy.PullSecret(image.URL, string(secret.Type), secret.Data)
	if err != nil {
		return "", &blocked{fmt.Sprintf("Secret %q: %s", *image.OCIAuthSecretName, err)}
	}
	return credentials, nil
}
