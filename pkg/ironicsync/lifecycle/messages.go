package lifecycle

import (
	"fmt"
	"strings"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/validation"
)

// CutMessage returns as much of a message as a status has room for. If that is not all of it,
// the end says so. A driver can put the whole answer of a BMC into last_error.
func CutMessage(message string) string {
	if len(message) <= validation.MaxMessage {
		return message
	}
	mark := fmt.Sprintf("... (cut: %d bytes in all)", len(message))
	return strings.ToValidUTF8(message[:validation.MaxMessage-len(mark)], "") + mark
}
