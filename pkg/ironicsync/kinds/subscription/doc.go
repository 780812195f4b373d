// SPDX-License-Identifier: Apache-2.0

// Package subscription creates the event subscriptions that BMCEventSubscriptions ask for at the BMCs
// of hosts, and deletes them.
//
// A BMC forgets its subscriptions when it is reset or replaced, without any notice. So a subscription
// is looked for again when the host or its BMC returns: when the host is registered again or
// re-attached, when Ironic reaches its BMC again, and once after the start of the leader. BMCs are not
// polled.
//
//	controller.go  what is done for a subscription
//	hosts.go       which changes of a host matter
package subscription
