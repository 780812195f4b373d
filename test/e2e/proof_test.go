// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// isHeld reports whether the host is held for a reason.
func isHeld(reason string) func(*metal3.BareMetalHost) bool {
	return func(h *metal3.BareMetalHost) bool {
		held := meta.FindStatusCondition(h.Status.Conditions, metal3.HeldCondition)
		return held != nil && held.Reason == reason && strings.HasSuffix(h.Status.ErrorMessage, held.Message)
	}
}

// takeOver confirms the node of a host, as a person does who has looked at it.
func takeOver(t *testing.T, ctx context.Context, ns, name, node string) {
	t.Helper()
	request := &metal3.HostTakeover{Spec: metal3.HostTakeoverSpec{NodeUUID: node}}
	if _, err := bed(ctx).Hosts(ns).Takeover(ctx, name, request, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestTwoHostsWithOneBMC: the second one is told so and touches nothing, however it spells
// the address, until the first one is gone.
func TestTwoHostsWithOneBMC(t *testing.T) {
	testbed.OnSimulator(t, "the server finds this without Ironic")
	t.Parallel()
	ctx, ns := s.Begin(t)
	_, elsewhere := s.Begin(t)
	b := startBMC(t, ctx)
	createSecretOnce(t, ctx, ns, "first") // it goes with its host
	createSecretOnce(t, ctx, ns, "bmc")
	createSecretOnce(t, ctx, elsewhere, "bmc")
	createHost(t, ctx, ns, "first", b.Address(), "first", "")
	waitAvailable(t, ctx, ns, "first")
	copied := strings.ToUpper(b.Address()[:4]) + b.Address()[4:] + "/"
	createHost(t, ctx, ns, "second", copied, "bmc", "", wholeLife)
	createHost(t, ctx, elsewhere, "stranger", copied, "bmc", "", wholeLife)
	refused := func(namespace, name, says string) *metal3.BareMetalHost {
		t.Helper()
		return bed(ctx).WaitHost(t, ctx, namespace, name, "is refused", func(h *metal3.BareMetalHost) bool {
			c := meta.FindStatusCondition(h.Status.Conditions, metal3.RegisteredCondition)
			return c != nil && c.Reason == metal3.BMCInUseReason && strings.Contains(h.Status.ErrorMessage, says)
		})
	}
	refused(ns, "second", `"first" in this namespace`)
	if h := refused(elsewhere, "stranger", "in another namespace"); strings.Contains(h.Status.ErrorMessage, ns) || strings.Contains(h.Status.ErrorMessage, "first") {
		t.Errorf("a stranger is told %q", h.Status.ErrorMessage)
	}
	isOn(t, b, true)
	bed(ctx).DeleteHost(t, ctx, elsewhere, "stranger")
	waitGone(t, ctx, elsewhere, "stranger")
	isOn(t, b, true)
	bed(ctx).DeleteHost(t, ctx, ns, "first")
	waitGone(t, ctx, ns, "first")
	bed(ctx).WaitHost(t, ctx, ns, "second", "is registered", isVerified)
}

// TestAnotherDeployment: what somebody has deployed past the server is not undeployed for
// what the host's status says of an earlier deployment, until a person confirms it.
func TestAnotherDeployment(t *testing.T) {
	t.Parallel()
	sim := needsSimulator(t)
	ctx, ns := s.Begin(t)
	createSecretOnce(t, ctx, ns, "bmc")
	createHost(t, ctx, ns, "worker-0", startBMC(t, ctx).Address(), "bmc", "", wholeLife)
	id := waitAvailable(t, ctx, ns, "worker-0").Status.Provisioning.ID
	bed(ctx).PatchHost(t, ctx, ns, "worker-0", wantImage)
	host := waitState(t, ctx, ns, "worker-0", metal3.StateProvisioned)
	if instance := host.Status.Record.Deployment.InstanceUUID; instance == "" || instance != host.Status.Ironic.InstanceUUID {
		t.Fatalf("the deployment is recorded as %+v, Ironic says %q", host.Status.Record.Deployment, host.Status.Ironic.InstanceUUID)
	}
	if err := sim.SetNode(id, map[string]any{"instance_uuid": "11111111-2222-4333-8444-555555555555"}); err != nil {
		t.Fatal(err)
	}
	bed(ctx).PatchHost(t, ctx, ns, "worker-0", `{"spec":{"image":{"url":"http://images/other.raw"},"online":false}}`)
	held := bed(ctx).WaitHost(t, ctx, ns, "worker-0", "is held", isHeld(metal3.AnotherDeploymentReason))
	if held.Status.Provisioning.State != metal3.StateProvisioned || !held.Status.PoweredOn {
		t.Errorf("it is %s, powered on %t", held.Status.Provisioning.State, held.Status.PoweredOn)
	}
	writes, targets := len(sim.DiskWrites(id)), len(sim.ProvisionTargets(id))
	// It runs what the spec says, and so is not deployed again.
	bed(ctx).PatchHost(t, ctx, ns, "worker-0", `{"spec":{"online":true}}`)
	takeOver(t, ctx, ns, "worker-0", id)
	waitState(t, ctx, ns, "worker-0", metal3.StateProvisioned)
	if len(sim.DiskWrites(id)) != writes || len(sim.ProvisionTargets(id)) != targets {
		t.Errorf("Ironic was asked for %v", sim.ProvisionTargets(id)[targets:])
	}
	bed(ctx).PatchHost(t, ctx, ns, "worker-0", `{"spec":{"image":null}}`)
	waitState(t, ctx, ns, "worker-0", metal3.StateAvailable)
}

// TestAnotherBMC: somebody has pointed the node at another machine. Nothing is asked of it,
// and the host goes without it.
func TestAnotherBMC(t *testing.T) {
	testbed.OnSimulator(t, "the server compares what Ironic says; test/security has nodes of others in a real one")
	t.Parallel()
	ctx, ns := s.Begin(t)
	createSecretOnce(t, ctx, ns, "bmc")
	b, other := startBMC(t, ctx), startBMC(t, ctx)
	if err := other.SetPower(true); err != nil {
		t.Fatal(err)
	}
	createHost(t, ctx, ns, "worker-0", b.Address(), "bmc", "")
	id := waitAvailable(t, ctx, ns, "worker-0").Status.Provisioning.ID
	port := other.Address()[strings.LastIndex(other.Address(), ":")+1:]
	if err := bed(ctx).ironic.Operator().PatchNode(ctx, id, testbed.Patch{Op: "replace", Path: "/driver_info/ipmi_port", Value: port}); err != nil {
		t.Fatal(err)
	}
	bed(ctx).WaitHost(t, ctx, ns, "worker-0", "is held", isHeld(metal3.AnotherBMCReason))
	bed(ctx).PatchHost(t, ctx, ns, "worker-0", `{"spec":{"online":false}}`)
	_, err := bed(ctx).Hosts(ns).Power(ctx, "worker-0", &metal3.HostPower{Spec: metal3.HostPowerSpec{Action: metal3.PowerActionOff, Mode: metal3.PowerModeHard}}, metav1.CreateOptions{})
	if err == nil || !strings.Contains(err.Error(), "BMC") {
		t.Errorf("/power of another machine: %v", err)
	}
	bed(ctx).DeleteHost(t, ctx, ns, "worker-0")
	waitGone(t, ctx, ns, "worker-0")
	isOn(t, other, true)
	if _, err := bed(ctx).ironic.Operator().Node(ctx, id); err != nil {
		t.Errorf("the node that another user uses is gone: %v", err)
	}
	if err := bed(ctx).ironic.Operator().DeleteNode(ctx, id); err != nil {
		t.Error(err)
	}
}

// TestOneMachineAtTwoAddresses: a machine with two BMC addresses is that of the host that was there first, and the other one
// does nothing to it until that is gone.
func TestOneMachineAtTwoAddresses(t *testing.T) {
	testbed.OnSimulator(t, "the server compares what inspections have found")
	t.Parallel()
	ctx, ns := s.Begin(t)
	ctx, sim := onSimulatorOfItsOwn(t, ctx, ns, ironicsim.Options{})
	createSecretOnce(t, ctx, ns, "first") // it goes with its host
	createSecretOnce(t, ctx, ns, "bmc")
	inventory := strings.Replace(rawInventory("2400", "", ""), `"system_vendor": {}`, `"system_vendor": {"manufacturer": "Contoso", "product_name": "2U", "serial_number": "CNT0042"}`, 1)
	inspected := func(name, secret string) bmc { return inspectedAs(t, ctx, sim, ns, name, secret, inventory) }
	first := inspected("first", "first")
	waitAvailable(t, ctx, ns, "first")
	second := inspected("second", "bmc")
	held := bed(ctx).WaitHost(t, ctx, ns, "second", "is held", isHeld(metal3.BMCInUseReason))
	if !strings.Contains(held.Status.ErrorMessage, `"first" in this namespace`) {
		t.Errorf("it says %q", held.Status.ErrorMessage)
	}
	bed(ctx).WaitHost(t, ctx, ns, "second", "is on", func(h *metal3.BareMetalHost) bool { return h.Status.PoweredOn }) // which harms nobody
	bed(ctx).PatchHost(t, ctx, ns, "second", `{"spec":{"online":false}}`)
	bed(ctx).PatchHost(t, ctx, ns, "first", `{"spec":{"online":false}}`)
	bed(ctx).WaitHost(t, ctx, ns, "first", "is off", func(h *metal3.BareMetalHost) bool { return !h.Status.PoweredOn })
	isOn(t, first, false)
	isOn(t, second, true)
	bed(ctx).DeleteHost(t, ctx, ns, "first")
	waitGone(t, ctx, ns, "first")
	bed(ctx).WaitHost(t, ctx, ns, "second", "is off", func(h *metal3.BareMetalHost) bool {
		return !h.Status.PoweredOn && meta.FindStatusCondition(h.Status.Conditions, metal3.HeldCondition) == nil
	})
}

// inspectedAs creates a host of a new BMC, of whose machine Ironic will have the inventory.
func inspectedAs(t *testing.T, ctx context.Context, sim *simulated, ns, name, secret, inventory string) bmc {
	t.Helper()
	b := startBMC(t, ctx)
	createHost(t, ctx, ns, name, b.Address(), secret, "", wholeLife)
	testbed.EventuallyEvery(t, ctx, 10*time.Millisecond, func() string {
		if err := sim.SetRawInventory(ns+"~"+name, []byte(inventory)); err != nil {
			return err.Error()
		}
		return ""
	})
	return b
}

// TestSledsOfOneChassis: machines that report one serial number, and have nothing else in common, are all used, and say so.
func TestSledsOfOneChassis(t *testing.T) {
	testbed.OnSimulator(t, "the server compares what inspections have found")
	t.Parallel()
	ctx, ns := s.Begin(t)
	ctx, sim := onSimulatorOfItsOwn(t, ctx, ns, ironicsim.Options{})
	createSecretOnce(t, ctx, ns, "bmc")
	for i, name := range []string{"sled-1", "sled-2"} {
		inventory := strings.Replace(rawInventory("2400", "", ""), `"system_vendor": {}`, `"system_vendor": {"manufacturer": "Contoso", "product_name": "4 in 2U", "serial_number": "CNT0042"}`, 1)
		inspectedAs(t, ctx, sim, ns, name, "bmc", strings.ReplaceAll(inventory, "52:54:00:00:00:01", fmt.Sprintf("52:54:00:00:00:%02d", i)))
	}
	for name, other := range map[string]string{"sled-1": "sled-2", "sled-2": "sled-1"} {
		host := bed(ctx).WaitHost(t, ctx, ns, name, "is available, and says what it has in common", func(h *metal3.BareMetalHost) bool {
			c := meta.FindStatusCondition(h.Status.Conditions, metal3.MachineUniqueCondition)
			return h.Status.Provisioning.State == metal3.StateAvailable && c != nil && c.Status == metav1.ConditionFalse && strings.Contains(c.Message, fmt.Sprintf("%q in this namespace has a machine with the same serial number", other))
		})
		if meta.FindStatusCondition(host.Status.Conditions, metal3.HeldCondition) != nil {
			t.Errorf("%s is held: %+v", name, host.Status.Conditions)
		}
		bed(ctx).PatchHost(t, ctx, ns, name, `{"spec":{"image":{"url":"http://images.example.org/a.iso","format":"live-iso"}}}`)
	}
	for _, name := range []string{"sled-1", "sled-2"} {
		bed(ctx).WaitHost(t, ctx, ns, name, "is provisioned", func(h *metal3.BareMetalHost) bool { return h.Status.Provisioning.State == metal3.StateProvisioned })
	}
}

// TestNodeOfAnotherCluster: a node that the server of another cluster has marked is shown
// and not touched.
func TestNodeOfAnotherCluster(t *testing.T) {
	testbed.OnSimulator(t, "the server compares what Ironic says; test/security has nodes of others in a real one")
	t.Parallel()
	ctx, ns := s.Begin(t)
	createSecretOnce(t, ctx, ns, "bmc")
	b := startBMC(t, ctx)
	createHost(t, ctx, ns, "worker-0", b.Address(), "bmc", "")
	host := waitAvailable(t, ctx, ns, "worker-0")
	cluster, err := s.Core.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if i := host.Status.Ironic; types.UID(i.MarkedCluster) != cluster.UID || types.UID(i.MarkedHost) != host.UID {
		t.Fatalf("the node is marked with host %q of cluster %q", i.MarkedHost, i.MarkedCluster)
	}
	id := host.Status.Provisioning.ID
	if err := bed(ctx).ironic.Operator().PatchNode(ctx, id, testbed.Patch{Op: "replace", Path: "/extra/metal3_apiserver_cluster", Value: "another"}); err != nil {
		t.Fatal(err)
	}
	bed(ctx).WaitHost(t, ctx, ns, "worker-0", "is held", isHeld(metal3.NodeOfAnotherClusterReason))
	bed(ctx).PatchHost(t, ctx, ns, "worker-0", `{"spec":{"online":false}}`)
	other := &metal3.HostTakeover{Spec: metal3.HostTakeoverSpec{NodeUUID: id, InstanceUUID: ptr.To("an image that somebody saw on it")}}
	if _, err := bed(ctx).Hosts(ns).Takeover(ctx, "worker-0", other, metav1.CreateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("a takeover of what is not deployed: %v", err)
	}
	code, out, shown := bmh(ctx, ns, "", "takeover", "--all", "--yes")
	if want := "baremetalhost.metal3.io/worker-0 taken over: node " + id; code != 0 || !strings.HasPrefix(out, want) || !strings.Contains(shown, "of cluster another") || !strings.Contains(shown, "is switched off") {
		t.Errorf("takeover: exit code %d, %q, want %q; shown %q", code, out, want, shown)
	}
	bed(ctx).WaitHost(t, ctx, ns, "worker-0", "is the host's again, and off as it asks", func(h *metal3.BareMetalHost) bool {
		return meta.FindStatusCondition(h.Status.Conditions, metal3.HeldCondition) == nil && !h.Status.PoweredOn
	})
}

// TestDetachedFromTheBeginning: the YAML of a detached host, applied again.
func TestDetachedFromTheBeginning(t *testing.T) {
	testbed.OnSimulator(t, "such a host is not in Ironic")
	t.Parallel()
	ctx, ns := s.Begin(t)
	createSecretOnce(t, ctx, ns, "bmc")
	b := startBMC(t, ctx)
	if err := b.SetPower(true); err != nil {
		t.Fatal(err)
	}
	createHost(t, ctx, ns, "worker-0", b.Address(), "bmc", "", wholeLife, func(h *metal3.BareMetalHost) {
		h.Annotations = map[string]string{metal3.DetachedAnnotation: ""}
	})
	bed(ctx).WaitHost(t, ctx, ns, "worker-0", "is detached", func(h *metal3.BareMetalHost) bool {
		return h.Status.OperationalStatus == metal3.OperationalStatusDetached && h.Status.Provisioning.ID == ""
	})
	bed(ctx).DeleteHost(t, ctx, ns, "worker-0")
	waitGone(t, ctx, ns, "worker-0")
	isOn(t, b, true)
}

// TestTakenOverPower: a machine that runs when it is taken over goes on running, though its
// YAML says nothing of online, until that was true.
func TestTakenOverPower(t *testing.T) {
	testbed.OnSimulator(t, "the server decides not to ask Ironic")
	t.Parallel()
	ctx, ns := s.Begin(t)
	createSecretOnce(t, ctx, ns, "bmc")
	b := startBMC(t, ctx)
	if err := b.SetPower(true); err != nil {
		t.Fatal(err)
	}
	createHost(t, ctx, ns, "worker-0", b.Address(), "bmc", "", func(h *metal3.BareMetalHost) {
		h.Spec.ExternallyProvisioned, h.Spec.Online = true, false
	})
	bed(ctx).WaitHost(t, ctx, ns, "worker-0", "is taken over", func(h *metal3.BareMetalHost) bool {
		return h.Status.Provisioning.State == metal3.StateExternallyProvisioned && h.Status.Ironic.ProvisionState == "active" && h.Status.Record.Deployment != nil && h.Status.Record.Deployment.KeepPower
	})
	bed(ctx).PatchHost(t, ctx, ns, "worker-0", `{"spec":{"description":"planned once more"}}`)
	bed(ctx).WaitHost(t, ctx, ns, "worker-0", "is registered anew", func(h *metal3.BareMetalHost) bool {
		c := meta.FindStatusCondition(h.Status.Conditions, metal3.RegisteredCondition)
		return c != nil && c.ObservedGeneration == h.Generation && c.Status == metav1.ConditionTrue
	})
	isOn(t, b, true)
	bed(ctx).PatchHost(t, ctx, ns, "worker-0", `{"spec":{"online":true}}`)
	bed(ctx).WaitHost(t, ctx, ns, "worker-0", "goes by its spec", func(h *metal3.BareMetalHost) bool { return !h.Status.Record.Deployment.KeepPower })
	bed(ctx).PatchHost(t, ctx, ns, "worker-0", `{"spec":{"online":false}}`)
	bed(ctx).WaitHost(t, ctx, ns, "worker-0", "is off", func(h *metal3.BareMetalHost) bool { return !h.Status.PoweredOn })
}

// TestEtcdRestored: the server's etcd is that of yesterday. Nothing is done to any machine
// before somebody lets the server go on; then each host is judged by what its machine runs.
func TestEtcdRestored(t *testing.T) {
	t.Parallel()
	sim := needsSimulator(t)
	ctx, ns := s.Begin(t)
	// Elsewhere, the Secrets are those of hosts that are not in its etcd, whose claims it would end.
	ctx = onServerOfItsOwn(t, ctx, ns, "--namespaces="+ns)
	createSecretOnce(t, ctx, ns, "bmc")
	name := func(kind string, i int) string { return fmt.Sprintf("%s-%d", kind, i) }
	const each = 5
	kinds := map[string]func(*metal3.BareMetalHost){
		"available": func(*metal3.BareMetalHost) {},
		"same":      wantsImage("http://images/v1.raw"),
		"rolled":    wantsImage("http://images/v1.raw"),
		"undone":    wantsImage("http://images/v1.raw"),
		"external":  func(h *metal3.BareMetalHost) { h.Spec.ExternallyProvisioned = true },
	}
	state := map[string]metal3.ProvisioningState{
		"available": metal3.StateAvailable, "same": metal3.StateProvisioned, "rolled": metal3.StateProvisioned,
		"undone": metal3.StateProvisioned, "external": metal3.StateExternallyProvisioned,
	}
	forEach := func(do func(kind, name string)) {
		for kind := range kinds {
			for i := range each {
				do(kind, name(kind, i))
			}
		}
	}
	forEach(func(kind, name string) {
		b := startBMC(t, ctx)
		if err := b.SetPower(true); err != nil {
			t.Fatal(err)
		}
		createHost(t, ctx, ns, name, b.Address(), "bmc", "", kinds[kind])
	})
	nodes := map[string]string{}
	forEach(func(kind, name string) { nodes[name] = waitState(t, ctx, ns, name, state[kind]).Status.Provisioning.ID })

	backUp(t, ctx, func(data, backup string) {
		if err := os.CopyFS(backup, os.DirFS(data)); err != nil {
			t.Fatal(err)
		}
	})
	// A host that is newer than the backup, with a Secret of its own.
	createSecretOnce(t, ctx, ns, "newer-bmc")
	createHost(t, ctx, ns, "newer", startBMC(t, ctx).Address(), "newer-bmc", "")
	waitState(t, ctx, ns, "newer", metal3.StateAvailable)
	for i := range each {
		bed(ctx).PatchHost(t, ctx, ns, name("rolled", i), `{"spec":{"image":{"url":"http://images/v2.raw"}}}`)
		bed(ctx).PatchHost(t, ctx, ns, name("undone", i), `{"spec":{"image":null}}`)
	}
	for i := range each {
		bed(ctx).WaitHost(t, ctx, ns, name("rolled", i), "runs v2", func(h *metal3.BareMetalHost) bool {
			return h.Status.Provisioning.State == metal3.StateProvisioned && h.Status.Provisioning.Image.URL == "http://images/v2.raw"
		})
		waitState(t, ctx, ns, name("undone", i), metal3.StateAvailable)
	}
	backUp(t, ctx, func(data, backup string) {
		if err := os.RemoveAll(data); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(backup, data); err != nil {
			t.Fatal(err)
		}
	})

	// By the time the server is ready, the garbage collector must have no reason to delete it.
	if kept, err := s.Core.CoreV1().Secrets(ns).Get(ctx, "newer-bmc", metav1.GetOptions{}); err != nil || len(kept.OwnerReferences) > 0 || len(kept.Finalizers) > 0 {
		t.Errorf("the Secret of the host that is missing has the owners %v and the finalizers %v (%v)", kept.OwnerReferences, kept.Finalizers, err)
	}
	if shared, err := s.Core.CoreV1().Secrets(ns).Get(ctx, "bmc", metav1.GetOptions{}); err != nil || len(shared.OwnerReferences) != len(nodes) {
		t.Errorf("the Secret of the other hosts has %d owners (%v), want %d", len(shared.OwnerReferences), err, len(nodes))
	}
	asked := func() map[string]int {
		counts := map[string]int{}
		for name, id := range nodes {
			counts[name] = len(sim.ProvisionTargets(id)) + len(sim.DiskWrites(id))
		}
		return counts
	}
	before := asked()
	forEach(func(_, name string) {
		h := bed(ctx).WaitHost(t, ctx, ns, name, "is held", isHeld(metal3.RestoredReason))
		if !strings.Contains(h.Status.ErrorMessage, "metal3.io/restored") {
			t.Errorf("%s does not say how to go on: %s", name, h.Status.ErrorMessage)
		}
	})
	bed(ctx).PatchHost(t, ctx, ns, name("available", 0), `{"spec":{"image":{"url":"http://images/v1.raw","checksum":"`+strings.Repeat("a", 64)+`","checksumType":"sha256"}}}`)
	forEach(func(_, name string) {
		bed(ctx).WaitHost(t, ctx, ns, name, "is held", isHeld(metal3.RestoredReason))
	})
	if diff := cmp.Diff(before, asked()); diff != "" {
		t.Errorf("Ironic was asked to do something meanwhile:\n%s", diff)
	}

	leases := s.Core.CoordinationV1().Leases(ns)
	if _, err := leases.Patch(ctx, "metal3-apiserver", types.MergePatchType, []byte(`{"metadata":{"annotations":{"metal3.io/restored":null}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	for i := range each {
		waitState(t, ctx, ns, name("same", i), metal3.StateProvisioned)
		waitState(t, ctx, ns, name("external", i), metal3.StateExternallyProvisioned)
		// Their status is about v1, and they run v2.
		rolled := name("rolled", i)
		bed(ctx).WaitHost(t, ctx, ns, rolled, "is held", isHeld(metal3.AnotherDeploymentReason))
		bed(ctx).PatchHost(t, ctx, ns, rolled, `{"spec":{"image":{"url":"http://images/v2.raw"}}}`)
		takeOver(t, ctx, ns, rolled, nodes[rolled])
		waitState(t, ctx, ns, rolled, metal3.StateProvisioned)
	}
	waitState(t, ctx, ns, name("available", 0), metal3.StateProvisioned) // somebody has asked for it
	after := asked()
	for i := range each {
		for _, kind := range []string{"same", "rolled", "external"} {
			if host := name(kind, i); before[host] != after[host] {
				t.Errorf("the machine of %s was touched: %v", host, sim.ProvisionTargets(nodes[host]))
			}
		}
	}
}

// TestEtcdEmptied: a server that had hosts and finds none, such as on a new volume, does not get ready until a person says that it may begin
// without them.
func TestEtcdEmptied(t *testing.T) {
	t.Parallel()
	ctx, ns := s.Begin(t)
	ctx = onServerOfItsOwn(t, ctx, ns, "--namespaces="+ns)
	createSecretOnce(t, ctx, ns, "bmc")
	createHost(t, ctx, ns, "worker-0", "ipmi://192.0.2.1", "bmc", "", func(h *metal3.BareMetalHost) {
		h.Annotations = map[string]string{metal3.PausedAnnotation: ""}
	})
	leases := s.Core.CoordinationV1().Leases(ns)
	annotated := func(annotation string) {
		t.Helper()
		testbed.Eventually(t, ctx, func() string {
			lease, err := leases.Get(ctx, "metal3-apiserver", metav1.GetOptions{})
			if err != nil || lease.Annotations[annotation] == "" {
				return fmt.Sprintf("the Lease has no annotation %s (%v)", annotation, err)
			}
			return ""
		})
	}
	annotated("metal3.io/etcd-count")
	server := bed(ctx).Server
	if _, err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(server.DataDir()); err != nil {
		t.Fatal(err)
	}
	started := make(chan error, 1)
	go func() { started <- server.Start(ctx) }()
	testbed.Eventually(t, ctx, func() string {
		select {
		case err := <-started:
			t.Fatalf("ready without hosts (%v)", err)
		default:
		}
		said, err := bed(ctx).Metal3.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Raw()
		if !strings.Contains(string(said), "[-]etcd-hosts failed") {
			return fmt.Sprintf("it says %q (%v)", said, err)
		}
		return ""
	})
	annotated("metal3.io/restored")
	if log, err := server.Logs(); err != nil || !strings.Contains(log, "Etcd has no hosts any more") {
		t.Errorf("the log does not say why it is not ready (%v)", err)
	}
	if _, err := leases.Patch(ctx, "metal3-apiserver", types.MergePatchType, []byte(`{"metadata":{"annotations":{"metal3.io/restored":null}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := <-started; err != nil {
		t.Fatal(err)
	}
}

func wantsImage(url string) func(*metal3.BareMetalHost) {
	return func(h *metal3.BareMetalHost) {
		h.Spec.Image = &metal3.Image{URL: url, Checksum: strings.Repeat("a", 64), ChecksumType: metal3.SHA256}
	}
}

// backUp stops the server, has do deal with its data and a backup of them, and starts it.
func backUp(t *testing.T, ctx context.Context, do func(data, backup string)) {
	t.Helper()
	if _, err := bed(ctx).Server.Stop(); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(bed(ctx).Server.LogPath)
	do(filepath.Join(dir, "data"), filepath.Join(dir, "backup"))
	if err := bed(ctx).Server.Start(ctx); err != nil {
		t.Fatal(err)
	}
}
