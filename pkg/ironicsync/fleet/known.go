// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/client"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live"
)

// state is what a Fleet knows at a time.
type state struct {
	// synced is set when all IronicInstances have been read once.
	synced bool
	// members are those that can be used, by name.
	members map[string]*Member
	// problems are why the others cannot.
	problems map[string]*Problem
	// objects are the Ironic objects of those that have one, as they were last read.
	objects map[string]*ironicObject
	// histories are of the IronicInstances that are members, or were before they could not be used any more.
	histories map[string]*live.History
	// selections are in the order of the names.
	selections []selection
	// changed is closed when there is a later state.
	changed chan struct{}
}

// known is what a Fleet knows now. Who asks for more than one thing loads the state once, which nobody changes: only Fleet.update stores
// another one.
type known struct{ state atomic.Pointer[state] }

// HasSynced reports whether all IronicInstances have been read.
func (k *known) HasSynced() bool { return k.state.Load().synced }

// Members returns the Ironics that can be used, ordered by name, that of the server's flags first. The channel is closed when they,
// or the hosts that are their own, have changed.
func (k *known) Members() (members []*Member, changed <-chan struct{}) {
	s := k.state.Load()
	for _, m := range s.members {
		members = append(members, m)
	}
	slices.SortFunc(members, func(a, b *Member) int { return cmp.Compare(a.Name, b.Name) })
	return members, s.changed
}

// SelectsByNamespace reports whether an IronicInstance selects its hosts by the labels of their namespaces.
func (k *known) SelectsByNamespace() bool {
	return slices.ContainsFunc(k.state.Load().selections, func(s selection) bool { return s.namespaces != nil && !s.namespaces.Empty() })
}

// ClientOf returns the client of the Ironic that has the node of a host. The error is an *ironic.UnavailableError.
func (k *known) ClientOf(host *metal3.BareMetalHost) (*client.Client, error) {
	return k.ClientOfInstance(host.Status.Record.Ironic)
}

// ClientOfInstance returns the client of the Ironic of an IronicInstance; empty is the Ironic of the server's flags. The error is an
// *ironic.UnavailableError.
func (k *known) ClientOfInstance(name string) (*client.Client, error) {
	m, err := k.named(name)
	if err != nil {
		return nil, err
	}
	return m.Client, nil
}

// Known returns the names of all Ironics, with those that cannot be used.
func (k *known) Known() []string {
	s := k.state.Load()
	return slices.AppendSeq(slices.Collect(maps.Keys(s.members)), maps.Keys(s.problems))
}

// Unusable returns the names of the IronicInstances that cannot be used.
func (k *known) Unusable() []string { return slices.Sorted(maps.Keys(k.state.Load().problems)) }

// LastObserved returns, by the names of all Ironics, when all of their nodes were last observed; zero if they never were, or if the
// Ironic cannot be used.
func (k *known) LastObserved() map[string]time.Time {
	s := k.state.Load()
	last := map[string]time.Time{}
	for name, m := range s.members {
		last[name] = m.Refresher.LastObserved()
	}
	for name := range s.problems {
		last[name] = time.Time{}
	}
	return last
}

func (k *known) named(name string) (*Member, error) {
	s := k.state.Load()
	if m := s.members[name]; m != nil {
		return m, nil
	}
	return nil, s.missing(name)
}

// missing is that there is no Member with a name.
func (s *state) missing(name string) *ironic.UnavailableError {
	return &ironic.UnavailableError{Op: "find the host's Ironic", Reason: s.describe(name)}
}

// notAsked is why a reader is shown what was recorded of a host that has its node in an Ironic that is no Member. The empty key stands
// for all of its hosts.
func (s *state) notAsked(name string, key types.NamespacedName) *live.StaleError {
	stale := &live.StaleError{Cause: s.missing(name), Reason: metal3.NoIronicReason}
	if history := s.histories[name]; history != nil {
		stale.Observed = history.LastSeen(key)
	}
	return stale
}

// describe says why there is no Member with a name.
func (s *state) describe(name string) string {
	switch {
	case !s.synced:
		return "the IronicInstances have not been read yet"
	case s.problems[name] != nil:
		return describeUnusable(name)
	}
	return fmt.Sprintf("IronicInstance %q does not exist", name)
}

// Instance returns the Member with a name, or the Problem why there is none, for administrators.
func (k *known) Instance(name string) (*Member, error) {
	s := k.state.Load()
	if m := s.members[name]; m != nil {
		return m, nil
	}
	if problem := s.problems[name]; problem != nil {
		return nil, problem
	}
	return nil, errors.New("the server has not read it yet")
}

// OwnerOf returns the name of the Ironic whose own a host is: the one that has its node, or, if it has none, the one that selects
// it. The labels of the host's namespace are nil if they are not known. If the host is no Ironic's, or that is not certain, problem
// tells its user why, and the name is empty.
func (k *known) OwnerOf(host *metal3.BareMetalHost, namespace labels.Set) (name, problem string) {
	s := k.state.Load()
	switch {
	case hasNode(host) && s.members[host.Status.Record.Ironic] != nil:
		return host.Status.Record.Ironic, ""
	case hasNode(host):
		return "", s.describe(host.Status.Record.Ironic)
	case !s.synced:
		return "", s.describe("")
	}
	return choose(s.selections, host, namespace)
}

// sameAs reports whether a later state has nothing new.
func (s *state) sameAs(later *state) bool {
	same := func(a, b selection) bool {
		return a.name == b.name && a.unusable == b.unusable && equality.Semantic.DeepEqual(a.spec, b.spec)
	}
	if len(s.members) != len(later.members) || !slices.EqualFunc(s.selections, later.selections, same) {
		return false
	}
	for name, m := range s.members {
		if later.members[name] != m {
			return false
		}
	}
	for name, problem := range later.problems {
		if s.problems[name] == nil || *s.problems[name] != *problem {
			return false
		}
	}
	return maps.EqualFunc(s.objects, later.objects, func(a, b *ironicObject) bool { return equality.Semantic.DeepEqual(a, b) })
}

// Described is what is known of how an Ironic is reached.
type Described struct {
	// Endpoint is the URL of Ironic; empty if the service catalog has it, or if it is not known.
	Endpoint string
	// IronicReady is the condition IronicReady; nil without an Ironic object, or if that was never read.
	IronicReady *metav1.Condition
}

// Describe returns what is known of how the Ironic of an IronicInstance is reached.
func (k *known) Describe(name string) Described {
	s := k.state.Load()
	var d Described
	if object := s.objects[name]; object != nil {
		d = Described{object.endpoint(), object.readiness()}
	} else if m := s.members[name]; m != nil {
		d.Endpoint = m.connection.endpoint
	}
	return d
}
