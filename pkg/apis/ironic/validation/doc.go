// SPDX-License-Identifier: Apache-2.0

// Package validation validates the kinds of the group ironic.metal3-apiserver.io.
//
// It only computes.
package validation
