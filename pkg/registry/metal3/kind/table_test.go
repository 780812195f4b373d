// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/hostile"
)

func TestTable(t *testing.T) {
	printer, err := newTableConvertor([]Column{
		{Name: "State", Type: "string", JSONPath: ".status.provisioning.state"},
		{Name: "Ready", Type: "string", JSONPath: `.status.conditions[?(@.type=="Ready")].status`},
		{Name: "Online", Type: "boolean", JSONPath: ".spec.online"},
		{Name: "Online, in words", Type: "string", JSONPath: ".spec.online"},
		{Name: "Errors", Type: "integer", JSONPath: ".status.errorCount"},
		{Name: "Rotational", Type: "boolean", JSONPath: ".spec.rootDeviceHints.rotational", Priority: 1},
		{Name: "MHz", Type: "number", JSONPath: ".status.hardware.cpu.clockMegahertz"},
		{Name: "Updated", Type: "date", JSONPath: ".status.lastUpdated"},
		Age,
	})
	if err != nil {
		t.Fatal(err)
	}
	yes, then := true, metav1.NewTime(time.Now().Add(-5*24*time.Hour-time.Minute))
	full := newHost("full", func(h *metal3.BareMetalHost) {
		h.CreationTimestamp = then
		h.Spec.Online = true
		h.Spec.RootDeviceHints = &metal3.RootDeviceHints{Rotational: &yes}
		h.Status.Provisioning.State = metal3.StateAvailable
		h.Status.ErrorCount = 3
		h.Status.LastUpdated = &then
		h.Status.HardwareDetails = &metal3.HardwareDetails{CPU: metal3.CPU{ClockMegahertz: 2100.5}}
		h.Status.Conditions = []metav1.Condition{{Type: "Healthy", Status: "Unknown"}, {Type: "Ready", Status: "True"}}
	})
	fullCells := []any{"full", "available", "True", true, "true", int64(3), true, 2100.5, "5d", "5d"}
	emptyCells := []any{"empty", "", nil, false, "false", int64(0), nil, nil, nil, nil}
	remaining := int64(7)
	page := metav1.ListMeta{ResourceVersion: "43", Continue: "more", RemainingItemCount: &remaining}
	tests := []struct {
		name            string
		object, options runtime.Object
		columns         int
		meta            metav1.ListMeta
		rows            [][]any
	}{
		{name: "one", object: full, columns: 10, rows: [][]any{fullCells}},
		{name: "nothing in it", object: newHost("empty"), columns: 10, rows: [][]any{emptyCells}},
		{name: "of a watch, after the first event", object: full, options: &metav1.TableOptions{NoHeaders: true}, rows: [][]any{fullCells}},
		{name: "a bookmark", object: &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "42"}}, columns: 10,
			meta: metav1.ListMeta{ResourceVersion: "42"}, rows: [][]any{append([]any{""}, emptyCells[1:]...)}},
		{name: "a page of a list", object: &metal3.BareMetalHostList{ListMeta: page, Items: []metal3.BareMetalHost{*full, *newHost("empty")}},
			columns: 10, meta: page, rows: [][]any{fullCells, emptyCells}},
		{name: "an empty list", object: &metal3.BareMetalHostList{}, columns: 10},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			table, err := printer.ConvertToTable(t.Context(), test.object, test.options)
			if err != nil {
				t.Fatal(err)
			}
			if len(table.ColumnDefinitions) != test.columns {
				t.Errorf("%d columns, want %d", len(table.ColumnDefinitions), test.columns)
			}
			if diff := cmp.Diff(test.meta, table.ListMeta); diff != "" {
				t.Errorf("metadata (- want, + got):\n%s", diff)
			}
			var rows [][]any
			for _, row := range table.Rows {
				rows = append(rows, row.Cells)
				_ = row.DeepCopy() // panics on a cell that JSON does not have
			}
			if diff := cmp.Diff(test.rows, rows); diff != "" {
				t.Errorf("rows (- want, + got):\n%s", diff)
			}
		})
	}
}

// TestTableOfHostileHost: what a BMC says does not control the terminal in which kubectl prints it.
func TestTableOfHostileHost(t *testing.T) {
	host := newHost("a", func(h *metal3.BareMetalHost) { h.Status.ErrorMessage = hostile.Text })
	printer, err := newTableConvertor([]Column{{Name: "Error", Type: "string", JSONPath: ".status.errorMessage"}})
	if err != nil {
		t.Fatal(err)
	}
	table, err := printer.ConvertToTable(t.Context(), host, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, _, _ := strings.Cut(table.Rows[0].Cells[1].(string), "\n") // as kubectl does
	if found := hostile.In(text); found != "" || !strings.Contains(text, "<script>") {
		t.Errorf("%s: %q", found, text)
	}
}
