// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// A migration that is killed again and again goes on where it was; and all the time
// kube-apiserver, when asked for a host, gives that host, or says that it cannot now.
// It never says that there is none: the garbage collector would act on it.
func TestKilledAnywhere(t *testing.T) {
	fleet := newFleet(t, specials)
	ns := fleet[0].ns
	before := uidsIn(t, ns)
	server := install(t, s.Kube.EtcdEndpoint)
	reader := watchOver(t, fleet[1])

	server.runKilled(t, "import")
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	server.runKilled(t, "import", "--switch")
	if failed := reader.failures(); len(failed) > 0 {
		t.Errorf("with our server up before the switch, reads failed: %v", failed)
	}
	leaving := fleet[deletedOne].name
	gone(t, ns, leaving)
	for _, name := range []string{"baremetalhosts/" + leaving, "hardwaredata/" + leaving, "secrets/" + leaving + "-bmc"} {
		delete(before, name)
	}
	expectUIDs(t, ns, before)

	addHost(t, ns, "added")
	reader.stop()
	if _, err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	reader = watchOver(t, fleet[2])
	server.runKilled(t, "export", "--prune")
	reader.stop()
	back := uidsIn(t, ns)
	before["baremetalhosts/added"], before["secrets/added-bmc"] = back["baremetalhosts/added"], back["secrets/added-bmc"]
	expectUIDs(t, ns, before)
	unlock(t, ns)
}

// runKilled runs a command, each time a line further before it is killed, until it
// ends by itself.
func (i *installation) runKilled(t *testing.T, args ...string) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 0)) // each run kills after the same delays
	for lines := 1; ; lines++ {
		if lines > 60 {
			t.Fatalf("%v does not come to an end", args)
		}
		cmd := i.command(t.Context(), args...)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		var said []string
		complaint := &limited{}
		cmd.Stderr = complaint
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		scanner := bufio.NewScanner(out)
		for len(said) < lines && scanner.Scan() {
			said = append(said, scanner.Text())
		}
		if len(said) < lines {
			if err := cmd.Wait(); err != nil {
				t.Fatalf("after %d kills, %v: %v: %s", lines-1, args, err, complaint)
			}
			t.Logf("%v was killed %d times", args, lines-1)
			return
		}
		// Somewhere in what comes after that line, not always at its beginning.
		killer := time.AfterFunc(time.Duration(random.Int64N(int64(200*time.Millisecond))), func() { _ = cmd.Process.Kill() })
		_, _ = io.Copy(io.Discard, out)
		killer.Stop()
		if cmd.Wait() == nil {
			t.Logf("%v was killed %d times", args, lines-1)
			return
		}
	}
}

// limited keeps what a command says when it fails.
type limited struct{ text []byte }

func (l *limited) Write(p []byte) (int, error) {
	l.text = append(l.text, p...)
	return len(p), nil
}

func (l *limited) String() string { return string(l.text) }

// watcher reads a host all the time.
type watcher struct {
	stop func()

	mu     sync.Mutex
	errors []error
}

// watchOver reads a host all the time, and takes it for a failure of the test when it
// is not there, or another one.
func watchOver(t *testing.T, m *member) *watcher {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	w := &watcher{stop: sync.OnceFunc(func() { cancel(); <-done })}
	t.Cleanup(w.stop)
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			host, err := s.Metal3.Metal3V1alpha1().BareMetalHosts(m.ns).Get(ctx, m.name, metav1.GetOptions{})
			switch {
			case errors.Is(ctx.Err(), context.Canceled):
			case apierrors.IsNotFound(err):
				t.Errorf("host %s/%s: %v", m.ns, m.name, err)
			case err != nil:
				w.mu.Lock()
				w.errors = append(w.errors, fmt.Errorf("%s: %w", time.Now().Format(time.TimeOnly), err))
				w.mu.Unlock()
			case host.UID != m.host.UID || host.Status.Provisioning.State != metal3.StateProvisioned:
				t.Errorf("host %s/%s has UID %s, want %s, and is %s", m.ns, m.name, host.UID, m.host.UID, host.Status.Provisioning.State)
			}
			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	return w
}

func (w *watcher) failures() []error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]error(nil), w.errors...)
}
