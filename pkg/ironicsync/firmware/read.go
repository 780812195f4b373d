package firmware

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// Reader brings HostFirmwareSettings up to date for those who read them: first the hosts, as for a
// read of hosts, and then the settings of those whose nodes have come into another state.
type Reader struct {
	Keeper    *Keeper
	Hosts     Hosts
	Refresher HostRefresher
	// List returns the recorded HostFirmwareSettings of all namespaces.
	List func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error)
	// Timeout bounds the requests to Ironic for BIOS settings.
	Timeout time.Duration
}

// readers bounds the requests for BIOS settings that one list makes at a time.
const readers = 4

// RefreshSettings refreshes the settings of one host. After an error, what is recorded is older.
func (r *Reader) RefreshSettings(ctx context.Context, namespace, name string) error {
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
	return errors.Join(stale, r.refresh(ctx, host))
}

// RefreshAllSettings refreshes the settings of the hosts of a namespace; empty means of all.
func (r *Reader) RefreshAllSettings(ctx context.Context, namespace string) error {
	stale := r.Refresher.RefreshAll(ctx)
	hosts, err := r.Hosts.List(ctx, metav1.ListOptions{})
	if err != nil {
		return errors.Join(stale, err)
	}
	list, err := r.List(ctx, metav1.ListOptions{})
	if err != nil {
		return errors.Join(stale, err)
	}
	recorded := map[types.NamespacedName]*metal3.HostFirmwareSettings{}
	settings := list.(*metal3.HostFirmwareSettingsList)
	for i := range settings.Items {
		item := &settings.Items[i]
		recorded[types.NamespacedName{Namespace: item.Namespace, Name: item.Name}] = item
	}
	var (
		running sync.WaitGroup
		mu      sync.Mutex
		first   error
		failed  int
	)
	slots := make(chan struct{}, readers)
	for i := range hosts.Items {
		host := &hosts.Items[i]
		known := recorded[types.NamespacedName{Namespace: host.Namespace, Name: host.Name}]
		if known == nil || namespace != "" && host.Namespace != namespace || !IsDue(host, known) {
			continue
		}
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			if err := r.refresh(ctx, host); err != nil {
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

func (r *Reader) refresh(ctx context.Context, host *metal3.BareMetalHost) error {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	if _, _, err := r.Keeper.Refresh(ctx, host); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("the BIOS settings of %s/%s are as they were recorded: %w", host.Namespace, host.Name, err)
	}
	return nil
}
