// SPDX-License-Identifier: Apache-2.0

package validate

import (
	"strings"
	"testing"

	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
	"github.com/metal3-io/metal3-apiserver/test/robustness/history"
)

const bmc = "127.0.0.1:10001"

// The beginnings of entries. Times are small numbers.
func op(verb string, start, end history.Time, o history.Operation) history.Entry {
	o.Verb, o.Start, o.End = verb, start, end
	if o.Outcome == "" {
		o.Outcome = history.OK
	}
	if verb != history.List && o.Name == "" {
		o.Name = "a"
	}
	return history.Entry{Operation: &o}
}

func shown(version int64, token string, change ...func(*history.Host)) []history.Host {
	h := history.Host{Name: "a", UID: "uid-a", Version: version, Write: history.Write{Token: token}, Hash: "h", BMC: bmc}
	for _, c := range change {
		c(&h)
	}
	return []history.Host{h}
}

func deleting(h *history.Host) { h.Deleting = true }

func withNode(state string) func(*history.Host) {
	return func(h *history.Host) {
		h.ID, h.Node = "n", &ironicsim.NodeVersion{UUID: "n", ProvisionState: state}
	}
}

func withoutNode(h *history.Host) { h.ID = "n" }

func nodeIs(at history.Time, state string) history.Entry {
	return history.Entry{Node: &history.Node{At: at, NodeVersion: ironicsim.NodeVersion{UUID: "n", ProvisionState: state, BMC: bmc}}}
}

func nodeGone(at history.Time) history.Entry {
	return history.Entry{Node: &history.Node{At: at, NodeVersion: ironicsim.NodeVersion{UUID: "n", Gone: true, BMC: bmc}}}
}

func writes(token string) *history.Write { return &history.Write{Token: token, TokenOnly: true} }

func touched(at history.Time, touch ironicsim.MachineTouch) history.Entry {
	touch.BMC = bmc
	return history.Entry{Machine: &history.Machine{At: at, MachineTouch: touch}}
}

func watched(kind string, version int64, token string) history.Entry {
	return history.Entry{Watch: &history.WatchEvent{Stream: 1, Type: kind, Host: history.Host{Name: "a", UID: "uid-a", Version: version, Hash: "h", Write: history.Write{Token: token}}}}
}

func inEtcd(revision int64, token string, change ...func(*history.Stored)) history.Entry {
	s := &history.Stored{Revision: revision, Name: "a", Token: token}
	for _, c := range change {
		c(s)
	}
	return history.Entry{Stored: s}
}

func created(s *history.Stored) { s.Created = true }
func deleted(s *history.Stored) { s.Deleted = true }

func leads(at history.Time, server string) history.Entry {
	return history.Entry{Lease: &history.Lease{At: at, Server: server}}
}

func asked(at history.Time, server, method, path, target string) history.Entry {
	return history.Entry{Request: &history.Request{Arrived: at, Start: at, End: at, Server: server, RequestEnd: ironicsim.RequestEnd{Method: method, Path: path, Target: target}}}
}

func TestRules(t *testing.T) {
	type entries = []history.Entry
	first, second := "first.raw", "second.raw"
	spec := func(image string, online bool) *history.Write {
		return &history.Write{Token: "t", Image: image, Online: online}
	}
	provisionedWith := func(image string) func(*history.Host) {
		return func(h *history.Host) { h.State, h.Image = "provisioned", image }
	}
	created1 := op(history.Create, 0, 1, history.Operation{Write: writes("1"), Hosts: shown(10, "1")})
	unknown := func(verb string, start, end history.Time, write *history.Write) history.Entry {
		return op(verb, start, end, history.Operation{Outcome: history.Unknown, Write: write})
	}
	notFound := func(start, end history.Time) history.Entry {
		return op(history.Get, start, end, history.Operation{Outcome: history.Refused, Reason: "NotFound"})
	}
	for _, c := range []struct {
		name    string
		rule    func([]history.Entry) []Violation
		entries entries
		// broken is part of the only violation; empty if there is none.
		broken string
	}{
		{"node as it is", Fresh, entries{nodeIs(1, "manageable"), op(history.Get, 5, 6, history.Operation{Hosts: shown(1, "", withNode("manageable"))})}, ""},
		{"node as it becomes meanwhile", Fresh, entries{nodeIs(1, "manageable"), nodeIs(6, "active"), op(history.Get, 5, 7, history.Operation{Hosts: shown(1, "", withNode("active"))})}, ""},
		{"node as it was meanwhile", Fresh, entries{nodeIs(1, "manageable"), nodeIs(6, "active"), op(history.Get, 5, 7, history.Operation{Hosts: shown(1, "", withNode("manageable"))})}, ""},
		{"node as it was before", Fresh, entries{nodeIs(1, "manageable"), nodeIs(4, "active"), op(history.Get, 5, 7, history.Operation{Hosts: shown(1, "", withNode("manageable"))})}, "shows {manageable"},
		{"the same with a warning", Fresh, entries{nodeIs(1, "manageable"), nodeIs(4, "active"), op(history.Get, 5, 7, history.Operation{Warned: true, Hosts: shown(1, "", withNode("manageable"))})}, ""},
		{"node as it never was", Fresh, entries{nodeIs(1, "manageable"), op(history.List, 5, 7, history.Operation{Hosts: shown(1, "", withNode("cleaning"))})}, "shows {cleaning"},
		{"node as it will be", Fresh, entries{nodeIs(1, "manageable"), nodeIs(8, "active"), op(history.Get, 5, 7, history.Operation{Hosts: shown(1, "", withNode("active"))})}, "shows {active"},
		{"no node before it is there", Fresh, entries{nodeIs(6, "enroll"), op(history.Get, 5, 7, history.Operation{Hosts: shown(1, "", withoutNode)})}, ""},
		{"no node although it is there", Fresh, entries{nodeIs(1, "enroll"), op(history.Get, 5, 7, history.Operation{Hosts: shown(1, "", withoutNode)})}, "shows no node"},
		{"not listed while nothing was done with it", Fresh, entries{nodeIs(1, "enroll"), op(history.List, 5, 7, history.Operation{Hosts: shown(1, "", withoutNode)})}, ""},
		{"not listed although something was done with it", Fresh, entries{nodeIs(1, "enroll"), nodeIs(2, "manageable"), op(history.List, 5, 7, history.Operation{Hosts: shown(1, "", withoutNode)})}, "shows no node"},
		{"node that is gone", Fresh, entries{nodeIs(1, "available"), nodeGone(2), op(history.Get, 5, 7, history.Operation{Hosts: shown(1, "", withNode("available"))})}, "was [no node"},
		{"gone node in a list after two minutes", Fresh, entries{nodeIs(1, "available"), nodeGone(2), op(history.List, 2+sweepLimit, 3+sweepLimit, history.Operation{Hosts: shown(1, "", withNode("available"))})}, "was [no node"},
		{"gone node in a list", Fresh, entries{nodeIs(1, "available"), nodeGone(2), op(history.List, 5, 7, history.Operation{Hosts: shown(1, "", withNode("available"))})}, ""},

		{"one content", Coherent, entries{op(history.Get, 1, 2, history.Operation{Hosts: shown(3, "1")}), watched("MODIFIED", 3, "1")}, ""},
		{"two contents", Coherent, entries{op(history.Get, 1, 2, history.Operation{Hosts: shown(3, "1", func(h *history.Host) { h.Hash = "other" })}), watched("MODIFIED", 3, "1")}, "resourceVersion 3 with content h"},
		{"other content in another version", Coherent, entries{op(history.Get, 1, 2, history.Operation{Hosts: shown(3, "1", func(h *history.Host) { h.Hash = "other" })}), watched("MODIFIED", 4, "1")}, ""},

		{"versions that grow", Monotonic, entries{op(history.Get, 1, 2, history.Operation{Hosts: shown(3, "1")}), op(history.List, 3, 4, history.Operation{ListVersion: 5, Hosts: shown(4, "1")})}, ""},
		{"versions that go back", Monotonic, entries{op(history.Get, 1, 2, history.Operation{Hosts: shown(4, "1")}), op(history.List, 3, 4, history.Operation{ListVersion: 5, Hosts: shown(3, "1")})}, "resourceVersion 3 of \"uid-a\" after 4"},
		{"lists that go back", Monotonic, entries{op(history.List, 1, 2, history.Operation{ListVersion: 5}), op(history.List, 3, 4, history.Operation{ListVersion: 4})}, "after 5"},
		{"lists of two clients", Monotonic, entries{op(history.List, 1, 2, history.Operation{ListVersion: 5}), op(history.List, 3, 4, history.Operation{Client: 1, ListVersion: 4})}, ""},

		{"created, read, changed, read", Linearizable, entries{
			created1, op(history.Get, 2, 3, history.Operation{Hosts: shown(11, "1")}),
			op(history.Update, 4, 5, history.Operation{Base: "1", Write: writes("2"), Hosts: shown(12, "2")}), op(history.List, 6, 7, history.Operation{Hosts: shown(12, "2")}),
		}, ""},
		{"lost update", Linearizable, entries{
			created1, op(history.Patch, 2, 3, history.Operation{Write: writes("2"), Hosts: shown(11, "2")}),
			op(history.Update, 4, 5, history.Operation{Base: "1", Write: writes("3"), Hosts: shown(12, "3")}),
		}, "Illegal"},
		{"read of what was overwritten", Linearizable, entries{
			created1, op(history.Patch, 2, 3, history.Operation{Write: writes("2"), Hosts: shown(11, "2")}), op(history.Get, 4, 5, history.Operation{Hosts: shown(10, "1")}),
		}, "Illegal"},
		{"the same while it is overwritten", Linearizable, entries{
			created1, op(history.Patch, 2, 6, history.Operation{Write: writes("2"), Hosts: shown(11, "2")}), op(history.Get, 4, 5, history.Operation{Hosts: shown(10, "1")}),
		}, ""},
		{"absent from a list", Linearizable, entries{created1, op(history.List, 2, 3, history.Operation{})}, "Illegal"},
		{"not found", Linearizable, entries{created1, notFound(2, 3)}, "Illegal"},
		{"not found after it was deleted", Linearizable, entries{created1, op(history.Delete, 2, 3, history.Operation{}), op(history.Get, 4, 5, history.Operation{Hosts: shown(12, "1", deleting)}), notFound(6, 7)}, ""},
		{"back after it was not found", Linearizable, entries{created1, op(history.Delete, 2, 3, history.Operation{}), notFound(4, 5), op(history.Get, 6, 7, history.Operation{Hosts: shown(12, "1", deleting)})}, "Illegal"},
		{"change without an answer, carried out late", Linearizable, entries{
			created1, unknown(history.Patch, 2, 3, writes("2")), op(history.Get, 4, 5, history.Operation{Hosts: shown(10, "1")}), op(history.Get, 6, 7, history.Operation{Hosts: shown(11, "2")}),
		}, ""},
		{"change without an answer, undone", Linearizable, entries{
			created1, unknown(history.Patch, 2, 3, writes("2")), op(history.Get, 4, 5, history.Operation{Hosts: shown(11, "2")}), op(history.Get, 6, 7, history.Operation{Hosts: shown(12, "1")}),
		}, "Illegal"},
		{"created anew without an answer", Linearizable, entries{
			created1, op(history.Delete, 2, 3, history.Operation{}), unknown(history.Create, 4, 5, writes("2")),
			op(history.Get, 6, 7, history.Operation{Hosts: shown(20, "2", func(h *history.Host) { h.UID = "other" })}),
		}, ""},
		{"refused, and carried out", Linearizable, entries{
			created1, op(history.Patch, 2, 3, history.Operation{Outcome: history.Refused, Reason: "Conflict", Write: writes("2")}), op(history.Get, 4, 5, history.Operation{Hosts: shown(11, "2")}),
		}, "Illegal"},
		{"exists already", Linearizable, entries{op(history.Create, 2, 3, history.Operation{Outcome: history.Refused, Reason: "AlreadyExists", Write: writes("2")})}, "Illegal"},

		{"all of etcd's history", Watches, entries{
			inEtcd(5, "1", created), inEtcd(7, "2"), inEtcd(8, "2", deleted),
			watched(history.Started, 4, ""), watched("ADDED", 5, "1"), watched("MODIFIED", 7, "2"), watched("BOOKMARK", 7, ""), watched("DELETED", 8, "2"),
		}, ""},
		{"from the middle, and not to the end", Watches, entries{
			inEtcd(5, "1", created), inEtcd(7, "2"), inEtcd(8, "3"), watched(history.Started, 5, ""), watched("MODIFIED", 7, "2"),
		}, ""},
		{"a gap", Watches, entries{inEtcd(5, "1", created), inEtcd(7, "2"), watched(history.Started, 4, ""), watched("MODIFIED", 7, "2")}, "has not shown version 5"},
		{"a gap before a bookmark", Watches, entries{inEtcd(5, "1", created), watched(history.Started, 4, ""), watched("BOOKMARK", 6, "")}, "has not shown version 5"},
		{"shown twice", Watches, entries{watched(history.Started, 4, ""), watched("ADDED", 5, "1"), watched("ADDED", 5, "1")}, "after 5 was reached"},
		{"shown after the bookmark", Watches, entries{watched(history.Started, 4, ""), watched("BOOKMARK", 6, ""), watched("ADDED", 5, "1")}, "after 6 was reached"},
		{"a bookmark that goes back", Watches, entries{watched(history.Started, 4, ""), watched("BOOKMARK", 3, "")}, "goes back"},
		{"never stored", Watches, entries{inEtcd(8, "1"), watched(history.Started, 4, ""), watched("MODIFIED", 7, "2"), watched("MODIFIED", 8, "1")}, "no change of"},
		{"modified instead of added", Watches, entries{inEtcd(5, "1", created), watched(history.Started, 4, ""), watched("MODIFIED", 5, "1")}, "is ADDED"},

		{"image that was asked for", Disks, entries{
			op(history.Create, 1, 2, history.Operation{Write: spec(first, true), Hosts: shown(1, "t")}),
			touched(3, ironicsim.MachineTouch{Step: "deploy.erase_devices_metadata"}), touched(4, ironicsim.MachineTouch{Step: "deploy.write_image", Image: first}),
			op(history.Get, 5, 6, history.Operation{Hosts: shown(2, "t", provisionedWith(first))}),
		}, ""},
		{"image of a request without an answer", Disks, entries{
			op(history.Create, 0, 1, history.Operation{Write: spec("", true), Hosts: shown(1, "t")}),
			unknown(history.Patch, 1, 2, spec(first, true)), touched(4, ironicsim.MachineTouch{Step: "deploy.write_image", Image: first}),
		}, ""},
		{"erased before", Disks, entries{
			op(history.Create, 0, 1, history.Operation{Write: spec("", true), Hosts: shown(1, "t")}), touched(4, ironicsim.MachineTouch{Step: "deploy.erase_devices_metadata"}),
		}, "no image was ever asked for"},
		{"another image", Disks, entries{
			op(history.Create, 1, 2, history.Operation{Write: spec(first, true), Hosts: shown(1, "t")}), touched(4, ironicsim.MachineTouch{Step: "deploy.write_image", Image: second}),
		}, "never asked for"},
		{"written twice", Disks, entries{
			op(history.Create, 1, 2, history.Operation{Write: spec(first, true), Hosts: shown(1, "t")}),
			touched(4, ironicsim.MachineTouch{Step: "deploy.write_image", Image: first}), touched(5, ironicsim.MachineTouch{Step: "deploy.write_image", Image: first}),
		}, "write 2"},
		{"written again after a failure", Disks, entries{
			op(history.Create, 1, 2, history.Operation{Write: spec(first, true), Hosts: shown(1, "t")}),
			touched(4, ironicsim.MachineTouch{Step: "deploy.write_image", Image: first}), nodeIs(5, "deploy failed"), touched(6, ironicsim.MachineTouch{Step: "deploy.write_image", Image: first}),
		}, ""},
		{"wiped, and says so", Disks, entries{
			op(history.Create, 1, 2, history.Operation{Write: spec(first, true), Hosts: shown(1, "t")}),
			touched(3, ironicsim.MachineTouch{Step: "deploy.write_image", Image: first}), touched(4, ironicsim.MachineTouch{Step: "deploy.erase_devices_metadata"}),
			op(history.Get, 5, 6, history.Operation{Hosts: shown(2, "t", provisionedWith(first), func(h *history.Host) { h.Trouble = "it is gone" })}),
		}, ""},
		{"wiped and provisioned", Disks, entries{
			op(history.Create, 1, 2, history.Operation{Write: spec(first, true), Hosts: shown(1, "t")}),
			touched(3, ironicsim.MachineTouch{Step: "deploy.write_image", Image: first}), touched(4, ironicsim.MachineTouch{Step: "deploy.erase_devices_metadata"}),
			op(history.Get, 5, 6, history.Operation{Hosts: shown(2, "t", provisionedWith(first))}),
		}, "the last write to its disks was deploy.erase_devices_metadata"},

		{"switched off as asked", Power, entries{
			op(history.Create, 1, 2, history.Operation{Write: spec(first, true), Hosts: shown(1, "t")}), op(history.Patch, 3, 4, history.Operation{Write: spec(first, false), Hosts: shown(2, "t")}),
			touched(5, ironicsim.MachineTouch{PowerCut: true, State: "active"}),
		}, ""},
		{"switched off by the deployment", Power, entries{
			op(history.Create, 1, 2, history.Operation{Write: spec(first, true), Hosts: shown(1, "t")}), touched(5, ironicsim.MachineTouch{PowerCut: true, State: "deploying"}),
		}, ""},
		{"switched off unasked", Power, entries{
			op(history.Create, 1, 2, history.Operation{Write: spec(first, true), Hosts: shown(1, "t")}), touched(5, ironicsim.MachineTouch{PowerCut: true, State: "active"}),
		}, "cut 1 times"},

		{"the leader drives", Terms, entries{leads(1, "x"), asked(2, "x", "POST", "/v1/nodes", ""), leads(3, "y"), asked(4, "y", "DELETE", "/v1/nodes/n", "")}, ""},
		{"the former leader drives", Terms, entries{leads(1, "x"), leads(3, "y"), asked(4, "x", "PUT", "/v1/nodes/n/states/provision", "active")}, "from x, and y leads"},
		{"an action of a user", Terms, entries{leads(1, "x"), asked(4, "y", "PUT", "/v1/nodes/n/states/power", "rebooting")}, ""},
		{"held up on its way", Terms, entries{
			{Fault: &history.Fault{Start: 2, End: 5, What: Slow + " held there of x"}},
			leads(1, "x"), leads(3, "y"), asked(4, "x", "PUT", "/v1/nodes/n/states/provision", "active"),
		}, ""},

		{"at rest", Converged, entries{nodeIs(1, "active"), {Final: &history.Final{Host: history.Host{Name: "a", ID: "n"}}}}, ""},
		{"not at rest", Converged, entries{{Final: &history.Final{Host: history.Host{Name: "a"}, Complaint: "it is busy"}}}, "it is busy"},
		{"a node too many", Converged, entries{nodeIs(1, "active"), {Final: &history.Final{Host: history.Host{Name: "a", ID: "other"}}}}, "belongs to no host"},
		{"a node that was deleted", Converged, entries{nodeIs(1, "active"), nodeGone(2), {Final: &history.Final{Host: history.Host{Name: "a", ID: "other"}}}}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			violations := c.rule(c.entries)
			switch {
			case c.broken == "" && len(violations) > 0:
				t.Errorf("unexpected: %v", violations)
			case c.broken != "" && (len(violations) != 1 || !strings.Contains(violations[0].What, c.broken)):
				t.Errorf("%v instead of %q", violations, c.broken)
			}
		})
	}
}

func TestAtRest(t *testing.T) {
	rest := history.Host{Write: history.Write{Online: true, Image: "i"}, State: "provisioned", Image: "i", Node: &ironicsim.NodeVersion{ProvisionState: "active", PowerState: "power on"}}
	for _, c := range []struct {
		name   string
		change func(*history.Host)
		broken string
	}{
		{"provisioned", func(*history.Host) {}, ""},
		{"deleting", deleting, "deleted"},
		{"error", func(h *history.Host) { h.Trouble = "no BMC" }, "no BMC"},
		{"another image", func(h *history.Host) { h.Image = "j" }, "asks for provisioned"},
		{"to be deprovisioned", func(h *history.Host) { h.Write.Image = "" }, "asks for available"},
		{"no node", func(h *history.Host) { h.Node = nil }, "no node"},
		{"node in transit", func(h *history.Host) { h.Node.ProvisionState = "deploying" }, "deploying"},
		{"power", func(h *history.Host) { h.Node.PowerState = "power off" }, "power on"},
		{"locked", func(h *history.Host) { h.Node.Reservation = "conductor" }, "conductor"},
		{"off before it was provisioned", func(h *history.Host) {
			h.Write.Online, h.State, h.Image = false, "available", ""
			h.Node.ProvisionState, h.Node.PowerState = "manageable", "power off"
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := rest
			node := *rest.Node
			h.Node = &node
			c.change(&h)
			if got := AtRest(h); (got == "") != (c.broken == "") || !strings.Contains(got, c.broken) {
				t.Errorf("%q instead of %q", got, c.broken)
			}
		})
	}
}
