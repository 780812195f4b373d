// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/validation"
)

// CutMessage shortens a message to validation.MaxMessage bytes, and notes at its end that it was
// shortened. It is needed because a driver can put the whole answer of a BMC into last_error.
func CutMessage(message string) string {
	if len(message) <= validation.MaxMessage {
		return message
	}
	mark := cutNote.FindString(message) // what was cut once is longer now, because something was put in front
	if mark == "" {
		mark = fmt.Sprintf("... (cut: %d bytes in all)", len(message))
	}
	return strings.ToValidUTF8(message[:validation.MaxMessage-len(mark)], "") + mark
}

// cutNote is what CutMessage leaves at the end of a message.
var cutNote = regexp.MustCompile(`\.\.\. \(cut: [0-9]{4,9} bytes in all\)$`)
