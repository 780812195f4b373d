// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// The tables of plan_states_tables_test.go have a column for each kind of host and
// a row for each provision state of Ironic. A cell is the one thing to do.

// noNode is the row of a host of which Ironic has no node.
const noNode = "no node"

// rowWidth is where the columns of the tables begin.
const rowWidth = 17

// cell is one field of a table.
type cell struct {
	column string
	state  ironic.ProvisionState
	want   string
}

func (c cell) String() string { return c.column + ", " + string(c.state) }

func (c cell) node() *ironic.Node {
	if c.state == noNode {
		return nil
	}
	return nodeIn(c.state)
}

// cellsOf reads a table, which must have the columns given, and all rows.
func cellsOf(t *testing.T, table string, columns map[string][]hostOption) (cells []cell) {
	t.Helper()
	lines := strings.Split(strings.Trim(table, "\n"), "\n")
	header := strings.Fields(lines[0])
	if got, want := slices.Sorted(slices.Values(header)), slices.Sorted(maps.Keys(columns)); !slices.Equal(got, want) {
		t.Fatalf("the columns are %v, and the hosts %v", got, want)
	}
	rows := map[ironic.ProvisionState]bool{}
	for _, line := range lines[1:] {
		state := ironic.ProvisionState(strings.TrimSpace(line[:rowWidth]))
		rows[state] = true
		fields := strings.Fields(line[rowWidth:])
		if len(fields) != len(header) {
			t.Fatalf("row %q has %d cells of %d", state, len(fields), len(header))
		}
		for i, want := range fields {
			cells = append(cells, cell{header[i], state, want})
		}
	}
	for _, state := range append(constantsOf(t, "../../ironic", "ProvisionState"), noNode) {
		if !rows[ironic.ProvisionState(state)] {
			t.Errorf("there is no row for %q", state)
		}
	}
	return cells
}

// constantsOf are the values of all constants of a type that a package declares.
func constantsOf(t *testing.T, directory, typeName string) (values []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(directory, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 {
				return true
			}
			if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == typeName {
				value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				values = append(values, value)
			}
			return true
		})
	}
	if len(values) < 10 {
		t.Fatalf("only %d constants of type %s were found in %s", len(values), typeName, directory)
	}
	return values
}

// expectEachState fails unless each state that a host can have stored is that of
// one of the hosts.
func expectEachState(t *testing.T, tables ...map[string][]hostOption) {
	t.Helper()
	tested := map[string]bool{}
	for _, columns := range tables {
		for _, options := range columns {
			tested[string(newHost(options...).Status.Provisioning.State)] = true
		}
	}
	for _, state := range constantsOf(t, "../../apis/metal3/v1alpha1", "ProvisioningState") {
		if !tested[state] {
			t.Errorf("no table has a column for hosts in state %q", state)
		}
	}
}

// expectAccepted fails when a release of Ironic refuses what is asked of it in the
// state of the node.
func expectAccepted(t *testing.T, c cell, step Step) {
	t.Helper()
	verb := step.Target
	switch step.Do {
	case Provision:
	case Deploy:
		verb = ironic.TargetActive
	default:
		return
	}
	for _, release := range releases {
		machine := machineOf(release)
		if known := machine.Events(string(c.state)) != nil; known && !machine.Allows(string(c.state), string(verb)) {
			t.Errorf("%s: Ironic of %s refuses %q", c, release, verb)
		}
	}
}

func TestNextByState(t *testing.T) {
	expectEachState(t, arriving, resting, leaving)
	for _, table := range []struct {
		cells string
		hosts map[string][]hostOption
	}{{arrivingTable, arriving}, {restingTable, resting}, {leavingTable, leaving}} {
		for _, c := range cellsOf(t, table.cells, table.hosts) {
			expectLiving(t, c, table.hosts[c.column])
		}
	}
}

// expectLiving checks a cell, and what goes before all cells.
func expectLiving(t *testing.T, c cell, options []hostOption) {
	t.Helper()
	fresh := func() situation { return planned(newHost(options...), c.node()) }
	got := nextOf(fresh())
	if got.String() != c.want {
		t.Errorf("%s: %s, want %s", c, got, c.want)
	}
	expectAccepted(t, c, got)

	s := fresh()
	annotated(metal3.PausedAnnotation, "metal3.io/capm3")(s.Host)
	if got := nextOf(s); got != (Step{Do: Wait}) {
		t.Errorf("%s, paused: %s, want Wait", c, got)
	}
	if got.Do == Begin {
		return // nothing is asked of Ironic yet
	}

	// A node that a conductor has locked is left alone, unless Ironic waits for its ramdisk,
	// whose heartbeats lock it. One in maintenance that is not Ironic's own is left alone, too.
	if c.state != noNode {
		s := fresh()
		s.Node.Reservation = "conductor-0"
		want := Step{Do: Wait}
		if c.state.IsWaiting() {
			want = nextOf(fresh())
		}
		if got := nextOf(s); got != want {
			t.Errorf("%s, reserved: %s, want %s", c, got, want)
		}
		for _, fault := range []string{"", ironic.FaultPowerFailure} {
			s := fresh()
			s.Node.Maintenance, s.Node.Fault = true, fault
			if got := nextOf(s); c.state != ironic.Enroll && got != (Step{Do: Wait}) {
				t.Errorf("%s, in maintenance, fault %q: %s, want Wait", c, fault, got)
			}
		}
	}

	// Without the Secret, the host says so, once.
	s = fresh()
	s.SecretVersion = ""
	got = nextOf(s)
	if got.Do != Report || got.Reason != metal3.SecretNotFoundReason || !strings.Contains(got.Message, `"host-0-bmc"`) {
		t.Errorf("%s, no Secret: %s %q", c, got, got.Message)
	}
	withRegistration(got.Reason, got.Message)(s.Host)
	if got := nextOf(s); got != (Step{Do: Wait}) {
		t.Errorf("%s, no Secret, reported: %s, want Wait", c, got)
	}
}

// The same hosts, deleted.
func TestNextByStateOfDeleted(t *testing.T) {
	expectEachState(t, deletedEarly, deletedLate)
	for _, table := range []struct {
		cells string
		hosts map[string][]hostOption
	}{{deletedEarlyTable, deletedEarly}, {deletedLateTable, deletedLate}} {
		for _, c := range cellsOf(t, table.cells, table.hosts) {
			expectDeleted(t, c, and(table.hosts[c.column], deleted))
		}
	}
}

func expectDeleted(t *testing.T, c cell, options []hostOption) {
	t.Helper()
	fresh := func() situation { return planned(newHost(options...), c.node()) }
	short := func(step Step) string {
		return strings.Replace(step.String(), "=powering-off-before-delete", "=powering-off", 1)
	}
	got := nextOf(fresh())
	if short(got) != c.want {
		t.Errorf("%s, deleted: %s, want %s", c, short(got), c.want)
	}
	expectAccepted(t, c, got)

	// Without the Secret nothing is registered any more, and all else is as it was.
	s := fresh()
	s.SecretVersion = ""
	want := c.want
	switch got.Do {
	case Register:
		want = "=deleting"
	case CreateNode:
		want = "Release"
	}
	if got := short(nextOf(s)); got != want {
		t.Errorf("%s, deleted, no Secret: %s, want %s", c, got, want)
	}

	held := map[string]func(*situation){
		"paused":           func(s *situation) { annotated(metal3.PausedAnnotation, "")(s.Host) },
		"not ours to free": func(s *situation) { s.Host.Finalizers = []string{"example.com/other"} },
	}
	if c.state != noNode && !c.state.IsWaiting() {
		held["reserved"] = func(s *situation) { s.Node.Reservation = "conductor-0" }
	}
	for why, hold := range held {
		s := fresh()
		hold(&s)
		if got := nextOf(s); got != (Step{Do: Wait}) {
			t.Errorf("%s, deleted, %s: %s, want Wait", c, why, got)
		}
	}
}
