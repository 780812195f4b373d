package live

import (
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// StaleError tells why a reader is shown what was recorded earlier.
type StaleError struct {
	// Cause is why the host was not observed, or not recorded.
	Cause error
	// Observed is when the last observation began; zero when this process made none.
	Observed time.Time
}

func (e *StaleError) Error() string {
	since := "as recorded before this server started"
	if !e.Observed.IsZero() {
		since = "as of " + e.Observed.UTC().Format(time.RFC3339)
	}
	reason := e.Cause.Error()
	if isIronics(e.Cause) {
		reason = "Ironic: " + ironic.ReasonOf(e.Cause)
	}
	return fmt.Sprintf("live status is not available, %s; status is %s", reason, since)
}

// isIronics tells whether it is Ironic that did not answer, and not etcd that did not
// take what it said.
func isIronics(err error) bool {
	var answer *ironic.APIError
	return ironic.IsUnavailable(err) || errors.As(err, &answer)
}

// Unwrap returns the cause.
func (e *StaleError) Unwrap() error { return e.Cause }

// PartialError tells of hosts whose status is not live, while that of all others is.
type PartialError struct {
	// Hosts has the reason for each; there is at least one.
	Hosts map[types.NamespacedName]error
}

func (e *PartialError) Error() string {
	first := types.NamespacedName{}
	for key := range e.Hosts {
		if first.Name == "" || key.String() < first.String() {
			first = key
		}
	}
	text := fmt.Sprintf("the status of host %s is not live: %v", first, e.Hosts[first])
	if others := len(e.Hosts) - 1; others > 0 {
		text += fmt.Sprintf("; nor is that of %d others", others)
	}
	return text
}

// errorFor is what the error of a bulk observation means for the reader of one host.
func errorFor(key types.NamespacedName, err error) error {
	if partial := new(PartialError); errors.As(err, &partial) {
		return partial.Hosts[key]
	}
	return err
}

// IgnoreNotFound returns nil for a host that was deleted meanwhile.
func IgnoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
