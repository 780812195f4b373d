// SPDX-License-Identifier: Apache-2.0

package app

import (
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/clientgo/leaderelection" // leader_election_master_status

	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/fleet"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/reconcile"
)

// registerMetrics registers the metrics that no other package registers.
func registerMetrics(ironics *fleet.Fleet, leader *reconcile.LeaderStatus, space *etcdSpace) {
	legacyregistry.CustomMustRegister(leader) // about all hosts, on the leader
	legacyregistry.CustomMustRegister(&observationAge{ironics: ironics})
	legacyregistry.MustRegister(servedCRDs)
	registerEtcdSpace(space)
}

// observationAge is a metric for the age of the latest complete observation of each Ironic on this replica. On the leader, which
// polls, it stays below a minute. On other replicas, it is the time since somebody last listed hosts.
type observationAge struct {
	metrics.BaseStableCollector
	ironics *fleet.Fleet
}

var observationAgeDesc = metrics.NewDesc("metal3_ironic_observation_age_seconds",
	"Seconds since this replica last observed all nodes in Ironic, by IronicInstance; -1 if it has not done so yet, or cannot use the IronicInstance.",
	[]string{"ironic"}, nil, metrics.ALPHA, "")

// DescribeWithStability describes the metric.
func (*observationAge) DescribeWithStability(ch chan<- *metrics.Desc) { ch <- observationAgeDesc }

// CollectWithStability computes the metric.
func (o *observationAge) CollectWithStability(ch chan<- metrics.Metric) {
	for name, last := range o.ironics.LastObserved() {
		age := -1.0
		if !last.IsZero() {
			age = time.Since(last).Seconds()
		}
		ch <- metrics.NewLazyConstMetric(observationAgeDesc, metrics.GaugeValue, age, name)
	}
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
