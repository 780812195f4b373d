// SPDX-License-Identifier: Apache-2.0

package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPasswordFile(t *testing.T) {
	dir := t.TempDir()
	for content, want := range map[string]string{"pw": "pw", "pw\n": "pw", "pw\r\n": "pw", " p w ": " p w "} {
		path := filepath.Join(dir, "pw")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := readPasswordFile("", path); err != nil || got != want {
			t.Errorf("%q: %q %v", content, got, err)
		}
	}
	for name, content := range map[string]string{"empty": "", "line break": "\n", "two lines": "a\nb\n", "long": strings.Repeat("x", 5000),
		"UTF-16": "\xff\xfex\x00x\x00x\x00\r\x00\n\x00", "a byte order mark": "\ufeffxxx\n", "Latin-1": "xxx\xe9"} {
		path := filepath.Join(dir, "bad")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readPasswordFile("", path); err == nil || strings.Contains(err.Error(), "xxx") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := readPasswordFile("", dir); err == nil {
		t.Error("a folder is read as a password")
	}
}
