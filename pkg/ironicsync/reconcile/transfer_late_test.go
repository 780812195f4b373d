// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/enginetest"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
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
// the move was called off. The host ends in one Ironic, and its machine is left alone.
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

// TestMovedWithRequestUnderWay: a host is moved after a request that Ironic carries out minutes later. What comes to the former
// Ironic after the move has no effect, and the machine runs what its host says.
func TestMovedWithRequestUnderWay(t *testing.T) {
	for name, test := range map[string]struct {
		state     metal3.ProvisioningState
		call      string
		ask, undo func(h *metal3.BareMetalHost)
	}{
		"undeployment": {metal3.StateProvisioned, "deleted", noImage, wantImage},
		"deployment":   {metal3.StateAvailable, "active", wantImage, noImage},
		"power off": {
			metal3.StateProvisioned, "soft power off",
			func(h *metal3.BareMetalHost) { h.Spec.Online = false },
			func(h *metal3.BareMetalHost) { h.Spec.Online = true },
		},
	} {
		t.Run(name, func(t *testing.T) {
			inTwoRooms(t, test.state, func(t *testing.T, w *world) {
				w.firstIsLate(test.call, func() { w.update(test.ask) })
				w.update(test.undo)
				w.after(20*time.Minute, "it may be moved", func() bool {
					host := w.host()
					return lifecycle.RequestTransfer(host, w.nodeAt(w.sim), otherRoom, time.Now()) == nil
				})
				w.other.BMC(0).SetPower(w.sim.BMC(0).Power())
				w.move(otherRoom)
				w.after(5*time.Minute, "moved", w.at(otherRoom, test.state))
				former, was := w.sim.BMC(0), w.machine()
				time.Sleep(10 * time.Minute)
				if is := w.machine(); is != was || !w.at(otherRoom, test.state)() {
					t.Errorf("the machine was not left alone: %+v, after the move %+v; the host is %+v", is, was, w.host().Status)
				}
				if writes := former.DiskWrites(); test.state == metal3.StateProvisioned && (len(writes) == 0 || writes[len(writes)-1].Image == "") {
					t.Errorf("provisioned, with a disk that was written so: %v", writes)
				}
			})
		})
	}
}
