// SPDX-License-Identifier: Apache-2.0

// Package view draws hosts as text: tables, bars and the frames of the live view. Everything
// in it is a function of what it is given, including the time and the size of the terminal.
//
// table.go has the tables, fleet.go the live view, and cells.go what makes text harmless for a terminal.
package view
