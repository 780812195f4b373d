// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestClientGoRestarts: informers come through the restart of our server and of
// kube-apiserver, after which they know all hosts as they are then. It stops what
// others use, so it does not run beside them.
func TestClientGoRestarts(t *testing.T) {
	ctx, ns := s.Begin(t)
	writeHistory(t, ctx, ns, "before")
	informers := newInformers(t, s.Config, ns)
	for _, i := range informers {
		i.start(t, ctx)
	}
	restarts := []struct {
		name    string
		restart func() error
	}{
		{"our server", func() error {
			if err := s.Server.Kill(); err != nil {
				return err
			}
			return s.Server.Start(ctx)
		}},
		{"kube-apiserver", func() error {
			if err := s.Kube.StopAPIServer(); err != nil {
				return err
			}
			return s.Kube.StartAPIServer(ctx)
		}},
	}
	for n, r := range restarts {
		t.Run(r.name, func(t *testing.T) {
			before := versionsIn(t, ctx, ns)
			if err := r.restart(); err != nil {
				t.Fatal(err)
			}
			if err := s.Server.WaitAvailable(ctx); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before, versionsIn(t, ctx, ns)); diff != "" {
				t.Errorf("hosts after the restart (-before +after):\n%s", diff)
			}
			written := writeHistory(t, ctx, ns, fmt.Sprintf("after-%d", n))
			want := versionsIn(t, ctx, ns)
			for name, i := range informers {
				comes(t, ctx, func() string { return i.has(want) })
				if refused := i.requests.refusals(); refused > 0 {
					t.Errorf("%s was refused %d times, as if its user had no permission", name, refused)
				}
				told := i.changes()
				// What a new list brings is told as one change, whatever went before it;
				// but nothing is told twice, and nothing out of its order.
				if got := only(written, told); !isSubsequence(got, written) {
					t.Errorf("%s was told %v of %v", name, got, written)
				}
				seen := map[change]bool{}
				for _, c := range told {
					if seen[c] {
						t.Errorf("%s was told of %v twice", name, c)
					}
					seen[c] = true
				}
			}
		})
	}
}

func isSubsequence(part, whole []change) bool {
	for _, c := range whole {
		if len(part) > 0 && part[0] == c {
			part = part[1:]
		}
	}
	return len(part) == 0
}
