package firmware

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// Hosts gives access to the recorded hosts.
type Hosts interface {
	Get(ctx context.Context, namespace, name string) (*metal3.BareMetalHost, error)
	List(ctx context.Context, options metav1.ListOptions) (*metal3.BareMetalHostList, error)
}

// HostRefresher brings the recorded status of hosts up to date with Ironic.
type HostRefresher interface {
	RefreshHost(ctx context.Context, namespace, name string) error
	RefreshAll(ctx context.Context) error
}

// Policies gives access to the recorded HostUpdatePolicies.
type Policies interface {
	Get(ctx context.Context, namespace, name string) (*metal3.HostUpdatePolicy, error)
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
	Policies Policies
	// Timeout bounds what a read waits for Ironic's list, in addition to the hosts.
	Timeout time.Duration
}

// readers bounds the requests for lists of nodes that one list of objects makes at a time.
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

func refreshOne[T Object](ctx context.Context, r *Reader, keeper *Keeper[T], namespace, name string) error {
	stale := r.Refresher.RefreshHost(ctx, namespace, name)
	host, err := r.Hosts.Get(ctx, namespace, name)
	switch {
	case apierrors.IsNotFound(err):
		return stale
	case err != nil:
		return errors.Join(stale, err)
	case !Has(host):
		return stale
	}
	return errors.Join(stale, refresh(ctx, r.Timeout, keeper, host))
}

func refreshAll[T Object](ctx context.Context, r *Reader, keeper *Keeper[T], namespace string) error {
	stale := r.Refresher.RefreshAll(ctx)
	hosts, err := r.Hosts.List(ctx, metav1.ListOptions{})
	if err != nil {
		return errors.Join(stale, err)
	}
	recorded, err := keeper.list(ctx)
	if err != nil {
		return errors.Join(stale, err)
	}
	var (
		running sync.WaitGroup
		mu      sync.Mutex
		first   error
		failed  int
	)
	slots := make(chan struct{}, readers)
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	for i := range hosts.Items {
		host := &hosts.Items[i]
		known, exists := recorded[types.NamespacedName{Namespace: host.Namespace, Name: host.Name}]
		if !exists || namespace != "" && host.Namespace != namespace || !keeper.isDue(host, known) {
			continue
		}
		slots <- struct{}{} // after the timeout, each ends at once
		running.Go(func() {
			defer func() { <-slots }()
			if err := refresh(ctx, r.Timeout, keeper, host); err != nil {
				mu.Lock()
				defer mu.Unlock()
				if failed++; first == nil {
					first = err
				}
			}
		})
	}
	running.Wait()
	if failed > 1 {
		first = fmt.Errorf("%w (and %d more)", first, failed-1)
	}
	return errors.Join(stale, first)
}

func refresh[T Object](ctx context.Context, timeout time.Duration, keeper *Keeper[T], host *metal3.BareMetalHost) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if _, err := keeper.Refresh(ctx, host); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("the %s of %s/%s are as they were recorded: %w", keeper.kind.content(), host.Namespace, host.Name, err)
	}
	return nil
}
