// SPDX-License-Identifier: Apache-2.0

// Package consumers finds out which Machine and which Node stand behind the consumers of hosts.
//
// It only reads, with the permissions of the user. Start reading with Resolver.
package consumers
