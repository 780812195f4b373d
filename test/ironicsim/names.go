// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"regexp"
	"strings"

	"github.com/google/uuid"
)

var uuidPattern = regexp.MustCompile(`^(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$`)

// isUUID is oslo.utils' is_uuid_like: dashes may be left out.
func isUUID(s string) bool { return uuidPattern.MatchString(s) }

func newUUID() string { return uuid.NewString() }

var namePattern = regexp.MustCompile(`^[a-zA-Z0-9._~-]+$`)

func validName(s string) bool { return len(s) <= 255 && namePattern.MatchString(s) }

var macPattern = regexp.MustCompile(`^(?i)[0-9a-f]{2}(:[0-9a-f]{2}){5}$`)

// normalMAC lower-cases a MAC address; ok is false for anything else. Ironic
// takes colons only.
func normalMAC(s string) (mac string, ok bool) {
	return strings.ToLower(s), macPattern.MatchString(s)
}

// reservedNames are the node names that would clash with a URL of the API.
var reservedNames = []string{"maintenance", "management", "states", "vendor_passthru", "detail", "validate"}
