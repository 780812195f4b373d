// SPDX-License-Identifier: Apache-2.0

package validate

import (
	"fmt"
	"time"

	"github.com/metal3-io/metal3-apiserver/test/robustness/history"
)

// Coherent finds resourceVersions of a host that were shown with different contents, whoever has shown them and how.
func Coherent(entries []history.Entry) (violations []Violation) {
	type version struct {
		uid     string
		version int64
	}
	first := map[version]string{}
	check := func(h history.Host, at history.Time, where string) {
		key := version{h.UID, h.Version}
		seen, known := first[key]
		switch {
		case !known:
			first[key] = h.Hash
		case seen != h.Hash:
			violations = append(violations, Violation{"Coherent", h.Name, at, fmt.Sprintf("%s shows resourceVersion %d with content %s, and it was shown with %s before", where, h.Version, h.Hash, seen)})
		}
	}
	for _, e := range entries {
		switch {
		case e.Operation != nil:
			for _, h := range e.Operation.Hosts {
				check(h, e.Operation.End, e.Operation.Verb+" from "+e.Operation.Server)
			}
		case e.Watch != nil && (e.Watch.Type == "ADDED" || e.Watch.Type == "MODIFIED"):
			check(e.Watch.Host, e.Watch.At, "watch from "+e.Watch.Server)
		}
	}
	return violations
}

// Monotonic finds reads of a client that show an older version of a host, or an older list, than an earlier read of the same
// client has shown. It covers reads of any resourceVersion, because all of them are answered with what was observed after
// their arrival.
func Monotonic(entries []history.Entry) (violations []Violation) {
	type of struct {
		client int
		uid    string
	}
	newest := map[of]int64{}
	for _, o := range each(entries, operation) {
		if o.Outcome != history.OK {
			continue
		}
		seen := map[of]int64{}
		if o.Verb == history.List {
			seen[of{o.Client, ""}] = o.ListVersion
		}
		for _, h := range o.Hosts {
			seen[of{o.Client, h.UID}] = h.Version
		}
		for key, version := range seen {
			if version < newest[key] {
				violations = append(violations, Violation{"Monotonic", o.Name, o.Start, fmt.Sprintf("%s by client %d from %s shows resourceVersion %d of %q after %d", o.Verb, o.Client, o.Server, version, key.uid, newest[key])})
			}
			newest[key] = max(newest[key], version)
		}
	}
	return violations
}

func seconds(t history.Time) string {
	if t == history.Never {
		return "the end"
	}
	return time.Duration(t).Round(time.Millisecond).String()
}
