// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// makeDirs makes directories that are not empty.
func makeDirs(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := os.MkdirAll(filepath.Join(dir, name, "member"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
}

func namesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// TestDiscard checks that what restores have kept is deleted, and nothing else, and only if there are newer data.
func TestDiscard(t *testing.T) {
	const kept1, kept2 = ".before-20260101T001700.000Z", ".before-20260201T001700.000Z"
	for what, test := range map[string]struct {
		flag         string // the data are in this directory below it
		base         string
		before, want []string
		says         string
	}{
		"embedded":           {"--data-dir=", "", []string{"etcd", "etcd" + kept1, "etcd" + kept2}, []string{"etcd"}, ""},
		"a member":           {"--etcd-data-dir=", "data", []string{"data", "data" + kept1}, []string{"data"}, ""},
		"of something else":  {"--data-dir=", "", []string{"etcd", "etcd.before-lunch", "other" + kept1, ".restore-1"}, []string{".restore-1", "etcd", "etcd.before-lunch", "other" + kept1}, ""},
		"without newer data": {"--data-dir=", "", []string{"etcd" + kept1}, []string{"etcd" + kept1}, "nothing is deleted"},
		"nothing was kept":   {"--data-dir=", "", []string{"etcd"}, []string{"etcd"}, ""},
	} {
		dir := t.TempDir()
		makeDirs(t, dir, test.before...)
		_, err := runEtcd(t, nil, "snapshot", "discard", test.flag+filepath.Join(dir, test.base))
		if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, want %q", what, err, test.says)
		}
		if got := namesIn(t, dir); !slices.Equal(got, test.want) {
			t.Errorf("%s: there are %v, want %v", what, got, test.want)
		}
	}
	if _, err := runEtcd(t, nil, "snapshot", "discard"); err == nil || !strings.Contains(err.Error(), "is required") {
		t.Errorf("of no etcd: %v", err)
	}
}

// TestKeptAndDiscarded restores twice beside the data of an etcd, deletes what was kept, and finds the data that were restored. A
// killed restore leaves nothing, either.
func TestKeptAndDiscarded(t *testing.T) {
	dir, _, snapshot := savedEtcd(t)
	makeDirs(t, dir, restoring+"killed")
	for range 2 {
		if _, err := runEtcd(t, bytes.NewReader(snapshot), "snapshot", "restore", "--data-dir="+dir, "--keep-old", "-"); err != nil {
			t.Fatal(err)
		}
	}
	if names := namesIn(t, dir); slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, restoring) }) || len(names) < 4 {
		t.Fatalf("there are %v after two restores", names)
	}
	if _, err := runEtcd(t, nil, "snapshot", "discard", "--data-dir="+dir); err != nil {
		t.Fatal(err)
	}
	if names := namesIn(t, dir); !slices.Contains(names, embeddedDir) || slices.ContainsFunc(names, func(name string) bool { return strings.Contains(name, beforeRestore) }) {
		t.Fatalf("there are %v", names)
	}
	if saved, err := runEtcd(t, nil, "snapshot", "save", "--data-dir="+dir, "-"); err != nil || !strings.Contains(saved, "second") {
		t.Errorf("what was restored is not there any more: %v", err)
	}
}
