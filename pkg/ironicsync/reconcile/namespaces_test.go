// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"strings"
	"testing"
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

// TestOtherNamespacesAreNotManaged: of two hosts, one is in a namespace that the settings do not
// name. Nothing is done for it, and it says why. A process that manages its namespace goes on.
func TestOtherNamespacesAreNotManaged(t *testing.T) {
	settings := fleetSettings()
	settings.Namespaces = []string{"team-a"}
	inSimulatedFleet(t, settings, ironicsim.Options{}, func(t *testing.T, w *world) {
		managed, other := w.enrol("team-a", 1)[0], w.enrol("team-b", 1)[0]
		get := func(namespace, name string) *metal3.BareMetalHost {
			host, err := w.hosts.Get(t.Context(), namespace, name)
			if err != nil {
				t.Fatal(err)
			}
			return host
		}
		w.after(time.Minute, "the host of the namespace is available", func() bool {
			return get(managed.Namespace, managed.Name).Status.Provisioning.State == metal3.StateAvailable
		})
		host := get(other.Namespace, other.Name)
		if got := condition(host, metal3.RegisteredCondition); got != metal3.NamespaceNotManagedReason || !strings.Contains(host.Status.ErrorMessage, "--namespaces") {
			t.Errorf("the host of the other namespace: %q, %q", got, host.Status.ErrorMessage)
		}
		if len(host.Finalizers) != 0 || host.Status.Provisioning.ID != "" {
			t.Errorf("the host of the other namespace is held or has a node: %v, %q", host.Finalizers, host.Status.Provisioning.ID)
		}
		recorded := host.ResourceVersion
		time.Sleep(time.Minute) // of the bubble
		if host := get(other.Namespace, other.Name); host.ResourceVersion != recorded {
			t.Error("the host of the other namespace is written again and again")
		}
	})
}
