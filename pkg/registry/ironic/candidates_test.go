// SPDX-License-Identifier: Apache-2.0

package ironic

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apiserver/pkg/warning"

	api "github.com/metal3-io/metal3-apiserver/pkg/apis/ironic/v1alpha1"
	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

type fakeIronic struct {
	nodes []ironic.Node
	ports []ironic.Port
	err   error
	// lists counts the requests for all nodes or all ports.
	lists atomic.Int32
	// slow, if it is not nil, has to be closed before a list ends.
	slow chan struct{}
}

func (f *fakeIronic) GetNode(_ context.Context, idOrName string) (*ironic.Node, error) {
	if f.err != nil {
		return nil, f.err
	}
	i := slices.IndexFunc(f.nodes, func(n ironic.Node) bool { return n.UUID == idOrName || n.Name == idOrName })
	switch {
	case i < 0:
		return nil, &ironic.APIError{Status: http.StatusNotFound, Op: "get node " + idOrName}
	case f.nodes[i].Unreadable != "":
		return nil, &ironic.APIError{Status: http.StatusInternalServerError, Op: "get node " + idOrName}
	}
	node := f.nodes[i]
	return &node, nil
}

func (f *fakeIronic) ListNodes(context.Context) ([]ironic.Node, error) {
	f.lists.Add(1)
	nodes := slices.Clone(f.nodes)
	if f.slow != nil {
		<-f.slow
	}
	return nodes, f.err
}

func (f *fakeIronic) ListPorts(_ context.Context, filter ironic.PortFilter) ([]ironic.Port, error) {
	if filter == (ironic.PortFilter{}) {
		f.lists.Add(1)
	}
	return slices.DeleteFunc(slices.Clone(f.ports), func(p ironic.Port) bool { return filter.Node != "" && p.NodeUUID != filter.Node }), f.err
}

type fakeHosts []metal3.BareMetalHost

func (f fakeHosts) List(context.Context, metav1.ListOptions) (*metal3.BareMetalHostList, error) {
	return &metal3.BareMetalHostList{Items: f}, nil
}

// storage is that of candidates of the Ironic of the server's flags.
func storage(t *testing.T, nodes *fakeIronic, hosts ...metal3.BareMetalHost) *candidates {
	return storageOf(t, []NamedNodes{{Nodes: nodes}}, hosts...)
}

func storageOf(t *testing.T, ironics []NamedNodes, hosts ...metal3.BareMetalHost) *candidates {
	return &candidates{func() []NamedNodes { return ironics }, newListings(t.Context()), fakeHosts(hosts)}
}

func TestNodesThatHostsHaveAreNoCandidates(t *testing.T) {
	hostOf := func(name, recorded, live string) metal3.BareMetalHost {
		h := metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: "metal3", Name: name}}
		h.Status.Provisioning.ID = recorded
		if live != "" {
			h.Status.Ironic = &metal3.IronicStatus{NodeUUID: live}
		}
		return h
	}
	c := storage(t, &fakeIronic{nodes: []ironic.Node{
		{UUID: "b", Name: "spare"}, {UUID: "a"}, {UUID: "recorded"}, {UUID: "live"}, {UUID: "named", Name: "metal3~by-name"}, {UUID: "other", Name: "other~by-name"},
	}}, hostOf("h-0", "recorded", ""), hostOf("h-1", "", "live"), hostOf("by-name", "", ""))
	list, err := c.List(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, candidate := range list.(*api.CandidateList).Items {
		names = append(names, candidate.Name)
	}
	if diff := cmp.Diff([]string{"a", "b", "other"}, names); diff != "" {
		t.Error(diff)
	}
	if _, err := c.Get(t.Context(), "recorded", nil); !apierrors.IsNotFound(err) {
		t.Errorf("a node that a host has: %v", err)
	}
}

func TestWhatACandidateShows(t *testing.T) {
	c := storage(t, &fakeIronic{
		nodes: []ironic.Node{{
			UUID: "a", Name: "rack7-u12", Driver: "redfish", ProvisionState: ironic.Active, PowerState: ironic.PowerOn, InstanceUUID: "i",
			Address: ironic.Address{RedfishAddress: "https://admin:secret@192.0.2.1", RedfishSystem: "/redfish/v1/Systems/1"},
			Marks:   ironic.Marks{Host: "host-uid", Cluster: "cluster-uid"}, Maintenance: true, MaintenanceReason: "a fan",
		}},
		ports: []ironic.Port{{NodeUUID: "a", Address: "00:00:5e:00:53:02"}, {NodeUUID: "a", Address: "00:00:5e:00:53:01"}, {NodeUUID: "b", Address: "00:00:5e:00:53:03"}},
	})
	got, err := c.Get(t.Context(), "a", nil)
	if err != nil {
		t.Fatal(err)
	}
	want := &api.Candidate{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Status: api.CandidateStatus{
		NodeName: "rack7-u12", Driver: "redfish", ProvisionState: "active", PowerState: "power on", InstanceUUID: "i",
		BMCAddress: "redfish://192.0.2.1/redfish/v1/Systems/1", MACAddresses: []string{"00:00:5e:00:53:01", "00:00:5e:00:53:02"},
		MarkedHost: "host-uid", MarkedCluster: "cluster-uid", Maintenance: true, MaintenanceReason: "a fan",
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	table, err := c.ConvertToTable(t.Context(), got, nil)
	if err != nil || len(table.Rows) != 1 || len(table.Rows[0].Cells) != len(columns) {
		t.Errorf("the table is %+v, %v", table, err)
	}
}

// TestListsAreShared: however many list candidates, an Ironic lists its nodes once at a time, and nobody gets an older answer than the
// request.
func TestListsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := &fakeIronic{nodes: []ironic.Node{{UUID: "a"}}, slow: make(chan struct{})}
		c := storage(t, in)
		var readers sync.WaitGroup
		read := func(want int) {
			readers.Go(func() {
				list, err := c.List(t.Context(), nil)
				if err != nil || len(list.(*api.CandidateList).Items) != want {
					t.Errorf("got %+v, %v; want %d", list, err, want)
				}
			})
		}
		read(1)
		synctest.Wait()
		in.nodes = append(in.nodes, ironic.Node{UUID: "b"})
		for range 20 {
			read(2)
		}
		synctest.Wait()
		close(in.slow)
		readers.Wait()
		if lists := in.lists.Load(); lists != 4 {
			t.Errorf("%d lists of nodes and ports, want 2 of each", lists)
		}
	})
}

// TestGetReadsOneNode: a GET does not list anything. A node's name is no candidate's.
func TestGetReadsOneNode(t *testing.T) {
	in := &fakeIronic{nodes: []ironic.Node{{UUID: "a", Name: "spare"}, {UUID: "b"}}}
	c := storage(t, in)
	if got, err := c.Get(t.Context(), "a", nil); err != nil || got.(*api.Candidate).Status.NodeName != "spare" {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, name := range []string{"spare", "c"} {
		if _, err := c.Get(t.Context(), name, nil); !apierrors.IsNotFound(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if lists := in.lists.Load(); lists > 0 {
		t.Errorf("%d lists", lists)
	}
}

func TestSelectors(t *testing.T) {
	c := storage(t, &fakeIronic{nodes: []ironic.Node{{UUID: "a"}, {UUID: "b"}}})
	list, err := c.List(t.Context(), &metainternalversion.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", "b")})
	if err != nil {
		t.Fatal(err)
	}
	if items := list.(*api.CandidateList).Items; len(items) != 1 || items[0].Name != "b" {
		t.Errorf("got %+v", items)
	}
}

func TestIronicAway(t *testing.T) {
	c := storage(t, &fakeIronic{err: errors.New("connection refused")})
	if _, err := c.List(t.Context(), nil); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("list: %v", err)
	}
	if _, err := c.Get(t.Context(), "a", nil); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("get: %v", err)
	}
}

// warnings are those that a client gets.
type warnings []string

func (w *warnings) AddWarning(_, text string) { *w = append(*w, text) }

// namesIn lists candidates as IRONIC/UUID.
func namesIn(t *testing.T, c *candidates) (names, warned []string) {
	t.Helper()
	var w warnings
	list, err := c.List(warning.WithWarningRecorder(t.Context(), &w), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, candidate := range list.(*api.CandidateList).Items {
		names = append(names, candidate.Status.Ironic+"/"+candidate.Name)
	}
	return names, w
}

func TestCandidatesOfSeveralIronics(t *testing.T) {
	host := metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: "metal3", Name: "h-0"}}
	host.Status.Provisioning.ID, host.Status.Record.Ironic = "same", "room-b"
	c := storageOf(t, []NamedNodes{
		{Nodes: &fakeIronic{nodes: []ironic.Node{{UUID: "same"}, {UUID: "b"}, {UUID: "named", Name: "metal3~h-0"}}}},
		{Nodes: &fakeIronic{nodes: []ironic.Node{{UUID: "same", Name: "metal3~h-0"}, {UUID: "a"}, {UUID: "b"}}}, Name: "room-b"},
	}, host)
	names, warned := namesIn(t, c)
	if diff := cmp.Diff([]string{"room-b/a", "/b", "room-b/b", "/same"}, names); diff != "" {
		t.Error(diff)
	}
	if len(warned) > 0 {
		t.Errorf("warned of %q", warned)
	}
	got, err := c.Get(t.Context(), "a", nil)
	if err != nil || got.(*api.Candidate).Status.Ironic != "room-b" {
		t.Errorf("got %+v, %v", got, err)
	}
	table, err := c.ConvertToTable(t.Context(), got, nil)
	if err != nil || !slices.Contains(table.Rows[0].Cells, any("room-b")) {
		t.Errorf("the table is %+v, %v", table, err)
	}
}

func TestOneOfSeveralIronicsAway(t *testing.T) {
	away := &fakeIronic{err: &ironic.UnavailableError{Op: "list nodes of http://192.0.2.1:6385", Reason: "connection refused"}}
	c := storageOf(t, []NamedNodes{{Nodes: away, Name: "room-b"}, {Nodes: &fakeIronic{nodes: []ironic.Node{{UUID: "a"}}}, Name: "room-c"}})
	names, warned := namesIn(t, c)
	if diff := cmp.Diff([]string{"room-c/a"}, names); diff != "" {
		t.Error(diff)
	}
	want := []string{`candidates are missing: the Ironic of IronicInstance "room-b" cannot be asked: connection refused`}
	if diff := cmp.Diff(want, warned); diff != "" {
		t.Error(diff)
	}
	if _, err := c.Get(t.Context(), "a", nil); err != nil {
		t.Error(err)
	}
	if _, err := c.Get(t.Context(), "b", nil); !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), "room-b") {
		t.Errorf("of a node that the Ironic that is away may have: %v", err)
	}
	c = storageOf(t, []NamedNodes{{Nodes: away}, {Nodes: away, Name: "room-b"}})
	if _, err := c.List(t.Context(), nil); !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), "room-b") {
		t.Errorf("none answers: %v", err)
	}
}

// waiting is an Ironic that answers when all of several Ironics have been asked.
type waiting struct {
	fakeIronic
	others *sync.WaitGroup
}

func (w *waiting) ListNodes(ctx context.Context) ([]ironic.Node, error) {
	w.others.Done()
	w.others.Wait()
	return w.fakeIronic.ListNodes(ctx)
}

func TestIronicsAreAskedAtTheSameTime(t *testing.T) {
	var all sync.WaitGroup
	all.Add(2)
	c := storageOf(t, []NamedNodes{{Nodes: &waiting{others: &all}}, {Nodes: &waiting{others: &all}, Name: "room-b"}})
	if _, err := c.List(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

// TestNodeThatIronicCannotShow: it is no candidate, and not the reason that the others are none.
func TestNodeThatIronicCannotShow(t *testing.T) {
	c := storageOf(t, []NamedNodes{{Nodes: &fakeIronic{nodes: []ironic.Node{{UUID: "a"}, {UUID: "b", Unreadable: "HTTP 500"}, {UUID: "c"}}}}})
	names, warned := namesIn(t, c)
	if diff := cmp.Diff([]string{"/a", "/c"}, names); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"candidates are missing: Ironic fails to show 1 of its nodes: its log has the reason"}, warned); diff != "" {
		t.Error(diff)
	}
	if _, err := c.Get(t.Context(), "b", nil); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("got %v", err)
	}
}
