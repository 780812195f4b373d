// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"context"
	"strings"
	"unicode"

	"k8s.io/apiserver/pkg/warning"
)

// Warn warns the client of an error. One that only joins others, such as the errors of several Ironics, is a warning for each
// of them: clients print each warning on a line of its own, and the server sends the same one once.
func Warn(ctx context.Context, err error) {
	if err == nil {
		return
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok { // not one that is wrapped, and so has more to say
		for _, err := range joined.Unwrap() {
			Warn(ctx, err)
		}
		return
	}
	warning.AddWarning(ctx, "", oneLine(err.Error()))
}

// oneLine returns a text as a header can have it. k8s.io/apiserver drops a warning that is no UTF-8 or has a control character, such
// as the tabulators of the traceback in an error of Ironic's, and says so to nobody.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\n", "; "))
}
