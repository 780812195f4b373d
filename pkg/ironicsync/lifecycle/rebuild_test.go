// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// provisionedBy is a host that this server has provisioned as its spec says, and its node.
func provisionedBy(options ...hostOption) (*metal3.BareMetalHost, *ironic.Node) {
	h := newHost(wantsImage("http://a"))
	for _, state := range []metal3.ProvisioningState{metal3.StatePreparing, metal3.StateAvailable, metal3.StateProvisioning, metal3.StateProvisioned} {
		enter(h, nodeIn(ironic.Active, func(n *ironic.Node) { n.InstanceUUID = recordedInstance(h) }), Step{Do: SetState, State: state}, now)
	}
	for _, o := range options {
		o(h)
	}
	changed := now.Add(-time.Hour)
	return h, nodeIn(ironic.Active, func(n *ironic.Node) {
		n.UUID, n.InstanceUUID, n.ProvisionUpdatedAt, n.AnsweredAt = h.Status.Provisioning.ID, recordedInstance(h), &changed, now
	})
}

// also is all of the options.
func also(options ...hostOption) hostOption {
	return func(h *metal3.BareMetalHost) {
		for _, o := range options {
			o(h)
		}
	}
}

func TestRequestRebuild(t *testing.T) {
	for name, test := range map[string]struct {
		host hostOption
		node func(*ironic.Node)
		want string // in the refusal
	}{
		"provisioned":            {},
		"another image":          {host: wantsImage("http://b"), want: "put that back"},
		"another checksum":       {host: func(h *metal3.BareMetalHost) { h.Spec.Image.Checksum = "b" }, want: "put that back"},
		"no image":               {host: func(h *metal3.BareMetalHost) { h.Spec.Image = nil }, want: "put that back"},
		"a procedure":            {host: func(h *metal3.BareMetalHost) { h.Spec.CustomDeploy = &metal3.CustomDeploy{Method: "x"} }, want: "put that back"},
		"another disk":           {host: func(h *metal3.BareMetalHost) { h.Spec.RootDeviceHints = &metal3.RootDeviceHints{Model: "b"} }, want: "root device hints"},
		"off":                    {host: func(h *metal3.BareMetalHost) { h.Spec.Online = false }, want: "spec.online"},
		"kept off":               {host: annotated(fenceKey, ""), want: fenceKey},
		"never kept off":         {host: also(annotated(fenceKey, ""), func(h *metal3.BareMetalHost) { h.Spec.DisablePowerOff = true })},
		"available":              {host: withState(metal3.StateAvailable), want: "available"},
		"provisioning":           {host: withState(metal3.StateProvisioning), want: "provisioning"},
		"externally provisioned": {host: withState(metal3.StateExternallyProvisioned), want: "externally provisioned"},
		"paused":                 {host: annotated(metal3.PausedAnnotation, ""), want: "paused"},
		"to be detached":         {host: annotated(metal3.DetachedAnnotation, ""), want: "detached"},
		"held":                   {host: func(h *metal3.BareMetalHost) { SetHold(h, Step{Reason: metal3.RestoredReason, Message: "a backup"}) }, want: "a backup"},
		"another deployment":     {node: func(n *ironic.Node) { n.InstanceUUID = "b" }, want: "another user of Ironic has deployed"},
		"another BMC":            {node: func(n *ironic.Node) { n.Address = ironic.Address{IPMIAddress: "192.0.2.9"} }, want: "left alone"},
		"nothing recorded": {host: func(h *metal3.BareMetalHost) {
			h.Status.Provisioning.Image, h.Spec.Image = metal3.Image{}, nil
		}, want: "not recorded"},
		"a live ISO": {host: func(h *metal3.BareMetalHost) {
			live := "live-iso"
			h.Spec.Image.DiskFormat, h.Status.Provisioning.Image.DiskFormat = (*metal3.DiskFormat)(&live), (*metal3.DiskFormat)(&live)
		}, want: "live ISO"},
		"maintenance": {node: func(n *ironic.Node) { n.Maintenance, n.MaintenanceReason = true, "a disk" }, want: "a disk"},
		"servicing":   {node: func(n *ironic.Node) { n.ProvisionState = ironic.Servicing }, want: "servicing"},
		"rescue":      {node: func(n *ironic.Node) { n.ProvisionState = ironic.Rescue }, want: "rescue"},
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
			err := RequestRebuild(host, node, now)
			switch {
			case test.want == "" && (err != nil || host.Status.Provisioning.State != metal3.StateProvisioning || host.Status.Record.Deployment.InstanceUUID != before.Status.Record.Deployment.InstanceUUID):
				t.Errorf("%v: %+v", err, host.Status)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || host.Status.Provisioning.State != before.Status.Provisioning.State):
				t.Errorf("%v, want %q; the host is %s", err, test.want, host.Status.Provisioning.State)
			}
		})
	}
}

// A rebuild is asked for until Ironic has begun it, and never after that, whoever plans and from
// whatever is recorded.
func TestNextOfRebuild(t *testing.T) {
	later := now.Add(-time.Minute)
	begun := func(n *ironic.Node) { n.ProvisionUpdatedAt = &later }
	in := func(state ironic.ProvisionState) func(*ironic.Node) {
		return func(n *ironic.Node) { n.ProvisionState = state; begun(n) }
	}
	const force = `{"mode":"hard","force":true}`
	askedTwice := func(h *metal3.BareMetalHost) {
		asked(ironic.TargetRebuild, ironic.Active)(h)
		h.Status.Record.Asked.NodeUUID, h.Status.Record.Asked.Times = h.Status.Provisioning.ID, 2
	}
	rebooting := func(h *metal3.BareMetalHost) {
		annotated(metal3.RebootAnnotation, force)(h)
		Rebooted(&h.Status, ironic.TargetReboot, h.Annotations)
	}
	rebooted := func(h *metal3.BareMetalHost) { rebooting(h); h.Status.Record.Reboot = nil }
	for name, test := range map[string]struct {
		host hostOption
		node func(*ironic.Node)
		want string
		gone bool
	}{
		"requested":                      {want: "Rebuild"},
		"asked for, without an answer":   {host: askedTwice, want: "Wait:4m0s"},
		"as recorded":                    {node: func(n *ironic.Node) { n.ProvisionUpdatedAt, n.AnsweredAt = nil, time.Time{} }, want: "Rebuild"},
		"changed within the same second": {node: func(n *ironic.Node) { n.AnsweredAt = n.ProvisionUpdatedAt.Add(time.Second) }, want: "Wait:2s"},
		"begun":                          {node: in(ironic.Deploying), want: "Wait"},
		"waits for the ramdisk":          {node: in(ironic.DeployWait), want: "Wait"},
		"ended":                          {node: begun, want: "=provisioned"},
		"ended, the first change of all": {host: func(h *metal3.BareMetalHost) {
			h.Status.Record.Deployment.Rebuild.StateChangedAt = nil
		}, node: begun, want: "=provisioned"},
		"failed":                          {node: in(ironic.DeployFail), want: "Rebuild"},
		"failed, and was asked for twice": {host: askedTwice, node: in(ironic.DeployFail), want: "Wait:4m0s"},
		"failed, and its node cannot be undeployed": {host: askedTwice, node: in(ironic.Error), want: "Wait:4m0s"},
		"changed by a clock that is an hour ahead":  {node: func(n *ironic.Node) { n.AnsweredAt = n.ProvisionUpdatedAt.Add(-time.Hour) }, want: "Rebuild"},
		"changed by a clock that is a second ahead": {node: func(n *ironic.Node) { n.AnsweredAt = n.ProvisionUpdatedAt.Add(-time.Second) }, want: "Wait:2s"},
		"its ramdisk is silent": {host: func(h *metal3.BareMetalHost) {
			h.Status.Record.Failure = &metal3.Failure{Cause: metal3.CallbackTimeout, Message: "silent"}
		}, node: in(ironic.DeployWait), want: "Wait"},
		"its ramdisk is rebooted":  {host: annotated(metal3.RebootAnnotation, force), node: in(ironic.DeployWait), want: "rebooting"},
		"its ramdisk is rebooting": {host: rebooting, node: in(ironic.DeployWait), want: "Wait"},
		"its ramdisk may be rebooting": {host: also(annotated(metal3.RebootAnnotation, force), askedPower(ironic.TargetReboot, 1), func(h *metal3.BareMetalHost) {
			h.Status.Record.AskedPower.NodeUUID = h.Status.Provisioning.ID
		}), node: in(ironic.DeployWait), want: "Wait:4m0s"},
		"its ramdisk has been rebooted": {host: rebooted, node: in(ironic.DeployWait), want: "ClearRebootRequest"},
		"its ramdisk has been rebooted, and the request is gone": {host: also(rebooted, func(h *metal3.BareMetalHost) {
			delete(h.Annotations, metal3.RebootAnnotation)
		}), node: in(ironic.DeployWait), want: "ForgetReboots"},
		"its ramdisk is rebooted again": {host: also(rebooted, annotated(metal3.RebootAnnotation, `{"force":true}`)), node: in(ironic.DeployWait), want: "ForgetReboots"},
		"kept off":                      {host: annotated(fenceKey, ""), want: "soft-power-off"},
		"kept off, and off":             {host: annotated(fenceKey, ""), node: off, want: "Wait"},
		"kept off by force":             {host: annotated(fenceKey, `{"mode":"hard","force":true}`), want: "power-off"},
		"kept off after a failure":      {host: annotated(fenceKey, ""), node: func(n *ironic.Node) { in(ironic.DeployFail)(n); off(n) }, want: "Wait"},
		"kept off when it has ended":    {host: annotated(fenceKey, ""), node: begun, want: "=provisioned"},
		"kept off, not wanted any more": {host: also(annotated(fenceKey, ""), wantsImage("http://b")), node: in(ironic.DeployFail), want: "=deprovisioning"},
		"never kept off": {host: also(annotated(fenceKey, ""), func(h *metal3.BareMetalHost) {
			h.Spec.DisablePowerOff = true
		}), want: "Rebuild"},
		"not wanted any more":           {host: wantsImage("http://b"), want: "=provisioned"},
		"another image meanwhile":       {host: wantsImage("http://b"), node: in(ironic.DeployWait), want: "=deprovisioning"},
		"another image after a failure": {host: wantsImage("http://b"), node: in(ironic.DeployFail), want: "=deprovisioning"},
		"no image meanwhile":            {host: func(h *metal3.BareMetalHost) { h.Spec.Image = nil }, node: in(ironic.Deploying), want: "=deprovisioning"},
		"paused":                        {host: annotated(metal3.PausedAnnotation, ""), want: "Wait"},
		"maintenance":                   {node: func(n *ironic.Node) { n.Maintenance = true }, want: "Wait"},
		"serviced by somebody":          {node: in(ironic.Servicing), want: "Wait"},
		"lost by Ironic":                {node: in(ironic.Manageable), want: "=provisioned", gone: true},
		"restored by Ironic": {node: func(n *ironic.Node) {
			before := n.ProvisionUpdatedAt.Add(-time.Hour)
			n.ProvisionUpdatedAt = &before
		}, want: "=provisioned", gone: true},
		"undeployed by somebody": {node: in(ironic.Available), want: "=provisioned", gone: true},
		"deployed by somebody":   {node: func(n *ironic.Node) { n.InstanceUUID = "b" }, want: "Hold"},
		"deleted": {host: func(h *metal3.BareMetalHost) {
			h.DeletionTimestamp = &metav1.Time{Time: now}
		}, want: "=deprovisioning"},
	} {
		t.Run(name, func(t *testing.T) {
			host, node := provisionedBy()
			if err := RequestRebuild(host, node, now); err != nil {
				t.Fatal(err)
			}
			if test.host != nil {
				test.host(host)
			}
			if test.node != nil {
				test.node(node)
			}
			step := nextOf(planned(host, node))
			if got := step.String(); got != test.want {
				t.Errorf("the next step is %s, want %s", got, test.want)
			}
			if step.Do != SetState {
				return
			}
			enter(host, node, step, now)
			if host.Status.Record.Deployment == nil || host.Status.Record.Deployment.Rebuild != nil {
				t.Errorf("in the state %s, the deployment is %+v", step.State, host.Status.Record.Deployment)
			}
			if gone := goneDeployment(&host.Status) != nil; gone != test.gone {
				t.Errorf("in the state %s, the deployment is gone: %t, want %t", step.State, gone, test.gone)
			}
			if test.gone {
				if next := nextOf(planned(host, node)); next.Do != Hold || next.Reason != metal3.DeploymentGoneReason || !strings.Contains(next.Message, "while the image was being written again") {
					t.Errorf("then %s: %s", next, next.Message)
				}
			}
		})
	}
}

// TestRebuildAfterService: a rebuild that waits is still to be done after somebody has serviced the machine, and one that was asked for
// has ended when the node is active again.
func TestRebuildAfterService(t *testing.T) {
	for name, test := range map[string]struct {
		asked   bool
		states  []ironic.ProvisionState
		refused bool
		want    string
	}{
		"serviced":       {states: []ironic.ProvisionState{ironic.Servicing, ironic.ServiceWait, ironic.Active}, want: "Rebuild"},
		"changed unseen": {states: []ironic.ProvisionState{ironic.Active}, want: "=provisioned"},
		"rescued":        {states: []ironic.ProvisionState{ironic.Rescue, ironic.Unrescuing, ironic.Active}, want: "Rebuild"},
		"rebuilt":        {asked: true, states: []ironic.ProvisionState{ironic.Deploying, ironic.DeployWait, ironic.Active}, want: "=provisioned"},
		"rebuilt unseen": {asked: true, states: []ironic.ProvisionState{ironic.Active}, want: "=provisioned"},
		"rebuilt, then serviced, while nothing was planned": {states: []ironic.ProvisionState{ironic.Deploying, ironic.Active, ironic.Servicing, ironic.Active}, want: "=provisioned"},
		"refused, for want of a worker":                     {asked: true, states: []ironic.ProvisionState{ironic.Active}, refused: true, want: "Rebuild"},
		"rebuilt, not asked":                                {states: []ironic.ProvisionState{ironic.Deploying, ironic.Active}, want: "=provisioned"},
	} {
		host, node := provisionedBy()
		host = observe(host, node)
		if err := RequestRebuild(host, node, now); err != nil {
			t.Fatal(err)
		}
		if test.asked {
			Ask(host, Step{Do: Rebuild}, false, 0, now)
		}
		at := *node.ProvisionUpdatedAt
		for _, state := range test.states {
			at = at.Add(time.Minute)
			changed := at
			node.ProvisionState, node.ProvisionUpdatedAt = state, &changed
			if test.refused {
				node.LastError = "No free conductor workers available"
			}
			host = observe(host, node)
		}
		if got := nextOf(planned(host, node)).String(); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}
