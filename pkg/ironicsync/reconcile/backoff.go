// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"maps"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
)

// maxBackoffExponent makes the longest back-off 2^9 minutes, as the Bare Metal
// Operator has it.
const maxBackoffExponent = 9

// maxDoublings makes the longest pause between two tries of a user whom the BMC may be refusing 17 to 21 minutes, longer than BMCs
// lock an account.
const maxDoublings = 6

// maxRefusedExponent makes the longest pause after a BMC has refused its user, or TLS, 2^4 minutes. The refusal may end without a change that
// this server sees: the password or the certificate was corrected at the BMC, or the directory answers again that all BMCs of a site ask. A
// host that is held does not wait longer either, because its error count is not shown, and nobody can reset it.
const maxRefusedExponent = 4

// interruptedDelay is in place of the minute for what a restart of Ironic broke off.
const interruptedDelay = 2 * time.Second

// attempt says which versions of its inputs a step was based on. A later version may make a step succeed
// that has failed.
type attempt struct {
	generation int64
	// versions are those of the Secrets that the host names, and the generations of its
	// HostFirmwareSettings and HostFirmwareComponents.
	versions map[string]string
}

// failure is an error that a host shows, and what was known when it appeared.
type failure struct {
	shown metal3.HostError
	count int
	// reboots are the reboot annotations.
	reboots map[string]string
	// tried is what the step went by that failed.
	tried attempt
	// until is when to try again if nothing changes.
	until time.Time
	// mayBeSilentBMC is set when the BMC may be back at any moment.
	mayBeSilentBMC bool
}

// stepIdentity tells steps apart that ask for different things.
type stepIdentity struct {
	do     lifecycle.Action
	target ironic.ProvisionTarget
	power  ironic.PowerTarget
	state  metal3.ProvisioningState
}

func identityOf(step lifecycle.Step) stepIdentity {
	return stepIdentity{step.Do, step.Target, step.Power, step.State}
}

// backoff reports how long to leave alone what failed. It lives in the memory of
// the leader: a new one goes by the time of the last change, and a change of a
// Secret that none saw costs no more than the rest of the wait.
type backoff struct {
	current *failure
	// seen is what a step would go by now, and tried what the last one went by; nil if this
	// leader has taken none.
	seen  attempt
	tried *attempt
	// registered is what the last registration went by, and registeredAt when that was; nil if this leader has tried none.
	registered   *attempt
	registeredAt time.Time
	// failed is the step whose failure is recorded in the host.
	failed stepIdentity
	// accepted is the last step whose effect a poll is to show, and acceptedAt when Ironic accepted it.
	accepted   stepIdentity
	acceptedAt time.Time
	// failingSince is when the first of the steps began that have failed one after the
	// other for reasons that are not the host's. Zero: the last one has not.
	failingSince time.Time
	// notCarriedOut is what status.record.asked was when Ironic refused the request, or it was not sent; nil if neither
	// has happened.
	notCarriedOut *metal3.AskedChange
	// powerAnswered is what status.record.askedPower was when Ironic answered the request, or it was not sent; nil if neither
	// has happened.
	powerAnswered *metal3.AskedPower
	// asked, askedPower, powerOns and powerCut are since when these parts of status.record have been what they are.
	asked      seenSince[metal3.AskedChange]
	askedPower seenSince[metal3.AskedPower]
	powerOns   seenSince[[]metal3.PowerOn]
	powerCut   seenSince[metal3.PowerCut]
	// heldTries is how many requests were sent for the host since it was held, or since nothing failed any more.
	heldTries int
}

// begin says that a step is taken. One that only leads out of a failed state of the node is no
// attempt: Ironic keeps the error meanwhile, and may reword it.
func (b *backoff) begin(step lifecycle.Step, now time.Time) {
	if step.OccupiesWorker() {
		b.heldTries++
	}
	if step.Do == lifecycle.Register {
		registered := b.seen
		b.registered, b.registeredAt = &registered, now
	}
	if step.Do != lifecycle.ClearMaintenance && step.Target != ironic.TargetManage {
		tried := b.seen
		b.tried = &tried
	}
}

// registrationPause is how long a refused registration keeps a deletion free to go on without it.
const registrationPause = 5 * time.Minute

// hasTriedRegistration reports whether nothing has changed since the last registration, which was a short while ago. hold has to
// be called before.
func (b *backoff) hasTriedRegistration(now time.Time) bool {
	return b.registered != nil && now.Sub(b.registeredAt) < registrationPause && !b.seen.isNewerThan(*b.registered)
}

// isNewerThan reports whether the spec or one of the Secrets has another version than in an earlier attempt.
func (a attempt) isNewerThan(earlier attempt) bool {
	if a.generation != earlier.generation {
		return true
	}
	for name, version := range a.versions {
		if lifecycle.IsNewerVersion(version, earlier.versions[name]) {
			return true
		}
	}
	return false
}

// accept says that Ironic has accepted a step whose effect a poll is to show.
func (b *backoff) accept(step lifecycle.Step, now time.Time) {
	b.accepted, b.acceptedAt = identityOf(step), now
}

// pollWait returns for how long not to ask Ironic about the node, because the step to be taken is the one that it has
// just accepted, and a poll is about to show that. It is 0 for any other step.
func (b *backoff) pollWait(step lifecycle.Step, now time.Time) time.Duration {
	if identityOf(step) != b.accepted {
		return 0
	}
	return max(stepPause-now.Sub(b.acceptedAt), 0)
}

// seenSince is since when this process has seen something of a record as it is. The time in the record may be by the clock of another
// replica.
type seenSince[T any] struct {
	what  *T
	since time.Time
}

// knownFor returns for how long what has been seen as it is; 0 if it is nil.
func (s *seenSince[T]) knownFor(what *T, now time.Time) time.Duration {
	if what == nil || !equality.Semantic.DeepEqual(what, s.what) {
		s.what, s.since = what, now
	}
	return now.Sub(s.since)
}

// refused says that Ironic has refused a step, or that its requests keep failing, which the host is
// about to show. Whatever the step was for, it is not taken again at once, even if the host goes on
// to show an older error of its node.
func (b *backoff) refused(step lifecycle.Step) {
	tried := b.seen
	b.current, b.tried, b.failed = nil, &tried, identityOf(step)
}

// hold returns how long the host's failure is still to be left alone; 0 when there is
// none. retryNow is set when something has changed that the failure may have been about:
// the spec, a Secret that the host names, the reboot annotations, or the error count,
// which somebody has set to 0. The next try then waits neither for the hold nor for
// other hosts.
func (b *backoff) hold(host *metal3.BareMetalHost, versions map[string]string, now time.Time) (left time.Duration, retryNow bool) {
	status := b.failing(host)
	b.seen = attempt{host.Generation, versions}
	failed := status.Record.Error
	if failed == nil || status.ErrorCount == 0 {
		b.current = nil
		return 0, failed != nil && status.Record.Hold == nil
	}
	f := b.current
	if f == nil || f.shown != *failed || f.count < status.ErrorCount {
		since := now
		if b.tried == nil && !status.LastUpdated.IsZero() && status.LastUpdated.Time.Before(now) {
			since = status.LastUpdated.Time // a leader that has just begun
		}
		f = &failure{
			shown: *failed, count: status.ErrorCount,
			reboots: rebootAnnotations(host), tried: b.seen, until: since.Add(delayAfter(status)), mayBeSilentBMC: mayBeSilentBMC(status),
		}
		if b.tried != nil {
			f.tried = *b.tried
		}
		b.current = f
	}
	if b.seen.isNewerThan(f.tried) || !maps.Equal(rebootAnnotations(host), f.reboots) {
		return 0, true
	}
	return max(f.until.Sub(now), 0), false
}

// failing returns the status by which the back-off goes. It is the host's, unless the host is held: then the error that the hold
// hides counts, whose tries are counted here, because a held host counts none.
func (b *backoff) failing(host *metal3.BareMetalHost) *metal3.BareMetalHostStatus {
	if host.Status.Record.Hold == nil {
		b.heldTries = 0
		return &host.Status
	}
	status := lifecycle.BehindHold(host)
	node := lifecycle.NodeOf(status)
	if status.Record.Error == nil && node != nil && !node.IsLocked() && node.TargetPowerState == "" {
		b.heldTries = 0
	}
	status.ErrorCount += b.heldTries
	return status
}

// ironicIsBack ends the wait for a BMC that may be silent.
func (b *backoff) ironicIsBack() {
	if f := b.current; f != nil && f.mayBeSilentBMC {
		f.until = time.Time{}
	}
}

// end ends the wait: what the failure was about has changed.
func (b *backoff) end() {
	if b.current != nil {
		b.current.until = time.Time{}
	}
}

func rebootAnnotations(host *metal3.BareMetalHost) map[string]string {
	reboots := map[string]string{}
	for key, value := range host.Annotations {
		if metal3.IsRebootAnnotation(key) {
			reboots[key] = value
		}
	}
	return reboots
}

// delayAfter is how long a failure is left alone: a BMC that is silent may be back
// at any moment, and so may whatever makes requests fail; anything else is tried after 2^n minutes less up to a half, n
// being the errors in a row. What was only broken off when Ironic ended is tried
// after as many times two seconds: an Ironic that ends again and again is not to be
// driven on.
func delayAfter(status *metal3.BareMetalHostStatus) time.Duration {
	n := max(status.ErrorCount, status.ProvisioningFailCount, 1)
	if mayBeSilentBMC(status) || lifecycle.IsRequestFailing(status) {
		delay := retryDelay
		if hasCause(status, metal3.BMCSilentOrRefuses) && !hasAcceptedUser(status) {
			delay <<= min(n-1, maxDoublings)
		}
		return delay + rand.N(delay/4)
	}
	unit, longest := time.Minute, maxBackoffExponent
	switch {
	case hasUpdatedFirmware(status):
	case hasCause(status, metal3.Interrupted):
		unit = interruptedDelay
	case hasCause(status, metal3.BMCRefuses), hasCause(status, metal3.BMCNoAccess), status.Record.Hold != nil:
		longest = maxRefusedExponent
	}
	delay := unit << min(n, longest)
	return delay - rand.N(delay/2)
}

// hasAcceptedUser reports whether the BMC has once accepted the credentials that Ironic was told last.
func hasAcceptedUser(status *metal3.BareMetalHostStatus) bool {
	return status.GoodCredentials.Reference != nil && equality.Semantic.DeepEqual(status.GoodCredentials, status.TriedCredentials)
}

// mayBeSilentBMC reports whether the host's error may be that of a BMC that does not
// answer.
func mayBeSilentBMC(status *metal3.BareMetalHostStatus) bool {
	if hasUpdatedFirmware(status) || hasCause(status, metal3.BMCRefuses) || hasCause(status, metal3.BMCNoAccess) {
		return false
	}
	failed := lifecycle.ErrorType(status)
	return failed == metal3.RegistrationError || failed == metal3.ProvisionedRegistrationError ||
		hasCause(status, metal3.BMCSilent) || hasCause(status, metal3.BMCSilentOrRefuses)
}

// hasUpdatedFirmware reports whether an update of firmware has failed. It is not repeated every few
// seconds: it may be the reason why the BMC does not answer, and it may still be in progress.
func hasUpdatedFirmware(status *metal3.BareMetalHostStatus) bool {
	p := status.Record.Preparation
	return lifecycle.ErrorType(status) == metal3.PreparationError && p != nil && p.Phase == metal3.PreparationFailed && len(p.FirmwareUpdates) > 0
}

func hasCause(status *metal3.BareMetalHostStatus, cause metal3.ErrorCause) bool {
	return status.Record.Error != nil && status.Record.Error.Cause == cause
}
