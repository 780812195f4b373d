// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"strings"
	"testing"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// TestRequestClean: only a machine that runs nothing, and is proven to be the host's, is cleaned on request.
func TestRequestClean(t *testing.T) {
	held := func(h *metal3.BareMetalHost) { SetHold(h, Step{Reason: metal3.RestoredReason, Message: "a backup"}) }
	elsewhere := nodeIn(ironic.Manageable, func(n *ironic.Node) { n.Address.IPMIAddress = "192.0.2.9" })
	requested := func(h *metal3.BareMetalHost) { h.Status.Record.RequestedClean = &metal3.RequestedClean{} }
	for name, test := range map[string]struct {
		host hostOption
		node *ironic.Node
		want string // in the refusal
	}{
		"available":          {},
		"available, cleaned": {node: nodeIn(ironic.Available)},
		"provisioned":        {host: withState(metal3.StateProvisioned), node: nodeIn(ironic.Active), want: "provisioned"},
		"external":           {host: externallyProvisioned, want: "only an available host"},
		"paused":             {host: annotated(metal3.PausedAnnotation, ""), want: "paused"},
		"to be detached":     {host: annotated(metal3.DetachedAnnotation, ""), want: "detached"},
		"requested already":  {host: requested, want: "has not ended"},
		"held":               {host: held, want: "a backup"},
		"another BMC":        {node: elsewhere, want: "left alone"},
		"maintenance":        {node: nodeIn(ironic.Manageable, fault("")), want: "maintenance"},
		"being cleaned":      {node: nodeIn(ironic.Cleaning), want: "cleaning"},
	} {
		host, node := newHost(withState(metal3.StateAvailable), prepared), test.node
		if test.host != nil {
			test.host(host)
		}
		if node == nil {
			node = nodeIn(ironic.Manageable)
		}
		err := RequestClean(host, node, []metal3.CleanStep{{Interface: "deploy", Step: "erase_devices"}}, now)
		if isRefused := err != nil; isRefused != (test.want != "") || isRefused && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
		if begins := host.Status.Provisioning.State == metal3.StatePreparing; begins != (test.want == "") {
			t.Errorf("%s: the host is %s", name, host.Status.Provisioning.State)
		}
	}
}
