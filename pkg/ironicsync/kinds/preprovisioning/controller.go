// SPDX-License-Identifier: Apache-2.0

package preprovisioning

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/deploy"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/kinds"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/secrets"
)

// Deps are what a Controller works with.
type Deps struct {
	Images kinds.Store[*metal3.PreprovisioningImage]
	Hosts  kinds.Getter[*metal3.BareMetalHost]
	// Secret reads a Secret with network data, and labels it as one of the hosts'.
	Secret func(ctx context.Context, namespace, name string) (secrets.Data, error)
	// Enabled is set if hosts boot images of their own. Otherwise, no images are requested, and those that
	// exist are only let go when they are deleted.
	Enabled bool
	// Ramdisk has the images of the built-in provider, which is used if there are any.
	Ramdisk deploy.Ramdisk
	// Namespaces are those whose hosts are managed; none means all.
	Namespaces []string
	// PlanHost requeues a host at once. Its image has changed.
	PlanHost func(namespace, name string)
}

// Controller reconciles PreprovisioningImages.
type Controller struct {
	Deps
	*kinds.Controller[*metal3.PreprovisioningImage]
}

// bySecret is the index of the Secret with network data, as namespace/name.
const bySecret = "secret"

// New returns a Controller.
func New(deps Deps) *Controller {
	c := &Controller{Deps: deps}
	c.Controller = kinds.New(kinds.Config[*metal3.PreprovisioningImage]{
		Name: "preprovisioningimages", Objects: deps.Images, Example: &metal3.PreprovisioningImage{}, Namespaces: deps.Namespaces,
		Indexers: cache.Indexers{
			bySecret: func(obj any) ([]string, error) {
				image := obj.(*metal3.PreprovisioningImage)
				return []string{image.Namespace + "/" + image.Spec.NetworkDataName}, nil
			},
		},
		Changed: c.imageChanged, Reconcile: c.reconcile,
	})
	return c
}

// imageChanged requeues the host of an image if it may be able to boot the image now, or not any more.
func (c *Controller) imageChanged(before, image *metal3.PreprovisioningImage) {
	if !c.Enabled || before != nil && image != nil && before.Generation == image.Generation && equality.Semantic.DeepEqual(before.Status, image.Status) {
		return
	}
	if image == nil {
		image = before
	}
	c.PlanHost(image.Namespace, image.Name)
}

// HostChanged requeues the PreprovisioningImage of a host. old or host is nil if the host was created or
// deleted.
func (c *Controller) HostChanged(old, host *metal3.BareMetalHost) {
	if old != nil && host != nil && isSameForImage(old, host) {
		return
	}
	if host == nil {
		host = old
	}
	if _, exists := c.Cached(kinds.KeyOf(host)); exists || c.Enabled && lifecycle.AsksForImage(host) {
		c.Enqueue(host.Namespace, host.Name)
	}
}

// isSameForImage reports whether two versions of a host are the same as far as their image is concerned.
func isSameForImage(a, b *metal3.BareMetalHost) bool {
	return a.UID == b.UID && metal3.IsPaused(a) == metal3.IsPaused(b) && lifecycle.AsksForImage(a) == lifecycle.AsksForImage(b) &&
		isReleased(a) == isReleased(b) && equality.Semantic.DeepEqual(a.Labels, b.Labels) && equality.Semantic.DeepEqual(specFor(a), specFor(b))
}

// SecretChanged requeues the images with the network data in a Secret.
func (c *Controller) SecretChanged(namespace, name string) {
	c.EnqueueByIndex(bySecret, namespace+"/"+name)
}

// Of returns what is known of the image of a host, whose network data has this version; nil if hosts do
// not boot images of their own.
func (c *Controller) Of(host *metal3.BareMetalHost, networkVersion string) *lifecycle.Image {
	if !c.Enabled {
		return nil
	}
	image, _ := c.Cached(kinds.KeyOf(host))
	return verdictOn(host, image, networkVersion, c.Ramdisk)
}

func (c *Controller) reconcile(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	image, err := kinds.Find(ctx, c.Images, key.Namespace, key.Name)
	if err != nil {
		return 0, err
	}
	host, err := kinds.Find(ctx, c.Hosts, key.Namespace, key.Name)
	if err != nil || host != nil && metal3.IsPaused(host) {
		return 0, err
	}
	unneeded := host == nil || isReleased(host)
	if image != nil && !unneeded {
		if unneeded, err = c.isDeletedInVain(ctx, image, host); err != nil {
			return 0, err
		}
	}
	switch {
	case image != nil && unneeded:
		image, err = c.removeFinalizer(ctx, image, metal3.PreprovisioningImageInUseFinalizer)
	case host != nil && !isReleased(host) && c.Enabled && lifecycle.AsksForImage(host):
		image, err = c.request(ctx, image, host)
	}
	if err != nil || image == nil {
		return 0, err
	}
	return c.provide(ctx, image)
}

// isReleased reports whether nothing of a host that is being deleted is left in Ironic.
func isReleased(host *metal3.BareMetalHost) bool {
	return !host.DeletionTimestamp.IsZero() && !slices.Contains(host.Finalizers, metal3.BareMetalHostFinalizer)
}

// isDeletedInVain reports whether an image is being deleted that its host waits for and cannot boot. Nobody
// would change or build it any more. Once it is gone, the host gets a new one.
func (c *Controller) isDeletedInVain(ctx context.Context, image *metal3.PreprovisioningImage, host *metal3.BareMetalHost) (bool, error) {
	if image.DeletionTimestamp.IsZero() || !c.Enabled || !lifecycle.AsksForImage(host) ||
		// The garbage collector deletes all that such a host owns, and would delete the new one, too.
		slices.Contains(host.Finalizers, metav1.FinalizerDeleteDependents) {
		return false, nil
	}
	version := image.Status.NetworkData.Version
	if name := host.Spec.PreprovisioningNetworkDataName; name != "" {
		network, err := c.Secret(ctx, host.Namespace, name)
		switch {
		case err == nil:
			version = network.Since
		case !apierrors.IsNotFound(err): // without the Secret, no other image can be built
			return false, err
		}
	}
	return verdictOn(host, image, version, c.Ramdisk).Built == nil, nil
}

// request creates the image of a host, or brings it up to date. An image that is being deleted stays as it
// is while its host can boot it.
func (c *Controller) request(ctx context.Context, image *metal3.PreprovisioningImage, host *metal3.BareMetalHost) (*metal3.PreprovisioningImage, error) {
	if image != nil && !image.DeletionTimestamp.IsZero() {
		return image, nil
	}
	wanted := &metal3.PreprovisioningImage{ObjectMeta: metav1.ObjectMeta{Namespace: host.Namespace, Name: host.Name}}
	if image != nil {
		wanted = image.DeepCopy()
	}
	wanted.Spec = specFor(host)
	for key, value := range host.Labels { // builders choose their images by them
		metav1.SetMetaDataLabel(&wanted.ObjectMeta, key, value)
	}
	metal3.AddFinalizer(wanted, metal3.PreprovisioningImageInUseFinalizer)
	if !metav1.IsControlledBy(wanted, host) {
		// The owner may be an earlier host with the same name.
		wanted.OwnerReferences = append(slices.DeleteFunc(wanted.OwnerReferences, func(r metav1.OwnerReference) bool {
			return r.Controller != nil && *r.Controller || r.Kind == "BareMetalHost"
		}), *metav1.NewControllerRef(host, metal3.SchemeGroupVersion.WithKind("BareMetalHost")))
	}
	switch {
	case image == nil:
		return c.Images.Create(ctx, wanted)
	case equality.Semantic.DeepEqual(image, wanted):
		return image, nil
	}
	return c.Images.Update(ctx, wanted)
}

// removeFinalizer returns the image without a finalizer, or nil if that was the last one of an image that
// is being deleted.
func (c *Controller) removeFinalizer(ctx context.Context, image *metal3.PreprovisioningImage, finalizer string) (*metal3.PreprovisioningImage, error) {
	updated := image.DeepCopy()
	if !metal3.RemoveFinalizer(updated, finalizer) {
		return image, nil
	}
	gone := !updated.DeletionTimestamp.IsZero() && len(updated.Finalizers) == 0
	updated, err := c.Images.Update(ctx, updated)
	if gone || apierrors.IsNotFound(err) {
		return nil, kinds.IgnoreNotFound(err)
	}
	return updated, err
}
