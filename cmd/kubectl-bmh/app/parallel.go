// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"

	"golang.org/x/sync/errgroup"
)

// inOrder works on items at the same time, no more than a limit, and reports each result in the
// order of the items, as soon as those before it have been reported. It returns errReported if
// that of any item is, and otherwise the first error of report.
func inOrder[T, R any](items []T, limit int, work func(T) (R, error), report func(T, R, error) error) error {
	type result struct {
		value R
		err   error
	}
	results := make([]chan result, len(items))
	for i := range results {
		results[i] = make(chan result, 1)
	}
	var group errgroup.Group
	group.SetLimit(limit)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i, item := range items {
			group.Go(func() error {
				value, err := work(item)
				results[i] <- result{value, err}
				return nil
			})
		}
		_ = group.Wait() // the errors are in the results
	}()
	var first error
	for i, item := range items {
		r := <-results[i]
		if err := report(item, r.value, r.err); err != nil && (first == nil || errors.Is(first, errReported)) {
			first = err
		}
	}
	<-done
	return first
}
