package ironicsync

import (
	"math/rand/v2"
	"strings"
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// maxBackoffExponent makes the longest back-off 2^9 minutes, as the Bare Metal
// Operator has it.
const maxBackoffExponent = 9

// failure is an error that a host shows, and what was known when it appeared.
type failure struct {
	kind          metal3.ErrorType
	message       string
	count         int
	generation    int64
	secretVersion string
	// until is when to try again if nothing changes.
	until time.Time
}

// backoff tells how long to leave alone what failed. It lives in the memory of
// the leader: a new one goes by the time of the last change.
type backoff struct{ current *failure }

// hold returns how long the host's failure is still to be left alone; 0 when there
// is none, or when what it was about may have been mended since: the spec or the
// Secret changed, or somebody set the error count to 0.
func (b *backoff) hold(host *metal3.BareMetalHost, secretVersion string, now time.Time) time.Duration {
	status := &host.Status
	if status.ErrorType == "" {
		b.current = nil
		return 0
	}
	f := b.current
	if f == nil || f.kind != status.ErrorType || f.message != status.ErrorMessage || f.count < status.ErrorCount {
		since := now
		if f == nil && !status.LastUpdated.IsZero() && status.LastUpdated.Time.Before(now) {
			since = status.LastUpdated.Time // a leader that has just begun
		}
		f = &failure{status.ErrorType, status.ErrorMessage, status.ErrorCount, host.Generation, secretVersion, since.Add(delayAfter(status))}
		b.current = f
	}
	if status.ErrorCount == 0 || host.Generation != f.generation || newer(secretVersion, f.secretVersion) {
		return 0
	}
	return max(f.until.Sub(now), 0)
}

// delayAfter is how long a failure is left alone: a BMC that is silent may be back
// at any moment; anything else is tried after 2^n minutes less up to a half, n
// being the errors in a row.
func delayAfter(status *metal3.BareMetalHostStatus) time.Duration {
	if status.ErrorType == metal3.RegistrationError || status.ErrorType == metal3.ProvisionedRegistrationError || isSilence(status.ErrorMessage) {
		return retryDelay + rand.N(retryDelay/4)
	}
	n := min(max(status.ErrorCount, status.ProvisioningFailCount, 1), maxBackoffExponent)
	delay := time.Minute << n
	return delay - rand.N(delay/2)
}

// silences are what Ironic says of a BMC that does not answer, whatever it was about
// to do. (The sockets' own words do not tell a BMC from a server of images.)
var silences = []string{"IPMI call failed", "Redfish connection failed", "Failed to get power state"}

func isSilence(message string) bool {
	for _, s := range silences {
		if strings.Contains(message, s) {
			return true
		}
	}
	return false
}
