// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// kubectlShell runs kubectl in the namespace of a test, as an administrator.
type kubectlShell struct {
	t   *testing.T
	ctx context.Context
	ns  string
}

// newShell gives a test that runs beside others a namespace and a kubectl in it.
func newShell(t *testing.T) kubectlShell {
	t.Parallel()
	ctx, ns := s.Begin(t)
	return kubectlShell{t: t, ctx: ctx, ns: ns}
}

// in is the same shell for a subtest.
func (k kubectlShell) in(t *testing.T) kubectlShell {
	k.t = t
	return k
}

// run returns what kubectl said and its exit code.
func (k kubectlShell) run(stdin string, args ...string) (stdout, stderr string, code int) {
	k.t.Helper()
	cmd := s.Kube.Admin.KubectlCommand(k.ctx, append([]string{"-n", k.ns}, args...)...)
	var out, errOut bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errOut
	err := cmd.Run()
	if cmd.ProcessState == nil || k.ctx.Err() != nil {
		k.t.Fatalf("kubectl %s: %v, %v", strings.Join(args, " "), err, k.ctx.Err())
	}
	return out.String(), errOut.String(), cmd.ProcessState.ExitCode()
}

// ok is what kubectl printed, without the newline at the end. It has to succeed
// and to print no warnings.
func (k kubectlShell) ok(stdin string, args ...string) string {
	k.t.Helper()
	stdout, stderr, code := k.run(stdin, args...)
	// kubectl's own log, in which a watch that kubectl has ended is one that "ended with error", is no warning.
	if code != 0 || strings.HasPrefix(stderr, "Warning:") || strings.Contains(stderr, "\nWarning:") {
		k.t.Fatalf("kubectl %s: exit code %d: %s%s", strings.Join(args, " "), code, stdout, stderr)
	}
	return strings.TrimSuffix(stdout, "\n")
}

// refused is what kubectl says on stderr when it fails, which must have all of wants.
func (k kubectlShell) refused(stdin string, args []string, wants ...string) {
	k.t.Helper()
	stdout, stderr, code := k.run(stdin, args...)
	if code == 0 {
		k.t.Fatalf("kubectl %s succeeded: %s", strings.Join(args, " "), stdout)
	}
	for _, want := range wants {
		if !strings.Contains(stderr, want) {
			k.t.Errorf("kubectl %s says %q, want %q", strings.Join(args, " "), stderr, want)
		}
	}
}

// prints compares what kubectl prints.
func (k kubectlShell) prints(want, stdin string, args ...string) {
	k.t.Helper()
	if got := k.ok(stdin, args...); got != want {
		k.t.Errorf("kubectl %s prints %q, want %q", strings.Join(args, " "), got, want)
	}
}

// field is a field of a host, as jsonpath prints it.
func (k kubectlShell) field(host, path string) string {
	k.t.Helper()
	return k.ok("", "get", "bmh", host, "-o", "jsonpath={"+path+"}")
}

// create makes hosts that nobody but the test writes: they have no BMC, and their
// status says so.
func (k kubectlShell) create(names ...string) {
	k.t.Helper()
	var all []string
	for _, name := range names {
		all = append(all, hostYAML(name, "online: true"))
	}
	k.ok(strings.Join(all, "---\n"), "create", "-f", "-")
	k.settled(names...)
}

// settled waits until the status of hosts without a BMC is written.
func (k kubectlShell) settled(names ...string) {
	k.t.Helper()
	args := []string{"wait", "--for=jsonpath={.status.provisioning.state}=unmanaged", "--timeout=5m"}
	for _, name := range names {
		args = append(args, "bmh/"+name)
	}
	k.ok("", args...)
}

// file writes a script or manifest for kubectl.
func (k kubectlShell) file(name, content string) string {
	k.t.Helper()
	path := filepath.Join(k.t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o700); err != nil {
		k.t.Fatal(err)
	}
	return path
}

// available makes a host with a BMC, and waits until it can be provisioned and is
// on. The simulated machines take a moment for what real ones take minutes.
func (k kubectlShell) available(name string) {
	k.t.Helper()
	k.ok("", "create", "secret", "generic", name+"-bmc", "--from-literal=username=admin", "--from-literal=password=password")
	k.ok(managedHostYAML(name), "create", "-f", "-")
	k.ok("", "wait", "bmh/"+name, "--for=condition=AvailableForProvisioning", "--timeout=5m")
	k.ok("", "wait", "bmh/"+name, "--for=jsonpath={.status.poweredOn}=true", "--timeout=5m")
}

// managedHostYAML is a host with a BMC, whose credentials are in the Secret NAME-bmc.
func managedHostYAML(name string) string {
	address := s.ironic.NewBMC("admin", "password")
	port, _ := strconv.Atoi(address[strings.LastIndex(address, ":")+1:])
	mac := fmt.Sprintf("52:54:00:c7:%02x:%02x", port>>8, port&0xff) // no two hosts may have the same
	return hostYAML(name, fmt.Sprintf("online: true, bootMACAddress: '%s', inspectionMode: disabled, automatedCleaningMode: disabled, bmc: {address: '%s', credentialsName: %s-bmc}", mac, address, name))
}

// hostYAML is a host with a spec in YAML's flow style.
func hostYAML(name, spec string) string {
	return fmt.Sprintf("apiVersion: metal3.io/v1alpha1\nkind: BareMetalHost\nmetadata: {name: %s}\nspec: {%s}\n", name, spec)
}

// cleanupContext is for what is left to do when the context of a test has ended.
func cleanupContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), testbed.Patience)
}
