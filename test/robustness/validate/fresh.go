// SPDX-License-Identifier: Apache-2.0

package validate

import (
	"fmt"
	"time"

	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
	"github.com/metal3-io/metal3-apiserver/test/robustness/history"
)

// Fresh finds the answers to GET and LIST that have no warning and show a node as it was only before the request arrived,
// or never: it must have been like that at some moment between the beginning and the end of the request.
//
// There are two exceptions for lists, which are answered from the feed of changes; see docs/design.md. A list may go on showing a
// node that was deleted, until the next sweep. And it may not show yet a node with which nothing was done since its creation.
func Fresh(entries []history.Entry) (stale []Violation) {
	versions := map[string][]*history.Node{}
	for _, n := range each(entries, node) {
		versions[n.UUID] = append(versions[n.UUID], n)
	}
	for _, o := range each(entries, operation) {
		if o.Outcome != history.OK || o.Warned || o.Verb != history.Get && o.Verb != history.List {
			continue
		}
		for _, h := range o.Hosts {
			if complaint := wasShown(versions[h.ID], h, o); complaint != "" {
				stale = append(stale, Violation{"Fresh", h.Name, o.Start, fmt.Sprintf("%s by client %d from %s, until %s: %s", o.Verb, o.Client, o.Server, seconds(o.End), complaint)})
			}
		}
	}
	return stale
}

// sweepLimit is how long lists can be answered without a sweep if Ironic is slow.
const sweepLimit = history.Time(2 * time.Minute)

// wasShown compares what an answer shows of a host's node with the versions that the node had.
func wasShown(versions []*history.Node, h history.Host, o *history.Operation) (complaint string) {
	if h.ID == "" || h.Concealed {
		return "" // no node yet, or nothing is shown of it
	}
	var had []string
	// Before its first version, there is no node.
	if (len(versions) == 0 || versions[0].At > o.Start) && h.Node == nil {
		return ""
	}
	for i, v := range versions {
		until := history.Never
		if i+1 < len(versions) {
			until = versions[i+1].At
		}
		if until < o.Start || v.At > o.End {
			continue
		}
		switch {
		case v.Gone && (h.Node == nil || o.Verb == history.List && o.Start-v.At < sweepLimit), i == 0 && h.Node == nil && o.Verb == history.List:
			return ""
		case !v.Gone && h.Node != nil && shows(h.Node, &v.NodeVersion):
			return ""
		}
		had = append(had, fmt.Sprintf("%s from %s", describe(&v.NodeVersion), seconds(v.At)))
	}
	return fmt.Sprintf("shows %s (resourceVersion %d), but meanwhile the node was %v", describe(h.Node), h.Version, had)
}

func shows(shown, is *ironicsim.NodeVersion) bool {
	return shown.ProvisionState == is.ProvisionState && shown.TargetProvisionState == is.TargetProvisionState &&
		shown.PowerState == is.PowerState && shown.TargetPowerState == is.TargetPowerState &&
		shown.Maintenance == is.Maintenance && shown.Reservation == is.Reservation && shown.InstanceUUID == is.InstanceUUID
}

func describe(n *ironicsim.NodeVersion) string {
	if n == nil || n.Gone {
		return "no node"
	}
	return fmt.Sprintf("{%s>%s %s>%s maintenance:%t lock:%q instance:%q}", n.ProvisionState, n.TargetProvisionState, n.PowerState, n.TargetPowerState, n.Maintenance, n.Reservation, n.InstanceUUID)
}
