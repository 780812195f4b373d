// SPDX-License-Identifier: Apache-2.0

package history

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

// TestRecorder writes a record and reads it again.
func TestRecorder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "record.jsonl")
	r, err := NewRecorder(path)
	if err != nil {
		t.Fatal(err)
	}
	before := r.Now()
	version := "0"
	want := []Entry{
		{Operation: &Operation{Client: 1, Verb: List, Version: &version, Start: r.At(time.Now()), Outcome: OK, Hosts: []Host{{Name: "a", Node: &ironicsim.NodeVersion{ProvisionState: "active"}}}}},
		{Node: &Node{At: 3, NodeVersion: ironicsim.NodeVersion{UUID: "n", Gone: true}}},
		{Request: &Request{Arrived: 4, Server: "s", RequestEnd: ironicsim.RequestEnd{Method: "PUT", Target: "active"}}},
	}
	for _, e := range want {
		r.Add(e)
	}
	if start := want[0].Operation.Start; start < before || start > r.Now() {
		t.Errorf("the operation began at %d, before %d or after now", start, before)
	}
	kept, err := r.Close()
	if err != nil {
		t.Fatal(err)
	}
	read, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, got := range [][]Entry{kept, read} {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}
