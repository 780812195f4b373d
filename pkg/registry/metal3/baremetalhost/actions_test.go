// SPDX-License-Identifier: Apache-2.0

package baremetalhost_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/baremetalhost"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
	"github.com/metal3-io/metal3-apiserver/test/storetest"
)

// oneHost is an etcd with one host, which may hang, and an Ironic with its node.
type oneHost struct {
	baremetalhost.Ironic // what the tests do not ask
	host                 *metal3.BareMetalHost
	node                 *ironic.Node
	// written are the versions of the host that were written.
	written []*metal3.BareMetalHost
	// reads and writes are how many requests etcd answers before it hangs; -1 is all.
	reads, writes int
	// deleted is set when, instead, the host is gone by then.
	deleted bool
	// answer is what Ironic answers to each change.
	answer error
	// after is the node as it is observed after an action, and observed why that was not recorded.
	after    *ironic.Node
	observed error
	// unproven is why that one may not be shown.
	unproven string
	// nodeReads is how often the node was read.
	nodeReads int
}

// etcd is what a request of which some are left gets.
func (o *oneHost) etcd(ctx context.Context, left *int) error {
	switch {
	case *left != 0:
		*left--
		return nil
	case o.deleted:
		return apierrors.NewNotFound(metal3.Resource("baremetalhosts"), o.host.Name)
	}
	<-ctx.Done()
	return ctx.Err()
}

func (o *oneHost) Get(ctx context.Context, _, _ string) (*metal3.BareMetalHost, error) {
	if err := o.etcd(ctx, &o.reads); err != nil {
		return nil, err
	}
	return o.host.DeepCopy(), nil
}

func (o *oneHost) Change(ctx context.Context, _, _ string, _ bool, change func(*metal3.BareMetalHost) error) (*metal3.BareMetalHost, error) {
	if err := o.etcd(ctx, &o.writes); err != nil {
		return nil, err
	}
	host := o.host.DeepCopy()
	if err := change(host); err != nil {
		return nil, err
	}
	host.Generation++
	if host.Spec.Online != o.host.Spec.Online {
		lifecycle.CountOnline(host) // as the strategy does
	}
	o.host, o.written = host, append(o.written, host)
	return host.DeepCopy(), nil
}

func (o *oneHost) Record(ctx context.Context, host *metal3.BareMetalHost) (*metal3.BareMetalHost, error) {
	if err := o.etcd(ctx, &o.writes); err != nil {
		return nil, err
	}
	o.host = host.DeepCopy()
	o.written = append(o.written, o.host)
	return host, nil
}

func (o *oneHost) cuts() baremetalhost.PowerCuts {
	return baremetalhost.PowerCuts{Hosts: o, Recorder: o}
}

func (o *oneHost) ironic(*metal3.BareMetalHost) (baremetalhost.Ironic, error) { return o, nil }

func (o *oneHost) GetNode(ctx context.Context, _ string) (*ironic.Node, error) {
	mustBeGuarded(ctx)
	o.nodeReads++
	return o.node, nil
}

func (o *oneHost) SwitchPower(ctx context.Context, fence ironic.Fence, _ string, target ironic.PowerTarget) (ironic.PowerTarget, string, error) {
	mustBeGuarded(ctx)
	if err := fence.Check(); err != nil { // as the client does
		return "", "", err
	}
	return target, "", o.answer
}

func (o *oneHost) SetProvisionState(ctx context.Context, fence ironic.Fence, _ string, _ ironic.ProvisionTarget, _ ironic.ProvisionOptions) error {
	mustBeGuarded(ctx)
	if err := fence.Check(); err != nil { // as the client does
		return err
	}
	return o.answer
}

func (o *oneHost) WhyUnproven(_ context.Context, _ *metal3.BareMetalHost, node *ironic.Node) (string, error) {
	if node == o.after {
		return o.unproven, nil
	}
	return "", nil
}

func (*oneHost) WhyUnconfirmable(context.Context, *metal3.BareMetalHost, *ironic.Node) (string, error) {
	return "", nil
}

func (o *oneHost) ObserveNode(context.Context, *metal3.BareMetalHost) (*ironic.Node, error) {
	o.nodeReads++
	return o.after, o.observed
}

func (*oneHost) RedactPassword(context.Context, *metal3.BareMetalHost, *ironic.Node) error {
	return nil
}

// guarded marks the contexts from Guard. An error of Ironic's may have a password in it without one.
type guarded struct{}

func (*oneHost) Guard(ctx context.Context, _ *metal3.BareMetalHost) context.Context {
	return context.WithValue(ctx, guarded{}, true)
}

func mustBeGuarded(ctx context.Context) {
	if ctx.Value(guarded{}) == nil {
		panic("Ironic is asked without Guard")
	}
}

// TestActionsWithHungEtcd: an action ends though etcd hangs, at whatever point, and
// tells what is known then.
func TestActionsWithHungEtcd(t *testing.T) {
	off := func() runtime.Object {
		return &metal3.HostPower{Spec: metal3.HostPowerSpec{Action: metal3.PowerActionOff, Mode: metal3.PowerModeHard}}
	}
	soft := func() runtime.Object {
		return &metal3.HostPower{Spec: metal3.HostPowerSpec{Action: metal3.PowerActionOff, Mode: metal3.PowerModeSoft}}
	}
	on := func() runtime.Object {
		return &metal3.HostPower{Spec: metal3.HostPowerSpec{Action: metal3.PowerActionOn}}
	}
	inspect := func() runtime.Object { return &metal3.HostInspection{} }
	refused := &ironic.APIError{Status: 400, Op: "test", Message: "the machine is sealed"}
	tests := []struct {
		name          string
		request       func() runtime.Object
		reads, writes int
		deleted       bool
		kept          bool // the machine is left on although spec.online is false
		answer        error
		code          int32
		says          []string
		retry         bool // with Retry-After
	}{
		{name: "no host, power", request: off, deleted: true, code: 404, says: []string{"not found"}},
		{name: "no host, inspect", request: inspect, deleted: true, code: 404, says: []string{"not found"}},
		{name: "power, nothing read", request: off, code: 503, says: []string{"cannot be read from etcd", "nothing was done"}, retry: true},
		{name: "inspect, nothing read", request: inspect, code: 503, says: []string{"cannot be read from etcd", "nothing was done"}, retry: true},
		{name: "power, not written", request: off, reads: -1, writes: 1, code: 504, says: []string{"etcd did not confirm the change"}},
		{name: "inspect, not written", request: inspect, reads: -1, code: 504, says: []string{"etcd did not confirm the change"}},
		{name: "power, a hard one not recorded", request: off, reads: -1, writes: 0, code: 504, says: []string{"etcd did not confirm the change"}},
		{name: "power, not put back", request: off, reads: -1, writes: 2, answer: refused, code: 500, says: []string{"the machine is sealed", "spec.online could not be set back to true"}},
		{name: "power of a machine that is left on, not taken back", request: soft, kept: true, reads: -1, writes: 1, answer: refused, code: 500, says: []string{"the machine is sealed", "may be switched off, because this could not be taken back"}},
		{name: "power on of one, not put back", request: on, kept: true, reads: -1, writes: 2, answer: refused, code: 500, says: []string{"the machine is sealed", "spec.online could not be set back to false"}},
		{name: "inspect, not put back", request: inspect, reads: -1, writes: 1, answer: refused, code: 500, says: []string{"the machine is sealed", "inspect.metal3.io could not be removed"}},
		{name: "inspect, deleted meanwhile", request: inspect, deleted: true, reads: 1, writes: 1, code: 404, says: []string{"not found"}},
		{name: "power, deleted before it is put back", request: off, deleted: true, reads: 2, writes: 2, answer: refused, code: 409, says: []string{"the machine is sealed"}},
		{name: "power, an error of no known kind", request: off, reads: -1, writes: -1, answer: errors.New("odd"), code: 503, says: []string{"odd", "spec.online is false now"}, retry: true},
		{name: "inspect, never manageable", request: inspect, reads: -1, writes: -1, code: 504, says: []string{"no answer in time", "begins if it has not yet"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := &oneHost{
					host:  newHost("worker-0", func(h *metal3.BareMetalHost) { h.Spec.Online, h.Status.Provisioning.ID = true, "n" }),
					node:  &ironic.Node{UUID: "n", ProvisionState: ironic.Available, PowerState: ironic.PowerOn},
					reads: test.reads, writes: test.writes, deleted: test.deleted, answer: test.answer,
				}
				if test.kept {
					o.host.Spec.Online, o.host.Spec.ExternallyProvisioned, o.host.Status.Provisioning.State = false, true, metal3.StateExternallyProvisioned
					o.host.Status.Record.Deployment = &metal3.Deployment{NodeUUID: "n", InstanceUUID: "i", KeepPower: true}
					o.node.InstanceUUID, o.node.ProvisionState = "i", ironic.Active
				}
				sources := baremetalhost.Sources{Hosts: o, Ironic: o.ironic, Nodes: o, Events: enginetest.NoEvents{}}
				var action rest.Storage
				switch request := test.request(); request.(type) {
				case *metal3.HostPower:
					action = baremetalhost.NewPowerREST(sources, baremetalhost.HostChangers{User: o, Own: o}, noDataImages{}, noPolicies{}, o.cuts())
				default:
					action = baremetalhost.NewInspectREST(sources, baremetalhost.HostChangers{User: o, Own: o})
				}
				ctx, cancel := context.WithTimeout(genericapirequest.WithNamespace(t.Context(), storetest.Namespace), 30*time.Second)
				defer cancel()
				began := time.Now()
				_, err := action.(rest.NamedCreater).Create(ctx, "worker-0", test.request(), rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
				if took := time.Since(began); took > 20*time.Second {
					t.Errorf("ended after %s", took)
				}
				status, is := err.(apierrors.APIStatus) // not wrapped: the handlers do not unwrap
				if !is {
					t.Fatalf("not an API error: %v", err)
				}
				if status.Status().Code != test.code {
					t.Errorf("HTTP %d, want %d", status.Status().Code, test.code)
				}
				for _, says := range test.says {
					if !strings.Contains(err.Error(), says) {
						t.Errorf("%q is not in: %v", says, err)
					}
				}
				if _, retry := apierrors.SuggestsClientDelay(err); retry != test.retry {
					t.Errorf("clients repeat it by themselves: %t", retry)
				}
			})
		})
	}
}

// noPolicies has no HostUpdatePolicy for any host.
type noPolicies struct{}

func (noPolicies) Get(_ context.Context, _, name string) (*metal3.HostUpdatePolicy, error) {
	return nil, apierrors.NewNotFound(metal3.Resource("hostupdatepolicies"), name)
}

// noDataImages has no DataImage for any host.
type noDataImages struct{}

func (noDataImages) Get(_ context.Context, _, name string) (*metal3.DataImage, error) {
	return nil, apierrors.NewNotFound(metal3.Resource("dataimages"), name)
}

// TestActionReadsNodeTwice: before Ironic is asked, and once more for the answer, in which what was observed is shown also if it could not
// be recorded, but no other machine.
func TestActionReadsNodeTwice(t *testing.T) {
	before := &ironic.Node{UUID: "n", ProvisionState: ironic.Available, PowerState: ironic.PowerOff}
	on := &ironic.Node{UUID: "n", ProvisionState: ironic.Available, PowerState: ironic.PowerOn}
	tests := []struct {
		name     string
		after    *ironic.Node
		observed error
		unproven string
		want     string
	}{
		{name: "observed", after: on, want: "power on"},
		{name: "not recorded", after: on, observed: errors.New("etcd is full"), want: "power on"},
		{name: "not read", observed: errors.New("no answer"), want: "power off"},
		{name: "another host's by then", after: nil, want: "power off"},
		{name: "not proven by then", after: on, unproven: "another BMC", want: "power off"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			o := &oneHost{
				host:  newHost("worker-0", func(h *metal3.BareMetalHost) { h.Spec.Online, h.Status.Provisioning.ID = true, "n" }),
				node:  before,
				reads: -1, writes: -1,
				after: test.after, observed: test.observed, unproven: test.unproven,
			}
			sources := baremetalhost.Sources{Hosts: o, Ironic: o.ironic, Nodes: o, Events: enginetest.NoEvents{}}
			action := baremetalhost.NewPowerREST(sources, baremetalhost.HostChangers{User: o, Own: o}, noDataImages{}, noPolicies{}, o.cuts())
			request := &metal3.HostPower{Spec: metal3.HostPowerSpec{Action: metal3.PowerActionOn}}
			got, err := action.(rest.NamedCreater).Create(genericapirequest.WithNamespace(t.Context(), storetest.Namespace), "worker-0", request, rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if state := got.(*metal3.HostPower).Status.PowerState; state != test.want {
				t.Errorf("shown as %q, want %q", state, test.want)
			}
			if o.nodeReads != 2 {
				t.Errorf("the node was read %d times", o.nodeReads)
			}
		})
	}
}
