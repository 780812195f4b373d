// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

// TestHangingIronicHoldsUpNobody: a host is registered, provisioned, deprovisioned and deleted in the time that it takes alone,
// while another Ironic, with 40 hosts, answers nothing.
func TestHangingIronicHoldsUpNobody(t *testing.T) {
	life := func(t *testing.T, others int) (took time.Duration) {
		inRooms(t, func(t *testing.T, r *rooms) {
			if others > 0 {
				r.hang("")
			}
			for i := range others {
				r.hosts.Add(in("", i))
			}
			time.Sleep(2 * time.Minute) // the steps of all of them wait
			began := time.Now()
			const i = 50
			r.hosts.Add(in("b", i))
			r.after(5*time.Minute, "available", r.is(i, metal3.StateAvailable))
			r.hosts.Edit(t, enginetest.HostName(i), wantImage)
			r.after(5*time.Minute, "provisioned", r.is(i, metal3.StateProvisioned))
			r.hosts.Edit(t, enginetest.HostName(i), func(h *metal3.BareMetalHost) { h.Spec.Image = nil })
			r.after(5*time.Minute, "deprovisioned", r.is(i, metal3.StateAvailable))
			r.hosts.Remove(t, enginetest.HostName(i))
			r.after(5*time.Minute, "gone", r.isGone(i))
			took = time.Since(began)
		}, "b")
		return took
	}
	alone := life(t, 0)
	beside := life(t, 40)
	t.Logf("alone %s, beside an Ironic that hangs %s", alone, beside)
	if beside > alone*11/10 {
		t.Errorf("it took %s beside an Ironic that hangs, and %s alone", beside, alone)
	}
}

// TestTroubleInOneRoom: whatever another Ironic answers, a host at rest is not written, and its Ironic is not asked more.
func TestTroubleInOneRoom(t *testing.T) {
	rest := func(t *testing.T, trouble func(r *rooms)) (writes, polls, others int) {
		inRooms(t, func(t *testing.T, r *rooms) {
			const i = 50
			r.hosts.Add(in("b", i))
			for n := range 3 {
				r.hosts.Add(in("", n))
			}
			for _, n := range []int{0, 1, 2, i} {
				r.after(5*time.Minute, "available", r.is(n, metal3.StateAvailable))
			}
			time.Sleep(2 * time.Minute)
			version := r.at(i).ResourceVersion
			p, o := r.requests("b")
			trouble(r)
			time.Sleep(5 * time.Minute)
			polls, others = r.requests("b")
			polls, others = polls-p, others-o
			if r.at(i).ResourceVersion != version {
				writes++
			}
		}, "b")
		return writes, polls, others
	}
	_, usualPolls, usualOthers := rest(t, func(*rooms) {})
	for name, trouble := range map[string]func(r *rooms){
		"answers 500": func(r *rooms) {
			for _, call := range []string{"ChangedSince", "ListNodes", "GetNode", "GetRegistration", "CreateNode", "UpdateNode", "ListPorts"} {
				r.sims[""].Refuse(call, http.StatusInternalServerError, "Internal error")
			}
		},
		"an hour ahead":     func(r *rooms) { r.sims[""].Sim.SetClock(ironicsim.Clock{Offset: time.Hour}) },
		"an hour behind":    func(r *rooms) { r.sims[""].Sim.SetClock(ironicsim.Clock{Offset: -time.Hour}) },
		"lost its database": func(r *rooms) { r.sims[""].Sim.LoseAllNodes() },
		"hangs":             func(r *rooms) { r.hang("") },
		"is away":           func(r *rooms) { r.sims[""].SetAway(true) },
	} {
		t.Run(name, func(t *testing.T) {
			writes, polls, others := rest(t, trouble)
			t.Logf("%d polls, %d other requests; without trouble %d and %d", polls, others, usualPolls, usualOthers)
			if writes != 0 || others > usualOthers || polls > usualPolls*11/10 { // polls are jittered
				t.Errorf("the host was written %d times; its Ironic was polled %d times, and asked %d times more; without trouble %d and %d", writes, polls, others, usualPolls, usualOthers)
			}
		})
	}
}

// TestRoomIsReachedInAnotherWay: the former driver asks nothing any more when the next one begins.
func TestRoomIsReachedInAnotherWay(t *testing.T) {
	inRooms(t, func(t *testing.T, r *rooms) {
		r.hosts.Add(in("b", 0))
		r.after(time.Minute, "available", r.is(0, metal3.StateAvailable))
		r.hosts.Edit(t, enginetest.HostName(0), wantImage)
		r.after(time.Minute, "deploying", func() bool { return r.at(0).Status.Provisioning.State == metal3.StateProvisioning })
		for range 5 {
			r.use("b")
			time.Sleep(700 * time.Millisecond)
		}
		r.after(2*time.Minute, "provisioned", r.is(0, metal3.StateProvisioned))
		if n := r.sims["b"].Count("active"); n != 1 {
			t.Errorf("the deployment was requested %d times", n)
		}
		before, _ := r.requests("b")
		time.Sleep(time.Minute)
		after, _ := r.requests("b")
		r.mu.Lock()
		acted := slices.Clone(r.acted["b"])
		r.mu.Unlock()
		if !slices.IsSorted(acted) || len(slices.Compact(slices.Clone(acted))) < 5 {
			t.Errorf("a former driver went on beside a later one: %v", acted)
		}
		if polls := after - before; polls > 80 { // one each second
			t.Errorf("%d polls in a minute: more than one driver polls", polls)
		}
	}, "b")
}

// TestRoomDisappears: the hosts of an Ironic that is not used any more say so, nothing is asked about them, and everything goes on
// when it is back.
func TestRoomDisappears(t *testing.T) {
	inRooms(t, func(t *testing.T, r *rooms) {
		r.hosts.Add(in("b", 0))
		r.after(time.Minute, "available", r.is(0, metal3.StateAvailable))
		r.disuse("b")
		t.Logf("said after %s", r.after(10*time.Second, "said", func() bool {
			c := conditionOf(r.at(0), metal3.IronicReachableCondition)
			return c.Status == "False" && c.Reason == metal3.NoIronicReason && strings.Contains(c.Message, "cannot use IronicInstance b")
		}))
		r.hosts.Edit(t, enginetest.HostName(0), func(h *metal3.BareMetalHost) { h.Spec.Online = false })
		time.Sleep(5 * time.Second)
		polls, others := r.requests("b")
		_, home := r.requests("")
		writes := r.hosts.Writes()
		time.Sleep(5 * time.Minute)
		if p, o := r.requests("b"); p != polls || o != others {
			t.Errorf("it was asked %d times", p+o-polls-others)
		}
		if _, h := r.requests(""); h != home {
			t.Errorf("the Ironic of the flags was asked %d times about another's host", h-home)
		}
		if more := r.hosts.Writes() - writes; more != 0 {
			t.Errorf("%d writes while nothing can be done", more)
		}
		r.use("b")
		t.Logf("switched off %s after it is back", r.after(30*time.Second, "off", func() bool {
			host := r.at(0)
			return !host.Status.PoweredOn && conditionOf(host, metal3.IronicReachableCondition).Status == "True"
		}))
		if all := r.nodes(); len(all) != 1 {
			t.Errorf("nodes: %v", all)
		}
	}, "b")
}

// TestNoIronicYet: a host whose Ironic is not certain is registered nowhere, says why, and can be deleted without any.
func TestNoIronicYet(t *testing.T) {
	inRooms(t, func(t *testing.T, r *rooms) {
		r.change(func() { r.unsure = "the IronicInstances b and c select the host" })
		for i := range 2 {
			r.hosts.Add(in("b", i))
			r.after(5*time.Second, "said", func() bool { return condition(r.at(i), metal3.RegisteredCondition) == metal3.NoIronicReason })
		}
		writes := r.hosts.Writes()
		time.Sleep(time.Minute)
		if more := r.hosts.Writes() - writes; more != 0 || len(r.nodes()) != 0 {
			t.Errorf("%d writes, nodes %v", more, r.nodes())
		}
		r.sims[""].SetAway(true)
		r.sims["b"].SetAway(true)
		r.hosts.Remove(t, enginetest.HostName(1))
		r.after(5*time.Second, "gone", r.isGone(1))
		r.sims[""].SetAway(false)
		r.sims["b"].SetAway(false)
		r.change(func() { r.unsure = "" })
		r.after(2*time.Minute, "available", r.is(0, metal3.StateAvailable))
		if got := r.at(0).Status.Record.Ironic; got != "b" || len(r.sims["b"].Sim.NodeUUIDs()) != 1 {
			t.Errorf("registered in %q, nodes %v", got, r.nodes())
		}
	}, "b")
}

// TestBMCInTwoRooms: two Ironics never manage one machine.
func TestBMCInTwoRooms(t *testing.T) {
	inRooms(t, func(t *testing.T, r *rooms) {
		// The other host has it.
		r.hosts.Add(in("", 0))
		r.after(time.Minute, "available", r.is(0, metal3.StateAvailable))
		second := in("b", 1)
		second.Spec.BMC.Address = in("", 0).Spec.BMC.Address
		r.hosts.Add(second)
		r.after(10*time.Second, "refused", func() bool { return condition(r.at(1), metal3.RegisteredCondition) == metal3.BMCInUseReason })

		// A node that is no host's has it.
		// Nodes are polled of an Ironic that has a host, or is about to.
		node := r.addWithBMC("", 2)
		time.Sleep(30 * time.Second)
		r.hosts.Add(in("b", 2))
		r.after(10*time.Second, "refused", func() bool { return condition(r.at(2), metal3.RegisteredCondition) == metal3.BMCInUseReason })
		if all := r.sims["b"].Sim.NodeUUIDs(); len(all) != 0 {
			t.Errorf("a second node: %v", all)
		}

		// That Ironic is away: what was last seen counts, and no other host waits for it.
		r.sims[""].SetAway(true)
		r.hosts.Add(in("b", 3))
		r.after(time.Minute, "available while the other is away", r.is(3, metal3.StateAvailable))
		r.sims[""].SetAway(false)
		time.Sleep(10 * time.Second)
		if err := r.sims[""].Sim.LoseNode(node); err != nil {
			t.Fatal(err)
		}
		r.after(2*time.Minute, "available when the node is gone", r.is(2, metal3.StateAvailable))

		// A node appears that has the BMC of a registered host.
		r.addWithBMC("", 3)
		time.Sleep(30 * time.Second)
		r.hosts.Edit(t, enginetest.HostName(3), wantImage)
		r.after(time.Minute, "held", func() bool { return condition(r.at(3), metal3.HeldCondition) == metal3.BMCInUseReason })
		if n := r.sims["b"].Count("active"); n != 0 {
			t.Errorf("deployed all the same")
		}
	}, "b")
}

// addWithBMC creates a node of nobody's that has the BMC of host number i.
func (r *rooms) addWithBMC(room string, i int) (uuid string) {
	id, err := r.sims[room].Sim.CreateNode(map[string]any{"name": fmt.Sprintf("rack-%d", i), "driver": "ipmi", "driver_info": map[string]any{
		"ipmi_address": enginetest.BMCAddress(i), "ipmi_username": enginetest.BMCUser, "ipmi_password": enginetest.BMCPassword}})
	if err == nil {
		err = r.sims[room].Sim.SetNode(id, map[string]any{"provision_state": "manageable"})
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return id
}

// TestOtherIronicAwayAfterRestart: a host that is held, or refused, for a node of another Ironic stays so while a new leader cannot
// read that one. Other hosts wait for a minute.
func TestOtherIronicAwayAfterRestart(t *testing.T) {
	for name, restart := range map[string]func(r *rooms){
		"away": func(r *rooms) {
			r.sims[""].SetAway(true)
			r.stop()
			r.begin(0)
			r.use("b")
		},
		"not to be used": func(r *rooms) {
			r.stop()
			r.begin(0)
			r.disuse("")
			r.use("b")
		},
		"reached in another way": func(r *rooms) {
			r.sims[""].SetAway(true)
			r.use("")
		},
	} {
		t.Run(name, func(t *testing.T) {
			inRooms(t, func(t *testing.T, r *rooms) {
				for i := range 2 {
					r.hosts.Add(in("b", i))
					r.after(time.Minute, "available", r.is(i, metal3.StateAvailable))
					r.hosts.Edit(t, enginetest.HostName(i), wantImage)
					r.after(time.Minute, "provisioned", r.is(i, metal3.StateProvisioned))
				}
				node, refused := r.addWithBMC("", 0), r.addWithBMC("", 2)
				time.Sleep(30 * time.Second) // they are known
				r.hosts.Edit(t, enginetest.HostName(0), func(h *metal3.BareMetalHost) { h.Spec.Image = nil })
				isHeld := func() bool { return condition(r.at(0), metal3.HeldCondition) == metal3.BMCInUseReason }
				r.after(time.Minute, "held", isHeld)
				r.hosts.Add(in("b", 2))
				isRefused := func() bool { return condition(r.at(2), metal3.RegisteredCondition) == metal3.BMCInUseReason }
				r.after(time.Minute, "refused", isRefused)

				duplicate := in("b", 4)
				duplicate.Spec.BMC.Address = in("b", 1).Spec.BMC.Address
				r.hosts.Add(duplicate)
				r.after(time.Minute, "refused for a host of its own Ironic", func() bool { return condition(r.at(4), metal3.RegisteredCondition) == metal3.BMCInUseReason })

				restart(r)
				r.hosts.Edit(t, enginetest.HostName(1), func(h *metal3.BareMetalHost) { h.Spec.Image = nil })
				if took := r.after(2*time.Minute, "deprovisioned, as nobody has its BMC", r.is(1, metal3.StateAvailable)); name != "reached in another way" && took < time.Minute {
					t.Errorf("the host that nothing was known to contradict waited only %s for what another Ironic may have", took)
				}
				r.hosts.Edit(t, enginetest.HostName(4), func(h *metal3.BareMetalHost) { h.Spec.BMC.Address = in("b", 4).Spec.BMC.Address })
				r.after(2*time.Minute, "available at its own address", r.is(4, metal3.StateAvailable))
				for range 300 {
					time.Sleep(time.Second)
					if !isHeld() || !isRefused() {
						t.Fatalf("held: %t, refused: %t, while the other Ironic was not read", isHeld(), isRefused())
					}
				}
				if n := r.sims["b"].Count("deleted"); n != 1 {
					t.Errorf("undeployed %d times: the held one, too", n)
				}
				for _, text := range []string{r.at(0).Status.Record.Hold.Message, r.at(2).Status.ErrorMessage} {
					if !strings.Contains(text, "kubectl get ironicinstances") {
						t.Errorf("not told why: %s", text)
					}
				}

				r.sims[""].SetAway(false)
				r.use("")
				time.Sleep(time.Minute)
				if !isHeld() || !isRefused() {
					t.Fatalf("held: %t, refused: %t, though the other Ironic has the nodes", isHeld(), isRefused())
				}
				for _, id := range []string{node, refused} {
					if err := r.sims[""].Sim.LoseNode(id); err != nil {
						t.Fatal(err)
					}
				}
				r.after(5*time.Minute, "deprovisioned", r.is(0, metal3.StateAvailable))
				r.after(5*time.Minute, "available", r.is(2, metal3.StateAvailable))
			}, "b")
		})
	}
}

// TestRelabelledWhilePlanned: a host that is relabelled at any moment while it is planned is registered in the Ironic that its
// labels select when its node is chosen.
func TestRelabelledWhilePlanned(t *testing.T) {
	for n := 1; ; n++ {
		asked := 0
		t.Run(fmt.Sprintf("at %d", n), func(t *testing.T) {
			inRooms(t, func(t *testing.T, r *rooms) {
				chosen := false
				r.onRecord(func(h *metal3.BareMetalHost) {
					if h.Status.Provisioning.ID != "" && !chosen {
						chosen = true
						if is, want := h.Status.Record.Ironic, h.Labels[roomLabel]; is != want {
							t.Errorf("registered in %q, while its labels select %q", is, want)
						}
					}
				})
				var mu sync.Mutex
				r.change(func() {
					r.asksOwner = func() {
						mu.Lock()
						asked++
						now := asked == n
						mu.Unlock()
						if now {
							r.hosts.Edit(t, enginetest.HostName(0), func(h *metal3.BareMetalHost) { h.Labels = map[string]string{roomLabel: "b"} })
						}
					}
				})
				r.hosts.Add(in("", 0))
				r.after(time.Minute, "available", r.is(0, metal3.StateAvailable))
				if all := r.nodes(); len(all) != 1 {
					t.Errorf("its nodes are %v", all)
				}
			}, "b")
		})
		if asked < n || n == 40 || t.Failed() {
			return
		}
	}
}

// TestKilledWhileRelabelled: killed anywhere while it registers a host, with the host selected by another Ironic after each
// restart, the server leaves one node.
func TestKilledWhileRelabelled(t *testing.T) {
	for n := 1; ; n++ {
		killed := false
		t.Run(fmt.Sprintf("at %d", n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRooms(t, "b")
				r.secret("secret")
				room := []string{"", "b"}[n/2%2]
				r.hosts.Add(in(room, 0))
				r.begin(n)
				r.use("b")
				registered := func() bool {
					if r.fuse.isBurnt() && !killed {
						killed = true
						r.stop()
						if r.at(0).Status.Record.RegisteredWith == nil {
							if err := r.secrets.put(r.storedSecret()); err != nil { // its metadata has changed meanwhile
								t.Fatal(err)
							}
						}
						relabelled := r.at(0)
						relabelled.Labels = map[string]string{roomLabel: map[string]string{"": "b"}[room]}
						if _, err := r.hosts.Update(t.Context(), relabelled); err != nil {
							t.Fatal(err)
						}
						r.begin(0)
						r.use("b")
					}
					return r.registered()
				}
				r.after(2*time.Minute, "registered", registered)
				time.Sleep(time.Minute)
				host := r.at(0)
				if all := r.nodes(); len(all) != 1 || len(r.sims[host.Status.Record.Ironic].Sim.NodeUUIDs()) != 1 || all[0] != host.Status.Provisioning.ID {
					t.Errorf("host has node %s in %q; nodes: %v", host.Status.Provisioning.ID, host.Status.Record.Ironic, all)
				}
				r.stop()
			})
		})
		if !killed {
			t.Logf("killed at %d places", n-1)
			return
		}
		if n > 100 || t.Failed() {
			t.Fatal("this does not end well")
		}
	}
}

// TestLimitsOfEachRoom: the provisioning limit is that of each Ironic.
func TestLimitsOfEachRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRooms(t, "b")
		r.settings.ProvisioningLimit = 1
		r.secret("secret")
		r.begin(0)
		defer func() { r.stop() }()
		r.settings.ProvisioningLimit = 2
		r.use("b")
		var mostHere, mostThere int
		r.onRecord(func(*metal3.BareMetalHost) {
			busy := map[string]int{}
			for _, host := range r.hosts.ByName {
				if s := host.Status.Ironic; s != nil && (s.ProvisionState == "inspecting" || s.ProvisionState == "inspect wait" || s.ProvisionState == "cleaning") {
					busy[host.Status.Record.Ironic]++
				}
			}
			mostHere, mostThere = max(mostHere, busy[""]), max(mostThere, busy["b"])
		})
		for i := range 6 {
			r.hosts.Add(in([]string{"", "b"}[i%2], i))
		}
		for i := range 6 {
			r.after(5*time.Minute, "available", r.is(i, metal3.StateAvailable))
		}
		r.onRecord(func(*metal3.BareMetalHost) {})
		if mostHere != 1 || mostThere != 2 {
			t.Errorf("%d at a time with a limit of 1, and %d with one of 2", mostHere, mostThere)
		}
	})
}

// TestMovesToHangingIronic: hosts that are to be moved to an Ironic that answers nothing say so, and hold up no other host of the
// Ironic where they are.
func TestMovesToHangingIronic(t *testing.T) {
	off := func(t *testing.T, moves int) (took time.Duration) {
		inRooms(t, func(t *testing.T, r *rooms) {
			const other = 50
			for _, i := range append([]int{other}, sequence(moves)...) {
				r.hosts.Add(in("", i))
			}
			for _, i := range append([]int{other}, sequence(moves)...) {
				r.after(5*time.Minute, "available", r.is(i, metal3.StateAvailable))
			}
			r.hang("b")
			for i := range moves {
				r.hosts.Edit(t, enginetest.HostName(i), func(h *metal3.BareMetalHost) {
					if err := lifecycle.RequestTransfer(h, r.sims[""].Node(h.Status.Provisioning.ID), "b", time.Now()); err != nil {
						t.Fatal(err)
					}
				})
			}
			time.Sleep(3*time.Minute + 11*time.Second)
			for i := range moves {
				if failed := r.at(i).Status.Record.Failure; failed == nil || !strings.Contains(failed.Message, "has not answered within 10s") {
					t.Errorf("%s does not say why it is not moved: %+v", enginetest.HostName(i), failed)
				}
			}
			for range 10 {
				began := time.Now()
				r.hosts.Edit(t, enginetest.HostName(other), wantImage)
				r.after(10*time.Minute, "provisioned", r.is(other, metal3.StateProvisioned))
				r.hosts.Edit(t, enginetest.HostName(other), func(h *metal3.BareMetalHost) { h.Spec.Image = nil })
				r.after(10*time.Minute, "deprovisioned", r.is(other, metal3.StateAvailable))
				took += time.Since(began)
			}
		}, "b")
		return took
	}
	alone, beside := off(t, 0), off(t, 40)
	t.Logf("alone %s, beside 40 hosts that are to be moved %s", alone, beside)
	if beside > alone*11/10 {
		t.Errorf("it took %s beside hosts that are to be moved, and %s alone", beside, alone)
	}
}

func sequence(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}
