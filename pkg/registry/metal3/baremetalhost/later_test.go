// SPDX-License-Identifier: Apache-2.0

package baremetalhost_test

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/baremetalhost"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
	"github.com/metal3-io/metal3-apiserver/test/storetest"
)

// TestLaterRecordIsNotActedOn: no action is carried out on a host that a later version has recorded, because whether its node is its
// own is decided from the record.
func TestLaterRecordIsNotActedOn(t *testing.T) {
	for _, epoch := range []int{metal3.RecordEpoch, metal3.RecordEpoch + 1} {
		o := &oneHost{
			host: newHost("worker-0", func(h *metal3.BareMetalHost) {
				h.Spec.Online, h.Status.Provisioning.ID, h.Status.Record.Epoch = true, "n", epoch
			}),
			node:  &ironic.Node{UUID: "n", ProvisionState: ironic.Active, PowerState: ironic.PowerOn},
			reads: -1, writes: -1,
		}
		sources := baremetalhost.Sources{Hosts: o, Ironic: o.ironic, Nodes: o, Events: enginetest.NoEvents{}}
		power := baremetalhost.NewPowerREST(sources, baremetalhost.HostChangers{User: o, Own: o}, noDataImages{}, noPolicies{}, o.cuts())
		ctx := genericapirequest.WithNamespace(t.Context(), storetest.Namespace)
		requests := map[string]func() error{
			"rebuild": func() error {
				_, err := baremetalhost.NewRebuildREST(sources, o).(rest.NamedCreater).Create(ctx,
					"worker-0", &metal3.HostRebuild{}, rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
				return err
			},
			"hard power-off": func() error {
				_, err := power.(rest.NamedCreater).Create(ctx, "worker-0",
					&metal3.HostPower{Spec: metal3.HostPowerSpec{Action: metal3.PowerActionOff, Mode: metal3.PowerModeHard}}, rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
				return err
			},
			"GET of the power": func() error {
				_, err := power.(rest.Getter).Get(ctx, "worker-0", &metav1.GetOptions{})
				return err
			},
		}
		for name, request := range requests {
			err := request()
			if later := epoch > metal3.RecordEpoch; apierrors.IsServiceUnavailable(err) != later || !later && err != nil && !apierrors.IsConflict(err) { // a host that runs nothing is not rebuilt
				t.Errorf("%s of a host with epoch %d: %v", name, epoch, err)
			}
		}
		record := o.host.Status.Record
		if epoch > metal3.RecordEpoch && (record.PowerCut != nil || !o.host.Spec.Online) {
			t.Errorf("the refused requests have left %+v, online %t", record, o.host.Spec.Online)
		}
	}
}
