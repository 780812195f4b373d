// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// room is another Ironic behind the server, with the machines of a room.
type room struct {
	*simulated
	name string
}

// openRoom starts an Ironic, and has kubectl create an IronicInstance for it, whose hosts are those of the namespaces with the label
// room=NAME. It is deleted with the test.
func openRoom(t *testing.T, ctx context.Context, name string) room {
	t.Helper()
	sim, err := startSimulated(ironicsim.Options{Username: "metal3", Password: "of-" + name})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sim.Close() })
	namespace := testbed.Namespace
	s.CreateSecret(t, ctx, namespace, name, map[string]string{"username": "metal3", "password": "of-" + name})
	t.Cleanup(func() {
		_ = s.Core.CoreV1().Secrets(namespace).Delete(context.WithoutCancel(ctx), name, metav1.DeleteOptions{})
	})
	kubectl(t, ctx, fmt.Sprintf(`
apiVersion: ironic.metal3-apiserver.io/v1alpha1
kind: IronicInstance
metadata:
  name: %[1]s
spec:
  endpoint: %[2]s
  credentialsName: %[1]s
  namespaceSelector:
    matchLabels: {room: %[1]s}
`, name, sim.URL()), "create", "-f", "-")
	t.Cleanup(func() {
		_, _, _ = s.Kube.Kubectl(context.WithoutCancel(ctx), "", "delete", "ironicinstances", name)
	})
	return room{sim, name}
}

// newBMC adds a machine to the room. Its address is not that of a machine of the other simulated Ironic.
func (r room) newBMC(n int) (bmc simulatedBMC, address string) {
	address = fmt.Sprintf("ipmi://127.0.1.%d:%d", n, 10000+n)
	r.AddBMC(address, "admin", "password")
	return simulatedBMC{r.BMC(address), address}, address
}

func (r room) operator() *testbed.Operator {
	return &testbed.Operator{Endpoint: r.URL(), User: "metal3", Password: "of-" + r.name}
}

// TestSeveralIronics: the machines of two rooms behind one API. Each host is that of its own Ironic, live, and acted upon in it;
// one Ironic away is one Ironic away.
func TestSeveralIronics(t *testing.T) {
	testbed.OnSimulator(t, "the further Ironic is a simulated one in any case")
	ctx, ns := s.Begin(t)
	east := openRoom(t, ctx, "east")
	inEast := s.NewNamespace(t, ctx)
	kubectl(t, ctx, "", "label", "namespace", inEast, "room=east")

	// A host of each.
	createSecret(t, ctx, ns, "bmc", "admin", "password")
	createSecret(t, ctx, inEast, "bmc", "admin", "password")
	here := startBMC(t, ctx)
	createHost(t, ctx, ns, "here", here.Address(), "bmc", "")
	machine, address := east.newBMC(1)
	createHost(t, ctx, inEast, "there", address, "bmc", "")
	home := waitAvailable(t, ctx, ns, "here")
	there := waitAvailable(t, ctx, inEast, "there")
	if home.Status.Record.Ironic != "" || there.Status.Record.Ironic != "east" {
		t.Errorf("the hosts are in %q and %q", home.Status.Record.Ironic, there.Status.Record.Ironic)
	}
	if home.Status.Ironic.Instance != "" || there.Status.Ironic.Instance != "east" {
		t.Errorf("the hosts show that they are in %q and %q", home.Status.Ironic.Instance, there.Status.Ironic.Instance)
	}
	if out := kubectl(t, ctx, "", "get", "baremetalhosts", "-A", "-o", "name", "--field-selector", "status.ironic.instance=east"); strings.TrimSpace(out) != "baremetalhost.metal3.io/there" {
		t.Errorf("the hosts in the other room are %q", out)
	}
	if out := kubectl(t, ctx, "", "get", "baremetalhosts", "-n", inEast, "-o", "wide"); !regexp.MustCompile(`(?m) east *$`).MatchString(out) {
		t.Errorf("the wide list of the other room:\n%s", out)
	}
	if out := mustBMH(t, ctx, inEast, "", "ironics"); !strings.Contains(out, "east has answered") || !strings.Contains(out, "1 host has its node in it: 1 available.") {
		t.Errorf("kubectl bmh ironics:\n%s", out)
	}
	if _, err := east.operator().Node(ctx, there.Status.Provisioning.ID); err != nil {
		t.Errorf("the node of the host in the other room: %v", err)
	}
	if _, err := s.ironic.Operator().Node(ctx, there.Status.Provisioning.ID); !testbed.IsNotFound(err) {
		t.Errorf("the Ironic of the flags has the node of the other room, too: %v", err)
	}
	isOn(t, machine, true)

	// What the Ironics say now, and what they do.
	if err := east.operator().SetMaintenance(ctx, there.Status.Provisioning.ID, true, "of the other room"); err != nil {
		t.Fatal(err)
	}
	if got := s.GetHost(t, ctx, inEast, "there").Status.Ironic; got == nil || got.MaintenanceReason != "of the other room" {
		t.Errorf("the host in the other room shows %+v", got)
	}
	if err := east.operator().SetMaintenance(ctx, there.Status.Provisioning.ID, false, ""); err != nil {
		t.Fatal(err)
	}
	kubectl(t, ctx, `{"spec":{"action":"off","mode":"hard"}}`, "create", "--raw", "/apis/metal3.io/v1alpha1/namespaces/"+inEast+"/baremetalhosts/there/power", "-f", "-")
	s.WaitHost(t, ctx, inEast, "there", "is off", func(h *metal3.BareMetalHost) bool { return !h.Status.PoweredOn })
	isOn(t, machine, false)
	if out := kubectl(t, ctx, "", "get", "ironicinstances", "east"); !strings.Contains(out, "True") {
		t.Errorf("kubectl get ironicinstances:\n%s", out)
	}

	// A host that is registered stays, whatever the labels say.
	kubectl(t, ctx, "", "label", "namespace", inEast, "room-")
	s.PatchHost(t, ctx, inEast, "there", `{"spec":{"online":true}}`)
	s.WaitHost(t, ctx, inEast, "there", "is on", func(h *metal3.BareMetalHost) bool { return h.Status.PoweredOn && isAtRest(h) })

	// One room is away.
	if err := east.Pause(); err != nil {
		t.Fatal(err)
	}
	stdout, stderr, err := s.Kube.Kubectl(ctx, "", "get", "baremetalhosts", "-A")
	if err != nil {
		t.Error(err)
	}
	if !strings.Contains(stdout, "here") || !strings.Contains(stdout, "there") || strings.Count(stderr, "Warning:") != 1 || !strings.Contains(stderr, `IronicInstance "east"`) {
		t.Errorf("a list with one Ironic away:\n%s%s", stdout, stderr)
	}
	_, stderr, err = s.Kube.Kubectl(ctx, "", "get", "baremetalhost", "there", "-n", inEast)
	if err != nil || !strings.Contains(stderr, `IronicInstance "east"`) {
		t.Errorf("a host of the Ironic that is away: %v %q", err, stderr)
	}
	reachable := `jsonpath={.metadata.resourceVersion} {.status.conditions[?(@.type=="IronicReachable")].message}`
	if out, _, err := s.Kube.Kubectl(ctx, "", "get", "baremetalhost", "there", "-n", inEast, "-o", reachable); err != nil || !strings.Contains(out, "Ironic cannot be asked") && !strings.Contains(out, "has not answered since") {
		t.Errorf("the condition of a host of the Ironic that is away: %v %q", err, out)
	}
	if out := mustBMH(t, ctx, inEast, "", "why", "there"); !strings.Contains(out, "Ironic east has not answered") {
		t.Errorf("kubectl bmh why:\n%s", out)
	}
	for _, what := range []string{"baremetalhost/here", "baremetalhosts"} {
		if _, stderr, err = s.Kube.Kubectl(ctx, "", "get", what, "-n", ns); err != nil || stderr != "" {
			t.Errorf("%s in a namespace of the Ironic that answers: %v %q", what, err, stderr)
		}
	}
	s.PatchHost(t, ctx, ns, "here", `{"spec":{"online":false}}`)
	s.WaitHost(t, ctx, ns, "here", "is off", func(h *metal3.BareMetalHost) bool { return !h.Status.PoweredOn })
	if out := kubectl(t, ctx, "", "get", "ironicinstances", "east"); !strings.Contains(out, "False") {
		t.Errorf("kubectl get ironicinstances while it hangs:\n%s", out)
	}
	if out := mustBMH(t, ctx, inEast, "", "ironics"); !strings.Contains(out, "east has not answered") || !strings.Contains(out, "nothing is done for it until Ironic answers") {
		t.Errorf("kubectl bmh ironics while it hangs:\n%s", out)
	}
	if all := metrics(t, ctx); !strings.Contains(all, `metal3_ironic_observation_age_seconds{ironic=""}`) || !strings.Contains(all, `metal3_ironic_observation_age_seconds{ironic="east"}`) {
		t.Error("the metrics do not tell the Ironics apart")
	}
	if err := east.Resume(); err != nil {
		t.Fatal(err)
	}

	// It goes when its hosts have gone.
	if _, stderr, err := s.Kube.Kubectl(ctx, "", "delete", "ironicinstances", "east"); err == nil || !strings.Contains(stderr, "1 host") {
		t.Errorf("deleting an instance with a host: %v %s", err, stderr)
	}
	s.DeleteHost(t, ctx, inEast, "there")
	waitGone(t, ctx, inEast, "there")
	if nodes, err := east.operator().Nodes(ctx); err != nil || len(nodes) != 0 {
		t.Errorf("nodes of the other room: %v %v", nodes, err)
	}
	kubectl(t, ctx, "", "delete", "ironicinstances", "east")
	testbed.Eventually(t, ctx, func() string {
		for line := range strings.Lines(metrics(t, ctx)) {
			if strings.Contains(line, `ironic="east"`) {
				return "there is still " + line
			}
		}
		return ""
	})
}

// TestTransfer: the hosts of a room are moved to another Ironic while their machines run, and back.
func TestTransfer(t *testing.T) {
	testbed.OnSimulator(t, "the further Ironic is a simulated one in any case")
	ctx, ns := s.Begin(t)
	west := openRoom(t, ctx, "west")
	createSecret(t, ctx, ns, "bmc", "admin", "password")
	here := startBMC(t, ctx)
	createHost(t, ctx, ns, "worker-0", here.Address(), "bmc", "")
	spare := startBMC(t, ctx)
	createHost(t, ctx, ns, "worker-1", spare.Address(), "bmc", "")
	waitAvailable(t, ctx, ns, "worker-0")
	waitAvailable(t, ctx, ns, "worker-1")
	s.PatchHost(t, ctx, ns, "worker-0", wantImage)
	before := s.WaitHost(t, ctx, ns, "worker-0", "is provisioned", func(h *metal3.BareMetalHost) bool {
		return h.Status.Provisioning.State == metal3.StateProvisioned && isAtRest(h)
	})
	// Both Ironics reach the same machines.
	machines := map[string]simulatedBMC{}
	for name, address := range map[string]string{"worker-0": here.Address(), "worker-1": spare.Address()} {
		west.AddBMC(address, "admin", "password")
		machines[name] = simulatedBMC{west.BMC(address), address}
		machines[name].BMC.SetPower("power on")
	}
	arrived := func(name, ironic string) *metal3.BareMetalHost {
		t.Helper()
		return s.WaitHost(t, ctx, ns, name, "is at rest in Ironic "+ironic, func(h *metal3.BareMetalHost) bool {
			d := h.Status.Record.Deployment
			return h.Status.Record.Ironic == ironic && h.Status.Record.Transfer == nil && isAtRest(h) && (d == nil || !d.MayAdopt)
		})
	}
	transfer := func(args ...string) (int, string, string) {
		t.Helper()
		return bmh(ctx, ns, "", append([]string{"transfer"}, args...)...)
	}

	// What is refused, and what is only checked.
	if code, _, stderr := transfer("worker-0", "--to", "nowhere"); code != 1 || !strings.Contains(stderr, `IronicInstance "nowhere" does not exist`) {
		t.Errorf("to no Ironic: exit code %d, %s", code, stderr)
	}
	if code, out, stderr := transfer("worker-0", "--to", "west", "--dry-run=server"); code != 0 || !strings.Contains(out, "server dry run") {
		t.Errorf("dry run: exit code %d, %s%s", code, out, stderr)
	}
	if got := s.GetHost(t, ctx, ns, "worker-0"); got.Status.Record.Transfer != nil || got.Status.Record.Ironic != "" {
		t.Errorf("after a dry run: %+v", got.Status.Record)
	}
	if _, stderr, err := s.Kube.Kubectl(ctx, `{"spec":{}}`, "create", "--raw", "/apis/metal3.io/v1alpha1/namespaces/"+ns+"/baremetalhosts/worker-0/transfer", "-f", "-"); err == nil || !strings.Contains(stderr, "spec.ironic") {
		t.Errorf("a transfer to an Ironic that is not named: %v %s", err, stderr)
	}

	// There, while the machines run.
	code, out, stderr := transfer("--all", "--to", "west", "--yes", "--wait", "--timeout", "1m")
	if code != 0 {
		t.Fatalf("exit code %d: %s%s", code, out, stderr)
	}
	t.Logf("%s", out)
	for _, name := range []string{"worker-0", "worker-1"} {
		host := arrived(name, "west")
		if _, err := west.operator().Node(ctx, host.Status.Provisioning.ID); err != nil {
			t.Errorf("the node of %s: %v", name, err)
		}
		if _, err := s.ironic.Operator().Node(ctx, host.Status.Provisioning.ID); !testbed.IsNotFound(err) {
			t.Errorf("the node of %s is in the Ironic of the flags, too: %v", name, err)
		}
		if writes, cuts := machines[name].DiskWrites(), machines[name].PowerCuts(); len(writes) != 0 || cuts != 0 {
			t.Errorf("the machine of %s was not left alone: %v, %d power cuts", name, writes, cuts)
		}
		isOn(t, machines[name], true)
	}
	after := s.GetHost(t, ctx, ns, "worker-0")
	if after.Status.Provisioning.State != metal3.StateProvisioned || after.Status.Provisioning.ID != before.Status.Provisioning.ID || after.Status.Ironic.InstanceUUID != before.Status.Ironic.InstanceUUID {
		t.Errorf("after the move: %+v", after.Status)
	}
	if out := kubectl(t, ctx, "", "get", "ironicinstances", "west"); !strings.Contains(out, "2") {
		t.Errorf("kubectl get ironicinstances:\n%s", out)
	}
	if out := kubectl(t, ctx, "", "get", "events", "-n", ns, "--field-selector", "involvedObject.name=worker-0"); !strings.Contains(out, "TransferRequested") || !strings.Contains(out, "Transferred") {
		t.Errorf("events:\n%s", out)
	}
	t.Logf("%s", kubectl(t, ctx, "", "get", "events", "-n", ns, "--field-selector", "involvedObject.name=worker-0"))

	// And back, so that the room can be closed.
	if code, out, stderr := transfer("worker-0", "worker-1", "--to", ""); code != 0 {
		t.Fatalf("exit code %d: %s%s", code, out, stderr)
	}
	for _, name := range []string{"worker-0", "worker-1"} {
		arrived(name, "")
	}
	kubectl(t, ctx, "", "delete", "ironicinstances", "west")
}
