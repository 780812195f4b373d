// SPDX-License-Identifier: Apache-2.0

package life

import (
	"context"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	typed "github.com/metal3-io/metal3-apiserver/pkg/generated/clientset/versioned/typed/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
)

// otherBuildersLabel marks images that the image-customization-controller leaves to another builder.
const otherBuildersLabel = "infraenvs.agent-install.openshift.io"

// imageBuilder builds the PreprovisioningImages of a namespace as the image-customization-controller
// does: with URLs that it forgets when it is restarted, and that are others then.
type imageBuilder struct {
	t      *testing.T
	images typed.PreprovisioningImageInterface
	ns     string

	mu   sync.Mutex
	urls map[string]string // by the name of the image
	iso  []byte
}

// startImageBuilder builds until the test ends.
func (o *ownServer) startImageBuilder() *imageBuilder {
	o.t.Helper()
	response, err := http.Get(s.machines.FileURL(bmcsim.AgentISO))
	if err != nil {
		o.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	iso, err := io.ReadAll(response.Body)
	if err != nil {
		o.t.Fatal(err)
	}
	b := &imageBuilder{t: o.t, images: o.hosts.Metal3V1alpha1().PreprovisioningImages(o.ns), ns: o.ns, urls: map[string]string{}, iso: iso}
	w, err := b.images.Watch(o.ctx, metav1.ListOptions{})
	if err != nil {
		o.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range w.ResultChan() {
			if image, ok := event.Object.(*metal3.PreprovisioningImage); ok && event.Type != watch.Deleted {
				b.build(o.ctx, image)
			}
		}
	}()
	o.t.Cleanup(func() { w.Stop(); <-done })
	return b
}

// restart forgets all URLs.
func (b *imageBuilder) restart(ctx context.Context) {
	b.t.Helper()
	b.mu.Lock()
	b.urls = map[string]string{}
	b.mu.Unlock()
	all, err := b.images.List(ctx, metav1.ListOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	for i := range all.Items {
		b.build(ctx, &all.Items[i])
	}
}

// build takes one step for an image. A write that is refused because the image was written meanwhile is
// made up for at the next event.
func (b *imageBuilder) build(ctx context.Context, image *metal3.PreprovisioningImage) {
	image = image.DeepCopy()
	if _, ignored := image.Labels[otherBuildersLabel]; ignored {
		return
	}
	if !image.DeletionTimestamp.IsZero() || !slices.Contains(image.Finalizers, metal3.PreprovisioningImageFinalizer) {
		image.Finalizers = append(image.Finalizers, metal3.PreprovisioningImageFinalizer)
		if !image.DeletionTimestamp.IsZero() {
			image.Finalizers = slices.DeleteFunc(image.Finalizers, func(f string) bool { return f == metal3.PreprovisioningImageFinalizer })
		}
		_, _ = b.images.Update(ctx, image, metav1.UpdateOptions{})
		return
	}
	status := &image.Status
	set := func(conditionType string, value metav1.ConditionStatus, message string) bool {
		return meta.SetStatusCondition(&status.Conditions, metav1.Condition{Type: conditionType, Status: value, Reason: "ImageSuccess", Message: message, ObservedGeneration: image.Generation})
	}
	changed := false
	switch isBuilt := status.Format == image.Spec.AcceptFormats[0] && status.Architecture == image.Spec.Architecture; {
	case !isBuilt && meta.IsStatusConditionTrue(status.Conditions, "Ready"):
		changed = set("Ready", metav1.ConditionFalse, "Config changed")
	case !isBuilt:
		status.ImageURL, status.Format, status.Architecture = "", image.Spec.AcceptFormats[0], image.Spec.Architecture
		changed = true
		set("Ready", metav1.ConditionFalse, "Config changed")
		set("Error", metav1.ConditionFalse, "")
	default:
		b.mu.Lock()
		if b.urls[image.Name] == "" {
			b.urls[image.Name], _ = s.machines.AddFile(uuid.NewString()+".iso", b.iso)
		}
		changed = status.ImageURL != b.urls[image.Name]
		status.ImageURL = b.urls[image.Name]
		b.mu.Unlock()
		changed = set("Ready", metav1.ConditionTrue, "Generated image") || changed
	}
	if changed {
		_, _ = b.images.UpdateStatus(ctx, image, metav1.UpdateOptions{})
	}
}
