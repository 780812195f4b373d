// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"errors"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// A BMC that has not answered is left alone, for longer each time, whatever asks; others are not.
func TestBreaker(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	b := NewBreaker(clock)
	silent := &ironic.UnavailableError{Class: ironic.ClassTimeout}
	hangs := func() error { clock.Step(30 * time.Second); return silent }
	answers := func() error { return nil }
	refuses := func() error { return errors.New("refused") }
	leftAlone := func(node string) (left time.Duration) {
		t.Helper()
		var err *SilentError
		if errors.As(b.Ask(Node{UUID: node}, func() error { return errors.New("asked") }), &err) {
			left = err.Left
		}
		return left
	}

	for _, request := range []func() error{answers, refuses, answers} {
		if err := b.Ask(Node{UUID: "a"}, request); errors.As(err, new(*SilentError)) {
			t.Error("a BMC that has answered is left alone")
		}
	}
	for _, delay := range []time.Duration{minSilence, 2 * minSilence, 4 * minSilence} {
		if err := b.Ask(Node{UUID: "a"}, hangs); !errors.Is(err, silent) {
			t.Fatal(err)
		}
		left := leftAlone("a")
		if left < delay*3/4 || left > delay*5/4 {
			t.Errorf("left alone for %s, want about %s", left, delay)
		}
		if leftAlone("b") != 0 {
			t.Error("another BMC is left alone")
		}
		if errors.As(b.Ask(Node{Ironic: "room-b", UUID: "a"}, refuses), new(*SilentError)) {
			t.Error("the BMC of a node of the same UUID in another Ironic is left alone")
		}
		clock.Step(left)
	}
	if err := b.Ask(Node{UUID: "a"}, answers); err != nil {
		t.Error(err)
	}
	if leftAlone("a") != 0 {
		t.Error("left alone after an answer")
	}
	_ = b.Ask(Node{UUID: "a"}, hangs)
	b.Reset(Node{UUID: "a"})
	if leftAlone("a") != 0 {
		t.Error("left alone though it may be back")
	}
	_ = b.Ask(Node{UUID: "a"}, hangs)
	clock.Step(time.Hour)
	_ = b.Ask(Node{UUID: "b"}, hangs)
	if len(b.silent) != 1 {
		t.Errorf("%d silent BMCs are remembered, want that of the last hour", len(b.silent))
	}
}
