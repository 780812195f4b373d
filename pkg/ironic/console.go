// SPDX-License-Identifier: Apache-2.0

package ironic

// Console is the console of a node, without its address: Ironic asks the BMC when it is asked for that.
type Console struct {
	// Interface is the node's console interface, no-console if it has none.
	Interface string `json:"console_interface"`
	Enabled   bool   `json:"console_enabled"`
	// Reservation names the conductor that has locked the node, as it does while it switches the
	// console.
	Reservation string `json:"reservation"`
}

// ConsoleInfo says how to connect to a console that is enabled.
type ConsoleInfo struct {
	Type string `json:"type"`
	URL  string `json:"url"`
}

// SocatConsole is the type of a console that is a serial line behind a TCP port.
const SocatConsole = "socat"
