// SPDX-License-Identifier: Apache-2.0

package hostclaim

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/deploy"
)

const (
	// pausedByClaim is the value of PausedAnnotation on the host of a claim that is paused. Only this value
	// is ever removed.
	pausedByClaim = metal3.HostClaimFinalizer
	// claimKeyPrefix begins the keys of reboot annotations that come from a claim. Those of others are left
	// alone.
	claimKeyPrefix = "hostclaim-"
	// rebootTokenAnnotation identifies, on a claim, the reboot that it asks for, and on its host the last one
	// that was passed on. So each is passed on once, whenever this process ends.
	rebootTokenAnnotation = "metal3.io/hostclaim-reboot"
)

// isPausedByOthers reports whether somebody has paused a host, other than by pausing its claim.
func isPausedByOthers(host *metal3.BareMetalHost) bool {
	return metal3.IsPaused(host) && host.Annotations[metal3.PausedAnnotation] != pausedByClaim
}

// applier has hosts be what their claims want.
type applier struct {
	claims Claims
	hosts  Hosts
	fence  ironic.Fence
	copier copier
}

// apply writes into a host what its claim wants. It returns the host as it was written, and the condition
// Synchronized, which is empty after an error unless it says something of use to the tenant.
func (a applier) apply(ctx context.Context, claim *metal3.HostClaim, host *metal3.BareMetalHost) (*metal3.BareMetalHost, metav1.Condition, error) {
	var (
		synchronized metav1.Condition
		err          error
	)
	switch {
	case !host.DeletionTimestamp.IsZero():
		return host, unsynchronized(BareMetalHostNotSynchronizedReason, "The host is being deleted"), nil
	case isPausedByOthers(host):
		return host, unsynchronized(HostPausedReason, "The host is paused"), nil
	case metal3.IsPaused(claim):
		host, synchronized, err = a.pause(ctx, claim, host)
	case !isBoundBy(claim, host) && !canTakeOver(claim, host):
		return host, unsynchronized(BareMetalHostNotSynchronizedReason, "The host runs something that this claim has not asked for, and is left alone"), nil
	default:
		host, synchronized, err = a.passOn(ctx, claim, host)
	}
	if err != nil {
		return host, synchronized, err
	}
	if err := a.copier.deleteUnusedCopies(ctx, claim, host); err != nil {
		return host, metav1.Condition{}, err
	}
	return host, synchronized, nil
}

// pause pauses the host of a claim that is paused.
func (a applier) pause(ctx context.Context, claim *metal3.HostClaim, host *metal3.BareMetalHost) (*metal3.BareMetalHost, metav1.Condition, error) {
	updated := host.DeepCopy()
	metav1.SetMetaDataAnnotation(&updated.ObjectMeta, metal3.PausedAnnotation, pausedByClaim)
	host, refused, err := a.write(ctx, host, updated)
	if err != nil {
		return host, refused, err
	}
	if err := a.endReboot(ctx, claim, host); err != nil {
		return host, metav1.Condition{}, err
	}
	return host, unsynchronized(HostPausedReason, "The claim is paused, and so is its host"), nil
}

// passOn passes on what a claim wants of its host: power and reboots first, and what to run when its Secrets have been copied. A copy may
// take as long as the admission webhooks of the cluster do, or fail, and who fences a machine must not have to wait for that.
func (a applier) passOn(ctx context.Context, claim *metal3.HostClaim, host *metal3.BareMetalHost) (*metal3.BareMetalHost, metav1.Condition, error) {
	if err := a.beginReboot(ctx, claim); err != nil {
		return host, metav1.Condition{}, err
	}
	updated := host.DeepCopy()
	updated.Spec.ConsumerRef.UID = claim.UID
	delete(updated.Annotations, metal3.PausedAnnotation)
	setPower(updated, claim)
	if isDeploying(claim) && !deploy.WantsImage(&host.Spec) {
		// It is switched on together with its image, and not just before, when it would boot what its disks happen to have.
		updated.Spec.Online = updated.Spec.Online && host.Spec.Online
	}
	host, refused, err := a.write(ctx, host, updated)
	if err != nil {
		return host, refused, err
	}
	if err := a.endReboot(ctx, claim, host); err != nil {
		return host, metav1.Condition{}, err
	}
	synchronized, copyErr := a.copier.copySecrets(ctx, claim, host)
	updated = host.DeepCopy()
	setPower(updated, claim)
	if synchronized.Status == metav1.ConditionTrue || !isDeploying(claim) {
		setDeployment(updated, claim)
	}
	if host, refused, err = a.write(ctx, host, updated); err != nil {
		return host, refused, errors.Join(err, copyErr)
	}
	return host, synchronized, copyErr
}

// write writes a host if it has changed, and returns it as it is then. refused is the condition Synchronized if the host refuses that.
func (a applier) write(ctx context.Context, host, updated *metal3.BareMetalHost) (written *metal3.BareMetalHost, refused metav1.Condition, err error) {
	if equality.Semantic.DeepEqual(host.Spec, updated.Spec) && maps.Equal(host.Annotations, updated.Annotations) {
		return host, metav1.Condition{}, nil
	}
	if err := a.fence.Check(); err != nil {
		return host, metav1.Condition{}, err
	}
	written, err = a.hosts.Update(ctx, updated)
	switch {
	case apierrors.IsInvalid(err):
		return host, unsynchronized(BareMetalHostNotSynchronizedReason, refusalOf(err)), err
	case err != nil:
		return host, metav1.Condition{}, err
	}
	return written, metav1.Condition{}, nil
}

// canTakeOver reports whether a host that names a claim as its consumer, but was not bound by this
// controller, may become the claim's: it runs nothing, or what the claim asks for.
func canTakeOver(claim *metal3.HostClaim, host *metal3.BareMetalHost) bool {
	if host.Spec.ExternallyProvisioned {
		return false
	}
	if !deploy.WantsImage(&host.Spec) && !deploy.Deployed(host) {
		return true
	}
	wanted := host.DeepCopy()
	setDeployment(wanted, claim)
	return isDeploying(claim) && !deploy.MustDeprovision(wanted) && equality.Semantic.DeepEqual(wanted.Spec.Image, host.Spec.Image) &&
		equality.Semantic.DeepEqual(wanted.Spec.CustomDeploy, host.Spec.CustomDeploy)
}

// isDeploying reports whether a claim asks for something to run.
func isDeploying(claim *metal3.HostClaim) bool {
	return claim.Spec.Image != nil || claim.Spec.CustomDeploy != nil
}

// setDeployment sets in a host what the claim asks for to run, with the copies of its Secrets.
func setDeployment(host *metal3.BareMetalHost, claim *metal3.HostClaim) {
	spec := &host.Spec
	spec.Image, spec.CustomDeploy = claim.Spec.Image.DeepCopy(), claim.Spec.CustomDeploy.DeepCopy()
	spec.UserData, spec.NetworkData, spec.MetaData = nil, nil, nil
	for _, data := range dataOf(claim) {
		ref := &corev1.SecretReference{Namespace: host.Namespace, Name: data.copy}
		switch data.use {
		case userData:
			spec.UserData = ref
		case networkData:
			spec.NetworkData = ref
		case metaData:
			spec.MetaData = ref
		case pullSecret:
			spec.Image.OCIAuthSecretName = &ref.Name
		}
	}
}

// setPower passes on power and reboots. A host that must not be switched off stays on.
func setPower(host *metal3.BareMetalHost, claim *metal3.HostClaim) {
	host.Spec.Online = claim.Spec.PoweredOn || host.Spec.DisablePowerOff
	wanted := map[string]string{}
	for key, value := range claim.Annotations {
		if suffix, found := strings.CutPrefix(key, metal3.RebootAnnotationPrefix); found {
			wanted[rebootKey(suffix)] = value
		}
	}
	maps.DeleteFunc(host.Annotations, func(key, _ string) bool {
		_, isWanted := wanted[key]
		return strings.HasPrefix(key, metal3.RebootAnnotationPrefix+claimKeyPrefix) && !isWanted
	})
	for key, value := range wanted {
		metav1.SetMetaDataAnnotation(&host.ObjectMeta, key, value)
	}
	if value, asks := claim.Annotations[metal3.RebootAnnotation]; asks && !isPassedOn(claim, host) {
		metav1.SetMetaDataAnnotation(&host.ObjectMeta, metal3.RebootAnnotation, value)
		metav1.SetMetaDataAnnotation(&host.ObjectMeta, rebootTokenAnnotation, claim.Annotations[rebootTokenAnnotation])
	}
}

// rebootKey returns the annotation of a host for the reboot annotation of its claim with a key.
func rebootKey(key string) string {
	name := claimKeyPrefix + key
	if len(validation.IsQualifiedName(metal3.RebootAnnotationPrefix+name)) > 0 { // it is too long
		name = fmt.Sprintf("%s%x", claimKeyPrefix, sha256.Sum256([]byte(key)))[:len(claimKeyPrefix)+32]
	}
	return metal3.RebootAnnotationPrefix + name
}

// isPassedOn reports whether the host of a claim has got the reboot that the claim asks for.
func isPassedOn(claim *metal3.HostClaim, host *metal3.BareMetalHost) bool {
	return host.Annotations[rebootTokenAnnotation] == claim.Annotations[rebootTokenAnnotation]
}

// beginReboot gives the reboot that a claim asks for a token.
func (a applier) beginReboot(ctx context.Context, claim *metal3.HostClaim) error {
	_, asks := claim.Annotations[metal3.RebootAnnotation]
	if _, begun := claim.Annotations[rebootTokenAnnotation]; !asks || begun {
		return nil
	}
	return a.annotate(ctx, claim, func(annotations map[string]string) { annotations[rebootTokenAnnotation] = string(uuid.NewUUID()) })
}

// endReboot removes the annotation that asks for a reboot from a claim when its host has it.
func (a applier) endReboot(ctx context.Context, claim *metal3.HostClaim, host *metal3.BareMetalHost) error {
	if _, begun := claim.Annotations[rebootTokenAnnotation]; !begun || !isPassedOn(claim, host) {
		return nil
	}
	return a.annotate(ctx, claim, func(annotations map[string]string) {
		delete(annotations, metal3.RebootAnnotation)
		delete(annotations, rebootTokenAnnotation)
	})
}

// annotate changes the annotations of a claim, which has some.
func (a applier) annotate(ctx context.Context, claim *metal3.HostClaim, change func(map[string]string)) error {
	updated := claim.DeepCopy()
	change(updated.Annotations)
	recorded, err := a.claims.Update(ctx, updated)
	if err != nil {
		return err
	}
	recorded.DeepCopyInto(claim)
	return nil
}

// refusalOf says why a host was refused, as far as that concerns fields that its claim has, too: the
// tenant must not see the others.
func refusalOf(err error) string {
	message := "The host refuses it"
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return message
	}
	for _, cause := range status.Status().Details.Causes {
		for _, field := range []string{"spec.image", "spec.customDeploy", "spec.online"} {
			if strings.HasPrefix(cause.Field, field) {
				return fmt.Sprintf("%s: %s: %s", message, cause.Field, cause.Message)
			}
		}
	}
	return message
}
