// SPDX-License-Identifier: Apache-2.0

package live_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/metal3-io/metal3-apiserver/test/enginetest"
)

// TestPollShares: who polls waits as long as it takes, and costs no more than a reader.
func TestPollShares(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, b *bench) {
		b.nodes.Bulk = func() time.Duration { return 10 * time.Second }
		polled := make(chan error, 1)
		go func() { polled <- b.Poll(t.Context()) }()
		synctest.Wait()
		if err := b.RefreshAll(t.Context()); err == nil {
			t.Error("a reader was answered before Ironic was")
		}
		if err := <-polled; err != nil {
			t.Error(err)
		}
	})
}

// TestSlowFeed: an answer that comes after its readers have left is recorded.
func TestSlowFeed(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, b *bench) {
		b.list(t)
		time.Sleep(5 * time.Second)
		b.nodes.Say(enginetest.NodeID(0), "changed")
		b.nodes.Single = func() time.Duration { return 5 * time.Second }
		_, lists := b.nodes.Asked()
		if err := b.RefreshAll(t.Context()); err == nil {
			t.Error("a reader was answered before Ironic was")
		}
		time.Sleep(10 * time.Second)
		if got := b.shown(t, 0); got != "changed" {
			t.Errorf("the host shows %q", got)
		}
		if _, l := b.nodes.Asked(); l != lists {
			t.Errorf("all nodes were read %d times: the test shows nothing about the feed", l-lists)
		}
	})
}

// TestHungFeeds: requests on connections that are dead without a word keep nobody from what Ironic answers to new ones.
func TestHungFeeds(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, b *bench) {
		b.list(t)
		b.nodes.Single = func() time.Duration { return time.Minute }
		for range 4 {
			if err := b.RefreshAll(t.Context()); err == nil {
				t.Error("a reader was answered before Ironic was")
			}
		}
		b.nodes.Say(enginetest.NodeID(0), "changed")
		b.nodes.Single = func() time.Duration { return 10 * time.Millisecond }
		b.list(t)
		if got := b.shown(t, 0); got != "changed" {
			t.Errorf("the host shows %q", got)
		}
		time.Sleep(time.Minute)
	})
}
