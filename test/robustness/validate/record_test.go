// SPDX-License-Identifier: Apache-2.0

package validate

import (
	"os"
	"testing"

	"github.com/metal3-io/metal3-apiserver/test/robustness/history"
)

// TestRecord judges the record in the file RECORD once more.
func TestRecord(t *testing.T) {
	path := os.Getenv("RECORD")
	if path == "" {
		t.Skip("RECORD is not set")
	}
	entries, err := history.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d entries", len(entries))
	for _, v := range All(entries) {
		t.Error(v)
	}
}
