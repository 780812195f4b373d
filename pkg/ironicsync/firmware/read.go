// SPDX-License-Identifier: Apache-2.0

package firmware

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/kinds"
)

// Hosts gives access to the recorded hosts.
type Hosts interface {
	kinds.Getter[*metal3.BareMetalHost]
	// ListIn returns the hosts of a namespace; empty means of all.
	ListIn(ctx context.Context, namespace string) (*metal3.BareMetalHostList, error)
}

// HostRefresher brings the recorded status of hosts up to date with Ironic.
type HostRefresher interface {
	RefreshHost(ctx context.Context, namespace, name string) error
	RefreshAll(ctx context.Context, namespace string) error
}

// Reader brings HostFirmwareSettings and HostFirmwareComponents up to date for those who read them:
// first the hosts, as for a read of hosts, and then the objects of those whose nodes have come into
// another state.
type Reader struct {
	Settings   *SettingsKeeper
	Components *ComponentKeeper
	Hosts      Hosts
	Refresher  HostRefresher
	// Policies say what Preview may expect of a machine that runs something.
	Policies kinds.Getter[*metal3.HostUpdatePolicy]
	// Timeout returns what bounds how long a read waits for the list of the Ironic of an IronicInstance (empty: of the server's
	// flags), in addition to the hosts.
	Timeout func(ironic string) time.Duration
}

// readers bounds the requests for lists of nodes that one list of objects makes to an Ironic at a time.
const readers = 4

// RefreshSettings refreshes the settings of one host. After an error, what is recorded is older.
func (r *Reader) RefreshSettings(ctx context.Context, namespace, name string) error {
	return refreshOne(ctx, r, r.Settings.Keeper, namespace, name)
}

// RefreshAllSettings refreshes the settings of the hosts of a namespace; empty means of all.
func (r *Reader) RefreshAllSettings(ctx context.Context, namespace string) error {
	return refreshAll(ctx, r, r.Settings.Keeper, namespace)
}

// RefreshComponents refreshes the firmware components of one host, like RefreshSettings.
func (r *Reader) RefreshComponents(ctx context.Context, namespace, name string) error {
	return refreshOne(ctx, r, r.Components, namespace, name)
}

// RefreshAllComponents refreshes the firmware components of the hosts of a namespace; empty means of
// all.
func (r *Reader) RefreshAllComponents(ctx context.Context, namespace string) error {
	return refreshAll(ctx, r, r.Components, namespace)
}

func refreshOne[T kinds.Object](ctx context.Context, r *Reader, keeper *Keeper[T], namespace, name string) error {
	stale := r.Refresher.RefreshHost(ctx, namespace, name)
	host, err := r.Hosts.Get(ctx, namespace, name)
	switch {
	case apierrors.IsNotFound(err):
		return stale
	case err != nil:
		return errors.Join(stale, err)
	case !has(host):
		return stale
	}
	ctx, cancel := context.WithTimeout(ctx, r.Timeout(host.Status.Record.Ironic))
	defer cancel()
	return errors.Join(stale, refresh(ctx, keeper, host))
}

func refreshAll[T kinds.Object](ctx context.Context, r *Reader, keeper *Keeper[T], namespace string) error {
	stale := r.Refresher.RefreshAll(ctx, namespace)
	hosts, err := r.Hosts.ListIn(ctx, namespace)
	if err != nil {
		return errors.Join(stale, err)
	}
	recorded, err := keeper.listIn(ctx, namespace)
	if err != nil {
		return errors.Join(stale, err)
	}
	due := map[string][]*metal3.BareMetalHost{} // by the name of the Ironic
	for i := range hosts.Items {
		host := &hosts.Items[i]
		known, exists := recorded[kinds.KeyOf(host)]
		if exists && keeper.mayChange(host, known) {
			due[host.Status.Record.Ironic] = append(due[host.Status.Record.Ironic], host)
		}
	}
	names := slices.Sorted(maps.Keys(due))
	failures := make([]error, len(names))
	var running sync.WaitGroup
	for i, name := range names {
		running.Go(func() { failures[i] = refreshHosts(ctx, r.Timeout(name), keeper, name, due[name]) })
	}
	running.Wait()
	return errors.Join(append([]error{stale}, failures...)...)
}

// refreshHosts refreshes the objects of hosts, all of the Ironic of that name. The error is the first one, and names the Ironic.
func refreshHosts[T kinds.Object](ctx context.Context, timeout time.Duration, keeper *Keeper[T], ironic string, hosts []*metal3.BareMetalHost) error {
	var (
		running errgroup.Group
		failed  atomic.Int32
	)
	running.SetLimit(readers)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for _, host := range hosts {
		running.Go(func() error { // after the timeout, each ends at once
			err := refresh(ctx, keeper, host)
			if err != nil {
				failed.Add(1)
			}
			return err
		})
	}
	first := running.Wait()
	if more := failed.Load() - 1; more > 0 {
		first = fmt.Errorf("%w (and %d more)", first, more)
	}
	if first != nil && ironic != "" {
		first = fmt.Errorf("IronicInstance %s: %w", ironic, first)
	}
	return first
}

func refresh[T kinds.Object](ctx context.Context, keeper *Keeper[T], host *metal3.BareMetalHost) error {
	unread := new(unreadError)
	if _, err := keeper.Refresh(ctx, host); err != nil && !apierrors.IsNotFound(err) && !errors.As(err, &unread) { // the object says what is unread
		return fmt.Errorf("the %s of %s/%s are as they were recorded: %w", keeper.lists.content, host.Namespace, host.Name, err)
	}
	return nil
}
