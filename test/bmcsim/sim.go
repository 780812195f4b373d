// SPDX-License-Identifier: Apache-2.0

package bmcsim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Options are the options of Start. All of them are optional. Without IronicURL, ramdisks make no calls.
type Options struct {
	// Machines is the initial number of machines. AddMachine adds others.
	Machines int
	// IronicURL is the URL of Ironic, which ramdisks call, without /v1.
	IronicURL string
	// Username and Password are the credentials for all BMCs. The defaults are admin and password.
	Username, Password string
	// PowerDelay is the time until a power command takes effect.
	PowerDelay time.Duration
	// BootDelay is the time from power-on until the ramdisk's first call.
	BootDelay time.Duration
	// Heartbeat is the interval between two calls of a ramdisk. The default is one second. It becomes five
	// times as long when a step takes long, because Ironic locks the node during each heartbeat, and on a
	// busy machine could do nothing else with it. A real ramdisk waits for a minute or more.
	Heartbeat time.Duration
	// StepDelay is the time that each step of cleaning and deployment takes.
	StepDelay time.Duration
	// BMCUpdate is the time that an update of the BMC's own firmware takes.
	BMCUpdate time.Duration
	// BMCRestart is how long a BMC with the fault BMCRestarts is away. The default is three seconds.
	BMCRestart time.Duration
	// DeploySteps are additional in-band steps that the ramdisk offers for the deploy interface
	// custom-agent. Each execution counts as writing an image.
	DeploySteps []string
}

// Sim is a set of simulated machines.
type Sim struct {
	options Options
	files   *files
	ironic  *ironicAPI
	url     string
	server  *http.Server
	// registry has images with oci:// URLs.
	registry *registry

	// Close cancels ctx, which ends all goroutines; tasks counts them.
	ctx    context.Context
	cancel context.CancelFunc
	tasks  sync.WaitGroup

	// adding is held while a machine is created, whereas mu is held only for moments.
	adding   sync.Mutex
	mu       sync.Mutex
	closed   bool
	machines []*Machine
}

var errClosed = errors.New("bmcsim is closed")

// Start starts a Sim. Its machines are switched off.
func Start(options Options) (*Sim, error) {
	if options.Username == "" {
		options.Username = "admin"
	}
	if options.Password == "" {
		options.Password = "password"
	}
	if options.Heartbeat <= 0 {
		options.Heartbeat = time.Second
	}
	listener, err := listen(0)
	if err != nil {
		return nil, err
	}
	s := &Sim{options: options, url: "http://" + listener.Addr().String(), files: newFiles(), ironic: newIronicAPI(options.IronicURL)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.registry = startRegistry()
	s.server = &http.Server{Handler: s.routes(), ReadHeaderTimeout: 10 * time.Second}
	s.tasks.Go(func() { _ = s.server.Serve(listener) }) // ends in Close
	for range options.Machines {
		if _, err := s.AddMachine(); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

// AddMachine adds a machine, which is switched off.
func (s *Sim) AddMachine() (*Machine, error) {
	s.adding.Lock()
	defer s.adding.Unlock()
	m, err := newMachine(s, len(s.Machines()))
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errors.Join(errClosed, m.bmc.close())
	}
	s.machines = append(s.machines, m)
	return m, nil
}

// Machine returns the machine with an index, which starts at 0. It panics if there is none.
func (s *Sim) Machine(i int) *Machine {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.machines[i]
}

// Machines returns all machines.
func (s *Sim) Machines() []*Machine {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*Machine(nil), s.machines...)
}

// machine returns the machine with a name, or nil if there is none.
func (s *Sim) machine(name string) *Machine {
	for _, m := range s.Machines() {
		if m.name == name {
			return m
		}
	}
	return nil
}

// routes returns a handler for everything except the BMCs.
func (s *Sim) routes() http.Handler {
	mux := http.NewServeMux()
	s.agentRoutes(mux)
	mux.Handle("GET /files/{name}", s.files)
	mux.HandleFunc("GET /firmware/{component}/{version}", firmwareImage)
	return mux
}

// Close stops all machines.
func (s *Sim) Close() error {
	s.mu.Lock()
	s.closed = true
	machines := s.machines
	s.mu.Unlock()
	s.cancel()
	err := s.server.Close()
	for _, m := range machines {
		err = errors.Join(err, m.bmc.close())
	}
	s.tasks.Wait()
	s.registry.server.Close()
	s.ironic.close()
	return err
}

// later calls f after a delay, unless the Sim is closed earlier.
func (s *Sim) later(delay time.Duration, f func()) {
	s.task(func() {
		if sleep(s.ctx, delay) {
			f()
		}
	})
}

// task runs f in a goroutine that Close waits for. f must return when s.ctx ends. task returns false,
// and does not run f, if the Sim is already closed.
func (s *Sim) task(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.tasks.Go(f)
	}
	return !s.closed
}

// sleep waits for d, and reports whether it passed before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// listen listens on a port of 127.0.0.1; 0 means any free port.
func listen(port int) (net.Listener, error) {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("bmcsim: %w", err)
	}
	return l, nil
}
