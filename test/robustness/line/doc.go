// SPDX-License-Identifier: Apache-2.0

// Package line has a TCP proxy that holds up, loses, delays or refuses what two programs say to each other.
package line
