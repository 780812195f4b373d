// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"slices"
	"testing"
)

// Each Ironic has all places for its own objects. An object that has come to another Ironic waits for the one before no longer.
func TestIronicPlaces(t *testing.T) {
	var woken []string
	p := NewIronicPlaces(4, 0, func(namespace, name string) { woken = append(woken, namespace+"/"+name) })
	for _, ironic := range []string{"", "room-b", "room-c"} {
		for _, name := range []string{"0", "1", "2", "3"} {
			if !p.TryEnter(ironic, "metal3", name+ironic) {
				t.Errorf("object %s of Ironic %q has no place", name, ironic)
			}
		}
		for _, name := range []string{"moves", "waits", "gone"} {
			if p.TryEnter(ironic, "metal3", name+ironic) {
				t.Errorf("object %s of Ironic %q has a place", name, ironic)
			}
		}
	}
	if p.TryEnter("room-c", "metal3", "movesroom-b") {
		t.Error("an object from another Ironic has a place")
	}
	p.Forget("metal3", "goneroom-b")
	for range 4 {
		p.Leave("room-b", "metal3")
	}
	if !slices.Equal(woken, []string{"metal3/waitsroom-b"}) {
		t.Errorf("woken are %v, want what waits for the Ironic of the places", woken)
	}
}
