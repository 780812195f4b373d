// SPDX-License-Identifier: Apache-2.0

package reconcile

import "maps"

// Remembered returns the hosts of which a failure is remembered.
func (p *Planner) Remembered() (hosts []string) {
	p.each(func(q *Queue) {
		q.mu.Lock()
		defer q.mu.Unlock()
		for key := range maps.Keys(q.backoffs) {
			hosts = append(hosts, key.String())
		}
	})
	return hosts
}
