// SPDX-License-Identifier: Apache-2.0

package validate

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/metal3-io/metal3-apiserver/test/robustness/history"
)

// Violation is something in a record that must not be.
type Violation struct {
	// Rule is the name of the function that has found it.
	Rule string `json:"rule"`
	// Host is the name of the host that it is about; empty if it is about several.
	Host string       `json:"host,omitempty"`
	At   history.Time `json:"at"`
	What string       `json:"what"`
}

func (v Violation) String() string {
	return fmt.Sprintf("%s: %s at %s: %s", v.Rule, cmp.Or(v.Host, "all hosts"), seconds(v.At), v.What)
}

// All applies all rules. It returns the violations by their time.
func All(entries []history.Entry) (all []Violation) {
	for _, rule := range []func([]history.Entry) []Violation{
		Fresh, Coherent, Linearizable, Watches, Monotonic, Disks, Power, Terms, Converged,
	} {
		all = append(all, rule(entries)...)
	}
	slices.SortStableFunc(all, func(a, b Violation) int { return cmp.Compare(a.At, b.At) })
	return all
}

// each returns the entries of one kind.
func each[T any](entries []history.Entry, of func(history.Entry) *T) (found []*T) {
	for _, e := range entries {
		if entry := of(e); entry != nil {
			found = append(found, entry)
		}
	}
	return found
}

func operation(e history.Entry) *history.Operation   { return e.Operation }
func watchEvent(e history.Entry) *history.WatchEvent { return e.Watch }
func stored(e history.Entry) *history.Stored         { return e.Stored }
func node(e history.Entry) *history.Node             { return e.Node }
func machine(e history.Entry) *history.Machine       { return e.Machine }
func final(e history.Entry) *history.Final           { return e.Final }
