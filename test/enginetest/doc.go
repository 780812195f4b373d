// SPDX-License-Identifier: Apache-2.0

// Package enginetest has what the tests of the engine share: hosts that are kept in
// memory as the store keeps them, and an Ironic that answers as a test wants.
//
// Only tests may import it.
package enginetest
