// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap/zapcore"
)

// TestDataDirIsMadePrivate: others, for example the group that an fsGroup adds, cannot reach etcd's
// socket and files.
func TestDataDirIsMadePrivate(t *testing.T) {
	for _, mode := range []os.FileMode{0o755, 0o770 | os.ModeSetgid, 0o777} {
		dir := filepath.Join(t.TempDir(), "data")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		if err := makePrivate(dir); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s became %s (%v)", mode, info.Mode(), err)
		}
	}
}

func TestDataDirOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a directory to another user")
	}
	dir := t.TempDir()
	if err := os.Chown(dir, 65532, -1); err != nil {
		t.Fatal(err)
	}
	_, err := startEmbeddedEtcd(t.Context(), dir, defaultEtcdQuota, zapcore.WarnLevel)
	if err == nil || !strings.Contains(err.Error(), "belongs to the user with the ID 65532") {
		t.Errorf("got %v", err)
	}
}

// TestBackupReplacesNothing: a backup is written to a new file only. What is there already, and what a
// symbolic link of another user leads to, stays as it is.
func TestBackupReplacesNothing(t *testing.T) {
	const before = "somebody else's"
	for name, prepare := range map[string]func(t *testing.T, to, victim string) error{
		"file":          func(_ *testing.T, to, _ string) error { return os.WriteFile(to, []byte(before), 0o644) },
		"link":          func(_ *testing.T, to, victim string) error { return os.Symlink(victim, to) },
		"dangling link": func(_ *testing.T, to, victim string) error { return os.Symlink(victim+"-new", to) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			to, victim := filepath.Join(dir, "backup.yaml"), filepath.Join(dir, "victim")
			if err := os.WriteFile(victim, []byte(before), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := prepare(t, to, victim); err != nil {
				t.Fatal(err)
			}
			cmd := newExportCommand(context.Background())
			cmd.SetArgs([]string{"--to=" + to, "--data-dir=" + filepath.Join(dir, "data")})
			if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), "exists already") {
				t.Errorf("got %v", err)
			}
			entries, err := filepath.Glob(filepath.Join(dir, "*"))
			if err != nil || len(entries) != 2 {
				t.Errorf("there are %v (%v)", entries, err)
			}
			for _, path := range []string{victim, to} {
				if content, err := os.ReadFile(path); err == nil && string(content) != before {
					t.Errorf("%s is now %q", path, content)
				}
			}
		})
	}

	// The temporary file of an earlier release could be foreseen.
	dir := t.TempDir()
	to, victim := filepath.Join(dir, "backup.yaml"), filepath.Join(dir, "victim")
	if err := os.Symlink(victim, to+".partial"); err != nil {
		t.Fatal(err)
	}
	cmd := newExportCommand(context.Background())
	cmd.SetArgs([]string{"--to=" + to, "--data-dir=" + filepath.Join(dir, "data")})
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(victim); err == nil {
		t.Error("the backup was written through a link")
	}
	if info, err := os.Lstat(to); err != nil || info.Mode() != 0o600 {
		t.Errorf("the backup is %v (%v)", info, err)
	}
}
