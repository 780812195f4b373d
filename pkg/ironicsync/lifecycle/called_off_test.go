// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"testing"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// A detachment that is called off between its maintenance and the removal of the node
// leaves no host behind that nothing is done for.
func TestDetachmentCalledOff(t *testing.T) {
	ours := func(n *ironic.Node) {
		n.Maintenance, n.MaintenanceReason = true, "BareMetalHost metal3/host-0 leaves Ironic"
	}
	another := func(n *ironic.Node) {
		n.Maintenance, n.MaintenanceReason = true, "BareMetalHost metal3/host-1 leaves Ironic"
	}
	failed := func(n *ironic.Node) { ours(n); n.Fault = ironic.FaultPowerFailure }
	nodeRemoved := func(h *metal3.BareMetalHost) { MarkNodeRemoved(h) }
	detached := annotated(metal3.DetachedAnnotation, "")
	for name, tt := range map[string]struct {
		options []hostOption
		node    *ironic.Node
		change  func(*situation)
		want    string
	}{
		"called off":             {provisionedHost, nodeIn(ironic.Active, ours), nil, "ClearMaintenance"},
		"wanted still":           {and(provisionedHost, detached), nodeIn(ironic.Active, ours), nil, "DeleteNode"},
		"refused just now":       {and(provisionedHost, withError(metal3.DetachError, "no", 1)), nodeIn(ironic.Active, ours), hold, "Wait:7s"},
		"refused, not tried yet": {and(provisionedHost, withError(metal3.DetachError, "no", 1)), nodeIn(ironic.Active), hold, "Attach"},
		"anything else refused":  {and(provisionedHost, withError(metal3.PowerManagementError, "no", 1)), nodeIn(ironic.Active, ours), hold, "ClearMaintenance"},
		"somebody's maintenance": {provisionedHost, nodeIn(ironic.Active, fault("")), nil, "Wait"},
		"another host's":         {provisionedHost, nodeIn(ironic.Active, another), nil, "Wait"},
		"BMC silent meanwhile":   {provisionedHost, nodeIn(ironic.Active, failed), nil, "Wait"},
		"deleted instead":        {and(provisionedHost, deleted), nodeIn(ironic.Active, ours), nil, "ClearMaintenance"},
		"deleted and detached":   {and(provisionedHost, deleted, detached), nodeIn(ironic.Active, ours), nil, "DeleteNode"},
		"on its way out":         {[]hostOption{deleted, withState(metal3.StateDeleting)}, nodeIn(ironic.Active, ours), nil, "DeleteNode"},
		"removal refused":        {and(provisionedHost, detached, withError(metal3.DetachError, "no", 1)), nodeIn(ironic.Active, ours), hold, "Wait:7s"},
		"not begun":              {and(provisionedHost, nodeRemoved), nodeIn(ironic.Active), nil, "Attach"},
		"not begun, available":   {[]hostOption{withState(metal3.StateAvailable), nodeRemoved}, nodeIn(ironic.Available), nil, "Attach"},
	} {
		s := planned(newHost(tt.options...), tt.node)
		if tt.change != nil {
			tt.change(&s)
		}
		if got := nextOf(s).String(); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
	host := newHost(provisionedHost...)
	SetFailure(host, metal3.DetachError, "no")
	if MarkAttached(host, now); host.Status.Record.Failure != nil {
		t.Errorf("a host that is to stay says that it could not leave: %+v", host.Status.Record.Failure)
	}
}

// TestLeftWhileServiced: a machine that is to run on is not left in the ramdisk of a service.
func TestLeftWhileServiced(t *testing.T) {
	detached, forced := annotated(metal3.DetachedAnnotation, ""), annotated(metal3.DetachedAnnotation, `{"force":true}`)
	others := []hostOption{withState(metal3.StateProvisioned), deleted} // it runs what another user has deployed
	for name, test := range map[string]struct {
		options []hostOption
		node    *ironic.Node
		want    string
	}{
		"under way":                         {and(provisionedHost, servicing(metal3.PreparationRunning), detached), nodeIn(ironic.ServiceWait), "Wait"},
		"under way, forced":                 {and(provisionedHost, servicing(metal3.PreparationRunning), forced), nodeIn(ironic.ServiceWait), "abort"},
		"failed":                            {and(provisionedHost, servicing(metal3.PreparationFailed), detached), nodeIn(ironic.ServiceFail), "LeaveService"},
		"not begun":                         {and(provisionedHost, servicing(metal3.PreparationRequested), detached), nodeIn(ironic.Active), "DeleteNode"},
		"another user's":                    {and(provisionedHost, detached), nodeIn(ironic.ServiceWait), "Wait"},
		"another user's, failed":            {and(provisionedHost, detached), nodeIn(ironic.ServiceFail), "DeleteNode"},
		"another user's, and their machine": {others, nodeIn(ironic.ServiceWait), "Wait"},
		"deleted and detached":              {and(provisionedHost, servicing(metal3.PreparationRunning), detached, deleted), nodeIn(ironic.ServiceWait), "Wait"},
		"deleted and detached, failed":      {and(provisionedHost, servicing(metal3.PreparationFailed), detached, deleted), nodeIn(ironic.ServiceFail), "LeaveService"},
		"deleted and detached, forced":      {and(provisionedHost, servicing(metal3.PreparationRunning), forced, deleted), nodeIn(ironic.ServiceWait), "abort"},
		"another user's, external":          {[]hostOption{withState(metal3.StateExternallyProvisioned), deleted}, nodeIn(ironic.ServiceWait), "abort"},
	} {
		if got := nextOf(planned(newHost(test.options...), test.node)).String(); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}
