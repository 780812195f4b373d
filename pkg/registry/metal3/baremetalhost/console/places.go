// SPDX-License-Identifier: Apache-2.0

package console

import (
	"fmt"
	"sync"
)

// How many connections to consoles there may be in this process at a time. Each holds memory, and a place
// in kube-apiserver's flow control for as long as it lasts (docs/console.md). Requests that are still
// opening a console count, too.
const (
	maxConnections  = 100
	maxPerNamespace = 32
	maxPerUser      = 16
	maxPerHost      = 8
)

// LimitError says which limit on connections keeps a user from a console.
type LimitError struct{ Reason string }

func (e *LimitError) Error() string { return e.Reason }

// places counts the connections. It has no entries for what has none.
type places struct {
	mu          sync.Mutex
	total       int
	byHost      map[string]int
	byUser      map[string]int
	byNamespace map[string]int
}

func newPlaces() *places {
	return &places{byHost: map[string]int{}, byUser: map[string]int{}, byNamespace: map[string]int{}}
}

// Place is the place of a connection. It is free again when everybody has left who holds it: the user, and
// the session that the user has opened, which may still have to be closed in Ironic after that.
type Place struct {
	places  *places
	options Options
	holders int
}

// Enter takes a place for a connection, which the caller must leave. The error is a *LimitError. Nothing is
// asked of Ironic before that, so that refused users cost nothing.
//
// Whoever ends the session of others by force can do so also if the others have all places of the host.
func (c *Consoles) Enter(options Options) (*Place, error) {
	p := c.places
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.total >= maxConnections:
		return nil, &LimitError{fmt.Sprintf("this server has %d connections to consoles, which is its limit; try again later", maxConnections)}
	case p.byNamespace[options.Namespace] >= maxPerNamespace:
		return nil, &LimitError{fmt.Sprintf("its namespace has %d connections to consoles, which is the limit of a namespace; close one", maxPerNamespace)}
	case p.byUser[options.User] >= maxPerUser:
		return nil, &LimitError{fmt.Sprintf("%s has %d connections to consoles, which is the limit of a user; close one", options.User, maxPerUser)}
	case p.byHost[options.host()] >= maxPerHost && !options.Force:
		return nil, &LimitError{fmt.Sprintf("its console has %d connections, which is the limit of a host; force=true ends them", maxPerHost)}
	}
	p.total++
	p.byHost[options.host()]++
	p.byUser[options.User]++
	p.byNamespace[options.Namespace]++
	return &Place{places: p, options: options, holders: 1}, nil
}

// hold adds somebody who holds the place.
func (p *Place) hold() {
	p.places.mu.Lock()
	defer p.places.mu.Unlock()
	p.holders++
}

// Leave frees the place if nobody else holds it.
func (p *Place) Leave() {
	p.places.mu.Lock()
	defer p.places.mu.Unlock()
	if p.holders--; p.holders > 0 {
		return
	}
	p.places.total--
	decrement(p.places.byHost, p.options.host())
	decrement(p.places.byUser, p.options.User)
	decrement(p.places.byNamespace, p.options.Namespace)
}

func decrement(counts map[string]int, key string) {
	if counts[key]--; counts[key] <= 0 {
		delete(counts, key)
	}
}
