// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
)

// runEtcd runs a subcommand of etcd, and returns what it prints.
func runEtcd(t *testing.T, stdin io.Reader, args ...string) (stdout string, err error) {
	t.Helper()
	cmd := NewEtcdCommand(t.Context())
	var out bytes.Buffer
	cmd.SetArgs(args)
	cmd.SetIn(stdin)
	cmd.SetOut(&out)
	cmd.SetErr(io.Discard)
	cmd.SilenceErrors = true
	err = cmd.Execute()
	return out.String(), err
}

// savedEtcd returns the data directory of an embedded etcd that is stopped, its revision, and a snapshot of it.
func savedEtcd(t *testing.T) (dir string, revision int64, snapshot []byte) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "data")
	etcd := startEtcd(t, dir)
	put(t, etcd, "first")
	put(t, etcd, "second")
	got, err := v3client.New(etcd.etcd.Server).Get(t.Context(), "/test")
	etcd.Close()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "snapshot.db")
	if _, err := runEtcd(t, nil, "snapshot", "save", "--data-dir="+dir, file); err != nil {
		t.Fatal(err)
	}
	if snapshot, err = os.ReadFile(file); err != nil {
		t.Fatal(err)
	}
	return dir, got.Header.Revision, snapshot
}

// TestSnapshot saves the data of a server with an embedded etcd that is stopped, and restores them to another one.
func TestSnapshot(t *testing.T) {
	dir, revision, snapshot := savedEtcd(t)
	restored := filepath.Join(t.TempDir(), "restored")
	if _, err := runEtcd(t, bytes.NewReader(snapshot), "snapshot", "restore", "--data-dir="+restored, "-"); err != nil {
		t.Fatal(err)
	}
	etcd := startEtcd(t, restored)
	defer etcd.Close()
	got, err := v3client.New(etcd.etcd.Server).Get(t.Context(), "/test")
	if err != nil || len(got.Kvs) != 1 || string(got.Kvs[0].Value) != "second" {
		t.Fatalf("restored %v, %v", got, err)
	}
	if got.Kvs[0].ModRevision > revision || got.Header.Revision < revision+minRevisionBump {
		t.Errorf("the value has revision %d, and etcd has %d: before, it had %d", got.Kvs[0].ModRevision, got.Header.Revision, revision)
	}
	if left, err := filepath.Glob(filepath.Join(restored, ".restore-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	for what, test := range map[string]struct {
		args []string
		says string
	}{
		"an etcd with data":   {[]string{"--data-dir=" + dir, "-"}, "exists already"},
		"an etcd that runs":   {[]string{"--data-dir=" + restored, "--keep-old", "-"}, "in use by another process"},
		"a member of no name": {[]string{"--etcd-data-dir=" + filepath.Join(t.TempDir(), "data"), "-"}, "--initial-cluster are required"},
		"nothing":             {[]string{"-"}, "is required"},
	} {
		_, err := runEtcd(t, bytes.NewReader(snapshot), append([]string{"snapshot", "restore"}, test.args...)...)
		if err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("restored to %s: %v", what, err)
		}
	}
	if _, err := runEtcd(t, bytes.NewReader(snapshot), "snapshot", "restore", "--data-dir="+dir, "--keep-old", "-"); err != nil {
		t.Error(err)
	}
	if old, err := filepath.Glob(filepath.Join(dir, "etcd.before-*")); err != nil || len(old) != 1 {
		t.Errorf("what was there before is in %v (%v)", old, err)
	}
}

// TestRestoredTwice checks that a snapshot that is restored again has no revisions that a client may have seen after the first time.
func TestRestoredTwice(t *testing.T) {
	now := time.Now()
	for _, revision := range []int64{1, 4_000_000} {
		if first, second := revisionBump(revision, false, now), revisionBump(revision, false, now.AddDate(0, 0, 1)); second < first+86_400_000 {
			t.Errorf("revision %d: %d is added, and a day later %d", revision, first, second)
		}
	}
	if bump := revisionBump(now.UnixMilli(), false, now); bump != minRevisionBump {
		t.Errorf("%d is added to a revision that is ahead of the time", bump)
	}
}

// TestMembersRestoredAlike checks that the members of a cluster, which are restored one after the other, have the same revision: with
// different ones, each answers otherwise, and the watch caches wait for revisions that never come.
func TestMembersRestoredAlike(t *testing.T) {
	_, _, snapshot := savedEtcd(t)
	const cluster = "a=https://127.0.0.1:1,b=https://127.0.0.1:2"
	revisions := map[string]bool{}
	for name, url := range map[string]string{"a": "https://127.0.0.1:1", "b": "https://127.0.0.1:2"} {
		member := &snapshotRestore{memberDir: filepath.Join(t.TempDir(), "data"), name: name, peerURL: url, cluster: cluster, token: "token"}
		var said strings.Builder
		err := member.run("-", bytes.NewReader(snapshot), &said)
		_, revision, told := strings.Cut(said.String(), "the revision is now ")
		if err != nil || !told {
			t.Fatalf("%q, %v", said.String(), err)
		}
		revisions[revision] = true
		time.Sleep(5 * time.Millisecond)
	}
	if len(revisions) != 1 {
		t.Errorf("the members have the revisions %v", revisions)
	}
}

// TestDamagedSnapshot checks that nothing is restored from a snapshot that is not whole.
func TestDamagedSnapshot(t *testing.T) {
	_, _, snapshot := savedEtcd(t)
	damaged := bytes.Clone(snapshot)
	damaged[len(damaged)/2] ^= 1
	for name, content := range map[string][]byte{"damaged": damaged, "cut off": snapshot[:len(snapshot)-4096], "empty": nil} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			file := filepath.Join(t.TempDir(), "snapshot.db")
			if err := os.WriteFile(file, content, 0o600); err != nil {
				t.Fatal(err)
			}
			for from, in := range map[string]io.Reader{file: nil, "-": bytes.NewReader(content)} {
				_, err := runEtcd(t, in, "snapshot", "restore", "--data-dir="+dir, from)
				if err == nil || !strings.Contains(err.Error(), "its hash does not match") || strings.Contains(err.Error(), "\n") {
					t.Errorf("restored from %s: %v", from, err)
				}
			}
			left, err := os.ReadDir(dir)
			if err != nil || len(left) != 1 || left[0].Name() != "lock" {
				t.Errorf("left behind: %v (%v)", left, err)
			}
		})
	}
}

// TestScheduledSnapshots checks that --directory has the latest snapshots, and nothing else.
func TestScheduledSnapshots(t *testing.T) {
	data, _, _ := savedEtcd(t)
	dir := t.TempDir()
	killed := filepath.Join(dir, snapshotPrefix+"20260101T000000.000Z"+snapshotSuffix+".partial-1")
	if err := os.WriteFile(killed, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	// Of a clock that was wrong, and not of the latest data.
	for _, wrong := range []string{"20990101T000000.000Z", "20990101T000001.000Z"} {
		if err := os.WriteFile(filepath.Join(dir, snapshotPrefix+wrong+snapshotSuffix), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		if _, err := runEtcd(t, nil, "snapshot", "save", "--data-dir="+data, "--directory="+dir, "--keep=2"); err != nil {
			t.Fatal(err)
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 2 {
		t.Fatalf("%v, %v", files, err)
	}
	latest, err := runEtcd(t, nil, "snapshot", "read", "--directory="+dir)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(filepath.Join(dir, files[1].Name()))
	if err != nil || latest != string(want) {
		t.Errorf("the latest snapshot has %d bytes, want the %d of %s (%v)", len(latest), len(want), files[1].Name(), err)
	}
}
