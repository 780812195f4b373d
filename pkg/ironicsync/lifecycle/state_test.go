// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"strings"
	"testing"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// storedStates is every state that a host can have stored, in the columns of stateTable.
var storedStates = map[string]metal3.ProvisioningState{
	"none": metal3.StateNone, "unm": metal3.StateUnmanaged, "reg": metal3.StateRegistering,
	"ins": metal3.StateInspecting, "mat": metal3.StateMatchProfile, "pre": metal3.StatePreparing,
	"rdy": metal3.StateReady, "ava": metal3.StateAvailable, "pvg": metal3.StateProvisioning,
	"pvd": metal3.StateProvisioned, "ext": metal3.StateExternallyProvisioned,
	"dpv": metal3.StateDeprovisioning, "off": metal3.StatePoweringOffBeforeDelete, "del": metal3.StateDeleting,
}

// stateTable: the state that an observation leaves a host in, by what Ironic says
// (rows) and by what the host had before (columns).
const stateTable = `
                           none unm reg ins mat pre rdy ava pvg pvd ext dpv off del
enroll                     reg  reg reg reg reg reg reg reg pvg pvd ext dpv off del
verifying                  reg  reg reg reg reg reg reg reg pvg pvd ext dpv off del
manageable                 reg  reg reg ins mat pre rdy ava pvg pvd ext dpv off del
available                  reg  reg reg ins mat pre rdy ava pvg pvd ext dpv off del
active                     reg  reg reg ins mat pre rdy ava pvg pvd ext dpv off del
deploying                  pvg  pvg pvg pvg pvg pvg pvg pvg pvg pvd ext dpv off del
wait call-back             pvg  pvg pvg pvg pvg pvg pvg pvg pvg pvd ext dpv off del
deploy failed              pvg  pvg pvg pvg pvg pvg pvg pvg pvg pvd ext dpv off del
deploy hold                pvg  pvg pvg pvg pvg pvg pvg pvg pvg pvd ext dpv off del
deleting                   dpv  dpv dpv dpv dpv dpv dpv dpv pvg pvd ext dpv off del
error                      dpv  dpv dpv dpv dpv dpv dpv dpv pvg pvd ext dpv off del
cleaning                   pre  pre pre pre pre pre pre pre pvg pvd ext dpv off del
clean wait                 pre  pre pre pre pre pre pre pre pvg pvd ext dpv off del
clean failed               pre  pre pre pre pre pre pre pre pvg pvd ext dpv off del
clean hold                 pre  pre pre pre pre pre pre pre pvg pvd ext dpv off del
inspecting                 ins  ins ins ins ins ins ins ins pvg pvd ext dpv off del
inspect wait               ins  ins ins ins ins ins ins ins pvg pvd ext dpv off del
inspect failed             ins  ins ins ins ins ins ins ins pvg pvd ext dpv off del
adopting                   reg  reg reg ins mat pre rdy ava pvg pvd ext dpv off del
adopt failed               reg  reg reg ins mat pre rdy ava pvg pvd ext dpv off del
rescue                     reg  reg reg ins mat pre rdy ava pvg pvd ext dpv off del
rescuing                   reg  reg reg ins mat pre rdy ava pvg pvd ext dpv off del
rescue wait                reg  reg reg ins mat pre rdy ava pvg pvd ext dpv off del
rescue failed              reg  reg reg ins mat pre rdy ava pvg pvd ext dpv off del
unrescuing                 reg  reg reg ins mat pre rdy ava pvg pvd ext dpv off del
unrescue failed            reg  reg reg ins mat pre rdy ava pvg pvd ext dpv off del
servicing                  reg  reg reg ins mat pre rdy ava pvg pvd ext dpv off del
service wait               reg  reg reg ins mat pre rdy ava pvg pvd ext dpv off del
service failed             reg  reg reg ins mat pre rdy ava pvg pvd ext dpv off del
service hold               reg  reg reg ins mat pre rdy ava pvg pvd ext dpv off del
a state of tomorrow        reg  reg reg ins mat pre rdy ava pvg pvd ext dpv off del
`

// stateColumn is where the columns of stateTable begin.
const stateColumn = 27

func TestStateOf(t *testing.T) {
	lines := strings.Split(strings.Trim(stateTable, "\n"), "\n")
	columns := strings.Fields(lines[0])
	if len(columns) != len(storedStates) {
		t.Fatalf("the table has %d columns for %d stored states", len(columns), len(storedStates))
	}
	tested := map[ironic.ProvisionState]bool{}
	for _, line := range lines[1:] {
		what := strings.TrimSpace(line[:stateColumn])
		node := &ironic.Node{Address: ownBMC}
		node.ProvisionState = ironic.ProvisionState(what)
		tested[node.ProvisionState] = true
		for i, cell := range strings.Fields(line[stateColumn:]) {
			before, ok := storedStates[columns[i]]
			if !ok {
				t.Fatalf("column %q is no stored state", columns[i])
			}
			want, ok := storedStates[cell]
			if !ok {
				t.Fatalf("%s, %s: %q is no state", what, columns[i], cell)
			}
			if got := stateOf(newHost(withState(before)), NodeFromIronic(node)); got != want {
				t.Errorf("Ironic says %s, stored was %q: state is %q, want %q", what, before, got, want)
			}
		}
	}
	all := constantsOf(t, "../../ironic", "ProvisionState")
	for _, release := range releases {
		all = append(all, machineOf(release).States()...)
	}
	for _, s := range all {
		if !tested[ironic.ProvisionState(s)] {
			t.Errorf("the table has no row for %q", s)
		}
	}
}
