package drive

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
)

// maxBackoffExponent makes the longest back-off 2^9 minutes, as the Bare Metal
// Operator has it.
const maxBackoffExponent = 9

// interruptedDelay is in place of the minute for what a restart of Ironic broke off.
const interruptedDelay = 2 * time.Second

// failure is an error that a host shows, and what was known when it appeared.
type failure struct {
	kind       metal3.ErrorType
	message    string
	count      int
	generation int64
	// reboots are the reboot annotations.
	reboots map[string]string
	// secrets are the versions of the Secrets that the host names, as they were when
	// the step was taken that failed.
	secrets map[string]string
	// until is when to try again if nothing changes.
	until time.Time
}

// backoff tells how long to leave alone what failed. It lives in the memory of
// the leader: a new one goes by the time of the last change, and a change of a
// Secret that none saw costs no more than the rest of the wait.
type backoff struct {
	current *failure
	// seen are the versions of the Secrets now, tried those of the last step.
	seen, tried map[string]string
}

// begin says that a step is taken.
func (b *backoff) begin() { b.tried = b.seen }

// hold returns how long the host's failure is still to be left alone; 0 when there
// is none. What it was about may have been mended since: the spec or a Secret that
// the host names changed, a reboot was asked for, or somebody set the error count to 0. Then there is
// nothing to wait for, neither the hold nor other hosts.
func (b *backoff) hold(host *metal3.BareMetalHost, secrets map[string]string, now time.Time) (left time.Duration, mended bool) {
	status := &host.Status
	b.seen = secrets
	if status.ErrorType == "" || status.ErrorCount == 0 {
		b.current = nil
		return 0, status.ErrorType != ""
	}
	f := b.current
	if f == nil || f.kind != status.ErrorType || f.message != status.ErrorMessage || f.count < status.ErrorCount {
		since := now
		if f == nil && !status.LastUpdated.IsZero() && status.LastUpdated.Time.Before(now) {
			since = status.LastUpdated.Time // a leader that has just begun
		}
		f = &failure{status.ErrorType, status.ErrorMessage, status.ErrorCount, host.Generation, rebootAnnotations(host), b.tried, since.Add(delayAfter(status))}
		if b.tried == nil {
			f.secrets = secrets
		}
		b.current = f
	}
	if host.Generation != f.generation || !maps.Equal(rebootAnnotations(host), f.reboots) {
		return 0, true
	}
	for name, version := range secrets {
		if lifecycle.IsNewerVersion(version, f.secrets[name]) {
			return 0, true
		}
	}
	return max(f.until.Sub(now), 0), false
}

// ironicIsBack ends the wait for a BMC that may be silent.
func (b *backoff) ironicIsBack() {
	if f := b.current; f != nil && isTriedSoon(f.kind, f.message) {
		f.until = time.Time{}
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
// at any moment; anything else is tried after 2^n minutes less up to a half, n
// being the errors in a row. What was only broken off when Ironic ended is tried
// after as many times two seconds: an Ironic that ends again and again is not to be
// driven on.
func delayAfter(status *metal3.BareMetalHostStatus) time.Duration {
	if isTriedSoon(status.ErrorType, status.ErrorMessage) {
		return retryDelay + rand.N(retryDelay/4)
	}
	unit := time.Minute
	if containsAny(status.ErrorMessage, interruptions) {
		unit = interruptedDelay
	}
	n := min(max(status.ErrorCount, status.ProvisioningFailCount, 1), maxBackoffExponent)
	delay := unit << n
	return delay - rand.N(delay/2)
}

// isTriedSoon tells whether the failure may be that of a BMC that does not answer.
func isTriedSoon(kind metal3.ErrorType, message string) bool {
	return kind == metal3.RegistrationError || kind == metal3.ProvisionedRegistrationError || containsAny(message, silences)
}

// silences are what Ironic says of a BMC that does not answer, whatever it was about
// to do. (The sockets' own words do not tell a BMC from a server of images.)
var silences = []string{"IPMI call failed", "Redfish connection failed", "Failed to get power state"}

// interruptions are what a conductor says of what it finds under way when it starts,
// or takes over from another one.
var interruptions = []string{"state can't be resumed by conductor", "aborted due to conductor take over"}

func containsAny(message string, texts []string) bool {
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(message, text) })
}
