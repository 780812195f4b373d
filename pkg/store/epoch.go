// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// While replicas of two versions run, as during an upgrade, the older one serves hosts whose records it does not know. It
// would drop what it has not decoded, and decide from half of what is known. So no host with the record of a later epoch is
// written, by whomever: not by users, whose clients try again and reach a replica of the later version in the end, and not by the
// engine.

// epochGuard is the storage of hosts, which refuses to change or delete those that a later version has recorded. What is
// looked at is what the storage has when it writes.
type epochGuard struct{ storage.Interface }

// Guarded returns options of a store that refuses to change or delete hosts that a later version has recorded.
func Guarded(options generic.RESTOptionsGetter) generic.RESTOptionsGetter {
	return wrapped{options, func(inner storage.Interface) storage.Interface { return epochGuard{inner} }}
}

// Unwrap returns the storage that is guarded.
func (g epochGuard) Unwrap() storage.Interface { return g.Interface }

// GuaranteedUpdate changes a host.
func (g epochGuard) GuaranteedUpdate(ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool, preconditions *storage.Preconditions, update storage.UpdateFunc, cached runtime.Object) error {
	return g.Interface.GuaranteedUpdate(ctx, key, destination, ignoreNotFound, preconditions,
		func(stored runtime.Object, meta storage.ResponseMeta) (runtime.Object, *uint64, error) {
			if err := CheckEpoch(ctx, stored); err != nil {
				return nil, nil, err
			}
			return update(stored, meta)
		}, cached)
}

// Delete deletes a host.
func (g epochGuard) Delete(ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions, validate storage.ValidateObjectFunc, cached runtime.Object, opts storage.DeleteOptions) error {
	return g.Interface.Delete(ctx, key, out, preconditions,
		func(ctx context.Context, stored runtime.Object) error {
			if err := CheckEpoch(ctx, stored); err != nil {
				return err
			}
			return validate(ctx, stored)
		}, cached, opts)
}

// CheckEpoch returns a 503 with Retry-After if a later version has recorded the host, and has the client come back by another
// connection.
func CheckEpoch(ctx context.Context, stored runtime.Object) error {
	host, ok := stored.(*metal3.BareMetalHost)
	if !ok || !host.Status.Record.IsLater() {
		return nil
	}
	reconnect(ctx)
	return Unavailable(host.Name, fmt.Sprintf("%s, and nothing was done: try again, a replica of the later version will accept it", host.Status.Record.WhyLeftAlone()))
}
