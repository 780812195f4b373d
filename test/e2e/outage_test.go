// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// TestReadsGoOnWithoutIronic: Ironic stopped, or accepting and never answering. What
// was recorded is served nevertheless, with a warning that kubectl prints, the server is
// ready and alive, and the first read after Ironic is back is fresh.
func TestReadsGoOnWithoutIronic(t *testing.T) {
	testbed.OnSimulator(t, "an Ironic that does not answer is the same everywhere")
	for _, outage := range []struct {
		name       string
		begin, end func() error
		says       string
	}{
		{"Stopped", s.ironic.Stop, func() error { return s.ironic.Start(t.Context()) }, "connection refused"},
		{"Hanging", s.ironic.Pause, s.ironic.Resume, "no answer within"},
	} {
		t.Run(outage.name, func(t *testing.T) {
			ctx, ns := s.Begin(t)
			before := fakeHost(t, ctx, ns, "worker-0")
			if err := outage.begin(); err != nil {
				t.Fatal(err)
			}
			over := false
			t.Cleanup(func() {
				if !over {
					_ = outage.end()
				}
			})
			for _, args := range [][]string{
				{"get", "baremetalhost", "worker-0", "-n", ns},
				{"get", "baremetalhosts", "-n", ns},
				{"get", "baremetalhosts", "-n", ns, "-o", "name"},
			} {
				stdout, stderr, err := s.Kube.Kubectl(ctx, "", args...)
				if err != nil || !strings.Contains(stdout, "worker-0") {
					t.Errorf("kubectl %v: %v\n%s", args, err, stdout)
				}
				if !strings.Contains(stderr, "Warning: live status is not available") || !strings.Contains(stderr, outage.says) || !strings.Contains(stderr, "as of 20") {
					t.Errorf("kubectl %v does not warn with %q and a time: %q", args, outage.says, stderr)
				}
			}
			for _, path := range []string{"/readyz", "/livez"} {
				if out, stderr, err := bed(ctx).Server.Direct.Kubectl(ctx, "", "get", "--raw", path); err != nil || out != "ok" {
					t.Errorf("%s: %q %v %s", path, out, err, stderr)
				}
			}
			// Spec writes go on, too.
			bed(ctx).PatchHost(t, ctx, ns, "worker-0", `{"spec":{"description":"written without Ironic"}}`)
			if _, err := bed(ctx).Hosts(ns).List(ctx, metav1.ListOptions{}); err != nil {
				t.Error(err)
			}
			if err := outage.end(); err != nil {
				t.Fatal(err)
			}
			over = true
			if err := bed(ctx).ironic.Operator().SetMaintenance(ctx, before.Status.Provisioning.ID, true, "after the outage"); err != nil {
				t.Fatal(err)
			}
			after := bed(ctx).GetHost(t, ctx, ns, "worker-0")
			if after.Status.Ironic.MaintenanceReason != "after the outage" {
				t.Errorf("the first read after the outage shows %+v", after.Status.Ironic)
			}
		})
	}
}
