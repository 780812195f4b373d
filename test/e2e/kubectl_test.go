// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// kubectl runs kubectl as an administrator and wants it to succeed.
func kubectl(t *testing.T, ctx context.Context, stdin string, args ...string) string {
	t.Helper()
	stdout, stderr, err := s.Kube.Kubectl(ctx, stdin, args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s%s", strings.Join(args, " "), err, stdout, stderr)
	}
	return stdout
}

// TestWhatUsersType are the commands and outputs of the lab guides.
func TestWhatUsersType(t *testing.T) {
	testbed.OnSimulator(t, "this is about kubectl")
	t.Parallel()
	ctx, ns := s.Begin(t)
	b := startBMC(t, ctx)
	out := kubectl(t, ctx, strings.ReplaceAll(workerYAML, "ADDRESS", b.Address()), "create", "-n", ns, "-f", "-")
	for _, want := range []string{"secret/openshift-worker-0-bmc-secret created", "baremetalhost.metal3.io/openshift-worker-0 created"} {
		if !strings.Contains(out, want) {
			t.Errorf("create prints %q, want %q in it", out, want)
		}
	}
	waitAvailable(t, ctx, ns, "openshift-worker-0")
	bed(ctx).PatchHost(t, ctx, ns, "openshift-worker-0", `{"spec":{"consumerRef":{"name":"ostest-worker-0","kind":"Machine"}}}`)
	host := settled(t, ctx, ns, "openshift-worker-0")

	lines := strings.Split(kubectl(t, ctx, "", "get", "baremetalhosts", "-n", ns), "\n")
	if want := `^NAME +STATUS +PROVISIONING STATUS +CONSUMER +BMC +HARDWARE PROFILE +ONLINE +ERROR +AGE *$`; !regexp.MustCompile(want).MatchString(lines[0]) {
		t.Errorf("header is %q", lines[0])
	}
	if want := `^openshift-worker-0 +OK +available +ostest-worker-0 +` + regexp.QuoteMeta(b.Address()) + ` +unknown +true +[0-9]+s`; !regexp.MustCompile(want).MatchString(lines[1]) {
		t.Errorf("line is %q", lines[1])
	}
	lines = strings.Split(kubectl(t, ctx, "", "get", "bmh", "-n", ns, "-o", "wide"), "\n")
	if want := ` POWERED ON +IRONIC STATE +PROGRESS +NODE UUID +BOOT MAC +IRONIC *$`; !regexp.MustCompile(want).MatchString(lines[0]) {
		t.Errorf("wide header is %q", lines[0])
	}
	if want := ` true +manageable +` + host.Status.Provisioning.ID + ` +00:ab:4f:d8:9e:fa *$`; !regexp.MustCompile(want).MatchString(lines[1]) {
		t.Errorf("wide line is %q", lines[1])
	}

	for _, selector := range []string{
		"metadata.name=openshift-worker-0", "status.provisioning.state=available", "status.operationalStatus=OK", "status.poweredOn=true",
		"spec.online=true", "spec.bmc.address=" + b.Address(), "spec.consumerRef.name=ostest-worker-0",
	} {
		if out := kubectl(t, ctx, "", "get", "bmhost", "-n", ns, "-o", "name", "--field-selector", selector); strings.TrimSpace(out) != "baremetalhost.metal3.io/openshift-worker-0" {
			t.Errorf("--field-selector %s finds %q", selector, out)
		}
		other := strings.NewReplacer("=true", "=false", "=false", "=true", "=OK", "=error").Replace(selector + "x")
		if out := kubectl(t, ctx, "", "get", "bmhost", "-n", ns, "-o", "name", "--field-selector", strings.TrimSuffix(other, "x")+"-not"); out != "" {
			t.Errorf("--field-selector %s finds %q", other, out)
		}
	}
	kubectl(t, ctx, "", "label", "bmh", "openshift-worker-0", "-n", ns, "rack=7")
	if out := kubectl(t, ctx, "", "get", "bmh", "-n", ns, "-l", "rack=7", "-o", "name"); !strings.Contains(out, "openshift-worker-0") {
		t.Errorf("-l rack=7 finds %q", out)
	}
	if out := kubectl(t, ctx, "", "get", "bmh", "openshift-worker-0", "-n", ns, "-o", "jsonpath={.status.provisioning.ID}"); out != host.Status.Provisioning.ID {
		t.Errorf("jsonpath gives %q", out)
	}
	kubectl(t, ctx, "", "wait", "bmh/openshift-worker-0", "-n", ns, "--for=jsonpath={.status.operationalStatus}=OK", "--timeout=5m")
	for _, condition := range []string{"Registered", "Manageable", "AvailableForProvisioning"} {
		kubectl(t, ctx, "", "wait", "bmh/openshift-worker-0", "-n", ns, "--for=condition="+condition, "--timeout=5m")
	}
	second := `{"apiVersion":"metal3.io/v1alpha1","kind":"BareMetalHost","metadata":{"name":"openshift-worker-0"},"spec":{"online":false}}`
	if _, stderr, err := s.Kube.Kubectl(ctx, second, "apply", "--server-side", "--field-manager=second", "-n", ns, "-f", "-"); err == nil || !strings.Contains(stderr, "conflict") || !strings.Contains(stderr, ".spec.online") {
		t.Errorf("server-side apply of another manager's field: %v %s", err, stderr)
	}
	kubectl(t, ctx, "", "delete", "bmh", "openshift-worker-0", "-n", ns, "--timeout=5m")
}

const workerYAML = `
apiVersion: v1
kind: Secret
metadata: {name: openshift-worker-0-bmc-secret}
type: Opaque
data: {username: YWRtaW4=, password: cGFzc3dvcmQ=}
---
apiVersion: metal3.io/v1alpha1
kind: BareMetalHost
metadata: {name: openshift-worker-0}
spec:
  online: true
  bmc:
    address: ADDRESS
    credentialsName: openshift-worker-0-bmc-secret
  bootMACAddress: 00:ab:4f:d8:9e:fa
  inspectionMode: disabled
  automatedCleaningMode: disabled
`

func TestExplain(t *testing.T) {
	testbed.OnSimulator(t, "this is about kubectl")
	t.Parallel()
	ctx, _ := s.Begin(t)
	for path, want := range map[string]string{
		"baremetalhost":                     "GROUP:      metal3.io",
		"baremetalhost.spec.bmc":            "credentialsName",
		"baremetalhost.spec.bmc.address":    "DESCRIPTION",
		"baremetalhost.status.ironic":       "reservation",
		"baremetalhost.status.hardware.cpu": "clockMegahertz",
	} {
		out := kubectl(t, ctx, "", "explain", path)
		if !strings.Contains(out, want) || strings.Contains(out, "<empty>") || strings.Contains(out, "__internal") {
			t.Errorf("explain %s lacks %q:\n%s", path, want, out)
		}
	}
}

func TestValidationSpeaksToKubectl(t *testing.T) {
	testbed.OnSimulator(t, "this is about kubectl")
	t.Parallel()
	ctx, ns := s.Begin(t)
	for name, c := range map[string]struct{ spec, want string }{
		"bad scheme":     {`{"online":true,"bmc":{"address":"ilo4://192.0.2.1","credentialsName":"x"}}`, "spec.bmc.address"},
		"bad mac":        {`{"online":true,"bootMACAddress":"nonsense"}`, "spec.bootMACAddress"},
		"misspelt field": {`{"online":true,"bootMacAdress":"00:00:00:00:00:01"}`, `unknown field "spec.bootMacAdress"`},
	} {
		_, stderr, err := s.Kube.Kubectl(ctx, `{"apiVersion":"metal3.io/v1alpha1","kind":"BareMetalHost","metadata":{"name":"h"},"spec":`+c.spec+`}`, "create", "-n", ns, "-f", "-")
		if err == nil || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: %v %q, want %q", name, err, stderr, c.want)
		}
	}
}

// TestGetWatch: -w and --watch-only print a line for each change that Ironic shows.
func TestGetWatch(t *testing.T) {
	testbed.OnSimulator(t, "this is about kubectl")
	t.Parallel()
	for _, args := range [][]string{{"-w"}, {"--watch-only"}, {"-w", "worker-0", "-o", "wide"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			ctx, ns := s.Begin(t)
			host := fakeHost(t, ctx, ns, "worker-0")
			watchCtx, cancel := context.WithCancel(ctx)
			defer cancel()
			settled(t, ctx, ns, "worker-0")
			cmd := s.Kube.Admin.KubectlCommand(watchCtx, append([]string{"get", "bmh", "-n", ns}, args...)...)
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { cancel(); _ = cmd.Wait() }()
			lines := make(chan string)
			go func() {
				defer close(lines)
				for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
					select {
					case lines <- scanner.Text():
					case <-watchCtx.Done():
						return
					}
				}
			}()
			next := func(want string) {
				t.Helper()
				for {
					select {
					case line, open := <-lines:
						if !open {
							t.Fatalf("kubectl ended before %q", want)
						}
						if strings.Contains(line, want) {
							return
						}
					case <-watchCtx.Done():
						t.Fatalf("no line with %q", want)
					}
				}
			}
			if args[0] == "-w" {
				next("worker-0")
			} else {
				// Nothing tells from outside that a --watch-only has begun but its first event.
				go touchUntil(watchCtx, ns)
				next("worker-0")
			}
			// Somebody has Ironic take the node for deployed, and the host follows.
			if err := bed(ctx).ironic.Operator().Provision(ctx, host.Status.Provisioning.ID, "adopt"); err != nil {
				t.Fatal(err)
			}
			next(string(metal3.StateProvisioned))
		})
	}
}

// touchUntil annotates the host again and again until ctx ends.
func touchUntil(ctx context.Context, ns string) {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			_, _, _ = s.Kube.Kubectl(ctx, "", "annotate", "bmh", "worker-0", "-n", ns, "--overwrite", "touched="+now.Format("150405.000"))
		case <-ctx.Done():
			return
		}
	}
}
