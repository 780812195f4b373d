// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/secrets"
)

// releases takes the last step for a host that is being deleted.
type releases struct {
	hosts    Hosts
	secrets  *secrets.Secrets
	hardware HardwareStore
}

// release releases the Secrets first: once the host is gone, nobody would remember them.
func (r *releases) release(ctx context.Context, task Task) (Outcome, error) {
	host := task.Host
	if missing := task.Step.Secret; missing != "" {
		if exists, err := r.secrets.Exists(ctx, host.Namespace, missing); exists || err != nil {
			return Outcome{}, cmp.Or(err, ErrUnseen)
		}
	}
	for _, name := range sets.List(sets.New(namesOfSecrets(host)...).Insert(r.secrets.HeldFor(host)...)) {
		if err := r.secrets.Release(ctx, host, name); err != nil {
			return Outcome{}, fmt.Errorf("releasing Secret %s/%s: %w", host.Namespace, name, err)
		}
	}
	if err := r.hardware.RemoveFinalizer(ctx, host.Namespace, host.Name, metal3.HardwareDataFinalizer); err != nil {
		return Outcome{}, fmt.Errorf("releasing HardwareData %s/%s: %w", host.Namespace, host.Name, err)
	}
	updated := host.DeepCopy()
	updated.Finalizers = slices.DeleteFunc(updated.Finalizers, func(f string) bool { return f == metal3.BareMetalHostFinalizer })
	_, err := r.hosts.Update(ctx, updated)
	return Outcome{}, live.IgnoreNotFound(err)
}

// namesOfSecrets returns the names of the Secrets that may have the finalizer because of a host. This server puts it on those of BMCs.
// The Bare Metal Operator puts it on that of the ramdisk's network, too, since 0.14, and has it stay there after a migration.
func namesOfSecrets(host *metal3.BareMetalHost) []string {
	names := sets.New(host.Spec.BMC.CredentialsName, host.Spec.PreprovisioningNetworkDataName)
	if tried := host.Status.TriedCredentials.Reference; tried != nil {
		names.Insert(tried.Name)
	}
	return sets.List(names.Delete(""))
}
