// SPDX-License-Identifier: Apache-2.0

package baremetalhost_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

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

// faulty is an Ironic with a node at fault, which refuses maintenance as often as refused says.
type faulty struct {
	*oneHost
	refused   int
	refusal   error
	cleared   func()
	maintains bool
}

func (f *faulty) ironic(*metal3.BareMetalHost) (baremetalhost.Ironic, error) { return f, nil }

func (f *faulty) ClearMaintenance(context.Context, ironic.Fence, string) error {
	f.maintains = false
	f.cleared()
	return nil
}

func (f *faulty) SetMaintenance(ctx context.Context, _ ironic.Fence, _, _ string) error {
	if f.refused > 0 {
		f.refused--
		return f.refusal
	}
	f.maintains = ctx.Err() == nil
	return ctx.Err()
}

// TestMaintenanceAtFault: who asks for the maintenance of a node that Ironic has in one for a fault gets it, although a conductor has the node
// locked when the other one has ended, or the client goes away. If Ironic refuses it then, nobody is told that nothing was done.
func TestMaintenanceAtFault(t *testing.T) {
	locked := &ironic.APIError{Status: http.StatusConflict, Op: "test", Message: "Node n is locked by host conductor-0, please retry after the current operation is completed."}
	for name, test := range map[string]struct {
		refused int
		refusal error
		leaves  bool
		fails   string
	}{
		"at once":         {},
		"locked":          {refused: 3, refusal: locked},
		"the client goes": {refused: 3, refusal: locked, leaves: true},
		"locked for ever": {refused: 1000, refusal: locked, fails: "locked by host"},
		"refused":         {refused: 1000, refusal: &ironic.APIError{Status: http.StatusBadRequest, Op: "test", Message: "no"}, fails: "no"},
		"not logged in":   {refused: 1000, refusal: &ironic.APIError{Status: http.StatusUnauthorized, Op: "test", Message: "no token"}, fails: "has ended"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, leave := context.WithCancel(genericapirequest.WithNamespace(t.Context(), storetest.Namespace))
				defer leave()
				f := &faulty{refused: test.refused, refusal: test.refusal, maintains: true, cleared: func() {
					if test.leaves {
						leave()
					}
				}, oneHost: &oneHost{
					host:  newHost("worker-0", func(h *metal3.BareMetalHost) { h.Status.Provisioning.ID = "n" }),
					node:  &ironic.Node{UUID: "n", ProvisionState: ironic.Available, Maintenance: true, Fault: ironic.FaultPowerFailure},
					reads: -1, writes: -1,
				}}
				sources := baremetalhost.Sources{Hosts: f, Ironic: f.ironic, Nodes: f, Events: enginetest.NoEvents{}}
				request := &metal3.HostMaintenance{Spec: metal3.HostMaintenanceSpec{Action: metal3.MaintenanceActionOn, Reason: "a disk is replaced"}}
				_, err := baremetalhost.NewMaintenanceREST(sources).(rest.NamedCreater).Create(ctx, "worker-0", request, rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
				if f.maintains != (test.fails == "") {
					t.Errorf("it is in maintenance: %t, after %v", f.maintains, err)
				}
				if test.fails == "" {
					return
				}
				if !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), test.fails) || !strings.Contains(err.Error(), "has not begun") || strings.Contains(err.Error(), "nothing was done") {
					t.Errorf("says %v", err)
				}
			})
		})
	}
}
