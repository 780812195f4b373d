// SPDX-License-Identifier: Apache-2.0

package ironic

import "strings"

// Subscription is a subscription to the events of a BMC.
type Subscription struct {
	// Destination is the URL to which the BMC sends its events.
	Destination string `json:"Destination"`
	// Context is a text that the BMC includes in each event.
	Context string `json:"Context,omitempty"`
	// Headers are the HTTP headers that the BMC sends with each event: a map with one entry for each
	// header. Their values are secret.
	Headers []map[string]string `json:"HttpHeaders,omitempty"`
}

// SubscriptionIDOf returns the ID of the subscription at a path of a BMC's Redfish API.
func SubscriptionIDOf(path string) string {
	path = strings.TrimSuffix(path, "/")
	return path[strings.LastIndexByte(path, '/')+1:]
}
