// SPDX-License-Identifier: Apache-2.0

package baremetalhost

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/baremetalhost/console"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
)

// unproven is an etcd with one host, whose node Ironic has, and of which why says why it is not shown.
type unproven struct {
	Ironic
	Nodes
	host   *metal3.BareMetalHost
	why    string
	err    error
	opened *console.Node
}

func (u *unproven) Get(context.Context, string, string) (*metal3.BareMetalHost, error) {
	return u.host.DeepCopy(), nil
}

func (*unproven) GetNode(context.Context, string) (*ironic.Node, error) {
	return &ironic.Node{UUID: "n", LastError: "their error"}, nil
}

func (u *unproven) WhyUnproven(context.Context, *metal3.BareMetalHost, *ironic.Node) (string, error) {
	return u.why, u.err
}

func (u *unproven) WhyUnconfirmable(context.Context, *metal3.BareMetalHost, *ironic.Node) (string, error) {
	return "", nil
}

func (*unproven) Guard(ctx context.Context, _ *metal3.BareMetalHost) context.Context { return ctx }

func (*unproven) RedactPassword(context.Context, *metal3.BareMetalHost, *ironic.Node) error {
	return nil
}

func (*unproven) Enter(console.Options) (*console.Place, error) { return nil, nil }

func (u *unproven) Open(_ context.Context, node console.Node, _ *console.Place) (*console.Connection, error) {
	u.opened = &node
	return nil, errors.New("opened")
}

// TestConsoleOfUnprovenNode: nobody gets in front of a machine whose node is not proven to be the host's, paused or not.
func TestConsoleOfUnprovenNode(t *testing.T) {
	for _, paused := range []bool{false, true} {
		host := &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Name: "host", Namespace: "metal3"}}
		host.Status.Provisioning.ID = "n"
		if paused {
			host.Annotations = map[string]string{metal3.PausedAnnotation: ""}
		}
		for _, test := range []struct {
			why  string
			err  error
			code func(error) bool
		}{
			{why: "it is not proven, and this helps", code: apierrors.IsConflict},
			{err: errors.New("etcd is away"), code: apierrors.IsServiceUnavailable},
		} {
			u := &unproven{host: host, why: test.why, err: test.err}
			r := &consoleREST{Sources: Sources{Hosts: u, Ironic: func(*metal3.BareMetalHost) (Ironic, error) { return u, nil }, Nodes: u, Events: enginetest.NoEvents{}}, consoles: u}
			_, err := r.open(t.Context(), "host", nil)
			if !test.code(err) || u.opened != nil || !strings.Contains(err.Error(), test.why) || strings.Contains(err.Error(), "their") {
				t.Errorf("paused %t: %v, opened %+v", paused, err, u.opened)
			}
		}
	}
}

// TestConsoleInTheIronicOfItsHost: a console is opened in the Ironic that is recorded of the host.
func TestConsoleInTheIronicOfItsHost(t *testing.T) {
	for name, test := range map[string]struct {
		instance string
		opened   *console.Node
		says     string
	}{
		"of the flags": {opened: &console.Node{UUID: "n"}, says: "opened"},
		"an instance":  {instance: "room-b", opened: &console.Node{Ironic: "room-b", UUID: "n"}, says: "opened"},
		"unknown":      {instance: "gone", says: `baremetalhost "host": the Ironic of IronicInstance "gone" cannot be asked: it is not known; nothing was done, try again`},
	} {
		t.Run(name, func(t *testing.T) {
			host := &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Name: "host", Namespace: "metal3"}}
			host.Status.Provisioning.ID, host.Status.Record.Ironic = "n", test.instance
			u := &unproven{host: host}
			ironicOf := func(h *metal3.BareMetalHost) (Ironic, error) {
				if h.Status.Record.Ironic == "gone" {
					return nil, &ironic.UnavailableError{Op: "test", Reason: "it is not known"}
				}
				return u, nil
			}
			r := &consoleREST{Sources: Sources{Hosts: u, Ironic: ironicOf, Nodes: u, Events: enginetest.NoEvents{}}, consoles: u}
			_, err := r.open(t.Context(), "host", nil)
			if diff := cmp.Diff(test.opened, u.opened); diff != "" || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%s%v", diff, err)
			}
			if _, retry := apierrors.SuggestsClientDelay(err); test.opened == nil && (!apierrors.IsServiceUnavailable(err) || !retry) {
				t.Errorf("not a 503 with Retry-After: %v", err)
			}
		})
	}
}
