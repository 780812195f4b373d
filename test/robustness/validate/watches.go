// SPDX-License-Identifier: Apache-2.0

package validate

import (
	"fmt"
	"slices"

	"github.com/metal3-io/metal3-apiserver/test/robustness/history"
)

// Watches compares each stream of a watch with etcd's own history: between the version from which it was asked for and the last
// one that it has shown, it shows each change once, in order, and a bookmark does not run ahead of what was shown. Without
// the history of etcd, it only finds what is out of order or shown twice.
func Watches(entries []history.Entry) (violations []Violation) {
	changes := each(entries, stored)
	slices.SortFunc(changes, func(a, b *history.Stored) int { return int(a.Revision - b.Revision) })
	streams := map[int][]*history.WatchEvent{}
	var order []int
	for _, e := range each(entries, watchEvent) {
		if streams[e.Stream] == nil {
			order = append(order, e.Stream)
		}
		streams[e.Stream] = append(streams[e.Stream], e)
	}
	for _, stream := range order {
		violations = append(violations, watchStream(streams[stream], changes)...)
	}
	return violations
}

func watchStream(events []*history.WatchEvent, changes []*history.Stored) (violations []Violation) {
	wrong := func(e *history.WatchEvent, format string, args ...any) {
		violations = append(violations, Violation{"Watches", e.Host.Name, e.At, fmt.Sprintf("stream %d from %s: ", e.Stream, e.Server) + fmt.Sprintf(format, args...)})
	}
	start := events[0].Host.Version
	reached := start
	var shown []*history.WatchEvent
	for _, e := range events[1:] {
		switch e.Type {
		case "BOOKMARK":
			if e.Host.Version < reached {
				wrong(e, "a bookmark goes back from %d to %d", reached, e.Host.Version)
			}
		case "ADDED", "MODIFIED", "DELETED":
			if e.Host.Version <= reached {
				wrong(e, "%s of version %d after %d was reached", e.Type, e.Host.Version, reached)
			}
			shown = append(shown, e)
		default:
			continue
		}
		reached = max(reached, e.Host.Version)
	}
	if len(changes) == 0 {
		return violations
	}
	next := 0
	for _, c := range changes {
		if c.Revision <= start || c.Revision > reached {
			continue
		}
		for next < len(shown) && shown[next].Host.Version < c.Revision {
			wrong(shown[next], "%s of version %d, which etcd has no change of", shown[next].Type, shown[next].Host.Version)
			next++
		}
		if next == len(shown) || shown[next].Host.Version != c.Revision {
			wrong(events[0], "up to version %d it has not shown version %d of %s", reached, c.Revision, c.Name)
			continue
		}
		e := shown[next]
		next++
		want := map[bool]string{true: "ADDED", false: "MODIFIED"}[c.Created]
		if c.Deleted {
			want = "DELETED"
		}
		if e.Type != want || e.Host.Name != c.Name || e.Host.Write.Token != c.Token {
			wrong(e, "%s of version %d with token %q, which is %s of %s with %q in etcd", e.Type, e.Host.Version, e.Host.Write.Token, want, c.Name, c.Token)
		}
	}
	return violations
}
