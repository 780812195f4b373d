// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// fakeIronic serves the console of each node at a port, to one user at a time as Ironic does.
type fakeIronic struct {
	listener net.Listener

	mu       sync.Mutex
	enabled  map[string]bool
	switched []string // what was asked for
	locked   int      // how many requests are refused because the node is locked
	refuse   error    // returned by SetConsole
	fails    bool     // nothing is enabled
	kind     string
	url      string
	conns    []net.Conn
	hold     chan struct{} // what is to be closed before GetConsole answers; may be nil
	hung     chan struct{} // the same for the node hung
}

func newFakeIronic(t *testing.T) *fakeIronic {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeIronic{listener: listener, enabled: map[string]bool{}, kind: ironic.SocatConsole, url: "tcp://" + listener.Addr().String()}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			f.mu.Lock()
			f.conns = append(f.conns, conn)
			f.mu.Unlock()
			serving.Go(func() { _, _ = io.Copy(conn, conn) }) // echoes what is typed
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		f.hangUp()
		serving.Wait()
	})
	return f
}

// of returns the Ironic for each node.
func (f *fakeIronic) of(Node) (Ironic, error) { return f, nil }

// hangUp ends all connections to consoles.
func (f *fakeIronic) hangUp() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, conn := range f.conns {
		_ = conn.Close()
	}
}

func (f *fakeIronic) GetConsole(_ context.Context, node string) (*ironic.Console, error) {
	if node == "hung" {
		<-f.hung
	}
	if f.hold != nil {
		<-f.hold
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if node == "without" {
		return &ironic.Console{Interface: "no-console"}, nil
	}
	return &ironic.Console{Interface: "ipmitool-socat", Enabled: f.enabled[node]}, nil
}

func (f *fakeIronic) GetConsoleInfo(_ context.Context, node string) (*ironic.ConsoleInfo, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.enabled[node] {
		return nil, nil
	}
	return &ironic.ConsoleInfo{Type: f.kind, URL: f.url}, nil
}

func (f *fakeIronic) SetConsole(_ context.Context, fence ironic.Fence, node string, enabled bool) error {
	if err := fence.Check(); err != nil { // as the client does
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.switched = append(f.switched, fmt.Sprint(node, " ", enabled))
	switch {
	case f.locked > 0:
		f.locked--
		return &ironic.APIError{Status: http.StatusConflict, Message: "Node x is locked by host conductor-0, please retry after the current operation is completed."}
	case f.refuse != nil:
		return f.refuse
	case !f.fails:
		f.enabled[node] = enabled
	}
	return nil
}

func (f *fakeIronic) isEnabled(node string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.enabled[node]
}

// fakeClaims are the claims of any number of processes.
type fakeClaims struct {
	mu        sync.Mutex
	held      map[Node]*fakeClaim
	abandoned map[Node]bool
}

type fakeClaim struct {
	claims *fakeClaims
	node   Node
	user   string
	lost   chan struct{}
}

func newFakeClaims() *fakeClaims {
	return &fakeClaims{held: map[Node]*fakeClaim{}, abandoned: map[Node]bool{}}
}

func (f *fakeClaims) Claim(_ context.Context, node Node, user string, force bool) (Claim, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if held := f.held[node]; held != nil {
		if !force {
			return nil, &InUseError{User: held.user}
		}
		close(held.lost)
	}
	f.held[node] = &fakeClaim{f, node, user, make(chan struct{})}
	return f.held[node], nil
}

func (f *fakeClaims) Abandoned(context.Context) ([]Node, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var nodes []Node
	for node := range f.abandoned {
		nodes = append(nodes, node)
	}
	return nodes, nil
}

func (c *fakeClaim) Lost() <-chan struct{} { return c.lost }

func (c *fakeClaim) Release(_ context.Context, disabled bool) error {
	c.claims.mu.Lock()
	defer c.claims.mu.Unlock()
	if c.claims.held[c.node] == c {
		delete(c.claims.held, c.node)
		c.claims.abandoned[c.node] = !disabled
		if disabled {
			delete(c.claims.abandoned, c.node)
		}
	}
	return nil
}

// newConsoles returns the consoles of one process, and what stops it.
func newConsoles(t *testing.T, f *fakeIronic, claims Claims) (consoles *Consoles, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	consoles = New(ctx, f.of, claims)
	done := make(chan struct{})
	go func() { defer close(done); consoles.Run(ctx) }()
	stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(stop)
	return consoles, stop
}

// open takes a place, and opens the console of a host that has the name of its node.
func open(t *testing.T, consoles *Consoles, node string, options Options) (*Connection, error) {
	t.Helper()
	options.Name = node
	place, err := consoles.Enter(options)
	if err != nil {
		return nil, err
	}
	defer place.Leave()
	return consoles.Open(t.Context(), Node{UUID: node}, place)
}

func mustOpen(t *testing.T, consoles *Consoles, node string, options Options) *Connection {
	t.Helper()
	connection, err := open(t, consoles, node, options)
	if err != nil {
		t.Fatal(err)
	}
	return connection
}

// read reads until the text was seen.
func read(t *testing.T, c *Connection, text string) {
	t.Helper()
	var got strings.Builder
	for !strings.Contains(got.String(), text) {
		select {
		case output := <-c.Output():
			got.Write(output)
		case <-c.Ended():
			t.Fatalf("the console has ended (%v) and has shown %q, want %q", c.Err(), got.String(), text)
		case <-t.Context().Done():
			t.Fatalf("the console has shown %q, want %q", got.String(), text)
		}
	}
}

func end(t *testing.T, c *Connection) error {
	t.Helper()
	select {
	case <-c.Ended():
		return c.Err()
	case <-time.After(5 * time.Minute):
		t.Fatal("the connection does not end")
		return nil
	}
}

func TestConsoleIsEnabledWhileItIsUsed(t *testing.T) {
	f := newFakeIronic(t)
	f.locked = 2 // by the power synchronisation, for example
	consoles, stop := newConsoles(t, f, newFakeClaims())
	first := mustOpen(t, consoles, "n", Options{User: "a", Share: true})
	second := mustOpen(t, consoles, "n", Options{User: "b", Share: true})
	if _, err := io.WriteString(second, "hello"); err != nil {
		t.Fatal(err)
	}
	read(t, first, "hello")
	read(t, second, "hello")
	first.Close()
	first.Close() // once more does no harm
	if _, err := io.WriteString(second, "again"); err != nil {
		t.Fatal(err)
	}
	read(t, second, "again")
	if _, err := io.WriteString(first, "x"); err == nil {
		t.Error("who has left can type")
	}
	if !f.isEnabled("n") {
		t.Error("the console is disabled while it is used")
	}
	second.Close()
	stop() // waits until all consoles are closed
	if f.isEnabled("n") {
		t.Error("the console is enabled when nobody uses it")
	}
}

func TestOneUserUnlessTheyShare(t *testing.T) {
	f := newFakeIronic(t)
	claims := newFakeClaims()
	one, _ := newConsoles(t, f, claims)
	other, _ := newConsoles(t, f, claims) // another replica
	alice := mustOpen(t, one, "n", Options{User: "alice"})
	for _, consoles := range []*Consoles{one, other} {
		_, err := open(t, consoles, "n", Options{User: "bob", Share: true})
		var inUse *InUseError
		if !errors.As(err, &inUse) || inUse.User != "alice" {
			t.Errorf("bob is told %v", err)
		}
	}
	bob := mustOpen(t, one, "n", Options{User: "bob", Force: true})
	if err := end(t, alice); err == nil || !strings.Contains(err.Error(), "bob has taken over") {
		t.Errorf("alice is told %v", err)
	}
	carol := mustOpen(t, other, "n", Options{User: "carol", Force: true})
	if err := end(t, bob); err == nil || !strings.Contains(err.Error(), "taken over") {
		t.Errorf("bob is told %v", err)
	}
	if _, err := io.WriteString(carol, "carol"); err != nil {
		t.Fatal(err)
	}
	read(t, carol, "carol")
	if !f.isEnabled("n") {
		t.Error("who has lost the console has disabled it")
	}
}

func TestConsoleThatCannotBeOpened(t *testing.T) {
	refused := &ironic.APIError{Status: http.StatusBadRequest, Message: "no"}
	tests := []struct {
		name, node string
		ironic     func(*fakeIronic)
		want       error // its type
		says       string
	}{
		{"no console", "without", func(*fakeIronic) {}, &UnsupportedError{}, "no-console"},
		{"graphical console", "n", func(f *fakeIronic) { f.kind = "vnc" }, &UnsupportedError{}, "vnc"},
		{"refused by Ironic", "n", func(f *fakeIronic) { f.refuse = refused }, refused, "no"},
		{"not enabled in the end", "n", func(f *fakeIronic) { f.fails = true }, &BrokenError{}, "status.ironic.lastError"},
		{"not an address", "n", func(f *fakeIronic) { f.url = "http://127.0.0.1:80" }, &BrokenError{}, "tcp://"},
		{"nobody listens", "n", func(f *fakeIronic) { f.url = "tcp://127.0.0.1:1" }, &BrokenError{}, "cannot be reached"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := newFakeIronic(t)
			test.ironic(f)
			claims := newFakeClaims()
			consoles, stop := newConsoles(t, f, claims)
			_, err := open(t, consoles, test.node, Options{User: "a"})
			if err == nil || fmt.Sprintf("%T", err) != fmt.Sprintf("%T", test.want) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %T %v", err, err)
			}
			stop()
			if f.isEnabled("n") || len(claims.held) > 0 {
				t.Errorf("enabled %t, claims %v", f.isEnabled("n"), claims.held)
			}
		})
	}
}

func TestConsoleThatEnds(t *testing.T) {
	f := newFakeIronic(t)
	consoles, _ := newConsoles(t, f, newFakeClaims())
	atOnce := mustOpen(t, consoles, "n", Options{User: "a"})
	hangUpWhenConnected(t, f, 1)
	if err := end(t, atOnce); err == nil || !strings.Contains(err.Error(), "ended before it had reached the machine") {
		t.Errorf("got %v", err)
	}
	later := mustOpen(t, consoles, "m", Options{User: "a"})
	if _, err := io.WriteString(later, "hello"); err != nil {
		t.Fatal(err)
	}
	read(t, later, "hello")
	f.hangUp()
	if err := end(t, later); err == nil || !strings.Contains(err.Error(), "Ironic has ended the console") {
		t.Errorf("got %v", err)
	}
}

// hangUpWhenConnected ends the connections as soon as there are n.
func hangUpWhenConnected(t *testing.T, f *fakeIronic, n int) {
	t.Helper()
	for {
		f.mu.Lock()
		connected := len(f.conns) >= n
		f.mu.Unlock()
		if connected {
			f.hangUp()
			return
		}
		if t.Context().Err() != nil {
			t.Fatal("nobody connects")
		}
	}
}

// TestSlowUserIsDisconnected: who does not receive holds nobody up.
func TestSlowUserIsDisconnected(t *testing.T) {
	f := newFakeIronic(t)
	consoles, _ := newConsoles(t, f, newFakeClaims())
	slow := mustOpen(t, consoles, "n", Options{User: "slow", Share: true})
	quick := mustOpen(t, consoles, "n", Options{User: "quick", Share: true})
	for n := range 20 * queued {
		text := fmt.Sprintf("line %d;", n)
		if _, err := io.WriteString(quick, text); err != nil {
			t.Fatal(err)
		}
		read(t, quick, text)
	}
	if err := end(t, slow); err == nil || !strings.Contains(err.Error(), "more than you have received") {
		t.Errorf("got %v", err)
	}
}

// TestConsoleThatIsBeingOpened: who comes meanwhile is told so at once, and keeps nobody from opening it.
func TestConsoleThatIsBeingOpened(t *testing.T) {
	f := newFakeIronic(t)
	f.hold = make(chan struct{})
	consoles, _ := newConsoles(t, f, newFakeClaims())
	opened := make(chan error)
	go func() {
		_, err := open(t, consoles, "n", Options{User: "a"})
		opened <- err
	}()
	isBeingOpened := func() bool {
		consoles.mu.Lock()
		defer consoles.mu.Unlock()
		_, reserved := consoles.open[Node{UUID: "n"}]
		return reserved
	}
	for !isBeingOpened() {
		runtime.Gosched()
	}
	for range 2 {
		_, err := open(t, consoles, "n", Options{User: "b", Force: true})
		if broken := new(BrokenError); !errors.As(err, &broken) || !strings.Contains(err.Error(), "just being opened") {
			t.Errorf("b is told %v", err)
		}
	}
	close(f.hold)
	if err := <-opened; err != nil {
		t.Error(err)
	}
}

func TestStoppedServerClosesItsConsoles(t *testing.T) {
	f := newFakeIronic(t)
	claims := newFakeClaims()
	consoles, stop := newConsoles(t, f, claims)
	connection := mustOpen(t, consoles, "n", Options{User: "a"})
	stop()
	if err := end(t, connection); err == nil || !strings.Contains(err.Error(), "being stopped") {
		t.Errorf("got %v", err)
	}
	if f.isEnabled("n") || len(claims.held) > 0 {
		t.Errorf("enabled %t, claims %v", f.isEnabled("n"), claims.held)
	}
	if _, err := open(t, consoles, "n", Options{User: "a"}); err == nil {
		t.Error("a stopped server opens a console")
	}
}

func TestAbandonedConsoleIsDisabled(t *testing.T) {
	f := newFakeIronic(t)
	f.enabled["killed"], f.enabled["used"], f.enabled["ours"] = true, true, true // the last is not known to us
	claims := newFakeClaims()
	killed, used := Node{UUID: "killed"}, Node{UUID: "used"}
	claims.abandoned[killed], claims.abandoned[used] = true, true
	if _, err := claims.Claim(t.Context(), used, "alice", false); err != nil {
		t.Fatal(err)
	}
	consoles := New(t.Context(), f.of, claims)
	consoles.closeAbandoned(t.Context())
	if f.isEnabled("killed") || !f.isEnabled("used") || !f.isEnabled("ours") {
		t.Errorf("asked for %v", f.switched)
	}
	if left, _ := claims.Abandoned(t.Context()); slices.Contains(left, killed) {
		t.Errorf("abandoned still: %v", left)
	}
}

// TestAbandonedConsoleThatHangs: a console that cannot be disabled holds up no other one, which is open without a password meanwhile.
func TestAbandonedConsoleThatHangs(t *testing.T) {
	f := newFakeIronic(t)
	claims := newFakeClaims()
	claims.abandoned[Node{UUID: "hung"}] = true
	for i := range 5 {
		name := fmt.Sprintf("killed-%d", i)
		f.enabled[name], claims.abandoned[Node{UUID: name}] = true, true
	}
	f.hung = make(chan struct{})
	consoles := New(t.Context(), f.of, claims)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		consoles.closeAbandoned(t.Context())
	}()
	defer func() { close(f.hung); <-ended }()
	limit := time.After(time.Minute)
	for left := []Node(nil); len(left) != 1; left, _ = claims.Abandoned(t.Context()) {
		select {
		case <-ended:
			t.Fatal("the one that hangs was not waited for")
		case <-limit:
			t.Fatalf("left enabled: %v", left)
		case <-time.After(time.Millisecond):
		}
	}
}

// TestNodesOfTwoIronicsWithOneUUID: a UUID tells nothing without its Ironic, for example after a database was restored from
// the backup of another Ironic.
func TestNodesOfTwoIronicsWithOneUUID(t *testing.T) {
	const uuid = "n"
	ironics := map[string]*fakeIronic{"": newFakeIronic(t), "room-b": newFakeIronic(t)}
	ironicOf := func(node Node) (Ironic, error) {
		if f := ironics[node.Ironic]; f != nil {
			return f, nil
		}
		return nil, &ironic.UnavailableError{Op: "test", Reason: "there is no such IronicInstance"}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	claims := newFakeClaims()
	consoles := New(ctx, ironicOf, claims)
	enter := func(name string) *Place {
		t.Helper()
		return mustEnter(t, consoles, Options{User: "alice", Name: name})
	}
	first, err := consoles.Open(t.Context(), Node{UUID: uuid}, enter("first"))
	if err != nil {
		t.Fatal(err)
	}
	if switched := ironics["room-b"].switched; len(switched) > 0 {
		t.Errorf("the Ironic of room-b was asked for %v", switched)
	}
	second, err := consoles.Open(t.Context(), Node{Ironic: "room-b", UUID: uuid}, enter("second"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(second, "hello"); err != nil {
		t.Fatal(err)
	}
	read(t, second, "hello")
	if len(first.Output()) > 0 {
		t.Error("a console shows what is typed into another one")
	}
	second.Close()
	for ironics["room-b"].isEnabled(uuid) {
		runtime.Gosched()
	}
	if !ironics[""].isEnabled(uuid) {
		t.Error("a console is disabled with that of another Ironic")
	}
	if _, err := consoles.Open(t.Context(), Node{Ironic: "gone", UUID: uuid}, enter("third")); !ironic.IsUnavailable(err) {
		t.Errorf("of an Ironic that is not known: %v", err)
	}
	cancel()
	consoles.Run(ctx) // waits until all consoles are closed
	if ironics[""].isEnabled(uuid) || len(claims.held) > 0 {
		t.Errorf("enabled %t, claims %v", ironics[""].isEnabled(uuid), claims.held)
	}
}

// TestAbandonedConsoleOfUnknownIronic: a console stays known as abandoned until its Ironic can be asked, and no other Ironic
// is asked for it.
func TestAbandonedConsoleOfUnknownIronic(t *testing.T) {
	f, claims := newFakeIronic(t), newFakeClaims()
	node := Node{Ironic: "room-b", UUID: "n"}
	claims.abandoned[node] = true
	known := false
	consoles := New(t.Context(), func(asked Node) (Ironic, error) {
		if asked != node {
			t.Errorf("asked for %+v", asked)
		}
		if !known {
			return nil, &ironic.UnavailableError{Op: "test", Reason: "there is no such IronicInstance"}
		}
		return f, nil
	}, claims)
	for _, known = range []bool{false, true} {
		f.enabled[node.UUID] = true
		consoles.closeAbandoned(t.Context())
		if f.isEnabled(node.UUID) == known || claims.abandoned[node] == known || len(claims.held) > 0 {
			t.Errorf("known %t: enabled %t, abandoned %v, held %v", known, f.isEnabled(node.UUID), claims.abandoned, claims.held)
		}
	}
}
