// SPDX-License-Identifier: Apache-2.0

package life

import (
	"testing"
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// delayed waits until the host waits for its turn, in a state.
func (h *host) delayed(state metal3.ProvisioningState) {
	h.t.Helper()
	h.wait("delayed", func(bmh *metal3.BareMetalHost) bool {
		return bmh.Status.OperationalStatus == metal3.OperationalStatusDelayed && bmh.Status.Provisioning.State == state
	})
}

// With room for one host, the others wait for their turn and say so, when they are
// inspected and when they are provisioned. Virtual media needs no room.
func TestProvisioningLimit(t *testing.T) {
	t.Parallel()
	o := startOwnServer(t, "--provisioning-limit=1")
	first := o.newHost("first", notCleaned, faulty(bmcsim.SilentInspection))
	if s.inspects() {
		first.ironicIn(ironic.InspectWait)
	}
	hosts := []*host{o.newHost("worker-0", notCleaned), o.newHost("worker-1", notCleaned)}
	if s.inspects() {
		for _, h := range hosts {
			h.delayed(metal3.StateRegistering)
		}
	}
	first.mend(bmcsim.SilentInspection)
	first.available()
	for _, h := range hosts {
		h.available()
	}

	image := first.deploying()
	images := make([]*slowImage, len(hosts))
	for i, h := range hosts {
		images[i] = newSlowImage(t)
		h.wantImageAt(images[i].url, images[i].checksum)
		h.delayed(metal3.StateAvailable)
	}
	o.newHost("media", virtualMedia, notInspected, notCleaned, withImage).provisioned()
	for _, h := range hosts {
		h.delayed(metal3.StateAvailable)
	}
	image.release()
	first.provisioned()

	// Whose turn is next is not said; the other one goes on waiting.
	next := 0
	select {
	case <-images[0].begun:
	case <-images[1].begun:
		next = 1
	case <-time.After(testbed.Patience):
		t.Fatalf("none of the others was deployed: %+v, %+v", hosts[0].get().Status, hosts[1].get().Status)
	}
	hosts[1-next].delayed(metal3.StateAvailable)
	for _, i := range []int{next, 1 - next} {
		images[i].release()
		hosts[i].provisioned()
		hosts[i].wrote(1)
	}
}
