// SPDX-License-Identifier: Apache-2.0

package hostclaim

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// Secrets that could not be copied are copied again after copyRetry, and later when that has failed for longer: nobody tells that a
	// permission was granted, or that a webhook answers again.
	copyRetry    = time.Minute
	maxCopyRetry = 5 * time.Minute
	// copyJitter spreads the claims that fail together, for the same webhook.
	copyJitter = 0.5
)

// copyRetries has the claims whose Secrets cannot be copied, and since when. The zero value has none.
type copyRetries struct {
	mu    sync.Mutex
	since map[types.NamespacedName]time.Time
}

// after is after which time to copy the Secrets of a claim again that could not be copied now.
func (r *copyRetries) after(claim types.NamespacedName, now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	since, fails := r.since[claim]
	if !fails {
		if r.since == nil {
			r.since = map[types.NamespacedName]time.Time{}
		}
		r.since[claim], since = now, now
	}
	return wait.Jitter(min(max(now.Sub(since), copyRetry), maxCopyRetry), copyJitter)
}

// forget drops a claim whose Secrets are copied, or that is gone.
func (r *copyRetries) forget(claim types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.since, claim)
}
