// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
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

// TestWaitForConditions: kubectl wait, which watches, ends with each condition of a host: with those of a life from its creation to its
// provisioning, and with those of what others do in Ironic.
func TestWaitForConditions(t *testing.T) {
	t.Parallel()
	sim := needsSimulator(t)
	ctx, ns := s.Begin(t)
	const name = "openshift-worker-0"
	await := func(condition string) func() {
		ended := make(chan error, 1)
		go func() {
			_, stderr, err := s.Kube.Kubectl(ctx, "", "wait", "bmh/"+name, "-n", ns, "--for=condition="+condition, "--timeout=5m")
			if err != nil {
				err = fmt.Errorf("%w: %s", err, stderr)
			}
			ended <- err
		}()
		return func() {
			t.Helper()
			if err := <-ended; err != nil {
				t.Errorf("waiting for %s: %v", condition, err)
			}
		}
	}
	yaml := strings.NewReplacer("ADDRESS", startBMC(t, ctx).Address(), "00:ab:4f:d8:9e:fa", testbed.NewMAC()).Replace(workerYAML)
	kubectl(t, ctx, yaml, "create", "-n", ns, "-f", "-")
	var waits []func()
	for _, condition := range []string{"Registered", "IronicReachable", "Manageable", "AvailableForProvisioning", "Progressing=false", "Provisioned=false", "Ready=false"} {
		waits = append(waits, await(condition))
	}
	for _, wait := range waits {
		wait()
	}
	node := settled(t, ctx, ns, name).Status.Provisioning.ID
	past := func(fields map[string]any) { // the server
		t.Helper()
		if err := sim.SetNode(node, fields); err != nil {
			t.Fatal(err)
		}
	}
	wait := await("InMaintenance")
	past(map[string]any{"maintenance": true, "maintenance_reason": "a fan is broken"})
	wait()
	past(map[string]any{"maintenance": false, "maintenance_reason": nil})
	wait = await("Held")
	past(map[string]any{"instance_uuid": "11111111-2222-4333-8444-555555555555"}) // a reservation
	bed(ctx).PatchHost(t, ctx, ns, name, wantImage)
	wait()
	waits = []func(){await("Provisioned"), await("Ready")}
	past(map[string]any{"instance_uuid": nil})
	for _, wait := range waits {
		wait()
	}
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
