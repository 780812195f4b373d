// SPDX-License-Identifier: Apache-2.0

package version

import (
	"runtime"
	"testing"
)

// TestLine checks what --version prints with and without a known commit.
func TestLine(t *testing.T) {
	built := runtime.Version() + ", " + runtime.GOOS + "/" + runtime.GOARCH + ")"
	t.Cleanup(func() { Version, Commit = "devel", "" })
	for _, test := range []struct{ version, commit, want string }{
		{"devel", "", "program devel (" + built},
		{"v0.1.0", "0123abc", "program v0.1.0 (commit 0123abc, " + built},
	} {
		Version, Commit = test.version, test.commit
		if line := Line("program"); line != test.want {
			t.Errorf("%q, want %q", line, test.want)
		}
	}
}
