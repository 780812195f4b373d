package app

import (
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/clientgo/leaderelection" // leader_election_master_status

	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/reconcile"
)

// registerMetrics registers the metrics that no other package registers.
func registerMetrics(refresher *live.Refresher, leader *reconcile.LeaderStatus, space *etcdSpace) {
	legacyregistry.CustomMustRegister(leader) // about all hosts, on the leader
	registerObservationAge(refresher)
	registerEtcdSpace(space)
}

// registerObservationAge registers a metric for the age of the latest complete observation of
// Ironic on this replica. On the leader, which polls, it stays below a minute. On other replicas,
// it is the time since somebody last listed hosts.
func registerObservationAge(refresher *live.Refresher) {
	legacyregistry.RawMustRegister(metrics.NewGaugeFunc(&metrics.GaugeOpts{
		Namespace:      "metal3",
		Name:           "ironic_observation_age_seconds",
		Help:           "Seconds since this replica last observed all nodes in Ironic; -1 if it has not done so yet.",
		StabilityLevel: metrics.ALPHA,
	}, func() float64 {
		last := refresher.LastObserved()
		if last.IsZero() {
			return -1
		}
		return time.Since(last).Seconds()
	}))
}

// registerEtcdSpace registers metrics about the space of etcd.
func registerEtcdSpace(space *etcdSpace) {
	legacyregistry.RawMustRegister(metrics.NewGaugeFunc(&metrics.GaugeOpts{
		Namespace:      "metal3",
		Name:           "etcd_full",
		Help:           "1 while etcd refuses writes because it has no space (alarm NOSPACE), otherwise 0.",
		StabilityLevel: metrics.ALPHA,
	}, func() float64 {
		if space.full.Load() {
			return 1
		}
		return 0
	}))
	legacyregistry.RawMustRegister(metrics.NewGaugeFunc(&metrics.GaugeOpts{
		Namespace:      "metal3",
		Name:           "etcd_database_bytes",
		Help:           "Size of the database of the embedded etcd. 0 with an external etcd.",
		StabilityLevel: metrics.ALPHA,
	}, func() float64 { return float64(space.size.Load()) }))
}
