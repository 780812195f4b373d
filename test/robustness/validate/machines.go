// SPDX-License-Identifier: Apache-2.0

package validate

import (
	"fmt"

	"github.com/metal3-io/metal3-apiserver/test/robustness/history"
)

// machineLife is what was asked for a machine and done to it up to a moment.
type machineLife struct {
	host string
	// images were asked for, with how often; asks is all of them. leaves are the times that they may have been
	// given up: by another image, none, or a deletion. An operation without an answer counts as well.
	images       map[string]int
	asks, leaves int
	// cuts are the times that somebody asked for a reboot, for the power to be off, or for a deletion.
	cuts int
	// failures are the times that Ironic has failed to deploy or clean, after which the server tries again.
	failures int

	written, erased, cut int
}

// lives follows the record, and calls touched for each thing that was done to a machine, after it was counted.
func lives(entries []history.Entry, touched func(*machineLife, *history.Machine)) {
	machines := map[string]*machineLife{}
	life := func(bmc string) *machineLife {
		if machines[bmc] == nil {
			machines[bmc] = &machineLife{images: map[string]int{}}
		}
		return machines[bmc]
	}
	bmcs := map[string]string{} // by host
	for _, o := range each(entries, operation) {
		for _, h := range o.Hosts {
			bmcs[h.Name] = h.BMC
			life(h.BMC).host = h.Name
		}
	}
	inOrder(entries, func(e history.Entry, begins bool) {
		switch {
		case e.Operation != nil && begins:
			if o := e.Operation; o.Name != "" && (o.Outcome != history.Refused || o.Verb == history.Power) { // which may have changed the spec before
				life(bmcs[o.Name]).ask(o)
			}
		case e.Node != nil && (e.Node.ProvisionState == "deploy failed" || e.Node.ProvisionState == "clean failed"):
			life(e.Node.BMC).failures++
		case e.Machine != nil:
			m := life(e.Machine.BMC)
			switch {
			case e.Machine.PowerCut:
				if e.Machine.State == "active" {
					m.cut++
				}
			case e.Machine.Image != "":
				m.written++
			default:
				m.erased++
			}
			touched(m, e.Machine)
		}
	})
}

func (m *machineLife) ask(o *history.Operation) {
	switch w := o.Write; {
	case o.Verb == history.Delete:
		m.leaves++
		m.cuts++
	case o.Verb == history.Power:
		m.cuts++
	case w != nil && !w.TokenOnly:
		if w.Image != "" {
			m.images[w.Image]++
			m.asks++
		}
		if w.Reboot || !w.Online {
			m.cuts++
		}
		m.leaves++
	}
}

// Disks finds what was written to the disks of machines and was not asked for: an image that no spec names, before any spec
// named one, or more often than that; and machines that are shown as provisioned although what was last written to
// them was something else.
func Disks(entries []history.Entry) (violations []Violation) {
	wrong := func(m *machineLife, at history.Time, format string, args ...any) {
		violations = append(violations, Violation{"Disks", m.host, at, fmt.Sprintf(format, args...)})
	}
	lives(entries, func(m *machineLife, e *history.Machine) {
		switch {
		case e.PowerCut:
		case m.asks == 0:
			wrong(m, e.At, "%s in state %q, and no image was ever asked for", e.Step, e.State)
		case e.Image != "" && m.images[e.Image] == 0:
			wrong(m, e.At, "image %s was written, which was never asked for", e.Image)
		case m.written > m.asks+m.failures:
			wrong(m, e.At, "image %s was written; that is write %d, and images were asked for %d times, with %d failures", e.Image, m.written, m.asks, m.failures)
		case m.erased > m.asks+m.leaves+m.failures:
			wrong(m, e.At, "%s in state %q; that is erasure %d, for %d images and %d times that one was given up, with %d failures", e.Step, e.State, m.erased, m.asks, m.leaves, m.failures)
		}
	})
	return append(violations, provisioned(entries)...)
}

// provisioned finds hosts that are shown as provisioned with an image that was not the last thing to be written to their machine
// at any moment of the request. One whose deployment is gone stays provisioned, with an error that says so.
func provisioned(entries []history.Entry) (violations []Violation) {
	writes := map[string][]*history.Machine{}
	for _, m := range each(entries, machine) {
		if !m.PowerCut {
			writes[m.BMC] = append(writes[m.BMC], m)
		}
	}
	for _, o := range each(entries, operation) {
		if o.Outcome != history.OK || o.Warned || o.Verb != history.Get && o.Verb != history.List {
			continue
		}
		for _, h := range o.Hosts {
			if h.State != "provisioned" || h.Concealed || h.Trouble != "" {
				continue
			}
			last, possible := "nothing", false
			for i, w := range writes[h.BMC] {
				if w.At > o.End {
					break
				}
				last = w.Step + " " + w.Image
				ended := i+1 < len(writes[h.BMC]) && writes[h.BMC][i+1].At < o.Start
				possible = possible || !ended && w.Image == h.Image
			}
			if !possible {
				violations = append(violations, Violation{"Disks", h.Name, o.Start, fmt.Sprintf("%s shows it provisioned with %s, and the last write to its disks was %s", o.Verb, h.Image, last)})
			}
		}
	}
	return violations
}

// Power finds deployed machines that were switched off although nobody had asked for it, or more often than that.
func Power(entries []history.Entry) (violations []Violation) {
	lives(entries, func(m *machineLife, e *history.Machine) {
		if e.PowerCut && e.State == "active" && m.cut > m.cuts {
			violations = append(violations, Violation{"Power", m.host, e.At, fmt.Sprintf("the power was cut %d times while it was deployed, and that was asked for %d times", m.cut, m.cuts)})
		}
	})
	return violations
}
