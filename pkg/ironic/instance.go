// SPDX-License-Identifier: Apache-2.0

package ironic

import "fmt"

// DescribeInstance names one of the Ironics behind this server to people, by the name of its IronicInstance; empty is the one
// of the server's flags.
func DescribeInstance(name string) string {
	if name == "" {
		return "the Ironic of the server's flags"
	}
	return fmt.Sprintf("IronicInstance %q", name)
}
