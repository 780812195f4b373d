// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.uber.org/zap/zapcore"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
)

func startEtcd(t *testing.T, dir string) *embeddedEtcd {
	t.Helper()
	etcd, err := startEmbeddedEtcd(t.Context(), dir, defaultEtcdQuota, zapcore.WarnLevel)
	if err != nil {
		t.Fatal(err)
	}
	return etcd
}

// clientOf returns a client of an embedded etcd.
func clientOf(t *testing.T, etcd *embeddedEtcd) *clientv3.Client {
	t.Helper()
	client, err := newEtcdClient(storagebackend.TransportConfig{ServerList: []string{etcd.Endpoint}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func put(t *testing.T, etcd *embeddedEtcd, value string) {
	t.Helper()
	if _, err := v3client.New(etcd.etcd.Server).Put(t.Context(), "/test", value); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, etcd *embeddedEtcd) string {
	t.Helper()
	got, err := v3client.New(etcd.etcd.Server).Get(t.Context(), "/test")
	if err != nil || len(got.Kvs) != 1 {
		t.Fatalf("%v, %v", got, err)
	}
	return string(got.Kvs[0].Value)
}

func TestEmbeddedEtcd(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	etcd := startEtcd(t, dir)
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("other users can access %s: %v, %v", dir, info.Mode(), err)
	}
	config := storagebackend.NewDefaultConfig("/registry", nil)
	config.Transport.ServerList = []string{etcd.Endpoint}
	prober, err := factory.CreateProber(*config)
	if err != nil {
		t.Fatal(err)
	}
	if err := prober.Probe(t.Context()); err != nil {
		t.Errorf("%s does not answer: %v", etcd.Endpoint, err)
	}
	_ = prober.Close()
	put(t, etcd, "before the restart")

	// While it runs, another attempt to use the directory is refused: it does not wait for the end of the first one.
	_, err = startEmbeddedEtcd(t.Context(), dir, defaultEtcdQuota, zapcore.WarnLevel)
	if want := fmt.Sprintf("is in use by another process (pid %d)", os.Getpid()); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
		t.Errorf("a second etcd on the same directory: %v", err)
	}
	etcd.Close()

	etcd = startEtcd(t, dir)
	defer etcd.Close()
	if got := get(t, etcd); got != "before the restart" {
		t.Errorf("after a restart, the value is %q", got)
	}
}

const etcdProcessDir = "METAL3_APISERVER_TEST_DATA_DIR"

// TestEtcdProcess is the second process of TestKilledEtcd. It serves until its standard input
// ends.
func TestEtcdProcess(t *testing.T) {
	dir := os.Getenv(etcdProcessDir)
	if dir == "" {
		t.Skip("used only by TestKilledEtcd")
	}
	etcd := startEtcd(t, dir)
	put(t, etcd, "before the kill")
	fmt.Println("\nserving")
	_, _ = io.Copy(io.Discard, os.Stdin)
	etcd.Close()
}

func TestKilledEtcd(t *testing.T) {
	dir := t.TempDir()
	process := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestEtcdProcess$")
	process.Env = append(os.Environ(), etcdProcessDir+"="+dir)
	if _, err := process.StdinPipe(); err != nil { // stays open as long as this process lives
		t.Fatal(err)
	}
	out, err := process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = process.Process.Kill(); _ = process.Wait() }()
	for lines := bufio.NewScanner(out); lines.Text() != "serving"; {
		if !lines.Scan() {
			t.Fatalf("the other process ended: %v", lines.Err())
		}
	}
	_, err = startEmbeddedEtcd(t.Context(), dir, defaultEtcdQuota, zapcore.WarnLevel)
	if err == nil || !strings.Contains(err.Error(), "(pid "+strconv.Itoa(process.Process.Pid)+")") {
		t.Errorf("while another process uses the directory: %v", err)
	}
	if err := process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = process.Wait()

	etcd := startEtcd(t, dir)
	defer etcd.Close()
	if got := get(t, etcd); got != "before the kill" {
		t.Errorf("after the kill, the value is %q", got)
	}
}

func TestBadDataDir(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ dir, says string }{
		"too long": {filepath.Join(t.TempDir(), strings.Repeat("long", 25)), "is too long"},
		"a file":   {file, "not a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := startEmbeddedEtcd(t.Context(), test.dir, defaultEtcdQuota, zapcore.WarnLevel)
			if err == nil || !strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), "--data-dir") || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestCancelledStart checks that a start that is cancelled leaves nothing behind.
func TestCancelledStart(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if etcd, err := startEmbeddedEtcd(ctx, dir, defaultEtcdQuota, zapcore.WarnLevel); err == nil {
		etcd.Close() // it was ready before it noticed
	}
	startEtcd(t, dir).Close()
}
