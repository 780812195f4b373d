// SPDX-License-Identifier: Apache-2.0

package client

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/component-base/metrics/legacyregistry"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// damagedFleet has nodes in the same order by age and by change, of which Ironic cannot read a column of some.
func damagedFleet(nodes int, column string, bad ...int) *fleet {
	f := &fleet{maxLimit: listPage, column: column, damaged: map[string]bool{}}
	for i := range nodes {
		node := nodeNamed(i)
		node.Driver, node.Address.IPMIAddress = "ipmi", ironic.Text(node.Name)
		changed := time.Date(2026, 1, 1, 0, 0, nodes-i, 0, time.UTC)
		node.UpdatedAt = &changed
		f.nodes = append(f.nodes, node)
	}
	for _, i := range bad {
		f.damaged[nodeNamed(i).UUID] = true
	}
	return f
}

func from(first, end int) (all []int) {
	for i := first; i < end; i++ {
		all = append(all, i)
	}
	return all
}

// TestUnreadableNodes: a node that Ironic cannot show costs a list that node, and some requests.
func TestUnreadableNodes(t *testing.T) {
	for name, test := range map[string]struct {
		nodes    int
		column   string
		bad      []int
		maxLimit int
		// requests bounds those for the list.
		requests int
	}{
		"one of a thousand":           {nodes: 1000, bad: []int{555}, requests: 45},
		"the first":                   {nodes: 1000, bad: []int{0}, requests: 20},
		"the last":                    {nodes: 1000, bad: []int{999}, requests: 45},
		"the last of a page":          {nodes: 3000, bad: []int{999}, requests: 45},
		"the only one":                {nodes: 1, bad: []int{0}, requests: 4},
		"all of a few":                {nodes: 5, bad: from(0, 5), requests: 12},
		"some beside each other":      {nodes: 200, bad: from(90, 100), requests: 60},
		"some far apart":              {nodes: 5000, bad: []int{3, 700, 968, 1001, 2500, 4998}, requests: 250},
		"nothing says whose it is":    {nodes: 100, column: "driver_info", bad: []int{50}, requests: 40},
		"Ironic allows smaller pages": {nodes: 500, bad: []int{99, 100, 250}, maxLimit: 100, requests: 100},
		"and very small ones":         {nodes: 40, bad: []int{10}, maxLimit: 5, requests: 30},
		"as many as are left out":     {nodes: 100, bad: from(10, 10+maxUnreadable), requests: 80},
	} {
		t.Run(name, func(t *testing.T) {
			served := damagedFleet(test.nodes, test.column, test.bad...)
			if test.maxLimit > 0 {
				served.maxLimit = test.maxLimit
			}
			c := newFake(t, newestMinor, served.ServeHTTP).client()
			got, err := c.ListNodes(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if len(got) != test.nodes {
				t.Fatalf("got %d nodes of %d", len(got), test.nodes)
			}
			for i, node := range got {
				want := served.nodes[i]
				if slices.Contains(test.bad, i) {
					want.Unreadable = "HTTP 500"
					want.ProvisionState, want.UpdatedAt = "", nil
					if test.column == "driver_info" {
						want = ironic.Node{UUID: want.UUID, Unreadable: want.Unreadable}
					}
				}
				node.AnsweredAt = time.Time{}
				if diff := cmp.Diff(want, node); diff != "" {
					t.Errorf("node %d: -want +got\n%s", i, diff)
				}
			}
			if requests := served.pages + served.gets; requests > test.requests {
				t.Errorf("%d requests, of which %d for single nodes; want %d at most", requests, served.gets, test.requests)
			}
		})
	}
}

// TestUnreadableChanges: the feed goes on past a node that Ironic cannot show, and says that it was left out if it may have changed.
func TestUnreadableChanges(t *testing.T) {
	for name, test := range map[string]struct {
		bad   []int
		since int // the last node that has changed since
		want  []int
	}{
		"changed last":               {bad: []int{0}, since: 3, want: []int{0, 1, 2, 3}},
		"among the changed":          {bad: []int{2}, since: 3, want: []int{0, 1, 2, 3}},
		"unchanged, on the page":     {bad: []int{7}, since: 3, want: []int{0, 1, 2, 3}},
		"unchanged, beside the last": {bad: []int{4}, since: 3, want: []int{0, 1, 2, 3, 4}}, // it is not known when it has changed
		"on a later page":            {bad: []int{30}, since: 40, want: from(0, 41)},
	} {
		t.Run(name, func(t *testing.T) {
			served := damagedFleet(100, "", test.bad...)
			c := newFake(t, newestMinor, served.ServeHTTP).client()
			got, err := c.ChangedSince(t.Context(), *served.nodes[test.since].UpdatedAt, 0)
			if err != nil {
				t.Fatal(err)
			}
			if got.Truncated {
				return // all nodes are read instead
			}
			for _, i := range test.want {
				n := slices.IndexFunc(got.Nodes, func(n ironic.Node) bool { return n.UUID == nodeNamed(i).UUID })
				if n < 0 {
					t.Errorf("node %d is missing", i)
				} else if unreadable := got.Nodes[n].Unreadable != ""; unreadable != slices.Contains(test.bad, i) {
					t.Errorf("node %d: cannot be read: %t", i, unreadable)
				}
			}
			if len(got.Nodes) > len(test.want)+1 {
				t.Errorf("got %d nodes, want %d", len(got.Nodes), len(test.want))
			}
			if requests := served.pages + served.gets; requests > 60 {
				t.Errorf("%d requests", requests)
			}
		})
	}
}

// TestDamagedNodeIsRemembered: a node that Ironic could not show is left out of the lists that follow at the price of a few requests,
// none of which fails, and asked for again a while later.
func TestDamagedNodeIsRemembered(t *testing.T) {
	now := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	served := damagedFleet(1000, "", 3)
	c := newFake(t, newestMinor, served.ServeHTTP).client(func(cfg *Config) { cfg.Clock = now })
	lists := map[string]func() ([]ironic.Node, error){
		"all": func() ([]ironic.Node, error) { return c.ListNodes(t.Context()) },
		"changed": func() ([]ironic.Node, error) {
			changes, err := c.ChangedSince(t.Context(), *served.nodes[4].UpdatedAt, 0)
			if err != nil {
				return nil, err
			}
			return changes.Nodes, nil
		},
	}
	read := func(name string, unreadable bool) {
		t.Helper()
		nodes, err := lists[name]()
		if err != nil || len(nodes) < 5 || isUnreadable(nodes[3]) != unreadable {
			t.Fatalf("%s: %d nodes, %v", name, len(nodes), err)
		}
	}
	read("all", true)
	read("changed", true)
	for range 3 { // sweeps are 25 seconds apart
		for name := range lists {
			served.pages, served.gets, served.failed = 0, 0, 0
			read(name, true)
			if served.gets > 1 || served.pages > 4 || served.failed > 0 {
				t.Errorf("%s: %d requests for single nodes and %d for lists, of which %d fail", name, served.gets, served.pages, served.failed)
			}
		}
		now.Step(damagedFor / 3)
	}
	served.damaged = nil
	for range 2 { // the second time, the page is read as a whole
		for name := range lists {
			served.pages, served.gets = 0, 0
			read(name, false)
		}
	}
	if served.pages > 2 || served.gets > 0 {
		t.Errorf("%d requests for lists after it can be read again", served.pages)
	}
}

// TestRepairedNodeIsListed: as soon as a damaged node could be read, it is in lists again.
func TestRepairedNodeIsListed(t *testing.T) {
	served := damagedFleet(100, "", 3)
	c := newFake(t, newestMinor, served.ServeHTTP).client()
	if _, err := c.ListNodes(t.Context()); err != nil {
		t.Fatal(err)
	}
	served.damaged = nil
	if _, err := c.GetNode(t.Context(), served.nodes[3].UUID); err != nil {
		t.Fatal(err)
	}
	if nodes, err := c.ListNodes(t.Context()); err != nil || slices.ContainsFunc(nodes, isUnreadable) {
		t.Errorf("it can be read again: %v", err)
	}
}

// TestDamagedNodeIsNoOutage: what fails because of one node neither counts as a failure of Ironic, nor makes the client ask for the
// version again.
func TestDamagedNodeIsNoOutage(t *testing.T) {
	served := damagedFleet(100, "", 3)
	f := newFake(t, newestMinor, served.ServeHTTP)
	c := f.client(func(cfg *Config) { cfg.Name = "damaged" })
	defer ForgetMetrics("damaged")
	c.ListNodes(t.Context())                      //nolint:errcheck // Counted.
	c.GetNode(t.Context(), served.nodes[3].UUID)  //nolint:errcheck // Counted.
	c.ChangedSince(t.Context(), time.Time{}, 100) //nolint:errcheck // Counted.
	if served.failed == 0 {
		t.Error("nothing failed")
	}
	if asked := f.versionRequests(); asked != 1 {
		t.Errorf("asked for the version %d times", asked)
	}
	if counted := failures(t, "damaged"); counted != 0 {
		t.Errorf("%v requests count as failures of Ironic", counted)
	}
	served.damaged = map[string]bool{}
	for _, node := range served.nodes {
		served.damaged[node.UUID] = true
	}
	c.ListNodes(t.Context()) //nolint:errcheck // Counted.
	if counted := failures(t, "damaged"); counted == 0 {
		t.Error("a list that fails as a whole does not count")
	}
}

// failures returns how many requests count as failures of the Ironic.
func failures(t *testing.T, name string) (sum float64) {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "metal3_ironic_request_errors_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				if label.GetName() == "ironic" && label.GetValue() == name {
					sum += m.GetCounter().GetValue()
				}
			}
		}
	}
	return sum
}

// TestIronicFails: if it is not about some nodes, a list fails, after a few requests.
func TestIronicFails(t *testing.T) {
	requests := 0
	failing := func(w http.ResponseWriter, _ *http.Request) {
		requests++
		cannotRead(w)
	}
	damaged := damagedFleet(100, "", from(10, 11+maxUnreadable)...)
	columns := damagedFleet(100, "uuid", 50)
	for name, serve := range map[string]http.HandlerFunc{
		"the database is away":       failing,
		"too many nodes are damaged": damaged.ServeHTTP,
		"no column can be read":      columns.ServeHTTP,
	} {
		c := newFake(t, newestMinor, serve).client()
		if nodes, err := c.ListNodes(t.Context()); !ironic.IsInternal(err) {
			t.Errorf("%s: %d nodes, %v", name, len(nodes), err)
		}
		if _, err := c.ChangedSince(t.Context(), time.Time{}, 100); !ironic.IsInternal(err) {
			t.Errorf("%s: changes: %v", name, err)
		}
	}
	if requests > 6 {
		t.Errorf("an Ironic that is away is asked %d times for two lists", requests)
	}
}

// TestDeletedWhileReadAround: nodes are deleted while a page is read in parts.
func TestDeletedWhileReadAround(t *testing.T) {
	served := damagedFleet(300, "", 150)
	deleted := 0
	served.before = func(page int) {
		if page >= 2 && deleted < 20 {
			last := len(served.nodes) - 1
			served.nodes = slices.Delete(served.nodes, last, last+1)
			deleted++
		}
	}
	got, err := newFake(t, newestMinor, served.ServeHTTP).client().ListNodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]int{}
	for _, node := range got {
		listed[node.UUID]++
	}
	for i := range served.nodes {
		if listed[nodeNamed(i).UUID] != 1 {
			t.Errorf("node %d is listed %d times", i, listed[nodeNamed(i).UUID])
		}
	}
}
