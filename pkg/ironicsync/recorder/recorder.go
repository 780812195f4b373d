// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live"
)

// Hosts reads hosts from etcd and writes their statuses.
type Hosts interface {
	Get(ctx context.Context, namespace, name string) (*metal3.BareMetalHost, error)
	// Record writes the host including its status. The error is a Conflict if the host has been written
	// since its resourceVersion.
	Record(ctx context.Context, host *metal3.BareMetalHost) (*metal3.BareMetalHost, error)
}

// Recorder writes the statuses of hosts, and with each change the conditions that follow from it.
type Recorder struct {
	hosts Hosts
	clock clock.PassiveClock
}

// New returns a Recorder that writes to hosts.
func New(hosts Hosts, clock clock.PassiveClock) *Recorder { return &Recorder{hosts, clock} }

// Record writes what change makes of host and its status, and returns the host as it is then. It fails
// with a Conflict if the host was written meanwhile.
func (r *Recorder) Record(ctx context.Context, host *metal3.BareMetalHost, change func(*metal3.BareMetalHost)) (*metal3.BareMetalHost, error) {
	updated := host.DeepCopy()
	change(updated)
	lifecycle.Render(updated, r.clock.Now())
	return r.hosts.Record(ctx, updated)
}

// Confirm fails with a Conflict if somebody has written the host since it was read. It writes nothing: the write changes nothing.
func (r *Recorder) Confirm(ctx context.Context, host *metal3.BareMetalHost) error {
	_, err := r.hosts.Record(ctx, host.DeepCopy())
	return err
}

// RecordWhileTrue is Record that tries again when another writer, mostly an observation, has written the
// host meanwhile, as long as isTrue says that the change is still true of the host. It returns the host as it was
// last written or read.
func (r *Recorder) RecordWhileTrue(ctx context.Context, host *metal3.BareMetalHost, isTrue func(*metal3.BareMetalHost) bool, change func(*metal3.BareMetalHost)) (*metal3.BareMetalHost, error) {
	for race := 0; ; race++ {
		written, err := r.Record(ctx, host, change)
		if err == nil {
			return written, nil
		}
		if !apierrors.IsConflict(err) || race == live.MaxRaces {
			return host, err
		}
		current, err := r.hosts.Get(ctx, host.Namespace, host.Name)
		if err != nil {
			return host, live.IgnoreNotFound(err)
		}
		if host = current; !isTrue(host) {
			return host, nil // the next step is planned with what is true now
		}
	}
}

// Report records why the host cannot be registered, which the host shows as its error.
func (r *Recorder) Report(ctx context.Context, host *metal3.BareMetalHost, reason, message string) error {
	_, err := r.Record(ctx, host, func(h *metal3.BareMetalHost) {
		lifecycle.SetNotRegistered(h, reason, message)
		lifecycle.CountAgain(h, message)
	})
	return err
}

// HasSpecOf returns a condition that holds as long as the spec of a host, and whether it is being
// deleted, are those of host.
func HasSpecOf(host *metal3.BareMetalHost) func(*metal3.BareMetalHost) bool {
	return func(current *metal3.BareMetalHost) bool {
		return current.Generation == host.Generation && current.DeletionTimestamp.IsZero() == host.DeletionTimestamp.IsZero()
	}
}
