// SPDX-License-Identifier: Apache-2.0

package live_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
)

// TestHostsOfAnotherIronic: the hosts of another Ironic are neither asked about nor written, however they are read, although this
// Ironic has no such node, or even has one with the UUID.
func TestHostsOfAnotherIronic(t *testing.T) {
	for _, has := range []bool{true, false} {
		for name, read := range map[string]func(t *testing.T, b *bench){
			"singly": func(t *testing.T, b *bench) {
				_, err := b.ReadHost(t.Context(), enginetest.Namespace, enginetest.HostName(1))
				if elsewhere := new(live.ElsewhereError); !errors.As(err, &elsewhere) || elsewhere.Ironic != "b" {
					t.Errorf("it was read: %v", err)
				}
			},
			"singly, by the leader": func(t *testing.T, b *bench) {
				_, _, err := b.FreshNode(t.Context(), enginetest.Namespace, enginetest.HostName(1), true)
				if elsewhere := new(live.ElsewhereError); !errors.As(err, &elsewhere) {
					t.Errorf("it was read: %v", err)
				}
			},
			"by sweeps and the feed": func(t *testing.T, b *bench) {
				for range 3 {
					b.list(t)
					time.Sleep(40 * time.Second) // the next one is a sweep again
					b.list(t)
				}
			},
		} {
			t.Run(fmt.Sprintf("%s, node there %v", name, has), func(t *testing.T) {
				inBubble(t, 2, func(t *testing.T, b *bench) {
					b.hosts.EditStatus(t, enginetest.HostName(1), func(h *metal3.BareMetalHost) { h.Status.Record.Ironic = "b" })
					if !has {
						b.nodes.Change(func() { delete(b.nodes.ByID, enginetest.NodeID(1)) })
					}
					version := b.hosts.Host(t, enginetest.HostName(1)).ResourceVersion
					read(t, b)
					if has {
						b.nodes.Say(enginetest.NodeID(1), "not of this host")
					}
					read(t, b)
					if got := b.hosts.Host(t, enginetest.HostName(1)); got.ResourceVersion != version {
						t.Errorf("the host of another Ironic was written: %+v", got.Status)
					}
					if gets, _ := b.nodes.Asked(); gets != 0 {
						t.Errorf("asked for single nodes %d times", gets)
					}
				})
			})
		}
	}
}

// TestCachedBeforeItMoved: what the cache has of a host from before it moved counts for nothing, and is not recorded.
func TestCachedBeforeItMoved(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, b *bench) {
		b.hosts.EditStatus(t, enginetest.HostName(0), func(h *metal3.BareMetalHost) { h.Status.Record.Ironic = "b" })
		b.nodes.Change(func() { b.nodes.ByID = map[string]ironic.Node{} })
		b.hosts.CacheLags = true
		version := b.hosts.Host(t, enginetest.HostName(0)).ResourceVersion
		for range 4 {
			_, err := b.ReadHost(t.Context(), enginetest.Namespace, enginetest.HostName(0))
			if elsewhere := new(live.ElsewhereError); !errors.As(err, &elsewhere) {
				t.Errorf("it was read: %v", err)
			}
		}
		if got := b.hosts.Host(t, enginetest.HostName(0)); got.ResourceVersion != version {
			t.Errorf("it was written: %+v", got.Status)
		}
	})
}

// TestMissingNodeHasAllRead: a node that is missing, which no feed shows, has all nodes be read with the next observation of all.
func TestMissingNodeHasAllRead(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, b *bench) {
		b.list(t)
		b.list(t)
		_, lists := b.nodes.Asked()
		host := b.hosts.Host(t, enginetest.HostName(0))
		b.nodes.Change(func() { b.nodes.ByID = map[string]ironic.Node{} })
		time.Sleep(time.Second)
		if err := b.RefreshHost(t.Context(), enginetest.Namespace, enginetest.HostName(0)); err != nil || !b.HasNodeOf(host) {
			t.Errorf("%v; node known: %v", err, b.HasNodeOf(host))
		}
		b.list(t)
		if _, more := b.nodes.Asked(); more != lists+1 || b.HasNodeOf(host) {
			t.Errorf("all nodes were read %d times; node known: %v", more-lists, b.HasNodeOf(host))
		}
		b.list(t)
		if _, more := b.nodes.Asked(); more != lists+1 {
			t.Errorf("all nodes were read %d times", more-lists)
		}
	})
}
