// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	plugin "github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/app"
	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// bmh runs kubectl bmh as an administrator in a namespace.
func bmh(ctx context.Context, ns, stdin string, args ...string) (code int, stdout, stderr string) {
	var out, errOut bytes.Buffer
	args = append([]string{"--kubeconfig=" + s.Kube.Admin.Kubeconfig, "--namespace=" + ns}, args...)
	code = plugin.Run(ctx, args, genericiooptions.IOStreams{In: strings.NewReader(stdin), Out: &out, ErrOut: &errOut})
	return code, out.String(), errOut.String()
}

// mustBMH wants it to succeed.
func mustBMH(t *testing.T, ctx context.Context, ns, stdin string, args ...string) string {
	t.Helper()
	code, stdout, stderr := bmh(ctx, ns, stdin, args...)
	if code != 0 {
		t.Fatalf("kubectl bmh %s: exit code %d\n%s%s", strings.Join(args, " "), code, stdout, stderr)
	}
	return stdout
}

// TestPlugin is the way of a new user: an inventory with a mistake, hosts that become available,
// one whose BMC does not answer, and the power.
func TestPlugin(t *testing.T) {
	testbed.OnSimulator(t, "this is about the plugin")
	t.Parallel()
	ctx, ns := s.Begin(t)
	good := startBMC(t, ctx)
	inventory := fmt.Sprintf(`name,address,username,password,bootMACAddress,inspectionMode,automatedCleaningMode,labels
good,%s,admin,password,00:00:5e:00:53:01,disabled,disabled,rack=7
silent,ipmi://127.0.0.1:9,admin,password,00:00:5e:00:53:02,disabled,disabled,rack=7
wrong,nonsense://127.0.0.1,admin,password,00:00:5e:00:53:03,disabled,disabled,
`, good.Address())

	code, stdout, stderr := bmh(ctx, ns, inventory, "create", "-f", "-")
	if code != 1 || !strings.Contains(stderr, "line 4: wrong: spec.bmc.address") || !strings.Contains(stderr, "2 of 3 hosts applied") {
		t.Fatalf("create: exit code %d\n%s%s", code, stdout, stderr)
	}
	if !strings.Contains(stdout, "secret/good-bmc-secret serverside-applied\nbaremetalhost.metal3.io/good serverside-applied\n") {
		t.Errorf("create prints %q", stdout)
	}

	if out := mustBMH(t, ctx, ns, "", "wait", "good", "--for", "available", "--timeout", "60s"); out != "baremetalhost.metal3.io/good is available\n" {
		t.Errorf("wait prints %q", out)
	}
	code, _, stderr = bmh(ctx, ns, "", "wait", "silent", "--for", "available", "--error-grace", "0s", "--timeout", "60s")
	if code != 2 || !strings.Contains(stderr, "silent cannot be available until this is solved") {
		t.Errorf("wait for a host whose BMC is silent: exit code %d, %q", code, stderr)
	}
	out := mustBMH(t, ctx, ns, "", "why", "silent")
	if !strings.Contains(out, "silent is being registered") || !strings.Contains(out, "kubectl bmh retry silent") {
		t.Errorf("why prints %q", out)
	}

	out = mustBMH(t, ctx, ns, "", "-l", "rack=7", "--sort", "problem")
	lines := strings.Split(out, "\n")
	if !strings.HasPrefix(lines[0], "NAME") || !strings.HasPrefix(lines[1], "silent  registering") || !strings.HasPrefix(lines[2], "good    available") {
		t.Errorf("the list is\n%s", out)
	}

	s.WaitHost(t, ctx, ns, "good", "is on", func(h *metal3.BareMetalHost) bool { return h.Status.PoweredOn })
	if out := mustBMH(t, ctx, ns, "", "power", "off", "good", "--mode", "hard", "--dry-run=server"); !strings.Contains(out, "good power off requested (server dry run)") {
		t.Errorf("the dry run prints %q", out)
	}
	isOn(t, good, true)
	out = mustBMH(t, ctx, ns, "", "power", "off", "good", "--mode", "hard", "--wait", "--timeout", "60s")
	if out != "baremetalhost.metal3.io/good power off requested\nbaremetalhost.metal3.io/good is off\n" {
		t.Errorf("power off prints %q", out)
	}
	isOn(t, good, false)
	if host := bed(ctx).GetHost(t, ctx, ns, "good"); host.Spec.Online {
		t.Error("spec.online is true after power off")
	}
	if out := mustBMH(t, ctx, ns, "", "retry", "silent"); !strings.Contains(out, "baremetalhost.metal3.io/silent retried") {
		t.Errorf("retry prints %q", out)
	}

	// An inventory can be applied again, and does not switch on what was switched off since.
	corrected := strings.ReplaceAll(inventory, "wrong,nonsense", "third,ipmi")
	if _, _, stderr = bmh(ctx, ns, corrected, "create", "-f", "-"); !strings.Contains(stderr, "3 of 3 hosts applied") {
		t.Errorf("create again: %q", stderr)
	}
	if host := bed(ctx).GetHost(t, ctx, ns, "good"); host.Labels["rack"] != "7" || host.Status.Provisioning.State != metal3.StateAvailable || host.Spec.Online {
		t.Errorf("the host is %s with the labels %v, online %t", host.Status.Provisioning.State, host.Labels, host.Spec.Online)
	}

	// What is not given stays, also if it was given before; and so does the password of a host that is refused.
	create := func(address, password string, args ...string) int {
		code, _, _ := bmh(ctx, ns, password, append([]string{"create", "good", "--address", address, "--username", "admin", "--password-file", "-"}, args...)...)
		return code
	}
	if code := create(good.Address(), "password", "--labels", "row=b"); code != 0 {
		t.Errorf("create with a label: exit code %d", code)
	}
	if code := create("ipmi://192.0.2.77", "another"); code != 1 {
		t.Errorf("create of another machine under the name: exit code %d", code)
	}
	host := bed(ctx).GetHost(t, ctx, ns, "good")
	if host.Labels["rack"] != "7" || host.Labels["row"] != "b" || host.Spec.BootMACAddress == "" || host.Spec.AutomatedCleaningMode != metal3.CleaningModeDisabled || host.Spec.Online {
		t.Errorf("the host has the labels %v, and the spec %+v", host.Labels, host.Spec)
	}
	secret, err := bed(ctx).Core.CoreV1().Secrets(ns).Get(ctx, "good-bmc-secret", metav1.GetOptions{})
	if err != nil || string(secret.Data["password"]) != "password" {
		t.Errorf("the Secret is %v, %v", secret, err)
	}
}

// TestPluginWithoutRights: errors are those of the server, also for a live view.
func TestPluginWithoutRights(t *testing.T) {
	testbed.OnSimulator(t, "this is about the plugin")
	t.Parallel()
	ctx, ns := s.Begin(t)
	for _, args := range [][]string{{}, {"watch"}, {"wait", "x", "--for", "available"}, {"power", "on", "x"}} {
		code, stdout, stderr := bmh(ctx, ns, "", append(args, "--as=nobody")...)
		if code != 1 || !strings.Contains(stderr, "Error from server (Forbidden): ") || stdout != "" {
			t.Errorf("%q: exit code %d, %q %q", args, code, stdout, stderr)
		}
	}
}

// TestPluginAdopts: a node that somebody has deployed in Ironic is a candidate, and becomes a host that
// goes on running.
func TestPluginAdopts(t *testing.T) {
	testbed.OnSimulator(t, "this is about the plugin")
	t.Parallel()
	ctx, ns := s.Begin(t)
	b := startBMC(t, ctx)
	host := runningHost(t, ctx, ns, "first", b)
	uuid := host.Status.Provisioning.ID
	if out := mustBMH(t, ctx, ns, "", "candidates", "-o", "name"); strings.Contains(out, uuid) {
		t.Errorf("the node of a host is a candidate:\n%s", out)
	}
	// A detached host has no node; the node that is made past the server has the name of another host.
	bed(ctx).DeleteHost(t, ctx, ns, "first")
	waitGone(t, ctx, ns, "first")
	name := "adopted-" + ns
	address := strings.TrimPrefix(b.Address(), "ipmi://")
	bmcHost, port, _ := strings.Cut(address, ":")
	node, err := bed(ctx).ironic.Operator().CreateNode(ctx, map[string]any{
		"name": name, "driver": "ipmi",
		"driver_info": map[string]any{"ipmi_address": bmcHost, "ipmi_port": port, "ipmi_username": "admin", "ipmi_password": "password"},
	})
	if err != nil {
		t.Fatal(err)
	}
	out := mustBMH(t, ctx, ns, "", "candidates")
	if !strings.Contains(out, node.UUID) || !strings.Contains(out, name) || !strings.Contains(out, b.Address()) || strings.Contains(out, "password") {
		t.Errorf("the candidates are\n%s", out)
	}
	if out := kubectl(t, ctx, "", "get", "candidates", node.UUID); !strings.Contains(out, name) {
		t.Errorf("kubectl get candidates prints\n%s", out)
	}
	if code, _, stderr := bmh(ctx, ns, "", "candidates", "--as=nobody"); code != 1 || !strings.Contains(stderr, "Forbidden") {
		t.Errorf("candidates as nobody: exit code %d, %q", code, stderr)
	}
	if code, _, stderr := bmh(ctx, ns, "password\n", "adopt", name, "--name", "other", "--username", "admin", "--password-file", "-"); code != 1 || !strings.Contains(stderr, "must be called "+name) {
		t.Errorf("adopt under another name: exit code %d, %q", code, stderr)
	}
	mustBMH(t, ctx, ns, "password\n", "adopt", name, "--username", "admin", "--password-file", "-", "--boot-mac", "00:00:5e:00:53:77")
	bed(ctx).PatchHost(t, ctx, ns, name, `{"spec":{"inspectionMode":"disabled"}}`)
	adopted := waitAvailable(t, ctx, ns, name)
	if adopted.Status.Provisioning.ID != node.UUID {
		t.Errorf("the host has the node %s, want %s", adopted.Status.Provisioning.ID, node.UUID)
	}
	if out := mustBMH(t, ctx, ns, "", "candidates", "-o", "name"); strings.Contains(out, node.UUID) {
		t.Errorf("the node is a candidate after it was adopted:\n%s", out)
	}
}

// TestPluginMaintenance: what a person does with a machine that is being repaired.
func TestPluginMaintenance(t *testing.T) {
	testbed.OnSimulator(t, "this is about the plugin")
	t.Parallel()
	ctx, ns := s.Begin(t)
	fakeHost(t, ctx, ns, "worker-0")
	if out := mustBMH(t, ctx, ns, "", "maintenance", "on", "worker-0", "--reason", "a fan is broken"); !strings.Contains(out, "baremetalhost.metal3.io/worker-0 maintenance on") {
		t.Errorf("maintenance on prints %q", out)
	}
	if out := mustBMH(t, ctx, ns, ""); !strings.Contains(out, "in maintenance: ") || !strings.Contains(out, "a fan is broken") {
		t.Errorf("the list is\n%s", out)
	}
	if out := mustBMH(t, ctx, ns, "", "why", "worker-0"); !strings.Contains(out, "Somebody has set the node to maintenance") {
		t.Errorf("why prints\n%s", out)
	}
	mustBMH(t, ctx, ns, "", "maintenance", "off", "worker-0")
	mustBMH(t, ctx, ns, "", "wait", "worker-0", "--for", "ok", "--timeout", "30s")
	if code, _, stderr := bmh(ctx, ns, "", "rebuild", "worker-0"); code != 1 || !strings.Contains(stderr, "Conflict") {
		t.Errorf("rebuild of an available host: exit code %d, %q", code, stderr)
	}
	mustBMH(t, ctx, ns, "", "history", "worker-0")
}

// TestPluginConsole types into a console through a pipe, as scripts do.
func TestPluginConsole(t *testing.T) {
	ctx, ns := s.Begin(t)
	_, b := startMachineWithConsole(t, ctx)
	runningHost(t, ctx, ns, "worker-0", b)
	code, stdout, stderr := bmh(ctx, ns, "root\r", "console", "worker-0")
	if code != 0 || !strings.Contains(stdout, "ROOT") || !strings.Contains(stderr, "left the console") {
		t.Errorf("exit code %d\n%q\n%q", code, stdout, stderr)
	}
	if code, _, stderr := bmh(ctx, ns, "", "console", "no-such"); code != 1 || !strings.Contains(stderr, "not found") {
		t.Errorf("no host: exit code %d, %q", code, stderr)
	}
}
