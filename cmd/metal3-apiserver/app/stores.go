// SPDX-License-Identifier: Apache-2.0

package app

import (
	"math"
	"runtime/debug"

	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/utils/clock"

	"github.com/metal3-io/metal3-apiserver/pkg/store"
)

// storeOptions returns the options of all stores of the API.
func storeOptions(options generic.RESTOptionsGetter) generic.RESTOptionsGetter {
	return store.Budgeted(store.Explained(options), store.NewBudget(clock.RealClock{}, changesMemory()))
}

// changesMemory returns how many bytes former versions of objects may take in the watch caches: a quarter of what the Go runtime may
// use (GOMEMLIMIT), or of 2 GiB, the memory limit of the manifests.
func changesMemory() int64 {
	limit := debug.SetMemoryLimit(-1) // changes nothing
	if limit == math.MaxInt64 {
		limit = 2 << 30
	}
	return limit / 4
}
