package testbed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// Suite is what the tests of a package share, while it is being started.
type Suite struct {
	dir   string
	stops []func() error
}

// RunSuite starts what the tests of a package share, runs them, stops everything
// again and returns the exit code of TestMain. The logs are kept when a test
// failed. start has ten minutes, and may fail after having started a part.
func RunSuite(m *testing.M, name string, start func(context.Context, *Suite) error) (code int) {
	fail := func(err error) int {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		return 1
	}
	dir, err := os.MkdirTemp("", name+"-")
	if err != nil {
		return fail(err)
	}
	s := &Suite{dir: dir}
	defer func() {
		if err := s.stop(); err != nil {
			code = fail(err)
		}
		if code == 0 {
			_ = os.RemoveAll(dir)
		} else {
			fmt.Fprintln(os.Stderr, "logs are in", dir)
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	began := time.Now()
	if err := start(ctx, s); err != nil {
		return fail(err)
	}
	fmt.Printf("%s: all is up after %s\n", name, time.Since(began).Round(time.Millisecond))
	return m.Run()
}

// Dir makes a folder for a part of the suite. It goes with the suite.
func (s *Suite) Dir(name string) (string, error) {
	path := filepath.Join(s.dir, name)
	return path, os.MkdirAll(path, 0o700)
}

// OnStop says how to stop a part. What was started last is stopped first.
func (s *Suite) OnStop(stop func() error) { s.stops = append(s.stops, stop) }

func (s *Suite) stop() error {
	var errs []error
	for i := len(s.stops) - 1; i >= 0; i-- {
		errs = append(errs, s.stops[i]())
	}
	return errors.Join(errs...)
}

// StartKube starts a control plane, with kube-controller-manager.
func (s *Suite) StartKube(ctx context.Context) (*Kube, error) {
	dir, err := s.Dir("kube")
	if err != nil {
		return nil, err
	}
	kube, err := StartKube(ctx, KubeOptions{Dir: dir, ControllerManager: true})
	if err != nil {
		return nil, err
	}
	s.OnStop(kube.Stop)
	return kube, nil
}

// StartServer starts our server with the given options; its Dir is set here.
func (s *Suite) StartServer(ctx context.Context, options ServerOptions) (server *Server, err error) {
	if options.Dir, err = s.Dir("server"); err != nil {
		return nil, err
	}
	if server, err = StartServer(ctx, options); err != nil {
		return nil, err
	}
	s.OnStop(func() error { _, err := server.Stop(); return err })
	return server, nil
}

// UnlimitedConfig is an administrator's through kube-apiserver, without the limit
// on requests a second that a client keeps by itself.
func (k *Kube) UnlimitedConfig() *rest.Config {
	config := rest.CopyConfig(k.Admin.Config)
	config.QPS, config.Burst = -1, 0
	return config
}
