// SPDX-License-Identifier: Apache-2.0

package live_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
)

// inspected ends an inspection of host i, as Ironic tells it.
func (b *bench) inspected(i int, finished time.Time) {
	b.nodes.Change(func() {
		node := b.nodes.ByID[enginetest.NodeID(i)]
		node.InspectionFinishedAt = &finished
		b.nodes.Stamp(&node)
		b.nodes.ByID[node.UUID] = node
	})
}

func (b *bench) inventory(json string) {
	b.nodes.Change(func() { b.nodes.Inventory = &ironic.Inventory{Inventory: []byte(json)} })
}

func (b *bench) inventories() int {
	b.nodes.Mu.Lock()
	defer b.nodes.Mu.Unlock()
	return b.nodes.Inventories
}

func (b *bench) hardware(t *testing.T) *metal3.HardwareDetails {
	t.Helper()
	return b.hosts.Host(t, enginetest.HostName(0)).Status.HardwareDetails
}

const fourGigabytes = `{"memory": {"physical_mb": 4096}}`

func TestInventoryIsReadOncePerInspection(t *testing.T) {
	for _, read := range reads {
		t.Run(read.name, func(t *testing.T) {
			inBubble(t, 1, func(t *testing.T, b *bench) {
				b.inspected(0, time.Now())
				b.inventory(fourGigabytes)
				for range 3 {
					if err := read.do(t.Context(), b); err != nil {
						t.Fatal(err)
					}
				}
				if hw := b.hardware(t); hw == nil || hw.RAMMebibytes != 4096 {
					t.Errorf("hardware is %+v", hw)
				}
				if n := b.inventories(); n != 1 {
					t.Errorf("the inventory was read %d times", n)
				}
				time.Sleep(time.Hour)
				b.inspected(0, time.Now())
				b.inventory(`{"memory": {"physical_mb": 8192}}`)
				for range 3 {
					if err := read.do(t.Context(), b); err != nil {
						t.Fatal(err)
					}
				}
				if hw := b.hardware(t); hw.RAMMebibytes != 8192 || b.inventories() != 2 {
					t.Errorf("after another inspection: %d MiB, the inventory was read %d times", hw.RAMMebibytes, b.inventories())
				}
			})
		})
	}
}

// TestInventoryComesLate: Ironic ends an inspection before it stores the
// inventory, and some drivers store none. That is waited for whatever its clock says.
func TestInventoryComesLate(t *testing.T) {
	tests := []struct {
		name  string
		clock time.Duration
		comes time.Duration // after the end of the inspection; 0 is never
	}{
		{name: "after a while", comes: 10 * time.Second},
		{name: "after a while, Ironic ahead", clock: 10 * time.Minute, comes: 10 * time.Second},
		{name: "after a while, Ironic behind", clock: -10 * time.Minute, comes: 10 * time.Second},
		{name: "never"},
	}
	for _, read := range reads {
		for _, test := range tests {
			t.Run(read.name+", "+test.name, func(t *testing.T) {
				inBubble(t, 1, func(t *testing.T, b *bench) {
					b.nodes.Change(func() { b.nodes.Clock = test.clock })
					ended := time.Now()
					finished := ended.Add(test.clock)
					b.inspected(0, finished)
					for range 60 {
						if test.comes > 0 && time.Since(ended) >= test.comes {
							b.inventory(fourGigabytes)
						}
						if err := read.do(t.Context(), b); err != nil {
							t.Fatal(err)
						}
						time.Sleep(time.Second)
					}
					if has := b.hardware(t) != nil; has != (test.comes > 0) {
						t.Errorf("has hardware: %t", has)
					}
					host := b.hosts.Host(t, enginetest.HostName(0))
					if end := host.Status.Ironic.InspectionFinishedAt; end == nil || !end.Time.Equal(finished) {
						t.Errorf("the inspection ended %s, recorded is %s", finished, end)
					}
					if n := b.inventories(); n < 10 || n > 33 {
						t.Errorf("the inventory was asked for %d times in 60 s", n)
					}
				})
			})
		}
	}
}

// TestFormerInventory: until Ironic stores what another inspection has found, it answers with the inventory of the one
// before. If nothing has changed, both are the same.
func TestFormerInventory(t *testing.T) {
	tests := map[string]struct {
		inventory string
		want      int
	}{
		"more memory":     {`{"memory": {"physical_mb": 8192}}`, 8192},
		"the same memory": {fourGigabytes, 4096},
	}
	for _, read := range reads {
		for name, test := range tests {
			t.Run(read.name+", "+name, func(t *testing.T) {
				inBubble(t, 1, func(t *testing.T, b *bench) {
					b.inspected(0, time.Now())
					b.inventory(fourGigabytes)
					if err := read.do(t.Context(), b); err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Hour)
					finished := time.Now()
					b.inspected(0, finished)
					for second := range 10 {
						if second == 3 {
							b.inventory(test.inventory)
						}
						if err := read.do(t.Context(), b); err != nil {
							t.Fatal(err)
						}
						status := b.hosts.Host(t, enginetest.HostName(0)).Status
						if status.Ironic.InspectionFinishedAt.Time.Equal(finished) && (second < 3 || status.HardwareDetails.RAMMebibytes != test.want) {
							t.Fatalf("%d s after the inspection, it has found %d MiB", second, status.HardwareDetails.RAMMebibytes)
						}
						time.Sleep(time.Second)
					}
					if end := b.hosts.Host(t, enginetest.HostName(0)).Status.Ironic.InspectionFinishedAt; !end.Time.Equal(finished) {
						t.Errorf("the inspection ended %s, recorded is %s", finished, end)
					}
				})
			})
		}
	}
}

// TestInventoryWithOneBadPart: what cannot be read is told once, and remains as it was known before. The rest is taken over.
func TestInventoryWithOneBadPart(t *testing.T) {
	for _, read := range reads {
		t.Run(read.name, func(t *testing.T) {
			inBubble(t, 1, func(t *testing.T, b *bench) {
				for _, inventory := range []string{fourGigabytes, `{"memory": {"physical_mb": "much"}, "hostname": "a"}`} {
					time.Sleep(time.Hour)
					b.inspected(0, time.Now())
					b.inventory(inventory)
					if err := read.do(t.Context(), b); err != nil {
						t.Fatal(err)
					}
				}
				if hw := b.hardware(t); hw.RAMMebibytes != 4096 || hw.Hostname != "a" {
					t.Errorf("hardware is %+v", hw)
				}
				c := meta.FindStatusCondition(b.hosts.Host(t, enginetest.HostName(0)).Status.Conditions, metal3.InventoryReadCondition)
				if c == nil || c.Status != metav1.ConditionTrue || c.Reason != metal3.InventoryIncompleteReason || !strings.HasSuffix(c.Message, `what was known of them: inventory.memory.physical_mb is "much"`) {
					t.Errorf("the condition is %+v", c)
				}
				records := b.hosts.Records
				for range 10 {
					time.Sleep(time.Second)
					if err := read.do(t.Context(), b); err != nil {
						t.Fatal(err)
					}
				}
				if b.hosts.Records != records || b.inventories() != 2 {
					t.Errorf("the host was written %d times more, and its inventory read %d times", b.hosts.Records-records, b.inventories())
				}
				b.inspected(0, time.Now())
				b.inventory(`{"memory": {"physical_mb": 8192}}`)
				if err := read.do(t.Context(), b); err != nil {
					t.Fatal(err)
				}
				if c := meta.FindStatusCondition(b.hosts.Host(t, enginetest.HostName(0)).Status.Conditions, metal3.InventoryReadCondition); c != nil {
					t.Errorf("after a whole inventory, the condition is %+v", c)
				}
			})
		})
	}
}

// TestInventoryOfMany: when many inspections end at once, one bulk observation
// does not ask for all inventories, and the following ones do the rest.
func TestInventoryOfMany(t *testing.T) {
	const hosts = 40
	inBubble(t, hosts, func(t *testing.T, b *bench) {
		for i := range hosts {
			b.inspected(i, time.Now())
		}
		b.inventory(fourGigabytes)
		for _, want := range []int{16, 32, 40, 40} {
			if err := b.RefreshAll(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := b.inventories(); n != want {
				t.Errorf("%d inventories were read, want %d", n, want)
			}
		}
	})
}

// TestBadInventory: one host whose inventory cannot be had blinds nobody, not even
// itself.
func TestBadInventory(t *testing.T) {
	for _, read := range reads {
		for _, bad := range []string{"not JSON", "HTTP 500"} {
			t.Run(read.name+", "+bad, func(t *testing.T) {
				inBubble(t, 2, func(t *testing.T, b *bench) {
					b.inspected(0, time.Now())
					if bad == "not JSON" {
						b.inventory("not JSON")
					} else {
						b.nodes.Change(func() { b.nodes.InventoryErr = &ironic.APIError{Status: 500, Op: "get inventory", Message: "oops"} })
					}
					b.nodes.Say(enginetest.NodeID(0), "changed")
					b.nodes.Say(enginetest.NodeID(1), "changed too")
					if err := read.do(t.Context(), b); err != nil {
						t.Errorf("the read failed: %v", err)
					}
					if got := b.shown(t, 0); got != "changed" {
						t.Errorf("host 0 shows %q", got)
					}
					if got := b.shown(t, 1); read.name == "bulk" && got != "changed too" {
						t.Errorf("host 1 shows %q", got)
					}
					b.nodes.Change(func() { b.nodes.InventoryErr = nil })
					b.inventory(fourGigabytes)
					if bad == "not JSON" {
						b.inspected(0, time.Now().Add(time.Minute)) // only the next inspection mends it
					}
					time.Sleep(time.Second)
					if err := read.do(t.Context(), b); err != nil {
						t.Fatal(err)
					}
					if hw := b.hardware(t); hw == nil || hw.RAMMebibytes != 4096 {
						t.Errorf("hardware is %+v once the inventory is there", hw)
					}
				})
			})
		}
	}
}

// TestInventoryFailsForEver: a host goes on without an inventory that Ironic has and does not give, which is told, and asked for again,
// but no more often for having many readers.
func TestInventoryFailsForEver(t *testing.T) {
	for _, read := range reads {
		t.Run(read.name, func(t *testing.T) {
			inBubble(t, 1, func(t *testing.T, b *bench) {
				b.nodes.Change(func() {
					b.nodes.InventoryErr = &ironic.APIError{Status: 500, Op: "get inventory", Message: "Swift is away"}
				})
				b.inspected(0, time.Now())
				b.nodes.Change(func() {
					node := b.nodes.ByID[enginetest.NodeID(0)]
					began := time.Now().Add(-time.Minute)
					node.InspectionStartedAt = &began
					b.nodes.ByID[node.UUID] = node
				})
				readFor := func(d time.Duration) metal3.BareMetalHostStatus {
					t.Helper()
					for range int(d / (100 * time.Millisecond)) {
						if err := read.do(t.Context(), b); err != nil {
							t.Fatal(err)
						}
						time.Sleep(100 * time.Millisecond)
					}
					return b.hosts.Host(t, enginetest.HostName(0)).Status
				}
				if status := readFor(time.Minute); !status.OperationHistory.Inspect.End.IsZero() {
					t.Error("after a minute, the host does not wait any more")
				}
				status := readFor(9 * time.Minute)
				if status.OperationHistory.Inspect.End.IsZero() || !status.Ironic.InventoryPending {
					t.Errorf("after ten minutes, the end of the inspection is %s, and the inventory is pending: %t", status.OperationHistory.Inspect.End, status.Ironic.InventoryPending)
				}
				c := meta.FindStatusCondition(status.Conditions, metal3.InventoryReadCondition)
				if c == nil || c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "Swift is away") {
					t.Errorf("the condition is %+v", c)
				}
				if n := b.inventories(); n > 60 {
					t.Errorf("the inventory was asked for %d times in ten minutes", n)
				}
				ended := status.OperationHistory.Inspect.End
				b.nodes.Change(func() { b.nodes.InventoryErr = nil })
				b.inventory(fourGigabytes)
				status = readFor(6 * time.Minute)
				if status.HardwareDetails == nil || status.Ironic.InventoryPending || !status.OperationHistory.Inspect.End.Equal(&ended) {
					t.Errorf("once the inventory is there, it is pending: %t, and the inspection ended at %s, before: %s", status.Ironic.InventoryPending, status.OperationHistory.Inspect.End, ended)
				}
				if c := meta.FindStatusCondition(status.Conditions, metal3.InventoryReadCondition); c != nil {
					t.Errorf("and the condition is %+v", c)
				}
			})
		})
	}
}

// TestNodeGone: a node that Ironic no longer has is an answer like any other.
func TestNodeGone(t *testing.T) {
	for _, read := range reads {
		t.Run(read.name, func(t *testing.T) {
			inBubble(t, 1, func(t *testing.T, b *bench) {
				if err := read.do(t.Context(), b); err != nil {
					t.Fatal(err)
				}
				b.nodes.Change(func() { delete(b.nodes.ByID, enginetest.NodeID(0)) })
				if read.name == "bulk" {
					time.Sleep(30 * time.Second) // the feed of changes does not show it
				}
				if err := read.do(t.Context(), b); err != nil {
					t.Fatal(err)
				}
				if s := b.hosts.Host(t, enginetest.HostName(0)).Status.Ironic; s != nil {
					t.Errorf("the host still shows node %s", s.NodeUUID)
				}
				// Anything but Ironic's own 404 says nothing about the node.
				b.nodes.Say(enginetest.NodeID(0), "there again")
				if err := read.do(t.Context(), b); err != nil {
					t.Fatal(err)
				}
				b.nodes.Change(func() { b.nodes.Err = errors.New("not Ironic") })
				if err := read.do(t.Context(), b); err == nil {
					t.Error("an error was taken for an answer")
				}
				if got := b.shown(t, 0); got != "there again" {
					t.Errorf("shown is %q", got)
				}
			})
		})
	}
}
