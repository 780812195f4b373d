package lifecycle

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// next plans for a host until what is held is recorded, and returns the step that is left.
func next(s Situation) (Step, *metav1.Condition) {
	step := Next(s)
	if step.Do == Hold {
		s.Host = s.Host.DeepCopy()
		SetHeld(s.Host, step.Reason, step.Message, now)
		step = Next(s)
	}
	return step, findCondition(&s.Host.Status, metal3.HeldCondition)
}

// TestHeld: each way to harm a machine that is not the host's, or runs something else.
func TestHeld(t *testing.T) {
	const own, another = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
	deployed := func(h *metal3.BareMetalHost) {
		h.Status.Deployment = &metal3.Deployment{NodeUUID: "u", InstanceUUID: own}
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
		return func(h *metal3.BareMetalHost) { SetHeld(h, reason, "recorded earlier", now) }
	}
	noCleaning := func(h *metal3.BareMetalHost) { h.Spec.AutomatedCleaningMode = metal3.CleaningModeDisabled }
	for name, test := range map[string]struct {
		host []hostOption
		node *ironic.Node
		with func(*Situation)
		want string
		held string
	}{
		"another image is wanted":                    {host: provisioned, node: nodeIn(ironic.Active, instance(own)), want: "=deprovisioning"},
		"and something else runs":                    {host: provisioned, node: nodeIn(ironic.Active, instance(another)), want: "Wait", held: metal3.AnotherDeploymentReason},
		"and something that nobody has named runs":   {host: provisioned, node: nodeIn(ironic.Active, instance("-")), want: "Wait", held: metal3.AnotherDeploymentReason},
		"deprovisioned":                              {host: deprovisioning, node: nodeIn(ironic.Active, instance(own)), want: "deleted"},
		"deprovisioned, of a backup":                 {host: deprovisioning, node: nodeIn(ironic.Active, instance(another)), want: "Wait", held: metal3.AnotherDeploymentReason},
		"deprovisioned, Ironic is at it":             {host: deprovisioning, node: nodeIn(ironic.Error), want: "deleted"},
		"deprovisioned, and wanted again":            {host: append(deprovisioning[:len(deprovisioning):len(deprovisioning)], wantsImage("http://images/v1")), node: nodeIn(ironic.Active, instance(own)), want: "=provisioned"},
		"deleted, of a backup":                       {host: append(provisioned[:4:4], deleted), node: nodeIn(ironic.Active, instance(another)), want: "Wait", held: metal3.AnotherDeploymentReason},
		"deprovisioned, not cleaned":                 {host: append(deprovisioning[:4:4], noCleaning), node: nodeIn(ironic.Active, instance(own)), want: "SetCleaning"},
		"deprovisioned, not cleaned, Ironic knows":   {host: append(deprovisioning[:4:4], noCleaning), node: nodeIn(ironic.Active, instance(own), func(n *ironic.Node) { n.AutomatedClean = "false" }), want: "deleted"},
		"deprovisioned, not cleaned, being deployed": {host: append(deprovisioning[:4:4], noCleaning), node: nodeIn(ironic.DeployWait, instance(own)), want: "Wait"},
		"marked by a host that is gone":              {host: provisioned, node: nodeIn(ironic.Active, instance(own), marked("gone", "")), want: "=deprovisioning"},
		"another host's":                             {host: provisioned, node: nodeIn(ironic.Active, instance(own)), with: func(s *Situation) { s.NodeOfAnother = true }, want: "Wait", held: metal3.NodeOfAnotherHostReason},
		"another host's, deleted":                    {host: append(provisioned[:4:4], deleted), node: nodeIn(ironic.Active, instance(own)), with: func(s *Situation) { s.NodeOfAnother = true }, want: "Release"},
		"whose BMC another node has":                 {host: provisioned, node: nodeIn(ironic.Active, instance(own)), with: func(s *Situation) { s.NodesWithSameBMC = true }, want: "Wait", held: metal3.BMCInUseReason},
		"another cluster's":                          {host: provisioned, node: nodeIn(ironic.Active, instance(own), marked("x", "other")), want: "Wait", held: metal3.NodeOfAnotherClusterReason},
		"this cluster's":                             {host: provisioned, node: nodeIn(ironic.Active, instance(own), marked("x", "this")), want: "=deprovisioning"},
		"with another BMC":                           {host: provisioned, node: nodeIn(ironic.Active, instance(own), at("192.0.2.77")), want: "Wait", held: metal3.AnotherBMCReason},
		"with the BMC that it was registered with":   {host: append(provisioned[:4:4], func(h *metal3.BareMetalHost) { h.Status.RegisteredWith.BMC = "ipmi 192.0.2.77:623" }), node: nodeIn(ironic.Active, instance(own), at("192.0.2.77")), want: "=deprovisioning"},
		"restored":                                        {host: provisioned, node: nodeIn(ironic.Active, instance(own)), with: func(s *Situation) { s.Restored = "etcd was restored" }, want: "Wait", held: metal3.RestoredReason},
		"restored, available":                             {host: []hostOption{withState(metal3.StateAvailable), wantsImage("http://images/v1")}, node: nodeIn(ironic.Manageable), with: func(s *Situation) { s.Restored = "etcd was restored" }, want: "Wait", held: metal3.RestoredReason},
		"available, deployed by hand, deleted":            {host: []hostOption{withState(metal3.StateAvailable), deleted}, node: nodeIn(ironic.Active, instance(another)), want: "=deleting"},
		"taken over with nothing in its spec, deleted":    {host: []hostOption{withState(metal3.StateProvisioned), deployed, deleted}, node: nodeIn(ironic.Active, instance(own)), want: "=deleting"},
		"failed to undeploy, new and external":            {host: []hostOption{withState(metal3.StateRegistering), externallyProvisioned}, node: nodeIn(ironic.Error), want: "Wait"},
		"same BMC":                                        {host: []hostOption{withState(metal3.StateRegistering), func(h *metal3.BareMetalHost) { h.Status.Provisioning.ID = "" }}, with: func(s *Situation) { s.SameBMC = "no" }, want: "Report:BMCInUse"},
		"detached from the beginning":                     {host: []hostOption{withState(metal3.StateRegistering), annotated(metal3.DetachedAnnotation, ""), func(h *metal3.BareMetalHost) { h.Status.Provisioning.ID = "" }}, want: "Detach"},
		"of a backup, deprovisioned, its node is lost":    {host: append(deprovisioning[:4:4], heldFor(metal3.RestoredReason)), want: "CreateNode", held: metal3.AnotherDeploymentReason},
		"of a backup, deprovisioned, its node made again": {host: append(deprovisioning[:4:4], heldFor(metal3.AnotherDeploymentReason)), node: nodeIn(ironic.Manageable), want: "Wait", held: metal3.AnotherDeploymentReason},
		"of a backup, deprovisioned, its node available":  {host: append(deprovisioning[:4:4], heldFor(metal3.RestoredReason)), node: nodeIn(ironic.Available), want: "=available"},
		"of a backup, deleted, its node made again":       {host: append(provisioned[:4:4], deleted, heldFor(metal3.AnotherDeploymentReason)), node: nodeIn(ironic.Manageable), want: "Wait", held: metal3.AnotherDeploymentReason},
		"of a backup, provisioned, its node made again":   {host: append(provisioned[:4:4], wantsImage("http://images/v1"), heldFor(metal3.RestoredReason)), node: nodeIn(ironic.Manageable), want: "adopt"},
		"deprovisioned, its node made again":              {host: deprovisioning, node: nodeIn(ironic.Manageable), want: "provide"},
		"of a backup of Ironic, and nothing is wanted":    {host: []hostOption{withState(metal3.StateProvisioned), deployed}, node: nodeIn(ironic.Active, instance(own)), want: "Wait"},
		"and a person has confirmed what it runs": {host: []hostOption{withState(metal3.StateProvisioned), deployed, func(h *metal3.BareMetalHost) {
			h.Status.Takeover = &metal3.Takeover{NodeUUID: "u", InstanceUUID: own}
		}}, node: nodeIn(ironic.Active, instance(own)), want: "=deprovisioning"},
		"paused while it was held": {host: append(provisioned[:4:4], heldFor(metal3.RestoredReason), annotated(metal3.PausedAnnotation, "")), node: nodeIn(ironic.Active, instance(own)), want: "Wait"},
		"taken over while it ran": {host: []hostOption{withState(metal3.StateExternallyProvisioned), externallyProvisioned, offline, func(h *metal3.BareMetalHost) {
			h.Status.Deployment = &metal3.Deployment{NodeUUID: "u", KeepPower: true}
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
	}
}

// TestTakeoverCountsForWhatWasSeen: what a person has confirmed holds as long as the node is
// as it was then.
func TestTakeoverCountsForWhatWasSeen(t *testing.T) {
	host := newHost(withState(metal3.StateProvisioned), runs("http://images/v1"), wantsImage("http://images/v2"), func(h *metal3.BareMetalHost) {
		h.Status.Deployment = &metal3.Deployment{NodeUUID: "u", InstanceUUID: "x"}
	})
	node := nodeIn(ironic.Active, func(n *ironic.Node) {
		n.InstanceUUID, n.Address.IPMIAddress, n.Marks.Cluster = "y", "192.0.2.77", "another"
	})
	s := planned(host, node)
	s.Cluster = "this"
	if step, held := next(s); step.Do != Wait || held == nil {
		t.Fatalf("%s, held %v", step, held)
	}
	TakeOver(host, node, now)
	if _, held := next(s); held != nil {
		t.Errorf("confirmed: held %v", held)
	}
	if image := host.Status.Provisioning.Image.URL; image != "http://images/v2" {
		t.Errorf("it is taken for running %q", image)
	}
	s.Node.Marks.Cluster = "a third one"
	if _, held := next(s); held == nil || held.Reason != metal3.NodeOfAnotherClusterReason {
		t.Errorf("changed since: held %v", held)
	}
}

// TestTakeoverEndsAnOldAttempt: a host that was being provisioned with another image in a
// backup runs what its spec says now, once a person has confirmed that.
func TestTakeoverEndsAnOldAttempt(t *testing.T) {
	host := newHost(withState(metal3.StateProvisioning), attempting("http://images/v1"), wantsImage("http://images/v2"), func(h *metal3.BareMetalHost) {
		h.Status.Deployment = &metal3.Deployment{NodeUUID: "u", InstanceUUID: "x"}
	})
	node := nodeIn(ironic.Active, func(n *ironic.Node) { n.InstanceUUID = "y" })
	TakeOver(host, node, now)
	registeredAs()(host) // Ironic is told anew of the host first
	for range 3 {
		if step := Next(planned(host, node)); step.Do == SetState {
			Enter(host, node, step, now)
		}
	}
	if p := host.Status.Provisioning; p.State != metal3.StateProvisioned || p.Image.URL != "http://images/v2" {
		t.Errorf("it is %s with image %q", p.State, p.Image.URL)
	}
}

// TestInstanceOfEachAttempt: two attempts to provision a host have different instances, and
// the same attempt has the same one in each process.
func TestInstanceOfEachAttempt(t *testing.T) {
	host := newHost()
	first := newInstanceUUID(host, metav1.NewTime(now))
	if again := newInstanceUUID(host.DeepCopy(), metav1.NewTime(now)); again != first {
		t.Errorf("%s and %s", first, again)
	}
	if second := newInstanceUUID(host, metav1.NewTime(now.Add(time.Second))); second == first {
		t.Error("the next attempt has the same")
	}
}
