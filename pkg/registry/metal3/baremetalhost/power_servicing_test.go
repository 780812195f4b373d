// SPDX-License-Identifier: Apache-2.0

package baremetalhost_test

import (
	"context"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/baremetalhost"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
	"github.com/metal3-io/metal3-apiserver/test/storetest"
)

// onReboot has a policy for each host that permits changes of its BIOS settings at a reboot.
type onReboot struct{}

func (onReboot) Get(context.Context, string, string) (*metal3.HostUpdatePolicy, error) {
	return &metal3.HostUpdatePolicy{Spec: metal3.HostUpdatePolicySpec{FirmwareSettings: metal3.UpdateOnReboot}}, nil
}

// A provisioned host whose settings may be changed at a reboot is neither rebooted nor switched on by
// the action itself: the controller does that, and changes the settings on the way.
func TestPowerOfHostServicedAtReboot(t *testing.T) {
	for _, test := range []struct {
		action metal3.PowerAction
		power  ironic.PowerState
		says   string
	}{
		{metal3.PowerActionReboot, ironic.PowerOn, "by way of the annotation reboot.metal3.io"},
		{metal3.PowerActionOn, ironic.PowerOff, "when the changes have been made"},
	} {
		o := &oneHost{
			host: newHost("worker-0", func(h *metal3.BareMetalHost) {
				h.Spec.Online = test.power == ironic.PowerOn
				h.Status.Provisioning.ID, h.Status.Provisioning.State = "n", metal3.StateProvisioned
			}),
			node:  &ironic.Node{UUID: "n", ProvisionState: ironic.Active, PowerState: test.power},
			reads: -1, writes: -1,
		}
		sources := baremetalhost.Sources{Hosts: o, Ironic: neverSwitched{o, t}.ironic, Nodes: o, Events: enginetest.NoEvents{}}
		action := baremetalhost.NewPowerREST(sources, baremetalhost.HostChangers{User: o, Own: o}, noDataImages{}, onReboot{}, o.cuts())
		request := &metal3.HostPower{Spec: metal3.HostPowerSpec{Action: test.action, Mode: metal3.PowerModeHard}}
		answer, err := action.(rest.NamedCreater).Create(genericapirequest.WithNamespace(t.Context(), storetest.Namespace), "worker-0", request, rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if status := answer.(*metal3.HostPower).Status; !strings.Contains(status.Message, test.says) {
			t.Errorf("%s: the answer is %+v", test.action, status)
		}
		if got := o.host.Annotations[metal3.RebootAnnotation]; !o.host.Spec.Online || (got == `{"mode":"hard"}`) != (test.action == metal3.PowerActionReboot) {
			t.Errorf("%s: spec.online is %v, the annotation %q", test.action, o.host.Spec.Online, got)
		}
	}
}
