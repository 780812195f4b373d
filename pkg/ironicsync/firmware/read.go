package firmware

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
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
	Keeper     *Keeper
	Components *ComponentKeeper
	Hosts      Hosts
	Refresher  HostRefresher
	// Policies say what Preview may expect of a machine that runs something.
	Policies Policies
	// ListSettings and ListComponents return the recorded objects of all namespaces.
	ListSettings, ListComponents func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error)
	// Timeout bounds what a read waits for Ironic's list, in addition to the hosts.
	Timeout time.Duration
}

// readers bounds the requests for lists of nodes that one list of objects makes at a time.
const readers = 4

// RefreshSettings refreshes the settings of one host. After an error, what is recorded is older.
func (r *Reader) RefreshSettings(ctx context.Context, namespace, name string) error {
	return r.refreshOne(ctx, r.settings(), namespace, name)
}

// RefreshAllSettings refreshes the settings of the hosts of a namespace; empty means of all.
func (r *Reader) RefreshAllSettings(ctx context.Context, namespace string) error {
	return r.refreshAll(ctx, r.settings(), namespace)
}

// RefreshComponents refreshes the firmware components of one host, like RefreshSettings.
func (r *Reader) RefreshComponents(ctx context.Context, namespace, name string) error {
	return r.refreshOne(ctx, r.components(), namespace, name)
}

// RefreshAllComponents refreshes the firmware components of the hosts of a namespace; empty means of
// all.
func (r *Reader) RefreshAllComponents(ctx context.Context, namespace string) error {
	return r.refreshAll(ctx, r.components(), namespace)
}

// readable is a kind of objects, each of which has the name of its host.
type readable struct {
	// what is what the objects contain, for people.
	what    string
	list    func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error)
	isDue   func(host *metal3.BareMetalHost, recorded runtime.Object) bool
	refresh func(ctx context.Context, host *metal3.BareMetalHost) error
}

func (r *Reader) settings() readable {
	return readable{
		what: "BIOS settings", list: r.ListSettings,
		isDue: func(host *metal3.BareMetalHost, recorded runtime.Object) bool {
			return IsDue(host, recorded.(*metal3.HostFirmwareSettings))
		},
		refresh: func(ctx context.Context, host *metal3.BareMetalHost) error {
			_, _, err := r.Keeper.Refresh(ctx, host)
			return err
		},
	}
}

func (r *Reader) components() readable {
	return readable{
		what: "firmware components", list: r.ListComponents,
		isDue: func(host *metal3.BareMetalHost, recorded runtime.Object) bool {
			return AreComponentsDue(host, recorded.(*metal3.HostFirmwareComponents))
		},
		refresh: func(ctx context.Context, host *metal3.BareMetalHost) error {
			_, err := r.Components.Refresh(ctx, host)
			return err
		},
	}
}

func (r *Reader) refreshOne(ctx context.Context, kind readable, namespace, name string) error {
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
	return errors.Join(stale, r.refresh(ctx, kind, host))
}

func (r *Reader) refreshAll(ctx context.Context, kind readable, namespace string) error {
	stale := r.Refresher.RefreshAll(ctx)
	hosts, err := r.Hosts.List(ctx, metav1.ListOptions{})
	if err != nil {
		return errors.Join(stale, err)
	}
	list, err := kind.list(ctx, metav1.ListOptions{})
	if err != nil {
		return errors.Join(stale, err)
	}
	recorded := map[types.NamespacedName]runtime.Object{}
	if err := meta.EachListItem(list, func(obj runtime.Object) error {
		item, err := meta.Accessor(obj)
		if err == nil {
			recorded[types.NamespacedName{Namespace: item.GetNamespace(), Name: item.GetName()}] = obj
		}
		return err
	}); err != nil {
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
		known := recorded[types.NamespacedName{Namespace: host.Namespace, Name: host.Name}]
		if known == nil || namespace != "" && host.Namespace != namespace || !kind.isDue(host, known) {
			continue
		}
		slots <- struct{}{} // after the timeout, each ends at once
		running.Go(func() {
			defer func() { <-slots }()
			if err := r.refresh(ctx, kind, host); err != nil {
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

func (r *Reader) refresh(ctx context.Context, kind readable, host *metal3.BareMetalHost) error {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	if err := kind.refresh(ctx, host); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("the %s of %s/%s are as they were recorded: %w", kind.what, host.Namespace, host.Name, err)
	}
	return nil
}
