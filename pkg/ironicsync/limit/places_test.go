// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"fmt"
	"slices"
	"testing"
)

// enter tries to take a place for each of n objects of a namespace, and returns how many have got one.
func enter(p *Places, namespace string, n int) (entered int) {
	for i := range n {
		if p.TryEnter(namespace, fmt.Sprint(i)) {
			entered++
		}
	}
	return entered
}

func TestPlacesAreShared(t *testing.T) {
	p := NewPlaces(12, 1, func(string, string) {})
	for _, want := range []struct {
		namespace string
		places    int
	}{{"a", 6}, {"b", 3}, {"c", 1}, {"d", 1}, {"e", 1}, {"f", 0}} {
		if got := enter(p, want.namespace, 100); got != want.places {
			t.Errorf("namespace %s has %d places, want %d", want.namespace, got, want.places)
		}
	}
}

func TestPlacesWake(t *testing.T) {
	var woken []string
	p := NewPlaces(4, 1, func(namespace, name string) { woken = append(woken, namespace+"/"+name) })
	if got := enter(p, "a", 5); got != 2 {
		t.Fatalf("%d places, want 2", got)
	}
	p.Leave("a")
	if !slices.Equal(woken, []string{"a/2"}) {
		t.Errorf("woken are %v, want the first that waits", woken)
	}
	if p.TryEnter("a", "3") {
		t.Error("the place of the one that was woken is taken by another")
	}
	if !p.TryEnter("b", "0") {
		t.Error("a namespace that has no place has to wait")
	}
	if !p.TryEnter("a", "2") {
		t.Error("the one that was woken gets no place")
	}
	p.Forget("a", "3")
	p.Leave("b")
	woken = nil
	p.Leave("a")
	if !slices.Equal(woken, []string{"a/4"}) {
		t.Errorf("woken are %v, want the one that was not forgotten", woken)
	}
}

// TestShares: the rule with another greed, as for the BMCs that were silent before.
func TestShares(t *testing.T) {
	f := newFleet(50)
	f.WithShares(func() int { return 9 })
	for _, want := range []struct {
		namespace string
		hosts     int
	}{{"a", 45}, {"b", 4}, {"c", 1}} {
		started := 0
		for _, h := range many(want.namespace, 100) {
			if f.TryStart(h.namespace, h.name) {
				f.begin(h)
				started++
			}
		}
		if started != want.hosts {
			t.Errorf("in namespace %s, %d hosts may start, want %d", want.namespace, started, want.hosts)
		}
	}
}
