// SPDX-License-Identifier: Apache-2.0

// Package weburl is the one rule for what users may write as the URL of an image, of firmware, of
// events and the like: what Ironic or a BMC connects to on their behalf.
//
// Both validation and the engine go by it, so that what is accepted is what can be used.
package weburl
