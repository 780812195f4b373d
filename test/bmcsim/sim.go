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

// Options are the choices of Start. The zero value of each has a default, but
// for IronicURL, without which ramdisks stay silent.
type Options struct {
	// Machines is how many there are at first; AddMachine adds others.
	Machines int
	// IronicURL is where ramdisks call back, without /v1.
	IronicURL string
	// Username and Password are those of each BMC: admin and password.
	Username, Password string
	// PowerDelay is from a power command until its effect.
	PowerDelay time.Duration
	// BootDelay is from power-on until the ramdisk's first call.
	BootDelay time.Duration
	// Heartbeat is between two calls of a ramdisk: one second. A real one takes a minute or more.
	Heartbeat time.Duration
	// StepDelay is how long each step of cleaning and deployment takes.
	StepDelay time.Duration
	// DeploySteps are in-band steps that the ramdisk offers beside its usual
	// ones, for deploy interface custom-agent. Each counts as a write of an image.
	DeploySteps []string
	// Port is that of ramdisks, files and the admin endpoint; 0: any that is free.
	Port int
	// FirstBMCPort is the first machine's, and the others follow it; 0: any that are free.
	FirstBMCPort int
}

// Sim is a number of simulated machines.
type Sim struct {
	options Options
	files   *files
	ironic  *ironicAPI
	url     string
	server  *http.Server
	// registry has images with oci:// URLs.
	registry *registry

	// ctx ends with Close, and all goroutines with it; tasks counts them.
	ctx    context.Context
	cancel context.CancelFunc
	tasks  sync.WaitGroup

	// adding is held while a machine is made, which takes mu for a moment only.
	adding   sync.Mutex
	mu       sync.Mutex
	closed   bool
	machines []*Machine
}

var errClosed = errors.New("bmcsim is closed")

// Start starts machines that are switched off.
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
	listener, err := listen(options.Port)
	if err != nil {
		return nil, err
	}
	s := &Sim{options: options, url: "http://" + listener.Addr().String(), files: newFiles(), ironic: newIronicAPI(options.IronicURL)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.registry = startRegistry()
	s.server = &http.Server{Handler: s.routes(), ReadHeaderTimeout: 10 * time.Second}
	s.tasks.Go(func() { _ = s.server.Serve(listener) }) // ends with Close
	for range options.Machines {
		if _, err := s.AddMachine(); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

// AddMachine adds one more machine, switched off.
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

// Machine is the one with an index from 0; it panics when there is none.
func (s *Sim) Machine(i int) *Machine {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.machines[i]
}

// Machines are all of them.
func (s *Sim) Machines() []*Machine {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*Machine(nil), s.machines...)
}

// machine finds one by its name, or nil.
func (s *Sim) machine(name string) *Machine {
	for _, m := range s.Machines() {
		if m.name == name {
			return m
		}
	}
	return nil
}

// URL is where ramdisks, files and the admin endpoint are.
func (s *Sim) URL() string { return s.url }

// Close ends all machines.
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

// later calls f after a delay, unless the Sim is closed before.
func (s *Sim) later(delay time.Duration, f func()) {
	s.task(func() {
		if sleep(s.ctx, delay) {
			f()
		}
	})
}

// task runs f, which ends with s.ctx, in a goroutine that Close waits for. It
// tells whether there is still time for that.
func (s *Sim) task(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.tasks.Go(f)
	}
	return !s.closed
}

// sleep tells whether the time passed before ctx ended.
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

func listen(port int) (net.Listener, error) {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("bmcsim: %w", err)
	}
	return l, nil
}
