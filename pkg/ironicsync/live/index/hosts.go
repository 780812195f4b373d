// SPDX-License-Identifier: Apache-2.0

package index

import (
	"strconv"

	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// knownHosts are the part of an Index that knows the hosts, and which of them show what their node says.
type knownHosts struct {
	*shared

	// hosts are those that have their nodes in the Ironic, as far as the Index was told, and byNode their UIDs by the UUIDs of
	// their nodes.
	hosts  map[types.UID]*knownHost
	byNode map[string]map[types.UID]bool
	// due holds the hosts that may not show what their node says, so that what has not changed need not be looked at.
	due map[types.UID]bool
	// eventsUntil is the resourceVersion up to which the Index was told of all that became of hosts. It is 0 until all hosts were
	// listed: an event says nothing of the hosts that it is not about.
	eventsUntil uint64
	// gone holds, until then, the versions in which hosts have gone, by UID: the list may be older.
	gone map[types.UID]uint64
	// recorded holds the hosts, by UID, whose recorded status is what their node says.
	recorded map[types.UID]hostVersion
	// pending holds the hosts, by UID, whose node was read but not yet recorded in their
	// status. The host was read before the node, so the node may be recorded without being
	// read again.
	pending map[types.UID]hostVersion
}

func newKnownHosts(all *shared) knownHosts {
	return knownHosts{
		shared: all, hosts: map[types.UID]*knownHost{}, byNode: map[string]map[types.UID]bool{}, due: map[types.UID]bool{}, gone: map[types.UID]uint64{},
		recorded: map[types.UID]hostVersion{}, pending: map[types.UID]hostVersion{},
	}
}

// knownHost is the latest version of a host that the Index was told of.
type knownHost struct {
	host *metal3.BareMetalHost // shared with the watch cache
	// version is its resourceVersion as a number.
	version uint64
	// known is how many reads had begun when the Index was told of this version. What an earlier read says of the node may
	// be older than what this version says.
	known readsBegun
}

// hostVersion is a version of a host, together with the generation of its node's entry in
// Index.nodes that belongs to it.
type hostVersion struct {
	resourceVersion string
	generation      uint64
}

// ReplaceHosts tells the Index of all hosts that have their nodes in the Ironic, as they were listed at a resourceVersion.
func (h *knownHosts) ReplaceHosts(hosts []*metal3.BareMetalHost, resourceVersion string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := versionOf(resourceVersion)
	listed := make(map[types.UID]bool, len(hosts))
	for _, host := range hosts {
		listed[host.UID] = true
		h.know(host, false)
	}
	for uid, known := range h.hosts {
		if !listed[uid] && known.version <= at {
			h.removeHost(uid)
		}
	}
	for _, version := range h.gone {
		at = max(at, version)
	}
	h.eventsUntil, h.gone = max(h.eventsUntil, at), nil
}

// KnowHosts tells the Index of versions of hosts that were read, in whatever order.
func (h *knownHosts) KnowHosts(hosts ...*metal3.BareMetalHost) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, host := range hosts {
		h.know(host, false)
	}
}

// HostChanged tells the Index of an event of a watch. gone is set if the host was deleted, or has its node in another Ironic now.
// Events of hosts that never had their nodes in this Ironic must be told, too.
func (h *knownHosts) HostChanged(host *metal3.BareMetalHost, gone bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	version := versionOf(host.ResourceVersion)
	known, is := h.hosts[host.UID]
	switch {
	case gone && is && known.version <= version:
		h.removeHost(host.UID)
	case !gone:
		h.know(host, true)
	}
	switch {
	case h.gone == nil:
		h.eventsUntil = max(h.eventsUntil, version)
	case gone:
		h.gone[host.UID] = version
	}
}

// know stores a version of a host, unless a later one is known. The host of an event shares memory with the watch cache, and is
// preferred. That of a list is copied, because it would keep the whole list in memory. h.mu is held.
func (h *knownHosts) know(host *metal3.BareMetalHost, event bool) {
	version := versionOf(host.ResourceVersion)
	before, is := h.hosts[host.UID]
	switch {
	case !is && (version <= h.eventsUntil || version <= h.gone[host.UID]):
		return // events up to a later version have been seen, so this one was deleted or moved meanwhile
	case is && version < before.version:
		return
	case is && host.ResourceVersion == before.host.ResourceVersion:
		if event {
			before.host = host
		}
		return
	case is && before.host.Status.Provisioning.ID != host.Status.Provisioning.ID:
		h.removeHost(host.UID)
	}
	if !event {
		copied := *host
		host = &copied
	}
	h.hosts[host.UID] = &knownHost{host: host, version: version, known: h.begun}
	id := host.Status.Provisioning.ID
	if h.byNode[id] == nil {
		h.byNode[id] = map[types.UID]bool{}
	}
	h.byNode[id][host.UID] = true
	h.due[host.UID] = true
}

// removeHost forgets a host. h.mu is held.
func (h *knownHosts) removeHost(uid types.UID) {
	id := h.hosts[uid].host.Status.Provisioning.ID
	delete(h.byNode[id], uid)
	if len(h.byNode[id]) == 0 {
		delete(h.byNode, id)
	}
	delete(h.hosts, uid)
	delete(h.due, uid)
	delete(h.recorded, uid)
	delete(h.pending, uid)
}

// nodeChanged notes that hosts may no longer show what their node says. h.mu is held.
func (h *knownHosts) nodeChanged(id string) {
	for uid := range h.byNode[id] {
		h.due[uid] = true
	}
}

// CountHosts returns how many hosts the Index knows.
func (h *knownHosts) CountHosts() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.hosts)
}

// IsRecorded reports whether this version of the host shows its node as it is in the index at
// the generation.
func (h *knownHosts) IsRecorded(host *metal3.BareMetalHost, generation uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.recorded[host.UID] == hostVersion{host.ResourceVersion, generation}
}

// SetRecorded notes that this version of the host shows its node as it was at the generation.
func (h *knownHosts) SetRecorded(host *metal3.BareMetalHost, generation uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.know(host, false)
	if h.hosts[host.UID] == nil {
		return // it was deleted
	}
	h.recorded[host.UID] = hostVersion{host.ResourceVersion, generation}
	delete(h.pending, host.UID)
}

// SetPending notes that the node of this version of the host was read, at the generation, but not yet
// recorded. If an observation ends before it has recorded all hosts, the next one records the rest
// without reading their nodes again.
func (h *knownHosts) SetPending(host *metal3.BareMetalHost, generation uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.know(host, false)
	if h.hosts[host.UID] != nil { // it was not deleted
		h.pending[host.UID] = hostVersion{host.ResourceVersion, generation}
	}
}

// IsPending reports whether SetPending has noted this version of the host with this generation.
func (h *knownHosts) IsPending(host *metal3.BareMetalHost, generation uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.pending[host.UID] == hostVersion{host.ResourceVersion, generation}
}

// versionOf returns a resourceVersion as a number: those of one kind can be compared.
func versionOf(resourceVersion string) uint64 {
	version, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		return 0 // etcd has none that is no number
	}
	return version
}
