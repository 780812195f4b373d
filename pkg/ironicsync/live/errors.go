// SPDX-License-Identifier: Apache-2.0

package live

import (
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// StaleError tells why a reader is shown a status that was recorded earlier.
type StaleError struct {
	// Cause is why the host was not observed, or why the observation was not recorded.
	Cause error
	// Observed is when the last observation began; zero if this process has made none.
	Observed time.Time
	// Reason is that of the condition IronicReachable if it does not follow from Cause: NodeUnreadable or NoIronic.
	Reason string
}

func (e *StaleError) Error() string {
	since := "as it was last recorded"
	if !e.Observed.IsZero() {
		since = "as of " + e.Observed.UTC().Format(time.RFC3339)
	}
	reason := e.Cause.Error()
	if IsFromIronic(e.Cause) {
		reason = "Ironic: " + ironic.ReasonOf(e.Cause)
	}
	return fmt.Sprintf("live status is not available, %s; status is %s", reason, since)
}

// IsFromIronic reports whether an error is a failure of Ironic, and not, for example, one of
// writing to etcd.
func IsFromIronic(err error) bool {
	var answer *ironic.APIError
	return ironic.IsUnavailable(err) || errors.As(err, &answer)
}

// Silence tells why Ironic tells nothing of the host, since it was last observed (zero if this process never has); nil if the cause is
// not Ironic's.
func (e *StaleError) Silence() *metal3.Silence {
	if !IsFromIronic(e.Cause) {
		return nil
	}
	return &metal3.Silence{Since: metav1.NewTime(e.Observed), Refused: ironic.IsRefused(e.Cause), Cause: e.Reason, Reason: ironic.ReasonOf(e.Cause)}
}

// Unwrap returns the cause.
func (e *StaleError) Unwrap() error { return e.Cause }

// PartialError lists the hosts whose status is not live. The status of all other hosts is.
type PartialError struct {
	// Hosts has the reason for each of these hosts. There is at least one.
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

// OnlyIn returns what an error says of the hosts of a namespace, for a reader who may not read others: nil if a PartialError names none of
// them. Empty is all namespaces.
func OnlyIn(namespace string, err error) error {
	partial := new(PartialError)
	if namespace == "" || !errors.As(err, &partial) {
		return err
	}
	of := map[types.NamespacedName]error{}
	for key, why := range partial.Hosts {
		if key.Namespace == namespace {
			of[key] = why
		}
	}
	if len(of) == 0 {
		return nil
	}
	return &PartialError{Hosts: of}
}

// LiveForOthers reports that the status of the other hosts is live.
func (e *PartialError) LiveForOthers() bool { return true }

// ElsewhereError says that a host has its node in another Ironic than the one that was to be asked about it.
type ElsewhereError struct {
	Namespace, Name string
	// Ironic is the name of the host's IronicInstance; empty for the Ironic of the server's flags.
	Ironic string
}

func (e *ElsewhereError) Error() string {
	return fmt.Sprintf("host %s/%s has its node in another Ironic by now: %s", e.Namespace, e.Name, ironic.DescribeInstance(e.Ironic))
}

// LaterError says that a later version of the server has recorded a host: what this one would make of its node may be wrong.
type LaterError struct{ Why string }

func (e *LaterError) Error() string { return e.Why }

// errorFor returns the error for the reader of one host after an observation of all hosts
// has ended with err.
func errorFor(key types.NamespacedName, err error) error {
	if partial := new(PartialError); errors.As(err, &partial) {
		return partial.Hosts[key]
	}
	return err
}

// IgnoreNotFound returns nil if err says that the host does not exist, and err otherwise.
func IgnoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
