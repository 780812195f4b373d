// SPDX-License-Identifier: Apache-2.0

// Package index knows Ironic's nodes as they were last read, and which hosts show in their recorded
// status what their node says. With that, a list of hosts has to ask Ironic only for what has changed.
//
// It is pure: it makes no requests, and has no clock. The caller reads Ironic and etcd, and passes in
// what it has read and when. Two clocks are involved. Arguments named now and fields that say "by our
// clock" are of this process. updated_at, and the time at which Ironic answered (from the Date header),
// are of Ironic; they are compared only with each other.
//
// # The feed
//
// The feed is the list of nodes ordered by updated_at, newest first, read down to a given time. A read
// of it goes like this:
//
//	read := x.BeginFeed(now)                              before Ironic is asked
//	changes := Ironic's nodes changed since read.Since
//	x.ApplyChanges(read, changes, now)
//
// The index remembers the newest updated_at that it was shown. The next read begins there, minus an
// overlap (below), so each change is in some read that began after it was made. Reads may be under way
// at the same time, and be applied in any order: what a later one has shown of a node stays.
//
// What is not in the feed:
//
//   - That a node was deleted. ForgetNode tells of deletions by this process; a sweep finds the others.
//   - A new node with which nothing has been done yet (it has no updated_at, and is in state enroll).
//   - What was cut off: if too much has changed, Ironic is not asked for all of it (ironic.Changes.Truncated).
//     From then on the feed is not trusted until a sweep that begins later has ended.
//   - A change that appears late; see below.
//
// Changes do not become visible in the order of their updated_at: requests to Ironic overlap, the clock
// of one conductor may lag behind that of another, and databases such as MySQL keep whole seconds. So
// the feed is read again from a little before the newest known change, until that change has been known
// for as long by our clock. This overlap is three seconds at first. An updated_at that is ahead of
// Ironic's own clock counts as the time of that clock when Ironic was asked, so that it hides no later change.
//
// # Sweeps
//
// A sweep reads all nodes:
//
//	sweep := x.BeginSweep(now)                            before the hosts and the nodes are read
//	nodes := all nodes of Ironic
//	x.ApplySweep(sweep, nodes, now)
//
// Before the first one (Sweep.First), the caller reads the newest updated_at, so that the feed goes on
// from before the sweep. After the others, it reads the feed once more before ApplySweep: what the sweep
// has read must be in the feed by then. A node with other contents than the index knows that the feed
// did not show since the sweep began is a late change. ApplySweep returns their number, for a metric,
// and doubles the overlap, up to a minute. (If the feed could not be read completely, Sweep.Unchecked is
// set, and nothing is counted.)
//
// A node that Ironic cannot show, because what its database has of it cannot be read, fails the lists that it is in. The caller reads
// the others around it, and names it in what it has read (ironic.Node.Unreadable): the index keeps what it knew, and Unreadable returns it.
//
// What the feed has shown since the sweep began counts as newer than what the sweep has read, and stays. Nodes
// that are not in the sweep are removed, unless the feed has shown them since it began. Of several
// sweeps, one that has ended after another which began later is not applied.
//
// The feed is trusted (IsFeedTrusted) for thirty seconds after the beginning of the last sweep that has
// ended, and for two minutes while another is under way. IsSweepDue says a little earlier that the next
// should begin. So a deletion past this server is noticed within thirty seconds, and so is a late change.
// If a sweep takes longer than two and a half seconds, the next is due after ten times as long, up to five
// minutes, so that sweeps take a tenth of Ironic's time at most; and the feed is trusted for as much longer.
//
// # Which hosts show their node
//
// Each entry of a node has a generation, which changes when its contents do; updated_at also moves when
// a node is only locked. SetRecorded notes that a version of a host (its resourceVersion) shows its node
// at a generation; as long as neither changes, the host need not be looked at (IsRecorded). SetPending
// notes that the node was read after this version of the host, and not yet recorded: it may be recorded
// without being read again (IsPending). In any other case, the node has to be read after the host, so
// that an older observation never replaces a newer one.
//
// # Which hosts have to be looked at
//
// The Index knows the hosts that have their nodes in the Ironic, and which of them may not show what their node says, so that
// the work of a read is proportional to what has changed and not to the number of hosts. It is told of hosts in three ways, and
// the later version of a host counts:
//
//   - ReplaceHosts: a list of all hosts;
//   - HostChanged: the events of a watch, in their order, from such a list on. They come a moment after the change;
//   - KnowHosts: hosts that were read, for example for a reader who must not be shown less than they say.
//
// A host that is read and not known may have been deleted meanwhile. It is ignored if events of later versions have come.
//
// DueInFeed and DueInSweep return the hosts to be looked at. A version of a host that became known after the read of the nodes began
// is marked: another replica may have recorded a later observation in it.
//
// # How old the knowledge is
//
// NodesWithBMC returns, with the nodes, as of when they are all. This is when the last sweep began that
// was applied, or a later read of the feed that leads on from it without a gap. It is zero until the
// first sweep has ended: that no node is known then is no proof that there is none.
package index
