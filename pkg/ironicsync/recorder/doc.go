// SPDX-License-Identifier: Apache-2.0

// Package recorder writes what this server has done for a host, or cannot do, into the host's status.
//
// It writes with compare-and-swap, and lifecycle renders errors and conditions with each change.
package recorder
