// SPDX-License-Identifier: Apache-2.0

package dataimage

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/redact"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/kinds"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
)

// driveTimeout bounds a request that Ironic answers when it has asked the BMC.
const driveTimeout = 30 * time.Second

// outcome is how far the virtual drive of a host is from what its DataImage asks for.
type outcome struct {
	// done is set if the host may be switched on: the drive is as it should be, or cannot be.
	done bool
	// problem is why the drive could not be changed. It will be tried again.
	problem string
	// after is when to look at the drive again that is neither done nor a problem.
	after time.Duration
}

// BeforePowerOn returns true if the virtual drive of a host that is off is in line with the host's
// DataImage, if there is one, so that the host can be switched on now. Otherwise it requests a change of the
// drive, and must be called again a moment later, or, if problem is not empty, after a back-off; the problem is
// recorded in the DataImage, too.
//
// It does not wait for the BMC: the reconciliation of the DataImage does, whose places hosts with BMCs that do not answer
// may use up, but not the workers of the caller.
func (c *Controller) BeforePowerOn(ctx context.Context, host *metal3.BareMetalHost) (ready bool, problem string, err error) {
	image, err := kinds.Find(ctx, c.Images, host.Namespace, host.Name)
	if err != nil {
		return false, "", err
	}
	if image == nil || lifecycle.IsOfFormerHost(host, image) || isUntouched(image) || metal3.IsPaused(image) {
		return true, "", nil
	}
	key := kinds.KeyOf(host)
	c.mu.Lock()
	defer c.mu.Unlock()
	v, has := c.verdicts[key]
	if v.problem == "" {
		delete(c.verdicts, key)
	} // else the caller may not have been able to record the problem
	if has && c.Clock.Since(v.at) < verdictLife {
		return v.done, v.problem, v.err
	}
	c.asked[key] = true
	c.Enqueue(key.Namespace, key.Name)
	return false, "", nil
}

// verdict is the answer to BeforePowerOn, for its next call.
type verdict struct {
	outcome
	err error
	at  time.Time
}

// verdictLife is how long a verdict is valid. Later, somebody may have changed the drive. It is shorter
// than the back-off of a host whose drive could not be changed.
const verdictLife = 15 * time.Second

// prepare brings the drive of a host in line with its DataImage if BeforePowerOn has asked for that. If it has not come to an
// end yet, it returns after what time to go on.
func (c *Controller) prepare(ctx context.Context, host *metal3.BareMetalHost) (after time.Duration, err error) {
	key := kinds.KeyOf(host)
	c.mu.Lock()
	asked := c.asked[key]
	c.mu.Unlock()
	if !asked {
		return 0, nil
	}
	result, err := c.prepareNow(ctx, host)
	if err == nil && !result.done && result.after > 0 {
		return result.after, nil
	}
	c.mu.Lock()
	delete(c.asked, key)
	c.verdicts[key] = verdict{result, err, c.Clock.Now()}
	c.mu.Unlock()
	c.leaveChange(key)
	c.PlanHost(key.Namespace, key.Name)
	return 0, err
}

// prepareNow takes one step towards what the DataImage of a host that waits for its drive asks for.
func (c *Controller) prepareNow(ctx context.Context, host *metal3.BareMetalHost) (outcome, error) {
	client, node, err := c.Proven(ctx, host)
	switch {
	case err != nil:
		return outcome{}, err
	case node.TargetPowerState != "" && (node.Reservation != "" || node.LockConcealed), node.TargetPowerState == "" && node.PowerState == ironic.PowerOn:
		return outcome{}, nil // it is being switched, or is on
	case node.PowerState == ironic.PowerOff && node.TargetPowerState == "":
		return c.change(ctx, client, host, node)
	}
	// Its power is not known: Ironic learns that of some nodes only from a power action (Node.IsNotPolled), does not understand what the
	// BMC says, or has forgotten that it was switching it. It may be on, so its drive is not touched.
	return outcome{done: true}, nil
}

// isUntouched reports whether nothing of the image was ever in the drive, nor is to be.
func isUntouched(image *metal3.DataImage) bool {
	return wantedURL(image) == "" && image.Status.AttachedImage.URL == ""
}

// change takes one step towards what the DataImage of a host asks for. The host must be off. The queue lets nobody else work on
// the same host meanwhile.
func (c *Controller) change(ctx context.Context, client Ironic, host *metal3.BareMetalHost, node *ironic.Node) (outcome, error) {
	image, err := kinds.Find(ctx, c.Images, host.Namespace, host.Name)
	if err != nil || image == nil {
		return outcome{done: err == nil}, err
	}
	wanted := wantedURL(image)
	ctx = redact.With(c.Guard(ctx, host), func(context.Context) (redact.Known, error) {
		return redact.Known{Written: []string{image.Spec.URL, image.Status.AttachedImage.URL}}, nil
	})
	switch {
	case isUntouched(image):
		return outcome{done: true}, nil
	case isLiveISO(host):
		// Ironic has the live ISO in a drive, and can only eject all of them.
		return outcome{done: true}, c.reporter.reportWithoutDrive(ctx, image, "the host boots from a live ISO, which is in its virtual drive: a DataImage cannot be attached besides")
	case node.Reservation != "":
		return outcome{after: c.pause(image)}, nil // probably with what was asked for before
	}
	if after := c.untilLook(image); after > 0 {
		return outcome{after: after}, nil
	}
	features, err := client.Features(ctx)
	if err != nil {
		return outcome{}, err
	}
	if !features.VirtualMedia {
		return outcome{done: true}, c.reporter.reportWithoutDrive(ctx, image, tooOld)
	}
	if !c.enterChange(host) {
		return outcome{after: turnRetry}, nil
	}
	defer func() {
		if !c.isAttempted(image) {
			c.leaveChange(kinds.KeyOf(host))
		}
	}()
	limited, cancel := context.WithTimeout(ctx, driveTimeout)
	defer cancel()
	drives, err := client.GetVirtualMedia(limited, node.UUID)
	switch {
	case ironic.IsWithoutVirtualMedia(err):
		return outcome{done: true}, c.reporter.reportWithoutDrive(ctx, image, fmt.Sprintf("driver %s of the host's node has no virtual media: %s", node.Driver, ironic.MessageOf(err)))
	case err != nil:
		return c.failed(ctx, image, image.Status.AttachedImage.URL, "the virtual drives cannot be read", err)
	}
	return c.step(ctx, client, image, wanted, node, drives)
}

// tooOld is the error of DataImages with a release of Ironic that cannot tell what is attached.
const tooOld = "this Ironic is too old for DataImages: they need its " + ironic.VirtualMediaSince

// step compares what is in the drives with what is wanted, and asks Ironic for the difference.
//
// What Ironic serves from a drive has a URL of Ironic's own, so whether it is the wanted image follows
// from the status, which is written before Ironic is asked.
func (c *Controller) step(ctx context.Context, client Ironic, image *metal3.DataImage, wanted string, node *ironic.Node, drives []ironic.VirtualMedia) (outcome, error) {
	recorded := image.Status.AttachedImage.URL
	inserted := slices.ContainsFunc(drives, func(d ironic.VirtualMedia) bool { return d.IsOptical() && d.Inserted })
	// The wanted image is recorded once Ironic is to attach it. Until then, the drive is to become empty.
	isOpen := inserted != (recorded == wanted) && node.LastError == ""
	// One that was recorded, is not wanted any more and is not there may come yet, when nobody would look for it, or as another one.
	if isOpen || !inserted && recorded != "" && recorded != wanted && c.mayCome(image) {
		if after := c.awaitBMC(image); after > 0 {
			return outcome{after: after}, nil
		}
	}
	attempted := c.attempted(image, false)
	switch {
	case inserted && recorded == wanted, !inserted && wanted == "":
		return outcome{done: true}, c.reporter.reportSuccess(ctx, image, wanted)
	case inserted: // another image, or one that is not wanted any more
		if attempted {
			return c.notDone(ctx, image, recorded, "the image in the virtual drive could not be ejected", node)
		}
		if err := client.DetachVirtualMedia(ctx, c.Fence.At(image.ResourceVersion), node.UUID); err != nil {
			return c.failed(ctx, image, recorded, "the image in the virtual drive cannot be ejected", err)
		}
		c.attempted(image, true)
		return outcome{after: driveRetry}, nil
	case attempted && recorded == wanted:
		attached := "" // Ironic says that it has failed
		if node.LastError == "" || ironic.SaysTimedOut(node.LastError) {
			attached = wanted // it may be, even later
		}
		return c.notDone(ctx, image, attached, fmt.Sprintf("image %s could not be attached", wanted), node)
	}
	if err := c.CheckURL(ctx, wanted); err != nil {
		return c.reporter.report(ctx, image, "", "spec.url: "+err.Error())
	}
	image, err := c.reporter.recordAttached(ctx, image, wanted)
	if err != nil {
		return outcome{}, err
	}
	if err := client.AttachVirtualMedia(ctx, c.Fence.At(image.ResourceVersion), node.UUID, wanted); err != nil {
		attached := "" // what was refused is not in the drive
		if !ironic.IsNotCarriedOut(err) {
			attached = wanted // it may be, later
		}
		return c.failed(ctx, image, attached, fmt.Sprintf("image %s cannot be attached", wanted), err)
	}
	c.attempted(image, true)
	return outcome{after: driveRetry}, nil
}

// notDone reports that Ironic has not done what it was asked for. Why is in the node's last_error.
func (c *Controller) notDone(ctx context.Context, image *metal3.DataImage, attached, what string, node *ironic.Node) (outcome, error) {
	why := redact.Words(ctx, node.LastError)
	if why == "" {
		why = "Ironic reports no error, but the BMC does not say that it has been done"
	}
	return c.reporter.report(ctx, image, attached, what+": "+why)
}

// failed reports a request that has failed because of this host, and passes on all other errors.
func (c *Controller) failed(ctx context.Context, image *metal3.DataImage, attached, what string, err error) (outcome, error) {
	if ironic.IsLocked(err) {
		return outcome{after: driveRetry}, nil
	}
	if !isAboutHost(err) {
		return outcome{}, err
	}
	return c.reporter.report(ctx, image, attached, what+": "+ironic.MessageOf(err))
}

// isAboutHost reports whether Ironic has answered, and what it says is about the host or its BMC.
// Ironic passes on as an internal error what it hears from a BMC. A request that is not answered in
// time is taken for a BMC that does not answer, because the node was read just before.
func isAboutHost(err error) bool {
	var answer *ironic.APIError
	if errors.As(err, &answer) {
		switch answer.Status {
		case http.StatusBadRequest, http.StatusConflict, http.StatusInternalServerError, http.StatusNotAcceptable:
			return true
		}
		return false
	}
	return ironic.IsTimeout(err)
}

// wantedURL is the image that should be in the drive; empty if none should be.
func wantedURL(image *metal3.DataImage) string {
	if !image.DeletionTimestamp.IsZero() {
		return ""
	}
	return image.Spec.URL
}

func isLiveISO(host *metal3.BareMetalHost) bool {
	image := host.Status.Provisioning.Image
	return image.DiskFormat != nil && *image.DiskFormat == "live-iso"
}

// attempted records whether Ironic was asked to change the drive, and returns what was recorded
// before.
func (c *Controller) attempted(image *metal3.DataImage, now bool) (before bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	last, found := c.attemptFor(image)
	before = found && !last.isFormer
	if key := kinds.KeyOf(image); now {
		c.attempts[key] = attempt{image: image.UID, wanted: wantedURL(image), at: c.Clock.Now()}
	} else {
		delete(c.attempts, key)
	}
	return before
}

// attemptFor returns the attempt for what is wanted now, if its outcome was not read yet. c.mu must be held.
func (c *Controller) attemptFor(image *metal3.DataImage) (last attempt, found bool) {
	last, found = c.attempts[kinds.KeyOf(image)]
	return last, found && last.image == image.UID && last.wanted == wantedURL(image)
}

// mayCome reports whether what was in the drive, or was to be, was not ejected by us. From now on, it is waited for.
func (c *Controller) mayCome(image *metal3.DataImage) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	last, found := c.attemptFor(image)
	if found {
		return last.isFormer
	}
	c.attempts[kinds.KeyOf(image)] = attempt{image: image.UID, wanted: wantedURL(image), at: c.Clock.Now(), isFormer: true}
	return true
}

// lateBMC is for how long a BMC may show the drive as it was before, after Ironic has said that it has changed it. Some accept
// the request (202) and carry it out seconds later, for which Ironic does not wait.
const lateBMC = 30 * time.Second

// awaitBMC returns when to look at the drive again if Ironic was asked to change it and has ended, by its own account well, so
// short a while ago that the BMC may still carry it out; zero otherwise. An image that is to go, and that this process has not seen in the
// drive, is waited for as long as Ironic may still carry out a request without an answer: nobody looks for it later.
func (c *Controller) awaitBMC(image *metal3.DataImage) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	last, attempted := c.attemptFor(image)
	if !attempted {
		return 0
	}
	now := c.Clock.Now()
	if last.ended.IsZero() {
		last.ended = now
	}
	limit := lateBMC
	if last.isFormer && last.wanted == "" {
		limit = metal3.AskedLimit
	}
	if now.Sub(last.ended) >= limit {
		return 0
	}
	after := pauseAfter(now.Sub(last.at))
	last.look = now.Add(after)
	c.attempts[kinds.KeyOf(image)] = last
	return after
}

// untilLook is for how long to leave a drive alone that the BMC may still be changing. The host asks more often.
func (c *Controller) untilLook(image *metal3.DataImage) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	last, attempted := c.attemptFor(image)
	if !attempted {
		return 0
	}
	return max(0, last.look.Sub(c.Clock.Now()))
}

// isAttempted reports whether Ironic was asked to change the drive, and the outcome was not read yet.
func (c *Controller) isAttempted(image *metal3.DataImage) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, attempted := c.attemptFor(image)
	return attempted
}

// pause is for how long not to look at a drive on whose node Ironic works: for longer the longer that takes.
func (c *Controller) pause(image *metal3.DataImage) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	last, attempted := c.attemptFor(image)
	if !attempted {
		return driveRetry
	}
	return pauseAfter(c.Clock.Since(last.at))
}

func pauseAfter(taken time.Duration) time.Duration {
	return min(max(taken/4, driveRetry), maxDriveRetry)
}

// enterChange reports whether the drive of a host may be changed now. If not, its image is requeued when it may.
func (c *Controller) enterChange(host *metal3.BareMetalHost) bool {
	key, asked := kinds.KeyOf(host), host.Status.Record.Ironic
	c.mu.Lock()
	_, has := c.changing[key]
	c.mu.Unlock()
	if has {
		return true
	}
	if !c.changes.TryEnter(asked, key.Namespace, key.Name) {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changing[key] = asked
	return true
}

// leaveChange gives back the place of a host's drive, if it has one.
func (c *Controller) leaveChange(host types.NamespacedName) {
	c.mu.Lock()
	asked, has := c.changing[host]
	delete(c.changing, host)
	c.mu.Unlock()
	if has {
		c.changes.Leave(asked, host.Namespace)
	}
}
