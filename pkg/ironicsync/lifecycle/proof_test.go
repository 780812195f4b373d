// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// next plans for a host until what is held is recorded, and returns the step that is left.
func next(s situation) (Step, *metal3.Hold) {
	step := nextOf(s)
	if step.Do == Hold {
		s.Host = s.Host.DeepCopy()
		SetHold(s.Host, step)
		step = nextOf(s)
	}
	return step, s.Host.Status.Record.Hold
}

// TestHeld: each way to harm a machine that is not the host's, or runs something else.
func TestHeld(t *testing.T) {
	const own, another = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
	deployed := func(h *metal3.BareMetalHost) {
		h.Status.Record.Deployment = &metal3.Deployment{NodeUUID: "u", InstanceUUID: own}
	}
	provisioned := []hostOption{withState(metal3.StateProvisioned), runs("http://images/v1"), wantsImage("http://images/v2"), deployed}
	deprovisioning := []hostOption{withState(metal3.StateDeprovisioning), runs("http://images/v1"), deployed, func(h *metal3.BareMetalHost) {
		h.Status.OperationHistory.Deprovision.Start = WholeSeconds(now)
	}}
	instance := func(id string) func(*ironic.Node) { return func(n *ironic.Node) { n.InstanceUUID = id } }
	marked := func(host, cluster ironic.Text) func(*ironic.Node) {
		return func(n *ironic.Node) { n.Marks = ironic.Marks{Host: host, Cluster: cluster} }
	}
	at := func(address ironic.Text) func(*ironic.Node) {
		return func(n *ironic.Node) { n.Address = ironic.Address{IPMIAddress: address} }
	}
	heldFor := func(reason string) hostOption {
		return func(h *metal3.BareMetalHost) { SetHold(h, Step{Reason: reason, Message: "recorded earlier"}) }
	}
	heldForElsewhere := func(h *metal3.BareMetalHost) {
		SetHold(h, Step{Reason: metal3.BMCInUseReason, Message: "in the words of another version", Elsewhere: true})
	}
	maintained := func(reason string) func(*ironic.Node) {
		return func(n *ironic.Node) { n.Maintenance, n.MaintenanceReason = true, reason }
	}
	external := []hostOption{withState(metal3.StateExternallyProvisioned), deployed}
	noLongerExternal := []hostOption{withState(metal3.StateExternallyProvisioned), deployed, func(h *metal3.BareMetalHost) {
		Enter(h, Step{Do: SetState, State: metal3.StateProvisioned}, now)
	}}
	restoredOnce := func(s *situation) { s.RestoredAt = 2 }
	seenAfterRestore := func(count int64) hostOption {
		return func(h *metal3.BareMetalHost) { h.Status.Record.AsOfRestore = count }
	}
	noCleaning := func(h *metal3.BareMetalHost) { h.Spec.AutomatedCleaningMode = metal3.CleaningModeDisabled }
	then := now.Add(-time.Hour).Truncate(time.Microsecond)
	activeSince := func(at time.Time) hostOption {
		return func(h *metal3.BareMetalHost) {
			h.Status.Record.Deployment.ActiveSince = ptr.To(metav1.NewMicroTime(at))
		}
	}
	since := func(at time.Time) func(*ironic.Node) {
		return func(n *ironic.Node) { n.ProvisionUpdatedAt = &at }
	}
	nameless := func(options ...hostOption) []hostOption { // nothing has an instance_uuid
		return append(options, func(h *metal3.BareMetalHost) { h.Status.Record.Deployment = &metal3.Deployment{NodeUUID: "u"} })
	}
	for name, test := range map[string]struct {
		host []hostOption
		node *ironic.Node
		with func(*situation)
		want string
		held string
	}{
		"without an identity, another image is wanted": {host: nameless(provisioned...), node: nodeIn(ironic.Active, instance("-")), want: "Wait", held: metal3.AnotherDeploymentReason},
		"without an identity, active ever since":       {host: append(nameless(provisioned...), activeSince(then)), node: nodeIn(ironic.Active, instance("-"), since(then)), want: "=deprovisioning"},
		"without an identity, active anew":             {host: append(nameless(provisioned...), activeSince(then)), node: nodeIn(ironic.Active, instance("-"), since(then.Add(time.Hour))), want: "Wait", held: metal3.AnotherDeploymentReason},
		"without an identity, deleted":                 {host: nameless(append(provisioned[:4:4], deleted)...), node: nodeIn(ironic.Active, instance("-")), want: "Wait", held: metal3.AnotherDeploymentReason},
		"without an identity, deprovisioned":           {host: nameless(deprovisioning...), node: nodeIn(ironic.Active, instance("-")), want: "Wait", held: metal3.AnotherDeploymentReason},
		"without an identity, to be off":               {host: nameless(withState(metal3.StateExternallyProvisioned), externallyProvisioned, offline), node: nodeIn(ironic.Active, instance("-")), want: "soft-power-off"},
		"another image is wanted":                      {host: provisioned, node: nodeIn(ironic.Active, instance(own)), want: "=deprovisioning"},
		"and something else runs":                      {host: provisioned, node: nodeIn(ironic.Active, instance(another)), want: "Wait", held: metal3.AnotherDeploymentReason},
		"and something that nobody has named runs":     {host: provisioned, node: nodeIn(ironic.Active, instance("-")), want: "Wait", held: metal3.AnotherDeploymentReason},
		"deprovisioned":                                {host: deprovisioning, node: nodeIn(ironic.Active, instance(own)), want: "deleted"},
		"deprovisioned, of a backup":                   {host: deprovisioning, node: nodeIn(ironic.Active, instance(another)), want: "Wait", held: metal3.AnotherDeploymentReason},
		"deprovisioned, and nothing is recorded":       {host: append(deprovisioning[:2:2], deprovisioning[3]), node: nodeIn(ironic.Active, instance(another)), want: "Wait", held: metal3.AnotherDeploymentReason},
		"deprovisioned, Ironic is at it":               {host: deprovisioning, node: nodeIn(ironic.Error), want: "deleted"},
		"deprovisioned, and wanted again":              {host: append(deprovisioning[:len(deprovisioning):len(deprovisioning)], wantsImage("http://images/v1")), node: nodeIn(ironic.Active, instance(own)), want: "=provisioned"},
		"deleted, of a backup":                         {host: append(provisioned[:4:4], deleted), node: nodeIn(ironic.Active, instance(another)), want: "Wait", held: metal3.AnotherDeploymentReason},
		"deprovisioned, not cleaned":                   {host: append(deprovisioning[:4:4], noCleaning), node: nodeIn(ironic.Active, instance(own)), want: "SetCleaning"},
		"to be provisioned, not cleaned":               {host: []hostOption{withState(metal3.StateProvisioning), attempting("http://images/v1"), wantsImage("http://images/v1"), noCleaning}, node: nodeIn(ironic.Manageable), want: "SetCleaning"},
		"deprovisioned, not cleaned, Ironic knows":     {host: append(deprovisioning[:4:4], noCleaning), node: nodeIn(ironic.Active, instance(own), func(n *ironic.Node) { n.AutomatedClean = "false" }), want: "deleted"},
		"deprovisioned, not cleaned, being deployed":   {host: append(deprovisioning[:4:4], noCleaning), node: nodeIn(ironic.DeployWait, instance(own)), want: "Wait"},
		"to be provisioned, reserved by somebody":      {host: []hostOption{withState(metal3.StateProvisioning), attempting("http://images/v1"), wantsImage("http://images/v1")}, node: nodeIn(ironic.Available, instance(another)), want: "Wait", held: metal3.AnotherDeploymentReason},
		"to be cleaned, reserved by somebody":          {host: []hostOption{withState(metal3.StateProvisioning), attempting("http://images/v1"), wantsImage("http://images/v1")}, node: nodeIn(ironic.Manageable, instance(another)), want: "Wait", held: metal3.AnotherDeploymentReason},
		"deleted, reserved by somebody":                {host: []hostOption{withState(metal3.StateAvailable), deleted}, node: nodeIn(ironic.Available, instance(another)), want: "Wait", held: metal3.AnotherDeploymentReason},
		"to be provisioned, an earlier attempt failed": {host: []hostOption{withState(metal3.StateProvisioning), attempting("http://images/v1"), wantsImage("http://images/v1")}, node: nodeIn(ironic.Available, func(n *ironic.Node) {
			n.InstanceUUID = newInstanceUUID(newHost(), metav1.NewTime(now.Add(-time.Hour)))
		}), want: "Deploy"},
		"marked by a host that is gone": {host: provisioned, node: nodeIn(ironic.Active, instance(own), marked("gone", "")), want: "=deprovisioning"},
		"another host's":                {host: provisioned, node: nodeIn(ironic.Active, instance(own)), with: func(s *situation) { s.NodeOfAnother = true }, want: "Wait", held: metal3.NodeOfAnotherHostReason},
		"another host's, deleted":       {host: append(provisioned[:4:4], deleted), node: nodeIn(ironic.Active, instance(own)), with: func(s *situation) { s.NodeOfAnother = true }, want: "Release"},
		"whose machine another host has": {host: provisioned, node: nodeIn(ironic.Active, instance(own)), with: func(s *situation) {
			s.SameMachine = SameMachine{Host: "b", Message: "Host \"b\" in this namespace is of the same machine"}
		}, want: "Wait:10s", held: metal3.BMCInUseReason},
		"whose BMC another node has":                  {host: provisioned, node: nodeIn(ironic.Active, instance(own)), with: func(s *situation) { s.OtherNodes.Exist = true }, want: "Wait:10s", held: metal3.BMCInUseReason},
		"whose BMC nobody knows other nodes of":       {host: provisioned, node: nodeIn(ironic.Active, instance(own)), with: func(s *situation) { s.OtherNodes.AsOf = time.Time{} }, want: "Wait:1s"},
		"and no longer knows":                         {host: provisioned, node: nodeIn(ironic.Active, instance(own)), with: func(s *situation) { s.OtherNodes.AsOf = now.Add(-61 * time.Second) }, want: "Wait:1s"},
		"and still knows":                             {host: provisioned, node: nodeIn(ironic.Active, instance(own)), with: func(s *situation) { s.OtherNodes.AsOf = now.Add(-time.Minute) }, want: "=deprovisioning"},
		"held for another node of which nobody knows": {host: append(provisioned[:4:4], heldFor(metal3.BMCInUseReason)), node: nodeIn(ironic.Active, instance(own)), with: func(s *situation) { s.OtherNodes.AsOf = time.Time{} }, want: "Wait:1s", held: metal3.BMCInUseReason},
		"whose BMC another Ironic has":                {host: provisioned, node: nodeIn(ironic.Active, instance(own)), with: func(s *situation) { s.OtherNodes.ExistElsewhere = true }, want: "Wait:10s", held: metal3.BMCInUseReason},
		"held, another Ironic was not read yet":       {host: append(provisioned[:4:4], heldForElsewhere), node: nodeIn(ironic.Active, instance(own)), with: func(s *situation) { s.OtherNodes.MayExistElsewhere = true }, want: "Wait:10s", held: metal3.BMCInUseReason},
		"paused, and another Ironic was not read yet": {host: append(provisioned[:4:4], heldForElsewhere, annotated(metal3.PausedAnnotation, "")), node: nodeIn(ironic.Active, instance(own)), with: func(s *situation) { s.OtherNodes.MayExistElsewhere = true }, want: "Wait", held: metal3.BMCInUseReason},
		"held for a node in its own Ironic":           {host: append(provisioned[:4:4], heldFor(metal3.BMCInUseReason)), node: nodeIn(ironic.Active, instance(own)), with: func(s *situation) { s.OtherNodes.MayExistElsewhere = true }, want: "=deprovisioning"},
		"not held, another Ironic was not read yet":   {host: provisioned, node: nodeIn(ironic.Active, instance(own)), with: func(s *situation) { s.OtherNodes.MayExistElsewhere = true }, want: "=deprovisioning"},
		"held, other nodes are known now":             {host: append(provisioned[:4:4], heldFor(metal3.BMCInUseReason)), node: nodeIn(ironic.Active, instance(own)), want: "=deprovisioning"},
		"taken over, nobody knows other nodes": {host: append(provisioned[:4:4], func(h *metal3.BareMetalHost) {
			h.Status.Record.Takeover = &metal3.Takeover{NodeUUID: "u", BMC: "ipmi 192.0.2.1:623", InstanceUUID: own}
		}), node: nodeIn(ironic.Active, instance(own)), with: func(s *situation) { s.OtherNodes.AsOf = time.Time{} }, want: "Wait:1s"},
		"taken over in view of others, nobody knows them": {host: append(provisioned[:4:4], func(h *metal3.BareMetalHost) {
			h.Status.Record.Takeover = &metal3.Takeover{NodeUUID: "u", BMC: "ipmi 192.0.2.1:623", InstanceUUID: own, Held: metal3.BMCInUseReason}
		}), node: nodeIn(ironic.Active, instance(own)), with: func(s *situation) { s.OtherNodes.AsOf = time.Time{} }, want: "=deprovisioning"},
		"another cluster's":                {host: provisioned, node: nodeIn(ironic.Active, instance(own), marked("x", "other")), want: "Wait", held: metal3.NodeOfAnotherClusterReason},
		"this cluster's":                   {host: provisioned, node: nodeIn(ironic.Active, instance(own), marked("x", "this")), want: "=deprovisioning"},
		"with another BMC":                 {host: provisioned, node: nodeIn(ironic.Active, instance(own), at("192.0.2.77")), want: "Wait", held: metal3.AnotherBMCReason},
		"with another BMC, to be detached": {host: append(provisioned[:4:4], annotated(metal3.DetachedAnnotation, "")), node: nodeIn(ironic.Active, instance(own), at("192.0.2.77")), want: "Wait", held: metal3.AnotherBMCReason},
		"with another BMC, which is corrected": {host: append(provisioned[:4:4], heldFor(metal3.AnotherBMCReason), func(h *metal3.BareMetalHost) {
			h.Spec.BMC.Address = "ipmi://192.0.2.77"
		}), node: nodeIn(ironic.Active, instance(own), at("192.0.2.77")), want: "=deprovisioning"},
		"with a BMC that it was not registered with": {host: append(provisioned[:4:4], func(h *metal3.BareMetalHost) { h.Status.Record.RegisteredWith.BMC = BMCKey(h).String() }), node: nodeIn(ironic.Active, instance(own), at("192.0.2.77")), want: "Wait", held: metal3.AnotherBMCReason},
		"with the BMC that it was registered with":   {host: append(provisioned[:4:4], func(h *metal3.BareMetalHost) { h.Status.Record.RegisteredWith.BMC = "ipmi 192.0.2.77:623" }), node: nodeIn(ironic.Active, instance(own), at("192.0.2.77")), want: "=deprovisioning"},
		"with the BMC that it was registered with, as its only system": {host: append(provisioned[:4:4], func(h *metal3.BareMetalHost) {
			h.Status.Record.RegisteredWith.BMC = "redfish 192.0.2.77:443 /redfish/v1/Systems/1"
		}), node: nodeIn(ironic.Active, instance(own), func(n *ironic.Node) { n.Address = ironic.Address{RedfishAddress: "HTTPS://192.0.2.77:443/"} }), want: "=deprovisioning"},
		"with another system of the BMC": {host: append(provisioned[:4:4], func(h *metal3.BareMetalHost) {
			h.Status.Record.RegisteredWith.BMC = "redfish 192.0.2.77:443 /redfish/v1/Systems/1"
		}), node: nodeIn(ironic.Active, instance(own), func(n *ironic.Node) {
			n.Address = ironic.Address{RedfishAddress: "https://192.0.2.77", RedfishSystem: "/redfish/v1/Systems/2"}
		}), want: "Wait", held: metal3.AnotherBMCReason},
		"its node is lost": {host: provisioned, want: "CreateNode"},
		"its node is lost, and all others are others'": {host: provisioned, with: func(s *situation) { s.AnotherIronic = true }, want: "Wait:10s", held: metal3.AnotherIronicReason},
		"its node is lost, deleted, in another Ironic": {host: append(provisioned[:4:4], deleted), with: func(s *situation) { s.AnotherIronic = true }, want: "Wait:10s", held: metal3.AnotherIronicReason},
		"its node is lost, deleted and detached, in another Ironic": {host: append(provisioned[:4:4], deleted, func(h *metal3.BareMetalHost) {
			h.Annotations = map[string]string{metal3.DetachedAnnotation: ""}
		}), with: func(s *situation) { s.AnotherIronic = true }, want: "Release"},
		"its node is lost, deleted, the others were not read":               {host: append(provisioned[:4:4], deleted), with: func(s *situation) { s.NodeMayExist = true }, want: "Wait:1s"},
		"available and deleted, its node is lost, the others were not read": {host: []hostOption{withState(metal3.StateAvailable), deleted}, with: func(s *situation) { s.NodeMayExist = true }, want: "Wait:1s"},
		"external and deleted, its node is lost, the others were not read":  {host: []hostOption{withState(metal3.StateExternallyProvisioned), externallyProvisioned, deleted}, with: func(s *situation) { s.NodeMayExist = true }, want: "Wait:1s"},
		"to be detached, its node is lost, the others were not read":        {host: append(provisioned[:4:4], annotated(metal3.DetachedAnnotation, "")), with: func(s *situation) { s.NodeMayExist = true }, want: "Wait:1s"},
		"detached and deleted, its node is lost, the others were not read":  {host: append(provisioned[:4:4], deleted, annotated(metal3.DetachedAnnotation, "")), with: func(s *situation) { s.NodeMayExist = true }, want: "Wait:1s"},
		"to be moved, its node is lost, the others were not read":           {host: append(provisioned[:4:4], func(h *metal3.BareMetalHost) { h.Status.Record.Transfer = &metal3.Transfer{To: "b"} }), with: func(s *situation) { s.NodeMayExist = true }, want: "Wait:1s"},
		"held for another Ironic, whose nodes were not read":                {host: append(provisioned[:4:4], heldFor(metal3.AnotherIronicReason)), with: func(s *situation) { s.NodeMayExist = true }, want: "Wait:1s", held: metal3.AnotherIronicReason},
		"its node is lost, the others were not read":                        {host: provisioned, with: func(s *situation) { s.NodeMayExist = true }, want: "Wait:1s"},
		"held for another Ironic, which is the right one":                   {host: append(provisioned[:4:4], heldFor(metal3.AnotherIronicReason)), node: nodeIn(ironic.Active, instance(own)), want: "=deprovisioning"},
		"new, in another Ironic":                                            {host: []hostOption{withState(metal3.StateRegistering), func(h *metal3.BareMetalHost) { h.Status.Provisioning.ID, h.Status.Record.RegisteredWith = "", nil }}, with: func(s *situation) { s.AnotherIronic = true }, want: "Wait:10s", held: metal3.AnotherIronicReason},
		"new, deleted, in another Ironic":                                   {host: []hostOption{withState(metal3.StateRegistering), deleted, func(h *metal3.BareMetalHost) { h.Status.Provisioning.ID, h.Status.Record.RegisteredWith = "", nil }}, with: func(s *situation) { s.AnotherIronic = true }, want: "Release"},
		"with its node, in an Ironic of others":                             {host: provisioned, node: nodeIn(ironic.Active, instance(own)), with: func(s *situation) { s.AnotherIronic = true }, want: "=deprovisioning"},
		"restored":                                                          {host: provisioned, node: nodeIn(ironic.Active, instance(own)), with: func(s *situation) { s.Restored = "etcd was restored" }, want: "Wait", held: metal3.RestoredReason},
		"the operator runs":                                                 {host: provisioned, node: nodeIn(ironic.Active, instance(own)), with: func(s *situation) { s.OperatorRunning = "Lease x" }, want: "Wait", held: metal3.OperatorRunningReason},
		"the operator runs, its node is lost":                               {host: provisioned, with: func(s *situation) { s.OperatorRunning = "Lease x" }, want: "Wait", held: metal3.OperatorRunningReason},
		"the operator runs, deleted":                                        {host: append(provisioned[:4:4], deleted), node: nodeIn(ironic.Active, instance(another)), with: func(s *situation) { s.OperatorRunning = "Lease x" }, want: "Wait", held: metal3.OperatorRunningReason},
		"the operator ran":                                                  {host: append(provisioned[:4:4], heldFor(metal3.OperatorRunningReason)), node: nodeIn(ironic.Active, instance(own)), want: "=deprovisioning"},
		"restored, available":                                               {host: []hostOption{withState(metal3.StateAvailable), wantsImage("http://images/v1")}, node: nodeIn(ironic.Manageable), with: func(s *situation) { s.Restored = "etcd was restored" }, want: "Wait", held: metal3.RestoredReason},
		"available, deployed by hand, deleted":                              {host: []hostOption{withState(metal3.StateAvailable), deleted}, node: nodeIn(ironic.Active, instance(another)), want: "=deleting"},
		"taken over with nothing in its spec, deleted":                      {host: []hostOption{withState(metal3.StateProvisioned), deployed, deleted}, node: nodeIn(ironic.Active, instance(own)), want: "=deleting"},
		"failed to undeploy, new and external":                              {host: []hostOption{withState(metal3.StateRegistering), externallyProvisioned}, node: nodeIn(ironic.Error), want: "Wait"},
		"same BMC":                                                          {host: []hostOption{withState(metal3.StateRegistering), func(h *metal3.BareMetalHost) { h.Status.Provisioning.ID = "" }}, with: func(s *situation) { s.SameBMC = "no" }, want: "Report:BMCInUse"},
		"detached from the beginning":                                       {host: []hostOption{withState(metal3.StateRegistering), annotated(metal3.DetachedAnnotation, ""), func(h *metal3.BareMetalHost) { h.Status.Provisioning.ID = "" }}, want: "Detach"},
		"of a backup, deprovisioned, its node is lost":                      {host: append(deprovisioning[:4:4], heldFor(metal3.RestoredReason)), with: restoredOnce, want: "CreateNode", held: metal3.AnotherDeploymentReason},
		"of a backup, deprovisioned, its node made again":                   {host: append(deprovisioning[:4:4], heldFor(metal3.AnotherDeploymentReason)), node: nodeIn(ironic.Manageable), want: "Wait", held: metal3.AnotherDeploymentReason},
		"of a backup, deprovisioned, its node available":                    {host: append(deprovisioning[:4:4], heldFor(metal3.RestoredReason)), node: nodeIn(ironic.Available), with: restoredOnce, want: "=available"},
		"of a backup, deleted, its node made again":                         {host: append(provisioned[:4:4], deleted, heldFor(metal3.AnotherDeploymentReason)), node: nodeIn(ironic.Manageable), want: "Wait", held: metal3.AnotherDeploymentReason},
		"of a backup, provisioned, its node made again":                     {host: append(provisioned[:4:4], wantsImage("http://images/v1"), heldFor(metal3.RestoredReason)), node: nodeIn(ironic.Manageable), with: restoredOnce, want: "adopt"},
		"of a backup, deprovisioned, nobody planned for it until now":       {host: deprovisioning, with: restoredOnce, want: "CreateNode", held: metal3.AnotherDeploymentReason},
		"of a backup, deprovisioned, its node made again, not held":         {host: deprovisioning, node: nodeIn(ironic.Manageable), with: restoredOnce, want: "Wait", held: metal3.AnotherDeploymentReason},
		"of a backup, deleted, its node made again, not held":               {host: append(provisioned[:4:4], deleted), node: nodeIn(ironic.Manageable), with: restoredOnce, want: "Wait", held: metal3.AnotherDeploymentReason},
		"of an earlier backup, deprovisioned, its node made again":          {host: append(deprovisioning[:4:4], seenAfterRestore(1)), node: nodeIn(ironic.Manageable), with: restoredOnce, want: "Wait", held: metal3.AnotherDeploymentReason},
		"seen since the restore, deprovisioned, its node made again":        {host: append(deprovisioning[:4:4], seenAfterRestore(2)), node: nodeIn(ironic.Manageable), with: restoredOnce, want: "provide"},
		"deprovisioned, its node made again":                                {host: deprovisioning, node: nodeIn(ironic.Manageable), want: "provide"},
		"of a backup of Ironic, and nothing is wanted":                      {host: []hostOption{withState(metal3.StateProvisioned), deployed}, node: nodeIn(ironic.Active, instance(own)), want: "Wait"},
		"and a person has confirmed what it runs": {host: []hostOption{withState(metal3.StateProvisioned), deployed, func(h *metal3.BareMetalHost) {
			h.Status.Record.Takeover = &metal3.Takeover{NodeUUID: "u", BMC: "ipmi 192.0.2.1:623", InstanceUUID: own}
		}}, node: nodeIn(ironic.Active, instance(own)), want: "=deprovisioning"},
		"deleted in a maintenance of somebody's":     {host: append(provisioned[:4:4], deleted), node: nodeIn(ironic.Active, instance(own), maintained("a fan is broken")), want: "Wait", held: metal3.NodeInMaintenanceReason},
		"undeployed in a maintenance of somebody's":  {host: append(deprovisioning[:4:4], deleted), node: nodeIn(ironic.Active, instance(own), maintained("a fan is broken")), want: "Wait", held: metal3.NodeInMaintenanceReason},
		"detached and deleted in such a maintenance": {host: append(provisioned[:4:4], deleted, annotated(metal3.DetachedAnnotation, "")), node: nodeIn(ironic.Active, instance(own), maintained("a fan is broken")), want: "DeleteNode"},
		"deleted in a maintenance of Ironic's":       {host: append(provisioned[:4:4], deleted), node: nodeIn(ironic.Active, instance(own), maintained(""), func(n *ironic.Node) { n.Fault = "power failure" }), want: "=deprovisioning"},
		"available and deleted in a maintenance":     {host: []hostOption{withState(metal3.StateAvailable), deleted}, node: nodeIn(ironic.Manageable, maintained("a fan is broken")), want: "=powering-off-before-delete"},
		"of a backup, paused":                        {host: append(provisioned[:4:4], annotated(metal3.PausedAnnotation, "")), node: nodeIn(ironic.Active, instance(own)), with: func(s *situation) { s.Restored = "a backup" }, want: "Wait", held: metal3.RestoredReason},
		"with another deployment, paused":            {host: append(provisioned[:4:4], annotated(metal3.PausedAnnotation, "")), node: nodeIn(ironic.Active, instance(another)), want: "Wait"},
		"no longer external":                         {host: external, node: nodeIn(ironic.Active, instance(own)), want: "=provisioned"},
		"external again at once":                     {host: append(external[:len(external):len(external)], externallyProvisioned), node: nodeIn(ironic.Active, instance(own)), want: "Wait"},
		"external again, later":                      {host: append(noLongerExternal[:len(noLongerExternal):len(noLongerExternal)], externallyProvisioned), node: nodeIn(ironic.Active, instance(own)), want: "=externally-provisioned"},
		"no longer external, and deleted":            {host: append(noLongerExternal[:len(noLongerExternal):len(noLongerExternal)], deleted), node: nodeIn(ironic.Active, instance(own)), want: "=deleting"},
		"no longer external, with an image later":    {host: append(noLongerExternal[:len(noLongerExternal):len(noLongerExternal)], wantsImage("http://images/v1")), node: nodeIn(ironic.Active, instance(own)), want: "Wait", held: metal3.AnotherDeploymentReason},
		"external only now":                          {host: append(deprovisioning[:len(deprovisioning):len(deprovisioning)], externallyProvisioned), node: nodeIn(ironic.Active, instance(own)), want: "deleted"},
		"paused while it was held":                   {host: append(provisioned[:4:4], heldFor(metal3.RestoredReason), annotated(metal3.PausedAnnotation, "")), node: nodeIn(ironic.Active, instance(own)), want: "Wait"},
		"taken over while it ran": {host: []hostOption{withState(metal3.StateExternallyProvisioned), externallyProvisioned, offline, func(h *metal3.BareMetalHost) {
			h.Status.Record.Deployment = &metal3.Deployment{NodeUUID: "u", KeepPower: true}
		}}, node: nodeIn(ironic.Active, instance("-")), want: "Wait"},
	} {
		host := newHost(test.host...)
		s := planned(host, test.node)
		if s.Node != nil && s.Node.InstanceUUID == "-" {
			s.Node.InstanceUUID = ""
		}
		if s.Node != nil {
			s.Node.PowerState = ironic.PowerOn
		}
		s.Cluster = "this"
		if test.with != nil {
			test.with(&s)
		}
		step, held := next(s)
		if step.String() != test.want {
			t.Errorf("%s: %s, want %s", name, step, test.want)
		}
		switch {
		case test.held == "" && held != nil:
			t.Errorf("%s: held: %s", name, held.Message)
		case test.held != "" && (held == nil || held.Reason != test.held || !strings.Contains(held.Message, " ")):
			t.Errorf("%s: held is %v, want %s", name, held, test.held)
		}
		if held != nil && s.Node != nil && hasAnnotation(host, metal3.DetachedAnnotation) && !strings.HasSuffix(held.Message, notDetached) {
			t.Errorf("%s: who waits for its detachment is told %q", name, held.Message)
		}
		if held == nil || held.Message == "recorded earlier" {
			continue
		}
		alone, confirmed, deleted := strings.Index(held.Message, "leave it alone"), strings.Index(held.Message, "subresource takeover"), strings.Index(held.Message, "delete it then")
		switch {
		case held.Other != "" && (deleted < 0 || !strings.Contains(held.Message[:deleted], "detach")):
			t.Errorf("%s: who deletes one of two hosts is not told to detach it first: %s", name, held.Message)
		case held.Reason == metal3.AnotherDeploymentReason && !strings.Contains(held.Message, "is reserved") && (alone < 0 || confirmed < alone || !strings.Contains(held.Message[alone:], "disks")):
			t.Errorf("%s: what does no harm is not said first, or not that the rest erases disks: %s", name, held.Message)
		}
	}
}

// TestUselessNode: the node of a host whose BMC is another's goes if this server has made it, and nothing was done through it.
func TestUselessNode(t *testing.T) {
	marked := func(n *ironic.Node) { n.Marks = ironic.Marks{Host: "uid-0", Cluster: "this"} }
	for name, test := range map[string]struct {
		options []hostOption
		node    *ironic.Node
		with    func(*situation)
		want    string
	}{
		"made for it":                  {node: nodeIn(ironic.Manageable, marked), want: "DeleteNode"},
		"not marked":                   {node: nodeIn(ironic.Manageable), want: "Wait:30s"},
		"of another cluster":           {node: nodeIn(ironic.Manageable, marked), with: func(s *situation) { s.Cluster = "other" }, want: "Wait:30s"},
		"of an unknown cluster":        {node: nodeIn(ironic.Manageable, marked), with: func(s *situation) { s.Cluster = "" }, want: "Wait:30s"},
		"not verified":                 {node: nodeIn(ironic.Enroll, marked), want: "Wait:30s"},
		"deployed":                     {node: nodeIn(ironic.Active, marked), want: "Wait:30s"},
		"reserved":                     {node: nodeIn(ironic.Manageable, marked, func(n *ironic.Node) { n.InstanceUUID = "another" }), want: "Wait:30s"},
		"of a person":                  {node: nodeIn(ironic.Manageable, marked, func(n *ironic.Node) { n.Maintenance = true }), want: "Wait:30s"},
		"at work":                      {node: nodeIn(ironic.Manageable, marked, func(n *ironic.Node) { n.Reservation = "conductor" }), want: "Wait:30s"},
		"prepared once":                {options: []hostOption{func(h *metal3.BareMetalHost) { h.Status.HardwareProfile = "unknown" }}, node: nodeIn(ironic.Manageable, marked), want: "Wait:30s"},
		"available":                    {options: []hostOption{withState(metal3.StateAvailable)}, node: nodeIn(ironic.Manageable, marked), want: "Wait:30s"},
		"no host has the BMC verified": {node: nodeIn(ironic.Manageable, marked), with: func(s *situation) { s.BMCRegistered = false }, want: "Wait:30s"},
		"and the BMC is not another's": {node: nodeIn(ironic.Manageable, marked), with: func(s *situation) { s.SameBMC = "" }, want: "=inspecting"},
		"and another's node is known":  {node: nodeIn(ironic.Manageable, marked), with: func(s *situation) { s.OtherNodes.Exist = true }, want: "DeleteNode"},
	} {
		const told = "Another host has the same BMC"
		host := newHost(test.options...)
		host.UID = "uid-0"
		s := planned(host, test.node)
		s.Cluster, s.SameBMC, s.BMCRegistered = "this", told, true
		if test.node.InstanceUUID == "" {
			s.Node.InstanceUUID = "" // nothing is deployed on it
		}
		if test.with != nil {
			test.with(&s)
		}
		if s.SameBMC != "" {
			SetNotRegistered(s.Host, metal3.BMCInUseReason, told)
		}
		if step, _ := next(s); step.String() != test.want {
			t.Errorf("%s: %s, want %s", name, step, test.want)
		}
	}
}

// TestWhatInterrupts: what is never done to a machine that may not be the host's.
func TestWhatInterrupts(t *testing.T) {
	interrupts := []Step{
		{Do: "of the future"}, {Do: Provision, Target: "of the future"}, {Do: SetState, State: "of the future"}, {Do: SwitchPower, Power: "of the future"},
		{Do: Deploy}, {Do: Rebuild}, {Do: Prepare}, {Do: Service}, {Do: LeaveService, Target: ironic.TargetAbort},
		{Do: SwitchPower, Power: ironic.TargetPowerOff}, {Do: SwitchPower, Power: ironic.TargetSoftPowerOff},
		{Do: SwitchPower, Power: ironic.TargetReboot}, {Do: SwitchPower, Power: ironic.TargetSoftReboot},
		{Do: Provision, Target: ironic.TargetInspect}, {Do: Provision, Target: ironic.TargetProvide}, {Do: Provision, Target: ironic.TargetDeleted},
		{Do: Provision, Target: ironic.TargetAbort}, {Do: LeaveIronic},
		setState(metal3.StateDeprovisioning), setState(metal3.StateInspecting), setState(metal3.StateProvisioning), setState(metal3.StatePoweringOffBeforeDelete),
	}
	leaves := []Step{
		{Do: Wait}, {Do: Begin}, {Do: Report}, {Do: FindNode}, {Do: CreateNode}, {Do: Register}, {Do: EndServicing}, {Do: Hold}, {Do: Release}, {Do: SetCleaning},
		{Do: DeleteNode}, {Do: ClearMaintenance}, {Do: SwitchPower, Power: ironic.TargetPowerOn},
		{Do: Provision, Target: ironic.TargetManage}, {Do: Provision, Target: ironic.TargetAdopt},
		setState(metal3.StateProvisioned), setState(metal3.StateExternallyProvisioned), setState(metal3.StateAvailable), setState(metal3.StateDeleting),
	}
	for _, step := range interrupts {
		if !step.Interrupts() {
			t.Errorf("%s does not interrupt", step)
		}
	}
	for _, step := range leaves {
		if step.Interrupts() {
			t.Errorf("%s interrupts", step)
		}
	}
}

// TestMaintenanceOfAPerson: maintenance that a person has asked for is theirs to end, also on a node
// that Ironic has put into maintenance before.
func TestMaintenanceOfAPerson(t *testing.T) {
	host := newHost(withState(metal3.StatePreparing))
	node := nodeIn(ironic.CleanFail, func(n *ironic.Node) {
		n.Maintenance, n.Fault, n.MaintenanceReason = true, ironic.FaultCleanFailure, "a clean step failed"
	})
	if step := nextOf(planned(host, node)); step.Do != ClearMaintenance {
		t.Errorf("Ironic's own maintenance: %s", step)
	}
	node.MaintenanceReason = ironic.RequestedMaintenance("alice", "a disk is replaced")
	if step := nextOf(planned(host, node)); step.Do != Wait {
		t.Errorf("a person's maintenance: %s", step)
	}
}

// TestDeployedByOthers: a host does not become the owner of a deployment by finding it.
func TestDeployedByOthers(t *testing.T) {
	const foreign = "22222222-2222-4222-8222-222222222222"
	for name, test := range map[string]struct {
		state    metal3.ProvisioningState
		host     hostOption
		instance string
		held     string
		image    string // that is recorded
	}{
		"available, and wants an image":   {state: metal3.StateAvailable, host: wantsImage("http://a"), instance: foreign, held: metal3.AnotherDeploymentReason},
		"available, and wants none":       {state: metal3.StateAvailable, instance: foreign},
		"new, and wants an image":         {state: metal3.StateRegistering, host: wantsImage("http://a"), instance: foreign, held: metal3.AnotherDeploymentReason},
		"no instance_uuid":                {state: metal3.StateAvailable, host: wantsImage("http://a"), held: metal3.AnotherDeploymentReason},
		"by the Bare Metal Operator":      {state: metal3.StateRegistering, host: wantsImage("http://a"), instance: "uid", image: "http://a"},
		"external until now, wants image": {state: metal3.StateExternallyProvisioned, host: wantsImage("http://a"), instance: foreign, image: "http://a"},
	} {
		t.Run(name, func(t *testing.T) {
			host := newHost(withState(test.state))
			host.UID = "uid"
			if test.host != nil {
				test.host(host)
			}
			node := nodeIn(ironic.Active, func(n *ironic.Node) { n.UUID, n.InstanceUUID = host.Status.Provisioning.ID, test.instance })
			if test.state.RunsSomething() {
				host.Status.Record.Deployment = &metal3.Deployment{NodeUUID: node.UUID, InstanceUUID: test.instance}
			}
			step := nextOf(planned(host, node))
			if step.String() != "=provisioned" {
				t.Fatalf("the next step is %s", step)
			}
			enter(host, node, step, now)
			if got := host.Status.Provisioning.Image.URL; got != test.image {
				t.Errorf("it is said to run %q, want %q", got, test.image)
			}
			_, held := next(planned(host, node))
			switch {
			case test.held == "" && held != nil, test.held != "" && (held == nil || held.Reason != test.held):
				t.Fatalf("held is %v, want %q", held, test.held)
			case held == nil:
				return
			}
			deletedHost := host.DeepCopy()
			deleted(deletedHost)
			if step, _ := next(planned(deletedHost, node)); step.String() != "=deleting" {
				t.Errorf("deleted: %s, want it to be left running", step)
			}
			if err := TakeOver(host, node, now); err != nil {
				t.Fatal(err)
			}
			if _, held := next(planned(host, node)); held != nil || host.Status.Provisioning.Image.URL != "http://a" {
				t.Errorf("confirmed: held %v, runs %q", held, host.Status.Provisioning.Image.URL)
			}
		})
	}
}

// TestWhatIsLookedAt: what was read for a step that needs no node is no look at the node, for any other step.
func TestWhatIsLookedAt(t *testing.T) {
	host, _ := provisionedBy()
	undeploy := provision(ironic.TargetDeleted, metal3.ProvisioningError)
	for name, test := range map[string]struct {
		s    Situation
		step Step
		want bool
	}{
		"nothing is read":                     {Situation{Host: host}, undeploy, true},
		"nothing is read, a report":           {Situation{Host: host}, Step{Do: Report}, true},
		"the host is read, a report":          {Situation{Host: host, HostRead: true}, Step{Do: Report}, false},
		"the host is read, its beginning":     {Situation{Host: host, HostRead: true}, Step{Do: Begin}, false},
		"the host is read, undeployment":      {Situation{Host: host, HostRead: true}, undeploy, true},
		"the host is read, another state":     {Situation{Host: host, HostRead: true}, setState(metal3.StateDeprovisioning), true},
		"the node is looked at, undeployment": {Situation{Host: host, ObservedAt: now}, undeploy, false},
	} {
		if got := MustObserve(test.s, test.step); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestNamesMintNothing: what is found on a node is a host's for its instance_uuid or its mark, and not for the name, which the node
// keeps whatever is deployed on it.
func TestNamesMintNothing(t *testing.T) {
	for name, test := range map[string]struct {
		state    metal3.ProvisioningState
		instance string
		mark     ironic.Text
		// left is set if the host has come with a status that names the node.
		left bool
		want bool
	}{
		"named":                               {state: metal3.StateProvisioned, instance: "22222222-2222-4222-8222-222222222222"},
		"by the operator, and moved since":    {state: metal3.StateProvisioned, instance: "22222222-2222-4222-8222-222222222222", left: true, want: true},
		"adopted anew by the operator":        {state: metal3.StateProvisioned, left: true, want: true},
		"named, and nothing else":             {state: metal3.StateProvisioned},
		"by the Bare Metal Operator":          {state: metal3.StateProvisioned, instance: "uid", want: true},
		"marked":                              {state: metal3.StateProvisioned, instance: "22222222-2222-4222-8222-222222222222", mark: "uid", want: true},
		"external, by the operator":           {state: metal3.StateExternallyProvisioned, want: true},
		"external, and somebody has it since": {state: metal3.StateExternallyProvisioned, instance: "22222222-2222-4222-8222-222222222222"},
	} {
		host := newHost(withState(test.state))
		host.UID = "uid"
		host.Status.Record.RegisteredWith = &metal3.RegisteredWith{}
		if test.left {
			host.Status.Record.RegisteredWith = nil
		}
		node := nodeIn(ironic.Active, func(n *ironic.Node) {
			n.UUID = host.Status.Provisioning.ID
			n.Name, n.InstanceUUID, n.Marks = NodeName(host), test.instance, ironic.Marks{Host: test.mark}
		})
		status, _ := Observe(host, Observation{Node: node}, now)
		if got := status.Record.Deployment != nil; got != test.want {
			t.Errorf("%s: taken for the host's: %t, want %t", name, got, test.want)
		}
	}
}

// TestHoldReasonsAreDocumented: docs/life.md explains each reason for which a host can be held, and no other.
func TestHoldReasonsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/life.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "\n| Reason | What it means | What is left alone |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var documented []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\|").FindAllStringSubmatch(table, -1) {
		documented = append(documented, row[1])
	}
	slices.Sort(documented)
	if diff := cmp.Diff(HoldReasons(), documented); diff != "" {
		t.Errorf("what guards find (-) and docs/life.md (+):\n%s", diff)
	}
}

// TestGuardsFindWhatTheySay: what a guard finds is one of its reasons.
func TestGuardsFindWhatTheySay(t *testing.T) {
	lists := guards
	t.Cleanup(func() { guards = lists })
	found := map[string]bool{}
	guards = nil
	for _, g := range lists {
		check := g.check
		g.check = func(s Situation, step Step) *contradiction {
			c := check(s, step)
			if c != nil && !slices.Contains(g.finds, c.reason) {
				t.Errorf("a guard that is said to find %v finds %s", g.finds, c.reason)
			}
			if c != nil {
				found[c.reason] = true
			}
			return c
		}
		guards = append(guards, g)
	}
	for name, test := range map[string]func(*testing.T){"held": TestHeld, "gone": TestGone, "unreadable": TestUnreadableStatusHolds} {
		t.Run(name, test)
	}
	for _, reason := range HoldReasons() {
		if !found[reason] {
			t.Errorf("no test has a case of %s", reason)
		}
	}
}
