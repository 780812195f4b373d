// SPDX-License-Identifier: Apache-2.0

package preprovisioning

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/deploy"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/kinds"
)

// The reasons of the conditions, which are those of the Bare Metal Operator.
const (
	imageSuccessReason       = "ImageSuccess"
	configurationErrorReason = "ConfigurationError"
	missingNetworkDataReason = "MissingNetworkData"
)

// missingRetry is when a Secret is looked for again that does not exist, should its creation be missed.
const missingRetry = time.Minute

// provide lets an image that is being deleted go, and offers the images that the server is configured
// with.
func (c *Controller) provide(ctx context.Context, image *metal3.PreprovisioningImage) (time.Duration, error) {
	builds := c.Enabled && c.Ramdisk.HasImages()
	if c.Enabled && !builds {
		return 0, nil // another controller builds the images
	}
	if !image.DeletionTimestamp.IsZero() {
		if len(image.Finalizers) > 1 {
			return 0, nil // it is in use
		}
		_, err := c.removeFinalizer(ctx, image, metal3.PreprovisioningImageFinalizer)
		return 0, err
	}
	if !builds {
		return 0, nil
	}
	image, err := kinds.AddFinalizer(ctx, c.Images, image, metal3.PreprovisioningImageFinalizer)
	if err != nil {
		return 0, kinds.IgnoreNotFound(err)
	}
	status, err := c.offer(ctx, image)
	if err != nil {
		return 0, err
	}
	var after time.Duration
	if meta.IsStatusConditionTrue(status.Conditions, errorCondition) && image.Spec.NetworkDataName != "" {
		after = missingRetry
	}
	if equality.Semantic.DeepEqual(status, image.Status) {
		return after, nil
	}
	updated := image.DeepCopy()
	updated.Status = status
	_, err = c.Images.UpdateStatus(ctx, updated)
	return after, kinds.IgnoreNotFound(err)
}

// offer returns the status of an image that the built-in provider offers. The image has no network data in
// it: Ironic is given these.
func (c *Controller) offer(ctx context.Context, image *metal3.PreprovisioningImage) (metal3.PreprovisioningImageStatus, error) {
	status := metal3.PreprovisioningImageStatus{Conditions: slices.Clone(image.Status.Conditions)}
	refuse := func(reason, message string) (metal3.PreprovisioningImageStatus, error) {
		setConditions(&status, image.Generation, reason, "", message)
		return status, nil
	}
	images := c.Ramdisk.ImagesFor(image.Spec.Architecture)
	for _, format := range image.Spec.AcceptFormats {
		switch {
		case status.Format != "":
		case format == metal3.ImageFormatISO && images.ISOURL != "":
			status.Format, status.ImageURL = format, images.ISOURL
		case format == metal3.ImageFormatInitRD && images.KernelURL != "" && images.RamdiskURL != "":
			status.Format, status.ImageURL, status.KernelURL = format, images.RamdiskURL, images.KernelURL
		}
	}
	switch {
	case images == deploy.Images{}:
		return refuse(configurationErrorReason, "Architecture not supported")
	case status.Format == "":
		return refuse(configurationErrorReason, "No acceptable image format supported")
	}
	if name := image.Spec.NetworkDataName; name != "" {
		secret, err := c.Secret(ctx, image.Namespace, name)
		if apierrors.IsNotFound(err) {
			status.ImageURL, status.KernelURL, status.Format = "", "", ""
			return refuse(missingNetworkDataReason, "NetworkData secret not found")
		}
		if err != nil {
			return status, err
		}
		status.NetworkData = metal3.SecretStatus{Name: name, Version: secret.Since}
	}
	status.Architecture = image.Spec.Architecture
	setConditions(&status, image.Generation, imageSuccessReason, "Generated image", "")
	return status, nil
}

// setConditions sets both conditions. The image is ready unless there is a problem.
func setConditions(status *metal3.PreprovisioningImageStatus, generation int64, reason, readyMessage, problem string) {
	ready, failed := metav1.ConditionTrue, metav1.ConditionFalse
	if problem != "" {
		ready, failed = metav1.ConditionFalse, metav1.ConditionTrue
	}
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{Type: readyCondition, Status: ready, Reason: reason, Message: readyMessage, ObservedGeneration: generation})
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{Type: errorCondition, Status: failed, Reason: reason, Message: problem, ObservedGeneration: generation})
}
