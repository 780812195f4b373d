// SPDX-License-Identifier: Apache-2.0

package dataimage

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/kinds"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/limit"
)

// Ironic has the requests to Ironic.
type Ironic interface {
	Features(ctx context.Context) (ironic.Features, error)
	kinds.NodeGetter
	GetVirtualMedia(ctx context.Context, uuid string) ([]ironic.VirtualMedia, error)
	AttachVirtualMedia(ctx context.Context, fence ironic.Fence, uuid, imageURL string) error
	DetachVirtualMedia(ctx context.Context, fence ironic.Fence, uuid string) error
}

// Deps are what a Controller works with.
type Deps struct {
	kinds.Nodes[Ironic]
	Images kinds.Store[*metal3.DataImage]
	Hosts  kinds.Hosts
	Events kinds.Events
	Clock  clock.PassiveClock
	// CheckURL returns why Ironic may not fetch the image, or nil.
	CheckURL func(ctx context.Context, url string) error
	// Namespaces are those whose hosts are managed; none means all.
	Namespaces []string
	// PlanHost requeues a host at once. Its power-on may have failed because of its DataImage, which has
	// changed.
	PlanHost func(namespace, name string)
}

// Controller reconciles DataImages.
type Controller struct {
	Deps
	*kinds.Controller[*metal3.DataImage]
	reporter reporter

	// changes are the places of drives that are being changed, each of which occupies a worker of Ironic's until the BMC and
	// the server of the image have answered.
	changes *limit.IronicPlaces

	mu sync.Mutex // guards all that follows
	// changing are the hosts whose drives have one of these places, and the name of the Ironic whose place it is.
	changing map[types.NamespacedName]string
	// attempts are the images, by name, for which Ironic was asked to change the drive and whose outcome
	// was not read yet. After a restart, the request is simply repeated.
	attempts map[types.NamespacedName]attempt
	// asked are the hosts that wait for their drive before they are switched on, and verdicts the outcomes.
	asked    map[types.NamespacedName]bool
	verdicts map[types.NamespacedName]verdict
}

// attempt is that Ironic was asked to change the drive for an image.
type attempt struct {
	image  types.UID
	wanted string // the URL, then
	at     time.Time
	// ended is when Ironic was first seen to have ended what it was asked for, while the drive did not show it; zero before.
	ended time.Time
	// look is when to look at the drive again after that.
	look time.Time
	// isFormer is set if Ironic was asked for something else before: for an image that may come late, and is not what is wanted now.
	isFormer bool
}

const (
	// maxChanges bounds the drives that an Ironic is changing: less than half of the workers that it has by default
	// ([conductor]workers_pool_size, 100), without which it refuses all other work.
	maxChanges = 40
	// changesGreed leaves some of them to other namespaces: one has 36 at most.
	changesGreed = 9
)

// New returns a Controller.
func New(deps Deps) *Controller {
	c := &Controller{
		Deps: deps, reporter: reporter{deps.Images, deps.Events, deps.Clock}, attempts: map[types.NamespacedName]attempt{}, changing: map[types.NamespacedName]string{},
		asked: map[types.NamespacedName]bool{}, verdicts: map[types.NamespacedName]verdict{},
	}
	c.Controller = kinds.New(kinds.Config[*metal3.DataImage]{
		Name: "dataimages", Objects: deps.Images, Example: &metal3.DataImage{}, Namespaces: deps.Namespaces,
		Changed: c.imageChanged, ReconcilePaused: true, IgnoreStatus: true, IronicOf: kinds.IronicOf(deps.Hosts), Places: ironic.DriveConnections, Reconcile: c.reconcile,
	})
	c.changes = limit.NewIronicPlaces(maxChanges, changesGreed, c.Enqueue)
	return c
}

// imageChanged requeues the host of an image at once if the image has failed before and its spec has
// changed, or it is being deleted.
func (c *Controller) imageChanged(before, image *metal3.DataImage) {
	if before == nil || before.Status.Error.Message == "" {
		return
	}
	if image == nil || image.Generation != before.Generation || image.DeletionTimestamp.IsZero() != before.DeletionTimestamp.IsZero() {
		c.forget(kinds.KeyOf(before))
		c.PlanHost(before.Namespace, before.Name)
	}
}

const (
	// A drive that Ironic was asked to change is looked at again after driveRetry, and later when the change takes longer.
	driveRetry    = time.Second
	maxDriveRetry = 15 * time.Second
	// turnRetry is when a drive is looked at again that waits for its turn, if it is not requeued before.
	turnRetry = time.Minute
)

// HostChanged requeues the DataImage of a host. old or host is nil if the host was created or deleted.
func (c *Controller) HostChanged(old, host *metal3.BareMetalHost) {
	if old != nil && host != nil && isSameForImage(old, host) {
		return
	}
	if host == nil {
		host = old
	}
	if _, exists := c.Cached(kinds.KeyOf(host)); exists {
		c.Enqueue(host.Namespace, host.Name)
	}
}

// isSameForImage reports whether two versions of a host are the same as far as DataImages are
// concerned.
func isSameForImage(a, b *metal3.BareMetalHost) bool {
	return a.UID == b.UID && metal3.IsPaused(a) == metal3.IsPaused(b) && a.IsDetached() == b.IsDetached() &&
		a.Status.PoweredOn == b.Status.PoweredOn &&
		a.Status.Provisioning.ID == b.Status.Provisioning.ID && a.Status.Provisioning.State == b.Status.Provisioning.State &&
		lifecycle.HasOwnNode(a) == lifecycle.HasOwnNode(b) && lifecycle.MayGetOwnNode(a) == lifecycle.MayGetOwnNode(b) && (a.Status.Record.Hold == nil) == (b.Status.Record.Hold == nil) &&
		(a.Status.Ironic == nil) == (b.Status.Ironic == nil) && isInMaintenance(a) == isInMaintenance(b)
}

func isInMaintenance(host *metal3.BareMetalHost) bool {
	return host.Status.Ironic != nil && host.Status.Ironic.Maintenance
}

func (c *Controller) reconcile(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	image, err := c.Images.Get(ctx, key.Namespace, key.Name)
	if apierrors.IsNotFound(err) {
		c.forget(key)
		c.forgetAttempt(key)
		c.leaveChange(key)
		c.changes.Forget(key.Namespace, key.Name)
	}
	if err != nil {
		return 0, kinds.IgnoreNotFound(err)
	}
	host, err := kinds.Find(ctx, c.Hosts, key.Namespace, key.Name)
	switch {
	case err != nil:
		return 0, err
	case host == nil, lifecycle.IsOfFormerHost(host, image):
		return 0, c.release(ctx, image) // nobody could detach the image: the drive of this host, if there is one, never had it
	case metal3.IsPaused(image), metal3.IsPaused(host):
		c.leaveChange(key) // whose end the pause may be long before
		c.changes.Forget(key.Namespace, key.Name)
		return 0, nil
	}
	if after, err := c.prepare(ctx, host); after > 0 || err != nil {
		return after, err
	}
	if image, err = c.Images.Get(ctx, key.Namespace, key.Name); err != nil {
		return 0, kinds.IgnoreNotFound(err) // prepare may have written it
	}
	switch {
	case !image.DeletionTimestamp.IsZero():
		return c.delete(ctx, image, host)
	case !host.DeletionTimestamp.IsZero():
		return 0, nil // the garbage collector may have made it an orphan
	}
	return 0, c.adopt(ctx, image, host)
}

// adopt sets the finalizer and the owner, so that the image goes with its host.
func (c *Controller) adopt(ctx context.Context, image *metal3.DataImage, host *metal3.BareMetalHost) error {
	if slices.Contains(image.Finalizers, metal3.DataImageFinalizer) && metal3.IsOwnedBy(image, host) {
		return nil
	}
	updated := image.DeepCopy()
	metal3.AddFinalizer(updated, metal3.DataImageFinalizer)
	if !metal3.IsOwnedBy(updated, host) {
		updated.OwnerReferences = append(updated.OwnerReferences, metal3.NewOwnerReference("BareMetalHost", host))
	}
	_, err := c.Images.Update(ctx, updated)
	return kinds.IgnoreNotFound(err)
}

// delete lets the image go as soon as it is not in the drive of its host.
func (c *Controller) delete(ctx context.Context, image *metal3.DataImage, host *metal3.BareMetalHost) (time.Duration, error) {
	if !slices.Contains(image.Finalizers, metal3.DataImageFinalizer) {
		return 0, nil // another controller's finalizer keeps it
	}
	switch {
	case image.Status.AttachedImage.URL == "":
		return 0, c.release(ctx, image)
	case lifecycle.MayGetOwnNode(host):
		return 0, c.wait(ctx, image, "the host is not registered in Ironic yet")
	case host.IsDetached() || !lifecycle.HasOwnNode(host):
		return 0, c.release(ctx, image)
	case host.Status.Record.Hold != nil: // somebody else may use the machine, and its drive
		return 0, c.wait(ctx, image, "the host is held: "+host.Status.Record.Hold.Message)
	}
	client, node, err := c.Proven(ctx, host)
	switch unproven := new(kinds.UnprovenError); {
	case ironic.IsNotFound(err) && host.DeletionTimestamp.IsZero():
		return lostPause, c.wait(ctx, image, "Ironic has lost the node of the host")
	case ironic.IsNotFound(err), errors.As(err, &unproven):
		return 0, c.release(ctx, image)
	case err != nil:
		return 0, err
	}
	switch {
	case node.PowerState != ironic.PowerOff || node.TargetPowerState != "" || node.ProvisionState.IsInTransit():
		c.leaveChange(kinds.KeyOf(image)) // the host is reconciled when it is off, or when it is switched on the next time
		return 0, c.reporter.waitsNot(ctx, image)
	case node.Maintenance:
		return 0, c.wait(ctx, image, "the node is in maintenance")
	}
	if err := c.reporter.waitsNot(ctx, image); err != nil {
		return 0, err
	}
	outcome, err := c.change(ctx, client, host, node)
	switch {
	case err != nil:
		return 0, err
	case outcome.problem != "":
		return retryAfter(image.Status.Error.Count), nil
	case !outcome.done:
		return outcome.after, nil
	}
	c.Enqueue(image.Namespace, image.Name) // with the status that was recorded
	return 0, nil
}

// lostPause is when to look whether the host has a node again, whatever is told of it.
const lostPause = time.Minute

// wait leaves the drive of an image alone that is being deleted, and tells why. The host is reconciled when that changes.
func (c *Controller) wait(ctx context.Context, image *metal3.DataImage, reason string) error {
	c.leaveChange(kinds.KeyOf(image)) // others are to have its place, or turn, meanwhile
	c.changes.Forget(image.Namespace, image.Name)
	return c.reporter.waits(ctx, image, reason)
}

// retryAfter is after which time a drive is tried again that could not be changed.
func retryAfter(failures int) time.Duration {
	return min(30*time.Second<<min(failures, 5), 10*time.Minute)
}

// release removes the finalizer.
func (c *Controller) release(ctx context.Context, image *metal3.DataImage) error {
	c.attempted(image, false)
	c.leaveChange(kinds.KeyOf(image))
	return kinds.RemoveFinalizer(ctx, c.Images, image, metal3.DataImageFinalizer)
}

// forgetAttempt drops what is remembered of an image that is gone.
func (c *Controller) forgetAttempt(key types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.attempts, key)
}

// forget drops what is remembered of the drive of a host that waits for it. The host asks again.
func (c *Controller) forget(key types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.asked, key)
	delete(c.verdicts, key)
}
