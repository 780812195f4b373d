// SPDX-License-Identifier: Apache-2.0

// Package live keeps the recorded status of hosts up to date with Ironic. Readers ask a Refresher,
// which returns once an observation of Ironic that began after the call has been recorded.
//
// A read goes down these types, of which each embeds the next:
//
//	refresh.go  Refresher: readers wait, and share observations
//	feed.go     bulk: all hosts are observed, by the feed of changes or by a sweep; history.go has what was observed when
//	observe.go  observer: a host's node is read, and what it says is recorded
//
// # Why a list is live
//
// When RefreshAll has returned without an error, what etcd has of each host shows everything that was
// true of its node in Ironic before the call, with the two exceptions of step 2. A reader that lists
// from etcd after that is shown at least as much. The steps of this proof, and where each is made:
//
//  1. The observation that a reader waits for began after the reader had called: package flight.
//  2. The nodes that this observation knows are those that Ironic had when it began, or later ones.
//     A sweep reads all of them. The feed of changes, which is usually read instead, leads on from a
//     sweep without a gap: package index, which also says what the feed does not show, and for how
//     long that can remain unnoticed (a deletion past this server, and a change with a late clock).
//  3. A host is left out only if this version of it is known to show its node as the observation knows
//     it: readFeed and sweep (feed.go).
//  4. A host is written only over the version that was read before its node was: observe (observe.go).
//     If it was written meanwhile, host and node are read again. So no older observation
//     replaces a newer one, with any number of replicas. What another replica has recorded after that
//     is an observation as well.
//  5. If the status of a host could not be recorded, the error is a *PartialError that names the host;
//     if the observation failed as a whole, or took too long, it is a *StaleError. The reader is shown
//     what was recorded before, with a warning.
//
// For a read of a single host, the node is read by itself, so step 2 has no exceptions. If a sweep serves it together
// with others, step 2 has none either, and for step 3 the host is read from etcd first: learnOnes (hosts.go).
package live
