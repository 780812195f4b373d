// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/component-base/cli"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/version"
)

const runAsCommand = "METAL3_APISERVER_TEST_COMMAND"

// TestMain runs the command itself if a test has started this binary for that purpose. A process
// can run only one such command, and the tests check its output and its exit code.
func TestMain(m *testing.M) {
	if os.Getenv(runAsCommand) == "" {
		os.Exit(m.Run())
	}
	if err := cli.RunNoErrOutput(NewCommand(genericapiserver.SetupSignalContext())); err != nil {
		fmt.Fprintln(os.Stderr, "metal3-apiserver:", err)
		os.Exit(1)
	}
}

// command runs the command, which must terminate by itself.
func command(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), runAsCommand+"=yes", "IRONIC_ENDPOINT=")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(errs.String(), "\n")
	lines = slices.DeleteFunc(lines, func(line string) bool { return strings.Contains(line, "Data race detection enabled") })
	return out.String(), strings.Join(lines, ""), cmd.ProcessState.ExitCode()
}

func TestHelp(t *testing.T) {
	help, errs, code := command(t, "--help")
	if code != 0 || errs != "" {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	for _, group := range []string{"Ironic", "Storage", "Secure serving", "Authentication", "Authorization", "Auditing", "Admission", "Leader election", "Generic server", "Logs", "Global"} {
		if !strings.Contains(help, "\n"+group+" flags:\n") {
			t.Errorf("the group %q is missing", group)
		}
	}
	for _, flag := range []string{"--ironic-endpoint", "--data-dir", "--etcd-servers", "--secure-port", "--leader-elect", "--version"} {
		if !strings.Contains(help, flag+" ") {
			t.Errorf("the flag %s is missing", flag)
		}
	}
	// The flags that are specific to this server come first.
	if i, j := strings.Index(help, "Ironic flags:"), strings.Index(help, "Secure serving flags:"); i > j {
		t.Error("the flags about Ironic are not the first ones")
	}
}

func TestVersion(t *testing.T) {
	if out, errs, code := command(t, "--version"); code != 0 || errs != "" || out != version.Line("metal3-apiserver")+"\n" {
		t.Errorf("exit code %d: %q, %q", code, out, errs)
	}
}

// TestVersionCommand: the command tells what decides whether two builds, or a build and an Ironic, work together.
func TestVersionCommand(t *testing.T) {
	out, errs, code := command(t, "version")
	for _, part := range []string{version.Line("metal3-apiserver") + "\n", "metal3.io/v1alpha1, ironic.metal3-apiserver.io/v1alpha1\n", fmt.Sprintf(" %d\n", metal3.RecordEpoch), " 1.82 or later"} {
		if code != 0 || errs != "" || !strings.Contains(out, part) {
			t.Errorf("exit code %d: %q, %q; want %q", code, out, errs, part)
		}
	}
	var printed build
	if out, errs, code = command(t, "version", "-o", "json"); code != 0 || errs != "" || json.Unmarshal([]byte(out), &printed) != nil || printed.RecordEpoch != metal3.RecordEpoch {
		t.Errorf("exit code %d: %q, %q", code, out, errs)
	}
	if out, errs, code = command(t, "version", "-o", "yaml"); code != 1 || out != "" || !strings.Contains(errs, "json") {
		t.Errorf("exit code %d: %q, %q", code, out, errs)
	}
}

// TestBadCommandLine checks that errors are printed on standard error as a single line.
func TestBadCommandLine(t *testing.T) {
	for _, test := range []struct {
		args []string
		says string
	}{
		{[]string{"--no-such-flag"}, "--no-such-flag"},
		{[]string{"--metrics-addr=:8443"}, "/metrics is served at --secure-port"},
		{[]string{"--secure-port=many"}, "--secure-port"},
		{[]string{"an-argument"}, "an-argument"},
		{[]string{"--logging-format=poetry"}, "poetry"},
		{[]string{"--feature-gates=NoSuchGate=true"}, "NoSuchGate"},
		{nil, "--data-dir"},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			out, errs, code := command(t, test.args...)
			if code != 1 || out != "" || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, test.says) {
				t.Errorf("exit code %d, standard output %q, standard error %q", code, out, errs)
			}
		})
	}
}
