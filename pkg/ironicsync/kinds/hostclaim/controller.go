// SPDX-License-Identifier: Apache-2.0

package hostclaim

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/events"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/kinds"
)

// Claims are the recorded HostClaims.
type Claims interface {
	kinds.Objects
	kinds.Getter[*metal3.HostClaim]
	kinds.Updater[*metal3.HostClaim]
}

// Hosts are the recorded hosts.
type Hosts interface {
	kinds.Getter[*metal3.BareMetalHost]
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
	// Watched reports whether a Secret is known to exist.
	Watched(namespace, name string) bool
}

// Deps are what a Controller works with.
type Deps struct {
	Claims   Claims
	Policies kinds.Objects
	Hosts    Hosts
	Hardware HardwareData
	Secrets  Secrets
	Events   kinds.Events
	Clock    clock.PassiveClock
	// Fence has the term of leadership in which the controller runs.
	Fence ironic.Fence
	// OnHostChange registers a function to be called with each host that is created, changed or deleted, and
	// returns a function that reports whether it has been called for all hosts that existed before.
	OnHostChange func(changed func(old, host *metal3.BareMetalHost)) (hasSynced func() bool, err error)
	// ClaimNamespaces has the Namespaces of the cluster, with their labels.
	ClaimNamespaces cache.SharedIndexInformer
	// Namespaces are those that are managed; none means all.
	Namespaces []string
}

// Controller reconciles HostClaims.
type Controller struct {
	Deps
	*kinds.Controller[*metal3.HostClaim]
	policies  *kinds.Controller[*metal3.HostDeployPolicy]
	allocator *allocator
	copier    copier
	applier   applier
	retries   copyRetries
}

// claimPlaces is how many claims are reconciled at a time. A copy of a Secret may wait for an admission webhook, also one that a tenant has
// had installed for its own namespace, so each namespace of claims has a share of them.
const claimPlaces = 10

// bySecret is the index of claims by the Secrets that they name, as NAMESPACE/NAME.
const bySecret = "secret"

// New returns a Controller.
func New(deps Deps) (*Controller, error) {
	registerMetrics()
	c := &Controller{Deps: deps, copier: copier{deps.Secrets, deps.Hardware, deps.Hosts, deps.Fence}}
	c.applier = applier{deps.Claims, deps.Hosts, deps.Fence, c.copier}
	c.allocator = newAllocator(c.labelsOf)
	c.policies = kinds.New(kinds.Config[*metal3.HostDeployPolicy]{
		Name: "hostdeploypolicies", Objects: deps.Policies, Example: &metal3.HostDeployPolicy{},
		Changed: c.policyChanged, Reconcile: c.reportPolicy,
	})
	namespaces, err := deps.ClaimNamespaces.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: c.namespaceChanged,
		UpdateFunc: func(old, obj any) {
			if !maps.Equal(old.(metav1.Object).GetLabels(), obj.(metav1.Object).GetLabels()) {
				c.namespaceChanged(obj)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	hosts, err := deps.OnHostChange(c.hostChanged)
	if err != nil {
		return nil, err
	}
	c.Controller = kinds.New(kinds.Config[*metal3.HostClaim]{
		Name: "hostclaims", Objects: deps.Claims, Example: &metal3.HostClaim{}, Namespaces: deps.Namespaces,
		Indexers: cache.Indexers{
			bySecret: func(obj any) ([]string, error) {
				claim := obj.(*metal3.HostClaim)
				var keys []string
				for _, data := range dataOf(claim) {
					keys = append(keys, claim.Namespace+"/"+data.secret)
				}
				return keys, nil
			},
		},
		ReconcilePaused: true, // a pause is passed on to the host
		// The status of a claim must not say that there is no host before all of them are known.
		RunAfter:  []cache.InformerSynced{c.policies.HasSynced, namespaces.HasSynced, hosts},
		Places:    claimPlaces,
		Reconcile: c.reconcile,
	})
	return c, nil
}

// Run reconciles claims until ctx ends, and returns when everything that it has started has ended.
func (c *Controller) Run(ctx context.Context) error {
	defer waitingClaims.Set(0)
	namespaces := func(ctx context.Context) error {
		c.ClaimNamespaces.RunWithContext(ctx)
		return nil
	}
	return kinds.RunAll(ctx, namespaces, c.policies.Run, c.Controller.Run)
}

// hostChanged notes a change of a host. old or host is nil if the host was created or deleted.
func (c *Controller) hostChanged(old, host *metal3.BareMetalHost) {
	if host == nil {
		c.enqueue(c.allocator.hostChanged(kinds.KeyOf(old), nil))
		return
	}
	if c.Manages(host.Namespace) {
		c.enqueue(c.allocator.hostChanged(kinds.KeyOf(host), host))
	}
}

// SecretChanged requeues the claims that name a Secret.
func (c *Controller) SecretChanged(namespace, name string) {
	c.EnqueueByIndex(bySecret, namespace+"/"+name)
}

func (c *Controller) policyChanged(old, p *metal3.HostDeployPolicy) {
	if p == nil {
		c.enqueue(c.allocator.policyChanged(kinds.KeyOf(old), nil))
		return
	}
	if old != nil && equality.Semantic.DeepEqual(old.Spec, p.Spec) {
		return // all claims that wait are compared with all hosts otherwise
	}
	compiled, _ := newPolicy(p) // reportPolicy reports the error
	c.enqueue(c.allocator.policyChanged(kinds.KeyOf(p), compiled))
}

// reportPolicy records an event if a policy has an invalid regular expression.
func (c *Controller) reportPolicy(_ context.Context, key types.NamespacedName) (time.Duration, error) {
	p, exists := c.policies.Cached(key)
	if !exists {
		return 0, nil
	}
	if _, err := newPolicy(p); err != nil {
		c.Events.RecordObject(kinds.ReferenceTo("HostDeployPolicy", p), events.Event{
			Type: corev1.EventTypeWarning, Reason: "InvalidPolicy", Message: "The policy lets nobody claim hosts: " + err.Error(),
		})
	}
	return 0, nil
}

func (c *Controller) namespaceChanged(obj any) {
	c.enqueue(c.allocator.namespaceChanged(obj.(metav1.Object).GetName()))
}

func (c *Controller) enqueue(claims []types.NamespacedName) {
	for _, claim := range claims {
		c.Enqueue(claim.Namespace, claim.Name)
	}
}

func (c *Controller) reconcile(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	c.allocator.begin(key)
	defer func() { c.enqueue(c.allocator.end(key)) }()
	claim, err := c.Claims.Get(ctx, key.Namespace, key.Name)
	if apierrors.IsNotFound(err) {
		c.retries.forget(key)
	}
	if err != nil {
		return 0, kinds.IgnoreNotFound(err)
	}
	hosts, err := c.hostsOf(ctx, claim)
	if err != nil {
		return 0, err
	}
	host := c.ownHost(claim, hosts)
	switch {
	case metal3.IsPaused(claim) && host == nil:
		if missing, is := missingHost(claim); is {
			return 0, c.record(ctx, claim, result{associated: missing})
		}
		return 0, nil
	case metal3.IsPaused(claim): // so is its host; nothing else is done for either of them
		_, err := c.synchronize(ctx, claim, host)
		return 0, err
	case !claim.DeletionTimestamp.IsZero():
		return 0, c.release(ctx, claim, hosts)
	}
	if claim, err = kinds.AddFinalizer(ctx, c.Claims, claim, metal3.HostClaimFinalizer); err != nil {
		return 0, kinds.IgnoreNotFound(err)
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
	if err := c.releaseOthers(ctx, claim, hosts, host); err != nil {
		return 0, err
	}
	return c.synchronize(ctx, claim, host)
}

// synchronize passes on to a host what its claim wants, and to the claim the state of the host. It returns
// after which time that is to be done again although nothing changes.
func (c *Controller) synchronize(ctx context.Context, claim *metal3.HostClaim, host *metal3.BareMetalHost) (after time.Duration, err error) {
	host, synchronized, err := c.applier.apply(ctx, claim, host)
	if err != nil && synchronized.Type == "" {
		return 0, err
	}
	if err == nil && slices.Contains(slices.Collect(maps.Values(uses)), synchronized.Reason) {
		after = c.retries.after(kinds.KeyOf(claim), c.Clock.Now())
	} else {
		c.retries.forget(kinds.KeyOf(claim))
	}
	hardware, hardwareErr := c.copier.copyHardware(ctx, claim, host)
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
	updated.Status.LastUpdated = new(metav1.NewTime(c.Clock.Now()))
	recorded, err := c.Claims.UpdateStatus(ctx, updated)
	if err != nil {
		return kinds.IgnoreNotFound(err)
	}
	c.changes(claim, recorded)
	recorded.DeepCopyInto(claim)
	return nil
}
