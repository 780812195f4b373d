// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
)

// nthWriteIsLate has one Ironic of the two carry out a request late, without an answer: the nth that changes something, whichever
// of the two that is sent to. sent returns its name, empty if there was none so far.
func (w *world) nthWriteIsLate(n int) (sent func() string) {
	var mu sync.Mutex
	seen, late := 0, ""
	for room, in := range map[string]*enginetest.Ironic{"the former Ironic": w.sim, "the other Ironic": w.other} {
		in.Intercept(func(call string, r *http.Request) error {
			mu.Lock()
			defer mu.Unlock()
			if r.Method == http.MethodGet {
				return nil
			}
			if seen++; seen == n {
				late = call + " to " + room
				in.SetLate(call, lateBy)
			} else {
				in.SetLate(call, 0)
			}
			return nil
		})
	}
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		return late
	}
}

// TestLateMove: each request of a move may be carried out minutes after it was sent, while the next process is at work, or after
// the move was called off. The host is never in both Ironics, ends in one, and its machine is left alone.
func TestLateMove(t *testing.T) {
	nothing := func(*world) {}
	for name, meanwhile := range map[string]func(w *world){
		"same leader": nothing,
		"new leader":  func(w *world) { w.stop(); w.start(0) },
		"called off":  (*world).callOffIfMoving,
		"called off and moved again": func(w *world) {
			w.callOffIfMoving()
			time.Sleep(30 * time.Second)
			if w.host().Status.Record.Ironic == "" && w.nodeAt(w.sim) != nil {
				w.move(otherRoom)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for n, ended := 1, false; !ended; n++ {
				t.Run(fmt.Sprintf("request %d", n), func(t *testing.T) {
					inTwoRooms(t, metal3.StateProvisioned, func(t *testing.T, w *world) {
						before, was := w.host(), w.machine()
						sent := w.nthWriteIsLate(n)
						w.move(otherRoom)
						w.after(time.Minute, "sent late, or moved", func() bool { return sent() != "" || w.at(otherRoom, metal3.StateProvisioned)() })
						if ended = sent() == ""; ended {
							return
						}
						t.Log(sent())
						time.Sleep(10 * time.Second)
						meanwhile(w)
						somewhere := func() bool {
							if len(w.sim.Sim.NodeUUIDs()) > 0 && len(w.other.Sim.NodeUUIDs()) > 0 {
								t.Fatal("both Ironics have a node of the machine")
							}
							return w.at("", metal3.StateProvisioned)() || w.at(otherRoom, metal3.StateProvisioned)()
						}
						w.after(20*time.Minute, "at rest", somewhere)
						time.Sleep(10 * time.Minute)
						w.after(10*time.Minute, "still at rest", somewhere)
						room, in, not := otherRoom, w.other, w.sim
						if w.host().Status.Record.Ironic == "" {
							room, in, not = "", w.sim, w.other
						}
						if room == "" && name != "called off" {
							t.Error("it has not been moved")
						}
						w.expectMoved(before, was, room, in, not)
					})
				})
				if t.Failed() || n > 50 {
					t.Fatal("this does not end well")
				}
			}
		})
	}
}

func (w *world) callOffIfMoving() {
	w.t.Helper()
	if w.host().Status.Record.Transfer != nil {
		w.callOff()
	}
}
