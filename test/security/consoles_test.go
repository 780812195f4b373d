// SPDX-License-Identifier: Apache-2.0

package security

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

const (
	consoleJoins    = 60
	consoleUsers    = 30
	largeFrame      = 32 << 20
	maxConsolesHost = 8 // in docs/console.md
	// maxConsoleMemory is what the flood may add to the server's memory. With as many frames as joins it
	// would be almost 2 GiB.
	maxConsoleMemory = 300 << 20
)

// makeJoiners returns users who may use the consoles of a namespace.
func makeJoiners(t *testing.T, ctx context.Context, ns string) (certificates []tls.Certificate) {
	t.Helper()
	group := "joiners-of-" + ns
	for n := range consoleUsers {
		certificates = append(certificates, user(t, fmt.Sprintf("joiner-%d-of-%s", n, ns), group))
	}
	grantGroup(t, ctx, ns, group, "metal3-baremetalhosts-console")
	return certificates
}

// TestConsoleFlood: who has the right to one console joins it again and again, with frames of 32 MiB of
// which the last byte never comes. The server's memory stays as it is, others read, and nothing is left
// of it afterwards.
//
// It runs alone: it measures the memory of the server that all tests use.
func TestConsoleFlood(t *testing.T) {
	attack(t, "create consoles in one namespace", "fill memory with frames that never end, stop others' reads")
	simulator(t)
	ctx, a := s.Begin(t)
	b := makeNamespace(t, ctx, "victim-")
	path := makeConsole(t, ctx, a, "x") + "?share=true"
	certificates := makeJoiners(t, ctx, a)
	grant(t, ctx, b, person{name: "user-of-" + b, role: "view"})
	victim := throughKube(t, user(t, "user-of-"+b))
	admin := direct(t, user(t, "admin", "system:masters"))

	owner := mustJoin(t, ctx, s.Kube.Admin.Config, certificates[0], path)
	defer owner.Close()
	memory, goroutines := metricOf(t, ctx, admin, "process_resident_memory_bytes"), metricOf(t, ctx, admin, "go_goroutines")

	flood, stop := context.WithCancel(ctx)
	var attackers sync.WaitGroup
	defer attackers.Wait()
	defer stop()
	var attack consoleAttack
	for n := range consoleJoins {
		server := s.Kube.Admin.Config.Host
		if n%2 == 1 {
			server = s.Server.Direct.Config.Host
		}
		attackers.Go(func() {
			for flood.Err() == nil {
				attack.once(t, flood, server, certificates[n%consoleUsers], path)
			}
		})
	}
	var most float64
	eventually(t, ctx, func() string {
		if got := victim.get(t, ctx, groupVersion+"/namespaces/"+b+"/baremetalhosts"); got.code != http.StatusOK {
			t.Errorf("the other tenant: %d %.300s", got.code, got.body)
		}
		if most = max(most, metricOf(t, ctx, admin, "process_resident_memory_bytes")); most-memory > maxConsoleMemory {
			t.Fatalf("the server's memory grew from %.0f to %.0f MiB", memory/(1<<20), most/(1<<20))
		}
		if tooBig, refused := attack.tooBig.Load(), attack.refused.Load(); tooBig < 2*consoleJoins || refused < 2*consoleJoins {
			return fmt.Sprintf("of the joins, %d were ended with the status 1009, and %d refused with 429", tooBig, refused)
		}
		return ""
	})
	stop()
	attackers.Wait()
	t.Logf("%d frames were too big, %d joins refused; the memory grew from %.0f to %.0f MiB", attack.tooBig.Load(), attack.refused.Load(), memory/(1<<20), most/(1<<20))
	// There is room again for as many as before, and what served the flood has ended.
	for n := 1; n < maxConsolesHost; n++ {
		defer mustJoin(t, ctx, s.Kube.Admin.Config, certificates[n], path).Close()
	}
	eventually(t, ctx, func() string {
		if now := metricOf(t, ctx, admin, "go_goroutines"); now > goroutines+100 {
			return fmt.Sprintf("there are %.0f goroutines, and %.0f before the flood", now, goroutines)
		}
		return ""
	})
}

// TestUnfinishedConsoleMessage: a message that is permitted, and of which the last byte never comes, is not
// waited for, whichever way it comes.
func TestUnfinishedConsoleMessage(t *testing.T) {
	attack(t, "create consoles in one namespace", "hold a console by a message that never ends")
	t.Parallel()
	ctx, ns := s.Begin(t)
	path := makeConsole(t, ctx, ns, "x") + "?share=true"
	admin := user(t, "admin", "system:masters")
	var waiting sync.WaitGroup
	defer waiting.Wait()
	for _, server := range []*rest.Config{s.Kube.Admin.Config, s.Server.Direct.Config} {
		j := mustJoin(t, ctx, server, admin, path)
		waiting.Go(func() {
			defer j.Close()
			if _, err := j.Write(append(frameOf(60<<10), 0, 'x')); err != nil {
				t.Error(err)
			}
			if _, err := j.end(); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("an unfinished frame is waited for for a minute")
			}
		})
	}
}

// consoleAttack counts what happens to the joins.
type consoleAttack struct{ tooBig, refused atomic.Int64 }

// once joins, sends almost all of a large frame, and waits.
func (a *consoleAttack) once(t *testing.T, ctx context.Context, server string, certificate tls.Certificate, path string) {
	j, err := join(ctx, server, certificate, path)
	if err != nil {
		if ctx.Err() == nil {
			t.Error(err)
		}
		return
	}
	defer j.Close()
	defer context.AfterFunc(ctx, func() { _ = j.Close() })()
	switch j.code {
	case http.StatusSwitchingProtocols:
	case http.StatusTooManyRequests:
		if j.header.Get("Retry-After") == "" || !strings.Contains(j.body, "limit of a host") && !strings.Contains(j.body, "limit of a user") {
			t.Errorf("refused with Retry-After %q and %.300s", j.header.Get("Retry-After"), j.body)
		}
		a.refused.Add(1)
		return
	case http.StatusServiceUnavailable: // all sessions have ended at once, and another attacker opens the console again
		if !strings.Contains(j.body, "just being opened; try again") {
			t.Errorf("a join is answered %d %.300s", j.code, j.body)
		}
		return
	default:
		t.Errorf("a join is answered %d %.300s", j.code, j.body)
		return
	}
	var sending sync.WaitGroup
	defer sending.Wait()
	defer j.Close()
	sending.Go(func() {
		_, err := j.Write(frameOf(largeFrame))
		for sent := 0; err == nil && sent < largeFrame-1<<20; sent += 1 << 20 {
			_, err = j.Write(make([]byte, 1<<20))
		}
	})
	code, err := j.end()
	if code == websocket.CloseMessageTooBig {
		a.tooBig.Add(1)
	} else if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("an unfinished frame of 32 MiB is waited for")
	}
}

const (
	consoleHosts = 4
	heldJoins    = 300
)

// TestConsolesHoldNobodyUp: kube-apiserver counts a console as a request that lasts. With the flow control
// of the manifests, hundreds of joins use up the seats for consoles, and no others.
func TestConsolesHoldNobodyUp(t *testing.T) {
	attack(t, "create consoles in one namespace", "take the seats of kube-apiserver from others' reads")
	simulator(t)
	ctx, a := s.Begin(t)
	b := makeNamespace(t, ctx, "victim-")
	applyFlowControl(t, ctx)
	var paths []string // of as many consoles as a namespace may use, which is more than kube-apiserver has seats
	for n := range consoleHosts {
		paths = append(paths, makeConsole(t, ctx, a, fmt.Sprint("x", n)))
	}
	kube, stop, err := s.Kube.StartSecondAPIServer(ctx, smallLimits...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	certificates := makeJoiners(t, ctx, a)
	grant(t, ctx, b, person{name: "user-of-" + b, role: "view"})
	victim := newClient(t, kube.Config, user(t, "user-of-"+b))
	level, err := s.Core.FlowcontrolV1().PriorityLevelConfigurations().Get(ctx, "metal3-consoles", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, ctx, func() string {
		got, err := levelOf(ctx, newClient(t, kube.Config, certificates[0]), paths[0])
		if err != nil || got != string(level.UID) {
			return fmt.Sprintf("priority level %q, want %s: %v", got, level.UID, err)
		}
		return ""
	})

	flood, leave := context.WithCancel(ctx)
	var attackers sync.WaitGroup
	defer attackers.Wait()
	defer leave()
	var begun, refused atomic.Int64
	for n := range heldJoins {
		attackers.Go(func() {
			for flood.Err() == nil {
				begun.Add(1)
				j, err := join(flood, kube.Config.Host, certificates[n%consoleUsers], paths[n%consoleHosts]+"?share=true")
				if err != nil {
					continue // it has waited for long, or the test is over
				}
				if j.code == http.StatusSwitchingProtocols {
					<-flood.Done()
				} else if j.code == http.StatusTooManyRequests {
					refused.Add(1)
				}
				_ = j.Close()
				select {
				case <-flood.Done():
				case <-time.After(time.Second): // as Retry-After asks
				}
			}
		})
	}
	eventually(t, ctx, func() string { // until all of them are at it, and more than can wait
		if begun.Load() < heldJoins || refused.Load() < heldJoins {
			return fmt.Sprintf("%d joins have begun, %d were refused", begun.Load(), refused.Load())
		}
		return ""
	})
	// The seats for consoles are not free before the end: a request that waits for one of them is refused.
	for range readsOfTheVictim {
		if got := victim.get(t, ctx, groupVersion+"/namespaces/"+b+"/baremetalhosts"); got.code != http.StatusOK {
			t.Errorf("the other tenant: %d %.300s", got.code, got.body)
		}
	}
	t.Logf("the other tenant read %d times during %d joins, of which %d were refused", readsOfTheVictim, begun.Load(), refused.Load())
}
