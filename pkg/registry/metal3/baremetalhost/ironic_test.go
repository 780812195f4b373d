// SPDX-License-Identifier: Apache-2.0

package baremetalhost_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/baremetalhost"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
	"github.com/metal3-io/metal3-apiserver/test/storetest"
)

// movesWhenWritten is an etcd in which a host has its node in another Ironic as soon as a user has written it.
type movesWhenWritten struct{ *oneHost }

func (m movesWhenWritten) Change(ctx context.Context, namespace, name string, dryRun bool, change func(*metal3.BareMetalHost) error) (*metal3.BareMetalHost, error) {
	written, err := m.oneHost.Change(ctx, storetest.Namespace, name, dryRun, change)
	m.host.Status.Record.Ironic = "room-b"
	return written, err
}

// TestActionOnHostThatMovesWhenItIsWritten: what an action has written into a host is undone also if the host has its node
// in another Ironic by then.
func TestActionOnHostThatMovesWhenItIsWritten(t *testing.T) {
	for name, test := range map[string]struct {
		request runtime.Object
		asked   bool // whether Ironic is asked before it is noticed
	}{
		"inspect": {request: &metal3.HostInspection{}},
		"power":   {request: &metal3.HostPower{Spec: metal3.HostPowerSpec{Action: metal3.PowerActionOff, Mode: metal3.PowerModeHard}}, asked: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := &oneHost{
					host:  newHost("worker-0", func(h *metal3.BareMetalHost) { h.Spec.Online, h.Status.Provisioning.ID = true, "n" }),
					node:  &ironic.Node{UUID: "n", ProvisionState: ironic.Available, PowerState: ironic.PowerOn},
					reads: -1, writes: -1, answer: &ironic.APIError{Status: 400, Op: "test", Message: "the machine is sealed"},
				}
				sources := baremetalhost.Sources{Hosts: o, Ironic: o.ironic, Nodes: o, Events: enginetest.NoEvents{}}
				changers := baremetalhost.HostChangers{User: movesWhenWritten{o}, Own: o}
				action := baremetalhost.NewInspectREST(sources, changers)
				if _, is := test.request.(*metal3.HostPower); is {
					action = baremetalhost.NewPowerREST(sources, changers, noDataImages{}, noPolicies{}, o.cuts())
				}
				ctx := genericapirequest.WithNamespace(t.Context(), storetest.Namespace)
				_, err := action.(rest.NamedCreater).Create(ctx, "worker-0", test.request, rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
				if !apierrors.IsConflict(err) || strings.Contains(err.Error(), "sealed") != test.asked {
					t.Errorf("error %v", err)
				}
				if o.host.Generation < 2 || !o.host.Spec.Online || len(o.host.Annotations) > 0 || o.host.Status.Record.PowerCut != nil {
					t.Errorf("not undone: generation %d, online %t, annotations %v, power cut %v", o.host.Generation, o.host.Spec.Online, o.host.Annotations, o.host.Status.Record.PowerCut)
				}
			})
		})
	}
}

// replacedWhenWritten is an etcd in which a host is replaced by another one of the same name as soon as a user has written it.
type replacedWhenWritten struct{ *oneHost }

func (r replacedWhenWritten) Change(ctx context.Context, namespace, name string, dryRun bool, change func(*metal3.BareMetalHost) error) (*metal3.BareMetalHost, error) {
	written, err := r.oneHost.Change(ctx, storetest.Namespace, name, dryRun, change)
	r.host = r.host.DeepCopy()
	r.host.UID = "another"
	return written, err
}

// TestInspectionOfReplacedHost: an inspection does not begin because of an annotation of a host that has the same name.
func TestInspectionOfReplacedHost(t *testing.T) {
	o := &oneHost{
		host:  newHost("worker-0", func(h *metal3.BareMetalHost) { h.Status.Provisioning.ID = "n" }),
		node:  &ironic.Node{UUID: "n", ProvisionState: ironic.Available},
		reads: -1, writes: -1, answer: errors.New("not to be asked"),
	}
	sources := baremetalhost.Sources{Hosts: o, Ironic: o.ironic, Nodes: o, Events: enginetest.NoEvents{}}
	action := baremetalhost.NewInspectREST(sources, baremetalhost.HostChangers{User: replacedWhenWritten{o}, Own: o})
	_, err := action.(rest.NamedCreater).Create(genericapirequest.WithNamespace(t.Context(), storetest.Namespace), "worker-0", &metal3.HostInspection{}, rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "another host has its name") {
		t.Errorf("error %v", err)
	}
	if _, kept := o.host.Annotations[metal3.InspectAnnotation]; !kept {
		t.Error("the other host was changed")
	}
}
