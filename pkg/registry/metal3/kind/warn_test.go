// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/warning"
)

type warnings []string

func (w *warnings) AddWarning(_, text string) { *w = append(*w, text) }

func TestWarn(t *testing.T) {
	b, c := errors.New("IronicInstance b: no answer"), errors.New("IronicInstance c: refused")
	both := errors.Join(b, c)
	for name, test := range map[string]struct {
		err  error
		want warnings
	}{
		"nothing is wrong":          {},
		"one Ironic":                {err: b, want: warnings{b.Error()}},
		"several lines":             {err: errors.New("one\ntwo"), want: warnings{"one; two"}},
		"a traceback":               {err: errors.New("one\r\n\ttwo \x1b[31m\xff"), want: warnings{"one ;  two  [31m\ufffd"}},
		"some of several Ironics":   {err: both, want: warnings{b.Error(), c.Error()}},
		"and something else":        {err: errors.Join(both, errors.New("no list")), want: warnings{b.Error(), c.Error(), "no list"}},
		"what is wrapped says more": {err: fmt.Errorf("hosts: %w", both), want: warnings{"hosts: " + b.Error() + "; " + c.Error()}},
	} {
		t.Run(name, func(t *testing.T) {
			var got warnings
			Warn(warning.WithWarningRecorder(t.Context(), &got), test.err)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
