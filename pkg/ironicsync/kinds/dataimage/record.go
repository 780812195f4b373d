// SPDX-License-Identifier: Apache-2.0

package dataimage

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/events"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/kinds"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
)

// reporter records in DataImages what becomes of their drives, and tells it in events.
type reporter struct {
	images kinds.Store[*metal3.DataImage]
	events kinds.Events
	clock  clock.PassiveClock
}

// reportSuccess records what is in the drive, and that there is no error.
func (r reporter) reportSuccess(ctx context.Context, image *metal3.DataImage, attached string) error {
	return r.record(ctx, image, func(status *metal3.DataImageStatus) {
		status.AttachedImage.URL, status.Error = attached, metal3.DataImageError{}
	})
}

// recordAttached records that Ironic is about to attach an image. The error of an earlier attempt
// stays until the outcome is known.
func (r reporter) recordAttached(ctx context.Context, image *metal3.DataImage, url string) (*metal3.DataImage, error) {
	err := r.record(ctx, image, func(status *metal3.DataImageStatus) { status.AttachedImage.URL = url })
	return image, err
}

// reportWithoutDrive records why the host has no virtual drive for the image.
func (r reporter) reportWithoutDrive(ctx context.Context, image *metal3.DataImage, message string) error {
	if image.Status.Error.Message == lifecycle.CutMessage(message) && image.Status.AttachedImage.URL == "" {
		return nil
	}
	_, err := r.report(ctx, image, "", message)
	return err
}

// waiting begins what is told of an image that is being deleted and whose drive is left alone. It is no failure of the drive's.
const waiting = "It is deleted when it is out of the drive, which is left alone: "

// waits tells, once, what an image waits for that is being deleted.
func (r reporter) waits(ctx context.Context, image *metal3.DataImage, reason string) error {
	message := lifecycle.CutMessage(waiting + reason)
	if image.Status.Error.Message == message {
		return nil
	}
	err := r.record(ctx, image, func(status *metal3.DataImageStatus) { status.Error.Message = message })
	if err == nil {
		r.event(image, corev1.EventTypeWarning, "DataImageFailed", message)
	}
	return err
}

// waitsNot takes back what waits has told.
func (r reporter) waitsNot(ctx context.Context, image *metal3.DataImage) error {
	if !strings.HasPrefix(image.Status.Error.Message, waiting) {
		return nil
	}
	return r.record(ctx, image, func(status *metal3.DataImageStatus) { status.Error.Message = "" })
}

// report records a problem and tells it in an event. attached is the image that is in the drive.
func (r reporter) report(ctx context.Context, image *metal3.DataImage, attached, problem string) (outcome, error) {
	problem = lifecycle.CutMessage(problem)
	err := r.record(ctx, image, func(status *metal3.DataImageStatus) {
		status.AttachedImage.URL = attached
		status.Error = metal3.DataImageError{Count: status.Error.Count + 1, Message: problem}
	})
	if err != nil {
		return outcome{}, err
	}
	r.event(image, corev1.EventTypeWarning, "DataImageFailed", problem)
	return outcome{problem: "DataImage " + image.Name + ": " + problem}, nil
}

// record changes the status of an image, which is updated in place, and reports what has changed in
// the drive. An image that no longer exists is ignored.
func (r reporter) record(ctx context.Context, image *metal3.DataImage, change func(*metal3.DataImageStatus)) error {
	before := image.Status.AttachedImage.URL
	updated := image.DeepCopy()
	change(&updated.Status)
	updated.Status.LastReconciled = new(metav1.NewTime(r.clock.Now()))
	recorded, err := r.images.UpdateStatus(ctx, updated)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	recorded.DeepCopyInto(image)
	switch after := image.Status.AttachedImage.URL; {
	case after == before:
	case after != "":
		r.event(image, corev1.EventTypeNormal, "AttachingDataImage", "Attaching image "+after)
	case image.Status.Error.Message == "":
		r.event(image, corev1.EventTypeNormal, "DataImageDetached", "Image "+before+" is detached")
	}
	return nil
}

func (r reporter) event(image *metal3.DataImage, eventType, reason, message string) {
	r.events.RecordObject(kinds.ReferenceTo("DataImage", image), events.Event{Type: eventType, Reason: reason, Message: message})
}
