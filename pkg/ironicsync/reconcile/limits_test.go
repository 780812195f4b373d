// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// watchedHosts are the hosts that a watch tells of.
type watchedHosts struct{ *watch.RaceFreeFakeWatcher }

// List is not used by an informer that can watch a list.
func (watchedHosts) List(context.Context, metav1.ListOptions) (*metal3.BareMetalHostList, error) {
	return nil, apierrors.NewBadRequest("this fake only knows WatchList")
}

func (w watchedHosts) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return w, nil
}

// TestCountsForGates: the hosts that a gate counts are found by namespace, and are not
// counted any more when they have changed, are gone, or were worked on for too long.
func TestCountsForGates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hosts := watchedHosts{watch.NewRaceFreeFake()}
		index := newIndex(hosts, Settings{})
		queue := newQueue(clock.RealClock{})
		defer queue.ShutDown()
		gates := newGates("", index, queue, 2, clock.RealClock{})
		host := func(namespace, name string, state ironic.ProvisionState, reservation string, since time.Duration) *metal3.BareMetalHost {
			h := newHost()
			h.Namespace, h.Name = namespace, name
			h.Status.Ironic = &metal3.IronicStatus{ProvisionState: string(state), Reservation: reservation}
			h.Status.LastUpdated = &metav1.Time{Time: time.Now().Add(-since)}
			return h
		}
		expect := func(busy, retrying map[string]int) {
			t.Helper()
			synctest.Wait()
			if diff := cmp.Diff(busy, gates.busy()); diff != "" {
				t.Errorf("busy (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(retrying, gates.retrying()); diff != "" {
				t.Errorf("retrying (-want +got):\n%s", diff)
			}
		}
		go index.Run(t.Context())
		for _, h := range []*metal3.BareMetalHost{
			host("a", "cleaning", ironic.Cleaning, "", 0), host("a", "inspecting", ironic.Inspecting, "", 0), host("b", "deploying", ironic.DeployWait, "", 0),
			host("a", "idle", ironic.Available, "", 0), host("a", "verifying", ironic.Verifying, "conductor-0", 0),
			host("b", "verifying", ironic.Verifying, "conductor-0", 2*ironic.SilentBMCLimit),
		} {
			hosts.Add(h)
		}
		hosts.Action(watch.Bookmark, &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{
			ResourceVersion: "1", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
		}})
		expect(map[string]int{"a": 2, "b": 1}, map[string]int{"a": 1})
		hosts.Modify(host("a", "cleaning", ironic.Available, "", 0))
		hosts.Modify(host("a", "verifying", ironic.Enroll, "", 0))
		hosts.Delete(host("b", "deploying", "", "", 0))
		expect(map[string]int{"a": 1}, map[string]int{})
	})
}
