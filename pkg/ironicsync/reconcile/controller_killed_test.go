// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"testing"
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

// TestKilledAnywhere kills the controller at each of its steps, before it has had
// its effect and after, while it registers a host, provisions it, and then while it deletes it.
// The next process goes on: there is one node, the image is written once, and then there is none. With Ironic 29.0.5, the
// node is not its own parent, although the next process cannot know with which password it was created.
func TestKilledAnywhere(t *testing.T) {
	const limit = 2 * time.Minute
	killedAnywhere(t, func(t *testing.T, killedAt int) *world {
		w := newSimulatedWorld(t, ironicsim.Options{})
		w.secret("secret")
		w.hosts.Add(enrolled(0))
		w.start(killedAt)
		isRegistering := true
		goOn := func() {
			if isRegistering && w.fuse.isBurnt() && w.host().Status.Record.RegisteredWith == nil {
				if err := w.secrets.put(w.storedSecret()); err != nil { // its metadata has changed meanwhile
					t.Fatal(err)
				}
			}
			w.goOn(0)
		}
		w.after(limit, "registered", func() bool { goOn(); return w.registered() })
		isRegistering = false
		host := w.host()
		if node, all := w.sim.Node(host.Status.Provisioning.ID), w.sim.Sim.NodeUUIDs(); len(all) != 1 || node == nil || node.Name != "metal3~worker-0" || node.IsOwnParent() {
			t.Errorf("host has ID %s, Ironic has %v: %+v", host.Status.Provisioning.ID, all, node)
		}
		ports, err := w.sim.ListPorts(t.Context(), ironic.PortFilter{Address: "00:ab:4f:d8:9e:00"})
		if err != nil || len(ports) != 1 || ports[0].NodeUUID != host.Status.Provisioning.ID {
			t.Errorf("the port is %+v, %v", ports, err)
		}
		if s := w.storedSecret(); len(s.OwnerReferences) != 1 || len(s.Finalizers) != 1 || s.Labels[metal3.EnvironmentLabel] != metal3.EnvironmentLabelValue {
			t.Errorf("the Secret is not claimed, or twice: %+v", s.ObjectMeta)
		}
		w.update(wantImage)
		w.after(limit+askedLimit, "provisioned", func() bool { goOn(); return w.in(metal3.StateProvisioned)() })
		if key := enginetest.KeyOf(host); w.erasures(key) != 1 {
			t.Errorf("it was cleaned %d times", w.erasures(key))
		} else if times, last := w.imageWrites(key); times != 1 || !last {
			t.Errorf("the image was written %d times", times)
		}
		w.hosts.Remove(t, enginetest.HostName(0))
		w.after(limit+askedLimit, "deleted", func() bool { goOn(); return w.gone() })
		w.stop()
		if left := w.sim.Sim.NodeUUIDs(); len(left) != 0 {
			t.Errorf("Ironic still has %v", left)
		}
		if s := w.storedSecret(); len(s.Finalizers) != 0 {
			t.Errorf("the Secret is still held: %v", s.Finalizers)
		}
		return w
	})
}
