// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"maps"
	"slices"
	"sync"
)

// IronicPlaces are Places of which each Ironic has its own, so that what waits for one Ironic never takes the places of another
// one's hosts. All methods may be called concurrently.
type IronicPlaces struct {
	places, greed int
	requeue       func(namespace, name string)

	mu sync.Mutex
	// byIronic has the Places of each Ironic that was asked for, by its name. An Ironic that is gone leaves its own behind: they
	// are small, and Ironics are few.
	byIronic map[string]*Places
}

// NewIronicPlaces returns so many places for each Ironic. The arguments are those of NewPlaces; with greed 0, a namespace may have
// all places of an Ironic.
func NewIronicPlaces(places, greed int, requeue func(namespace, name string)) *IronicPlaces {
	return &IronicPlaces{places: places, greed: greed, requeue: requeue, byIronic: map[string]*Places{}}
}

// of returns the Places of an Ironic; the one of the server's flags has no name.
func (p *IronicPlaces) of(ironic string) *Places {
	p.mu.Lock()
	defer p.mu.Unlock()
	places := p.byIronic[ironic]
	if places == nil {
		places = NewPlaces(p.places, p.greed, p.requeue)
		p.byIronic[ironic] = places
	}
	return places
}

// TryEnter is that of the Ironic's Places. The object waits for no other Ironic any more.
func (p *IronicPlaces) TryEnter(ironic, namespace, name string) bool {
	own := p.of(ironic)
	for _, places := range p.all() {
		if places != own {
			places.Forget(namespace, name)
		}
	}
	return own.TryEnter(namespace, name)
}

// Leave gives back a place of an Ironic that was taken in a namespace.
func (p *IronicPlaces) Leave(ironic, namespace string) { p.of(ironic).Leave(namespace) }

// Forget says that an object is gone, or does not want a place any more.
func (p *IronicPlaces) Forget(namespace, name string) {
	for _, places := range p.all() {
		places.Forget(namespace, name)
	}
}

func (p *IronicPlaces) all() []*Places {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Values(p.byIronic))
}
