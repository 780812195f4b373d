// SPDX-License-Identifier: Apache-2.0

package firmware

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/settings"
)

// lists reads lists of nodes from Ironic. Callers share a request, also one that is under way: as
// long as the node remains in its state, the answer is the same. What Ironic cannot say of a node, it is not asked for by
// each reader: some BMCs never give it, or only after a long time.
type lists struct {
	content  string // for people
	requests singleflight.Group
	failures *flowcontrol.Backoff

	mu      sync.Mutex
	reasons map[string]string // of the failures
}

const (
	// listTimeout bounds a request, for which several callers may wait.
	listTimeout = 10 * time.Second
	// A list that Ironic did not give is asked for again after minListPause, and after twice as long each further time.
	minListPause = 5 * time.Second
	maxListPause = 10 * time.Minute
	listJitter   = 0.25
)

// newLists returns lists of what content names.
func newLists(content string, c clock.Clock) *lists {
	return &lists{
		content: content, failures: flowcontrol.NewFakeBackOffWithJitter(minListPause, maxListPause, c, listJitter), reasons: map[string]string{},
	}
}

// unreadError says that Ironic does not give what a node has, while it may answer everything else, or that what it gives cannot
// be kept.
type unreadError struct{ reason string }

func (e *unreadError) Error() string { return e.reason }

// listOf returns the list of the node of source, from the Ironic of that name, which ask asks. The error is an *unreadError if it is
// about that list only.
func listOf[T any](ctx context.Context, l *lists, ironicName string, source *metal3.SettingsSource, ask func(ctx context.Context, uuid string) ([]T, error)) ([]T, error) {
	id := listID(ironicName, source)
	if reason, failed := l.recentFailure(id); failed {
		return nil, &unreadError{reason}
	}
	requested := l.requests.DoChan(id, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), listTimeout)
		defer cancel()
		list, err := ask(ctx, source.NodeUUID)
		if !isAboutList(err) {
			return list, err
		}
		reason := "Ironic does not give the " + l.content + " of the machine, and is asked again after a while: " + ironic.MessageOf(err)
		l.failed(id, reason)
		return nil, &unreadError{reason}
	})
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case answer := <-requested:
		list, _ := answer.Val.([]T)
		return list, answer.Err
	}
}

func listID(ironicName string, source *metal3.SettingsSource) string {
	return ironicName + " " + source.NodeUUID + " " + source.StateChangedAt.String()
}

// isLeftAlone reports whether the list of a host's node is not to be asked for yet, because Ironic did not give it.
func (l *lists) isLeftAlone(host *metal3.BareMetalHost) bool {
	source := settings.SourceOf(host)
	if source == nil {
		return false
	}
	_, failed := l.recentFailure(listID(host.Status.Record.Ironic, source))
	return failed
}

// refused notes that the list of a host's node cannot be kept. It reports whether that is new, and so a reason to record it.
func (l *lists) refused(host *metal3.BareMetalHost, err error) bool {
	source := settings.SourceOf(host)
	if source == nil || l.isLeftAlone(host) {
		return false
	}
	l.failed(listID(host.Status.Record.Ironic, source),
		"What Ironic gives as the "+l.content+" of the machine cannot be kept, and is asked for again after a while: "+err.Error())
	return true
}

// recentFailure returns why a list was not given, if it is not to be asked for again yet.
func (l *lists) recentFailure(id string) (reason string, failed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reasons[id], l.failures.IsInBackOffSinceUpdate(id, l.failures.Clock.Now())
}

// failed notes that a list was not given.
func (l *lists) failed(id, reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failures.Next(id, l.failures.Clock.Now())
	l.failures.GC() // of nodes that are gone, or in another state
	l.reasons[id] = reason
	maps.DeleteFunc(l.reasons, func(id, _ string) bool { return l.failures.Get(id) == 0 })
}

// isAboutList reports whether Ironic fails with the list, and not as a whole: it was asked for the node just before.
func isAboutList(err error) bool {
	var answer *ironic.APIError
	switch {
	case err == nil, ironic.IsRefused(err):
		return false
	case errors.As(err, &answer):
		return answer.Status != http.StatusTooManyRequests && answer.Status != http.StatusServiceUnavailable
	}
	return ironic.IsTimeout(err) || ironic.IsNotIronic(err)
}
