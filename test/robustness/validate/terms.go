// SPDX-License-Identifier: Apache-2.0

package validate

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/metal3-io/metal3-apiserver/test/robustness/history"
)

// Terms finds requests that change something in Ironic and have arrived there from a replica after another one had become
// the leader. What users ask for by an action is carried out by every replica, whoever leads: requests
// that an action can make are left out.
//
// The connection must not have been slow, or a request that was sent in time looks late: those that arrived during a fault
// of the connection between that replica and Ironic are left out. See Slow.
func Terms(entries []history.Entry) (violations []Violation) {
	leader, leadsSince := "", history.Time(0)
	var slow []history.Fault
	for _, e := range entries {
		if e.Fault != nil && strings.HasPrefix(e.Fault.What, Slow) {
			slow = append(slow, *e.Fault)
		}
	}
	inOrder(entries, func(e history.Entry, _ bool) {
		switch {
		case e.Lease != nil && e.Lease.Server != "":
			if e.Lease.Server != leader {
				leader, leadsSince = e.Lease.Server, e.Lease.At
			}
		case e.Request != nil && isDriven(e.Request) && e.Request.Server != "" && leader != "" && e.Request.Server != leader:
			for _, f := range slow {
				if strings.HasSuffix(f.What, " of "+e.Request.Server) && f.Start <= e.Request.Arrived && e.Request.Arrived <= f.End+grace {
					return
				}
			}
			violations = append(violations, Violation{"Terms", "", e.Request.Arrived, fmt.Sprintf("%s %s %s from %s, and %s leads since %s", e.Request.Method, e.Request.Path, e.Request.Target, e.Request.Server, leader, seconds(leadsSince))})
		}
	})
	return violations
}

// Slow begins the description of a Fault that may hold up what a replica sends to Ironic; " of " and the replica end it.
const Slow = "slow connection to Ironic"

// grace is how long what was held up can arrive after such a fault.
const grace = history.Time(1e9)

// isDriven reports whether only the leader makes such a request.
func isDriven(r *history.Request) bool {
	nodes := strings.HasPrefix(r.Path, "/v1/nodes")
	switch r.Method {
	case http.MethodPost, http.MethodDelete:
		return nodes && !strings.Contains(r.Path, "/vmedia") && !strings.Contains(r.Path, "/management")
	case http.MethodPut:
		return nodes && strings.HasSuffix(r.Path, "/states/provision") && r.Target != "inspect" && r.Target != "abort"
	}
	return false
}
