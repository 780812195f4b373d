// SPDX-License-Identifier: Apache-2.0

// Package validate judges the records of test/robustness. Each of its rules is a pure function of a record.
//
// All calls all rules; docs/robustness.md says in a line each what they hold.
package validate
