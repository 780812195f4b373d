// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
)

// fuse kills a process at its n-th step: before the step has an effect where n is
// odd, after it, with the answer lost, where n is even.
type fuse struct {
	mu    sync.Mutex
	at, n int
	dead  bool
	kill  func()
}

var errDead = errors.New("the process was killed")

// step does something that has an effect outside of the process.
func (f *fuse) step(do func() error) error {
	if f.burn() {
		return errDead
	}
	err := do()
	if f.burn() {
		return errDead
	}
	return err
}

func (f *fuse) burn() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dead {
		return true
	}
	if f.n++; f.n == f.at {
		f.dead = true
		f.kill()
	}
	return f.dead
}

func (f *fuse) isBurnt() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dead
}

// killedAnywhere runs a test in a bubble of its own for each step at which a process can be killed, until it is killed at
// none.
func killedAnywhere(t *testing.T, test func(t *testing.T, killedAt int) *world) {
	t.Helper()
	for n := 1; ; n++ {
		isKilled := false
		t.Run(fmt.Sprintf("at %d", n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { isKilled = test(t, n).isKilled })
		})
		if !isKilled {
			t.Logf("killed at %d places", n-1)
			if n < 8 {
				t.Error("there are more steps than that")
			}
			return
		}
		if n > 200 || t.Failed() {
			t.Fatal("this does not end well")
		}
	}
}

// goOn begins the next process if this one was killed, some time after that.
func (w *world) goOn(later time.Duration) {
	if w.fuse.isBurnt() {
		w.isKilled = true
		w.stop()
		time.Sleep(later)
		w.start(0)
	}
}

// mortalHosts are the hosts as one process sees them.
type mortalHosts struct {
	*enginetest.Hosts
	fuse *fuse
}

func (m mortalHosts) Record(ctx context.Context, host *metal3.BareMetalHost) (recorded *metal3.BareMetalHost, err error) {
	err = m.fuse.step(func() (err error) { recorded, err = m.Hosts.Record(ctx, host); return err })
	return recorded, err
}

func (m mortalHosts) Update(ctx context.Context, host *metal3.BareMetalHost) (updated *metal3.BareMetalHost, err error) {
	err = m.fuse.step(func() (err error) { updated, err = m.Hosts.Update(ctx, host); return err })
	return updated, err
}
