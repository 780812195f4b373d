// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

func timeOf(t *testing.T, n doc, field string) time.Time {
	t.Helper()
	text, _ := n[field].(string)
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatalf("%s: %v", field, err)
	}
	return at
}

// All times of an Ironic are by its clock, whichever way it is off.
func TestClockOffset(t *testing.T) {
	for _, offset := range []time.Duration{10 * time.Minute, -10 * time.Minute} {
		a := start(t, quick())
		a.sim.SetClock(Clock{Offset: offset})
		path := a.node(nil)
		if err := a.sim.FailNext(strings.TrimPrefix(path, "/v1/nodes/"), "verify", "no"); err != nil {
			t.Fatal(err)
		}
		a.must(202, "PUT", path+"/states/provision", doc{"target": "manage"})
		n := a.until(path, "fail", func(n doc) bool { return n["last_error"] != nil && n["reservation"] == nil })
		event := a.must(200, "GET", path+"/history", nil).json["history"].([]any)[0].(doc)
		date, err := http.ParseTime(a.must(200, "GET", "/v1/nodes", nil).header.Get("Date"))
		if off := time.Until(date); err != nil || (off-offset).Abs() > time.Minute {
			t.Errorf("the header Date is %v from now, want %v (%v)", off, offset, err)
		}
		for _, x := range []struct {
			of    doc
			field string
		}{{n, "created_at"}, {n, "updated_at"}, {n, "provision_updated_at"}, {event, "created_at"}} {
			if off := time.Until(timeOf(t, x.of, x.field)); (off - offset).Abs() > time.Minute {
				t.Errorf("%s is %v from now, want %v", x.field, off, offset)
			}
		}
	}
}

// As Python writes times, one without microseconds has no fraction at all.
func TestWholeSeconds(t *testing.T) {
	a := start(t, quick())
	a.sim.SetClock(Clock{WholeSeconds: true})
	path := a.node(nil)
	n := a.provision(path, "manage", "manageable")
	for _, field := range []string{"created_at", "updated_at", "provision_updated_at"} {
		if text, _ := n[field].(string); strings.Contains(text, ".") || len(text) != len("2026-01-02T15:04:05+00:00") {
			t.Errorf("%s is %q", field, text)
		}
	}
	if off := time.Since(timeOf(t, n, "updated_at")); off < 0 || off > time.Minute {
		t.Errorf("updated_at is %v old", off)
	}
}

// The nodes of a conductor whose clock is off are not where they belong in the feed.
func TestNodeClock(t *testing.T) {
	a := start(t, noSync())
	touch := func(path string) {
		t.Helper()
		if err := a.sim.SetNode(strings.TrimPrefix(path, "/v1/nodes/"), nil); err != nil {
			t.Fatal(err)
		}
	}
	other, late := a.node(nil), a.node(nil)
	if err := a.sim.SetNodeClock(strings.TrimPrefix(late, "/v1/nodes/"), -5*time.Second); err != nil {
		t.Fatal(err)
	}
	touch(other)
	touch(late)
	newest, _ := a.page("detail=True&sort_key=updated_at&sort_dir=desc&limit=1")
	if got := "/v1/nodes/" + newest[0]; got != other {
		t.Errorf("%s is the newest, want %s", got, other)
	}
	if err := a.sim.SetNodeClock(strings.TrimPrefix(late, "/v1/nodes/"), time.Hour); err != nil {
		t.Fatal(err)
	}
	touch(late)
	touch(other)
	if off := time.Until(timeOf(t, a.get(late), "updated_at")); (off - time.Hour).Abs() > time.Minute {
		t.Errorf("updated_at is %v from now, want an hour", off)
	}
}
