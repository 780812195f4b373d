package lifecycle

import (
	"fmt"
	"strings"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/validation"
)

// CutMessage shortens a message to validation.MaxMessage bytes, and notes at its end that it was
// shortened. It is needed because a driver can put the whole answer of a BMC into last_error.
func CutMessage(message string) string {
	if len(message) <= validation.MaxMessage {
		return message
	}
	mark := fmt.Sprintf("... (cut: %d bytes in all)", len(message))
	return strings.ToValidUTF8(message[:validation.MaxMessage-len(mark)], "") + mark
}
