// SPDX-License-Identifier: Apache-2.0

package ironic

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
)

// maxTransitions bounds the conditions that are remembered. There are a few Ironics, and deleted
// IronicInstances are forgotten sooner or later.
const maxTransitions = 4096

// transitions remembers when this replica first saw each condition as it is now. The times differ between
// replicas, and begin anew with each start, because statuses are not stored.
type transitions struct {
	mu   sync.Mutex
	seen *lru.Cache // of seenCondition by conditionKey
}

type conditionKey struct {
	uid  types.UID
	name string
}

type seenCondition struct {
	status metav1.ConditionStatus
	since  metav1.Time
}

// date sets the times of the conditions of an object.
func (t *transitions) date(uid types.UID, conditions []metav1.Condition) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.seen == nil {
		t.seen = lru.New(maxTransitions)
	}
	now := metav1.Now()
	for i := range conditions {
		c := &conditions[i]
		key := conditionKey{uid, c.Type}
		last, ok := t.seen.Get(key)
		if !ok || last.(seenCondition).status != c.Status {
			last = seenCondition{c.Status, now}
			t.seen.Add(key, last)
		}
		c.LastTransitionTime = last.(seenCondition).since
	}
}
