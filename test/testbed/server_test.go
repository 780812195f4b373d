// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"os"
	"path/filepath"
	"testing"
)

// TestDataRaceInLog checks that Stop reports a data race. A server that was built with the race
// detector logs it and continues.
func TestDataRaceInLog(t *testing.T) {
	server := &Server{LogPath: filepath.Join(t.TempDir(), "log")}
	for _, step := range []struct {
		line string
		race bool
	}{
		{"Serving securely on 127.0.0.1:6443\n", false},
		{"==================\nWARNING: DATA RACE\nWrite at 0x00c000 by goroutine 7:\n", true},
	} {
		if err := os.WriteFile(server.LogPath, []byte(step.line), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := server.Stop(); (err != nil) != step.race {
			t.Errorf("after %q: %v", step.line, err)
		}
	}
}
