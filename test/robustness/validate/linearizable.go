// SPDX-License-Identifier: Apache-2.0

package validate

import (
	"fmt"
	"io"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/metal3-io/metal3-apiserver/test/robustness/history"
)

// register is what a host is for Linearizable. The server itself changes hosts as well, so only what clients write is
// compared, and that resourceVersions grow.
type register struct {
	exists bool
	uid    string
	token  string
	// version is the newest resourceVersion that was shown or written; the host can have a newer one by now.
	version int64
	// deleting: the host ends at some moment from now on.
	deleting bool
	// reborn is the token of a create without an answer that was carried out, if at all, when the host had ended.
	reborn string
}

// call is an operation on one host, or the part of a list that is about it.
type call struct {
	*history.Operation
	// shown is the host in the answer; nil if the answer has none.
	shown *history.Host
}

// Linearizable finds the hosts for which no order of the operations explains all answers, if each operation is carried
// out at one moment between its beginning and its end. One whose outcome is unknown may be carried out at any time, or never.
func Linearizable(entries []history.Entry) (violations []Violation) {
	for name, calls := range callsOf(entries) {
		if result := porcupine.CheckOperationsTimeout(hostModel, calls, limit); result != porcupine.Ok {
			violations = append(violations, Violation{"Linearizable", name, history.Time(calls[0].Call), fmt.Sprintf("the answers to %d operations: %s", len(calls), result)})
		}
	}
	return violations
}

// limit is how long the search for an order of one host's operations may take.
const limit = time.Minute

// Visualize writes porcupine's page about the operations on one host.
func Visualize(entries []history.Entry, name string, to io.Writer) error {
	_, info := porcupine.CheckOperationsVerbose(hostModel, callsOf(entries)[name], limit)
	return porcupine.Visualize(hostModel, info, to)
}

func callsOf(entries []history.Entry) map[string][]porcupine.Operation {
	calls := map[string][]porcupine.Operation{}
	var names []string
	for _, o := range each(entries, operation) {
		if o.Name != "" && calls[o.Name] == nil {
			calls[o.Name], names = []porcupine.Operation{}, append(names, o.Name)
		}
	}
	add := func(name string, o *history.Operation, shown *history.Host) {
		end := o.End
		if o.Outcome == history.Unknown {
			end = history.Never
		}
		calls[name] = append(calls[name], porcupine.Operation{ClientId: o.Client, Input: call{o, shown}, Output: o.Outcome, Call: int64(o.Start), Return: int64(end)})
	}
	for _, o := range each(entries, operation) {
		switch o.Verb {
		case history.Get, history.List:
			if o.Outcome == history.Unknown || o.Outcome == history.Refused && o.Reason != "NotFound" {
				continue
			}
		case history.Create, history.Update, history.Patch, history.Delete:
		default:
			continue // actions change the spec at the server's own discretion, but not what is compared
		}
		if o.Verb != history.List {
			var shown *history.Host
			if len(o.Hosts) > 0 {
				shown = &o.Hosts[0]
			}
			add(o.Name, o, shown)
			continue
		}
		for _, name := range names {
			var shown *history.Host
			for i := range o.Hosts {
				if o.Hosts[i].Name == name {
					shown = &o.Hosts[i]
				}
			}
			add(name, o, shown)
		}
	}
	return calls
}

var hostModel = porcupine.Model{
	Init: func() any { return register{} },
	Step: func(state, input, _ any) (bool, any) {
		next, possible := step(state.(register), input.(call))
		return possible, next
	},
	DescribeOperation: func(input, _ any) string { return describeCall(input.(call)) },
	DescribeState:     func(state any) string { return fmt.Sprintf("%+v", state.(register)) },
}

// step carries an operation out. It returns false if its outcome is not possible.
func step(r register, c call) (next register, possible bool) {
	if c.Outcome == history.Unknown {
		return carryOut(r, c), true
	}
	if r.reborn != "" && c.shown != nil && c.shown.UID != r.uid {
		r = register{exists: true, token: r.reborn}
	}
	if c.Outcome == history.Refused {
		switch c.Reason {
		case "NotFound":
			if r.exists && !r.deleting {
				return r, false
			}
			return register{}, true
		case "AlreadyExists":
			return r, r.exists
		}
		return r, true // nothing was carried out, and the reason is not judged
	}
	switch c.Verb {
	case history.Get, history.List:
		if c.shown == nil {
			if r.exists && !r.deleting {
				return r, false
			}
			return register{}, true
		}
		shows := r.exists && c.shown.UID == r.uid && c.shown.Write.Token == r.token && c.shown.Version >= r.version && c.shown.Deleting == r.deleting
		// A host that was created or changed by a request without an answer has a UID and a version that nobody knows yet.
		if r.exists && r.uid == "" {
			shows = c.shown.Write.Token == r.token && c.shown.Deleting == r.deleting
			r.uid = c.shown.UID
		}
		r.version = c.shown.Version
		return r, shows
	case history.Create:
		if r.exists && !r.deleting {
			return r, false
		}
		return register{exists: true, uid: c.shown.UID, token: c.Write.Token, version: c.shown.Version}, true
	case history.Update:
		if !r.exists || r.token != c.Base {
			return r, false
		}
	}
	if !r.exists {
		return r, false
	}
	r = carryOut(r, c)
	if c.shown != nil {
		if r.uid != "" && r.uid != c.shown.UID || c.shown.Version < r.version {
			return r, false
		}
		r.uid, r.version = c.shown.UID, c.shown.Version
	}
	return r, true
}

// carryOut is the effect of an operation, if there is any.
func carryOut(r register, c call) register {
	switch c.Verb {
	case history.Create:
		if !r.exists {
			return register{exists: true, token: c.Write.Token}
		}
		if r.deleting {
			r.reborn = c.Write.Token
		}
	case history.Update:
		if r.exists && r.token == c.Base {
			r.token = c.Write.Token
		}
	case history.Patch:
		if r.exists {
			r.token = c.Write.Token
		}
	case history.Delete:
		r.deleting = r.exists
	}
	return r
}

func describeCall(c call) string {
	text := c.Verb
	if c.Write != nil {
		text += " " + c.Write.Token
	}
	if c.Base != "" {
		text += " on " + c.Base
	}
	if c.shown != nil {
		text += fmt.Sprintf(": %s, version %d", c.shown.Write.Token, c.shown.Version)
		if c.shown.Deleting {
			text += ", deleting"
		}
		return text
	}
	return fmt.Sprintf("%s: %s %s", text, c.Outcome, c.Reason)
}
