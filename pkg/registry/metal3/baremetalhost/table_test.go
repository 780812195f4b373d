// SPDX-License-Identifier: Apache-2.0

package baremetalhost_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/baremetalhost"
	"github.com/metal3-io/metal3-apiserver/test/storetest"
)

// Scripts take the columns apart by position.
var (
	defaultColumns = []string{"Name", "Status", "Provisioning Status", "Consumer", "BMC", "Hardware Profile", "Online", "Error", "Age"}
	wideColumns    = []string{"Powered On", "Ironic State", "Progress", "Node UUID", "Boot MAC", "Ironic"}
)

// printed is a host with something in each column.
func printed() *metal3.BareMetalHost {
	host := newHost("openshift-master-0", func(h *metal3.BareMetalHost) {
		h.CreationTimestamp = metav1.NewTime(time.Now().Add(-5*24*time.Hour - time.Minute))
		h.Spec.Online = true
		h.Spec.BMC.Address = "ipmi://192.168.111.1:6230"
		h.Spec.BootMACAddress = "00:ab:4f:d8:9e:fa"
		h.Spec.ConsumerRef = &corev1.ObjectReference{Name: "ostest-master-0"}
	})
	host.Status = metal3.BareMetalHostStatus{
		OperationalStatus: metal3.OperationalStatusError,
		HardwareProfile:   "unknown",
		ErrorMessage:      "An IPMI command to the BMC has failed. Failed to get power state for node a4a53134-1690-45c6-93ee-b96c31dbfc54. Error: IPMI call failed: power status.",
		PoweredOn:         true,
		Provisioning:      metal3.ProvisionStatus{State: metal3.StateExternallyProvisioned, ID: "a4a53134-1690-45c6-93ee-b96c31dbfc54"},
		Ironic: &metal3.IronicStatus{ProvisionState: "clean wait", TargetProvisionState: "manageable",
			Operation: "clean", Step: "deploy.erase_devices", StepIndex: 2, StepCount: 3, Instance: "room-b"},
	}
	return host
}

var printedCells = []any{
	"openshift-master-0", "error", "externally provisioned", "ostest-master-0", "ipmi://192.168.111.1:6230", "unknown", "true",
	"An IPMI command to the BMC has failed.", "5d",
	"true", "clean wait -> manageable", "clean 2/3 erase_devices", "a4a53134-1690-45c6-93ee-b96c31dbfc54", "00:ab:4f:d8:9e:fa", "room-b",
}

func TestTable(t *testing.T) {
	store := newStore(t, storetest.New(t, storetest.Codec()))
	t.Run("columns", func(t *testing.T) { testColumns(t, store) })
	t.Run("rows", func(t *testing.T) { testRows(t, store) })
	t.Run("of a subresource", func(t *testing.T) {
		status := baremetalhost.NewStatusREST(baremetalhost.NewREST(store, newScripted(store), nil, nil), scheme, nil)
		if diff := cmp.Diff(printedCells, toTable(t, status, printed(), nil).Rows[0].Cells); diff != "" {
			t.Error(diff)
		}
	})
}

func testColumns(t *testing.T, store rest.TableConvertor) {
	table := toTable(t, store, printed(), nil)
	var byPriority [2][]string
	for i, c := range table.ColumnDefinitions {
		byPriority[c.Priority] = append(byPriority[c.Priority], c.Name)
		if c.Description == "" {
			t.Errorf("column %s has no description", c.Name)
		}
		if i > 0 && c.Priority < table.ColumnDefinitions[i-1].Priority {
			t.Errorf("column %s comes after the wide ones", c.Name)
		}
	}
	if diff := cmp.Diff([2][]string{defaultColumns, wideColumns}, byPriority); diff != "" {
		t.Errorf("columns (- want, + got):\n%s", diff)
	}
	if diff := cmp.Diff(printedCells, table.Rows[0].Cells); diff != "" {
		t.Errorf("row (- want, + got):\n%s", diff)
	}
}

func testRows(t *testing.T, store rest.TableConvertor) {
	unseen := []any{"worker-0", "", "", "", "ipmi://192.168.111.1:6233", "", "false", "", "", "false", "", "", "", "", ""}
	remaining := int64(7)
	tests := []struct {
		name    string
		object  runtime.Object
		options runtime.Object
		headers bool
		meta    metav1.ListMeta
		rows    [][]any
	}{
		{name: "a host that nobody has looked at", object: newHost("worker-0"), headers: true, rows: [][]any{unseen}},
		{name: "of a watch, after the first event", object: newHost("worker-0"), options: &metav1.TableOptions{NoHeaders: true}, rows: [][]any{unseen}},
		{name: "a bookmark", object: &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "42"}}, headers: true,
			meta: metav1.ListMeta{ResourceVersion: "42"},
			rows: [][]any{{"", "", "", "", "", "", "false", "", "", "false", "", "", "", "", ""}}},
		{name: "a page of a list", headers: true,
			object: &metal3.BareMetalHostList{
				ListMeta: metav1.ListMeta{ResourceVersion: "43", Continue: "more", RemainingItemCount: &remaining},
				Items:    []metal3.BareMetalHost{*printed(), *newHost("worker-0")},
			},
			meta: metav1.ListMeta{ResourceVersion: "43", Continue: "more", RemainingItemCount: &remaining},
			rows: [][]any{printedCells, unseen}},
		{name: "an empty list", object: &metal3.BareMetalHostList{ListMeta: metav1.ListMeta{ResourceVersion: "44"}}, headers: true,
			meta: metav1.ListMeta{ResourceVersion: "44"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			table := toTable(t, store, test.object, test.options)
			if got := len(table.ColumnDefinitions) > 0; got != test.headers {
				t.Errorf("with headers: %t, want %t", got, test.headers)
			}
			if diff := cmp.Diff(test.meta, table.ListMeta); diff != "" {
				t.Errorf("metadata (- want, + got):\n%s", diff)
			}
			var rows [][]any
			for _, row := range table.Rows {
				rows = append(rows, row.Cells)
				if row.Object.Object == nil {
					t.Error("a row comes without its object")
				}
			}
			if diff := cmp.Diff(test.rows, rows); diff != "" {
				t.Errorf("rows (- want, + got):\n%s", diff)
			}
		})
	}
}

// TestTableOfWatch prints what a watch delivers, with the cache's own objects
// and bookmarks among it.
func TestTableOfWatch(t *testing.T) {
	eachCache(t, func(t *testing.T, store *genericregistry.Store) {
		hosts := baremetalhost.NewREST(store, newScripted(store), nil, nil)
		storetest.Create(t, store, newHost("worker-0"))
		yes := true
		w := openWatch(t, hosts, &metainternalversion.ListOptions{
			SendInitialEvents: &yes, AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
		})
		convert := func() metav1.TableRow {
			obj := storetest.NextEvent(t, w).Object
			if cached, ok := obj.(runtime.CacheableObject); ok {
				obj = cached.GetObject()
			}
			return toTable(t, hosts, obj, nil).Rows[0]
		}
		if row := convert(); row.Cells[0] != "worker-0" {
			t.Errorf("the first row is %v", row.Cells)
		}
		if bookmark := convert(); bookmark.Cells[0] != "" {
			t.Errorf("the initial events do not end: %v", bookmark.Cells)
		}
		record(t, store, "worker-0", func(s *metal3.BareMetalHostStatus) { s.OperationalStatus = metal3.OperationalStatusOK })
		if row := convert(); row.Cells[1] != "OK" {
			t.Errorf("a live row is %v", row.Cells)
		}
	})
}

// TestWatchFromAnotherEtcd: a watch from a resourceVersion that etcd has not reached is refused, unless it begins with what there is.
func TestWatchFromAnotherEtcd(t *testing.T) {
	eachCache(t, func(t *testing.T, store *genericregistry.Store) {
		hosts := baremetalhost.NewREST(store, newScripted(store), nil, nil)
		ctx := genericapirequest.WithNamespace(t.Context(), storetest.Namespace)
		no := false
		for name, initial := range map[string]*bool{"left out": nil, "without initial events": &no} {
			options := &metainternalversion.ListOptions{ResourceVersion: "1000000000", SendInitialEvents: initial}
			if initial != nil {
				options.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
			}
			w, err := hosts.Watch(ctx, options)
			if !apierrors.IsResourceExpired(err) {
				t.Errorf("%s: %v, want 410", name, err)
			}
			if err == nil {
				w.Stop()
			}
		}
	})
}

func toTable(t *testing.T, store rest.TableConvertor, obj, options runtime.Object) *metav1.Table {
	t.Helper()
	table, err := store.ConvertToTable(t.Context(), obj, options)
	if err != nil {
		t.Fatal(err)
	}
	return table
}
