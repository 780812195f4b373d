// SPDX-License-Identifier: Apache-2.0

package hostclaim

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/secrets"
)

// claimLabel is the label, on copies of Secrets, with the UID of the claim that they belong to.
// Secrets without it are neither written nor deleted.
const claimLabel = "metal3.io/hostclaim"

// use is what a Secret of a claim is for. It ends the name of the copy.
type use string

const (
	userData    use = "userdata"
	networkData use = "networkdata"
	metaData    use = "metadata"
	pullSecret  use = "pullsecret"
)

// uses are all uses, with the reason of Synchronized for a Secret that cannot be copied.
var uses = map[use]string{
	userData: UserDataSecretSyncFailureReason, networkData: NetworkDataSecretSyncFailureReason,
	metaData: MetaDataSecretSyncFailureReason, pullSecret: PullSecretSyncFailureReason,
}

// data is a Secret that a claim names.
type data struct {
	use use
	// secret is the name of the Secret in the namespace of the claim, and copy that of its copy in the
	// namespace of the host. A host finds its Secrets in its own namespace only; a name that the tenant
	// has chosen must not lead it to any other Secret there.
	secret, copy string
}

func copyName(claim *metal3.HostClaim, use use) string {
	return fmt.Sprintf("hostclaim-%s-%s", claim.UID, use)
}

// dataOf returns the Secrets that a claim names.
func dataOf(claim *metal3.HostClaim) []data {
	var all []data
	add := func(use use, secret string) {
		if secret != "" { // as in a host, an empty name is none
			all = append(all, data{use, secret, copyName(claim, use)})
		}
	}
	spec := &claim.Spec
	if spec.UserData != nil {
		add(userData, spec.UserData.Name)
	}
	if spec.NetworkData != nil {
		add(networkData, spec.NetworkData.Name)
	}
	if spec.MetaData != nil {
		add(metaData, spec.MetaData.Name)
	}
	if spec.Image != nil && spec.Image.OCIAuthSecretName != nil {
		add(pullSecret, *spec.Image.OCIAuthSecretName)
	}
	return all
}

func labelsOfCopies(claim *metal3.HostClaim) map[string]string {
	return map[string]string{metal3.EnvironmentLabel: metal3.EnvironmentLabelValue, claimLabel: string(claim.UID)}
}

// copier keeps copies of what claims and hosts have in different namespaces: of the Secrets of a claim in the namespace of its host, and
// of what is known of the hardware in that of the claim.
type copier struct {
	secrets  Secrets
	hardware HardwareData
	hosts    Hosts
	fence    ironic.Fence
}

// copySecrets copies the Secrets of a claim into the namespace of its host. It returns the condition Synchronized, which is about the
// first one that cannot be copied, and empty after an error that is about none. After an error, it is to be tried again soon.
func (c copier) copySecrets(ctx context.Context, claim *metal3.HostClaim, host *metal3.BareMetalHost) (synchronized metav1.Condition, err error) {
	synchronized = condition(SynchronizedCondition, metav1.ConditionTrue, ConfigurationSyncedReason, "")
	// An owner in another namespace would be taken for one that is gone, and the copies be deleted. So
	// they belong to the host, which they do not outlive.
	owner := metal3.NewOwnerReference("BareMetalHost", host)
	for _, data := range dataOf(claim) {
		if err := c.fence.Check(); err != nil {
			return metav1.Condition{}, err
		}
		from := types.NamespacedName{Namespace: claim.Namespace, Name: data.secret}
		err := c.secrets.Copy(ctx, from, types.NamespacedName{Namespace: host.Namespace, Name: data.copy}, labelsOfCopies(claim), owner)
		switch {
		case err == nil:
			continue
		case apierrors.IsConflict(err): // somebody else writes the copy, which is looked at again at once
			return metav1.Condition{}, fmt.Errorf("copying Secret %s: %w", from, err)
		}
		message, isOfSecret := whyNotCopied(err)
		if !apierrors.IsNotFound(err) { // else the message says all that there is to say
			klog.FromContext(ctx).Error(err, "A Secret cannot be copied", "claim", klog.KObj(claim), "secret", from, "host", klog.KObj(host))
		}
		if synchronized.Status == metav1.ConditionTrue {
			synchronized = unsynchronized(uses[data.use], fmt.Sprintf("Secret %s cannot be copied: %s", data.secret, message))
		}
		switch {
		case isOfSecret:
		case apierrors.IsInternalError(err):
			return synchronized, nil // each of the others would wait as long for the webhook
		default:
			return synchronized, fmt.Errorf("copying Secret %s: %w", from, err)
		}
	}
	return synchronized, nil
}

// whyNotCopied says why a Secret cannot be copied. The error may have words about the host's namespace, of which the tenant is told
// nothing. isOfSecret reports whether other Secrets may be copied all the same.
func whyNotCopied(err error) (message string, isOfSecret bool) {
	switch {
	case apierrors.IsNotFound(err):
		return "it does not exist", true
	case secrets.LacksRight(err):
		return "the server may not create Secrets in the namespace of the host (ClusterRole metal3-apiserver-secret-copies)", true
	case apierrors.IsAlreadyExists(err):
		return "another Secret is in the place of the copy", true
	case secrets.IsRefusal(err), apierrors.IsRequestEntityTooLargeError(err):
		return "a quota or an admission policy of the cluster refuses the copy", true
	case apierrors.IsInternalError(err): // how kube-apiserver says that a webhook with failurePolicy Fail is down
		return "an admission webhook of the cluster does not answer, or kube-apiserver has failed", false
	}
	return "kube-apiserver does not do that at the moment", false
}

// deleteUnusedCopies deletes the copies that the host of a claim no longer names.
func (c copier) deleteUnusedCopies(ctx context.Context, claim *metal3.HostClaim, host *metal3.BareMetalHost) error {
	used := secrets.DataSecretsOf(host)
	for _, data := range dataOf(claim) {
		used = append(used, data.copy)
	}
	return c.deleteCopies(ctx, claim, host.Namespace, func(name string) bool {
		return slices.Contains(used, name) || !c.secrets.Watched(host.Namespace, name)
	})
}

// deleteCopies deletes the copies of the Secrets of a claim from a namespace, except for those to keep; nil means all.
func (c copier) deleteCopies(ctx context.Context, claim *metal3.HostClaim, namespace string, keep func(name string) bool) error {
	for use := range uses {
		copied := types.NamespacedName{Namespace: namespace, Name: copyName(claim, use)}
		if keep != nil && keep(copied.Name) {
			continue
		}
		if err := c.fence.Check(); err != nil {
			return err
		}
		if err := c.secrets.DeleteCopy(ctx, copied, map[string]string{claimLabel: string(claim.UID)}); err != nil {
			return fmt.Errorf("deleting Secret %s, a copy: %w", copied, err)
		}
	}
	return nil
}
