// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"strings"
	"testing"
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"k8s.io/apimachinery/pkg/api/meta"
)

// TestWaitForLateRequestIsTold: who waits for a deployment to begin sees why it does not, and until when.
func TestWaitForLateRequestIsTold(t *testing.T) {
	host, node := provisionedBy()
	host = observed(host, node)
	Ask(host, provision(ironic.TargetDeleted, metal3.ProvisioningError), false, now)
	host.Status.Record.Asked.Times = 2
	host.Status.Provisioning.State, host.Status.Ironic.ProvisionState = metal3.StateProvisioning, string(ironic.Available)
	Render(host, now.Add(time.Minute))
	want := "nothing is deployed before " + now.Add(metal3.AskedLimit).UTC().Format(time.RFC3339)
	if c := meta.FindStatusCondition(host.Status.Conditions, metal3.ProgressingCondition); c == nil || !strings.Contains(c.Message, want) {
		t.Errorf("the condition Progressing is %+v", c)
	}
}

// TestAsked: for how long a request counts as one that may still be carried out.
func TestAsked(t *testing.T) {
	undeploy := provision(ironic.TargetDeleted, metal3.ProvisioningError)
	again := now.Add(30 * time.Second)
	for name, test := range map[string]struct {
		then func(host *metal3.BareMetalHost)
		seen func(node *ironic.Node)
		at   time.Duration
		want int // times
	}{
		"nothing is seen of it":          {want: 1},
		"minutes later":                  {at: 3 * time.Minute, want: 1},
		"long ago":                       {at: metal3.AskedLimit + time.Second, want: 0},
		"carried out":                    {seen: func(n *ironic.Node) { n.ProvisionState, n.ProvisionUpdatedAt = ironic.Deleting, &again }, want: 0},
		"lost, and created again":        {then: func(h *metal3.BareMetalHost) { h.Status, _ = Observe(h, Observation{}, again) }, seen: func(n *ironic.Node) { n.ProvisionState, n.ProvisionUpdatedAt = ironic.Enroll, &again }, want: 2},
		"another node":                   {seen: func(n *ironic.Node) { n.UUID = "another" }, want: 0},
		"asked again":                    {then: func(h *metal3.BareMetalHost) { Ask(h, undeploy, false, again) }, want: 2},
		"asked again after a refusal":    {then: func(h *metal3.BareMetalHost) { Ask(h, undeploy, true, again) }, want: 1},
		"asked three times":              {then: func(h *metal3.BareMetalHost) { Ask(h, undeploy, false, again); Ask(h, undeploy, false, again) }, want: 2},
		"asked again, one carried out":   {then: func(h *metal3.BareMetalHost) { Ask(h, undeploy, false, again) }, seen: func(n *ironic.Node) { n.ProvisionState, n.ProvisionUpdatedAt = ironic.Deleting, &again }, want: 2},
		"asked again, and that long ago": {then: func(h *metal3.BareMetalHost) { Ask(h, undeploy, false, again) }, at: metal3.AskedLimit + time.Minute, want: 0},
	} {
		host, node := provisionedBy()
		host = observed(host, node)
		if !Ask(host, undeploy, false, now) {
			t.Fatal("not recorded")
		}
		if Ask(host.DeepCopy(), undeploy, true, now.Add(50*time.Second)) {
			t.Error("the same is written again, 50 s after it was refused")
		}
		if test.then != nil {
			test.then(host)
		}
		if test.seen != nil {
			test.seen(node)
		}
		status, _ := Observe(host, Observation{Node: node}, now.Add(test.at))
		got := 0
		if status.Record.Asked != nil {
			got = status.Record.Asked.Times
		}
		if got != test.want {
			t.Errorf("%s: asked for %d times, want %d", name, got, test.want)
		}
	}
}
