// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"errors"
	"strings"
)

// errNoMAC does not repeat the value: in a row that has slipped by a column, it is the password.
var errNoMAC = errors.New("is not a MAC address of 12 hexadecimal digits, such as 00:00:5e:00:53:01 (if a spreadsheet has made a number of it, give its column the format text)")

// cleanMAC returns a MAC address as the API has it. Switches write 0000.5e00.5301, Windows 00-00-5E-00-53-01,
// barcodes 00005E005301, and some tools leave out leading zeros, as in 0:0:5e:0:53:1.
func cleanMAC(value string) (string, error) {
	groups := strings.FieldsFunc(value, func(r rune) bool { return r == ':' || r == '-' || r == '.' || r == ' ' })
	if len(groups) == 6 {
		for i, group := range groups {
			if len(group) == 1 {
				groups[i] = "0" + group
			}
		}
	}
	digits := strings.Join(groups, "")
	if len(digits) != 12 || strings.Trim(digits, "0123456789abcdefABCDEF") != "" {
		return "", errNoMAC
	}
	if len(groups) == 6 && strings.Count(value, ":") == 5 && len(value) == 17 {
		return value, nil // the case stays, so that a host which exists does not change
	}
	digits = strings.ToLower(digits)
	pairs := make([]string, 6)
	for i := range pairs {
		pairs[i] = digits[2*i : 2*i+2]
	}
	return strings.Join(pairs, ":"), nil
}
