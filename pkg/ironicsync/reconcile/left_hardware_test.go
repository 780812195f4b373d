// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/reconcile"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

// deleteHardware has the HardwareData of the host deleted, as the garbage collector or somebody who deletes the
// namespace does. Others' finalizers keep it, too.
func (w *world) deleteHardware(others ...string) {
	w.t.Helper()
	data, err := w.hardware.Get(w.t.Context(), enginetest.Namespace, enginetest.HostName(0))
	if err == nil && !slices.Equal(data.Finalizers, []string{metal3.HardwareDataFinalizer}) {
		err = errors.New("it has not the finalizer that it is to lose")
	}
	if err == nil {
		data.Finalizers = append(data.Finalizers, others...)
		data.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		_, err = w.hardware.Update(w.t.Context(), data)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// finalizersOfHardware are those of the HardwareData of the host; there is none if exists is false.
func (w *world) finalizersOfHardware() (finalizers []string, exists bool) {
	data, err := w.hardware.Get(w.t.Context(), enginetest.Namespace, enginetest.HostName(0))
	if err != nil {
		return nil, false
	}
	return data.Finalizers, true
}

// letHostGo removes the host past the leader, as an administrator does whose Ironic will never come back.
func (w *world) letHostGo() {
	w.t.Helper()
	w.hosts.Edit(w.t, enginetest.HostName(0), func(h *metal3.BareMetalHost) {
		h.DeletionTimestamp, h.Finalizers = &metav1.Time{Time: time.Now()}, nil
	})
}

// TestHardwareOfLostHost: a HardwareData whose host was removed past the leader can be deleted, in whichever order that
// happens and also while nobody leads. What others keep, they keep.
func TestHardwareOfLostHost(t *testing.T) {
	const other = "example.com/other"
	isGone := func(w *world) func() bool {
		return func() bool { _, exists := w.finalizersOfHardware(); return !exists }
	}
	for name, happens := range map[string]func(t *testing.T, w *world){
		"deleted after its host": func(_ *testing.T, w *world) {
			w.letHostGo()
			time.Sleep(time.Minute)
			w.deleteHardware()
			w.after(10*time.Second, "the HardwareData is gone", isGone(w))
		},
		"deleted before its host": func(t *testing.T, w *world) {
			w.deleteHardware()
			time.Sleep(time.Minute)
			if isGone(w)() {
				t.Error("the HardwareData of a host that exists is gone")
			}
			w.letHostGo()
			w.after(10*time.Second, "the HardwareData is gone", isGone(w))
		},
		"while nobody leads": func(_ *testing.T, w *world) {
			w.stop()
			w.letHostGo()
			w.deleteHardware()
			w.start(0)
			w.after(10*time.Second, "the HardwareData is gone", isGone(w))
		},
		"others keep it": func(_ *testing.T, w *world) {
			w.letHostGo()
			w.deleteHardware(other)
			w.after(10*time.Second, "only they do", func() bool {
				finalizers, _ := w.finalizersOfHardware()
				return slices.Equal(finalizers, []string{other})
			})
		},
		"not deleted": func(t *testing.T, w *world) {
			w.letHostGo()
			time.Sleep(time.Minute)
			if finalizers, _ := w.finalizersOfHardware(); len(finalizers) != 1 {
				t.Errorf("the HardwareData, which nobody has deleted, has the finalizers %v", finalizers)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inSimulation(t, ironicsim.Options{}, func(t *testing.T, w *world) {
				w.available()
				happens(t, w)
			})
		})
	}
}

// unreadHosts are hosts that cannot be read one by one while etcd does not answer.
type unreadHosts struct {
	live.Hosts
	away atomic.Bool
	// meanwhile is called when a host has been read that does not exist.
	meanwhile func()
}

func (h *unreadHosts) Get(ctx context.Context, namespace, name string) (*metal3.BareMetalHost, error) {
	if h.away.Load() {
		return nil, errors.New("etcd does not answer")
	}
	host, err := h.Hosts.Get(ctx, namespace, name)
	if err != nil && h.meanwhile != nil {
		h.meanwhile()
	}
	return host, err
}

// runWith replaces the process by one with other access to the hosts.
func (w *world) runWith(hosts live.Hosts) {
	w.stop()
	ctx, cancel := context.WithCancel(w.t.Context())
	w.run(ctx, cancel, hosts, w.sim, reconcile.Settings{BMCs: anywhere, Images: anywhere, Workers: 4, PollInterval: time.Second})
}

// TestHardwareStaysUntilHostIsKnownToBeGone: that etcd does not answer does not pass for a host that does not exist,
// and once it does answer, nothing else has to happen.
func TestHardwareStaysUntilHostIsKnownToBeGone(t *testing.T) {
	inSimulation(t, ironicsim.Options{}, func(t *testing.T, w *world) {
		w.available()
		hosts := &unreadHosts{Hosts: w.hosts}
		w.runWith(hosts)
		hosts.away.Store(true)
		w.letHostGo()
		w.deleteHardware()
		time.Sleep(10 * time.Minute)
		if _, exists := w.finalizersOfHardware(); !exists {
			t.Fatal("the HardwareData is gone, and its host may exist")
		}
		hosts.away.Store(false)
		w.after(5*time.Minute, "the HardwareData is gone", func() bool { _, exists := w.finalizersOfHardware(); return !exists })
	})
}

// TestHardwareOfNewHostStays: a HardwareData that has taken the place of the one that is to go, as a new host of the
// name has, keeps its finalizer.
func TestHardwareOfNewHostStays(t *testing.T) {
	inSimulation(t, ironicsim.Options{}, func(t *testing.T, w *world) {
		w.available()
		fresh, err := w.hardware.Get(t.Context(), enginetest.Namespace, enginetest.HostName(0))
		if err != nil {
			t.Fatal(err)
		}
		fresh.UID = "of the new one"
		var once sync.Once
		w.runWith(&unreadHosts{Hosts: w.hosts, meanwhile: func() { once.Do(func() { _ = w.hardware.Put(t.Context(), fresh) }) }})
		w.letHostGo()
		w.deleteHardware()
		time.Sleep(time.Minute)
		data, err := w.hardware.Get(t.Context(), enginetest.Namespace, enginetest.HostName(0))
		if err != nil || data.UID != fresh.UID || len(data.Finalizers) != 1 {
			t.Errorf("the new HardwareData is %+v (%v)", data, err)
		}
	})
}
