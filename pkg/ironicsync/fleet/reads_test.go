// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/metal3-io/metal3-apiserver/pkg/apis/ironic/v1alpha1"
	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

// addNode creates a node, which says where it is.
func (b *bench) addNode(room string, i int) {
	b.t.Helper()
	_, err := b.wires.to[room].Sim.CreateNode(map[string]any{
		"uuid": enginetest.NodeID(i), "name": enginetest.Namespace + "~" + enginetest.HostName(i), "driver": "fake-hardware",
		"description": room,
	})
	if err == nil {
		err = b.wires.to[room].Sim.SetNode(enginetest.NodeID(i), map[string]any{"last_error": room, "extra": map[string]any{ironic.HostMark: b.host(i).UID}})
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) addHost(i int, in string) {
	host := &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: enginetest.Namespace, Name: enginetest.HostName(i)}}
	host.Spec.BMC.Address = "ipmi://" + enginetest.BMCAddress(i)
	host.Status.Provisioning.ID, host.Status.Record.Ironic = enginetest.NodeID(i), in
	b.hosts.Add(host)
}

func (b *bench) hostsIn(ctx context.Context, namespace string) (*metal3.BareMetalHostList, error) {
	list, err := b.hosts.List(ctx, metav1.ListOptions{})
	if err == nil {
		list.Items = slices.DeleteFunc(list.Items, func(host metal3.BareMetalHost) bool { return host.Namespace != namespace })
	}
	return list, err
}

func (b *bench) host(i int) *metal3.BareMetalHost { return b.hosts.Host(b.t, enginetest.HostName(i)) }

// says is where the node of a host is, as the host shows it.
func says(host *metal3.BareMetalHost) string {
	if host == nil || host.Status.Ironic == nil {
		return ""
	}
	return host.Status.Ironic.LastError
}

func (b *bench) move(i int, to string) {
	b.hosts.EditStatus(b.t, enginetest.HostName(i), func(h *metal3.BareMetalHost) { h.Status.Record.Ironic = to })
}

// TestReadHost: each host is read from its own Ironic, and no other is asked about it.
func TestReadHost(t *testing.T) {
	inBubble(t, []string{"b"}, func(t *testing.T, b *bench) {
		b.instances.put(instance("b"))
		b.follow()
		for i, room := range []string{"home", "b"} {
			b.addHost(i, strings.TrimPrefix(room, "home"))
			b.addNode(room, i)
		}
		for i, room := range []string{"home", "b"} {
			other := map[string]string{"home": "b", "b": "home"}[room]
			asked := b.wires.count(other)
			host, err := b.ReadHost(t.Context(), enginetest.Namespace, enginetest.HostName(i))
			if err != nil || says(host) != room {
				t.Errorf("host %d shows %q, %v; want %s", i, says(host), err, room)
			}
			if more := b.wires.count(other) - asked; more != 0 {
				t.Errorf("%s was asked %d times about a host of %s", other, more, room)
			}
		}
	})
}

// TestRefreshAllOfNamespace: who lists the hosts of a namespace hears nothing of the hosts of others.
func TestRefreshAllOfNamespace(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *bench) {
		b.follow()
		b.addHost(0, "")
		b.addNode("home", 0)
		other := b.host(0).DeepCopy()
		other.Namespace, other.UID = "others", "another"
		other.Status.Provisioning.ID = enginetest.NodeID(1)
		b.hosts.Add(other)
		if _, err := b.wires.to["home"].Sim.CreateNode(map[string]any{"uuid": enginetest.NodeID(1), "name": "others~" + other.Name, "driver": "fake-hardware"}); err != nil {
			t.Fatal(err)
		}
		b.wires.to["home"].Sim.SetFaults(ironicsim.Faults{Unreadable: []string{enginetest.NodeID(1)}})
		if err := b.RefreshAll(t.Context(), enginetest.Namespace); err != nil {
			t.Errorf("the reader of another namespace is told: %v", err)
		}
		for _, namespace := range []string{"others", ""} {
			if err := b.RefreshAll(t.Context(), namespace); err == nil || !strings.Contains(err.Error(), "others/"+other.Name) {
				t.Errorf("the reader of namespace %q is told: %v", namespace, err)
			}
		}
	})
}

// TestHostsOfAnIronicThatIsGone: a list of hosts whose IronicInstance does not exist says so, also if there is no other one; one of a
// namespace without hosts waits for no Ironic.
func TestHostsOfAnIronicThatIsGone(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *bench) {
		b.follow()
		b.addHost(0, "gone")
		for _, namespace := range []string{enginetest.Namespace, ""} {
			if err := b.RefreshAll(t.Context(), namespace); err == nil || !strings.Contains(err.Error(), "gone") {
				t.Errorf("the reader of namespace %q is told: %v", namespace, err)
			}
		}
		b.wires.to["home"].Sim.RefuseConnections()
		if err := b.RefreshAll(t.Context(), "without-hosts"); err != nil {
			t.Errorf("the reader of a namespace without hosts is told: %v", err)
		}
	})
}

// TestReadHostThatMoves: a read follows a host that is moved to another Ironic while it is read, whether it is read singly or
// together with all.
func TestReadHostThatMoves(t *testing.T) {
	for name, readers := range map[string]int{"singly": 1, "together with others": 40} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, []string{"b"}, func(t *testing.T, b *bench) {
				b.instances.put(instance("b"))
				b.follow()
				for i := range readers {
					b.addHost(i, "")
					b.addNode("home", i)
				}
				b.wires.setHangs("home", true)
				shown := make([]string, readers)
				errs := make([]error, readers)
				var reading sync.WaitGroup
				for i := range readers {
					synctest.Wait() // the first ones are asked about singly
					reading.Go(func() {
						host, err := b.ReadHost(t.Context(), enginetest.Namespace, enginetest.HostName(i))
						shown[i], errs[i] = says(host), err
					})
				}
				synctest.Wait()
				last := readers - 1
				if err := b.wires.to["home"].Sim.LoseNode(enginetest.NodeID(last)); err != nil {
					t.Fatal(err)
				}
				b.addNode("b", last)
				b.move(last, "b")
				b.wires.setHangs("home", false)
				reading.Wait()
				if readers == 1 { // the request that hung was about the former Ironic
					host, err := b.ReadHost(t.Context(), enginetest.Namespace, enginetest.HostName(last))
					shown[last], errs[last] = says(host), err
				}
				if shown[last] != "b" || errs[last] != nil {
					t.Errorf("the host that has moved shows %q, %v", shown[last], errs[last])
				}
				if host := b.host(last); host.Status.Record.Registration != nil {
					t.Errorf("the former Ironic was believed: %+v", host.Status.Record.Registration)
				}
			})
		})
	}
}

// TestReadOfStaleCache: a cache that has the host as it was before it moved is no reason to ask the former Ironic.
func TestReadOfStaleCache(t *testing.T) {
	inBubble(t, []string{"b"}, func(t *testing.T, b *bench) {
		b.instances.put(instance("b"))
		b.follow()
		b.addHost(0, "")
		b.addNode("b", 0)
		b.move(0, "b")
		b.hosts.Mu.Lock()
		b.hosts.CacheLags = true
		b.hosts.Mu.Unlock()
		for range 4 {
			host, err := b.ReadHost(t.Context(), enginetest.Namespace, enginetest.HostName(0))
			if err != nil || says(host) != "b" {
				t.Errorf("the host shows %q, %v", says(host), err)
			}
		}
		if r := b.host(0).Status.Record.Registration; r != nil {
			t.Errorf("the former Ironic was believed: %+v", r)
		}
	})
}

// TestOneHangs: a list waits no longer than a read does, names the Ironic that hangs, and what the others say is live.
func TestOneHangs(t *testing.T) {
	inBubble(t, []string{"b", "c"}, func(t *testing.T, b *bench) {
		for _, name := range []string{"b", "c"} {
			b.instances.put(instance(name))
		}
		b.instances.put(instance("d", withSecret("missing")))
		b.follow()
		for i, room := range []string{"home", "b", "c"} {
			b.addHost(i, strings.TrimPrefix(room, "home"))
			b.addNode(room, i)
		}
		b.addHost(3, "d")
		b.wires.setHangs("b", true)
		began := time.Now()
		err := b.RefreshAll(t.Context(), "")
		if took := time.Since(began); took > readerWait {
			t.Errorf("the list took %s", took)
		}
		away := new(SomeAwayError)
		if !errors.As(err, &away) || len(away.Ironics) != 2 || !strings.Contains(err.Error(), `IronicInstance "b"`) || !strings.Contains(err.Error(), `IronicInstance "d"`) {
			t.Errorf("the list says %v", err)
		}
		for i, want := range []string{"home", "", "c"} {
			if got := says(b.host(i)); got != want {
				t.Errorf("host %d shows %q, want %q", i, got, want)
			}
		}
		host, err := b.ReadHost(t.Context(), enginetest.Namespace, enginetest.HostName(1))
		if stale := new(live.StaleError); host != nil || !errors.As(err, &stale) {
			t.Errorf("the host of the Ironic that hangs: %v", err)
		}
		b.addHost(3, "d")
		_, err = b.ReadHost(t.Context(), enginetest.Namespace, enginetest.HostName(3))
		if stale := new(live.StaleError); !errors.As(err, &stale) || !strings.Contains(err.Error(), `cannot use IronicInstance "d"`) || stale.Silence().ConditionReason() != metal3.NoIronicReason {
			t.Errorf("the host of the instance that cannot be used: %v", err)
		}
	})
}

// TestAgeOutlivesTheWayToIronic: who is shown what was recorded is told how old that is, also while the IronicInstance cannot be used, and
// when it leads to an Ironic that does not answer.
func TestAgeOutlivesTheWayToIronic(t *testing.T) {
	inBubble(t, []string{"b", "c"}, func(t *testing.T, b *bench) {
		b.instances.put(instance("b"))
		b.follow()
		for i := range 2 {
			b.addHost(i, "b")
			b.addNode("b", i)
		}
		listed := time.Now()
		if err := b.RefreshAll(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		read := time.Now()
		if err := b.RefreshHost(t.Context(), enginetest.Namespace, enginetest.HostName(0)); err != nil {
			t.Fatal(err)
		}
		b.wires.setHangs("c", true)
		for what, changed := range map[string]*api.IronicInstance{
			"it cannot be used":       instance("b", withSecret("missing")),
			"it leads to another one": instance("b", at("http://c:6385")),
		} {
			time.Sleep(time.Minute)
			b.instances.put(changed)
			b.follow()
			for i, want := range []time.Time{read, listed} {
				err := b.RefreshHost(t.Context(), enginetest.Namespace, enginetest.HostName(i))
				if err == nil || !strings.HasSuffix(err.Error(), "status is as of "+want.UTC().Format(time.RFC3339)) {
					t.Errorf("%s, host %d: %v; want %s", what, i, err, want)
				}
			}
			if err := b.RefreshAll(t.Context(), ""); err == nil || !strings.HasSuffix(err.Error(), "status is as of "+listed.UTC().Format(time.RFC3339)) {
				t.Errorf("%s, a list: %v; want %s", what, err, listed)
			}
		}
		b.instances.remove("b")
		b.follow()
		if kept := b.state.Load().histories; len(kept) != 0 {
			t.Errorf("when it was deleted, %d are remembered", len(kept))
		}
	})
}

// TestDeletedInstanceIsAsked: an instance that somebody's finalizer holds goes on to be asked about its hosts.
func TestDeletedInstanceIsAsked(t *testing.T) {
	inBubble(t, []string{"b"}, func(t *testing.T, b *bench) {
		deleted := instance("b")
		deleted.DeletionTimestamp = new(metav1.Now())
		b.instances.put(deleted)
		b.follow()
		b.addHost(0, "b")
		b.addNode("b", 0)
		if err := b.RefreshAll(t.Context(), ""); err != nil || says(b.host(0)) != "b" {
			t.Errorf("the host shows %q, %v", says(b.host(0)), err)
		}
	})
}

// TestInstancesNotRead: until it is known which Ironics there are, a read waits for that, and then says so.
func TestInstancesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		b.instances.hangs = true
		defer b.run()()
		b.addHost(0, "b")
		b.addHost(1, "")
		b.addNode("home", 1)
		for what, read := range map[string]func(context.Context) error{
			"list": func(ctx context.Context) error { return b.RefreshAll(ctx, "") },
			"read": func(ctx context.Context) error {
				return b.RefreshHost(ctx, enginetest.Namespace, enginetest.HostName(0))
			},
		} {
			began := time.Now()
			err := read(t.Context())
			if took := time.Since(began); took != readerWait {
				t.Errorf("%s: it took %s", what, took)
			}
			if stale := new(live.StaleError); !errors.As(err, &stale) || !strings.Contains(err.Error(), "the IronicInstances have not been read yet") {
				t.Errorf("%s: %v", what, err)
			}
			canceled, cancel := context.WithCancel(t.Context())
			cancel()
			began = time.Now()
			if err := read(canceled); !errors.Is(err, context.Canceled) || time.Since(began) != 0 {
				t.Errorf("%s that was canceled: %v after %s", what, err, time.Since(began))
			}
		}
		if host, err := b.ReadHost(t.Context(), enginetest.Namespace, enginetest.HostName(1)); err != nil || says(host) != "home" {
			t.Errorf("the host of the flags' Ironic: %q, %v", says(host), err)
		}
	})
}

// TestCanceled: a client that has gone away waits for no Ironic.
func TestCanceled(t *testing.T) {
	inBubble(t, []string{"b"}, func(t *testing.T, b *bench) {
		b.instances.put(instance("b"))
		b.follow()
		b.addHost(0, "b")
		b.wires.setHangs("b", true)
		for what, read := range map[string]func(context.Context) error{
			"list": func(ctx context.Context) error { return b.RefreshAll(ctx, "") },
			"read": func(ctx context.Context) error {
				return b.RefreshHost(ctx, enginetest.Namespace, enginetest.HostName(0))
			},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			began := time.Now()
			err := read(ctx)
			cancel()
			if took := time.Since(began); err == nil || took > 100*time.Millisecond {
				t.Errorf("%s: %v after %s", what, err, took)
			}
		}
	})
}

// TestInstancesAreReadLater: a list that waits for the instances goes on when they are read.
func TestInstancesAreReadLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, []string{"b"})
		b.instances.put(instance("b"))
		b.addHost(0, "b")
		b.addNode("b", 0)
		read := make(chan error, 1)
		go func() { read <- b.RefreshAll(t.Context(), "") }()
		synctest.Wait()
		defer b.run()()
		if err := <-read; err != nil || says(b.host(0)) != "b" {
			t.Errorf("the list: %v, the host shows %s", err, fmt.Sprintf("%q", says(b.host(0))))
		}
	})
}

// TestReadTimeout: a read waits for an Ironic as long as its IronicInstance says, and for the others as long as the flags do.
func TestReadTimeout(t *testing.T) {
	inBubble(t, []string{"b"}, func(t *testing.T, b *bench) {
		const limit = 10 * time.Second
		b.instances.put(instance("b", func(spec *api.IronicInstanceSpec) { spec.ReadTimeout = &metav1.Duration{Duration: limit} }))
		b.follow()
		if b.ReadTimeout("b") != limit || b.ReadTimeout("") != readerWait || b.ReadTimeout("c") != readerWait {
			t.Errorf("the limits are %s, %s and %s", b.ReadTimeout("b"), b.ReadTimeout(""), b.ReadTimeout("c"))
		}
		for i, room := range []string{"home", "b"} {
			b.addHost(i, strings.TrimPrefix(room, "home"))
			b.addNode(room, i)
			b.wires.setHangs(room, true)
		}
		for i, want := range []time.Duration{readerWait, limit} {
			began := time.Now()
			if _, err := b.ReadHost(t.Context(), enginetest.Namespace, enginetest.HostName(i)); err == nil {
				t.Errorf("host %d: no error", i)
			}
			// An observation ends a little earlier, so that readers who came meanwhile have the next one.
			if took := time.Since(began); took > want || took < want*3/4 {
				t.Errorf("a read of host %d took %s, want %s", i, took, want)
			}
		}
	})
}

// TestListWithoutHosts: a list of all namespaces does not wait for an Ironic that has no hosts, nor warn of it, but its nodes are
// counted.
func TestListWithoutHosts(t *testing.T) {
	inBubble(t, []string{"b", "c"}, func(t *testing.T, b *bench) {
		b.instances.put(instance("b"))
		b.instances.put(instance("c"))
		b.instances.put(instance("unusable", withSecret("missing")))
		b.follow()
		b.addHost(0, "")
		b.addNode("home", 0)
		if _, err := b.wires.to["c"].Sim.CreateNode(map[string]any{"uuid": enginetest.NodeID(1), "driver": "fake-hardware"}); err != nil {
			t.Fatal(err)
		}
		b.wires.setHangs("b", true)
		began := time.Now()
		if err := b.RefreshAll(t.Context(), ""); err != nil || time.Since(began) > readerWait/2 {
			t.Errorf("a list: %v after %s", err, time.Since(began))
		}
		synctest.Wait()
		if nodes, asOf := b.member("c").Refresher.CountNodes(); nodes != 1 || asOf.IsZero() {
			t.Errorf("the Ironic without hosts has %d nodes as of %s", nodes, asOf)
		}
		b.addHost(2, "b")
		began = time.Now()
		if err := b.RefreshAll(t.Context(), ""); err == nil || time.Since(began) < readerWait*3/4 {
			t.Errorf("a list with a host of the Ironic that hangs: %v after %s", err, time.Since(began))
		}
	})
}

// TestWaitsWithoutHosts: readers of all hosts do not keep these in memory while they wait for Ironic. All watches of a large fleet may
// begin at a time, when a replica has gone.
func TestWaitsWithoutHosts(t *testing.T) {
	for name, rooms := range map[string][]string{"one Ironic": nil, "several": {"b", "c"}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, rooms, func(t *testing.T, b *bench) {
				for _, room := range rooms {
					b.instances.put(instance(room))
				}
				b.follow()
				for i, room := range append([]string{"home"}, rooms...) {
					b.addHost(i, strings.TrimPrefix(room, "home"))
					b.addNode(room, i)
					b.wires.setHangs(room, true)
				}
				var listed weak.Pointer[metal3.BareMetalHost]
				list := b.deps.HostsIn
				b.deps.HostsIn = func(ctx context.Context, namespace string) (*metal3.BareMetalHostList, error) {
					all, err := list(ctx, namespace)
					listed = weak.Make(&all.Items[0])
					return all, err
				}
				read := make(chan error)
				go func() { read <- b.RefreshAll(t.Context(), enginetest.Namespace) }()
				synctest.Wait()
				runtime.GC()
				select {
				case err := <-read:
					t.Fatalf("the reader has not waited: %v", err)
				default:
				}
				if listed.Value() != nil {
					t.Error("the list is in memory still")
				}
				if err := <-read; err == nil {
					t.Error("Ironic has answered")
				}
			})
		})
	}
}
