// SPDX-License-Identifier: Apache-2.0

// Package manager runs what only one replica may do at a time: it takes part in the election of the leader,
// runs the leader's work during each term, and finds out before that whether etcd was restored from a backup.
//
// It does not know what it runs: cmd/metal3-apiserver/app gives it a Setup. Start reading in manager.go;
// restore_guard.go compares the counts.
package manager
