package e2e

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	plugin "github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/app"
	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
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

	if out := mustBMH(t, ctx, ns, "", "power", "off", "good", "--mode", "hard", "--dry-run=server"); !strings.Contains(out, "good power off requested (server dry run)") {
		t.Errorf("the dry run prints %q", out)
	}
	isOn(t, good, true)
	out = mustBMH(t, ctx, ns, "", "power", "off", "good", "--mode", "hard", "--wait", "--timeout", "60s")
	if out != "baremetalhost.metal3.io/good power off requested\nbaremetalhost.metal3.io/good is off\n" {
		t.Errorf("power off prints %q", out)
	}
	isOn(t, good, false)
	if host := getHost(t, ctx, ns, "good"); host.Spec.Online {
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
	if host := getHost(t, ctx, ns, "good"); host.Labels["rack"] != "7" || host.Status.Provisioning.State != metal3.StateAvailable || host.Spec.Online {
		t.Errorf("the host is %s with the labels %v, online %t", host.Status.Provisioning.State, host.Labels, host.Spec.Online)
	}
}

// TestPluginWithoutRights: errors are those of the server, also for a live view.
func TestPluginWithoutRights(t *testing.T) {
	ctx, ns := s.Begin(t)
	for _, args := range [][]string{{}, {"watch"}, {"wait", "x", "--for", "available"}, {"power", "on", "x"}} {
		code, stdout, stderr := bmh(ctx, ns, "", append(args, "--as=nobody")...)
		if code != 1 || !strings.Contains(stderr, "Error from server (Forbidden): ") || stdout != "" {
			t.Errorf("%q: exit code %d, %q %q", args, code, stdout, stderr)
		}
	}
}
