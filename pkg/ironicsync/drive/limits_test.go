package drive

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/enginetest"
)

// TestCountsForGates: the hosts that a gate counts are found by namespace, and are not
// counted any more when they have changed, are gone, or were worked on for too long.
func TestCountsForGates(t *testing.T) {
	c := NewController(Parts{Hosts: enginetest.NewHosts()}, Settings{ProvisioningLimit: 2})
	host := func(namespace, name string, state ironic.ProvisionState, reservation string, since time.Duration) *metal3.BareMetalHost {
		h := newHost()
		h.Namespace, h.Name = namespace, name
		h.Status.Ironic = &metal3.IronicStatus{ProvisionState: string(state), Reservation: reservation}
		h.Status.LastUpdated = &metav1.Time{Time: time.Now().Add(-since)}
		return h
	}
	expect := func(busy, retrying map[string]int) {
		t.Helper()
		if diff := cmp.Diff(busy, c.busy()); diff != "" {
			t.Errorf("busy (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(retrying, c.retrying()); diff != "" {
			t.Errorf("retrying (-want +got):\n%s", diff)
		}
	}
	indexer := c.informer.GetIndexer()
	for _, h := range []*metal3.BareMetalHost{
		host("a", "cleaning", ironic.Cleaning, "", 0), host("a", "inspecting", ironic.Inspecting, "", 0), host("b", "deploying", ironic.DeployWait, "", 0),
		host("a", "idle", ironic.Available, "", 0), host("a", "verifying", ironic.Verifying, "conductor-0", 0),
		host("b", "verifying", ironic.Verifying, "conductor-0", 2*retryLimit),
	} {
		if err := indexer.Add(h); err != nil {
			t.Fatal(err)
		}
	}
	expect(map[string]int{"a": 2, "b": 1}, map[string]int{"a": 1})
	for _, err := range []error{
		indexer.Update(host("a", "cleaning", ironic.Available, "", 0)), indexer.Update(host("a", "verifying", ironic.Enroll, "", 0)),
		indexer.Delete(host("b", "deploying", "", "", 0)),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	expect(map[string]int{"a": 1}, map[string]int{})
}
