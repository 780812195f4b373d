// Package hostclaim gives HostClaims the hosts that they ask for, and passes on to the hosts what the
// claims want of them: what to run, power and reboots. A tenant who may write claims uses machines in this way
// without any permission on hosts.
//
// A host belongs to the claim that its consumerRef names. That is set with a compare-and-swap on the
// version of the host that was found to be free, so a host is never given to two claims, or to a claim
// and to Cluster API Provider Metal3. Before that, the choice is recorded in the status of the claim, in
// the same way, so a claim never gets two hosts, also when a leader is replaced without knowing it.
//
//	choose.go      which host a claim gets (pure)
//	fleet.go       which hosts are free, and which claims wait
//	controller.go  what is done for a claim
//	bind.go        from the choice of a host to its consumerRef
//	apply.go       what a claim wants of its host (pure)
//	hardware.go    the HardwareData of a claim
//	copies.go      the Secrets of a claim in the namespace of its host
//	release.go     how a host is given back
//	status.go      what a claim shows of its host (pure)
package hostclaim

import (
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/controller"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/drive/events"
)

// Claims are the recorded HostClaims.
type Claims interface {
	controller.Objects
	Get(ctx context.Context, namespace, name string) (*metal3.HostClaim, error)
	Update(ctx context.Context, claim *metal3.HostClaim) (*metal3.HostClaim, error)
	UpdateStatus(ctx context.Context, claim *metal3.HostClaim) (*metal3.HostClaim, error)
}

// Hosts are the recorded hosts.
type Hosts interface {
	Get(ctx context.Context, namespace, name string) (*metal3.BareMetalHost, error)
	// Update writes metadata and spec. It returns a Conflict if the host has been written since it was
	// read.
	Update(ctx context.Context, host *metal3.BareMetalHost) (*metal3.BareMetalHost, error)
}

// Secrets copies Secrets between namespaces.
type Secrets interface {
	// Copy makes a copy of a Secret in another namespace, with these labels and this owner, or brings it up
	// to date. It returns a NotFound error if there is no such Secret, and an AlreadyExists error if
	// there is a Secret in the place of the copy that does not have the labels.
	Copy(ctx context.Context, from, to types.NamespacedName, labels map[string]string, owner metav1.OwnerReference) error
	// DeleteCopy deletes a Secret if it exists and has the labels.
	DeleteCopy(ctx context.Context, copy types.NamespacedName, labels map[string]string) error
	// Watched tells whether a Secret is known to exist.
	Watched(namespace, name string) bool
}

// Events takes what is to be told about an object as Kubernetes events. It does not block.
type Events interface {
	RecordObject(regarding *corev1.ObjectReference, event events.Event)
}

// Parts are what a Controller works with.
type Parts struct {
	Claims   Claims
	Policies controller.Objects
	Hosts    Hosts
	Hardware HardwareData
	Secrets  Secrets
	Events   Events
	// ClaimNamespaces has the Namespaces of the cluster, with their labels.
	ClaimNamespaces cache.SharedIndexInformer
	// Namespaces are those that are managed; none means all.
	Namespaces []string
}

// Controller reconciles HostClaims.
type Controller struct {
	Parts
	*controller.Controller
	policies *controller.Controller
	fleet    *fleet
}

// bySecret is the index of claims by the Secrets that they name, as NAMESPACE/NAME.
const bySecret = "secret"

// New returns a Controller.
func New(parts Parts) (*Controller, error) {
	registerMetrics()
	c := &Controller{Parts: parts, fleet: newFleet()}
	c.Controller = controller.New("hostclaims", parts.Claims, &metal3.HostClaim{}, cache.Indexers{
		bySecret: func(obj any) ([]string, error) {
			claim := obj.(*metal3.HostClaim)
			var keys []string
			for _, data := range dataOf(claim) {
				keys = append(keys, claim.Namespace+"/"+data.secret)
			}
			return keys, nil
		},
	}, c.reconcile)
	c.ReconcilePaused() // a pause is passed on to the host
	c.policies = controller.New("hostdeploypolicies", parts.Policies, &metal3.HostDeployPolicy{}, nil, c.reportPolicy)
	c.policies.OnChange(c.policyChanged)
	namespaces, err := parts.ClaimNamespaces.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: c.namespaceChanged,
		UpdateFunc: func(old, obj any) {
			if !equalLabels(old, obj) {
				c.namespaceChanged(obj)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	// A claim must not be told that there is no host while not all of them are known. (The caller adds the
	// hosts with RunAfter.)
	c.RunAfter(c.policies.HasSynced, namespaces.HasSynced)
	return c, nil
}

// Run reconciles claims until ctx ends, and returns when everything that it has started has ended.
func (c *Controller) Run(ctx context.Context) error {
	defer waitingClaims.Set(0)
	namespaces := func(ctx context.Context) error {
		c.ClaimNamespaces.RunWithContext(ctx)
		return nil
	}
	return controller.RunAll(ctx, namespaces, c.policies.Run, c.Controller.Run)
}

// HostChanged notes a change of a host. old or host is nil if the host was created or deleted.
func (c *Controller) HostChanged(old, host *metal3.BareMetalHost) {
	if host == nil {
		c.enqueue(c.fleet.hostChanged(keyOf(old), nil))
		return
	}
	if c.isManaged(host.Namespace) {
		c.enqueue(c.fleet.hostChanged(keyOf(host), host))
	}
}

// SecretChanged has the claims reconciled that name a Secret.
func (c *Controller) SecretChanged(namespace, name string) {
	for _, obj := range c.ByIndex(bySecret, namespace+"/"+name) {
		claim := obj.(*metal3.HostClaim)
		c.Enqueue(claim.Namespace, claim.Name)
	}
}

func (c *Controller) policyChanged(old, obj any) {
	p, exists := obj.(*metal3.HostDeployPolicy)
	if !exists {
		c.enqueue(c.fleet.policyChanged(keyOf(old.(*metal3.HostDeployPolicy)), nil))
		return
	}
	compiled, _ := newPolicy(p) // reportPolicy tells the error
	c.enqueue(c.fleet.policyChanged(keyOf(p), compiled))
}

// reportPolicy tells if a policy has an invalid regular expression.
func (c *Controller) reportPolicy(_ context.Context, key types.NamespacedName) (time.Duration, error) {
	p, exists := c.policies.Cached(key).(*metal3.HostDeployPolicy)
	if !exists {
		return 0, nil
	}
	if _, err := newPolicy(p); err != nil {
		c.Events.RecordObject(referenceTo("HostDeployPolicy", p), events.Event{
			Type: corev1.EventTypeWarning, Reason: "InvalidPolicy", Message: "The policy lets nobody claim hosts: " + err.Error(),
		})
	}
	return 0, nil
}

func (c *Controller) namespaceChanged(obj any) {
	if namespace, ok := obj.(metav1.Object); ok {
		c.enqueue(c.fleet.namespaceChanged(namespace.GetName()))
	}
}

func (c *Controller) enqueue(claims []types.NamespacedName) {
	for _, claim := range claims {
		c.Enqueue(claim.Namespace, claim.Name)
	}
}

func (c *Controller) isManaged(namespace string) bool {
	return len(c.Namespaces) == 0 || slices.Contains(c.Namespaces, namespace)
}

func (c *Controller) reconcile(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	if !c.isManaged(key.Namespace) {
		return 0, nil
	}
	var got types.NamespacedName
	defer func() {
		c.enqueue(c.fleet.settle(key, got))
		waitingClaims.Set(float64(c.fleet.waitingClaims()))
	}()
	claim, err := c.Claims.Get(ctx, key.Namespace, key.Name)
	if apierrors.IsNotFound(err) {
		c.fleet.forget(key)
	}
	if err != nil {
		return 0, controller.IgnoreNotFound(err)
	}
	if isPaused(claim) {
		c.fleet.forget(key)
		return 0, c.passPauseOn(ctx, claim)
	}
	if !claim.DeletionTimestamp.IsZero() {
		c.fleet.forget(key)
		return 0, c.release(ctx, claim)
	}
	if !slices.Contains(claim.Finalizers, metal3.HostClaimFinalizer) {
		claim.Finalizers = append(claim.Finalizers, metal3.HostClaimFinalizer)
		if claim, err = c.Claims.Update(ctx, claim); err != nil {
			return 0, controller.IgnoreNotFound(err)
		}
	}
	host, err := c.hostOf(ctx, claim)
	if err != nil {
		return 0, err
	}
	if host == nil {
		var associated metav1.Condition
		if host, associated, err = c.bind(ctx, claim); err != nil {
			return 0, err
		}
		if host == nil {
			return 0, c.record(ctx, claim, result{associated: associated})
		}
	}
	c.fleet.forget(key)
	got = keyOf(host)
	return c.synchronize(ctx, claim, host)
}

// passPauseOn pauses the host of a paused claim. Nothing else is done for either of them, and nothing at
// all for a claim without a host.
func (c *Controller) passPauseOn(ctx context.Context, claim *metal3.HostClaim) error {
	host, err := c.hostOf(ctx, claim)
	if err != nil || host == nil {
		return err
	}
	_, err = c.synchronize(ctx, claim, host)
	return err
}

// copyRetry is when Secrets are copied again that could not be: nobody tells that a permission was
// granted.
const copyRetry = time.Minute

// synchronize passes on to a host what its claim wants, and to the claim how the host is. It returns
// when that is to be done again although nothing changes.
func (c *Controller) synchronize(ctx context.Context, claim *metal3.HostClaim, host *metal3.BareMetalHost) (after time.Duration, err error) {
	if err := c.releaseOthers(ctx, claim, host); err != nil {
		return 0, err
	}
	host, synchronized, err := c.apply(ctx, claim, host)
	if err != nil && !isRefusal(err) {
		return 0, err
	}
	for _, reason := range uses {
		if synchronized.Reason == reason {
			after = copyRetry
		}
	}
	hardware, hardwareErr := c.copyHardware(ctx, claim, host)
	if hardwareErr != nil {
		return 0, errors.Join(err, hardwareErr)
	}
	return after, errors.Join(err, c.record(ctx, claim, result{
		host: host, hardware: hardware, synchronized: synchronized,
		associated: condition(AssociatedCondition, metav1.ConditionTrue, BareMetalHostAssociatedReason, ""),
	}))
}

// record records the status of a claim if it has changed.
func (c *Controller) record(ctx context.Context, claim *metal3.HostClaim, reached result) error {
	updated := claim.DeepCopy()
	if !setStatus(updated, reached) {
		return nil
	}
	updated.Status.LastUpdated = new(metav1.Now())
	recorded, err := c.Claims.UpdateStatus(ctx, updated)
	if err != nil {
		return controller.IgnoreNotFound(err)
	}
	for _, event := range changes(claim, recorded) {
		c.Events.RecordObject(referenceTo("HostClaim", recorded), event)
	}
	recorded.DeepCopyInto(claim)
	return nil
}

func referenceTo(kind string, obj metav1.Object) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: metal3.SchemeGroupVersion.String(), Kind: kind,
		Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: obj.GetUID(), ResourceVersion: obj.GetResourceVersion(),
	}
}
