// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"path/filepath"
	"strconv"
	"syscall"
)

// StoreEtcd is the etcd of a Kube, or one of metal3-apiserver's own, which can be killed without kube-apiserver
// noticing. It keeps its data and its port when it is started again.
type StoreEtcd struct {
	// Endpoint is the URL for clients.
	Endpoint string

	dir, peer string
	run       *process
}

// NewStoreEtcd prepares an etcd with its data and log in dir, which must exist.
func NewStoreEtcd(dir string) (*StoreEtcd, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	peer, err := freePort()
	if err != nil {
		return nil, err
	}
	return &StoreEtcd{Endpoint: "http://127.0.0.1:" + strconv.Itoa(port), peer: "http://127.0.0.1:" + strconv.Itoa(peer), dir: dir}, nil
}

// Start starts it and waits until it is ready.
func (e *StoreEtcd) Start(ctx context.Context) error {
	binary, err := builtProgram("etcd", buildTools)
	if err != nil {
		return err
	}
	e.run, err = command{
		name: "etcd", log: filepath.Join(e.dir, "etcd.log"), path: binary,
		args: []string{
			"--data-dir=" + filepath.Join(e.dir, "etcd"),
			"--listen-client-urls=" + e.Endpoint, "--advertise-client-urls=" + e.Endpoint,
			"--listen-peer-urls=" + e.peer, "--initial-advertise-peer-urls=" + e.peer, "--initial-cluster=default=" + e.peer,
			// Without fsync, killing the process loses no data; only a power failure of the machine would.
			"--unsafe-no-fsync",
			"--log-level=warn",
		},
	}.start()
	if err != nil {
		return err
	}
	return e.run.waitReady(ctx, func(ctx context.Context) error {
		return httpOK(ctx, nil, e.Endpoint+"/readyz")
	})
}

// Signal sends it a signal, for example SIGSTOP.
func (e *StoreEtcd) Signal(s syscall.Signal) error { return e.run.signal(s) }

// Kill kills it.
func (e *StoreEtcd) Kill() error { return e.run.kill() }
