// SPDX-License-Identifier: Apache-2.0

// Package terminal draws on terminals and reads keys from them.
//
// It knows nothing of hosts. What is drawn comes from the package view.
package terminal
