// SPDX-License-Identifier: Apache-2.0

// Package destination decides to which addresses users may have Ironic connect: those of
// their BMCs, those from which it fetches images, and those to which BMCs send events.
//
// It resolves names, and sends nothing else. Start reading with Policy.
package destination
