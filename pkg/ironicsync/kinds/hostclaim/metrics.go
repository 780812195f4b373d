// SPDX-License-Identifier: Apache-2.0

package hostclaim

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var waitingClaims = metrics.NewGauge(&metrics.GaugeOpts{
	Namespace:      "metal3",
	Name:           "hostclaims_waiting",
	Help:           "HostClaims that wait for a host. 0 unless this replica leads.",
	StabilityLevel: metrics.ALPHA,
})

var registerMetrics = sync.OnceFunc(func() { legacyregistry.MustRegister(waitingClaims) })
