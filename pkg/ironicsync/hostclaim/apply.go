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
	"k8s.io/apimachinery/pkg/util/validation"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/controller"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/deploy"
)

const (
	// pausedByClaim is the value of PausedAnnotation on the host of a claim that is paused. Only this value
	// is ever removed.
	pausedByClaim = metal3.HostClaimFinalizer
	// claimKeyPrefix begins the keys of reboot annotations that come from a claim. Those of others are left
	// alone.
	claimKeyPrefix = "hostclaim-"
)

func isPaused(claim *metal3.HostClaim) bool { return controller.IsPaused(claim) }

// isPausedByOthers tells whether somebody has paused a host, other than by pausing its claim.
func isPausedByOthers(host *metal3.BareMetalHost) bool {
	return controller.IsPaused(host) && host.Annotations[metal3.PausedAnnotation] != pausedByClaim
}

// apply has a host be as its claim wants it. It returns the host as it was written, and the condition
// Synchronized. If the host was refused, the error says so, too.
func (c *Controller) apply(ctx context.Context, claim *metal3.HostClaim, host *metal3.BareMetalHost) (*metal3.BareMetalHost, metav1.Condition, error) {
	synchronized := condition(SynchronizedCondition, metav1.ConditionTrue, ConfigurationSyncedReason, "")
	updated := host.DeepCopy()
	switch {
	case !host.DeletionTimestamp.IsZero():
		return host, unsynchronized(BareMetalHostNotSynchronizedReason, "The host is being deleted"), nil
	case isPausedByOthers(host):
		return host, unsynchronized(HostPausedReason, "The host is paused"), nil
	case isPaused(claim):
		setAnnotation(updated, metal3.PausedAnnotation, pausedByClaim)
		synchronized = unsynchronized(HostPausedReason, "The claim is paused, and so is its host")
	case !isBoundBy(claim, host) && !canTakeOver(claim, host):
		return host, unsynchronized(BareMetalHostNotSynchronizedReason, "The host runs something that this claim has not asked for, and is left alone"), nil
	default:
		problem, err := c.copySecrets(ctx, claim, host)
		if err != nil {
			return host, synchronized, err
		}
		updated.Spec.ConsumerRef.UID = claim.UID
		delete(updated.Annotations, metal3.PausedAnnotation)
		setPower(updated, claim)
		if problem == nil || !isDeploying(claim) {
			setDeployment(updated, claim)
		}
		if problem != nil {
			synchronized = *problem
		}
	}
	if equality.Semantic.DeepEqual(host.Spec, updated.Spec) && maps.Equal(host.Annotations, updated.Annotations) {
		return host, synchronized, c.deleteUnusedCopies(ctx, claim, host)
	}
	if err := ironic.CheckPrecondition(ctx); err != nil {
		return host, synchronized, err
	}
	written, err := c.Hosts.Update(ctx, updated)
	if apierrors.IsInvalid(err) {
		return host, unsynchronized(BareMetalHostNotSynchronizedReason, refusalOf(err)), &refusalError{err}
	}
	if err != nil {
		return host, synchronized, err
	}
	if err := c.endReboot(ctx, claim, written); err != nil {
		return host, synchronized, err
	}
	return written, synchronized, c.deleteUnusedCopies(ctx, claim, written)
}

// canTakeOver tells whether a host that names a claim as its consumer, but was not bound by this
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

// isDeploying tells whether a claim asks for something to run.
func isDeploying(claim *metal3.HostClaim) bool {
	return claim.Spec.Image != nil || claim.Spec.CustomDeploy != nil
}

// setDeployment has the host run what the claim asks for, with the copies of its Secrets.
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
		setAnnotation(host, key, value)
	}
	if value, asks := claim.Annotations[metal3.RebootAnnotation]; asks {
		setAnnotation(host, metal3.RebootAnnotation, value)
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

// endReboot removes the annotation that asks for one reboot from a claim when its host has it.
func (c *Controller) endReboot(ctx context.Context, claim *metal3.HostClaim, host *metal3.BareMetalHost) error {
	if _, asks := claim.Annotations[metal3.RebootAnnotation]; !asks || isPaused(claim) {
		return nil
	}
	updated := claim.DeepCopy()
	delete(updated.Annotations, metal3.RebootAnnotation)
	recorded, err := c.Claims.Update(ctx, updated)
	if err != nil {
		return ignoreNotFound(err)
	}
	recorded.DeepCopyInto(claim)
	return nil
}

func setAnnotation(host *metal3.BareMetalHost, key, value string) {
	if host.Annotations == nil {
		host.Annotations = map[string]string{}
	}
	host.Annotations[key] = value
}

// refusalError says that what a claim wants is not valid for its host.
type refusalError struct{ error }

func isRefusal(err error) bool {
	var refusal *refusalError
	return errors.As(err, &refusal)
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
