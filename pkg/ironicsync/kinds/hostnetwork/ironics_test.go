// SPDX-License-Identifier: Apache-2.0

package hostnetwork

import (
	"context"
	"strings"
	"testing"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
)

// untouched is an Ironic that panics when it is asked for anything.
type untouched struct{ Ironic }

// Only the Ironic that has the host's node is told of its switch ports.
func TestTheHostsOwnIronicIsAsked(t *testing.T) {
	w := newWorld()
	w.ironics = enginetest.Ironics[Ironic]{"": untouched{}, "room-b": w, "room-c": untouched{}}
	w.host.Status.Record.Ironic = "room-b"
	if _, err := w.reconcile(t); err != nil || w.updates != 1 || w.port.Link == nil {
		t.Errorf("%v after %d updates; the port is %+v", err, w.updates, w.port)
	}
}

// While it is not known where the Ironic of a host is, nothing is asked nor recorded, and the host is tried again.
func TestUnknownIronic(t *testing.T) {
	w := newWorld()
	w.host.Status.Record.Ironic = "room-b"
	w.ironics = enginetest.Ironics[Ironic]{"": untouched{}}
	if _, err := w.reconcile(t); !ironic.IsUnavailable(err) || !strings.Contains(err.Error(), "IronicInstance room-b does not exist") || verdictOn(w.host) != nil {
		t.Errorf("reconciled with %v; condition %+v", err, verdictOn(w.host))
	}
	w.ironics["room-b"] = w
	if _, err := w.reconcile(t); err != nil || w.updates != 1 {
		t.Errorf("when the Ironic is known: %v after %d updates", err, w.updates)
	}
}

// hanging is an Ironic that does not answer.
type hanging struct{ Ironic }

func (hanging) GetNode(ctx context.Context, _ string) (*ironic.Node, error) {
	return nil, enginetest.Hang(ctx)
}

// The port of a host whose Ironic answers is configured at once, though there are many hosts in another Ironic, which does not
// answer.
func TestAnIronicThatHangsDelaysItsOwnHostsOnly(t *testing.T) {
	w := newWorld()
	w.ironics["room-b"] = hanging{}
	enginetest.HangsAlone(t, w.host, 10, func(hosts []*metal3.BareMetalHost) func(context.Context) error {
		attachment := w.attachments["metal3/tenant"].DeepCopy()
		attachment.Namespace, attachment.Name = "metal3", "tenant"
		deps := w.deps()
		deps.Attachments, deps.Hosts = enginetest.NewStock("hostnetworkattachments", attachment), enginetest.NewStock("baremetalhosts", hosts...)
		c := New(deps)
		for _, host := range hosts {
			c.HostChanged(nil, host)
		}
		return c.Run
	}, func() {
		if w.updates != 1 {
			t.Errorf("the port was updated %d times", w.updates)
		}
	})
}
