// SPDX-License-Identifier: Apache-2.0

// Package version says which build of this project a program is.
package version

import (
	"fmt"
	"runtime"
)

// The linker sets these. Commit is empty if the program was built outside of a git repository.
var (
	Version = "devel"
	Commit  = ""
)

// Line returns what a program prints for --version, such as
// "metal3-apiserver v0.1.0 (commit 0123456789abcdef0123456789abcdef01234567, go1.26.8, linux/amd64)".
func Line(program string) string {
	commit := ""
	if Commit != "" {
		commit = "commit " + Commit + ", "
	}
	return fmt.Sprintf("%s %s (%s%s, %s/%s)", program, Version, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
