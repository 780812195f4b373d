// SPDX-License-Identifier: Apache-2.0

// Package flight lets any number of concurrent readers share few observations of something outside
// this process, without ever showing a reader what was true only before it asked.
//
// An observation is either of one key, or of all keys at once. What it observes, and how, is given by
// the functions in Config; the package decides when observations begin and who waits for which.
//
// # States
//
// A Flight is one observation. It passes through these states, in this order:
//
//	waiting    It was created by a reader, and has not begun. Further readers of the same key (or of
//	           all keys) join it. There is at most one waiting flight for each key, and one for all.
//	under way  The function in Config was called. Nobody can join it any more: a reader that arrives
//	           now creates, or joins, the waiting flight of its key.
//	done       The function has returned. The result is set, and all readers of the flight are woken.
//
// JoinOne and JoinAll return a waiting flight, and a flight leaves that state under the lock of the
// Group before the function is called. So whatever the function reads, it reads after each of its
// readers has arrived: an answer is never older than the request. This is the only property on which
// readers rely; everything below is about how many observations there are.
//
// # When a waiting flight begins
//
// As soon as nothing of the following holds it back. It is looked at again whenever a flight is
// created, ends or becomes overdue, and when the gathering described below ends.
//
//   - A flight of one key waits while another flight of that key is under way, and while
//     Config.MaxOnes flights of single keys are. Each of those is cancelled after Config.OneTimeout,
//     so that one that hangs delays later readers only by that much. Otherwise, they begin in the order
//     of arrival.
//   - A flight of all keys waits while another one is under way that is not overdue. A flight becomes
//     overdue, and the next one begins beside it, when it has lasted for Config.Patience. It is not
//     cancelled, because then an observation that is merely slow would never be completed. At most
//     Config.MaxAlls flights of all keys are under way, overdue or not.
//   - When so many flights of single keys are waiting that one observation of all keys is cheaper
//     (Config.AllIsCheaper), and none of those is overdue, such an observation serves all of them, and
//     the waiting flight of all keys if there is one. After it, waiting flights are gathered for a while instead of being begun
//     one by one: for twice its duration, and at least Config.MinGatherTime, so that observations on
//     behalf of readers of single keys take at most a third of the time; but not for so long that a
//     reader who has waited since that observation began would run out of patience.
//
// # Cancellation and errors
//
// A reader that stops waiting (Flight.Done and Flight.Result leave that to the reader) takes nothing
// away from the others: observations run under the context given to NewGroup, not under that of the
// reader that caused them. One of a single key that nobody waits for any more (Group.LeaveOne) does not
// begin. When the context of NewGroup ends, so do the observations, and a flight that has not
// begun by then may never begin: readers need a limit of their own on how long they wait. Wait returns
// when no observation is under way.
//
// An error is the result of a flight like any other: all its readers share it, and it costs one
// observation. When an observation of all keys serves flights of single keys, Config.ErrorFor picks
// what a failure means for each of them. A failed observation is not repeated for those who waited
// for it.
package flight
