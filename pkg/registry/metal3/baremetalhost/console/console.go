// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

const (
	// openTimeout bounds how long a user waits for a console. Ironic locks the node to enable it,
	// and asks the BMC for the address.
	openTimeout = 25 * time.Second
	// closeTimeout bounds an attempt to disable a console. After that, it is tried again when
	// abandoned consoles are looked for.
	closeTimeout = 20 * time.Second
	// pollInterval is how often Ironic is asked whether a console is enabled yet.
	pollInterval = 300 * time.Millisecond
	// abandonedInterval is how often consoles are looked for that nobody uses but that may still
	// be enabled, because the server that had enabled them was killed.
	abandonedInterval = 20 * time.Second
	// connectTimeout bounds how long Ironic's conductor may take to accept a connection to a console.
	connectTimeout = 10 * time.Second
	// tooSoon is how long a console has to last. One that ends before without a byte has not
	// reached the machine.
	tooSoon = 5 * time.Second
)

// Ironic is what is asked of Ironic for a console.
type Ironic interface {
	GetConsole(ctx context.Context, uuid string) (*ironic.Console, error)
	GetConsoleInfo(ctx context.Context, uuid string) (*ironic.ConsoleInfo, error)
	SetConsole(ctx context.Context, fence ironic.Fence, uuid string, enabled bool) error
}

// Node is a node in one of the Ironics. Its UUID alone does not tell which: two Ironics whose databases come from the same
// backup have nodes with the same UUIDs.
type Node struct {
	// Ironic is the name of the IronicInstance that has the node; empty for the Ironic of the server's flags.
	Ironic string
	UUID   string
}

// Claims are the consoles that replicas of the server use.
type Claims interface {
	// Claim claims the console of a node. If another one has it, the error is an *InUseError,
	// unless force is set, which ends the claim of the other one.
	Claim(ctx context.Context, node Node, user string, force bool) (Claim, error)
	// Abandoned returns the nodes of which a claim has ended without being released.
	Abandoned(ctx context.Context) ([]Node, error)
}

// Claim is the right to use the console of a node.
type Claim interface {
	// Lost is closed when the claim has ended because another one was forced, or because the
	// store of the claims cannot be reached.
	Lost() <-chan struct{}
	// Release ends the claim. If the console may still be enabled, the node is abandoned.
	Release(ctx context.Context, disabled bool) error
}

// InUseError says who uses a console.
type InUseError struct {
	User  string
	Since time.Time
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("its console is in use by %s since %s; force=true ends their session", e.User, e.Since.UTC().Format(time.RFC3339))
}

// UnsupportedError says why a node has no serial console.
type UnsupportedError struct{ Reason string }

func (e *UnsupportedError) Error() string { return e.Reason }

// BrokenError says why a console could not be opened though the node has one.
type BrokenError struct{ Reason string }

func (e *BrokenError) Error() string { return e.Reason }

// Consoles are the consoles that are open in this process.
type Consoles struct {
	ironicOf func(node Node) (Ironic, error)
	claims   Claims
	ctx      context.Context // ends with the server

	places  *places
	running sync.WaitGroup
	mu      sync.Mutex
	closed  bool
	open    map[Node]*session // nil while one is being opened
}

// New returns Consoles, which end when ctx does. ironicOf returns the Ironic that has a node, or an error if it is not known.
func New(ctx context.Context, ironicOf func(node Node) (Ironic, error), claims Claims) *Consoles {
	return &Consoles{ironicOf: ironicOf, claims: claims, ctx: ctx, places: newPlaces(), open: map[Node]*session{}}
}

// Run disables consoles that were abandoned, until ctx ends. Then it waits until all consoles of
// this process are closed.
func (c *Consoles) Run(ctx context.Context) {
	wait.JitterUntilWithContext(ctx, c.closeAbandoned, abandonedInterval, 0.2, true)
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.running.Wait()
}

// Options say how a console is opened.
type Options struct {
	// User is the name of the user, which others are told who want the same console.
	User string
	// Namespace and Name are those of the host.
	Namespace, Name string
	// Force ends the session of whoever uses the console.
	Force bool
	// Share joins those who share the console, or lets others join.
	Share bool
}

func (o Options) host() string { return o.Namespace + "/" + o.Name }

// Open returns a connection to the console of a node. The caller must close it, and then leave the place,
// which a session that is opened also holds until the console is disabled. An error is an *InUseError, an
// *UnsupportedError, a *BrokenError, or one of Ironic.
func (c *Consoles) Open(ctx context.Context, node Node, place *Place) (*Connection, error) {
	options := place.options
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	joined, err := c.joinOrReserve(ctx, node, options)
	if joined != nil || err != nil {
		return joined, err
	}
	place.hold()
	claim, conn, err := c.start(ctx, node, options)
	if err != nil {
		end := func() {
			defer c.running.Done()
			defer place.Leave()
			c.mu.Lock()
			defer c.mu.Unlock()
			delete(c.open, node)
		}
		if claim == nil {
			end() // before whoever comes next is told that it is just being opened
		} else {
			go func() { // the user need not wait for it
				c.release(node, claim)
				end()
			}()
		}
		return nil, err
	}
	s := newSession(node, options, claim, conn)
	connection := s.join()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[node] = s
	go func() {
		defer c.running.Done()
		defer place.Leave()
		s.run(c.ctx)
		c.close(s)
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.open, node)
		close(s.closed)
	}()
	return connection, nil
}

// joinOrReserve joins a session of this process if that is permitted. Otherwise, it returns nil, and
// makes sure that nobody else in this process opens the console meanwhile.
func (c *Consoles) joinOrReserve(ctx context.Context, node Node, options Options) (*Connection, error) {
	for {
		c.mu.Lock()
		s, isOpen := c.open[node]
		switch {
		case c.closed:
			c.mu.Unlock()
			return nil, &BrokenError{"the server is being stopped; try again"}
		case !isOpen:
			c.open[node] = nil
			c.running.Add(1)
			c.mu.Unlock()
			return nil, nil
		case s == nil:
			c.mu.Unlock()
			return nil, &BrokenError{"its console is just being opened; try again"}
		}
		c.mu.Unlock()
		if options.Share && s.shared && !options.Force {
			if joined := s.join(); joined != nil {
				return joined, nil
			}
		} else if !options.Force {
			return nil, &InUseError{User: s.user, Since: s.since}
		} else {
			s.end(fmt.Sprintf("%s has taken over the console", options.User))
		}
		select {
		case <-s.closed:
		case <-ctx.Done():
			return nil, &BrokenError{"the earlier session has not ended in time; try again"}
		}
	}
}

// start claims the console, enables it and connects to it. A claim that is returned with an error
// has to be released.
func (c *Consoles) start(ctx context.Context, node Node, options Options) (Claim, net.Conn, error) {
	asked, err := c.ironicOf(node)
	if err != nil {
		return nil, nil, err
	}
	console, err := asked.GetConsole(ctx, node.UUID)
	if err != nil {
		return nil, nil, err
	}
	if console.Interface == "" || console.Interface == "no-console" {
		return nil, nil, &UnsupportedError{"it has no serial console: its node's console interface is no-console. Ironic offers one by ipmitool-socat, for IPMI in all releases and for Redfish BMCs that speak IPMI, too, from 2026 on; ask who runs Ironic to enable it"}
	}
	claim, err := c.claims.Claim(ctx, node, options.User, options.Force)
	if err != nil {
		return nil, nil, err
	}
	if console.Enabled && options.Force {
		// Another replica, or somebody past us, may be connected. Ironic serves one connection.
		if err := set(ctx, asked, node.UUID, false); err != nil {
			return claim, nil, err
		}
		console.Enabled = false
	}
	if !console.Enabled {
		if err := set(ctx, asked, node.UUID, true); err != nil {
			return claim, nil, err
		}
	}
	conn, err := connect(ctx, asked, node.UUID)
	return claim, conn, err
}

// set enables or disables a console, and waits until that is done.
func set(ctx context.Context, asked Ironic, node string, enabled bool) error {
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		err := asked.SetConsole(ctx, ironic.NoFence, node, enabled)
		if ironic.IsLocked(err) {
			return false, nil // the node is locked, mostly for a short time
		}
		return err == nil, err
	})
	if err == nil {
		err = wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
			console, err := asked.GetConsole(ctx, node)
			switch {
			case err != nil:
				return false, err
			case console.Enabled == enabled:
				return true, nil
			case console.Reservation == "": // Ironic holds the lock until it has switched the console
				return false, &BrokenError{"Ironic could not switch its console; status.ironic.lastError of the host says why"}
			}
			return false, nil
		})
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return &BrokenError{"Ironic has not switched its console in time, because it is busy with the node or the BMC does not answer; try again"}
	}
	return err
}

// connect connects to a console that is enabled.
func connect(ctx context.Context, asked Ironic, node string) (net.Conn, error) {
	info, err := asked.GetConsoleInfo(ctx, node)
	switch {
	case err != nil:
		return nil, err
	case info == nil:
		return nil, &BrokenError{"somebody has disabled its console meanwhile; try again"}
	case info.Type != ironic.SocatConsole:
		return nil, &UnsupportedError{fmt.Sprintf("its console is of the type %s; only serial consoles (socat) are supported", info.Type)}
	}
	address, err := url.Parse(info.URL)
	if err != nil || address.Scheme != "tcp" || address.Port() == "" {
		return nil, &BrokenError{"Ironic has returned an address of the console that is not tcp://HOST:PORT"}
	}
	conn, err := (&net.Dialer{Timeout: connectTimeout}).DialContext(ctx, "tcp", address.Host)
	if err != nil {
		return nil, &BrokenError{fmt.Sprintf("the port of its console at Ironic's conductor cannot be reached: %v", err)}
	}
	return conn, nil
}

// close disables the console of a session that has ended, and releases the claim.
func (c *Consoles) close(s *session) {
	select {
	case <-s.claim.Lost():
		// Another one has the console now, or disables it when it is found abandoned.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), closeTimeout)
		defer cancel()
		_ = s.claim.Release(ctx, false)
	default:
		c.release(s.node, s.claim)
	}
}

// release disables a console and releases the claim. It does not end with the server, so that an
// orderly stop leaves no console enabled.
func (c *Consoles) release(node Node, claim Claim) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), closeTimeout)
	defer cancel()
	asked, err := c.ironicOf(node)
	if err == nil {
		err = set(ctx, asked, node.UUID, false)
	}
	if ironic.IsNotFound(err) {
		err = nil // the node is gone, and its console with it
	}
	if err != nil {
		klog.ErrorS(err, "The console of a node could not be disabled; it is tried again", "ironic", node.Ironic, "node", node.UUID)
	}
	// Releasing needs time of its own if disabling has used all of it.
	ctx, cancel = context.WithTimeout(context.WithoutCancel(c.ctx), closeTimeout)
	defer cancel()
	if err := claim.Release(ctx, err == nil); err != nil {
		klog.ErrorS(err, "The claim of a console could not be released; it ends by itself", "ironic", node.Ironic, "node", node.UUID)
	}
}

// closeAbandoned disables the consoles of servers that were killed.
func (c *Consoles) closeAbandoned(ctx context.Context) {
	listCtx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	nodes, err := c.claims.Abandoned(listCtx)
	if err != nil {
		if ctx.Err() == nil {
			klog.ErrorS(err, "Consoles that were left enabled could not be looked for")
		}
		return
	}
	var running errgroup.Group // of which one that cannot be disabled holds up no other
	running.SetLimit(maxConnections)
	for _, node := range nodes {
		running.Go(func() error {
			c.closeAbandonedOf(ctx, node)
			return nil
		})
	}
	_ = running.Wait()
}

// closeAbandonedOf disables the console of a node, unless somebody has it by now.
func (c *Consoles) closeAbandonedOf(ctx context.Context, node Node) {
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	claim, err := c.claims.Claim(ctx, node, "metal3-apiserver", false)
	if inUse := new(InUseError); errors.As(err, &inUse) {
		return
	}
	if err != nil {
		klog.ErrorS(err, "A console that was left enabled could not be claimed", "ironic", node.Ironic, "node", node.UUID)
		return
	}
	c.release(node, claim)
}
