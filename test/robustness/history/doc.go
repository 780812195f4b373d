// SPDX-License-Identifier: Apache-2.0

// Package history is the record of a run of test/robustness: what clients asked for and were answered, what they were
// shown by watches, what etcd has stored, what became of the nodes in Ironic, who asked Ironic for what, what was done to
// machines, and which faults there were. All times are of one monotonic clock, because all of it is seen by one process.
package history
