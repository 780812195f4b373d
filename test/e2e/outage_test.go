// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// TestReadsGoOnWithoutIronic: Ironic stopped, or accepting and never answering. What
// was recorded is served nevertheless, with a warning that kubectl prints,
// and the first read after Ironic is back is fresh.
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

// TestNodeThatIronicCannotShow: a column of one node is damaged in Ironic's database, so that Ironic answers 500 to each list that has
// it. All other hosts are live, and the one says what is wrong.
func TestNodeThatIronicCannotShow(t *testing.T) {
	testbed.OnSimulator(t, "a damaged database is the same everywhere")
	ctx, ns := s.Begin(t)
	ctx, sim := onSimulatorOfItsOwn(t, ctx, ns, ironicsim.Options{})
	damaged := fakeHost(t, ctx, ns, "damaged").Status.Provisioning.ID
	observedHost(t, ctx, ns, "other")
	sim.SetFaults(ironicsim.Faults{Unreadable: []string{damaged}})
	for _, reason := range []string{"first", "second", "third"} {
		if err := sim.SetNode(ns+"~other", map[string]any{"maintenance": true, "maintenance_reason": reason}); err != nil {
			t.Fatal(err)
		}
		list, err := bed(ctx).Hosts(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(list.Items, func(h metal3.BareMetalHost) bool { return h.Name == "other" })
		if node := list.Items[i].Status.Ironic; node == nil || node.MaintenanceReason != reason {
			t.Errorf("LIST shows %+v of the other host, Ironic says %q", node, reason)
		}
	}
	for name, want := range map[string]string{"": "HTTP 500", "damaged": "HTTP 500", "other": ""} {
		hosts, heard := readerOfWarnings(t, ctx)
		var err error
		if name == "" {
			_, err = hosts.Metal3V1alpha1().BareMetalHosts(ns).List(ctx, metav1.ListOptions{})
		} else {
			_, err = hosts.Metal3V1alpha1().BareMetalHosts(ns).Get(ctx, name, metav1.GetOptions{})
		}
		if said := strings.Join(heard.text, " "); err != nil || !strings.Contains(said, want) || (want == "") != (said == "") {
			t.Errorf("a read of host %q: %v, with the warning %q, want %q", name, err, said, want)
		}
	}
	// Whoever watches it is told a while later.
	bed(ctx).WaitHost(t, ctx, ns, "damaged", "says that its node cannot be read", func(h *metal3.BareMetalHost) bool {
		c := meta.FindStatusCondition(h.Status.Conditions, metal3.IronicReachableCondition)
		return h.Status.Provisioning.ID == damaged && c != nil && strings.Contains(c.Message, "reading the node of this host fails: HTTP 500")
	})
	sim.SetFaults(ironicsim.Faults{})
	bed(ctx).WaitHost(t, ctx, ns, "damaged", "is read again", func(h *metal3.BareMetalHost) bool {
		return meta.IsStatusConditionTrue(h.Status.Conditions, metal3.IronicReachableCondition)
	})
}
