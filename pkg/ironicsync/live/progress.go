// SPDX-License-Identifier: Apache-2.0

package live

import (
	"slices"
	"sync"
)

// progress knows what is under way, and what came of it.
type progress struct {
	mu sync.Mutex // guards all that follows
	// sweeping is set while a sweep for which no reader waits is under way in the background.
	sweeping bool
	// unreadable are the nodes that Ironic could not show when all were last read.
	unreadable []string
}

// isSweeping reports whether a sweep is under way in the background.
func (p *progress) isSweeping() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sweeping
}

// beginSweep notes that a sweep begins in the background, and returns true, if one is due and none is under way.
func (p *progress) beginSweep(isDue func() bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sweeping || !isDue() {
		return false
	}
	p.sweeping = true
	return true
}

// endSweep notes that the sweep has ended.
func (p *progress) endSweep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sweeping = false
}

// setUnreadable notes the nodes that Ironic could not show, and reports whether they were others before.
func (p *progress) setUnreadable(nodes []string) (changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	changed = !slices.Equal(p.unreadable, nodes)
	p.unreadable = nodes
	return changed
}
