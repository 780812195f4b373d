package testbed

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestServerThroughKube(t *testing.T) {
	skipShort(t)
	k := startKube(t, KubeOptions{})
	ctx := t.Context()
	started := time.Now()
	server, err := StartServer(ctx, ServerOptions{
		Kube: k, Dir: t.TempDir(),
		IronicEndpoint: "http://127.0.0.1:9", // the port of the discard service: this test needs no Ironic
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if took, err := server.Stop(); err != nil {
			t.Error(err)
		} else {
			t.Logf("the server ended %v after SIGTERM", took.Round(time.Millisecond))
		}
	})
	t.Logf("the API was served after %v", time.Since(started).Round(time.Millisecond))

	host := asJSON(object{
		"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
		"metadata": object{"name": "kept", "namespace": "default"},
		"spec":     object{"online": true},
	})
	if _, _, err := k.Kubectl(ctx, host, "create", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	for _, again := range []struct {
		name string
		end  func() error
	}{
		{"stopped", func() error { _, err := server.Stop(); return err }},
		{"killed", server.Kill},
	} {
		if err := again.end(); err != nil {
			t.Fatal(err)
		}
		if server.Alive() {
			t.Errorf("the server is alive after it was %s", again.name)
		}
		started := time.Now()
		if err := server.Start(ctx); err != nil {
			t.Fatal(err)
		}
		ready := time.Since(started)
		if err := server.WaitAvailable(ctx); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: ready again after %v, available after %v", again.name, ready.Round(time.Millisecond), time.Since(started).Round(time.Millisecond))
		for name, client := range map[string]*Client{"through kube-apiserver": k.Admin, "directly": server.Direct} {
			out, _, err := client.Kubectl(ctx, "", "get", "baremetalhosts", "-n", "default", "-o", "name")
			if want := "baremetalhost.metal3.io/kept"; err != nil || strings.TrimSpace(out) != want {
				t.Errorf("%s, %s: kubectl get says %q (%v), want %q", again.name, name, out, err, want)
			}
		}
	}
	if logs, err := server.Logs(); err != nil || logs == "" {
		t.Errorf("the server's log is %q (%v)", logs, err)
	}
}

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
