// SPDX-License-Identifier: Apache-2.0

package app

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/hosts"
	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/terminal"
	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/view"
)

// signOfLife is how often something is printed where there is no terminal, even if nothing
// changes: systems that run jobs end those that are silent.
const signOfLife = time.Minute

// display shows the progress of a wait, on stderr.
type display interface {
	// show is called after each change and once a second.
	show(all []view.Waiting, now time.Time, notice string) error
	close() error
}

// newDisplay returns the display that --progress names.
func (s *session) newDisplay(progress string) (display, error) {
	switch {
	case progress == progressNone:
		return noDisplay{}, nil
	case progress == progressJSON:
		return &jsonDisplay{lineDisplay{out: s.ErrOut}}, nil
	case progress == progressTTY || progress == progressAuto && terminal.IsTerminal(s.ErrOut):
		block, err := terminal.NewBlock(s.ErrOut)
		return &blockDisplay{block: block, out: s.ErrOut, style: s.style(s.ErrOut)}, err
	}
	return &plainDisplay{lineDisplay{out: s.ErrOut}}, nil
}

type noDisplay struct{}

func (noDisplay) show([]view.Waiting, time.Time, string) error { return nil }
func (noDisplay) close() error                                 { return nil }

// blockDisplay redraws lines in place.
type blockDisplay struct {
	block *terminal.Block
	out   io.Writer
	style view.Style
}

func (d *blockDisplay) show(all []view.Waiting, now time.Time, notice string) error {
	width, height := terminal.Size(d.out)
	lines := view.Waitings(all, width-1, height-1, now, d.style)
	if notice != "" {
		lines = append(lines, view.Line(notice, width-1))
	}
	return d.block.Draw(lines)
}

func (d *blockDisplay) close() error { return d.block.Close() }

// lineDisplay remembers what was printed about each host.
type lineDisplay struct {
	out  io.Writer
	last map[string]string
	at   time.Time
}

// isNew reports whether a line about a host is to be printed, and remembers it.
func (d *lineDisplay) isNew(name, line string, now time.Time) bool {
	if d.last == nil {
		d.last = map[string]string{}
	}
	if d.last[name] == line {
		return false
	}
	d.last[name], d.at = line, now
	return true
}

// plainDisplay prints a line for each change.
type plainDisplay struct{ lineDisplay }

func (d *plainDisplay) show(all []view.Waiting, now time.Time, notice string) error {
	if notice != "" && d.isNew("", notice, now) {
		if _, err := fmt.Fprintf(d.out, "%s  warning: %s\n", view.PlainTime(now), view.Clean(notice)); err != nil {
			return err
		}
	}
	ended := 0
	var lines []string
	for i := range all {
		if all[i].Done || all[i].Failed != "" {
			ended++
		}
		if key := view.PlainWaitingKey(&all[i]); d.isNew(all[i].Host.Name, key, now) {
			lines = append(lines, view.PlainWaiting(&all[i], now))
		}
	}
	if len(lines) == 0 && now.Sub(d.at) >= signOfLife {
		d.at = now
		lines = append(lines, fmt.Sprintf("still waiting, %d of %s done", ended, view.Plural(len(all), "host")))
	}
	for _, line := range lines {
		if _, err := fmt.Fprintf(d.out, "%s  %s\n", view.PlainTime(now), line); err != nil {
			return err
		}
	}
	return nil
}

func (d *plainDisplay) close() error { return nil }

// jsonDisplay prints a JSON object for each change.
type jsonDisplay struct{ lineDisplay }

// jsonLine is one line of --progress=json.
type jsonLine struct {
	Time      time.Time `json:"time"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	State     string    `json:"state"`
	Activity  string    `json:"activity,omitempty"`
	Step      string    `json:"step,omitempty"`
	StepIndex int       `json:"stepIndex,omitempty"`
	StepCount int       `json:"stepCount,omitempty"`
	Power     string    `json:"power,omitempty"`
	Problem   string    `json:"problem,omitempty"`
	Done      bool      `json:"done"`
	Failed    string    `json:"failed,omitempty"`
}

func (d *jsonDisplay) show(all []view.Waiting, now time.Time, _ string) error {
	for i := range all {
		w := &all[i]
		if !d.isNew(w.Host.Name, view.PlainWaitingKey(w), now) {
			continue
		}
		progress := hosts.ProgressOf(w.Host)
		line := jsonLine{
			Time: now.UTC(), Namespace: w.Host.Namespace, Name: w.Host.Name, State: string(w.Host.Status.Provisioning.State),
			Activity: progress.Activity, Step: progress.Step, StepIndex: progress.Index, StepCount: progress.Count,
			Power: hosts.Power(w.Host), Problem: hosts.Problem(w.Host), Done: w.Done, Failed: w.Failed,
		}
		encoder := json.NewEncoder(view.JSONWriter(d.out))
		encoder.SetEscapeHTML(false) // errors of Python name objects in angle brackets
		if err := encoder.Encode(line); err != nil {
			return err
		}
	}
	return nil
}

func (d *jsonDisplay) close() error { return nil }
