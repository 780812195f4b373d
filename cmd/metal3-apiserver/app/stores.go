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

// changesMemory returns how many bytes former versions of objects may take in the watch caches.
func changesMemory() int64 { return memory() / 4 }

// encodedMemory returns how many bytes the JSON of hosts that is kept for lists may take. All that docs/sizing.md advises for a memory
// limit fit, if they are ordinary.
func encodedMemory() int64 { return memory() / 8 }

// memory returns how many bytes the Go runtime may use (GOMEMLIMIT), or 2 GiB, the memory limit of the manifests.
func memory() int64 {
	limit := debug.SetMemoryLimit(-1) // changes nothing
	if limit == math.MaxInt64 {
		return 2 << 30
	}
	return limit
}
