// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"io"
	"os"
	"strings"

	"golang.org/x/term"
	"k8s.io/cli-runtime/pkg/printers"
)

// Width and height of a terminal that does not tell them.
const (
	defaultWidth  = 80
	defaultHeight = 24
)

// IsTerminal reports whether a stream is a terminal that can be drawn on. A dumb terminal is
// not: it cannot move the cursor.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
}

// Size returns the width and the height of the terminal that a stream is.
func Size(stream any) (width, height int) {
	if f, ok := stream.(*os.File); ok {
		if width, height, err := term.GetSize(int(f.Fd())); err == nil && width > 0 && height > 0 {
			return width, height
		}
	}
	return defaultWidth, defaultHeight
}

// AllowsColor reports whether colours may be written to a stream: it is a terminal, and neither
// NO_COLOR nor TERM=dumb is set.
func AllowsColor(w io.Writer) bool { return printers.AllowsColorOutput(w) }

// AllowsUTF8 reports whether the locale has characters outside ASCII.
func AllowsUTF8(getenv func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if value := getenv(name); value != "" {
			value = strings.ToLower(value)
			return strings.Contains(value, "utf-8") || strings.Contains(value, "utf8")
		}
	}
	return false
}
