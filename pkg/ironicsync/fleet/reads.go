// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/registrar"
)

// maxMoves is how often a read follows a host that is moved from one Ironic to another while it is read.
const maxMoves = 3

// SomeAwayError reports which Ironics could not be asked. What the others say is shown.
type SomeAwayError struct {
	// Ironics has an error for each of them.
	Ironics []error
	// Others is set if there are others.
	Others bool
}

// newSomeAwayError is told what observing each Ironic came to.
func newSomeAwayError(failed []error) *SomeAwayError {
	e := &SomeAwayError{}
	for _, err := range failed {
		if partial := new(live.PartialError); err == nil || errors.As(err, &partial) {
			e.Others = true
		}
		if err != nil {
			e.Ironics = append(e.Ironics, err)
		}
	}
	return e
}

func (e *SomeAwayError) Error() string {
	texts := make([]string, len(e.Ironics))
	for i, err := range e.Ironics {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

// Unwrap returns an error for each Ironic that could not be asked.
func (e *SomeAwayError) Unwrap() []error { return e.Ironics }

// LiveForOthers reports whether the status of the hosts of other Ironics is live.
func (e *SomeAwayError) LiveForOthers() bool { return e.Others }

// RefreshAll returns when an observation of each Ironic that has nodes of the hosts of a namespace, and that began after the call, has
// been recorded; see live.Refresher. Empty is all namespaces. Another Ironic that hangs is none of their readers' business. Each Ironic
// has its own time. If some cannot be asked, the error is a *SomeAwayError.
func (f *Fleet) RefreshAll(ctx context.Context, namespace string) error {
	s, err := f.synced(ctx)
	if err != nil {
		return err
	}
	asked, err := f.know(ctx, s, namespace)
	switch {
	case err != nil:
		return err
	case namespace != "" && len(asked) == 0:
		return nil // nothing in the answer is Ironic's
	case len(s.members) == 1 && len(s.problems) == 0 && (len(asked) == 0 || len(asked) == 1 && asked[0] == ""):
		return live.OnlyIn(namespace, f.home.Refresher.RefreshAll(ctx))
	}
	if namespace == "" {
		for name, m := range s.members {
			if !slices.Contains(asked, name) {
				m.Refresher.Touch() // its nodes are counted, for administrators
			}
		}
	}
	failed := make([]error, len(asked))
	var running sync.WaitGroup
	for i, name := range asked {
		m := s.members[name]
		if m == nil {
			failed[i] = s.notAsked(name, types.NamespacedName{})
			continue
		}
		running.Go(func() {
			if err := live.OnlyIn(namespace, m.Refresher.RefreshAll(ctx)); err != nil {
				failed[i] = fmt.Errorf("%s: %w", ironic.DescribeInstance(name), err)
			}
		})
	}
	running.Wait()
	if away := newSomeAwayError(failed); len(away.Ironics) > 0 {
		return away
	}
	return nil
}

// know tells each Ironic which hosts of a namespace have their nodes in it, and returns the names of these Ironics, in order.
func (f *Fleet) know(ctx context.Context, s *state, namespace string) (asked []string, err error) {
	list, err := f.listHosts(ctx, namespace)
	if err != nil {
		return nil, err
	}
	hosts := byIronic(list)
	for name, own := range hosts {
		if m := s.members[name]; m != nil {
			m.Refresher.Know(own)
		}
	}
	return sets.List(sets.KeySet(hosts)), nil
}

// listHosts returns the recorded hosts of a namespace; empty is all namespaces.
func (f *Fleet) listHosts(ctx context.Context, namespace string) (*metal3.BareMetalHostList, error) {
	if namespace == "" {
		return f.deps.Live.Hosts.List(ctx, metav1.ListOptions{})
	}
	return f.deps.HostsIn(ctx, namespace)
}

// byIronic returns the hosts of a list that have nodes, by the names of the Ironics that have these. A host that gets its node
// later is shown as it is recorded then, which is an observation that began after the list was asked for, too.
func byIronic(list *metal3.BareMetalHostList) map[string][]*metal3.BareMetalHost {
	hosts := map[string][]*metal3.BareMetalHost{}
	for _, host := range live.PointersOf(list) {
		if host.Status.Provisioning.ID != "" {
			hosts[host.Status.Record.Ironic] = append(hosts[host.Status.Record.Ironic], host)
		}
	}
	return hosts
}

// synced waits until the IronicInstances have been read, as long as a read waits for Ironic. Without them, the hosts of some Ironic
// would be shown as they are recorded, and nobody would be told.
func (f *Fleet) synced(ctx context.Context) (*state, error) {
	timer := f.deps.Live.Clock.NewTimer(live.Patience(ctx, f.deps.Live.Clock, f.deps.Live.Wait))
	defer timer.Stop()
	for {
		s := f.state.Load()
		if s.synced {
			return s, nil
		}
		select {
		case <-s.changed:
		case <-timer.C():
			return nil, &live.StaleError{Cause: &ironic.UnavailableError{Op: "observe", Reason: s.describe("")}, Observed: f.home.Refresher.LastObserved()}
		case <-ctx.Done():
			return nil, &live.StaleError{Cause: ctx.Err(), Observed: f.home.Refresher.LastObserved()}
		}
	}
}

// ReadTimeout returns how long a read waits for the Ironic of an IronicInstance; empty is the Ironic of the server's flags.
func (f *Fleet) ReadTimeout(name string) time.Duration {
	if m := f.state.Load().members[name]; m != nil {
		return m.connection.read
	}
	return f.deps.Live.Wait
}

// ReadHost returns a host when an observation of its own Ironic that began after the call has been recorded; see live.Refresher.
func (f *Fleet) ReadHost(ctx context.Context, namespace, name string) (*metal3.BareMetalHost, error) {
	in := ""
	if cached := f.deps.Live.Hosts.Cached(ctx, namespace, name); cached != nil {
		in = cached.Status.Record.Ironic
	}
	for move := 0; ; move++ {
		host, err := f.readHostIn(ctx, in, namespace, name)
		elsewhere := new(live.ElsewhereError)
		if move == maxMoves || !errors.As(err, &elsewhere) {
			return host, err
		}
		in = elsewhere.Ironic
	}
}

func (f *Fleet) readHostIn(ctx context.Context, in, namespace, name string) (*metal3.BareMetalHost, error) {
	m := f.state.Load().members[in]
	if m == nil {
		s, err := f.synced(ctx)
		if err != nil {
			return nil, err
		}
		if m = s.members[in]; m == nil {
			return nil, s.notAsked(in, types.NamespacedName{Namespace: namespace, Name: name})
		}
	}
	host, err := m.Refresher.ReadHost(ctx, namespace, name)
	if err != nil && in != "" {
		err = fmt.Errorf("%s: %w", ironic.DescribeInstance(in), err)
	}
	if host != nil || err != nil {
		return host, err
	}
	// An observation of all hosts of the Ironic has served this reader, too. It says nothing of the host if that has its node in
	// another one.
	recorded, err := f.deps.Live.Hosts.Get(ctx, namespace, name)
	if err != nil {
		return nil, live.IgnoreNotFound(err)
	}
	if recorded.Status.Provisioning.ID != "" && recorded.Status.Record.Ironic != in {
		return nil, &live.ElsewhereError{Namespace: namespace, Name: name, Ironic: recorded.Status.Record.Ironic}
	}
	return recorded.DeepCopy(), nil
}

// RefreshHost does what ReadHost does, for a caller who reads the host himself.
func (f *Fleet) RefreshHost(ctx context.Context, namespace, name string) error {
	_, err := f.ReadHost(ctx, namespace, name)
	return err
}

// ObserveNode reads the node of a host, has what it says recorded, and returns it; see baremetalhost.Nodes.
func (f *Fleet) ObserveNode(ctx context.Context, host *metal3.BareMetalHost) (*ironic.Node, error) {
	m, err := f.named(host.Status.Record.Ironic)
	if err != nil {
		return nil, err
	}
	_, node, err := m.Refresher.FreshNode(ctx, host.Namespace, host.Name, false)
	return node, err
}

// WhyNotTaken tells the user of a host why an Ironic cannot take it from the one where it is; see registrar.WhyNotTaken. The error is an
// *ironic.UnavailableError if there is no such Ironic, or if it cannot be used.
func (f *Fleet) WhyNotTaken(ctx context.Context, name string, host *metal3.BareMetalHost) (why string, err error) {
	m, err := f.named(name)
	if err != nil {
		return "", err
	}
	return registrar.WhyNotTaken(ctx, m.Client, m.Refresher, host)
}
