// SPDX-License-Identifier: Apache-2.0

package client

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// fleet serves GET /v1/nodes from a list, with Ironic's paging: "next" whenever
// a page is full, with a host in it that the client cannot reach.
type fleet struct {
	mu       sync.Mutex
	nodes    []ironic.Node
	maxLimit int
	// before is called before each answer, with the lock held.
	before func(page int)
	pages  int
	// damaged are nodes, by UUID, of which Ironic cannot read a column. It reads the columns that a list asks for, and all of the node
	// in a path and of a marker.
	damaged map[string]bool
	column  string
	gets    int
	// failed counts the answers that are no success.
	failed int
}

func (f *fleet) get(w http.ResponseWriter, id string) {
	f.gets++
	i := slices.IndexFunc(f.nodes, func(n ironic.Node) bool { return n.UUID == id })
	switch {
	case i < 0:
		answer(http.StatusNotFound, fault("Node "+id+" could not be found."))(w, nil)
	case f.damaged[id]:
		f.failed++
		cannotRead(w)
	default:
		json.NewEncoder(w).Encode(f.nodes[i]) //nolint:errcheck // The client notices.
	}
}

func cannotRead(w http.ResponseWriter) {
	answer(http.StatusInternalServerError, fault("Unterminated string starting at: line 1 column 2 (char 1)"))(w, nil)
}

// show returns the columns of a page that were asked for. ok is false if one cannot be read.
func (f *fleet) show(page []ironic.Node, q url.Values) (shown []ironic.Node, ok bool) {
	fields := strings.Split(q.Get("fields"), ",")
	whole := q.Get("fields") == "" || slices.Contains(fields, "last_error")
	for _, n := range page {
		if f.damaged[n.UUID] && (whole || slices.Contains(fields, f.column)) {
			return nil, false
		}
		switch {
		case whole:
		case slices.Contains(fields, "driver"):
			n = ironic.Node{UUID: n.UUID, Name: n.Name, Driver: n.Driver, Address: n.Address, Marks: n.Marks}
		default:
			n = ironic.Node{UUID: n.UUID}
		}
		shown = append(shown, n)
	}
	return shown, true
}

func (f *fleet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.before != nil {
		f.before(f.pages)
	}
	if id, single := strings.CutPrefix(r.URL.Path, "/v1/nodes/"); single {
		f.get(w, id)
		return
	}
	f.pages++
	q := r.URL.Query()
	nodes := slices.Clone(f.nodes)
	if q.Get("sort_key") == "updated_at" && q.Get("sort_dir") == "desc" {
		slices.SortStableFunc(nodes, func(a, b ironic.Node) int {
			switch {
			case a.UpdatedAt == nil && b.UpdatedAt == nil:
				return 0
			case a.UpdatedAt == nil:
				return 1
			case b.UpdatedAt == nil:
				return -1
			}
			return b.UpdatedAt.Compare(*a.UpdatedAt)
		})
	}
	from := 0
	if marker := q.Get("marker"); marker != "" {
		from = 1 + slices.IndexFunc(nodes, func(n ironic.Node) bool { return n.UUID == marker })
		if from == 0 {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, fault("Node "+marker+" could not be found."))
			return
		}
		if f.damaged[marker] {
			f.failed++
			cannotRead(w)
			return
		}
	}
	limit, err := strconv.Atoi(q.Get("limit"))
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	limit = min(limit, f.maxLimit)
	page := nodes[from:min(from+limit, len(nodes))]
	shown, ok := f.show(page, q)
	if !ok {
		f.failed++
		cannotRead(w)
		return
	}
	answer := map[string]any{"nodes": shown}
	if len(page) == limit {
		answer["next"] = "http://10.0.0.1:1/v1/nodes?limit=" + q.Get("limit") + "&marker=" + page[len(page)-1].UUID
	}
	json.NewEncoder(w).Encode(answer) //nolint:errcheck // The client notices.
}

func nodeNamed(i int) ironic.Node {
	return ironic.Node{UUID: fmt.Sprintf("00000000-0000-4000-8000-%012d", i), Name: fmt.Sprintf("metal3~host-%d", i), ProvisionState: ironic.Available}
}

func TestListNodesPages(t *testing.T) {
	for name, test := range map[string]struct{ nodes, maxLimit, pages int }{
		"none":                         {0, 1000, 1},
		"one page":                     {999, 1000, 1},
		"a full last page":             {2000, 1000, 3},
		"three pages":                  {2001, 1000, 3},
		"Ironic allows smaller pages":  {250, 100, 3},
		"and its last page is full":    {200, 100, 3},
		"exactly one node in the last": {1001, 1000, 2},
	} {
		t.Run(name, func(t *testing.T) {
			served := &fleet{maxLimit: test.maxLimit}
			for i := range test.nodes {
				served.nodes = append(served.nodes, nodeNamed(i))
			}
			got, err := newFake(t, newestMinor, served.ServeHTTP).client().ListNodes(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if len(got) != test.nodes || served.pages != test.pages {
				t.Fatalf("got %d nodes in %d pages, want %d in %d", len(got), served.pages, test.nodes, test.pages)
			}
			for i := range got {
				if got[i].UUID != served.nodes[i].UUID {
					t.Fatalf("node %d is %s, want %s", i, got[i].UUID, served.nodes[i].UUID)
				}
			}
		})
	}
}

// TestLongNodes: all nodes are read, in shorter pages, although some have texts so long that a page is longer than what is read of an
// answer, and little of these texts is kept. A node that is longer by itself cannot be read.
func TestLongNodes(t *testing.T) {
	const nodes, long = 40, 100 << 10
	served := &fleet{maxLimit: listPage}
	for i := range nodes {
		node := nodeNamed(i)
		changed := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(i) * time.Second)
		node.UpdatedAt = &changed
		if i < nodes/2 {
			node.LastError = strings.Repeat("x", long)
		}
		served.nodes = append(served.nodes, node)
	}
	client := newFake(t, newestMinor, served.ServeHTTP).client()
	client.transport.maxAnswer = 2 * long
	all, err := client.ListNodes(t.Context())
	if err != nil || len(all) != nodes {
		t.Fatalf("%d nodes were listed: %v", len(all), err)
	}
	for _, node := range all {
		if len(node.LastError) > 65<<10 {
			t.Fatalf("%d bytes of an error are kept", len(node.LastError))
		}
	}
	changes, err := client.ChangedSince(t.Context(), time.Time{}, nodes)
	if err != nil || len(changes.Nodes) != nodes && !changes.Truncated {
		t.Errorf("the changes: %d nodes, truncated %t, %v", len(changes.Nodes), changes.Truncated, err)
	}
	client.transport.maxAnswer = long
	all, err = client.ListNodes(t.Context())
	if err != nil || len(all) != nodes {
		t.Fatalf("%d nodes were listed: %v", len(all), err)
	}
	for i, node := range all {
		want := ""
		if i < nodes/2 {
			want = "the answer is longer than any of Ironic's"
		}
		if node.Unreadable != want {
			t.Errorf("node %d cannot be read because %q, want %q", i, node.Unreadable, want)
		}
	}
}

// The node that the next page would begin after is deleted meanwhile.
func TestListNodesMarkerDeleted(t *testing.T) {
	served := &fleet{maxLimit: 3}
	for i := range 7 {
		served.nodes = append(served.nodes, nodeNamed(i))
	}
	served.before = func(page int) {
		if page == 1 {
			served.nodes = slices.Delete(served.nodes, 2, 3)
		}
	}
	got, err := newFake(t, newestMinor, served.ServeHTTP).client().ListNodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range got {
		got[i].AnsweredAt = time.Time{}
	}
	if diff := cmp.Diff(served.nodes, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestChangedSince(t *testing.T) {
	start := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	served := &fleet{maxLimit: 1000}
	for i := range 500 {
		n := nodeNamed(i)
		if i < 400 { // The others never changed.
			changed := start.Add(time.Duration(i) * time.Second)
			n.UpdatedAt = &changed
		}
		served.nodes = append(served.nodes, n)
	}
	for name, test := range map[string]struct {
		since        time.Time
		nodes, pages int // after several pages, one more for what has changed meanwhile
	}{
		"nothing new":             {start.Add(400 * time.Second), 0, 1},
		"same instant counts":     {start.Add(399 * time.Second), 1, 1},
		"few":                     {start.Add(391 * time.Second), 9, 1},
		"exactly the first page":  {start.Add(390 * time.Second), 10, 3},
		"several pages":           {start.Add(300 * time.Second), 100, 4},
		"all that ever changed":   {time.Time{}, 400, 5},
		"finer than Ironic's own": {start.Add(398*time.Second + time.Nanosecond), 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			served.pages = 0
			got, err := newFake(t, newestMinor, served.ServeHTTP).client().ChangedSince(t.Context(), test.since, 0)
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Nodes) != test.nodes || served.pages != test.pages || got.Truncated {
				t.Errorf("got %d nodes in %d pages (truncated: %t), want %d in %d", len(got.Nodes), served.pages, got.Truncated, test.nodes, test.pages)
			}
			if newest := start.Add(399 * time.Second); !got.Newest.Equal(newest) || got.AnsweredAt.IsZero() {
				t.Errorf("the newest is of %s, want %s; answered at %s", got.Newest, newest, got.AnsweredAt)
			}
			for i, n := range got.Nodes {
				if want := nodeNamed(399 - i).UUID; n.UUID != want {
					t.Fatalf("node %d is %s, want %s", i, n.UUID, want)
				}
			}
		})
	}
}

// The pages are bounded: a fleet that has changed as a whole is read at a lower price.
func TestChangedSinceIsBounded(t *testing.T) {
	served := &fleet{maxLimit: 1000}
	changed := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	for i := range 3000 {
		n := nodeNamed(i)
		n.UpdatedAt = &changed
		served.nodes = append(served.nodes, n)
	}
	client := newFake(t, newestMinor, served.ServeHTTP).client()
	for expected, want := range map[int]struct{ nodes, pages int }{0: {10 + 50 + 250 + 1000, 4}, 100: {100 + 500 + 1000 + 1000, 4}} {
		served.pages = 0
		got, err := client.ChangedSince(t.Context(), time.Time{}, expected)
		if err != nil {
			t.Fatal(err)
		}
		if !got.Truncated || len(got.Nodes) != want.nodes || served.pages != want.pages {
			t.Errorf("with %d expected: %d nodes in %d pages (truncated: %t), want %d in %d", expected, len(got.Nodes), served.pages, got.Truncated, want.nodes, want.pages)
		}
	}
}

// Nodes move to the front between two pages.
func TestChangedSinceWhileChanging(t *testing.T) {
	start := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	served := &fleet{maxLimit: 1000}
	for i := range 40 {
		n := nodeNamed(i)
		changed := start.Add(time.Duration(i) * time.Second)
		n.UpdatedAt = &changed
		served.nodes = append(served.nodes, n)
	}
	later := start.Add(time.Hour)
	served.before = func(page int) {
		switch page {
		case 1: // The end of the first page changes: it is the marker.
			served.nodes[30].UpdatedAt = &later
			// So does one of the last page, which is on none of the others then.
			muchLater := later.Add(time.Second)
			served.nodes[5].UpdatedAt, served.nodes[5].LastError = &muchLater, "newest"
		case 2: // The end of the list is deleted.
			served.nodes = served.nodes[1:]
		}
	}
	got, err := newFake(t, newestMinor, served.ServeHTTP).client().ChangedSince(t.Context(), start, 0)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, n := range got.Nodes {
		seen[n.UUID]++
		if n.UUID == nodeNamed(5).UUID && n.LastError != "newest" {
			t.Error("node 5 is shown as it was before")
		}
	}
	for i := 1; i < 40; i++ {
		if id := nodeNamed(i).UUID; seen[id] != 1 {
			t.Errorf("node %d came %d times, want once", i, seen[id])
		}
	}
}

// A LIST must not leave out nodes that have a parent; the argument is refused
// where parents are unknown.
func TestListsIncludeChildren(t *testing.T) {
	for minor, want := range map[int]string{82: "", 83: "True", newestMinor: "True"} {
		f := newFake(t, minor, answer(200, `{"nodes":[]}`))
		c := f.client()
		if _, err := c.ListNodes(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := c.ChangedSince(t.Context(), time.Now(), 0); err != nil {
			t.Error(err)
		}
		for _, r := range f.requests() {
			if query, err := url.ParseQuery(r.Query); err != nil || query.Get("include_children") != want {
				t.Errorf("in 1.%d: asked %s", minor, r.Query)
			}
		}
	}
}

func TestGetNodeEscapesNames(t *testing.T) {
	f := newFake(t, newestMinor, answer(200, "{}"))
	c := f.client()
	if _, err := c.GetNode(t.Context(), "a/b?c"); err != nil {
		t.Fatal(err)
	}
	if got, want := f.last().Path, "/v1/nodes/a%2Fb%3Fc"; got != want {
		t.Errorf("asked for %s, want %s", got, want)
	}
	for _, id := range []string{"", ".", ".."} {
		if _, err := c.GetNode(t.Context(), id); err == nil {
			t.Errorf("the name %q must be refused: its URL is that of the list, or leads out of it", id)
		}
		if err := c.DeleteNode(t.Context(), ironic.NoFence, id); err == nil {
			t.Errorf("a node of the name %q was deleted", id)
		}
		if _, err := c.GetInventory(t.Context(), id); err == nil {
			t.Errorf("the inventory of %q was read", id)
		}
		if err := c.SetIndicator(t.Context(), ironic.NoFence, "a", id, "ON"); err == nil {
			t.Errorf("the light %q was switched", id)
		}
		if err := c.SetMaintenance(t.Context(), ironic.NoFence, id, "why"); err == nil {
			t.Errorf("the node %q was put into maintenance", id)
		}
	}
}

// TestConcealed: what Ironic's policy conceals from the user is neither an error of the node nor a lock.
func TestConcealed(t *testing.T) {
	const node = `{
		"last_error": "** Value Redacted - Requires baremetal:node:get:last_error permission. **",
		"reservation": "** Redacted - requires baremetal:node:get:reservation permission. **",
		"driver_info": {"content": "** Redacted - requires baremetal:node:get:driver_info permission. **"},
		"driver_internal_info": {"content": "** Redacted - Requires baremetal:node:get:driver_internal_info permission. **"}}`
	one, err := newFake(t, newestMinor, answer(200, node)).client().GetNode(t.Context(), "host-0")
	if err != nil {
		t.Fatal(err)
	}
	all, err := newFake(t, newestMinor, answer(200, `{"nodes": [`+node+`]}`)).client().ListNodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, got := range append(all, *one) {
		got.AnsweredAt = time.Time{}
		if diff := cmp.Diff(ironic.Node{LockConcealed: true}, got); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
	}
	visible := `{"last_error": "** power on failed **", "reservation": "conductor-0"}`
	if got, err := newFake(t, newestMinor, answer(200, visible)).client().GetNode(t.Context(), "host-0"); err != nil || got.LastError != "** power on failed **" || got.Reservation != "conductor-0" {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestGetInventory(t *testing.T) {
	f := newFake(t, newestMinor, answer(200, `{"inventory":{"cpu":{"count":8}},"plugin_data":{"valid_interfaces":{}}}`))
	got, err := f.client().GetInventory(t.Context(), "11111111-0000-4000-8000-000000000001")
	if err != nil {
		t.Fatal(err)
	}
	want := &ironic.Inventory{Inventory: json.RawMessage(`{"cpu":{"count":8}}`), PluginData: json.RawMessage(`{"valid_interfaces":{}}`)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	none := newFake(t, newestMinor, answer(404, fault("Node inventory record for node 2 could not be found.")))
	if _, err := none.client().GetInventory(t.Context(), "a"); !ironic.IsNotFound(err) {
		t.Errorf("got %v, want not found", err)
	}
}

func BenchmarkListNodes1000(b *testing.B) {
	served := make([]ironic.Node, 1000)
	for i := range served {
		served[i] = nodeNamed(i)
		served[i].ProvisionUpdatedAt = at("2026-11-21T06:34:30.047626Z")
	}
	body, err := json.Marshal(map[string]any{"nodes": served})
	if err != nil {
		b.Fatal(err)
	}
	var page nodePage
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		page = nodePage{}
		if err := json.Unmarshal(body, &page); err != nil {
			b.Fatal(err)
		}
	}
	if len(page.Nodes) != 1000 {
		b.Fatal("nodes are missing")
	}
}
