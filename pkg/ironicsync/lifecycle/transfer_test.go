// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

func TestRequestTransfer(t *testing.T) {
	for name, test := range map[string]struct {
		host hostOption
		node func(*ironic.Node)
		want string // in the refusal
	}{
		"provisioned": {},
		"off":         {host: func(h *metal3.BareMetalHost) { h.Spec.Online = false }, node: func(n *ironic.Node) { n.PowerState = ironic.PowerOff }},
		"externally provisioned": {host: func(h *metal3.BareMetalHost) {
			withState(metal3.StateExternallyProvisioned)(h)
			externallyProvisioned(h)
		}},
		"available":          {host: withState(metal3.StateAvailable), node: func(n *ironic.Node) { n.ProvisionState = ironic.Manageable }},
		"available, cleaned": {host: withState(metal3.StateAvailable), node: func(n *ironic.Node) { n.ProvisionState = ironic.Available }},
		"already requested":  {host: func(h *metal3.BareMetalHost) { h.Status.Record.Transfer = &metal3.Transfer{To: "room-b"} }},
		"to yet another":     {host: func(h *metal3.BareMetalHost) { h.Status.Record.Transfer = &metal3.Transfer{To: "room-c"} }, want: "call that off first"},
		"provisioning":       {host: withState(metal3.StateProvisioning), want: "it is provisioning"},
		"inspecting":         {host: withState(metal3.StateInspecting), want: "it is inspecting"},
		"preparing":          {host: withState(metal3.StatePreparing), want: "it is preparing"},
		"paused":             {host: annotated(metal3.PausedAnnotation, ""), want: "paused"},
		"to be detached":     {host: annotated(metal3.DetachedAnnotation, ""), want: "detached"},
		"held":               {host: func(h *metal3.BareMetalHost) { SetHold(h, Step{Reason: metal3.RestoredReason, Message: "a backup"}) }, want: "a backup"},
		"with an error": {host: func(h *metal3.BareMetalHost) {
			h.Status.Record.Error = &metal3.HostError{Type: metal3.PowerManagementError, Message: "no power"}
		}, want: "no power"},
		"asked without an answer": {host: func(h *metal3.BareMetalHost) { h.Status.Record.Asked = &metal3.AskedChange{Target: "deleted"} }, want: "got no answer"},
		"power being cut":         {host: func(h *metal3.BareMetalHost) { h.Status.Record.PowerCut = &metal3.PowerCut{} }, want: "being cut"},
		"clean requested":         {host: func(h *metal3.BareMetalHost) { h.Status.Record.RequestedClean = &metal3.RequestedClean{} }, want: "a clean was requested"},
		"service requested": {host: func(h *metal3.BareMetalHost) {
			h.Status.Record.Servicing = &metal3.Servicing{Preparation: metal3.Preparation{NodeUUID: h.Status.Provisioning.ID}}
		}, want: "status.record.servicing"},
		"BMC not reached since a move": {host: func(h *metal3.BareMetalHost) {
			h.Status.Record.Error = &metal3.HostError{Type: metal3.ProvisionedRegistrationError, Message: "no answer"}
		}, node: func(n *ironic.Node) { n.ProvisionState = ironic.Enroll }},
		"BMC never reached":        {host: withState(metal3.StateRegistering), node: func(n *ironic.Node) { n.ProvisionState = ironic.Enroll }},
		"BMC being reached":        {host: withState(metal3.StateRegistering), node: func(n *ironic.Node) { n.ProvisionState = ironic.Verifying }, want: "it is registering"},
		"another deployment":       {node: func(n *ironic.Node) { n.InstanceUUID = "b" }, want: "another user of Ironic has deployed"},
		"another BMC":              {node: func(n *ironic.Node) { n.Address = ironic.Address{IPMIAddress: "192.0.2.9"} }, want: "left alone"},
		"maintenance":              {node: func(n *ironic.Node) { n.Maintenance, n.MaintenanceReason = true, "a disk" }, want: "a disk"},
		"servicing":                {node: func(n *ironic.Node) { n.ProvisionState = ironic.Servicing }, want: "servicing"},
		"rescue":                   {node: func(n *ironic.Node) { n.ProvisionState = ironic.Rescue }, want: "rescue"},
		"being switched":           {node: func(n *ironic.Node) { n.TargetPowerState = ironic.TargetPowerOff }, want: "power off"},
		"locked":                   {node: func(n *ironic.Node) { n.Reservation = "conductor" }, want: "still working"},
		"available, not adoptable": {host: withState(metal3.StateAvailable), node: func(n *ironic.Node) { n.ProvisionState = ironic.CleanFail }, want: "clean failed"},
	} {
		t.Run(name, func(t *testing.T) {
			host, node := provisionedBy()
			if test.host != nil {
				test.host(host)
			}
			if test.node != nil {
				test.node(node)
			}
			before := host.DeepCopy()
			err := RequestTransfer(host, node, "room-b", now)
			switch {
			case test.want != "":
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("%v, want %q", err, test.want)
				}
				if diff := cmp.Diff(before, host); diff != "" {
					t.Errorf("changed by a refusal: %s", diff)
				}
			case err != nil:
				t.Error(err)
			case host.Status.Record.Transfer == nil || host.Status.Record.Transfer.To != "room-b" || host.Status.Record.Ironic != "":
				t.Errorf("recorded: %+v", host.Status.Record)
			}
		})
	}
}

// TestNextOfTransfer: a host leaves when nothing is at work on it, and is in the other Ironic only when its node is gone.
func TestNextOfTransfer(t *testing.T) {
	moved := func(h *metal3.BareMetalHost) {
		h.Status.Record.Transfer = &metal3.Transfer{To: "room-b", RequestedAt: metav1.NewTime(now)}
	}
	ours := func(n *ironic.Node) {
		n.Maintenance, n.MaintenanceReason = true, "BareMetalHost metal3/host-0 leaves Ironic"
	}
	locked := func(n *ironic.Node) { n.Reservation = "conductor" }
	switching := func(n *ironic.Node) { n.TargetPowerState, n.Reservation = ironic.TargetPowerOff, "conductor" }
	for name, tt := range map[string]struct {
		options []hostOption
		node    *ironic.Node
		want    string
	}{
		"provisioned":                  {and(provisionedHost, moved), nodeIn(ironic.Active), "LeaveIronic"},
		"available":                    {[]hostOption{withState(metal3.StateAvailable), moved}, nodeIn(ironic.Manageable), "LeaveIronic"},
		"available, cleaned":           {[]hostOption{withState(metal3.StateAvailable), moved}, nodeIn(ironic.Available), "LeaveIronic"},
		"about to leave":               {and(provisionedHost, moved), nodeIn(ironic.Active, ours), "LeaveIronic"},
		"refused just now":             {and(provisionedHost, moved, withError(metal3.DetachError, "no", 1)), nodeIn(ironic.Active, ours), "LeaveIronic"},
		"gone from Ironic":             {and(provisionedHost, moved), nil, "ChangeIronic"},
		"locked":                       {and(provisionedHost, moved), nodeIn(ironic.Active, locked), "Wait"},
		"switched":                     {and(provisionedHost, moved), nodeIn(ironic.Active, switching), "Wait"},
		"somebody's maintenance":       {and(provisionedHost, moved), nodeIn(ironic.Active, fault("")), "Wait"},
		"being cleaned by somebody":    {[]hostOption{withState(metal3.StatePreparing), moved}, nodeIn(ironic.Cleaning), "Wait"},
		"undeployed by somebody":       {and(provisionedHost, moved), nodeIn(ironic.Deleting), "Wait"},
		"lost while registering again": {[]hostOption{withState(metal3.StateRegistering), moved}, nil, "ChangeIronic"},
		"BMC never reached":            {[]hostOption{withState(metal3.StateRegistering), moved}, nodeIn(ironic.Enroll), "LeaveIronic"},
		"BMC being reached":            {[]hostOption{withState(metal3.StateRegistering), moved}, nodeIn(ironic.Verifying), "Wait"},
		"BMC not reached since a move": {and(provisionedHost, moved), nodeIn(ironic.Enroll), "LeaveIronic"},
		"paused":                       {and(provisionedHost, moved, annotated(metal3.PausedAnnotation, "")), nodeIn(ironic.Active), "Wait"},
		"detached meanwhile":           {and(provisionedHost, moved, annotated(metal3.DetachedAnnotation, "")), nodeIn(ironic.Active), "DeleteNode"},
		"called off":                   {provisionedHost, nodeIn(ironic.Active, ours), "ClearMaintenance"},
		"called off too late":          {provisionedHost, nil, "CreateNode"},
		"deleted meanwhile":            {and(provisionedHost, moved, deleted), nodeIn(ironic.Active, ours), "ClearMaintenance"},
	} {
		if got := nextOf(planned(newHost(tt.options...), tt.node)).String(); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

// TestMarkTransferred: what is about the machine stays, and what is about the former node goes. The removal of the node is no loss
// that is reported.
func TestMarkTransferred(t *testing.T) {
	host, node := provisionedBy()
	host.Status, _ = Observe(host, Observation{Node: node}, now)
	if err := RequestTransfer(host, node, "room-b", now); err != nil {
		t.Fatal(err)
	}
	SetFailure(host, metal3.DetachError, "it does not answer")
	registration, deployment := host.Status.Record.Registration, host.Status.Record.Deployment.DeepCopy()
	host.Status, _ = Observe(host, Observation{}, now)
	if got := host.Status.Record.Registration; got == nil || *got != *registration {
		t.Errorf("the node that was removed is reported as lost: %+v", got)
	}
	before := host.DeepCopy()
	host.Status.Record.RegisteredWith.NodeRemoved = false // another client of Ironic has removed the node
	MarkTransferred(host, now.Add(time.Minute))
	if IsNodeExpected(host) {
		t.Error("the new Ironic is expected to have a node of the host")
	}
	Render(host, now.Add(time.Minute))
	after := &host.Status
	if after.Record.Ironic != "room-b" || after.Record.Transfer != nil || after.Record.Registration.Reason != metal3.NodeLostReason || after.Record.Error != nil || after.Record.Failure != nil || after.Ironic != nil {
		t.Errorf("recorded: %+v", after.Record)
	}
	if d := after.Record.Deployment; !d.MayAdopt || d.ActiveSince != nil || d.InstanceUUID != deployment.InstanceUUID || d.NodeUUID != deployment.NodeUUID {
		t.Errorf("the deployment is %+v", d)
	}
	if diff := cmp.Diff(before.Status.Provisioning, after.Provisioning); diff != "" {
		t.Error(diff)
	}
}

func TestCallOffTransfer(t *testing.T) {
	host, node := provisionedBy()
	if CallOffTransfer(host, now) {
		t.Error("a host was to be moved that nobody wanted to move")
	}
	if err := RequestTransfer(host, node, "room-b", now); err != nil {
		t.Fatal(err)
	}
	SetFailure(host, metal3.DetachError, "it does not answer")
	Render(host, now)
	if !CallOffTransfer(host, now) || host.Status.Record.Transfer != nil || host.Status.ErrorMessage != "" || host.Status.ErrorCount != 0 {
		t.Errorf("after the call: %+v, %q", host.Status.Record.Transfer, host.Status.ErrorMessage)
	}
}
