// SPDX-License-Identifier: Apache-2.0

// Package client is the only package that talks to OpenStack Ironic. It wraps gophercloud
// with what the bare metal service needs and gophercloud does not do: field lists,
// correct paging, bounded connections, readable errors and request metrics.
//
// It knows no hosts. Each changing request takes a Fence, which send.go checks just before it sends the
// request; class.go keeps requests that wait for a BMC from holding up others. Start reading in client.go,
// which lists the parts of the client, then connection.go and send.go.
package client
