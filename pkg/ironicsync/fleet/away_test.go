// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"errors"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live"
)

func TestSomeAwayError(t *testing.T) {
	away := errors.New("no answer")
	partial := fmt.Errorf("IronicInstance b: %w", &live.PartialError{Hosts: map[types.NamespacedName]error{{Name: "worker-0"}: away}})
	for name, test := range map[string]struct {
		failed []error
		count  int
		others bool
	}{
		"one of two":                     {[]error{nil, away}, 1, true},
		"both":                           {[]error{away, away}, 2, false},
		"one, and some of another's":     {[]error{away, partial}, 2, true},
		"only what cannot be used is so": {[]error{nil, nil}, 0, true},
	} {
		e := newSomeAwayError(test.failed)
		if len(e.Unwrap()) != test.count || e.LiveForOthers() != test.others {
			t.Errorf("%s: %d errors, live for others: %t", name, len(e.Unwrap()), e.LiveForOthers())
		}
	}
}
