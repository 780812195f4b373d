// SPDX-License-Identifier: Apache-2.0

package validate

import (
	"cmp"
	"slices"

	"github.com/metal3-io/metal3-apiserver/test/robustness/history"
)

// inOrder calls see for each beginning and end of an operation, and for everything else once, in the order of time. What begins
// comes before what else happened at the same time.
func inOrder(entries []history.Entry, see func(e history.Entry, begins bool)) {
	type moment struct {
		at     history.Time
		begins bool
		entry  history.Entry
	}
	var moments []moment
	for _, e := range entries {
		switch {
		case e.Operation != nil:
			moments = append(moments, moment{e.Operation.Start, true, e}, moment{e.Operation.End, false, e})
		case e.Node != nil:
			moments = append(moments, moment{e.Node.At, false, e})
		case e.Machine != nil:
			moments = append(moments, moment{e.Machine.At, false, e})
		case e.Lease != nil:
			moments = append(moments, moment{e.Lease.At, false, e})
		case e.Request != nil:
			moments = append(moments, moment{e.Request.Arrived, false, e})
		}
	}
	slices.SortStableFunc(moments, func(a, b moment) int {
		if a.at == b.at && a.begins != b.begins {
			return map[bool]int{true: -1, false: 1}[a.begins]
		}
		return cmp.Compare(a.at, b.at)
	})
	for _, m := range moments {
		see(m.entry, m.begins)
	}
}
