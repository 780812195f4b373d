// SPDX-License-Identifier: Apache-2.0

package app

import (
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
)

// TestLeaseWaitsForNothing: requests for the Lease do not share their rate limit with others, of which users can cause any number, and
// events share theirs with nothing.
func TestLeaseWaitsForNothing(t *testing.T) {
	c, err := newClusterClients(&rest.Config{Host: "https://192.0.2.1"})
	if err != nil {
		t.Fatal(err)
	}
	limits := map[flowcontrol.RateLimiter]string{}
	for name, client := range map[string]kubernetes.Interface{"Lease": c.leases, "events": c.events, "others": c.kubernetes} {
		limit := client.CoordinationV1().RESTClient().GetRateLimiter()
		if limit == nil || limits[limit] != "" {
			t.Errorf("requests for %s wait for those for %s", name, limits[limit])
		}
		limits[limit] = name
	}
}
