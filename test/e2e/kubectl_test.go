// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"regexp"
	"strings"
	"testing"

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
