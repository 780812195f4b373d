// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// maxObservationAge is the maximum age of an observation on which a step may be based. It is
// short because some steps destroy data or interrupt a machine.
const maxObservationAge = 2 * time.Second

// recentObservations holds the latest observation of each host, which spares the controller a
// request to Ironic for a node that has just been read.
type recentObservations struct {
	mu     sync.Mutex // guards all that follows
	byHost map[types.UID]recentObservation
	pruned time.Time // when outdated observations were last removed
}

// recentObservation is the latest observation of a host.
type recentObservation struct {
	began time.Time
	// resourceVersion is that of the host after the observation was recorded.
	resourceVersion string
	// node is the observed node. It is nil in the entry that DiscardObservations makes, which
	// invalidates all observations that began earlier. It must not be changed.
	node *ironic.Node
}

// put stores an observation, unless one that began later is stored already.
func (l *recentObservations) put(host types.UID, observation recentObservation, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.pruned) > maxObservationAge {
		maps.DeleteFunc(l.byHost, func(_ types.UID, known recentObservation) bool { return now.Sub(known.began) > maxObservationAge })
		l.pruned = now
	}
	if !l.byHost[host].began.After(observation.began) {
		l.byHost[host] = observation
	}
}

func (l *recentObservations) get(host types.UID) recentObservation {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byHost[host]
}

// keepRecent stores an observation. recorded is the host after the observation was recorded,
// and began is when the observation began.
func (o *observer) keepRecent(recorded *metal3.BareMetalHost, node *ironic.Node, began time.Time) {
	if node != nil {
		o.recent.put(recorded.UID, recentObservation{began: began, resourceVersion: recorded.ResourceVersion, node: node}, o.clock.Now())
	}
}

// DiscardObservations invalidates the observations of a host that have begun before now. It is called
// before a step that may change the host's node, and again if the step fails, because it may have
// changed the node all the same.
func (o *observer) DiscardObservations(host types.UID) {
	now := o.clock.Now()
	o.recent.put(host, recentObservation{began: now}, now)
}

// JustObserved returns a host and its node as observeAndGet does, but without asking Ironic, if
// the host was observed at most maxObservationAge ago and has not been written since. Otherwise,
// or if that observation began before the last DiscardObservations, the host is nil.
func (o *observer) JustObserved(ctx context.Context, namespace, name string) (*metal3.BareMetalHost, *ironic.Node, error) {
	host, err := o.hosts.Get(ctx, namespace, name)
	if err != nil {
		return nil, nil, err
	}
	known := o.recent.get(host.UID)
	// Compare wall clock times (Round removes the monotonic reading): on Linux, the monotonic
	// clock stands still while the machine is suspended.
	age := o.clock.Now().Round(0).Sub(known.began.Round(0))
	if known.node == nil || known.resourceVersion != host.ResourceVersion || age > maxObservationAge || age < 0 {
		return nil, nil, nil
	}
	node := *known.node
	return host, &node, nil
}
