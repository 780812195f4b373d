// SPDX-License-Identifier: Apache-2.0

package console

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func mustBeFull(t *testing.T, c *Consoles, options Options, says string) {
	t.Helper()
	_, err := c.Enter(options)
	if full := new(LimitError); !errors.As(err, &full) || !strings.Contains(err.Error(), says) {
		t.Errorf("%+v is told %v, want %s", options, err, says)
	}
}

func mustEnter(t *testing.T, c *Consoles, options Options) *Place {
	t.Helper()
	place, err := c.Enter(options)
	if err != nil {
		t.Fatalf("%+v: %v", options, err)
	}
	return place
}

// TestLimits: who has used up a limit is told so, others are not affected, and whoever leaves makes room.
func TestLimits(t *testing.T) {
	consoles := New(t.Context(), newFakeIronic(t).of, newFakeClaims())
	var taken []*Place
	enter := func(user, namespace, name string) {
		t.Helper()
		taken = append(taken, mustEnter(t, consoles, Options{User: user, Namespace: namespace, Name: name}))
	}
	// Users of the namespace a, each at as many consoles as a user may have.
	for n := range maxPerNamespace {
		enter(fmt.Sprint("user", n/maxPerUser), "a", fmt.Sprint(n%maxPerUser))
	}
	mustBeFull(t, consoles, Options{User: "other", Namespace: "a", Name: "0"}, "namespace")
	mustBeFull(t, consoles, Options{User: "other", Namespace: "a", Name: "0", Force: true}, "namespace")
	mustBeFull(t, consoles, Options{User: "user0", Namespace: "b", Name: "0"}, "user0 has")
	for n := range maxPerHost {
		enter(fmt.Sprint("b", n), "b", "0")
	}
	mustBeFull(t, consoles, Options{User: "other", Namespace: "b", Name: "0"}, "force=true")
	mustEnter(t, consoles, Options{User: "other", Namespace: "b", Name: "0", Force: true}).Leave()
	for n := maxPerNamespace + maxPerHost; n < maxConnections; n++ {
		group := fmt.Sprint("c", n/maxPerHost)
		enter(group, group, "0")
	}
	mustBeFull(t, consoles, Options{User: "other", Namespace: "d", Name: "0", Force: true}, "this server")
	taken[0].Leave()
	taken = taken[1:]
	enter("user0", "d", "0")
	mustBeFull(t, consoles, Options{User: "other", Namespace: "d", Name: "0"}, "this server")
	for _, place := range taken {
		place.Leave()
	}
	mustCountNobody(t, consoles)
}

func mustCountNobody(t *testing.T, c *Consoles) {
	t.Helper()
	if p := c.places; p.total != 0 || len(p.byHost)+len(p.byUser)+len(p.byNamespace) != 0 {
		t.Errorf("when all have left, %d connections are counted: %v %v %v", p.total, p.byHost, p.byUser, p.byNamespace)
	}
}

// TestSessionHoldsItsPlace: the place of who has opened a console is free when the console is disabled, and
// not when the user has left, so that nobody has more consoles than places.
func TestSessionHoldsItsPlace(t *testing.T) {
	f := newFakeIronic(t)
	consoles, stop := newConsoles(t, f, newFakeClaims())
	first, second := mustEnter(t, consoles, Options{User: "a", Name: "n", Share: true}), mustEnter(t, consoles, Options{User: "b", Name: "n", Share: true})
	opener, err := consoles.Open(t.Context(), Node{UUID: "n"}, first)
	if err != nil {
		t.Fatal(err)
	}
	joiner, err := consoles.Open(t.Context(), Node{UUID: "n"}, second)
	if err != nil {
		t.Fatal(err)
	}
	opener.Close()
	first.Leave()
	if consoles.places.total != 2 {
		t.Errorf("%d places are taken while the console is open", consoles.places.total)
	}
	joiner.Close()
	second.Leave()
	failed := mustEnter(t, consoles, Options{User: "a", Name: "without"})
	if _, err := consoles.Open(t.Context(), Node{UUID: "without"}, failed); err == nil {
		t.Error("a console was opened that does not exist")
	}
	failed.Leave()
	stop() // waits until all consoles are closed
	mustCountNobody(t, consoles)
}
