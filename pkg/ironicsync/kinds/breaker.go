// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/utils/clock"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

const (
	// A BMC that has not answered is left alone for about minSilence, and for twice as long each further time.
	minSilence = 30 * time.Second
	maxSilence = 10 * time.Minute
	// slowFailure is what a request takes that fails because the BMC does not answer: Ironic waits longer for the connection,
	// and shorter for the lock of the node.
	slowFailure = 5 * time.Second
)

// Breaker leaves the BMCs alone for a while that have not answered, whatever is to be asked of them. All methods may be called
// concurrently.
type Breaker struct {
	clock clock.PassiveClock

	mu     sync.Mutex
	silent map[Node]silence
}

// Node is a node of an Ironic. Two Ironics, of which one is a copy, may have nodes of the same UUID.
type Node struct{ Ironic, UUID string }

// NodeOf returns the node of a host.
func NodeOf(host *metal3.BareMetalHost) Node {
	return Node{Ironic: host.Status.Record.Ironic, UUID: host.Status.Provisioning.ID}
}

type silence struct {
	times int
	until time.Time
}

// NewBreaker returns a Breaker that knows of no silent BMC.
func NewBreaker(clock clock.PassiveClock) *Breaker {
	return &Breaker{clock: clock, silent: map[Node]silence{}}
}

// SilentError says that a BMC was not asked, because it has not answered a moment ago.
type SilentError struct {
	// Left is for how long it is still left alone.
	Left time.Duration
}

// Error implements error.
func (e *SilentError) Error() string {
	return "the BMC did not answer a moment ago, and is left alone for a while"
}

// Ask makes a request that waits for the BMC of a node, unless that is to be left alone.
func (b *Breaker) Ask(node Node, request func() error) error {
	began := b.clock.Now()
	b.mu.Lock()
	left := b.silent[node].until.Sub(began)
	b.mu.Unlock()
	if left > 0 {
		return &SilentError{left}
	}
	err := request()
	now := b.clock.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case ironic.IsLocked(err), ironic.IsBusy(err):
		return err // the BMC was not asked
	case err == nil || !ironic.IsTimeout(err) && now.Sub(began) < slowFailure:
		delete(b.silent, node)
		return err
	}
	maps.DeleteFunc(b.silent, func(_ Node, s silence) bool { return now.Sub(s.until) > maxSilence })
	s := b.silent[node]
	delay := min(minSilence<<min(s.times, 10), maxSilence)
	b.silent[node] = silence{s.times + 1, now.Add(delay*3/4 + rand.N(delay/2))}
	return err
}

// Reset has the BMC of a node asked again that may be back.
func (b *Breaker) Reset(node Node) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.silent, node)
}
