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

// maxLookAge is how old an observation may be for a step to be decided by it. Steps that destroy
// or interrupt something are among them, so it is short.
const maxLookAge = 2 * time.Second

// looks are the latest observations of hosts, for those who would otherwise ask Ironic again
// for what it has just said.
type looks struct {
	mu     sync.Mutex
	byHost map[types.UID]look
	pruned time.Time // when those that are too old were dropped last
}

// look is an observation of a host.
type look struct {
	began time.Time
	// resourceVersion is that of the host as the observation has recorded it.
	resourceVersion string
	// node is what was observed; nil if the observations that began before this moment do
	// not count any more. It must not be changed.
	node *ironic.Node
}

// put keeps a look, unless one that began later is known.
func (l *looks) put(host types.UID, new look, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.pruned) > maxLookAge {
		maps.DeleteFunc(l.byHost, func(_ types.UID, known look) bool { return now.Sub(known.began) > maxLookAge })
		l.pruned = now
	}
	if !l.byHost[host].began.After(new.began) {
		l.byHost[host] = new
	}
}

func (l *looks) get(host types.UID) look {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byHost[host]
}

// keepLook notes an observation that began at a time, with the host as it was recorded then.
func (r *Refresher) keepLook(recorded *metal3.BareMetalHost, node *ironic.Node, began time.Time) {
	if node != nil {
		r.looks.put(recorded.UID, look{began: began, resourceVersion: recorded.ResourceVersion, node: node}, r.clock.Now())
	}
}

// ForgetLook has JustObserved not return what was observed before now: something is about to be
// done to the node, or may have been done.
func (r *Refresher) ForgetLook(host types.UID) {
	now := r.clock.Now()
	r.looks.put(host, look{began: now}, now)
}

// JustObserved returns a host and its node as ObserveAndGet does, without asking Ironic, if it was
// observed at most maxLookAge ago and nobody has written the host since. Otherwise the host is nil.
// An observation that began before the last ForgetLook does not count.
func (r *Refresher) JustObserved(ctx context.Context, namespace, name string) (*metal3.BareMetalHost, *ironic.Node, error) {
	host, err := r.hosts.Get(ctx, namespace, name)
	if err != nil {
		return nil, nil, err
	}
	known := r.looks.get(host.UID)
	// In wall time: a machine that was suspended goes on as if no time had passed.
	age := r.clock.Now().Round(0).Sub(known.began.Round(0))
	if known.node == nil || known.resourceVersion != host.ResourceVersion || age > maxLookAge || age < 0 {
		return nil, nil, nil
	}
	node := *known.node
	return host, &node, nil
}
