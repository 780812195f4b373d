// SPDX-License-Identifier: Apache-2.0

package index

import (
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// knownHost is the latest version of a host that the Index was told of.
type knownHost struct {
	host *metal3.BareMetalHost // shared with the watch cache
	// version is its resourceVersion as a number.
	version uint64
	// known is how many reads had begun when the Index was told of this version. What an earlier read says of the node may
	// be older than what this version says.
	known readsBegun
}

// Candidate is a host that may not show what its node says.
type Candidate struct {
	Host *metal3.BareMetalHost
	// KnownBefore is set if this version of the host was known before the read began. Only then can what that read says
	// of the node be recorded in it: otherwise it may be older than what the host shows.
	KnownBefore bool
}

// ReplaceHosts tells the Index of all hosts that have their nodes in the Ironic, as they were listed at a resourceVersion.
func (x *Index) ReplaceHosts(hosts []*metal3.BareMetalHost, resourceVersion string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	at := versionOf(resourceVersion)
	listed := make(map[types.UID]bool, len(hosts))
	for _, host := range hosts {
		listed[host.UID] = true
		x.know(host, false)
	}
	for uid, known := range x.hosts {
		if !listed[uid] && known.version <= at {
			x.removeHost(uid)
		}
	}
	for _, version := range x.gone {
		at = max(at, version)
	}
	x.eventsUntil, x.gone = max(x.eventsUntil, at), nil
}

// KnowHosts tells the Index of versions of hosts that were read, in whatever order.
func (x *Index) KnowHosts(hosts ...*metal3.BareMetalHost) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, host := range hosts {
		x.know(host, false)
	}
}

// HostChanged tells the Index of an event of a watch. gone is set if the host was deleted, or has its node in another Ironic now.
// Events of hosts that never had their nodes in this Ironic must be told, too.
func (x *Index) HostChanged(host *metal3.BareMetalHost, gone bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	version := versionOf(host.ResourceVersion)
	known, is := x.hosts[host.UID]
	switch {
	case gone && is && known.version <= version:
		x.removeHost(host.UID)
	case !gone:
		x.know(host, true)
	}
	switch {
	case x.gone == nil:
		x.eventsUntil = max(x.eventsUntil, version)
	case gone:
		x.gone[host.UID] = version
	}
}

// know stores a version of a host, unless a later one is known. The host of an event shares memory with the watch cache, and is
// preferred. That of a list is copied, because it would keep the whole list in memory. x.mu is held.
func (x *Index) know(host *metal3.BareMetalHost, event bool) {
	version := versionOf(host.ResourceVersion)
	before, is := x.hosts[host.UID]
	switch {
	case !is && (version <= x.eventsUntil || version <= x.gone[host.UID]):
		return // events up to a later version have been seen, so this one was deleted or moved meanwhile
	case is && version < before.version:
		return
	case is && host.ResourceVersion == before.host.ResourceVersion:
		if event {
			before.host = host
		}
		return
	case is && before.host.Status.Provisioning.ID != host.Status.Provisioning.ID:
		x.removeHost(host.UID)
	}
	if !event {
		copied := *host
		host = &copied
	}
	x.hosts[host.UID] = &knownHost{host: host, version: version, known: readsBegun{x.feeds, x.sweeps}}
	id := host.Status.Provisioning.ID
	if x.byNode[id] == nil {
		x.byNode[id] = map[types.UID]bool{}
	}
	x.byNode[id][host.UID] = true
	x.due[host.UID] = true
}

// removeHost forgets a host. x.mu is held.
func (x *Index) removeHost(uid types.UID) {
	id := x.hosts[uid].host.Status.Provisioning.ID
	delete(x.byNode[id], uid)
	if len(x.byNode[id]) == 0 {
		delete(x.byNode, id)
	}
	delete(x.hosts, uid)
	delete(x.due, uid)
	delete(x.recorded, uid)
	delete(x.pending, uid)
}

// nodeChanged notes that hosts may no longer show what their node says. x.mu is held.
func (x *Index) nodeChanged(id string) {
	for uid := range x.byNode[id] {
		x.due[uid] = true
	}
}

// CountHosts returns how many hosts the Index knows.
func (x *Index) CountHosts() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.hosts)
}

// DueInFeed returns the hosts that may not show what their nodes say, after a read of the feed was applied.
func (x *Index) DueInFeed(read FeedRead) []Candidate {
	return x.dueHosts(func(k *knownHost) bool { return k.known.feeds < read.number })
}

// DueInSweep is DueInFeed after a sweep.
func (x *Index) DueInSweep(sweep Sweep) []Candidate {
	return x.dueHosts(func(k *knownHost) bool { return k.known.sweeps < sweep.number })
}

func (x *Index) dueHosts(knownBefore func(*knownHost) bool) (all []Candidate) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for id := range x.restless {
		x.nodeChanged(id)
	}
	for _, uid := range slices.Collect(maps.Keys(x.due)) {
		known := x.hosts[uid]
		seen := x.nodes[known.host.Status.Provisioning.ID]
		version := hostVersion{resourceVersion: known.host.ResourceVersion}
		if seen != nil {
			version.generation = seen.generation
		}
		if x.recorded[uid] == version && (seen == nil || !mayChangeUnseen(&seen.node)) {
			delete(x.due, uid)
			continue
		}
		all = append(all, Candidate{known.host, knownBefore(known)})
	}
	return all
}

// mayChangeUnseen reports whether the status of the node's host can change although the node does not. Ironic does not time out the
// ramdisk of a node that it does not poll, nor the work of a conductor that has died, so lifecycle.Observe does (see
// lifecycle.Observation.CallbackTimeout). Ironic 29.0 polls hardly any node, so those at rest must not be looked at each time.
// Of a node that Ironic cannot show, nothing else tells when it can again.
func mayChangeUnseen(node *ironic.Node) bool {
	return node.Unreadable != "" || node.IsNotPolled() && node.ProvisionState.IsInTransit()
}

// versionOf returns a resourceVersion as a number: those of one kind can be compared.
func versionOf(resourceVersion string) uint64 {
	version, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		return 0 // etcd has none that is no number
	}
	return version
}
