// SPDX-License-Identifier: Apache-2.0

// Package install registers the metal3.io API group with the server's scheme.
package install
