// SPDX-License-Identifier: Apache-2.0

package robustness

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
	"github.com/metal3-io/metal3-apiserver/test/robustness/history"
	"github.com/metal3-io/metal3-apiserver/test/robustness/line"
	"github.com/metal3-io/metal3-apiserver/test/robustness/validate"
)

// fault is something that happens to the programs or between them, and ends. It returns what it was.
type fault func(f *faults) (what string)

// faults happen one after the other.
type faults struct {
	*bed
	over   context.Context
	random *rand.Rand
}

// play has faults happen until over ends. All of them have ended when it returns.
func (b *bed) play(over context.Context, seed uint64, kinds []fault) {
	f := &faults{bed: b, over: over, random: rand.New(rand.NewPCG(seed, 0))}
	for over.Err() == nil && !b.t.Failed() {
		if !f.last(200*time.Millisecond, 3*time.Second) {
			return
		}
		for _, r := range b.replicas {
			if !r.Alive() {
				b.t.Errorf("%s has ended by itself; see its log", r.name)
				return
			}
		}
		start := b.record.Now()
		what := kinds[f.random.IntN(len(kinds))](f)
		b.record.Add(history.Entry{Fault: &history.Fault{Start: start, End: b.record.Now(), What: what}})
	}
}

// last waits for a random time, and reports whether the faults go on.
func (f *faults) last(least, most time.Duration) bool {
	timer := time.NewTimer(least + time.Duration(f.random.Int64N(int64(most-least))))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-f.over.Done():
		return false
	}
}

// startAgain starts a replica that was killed.
func (f *faults) startAgain(r *replica) {
	f.t.Helper()
	if err := r.Start(f.ctx); err != nil {
		f.t.Errorf("%s does not start again: %v", r.name, err)
	}
}

func (f *faults) any() *replica { return f.replicas[f.random.IntN(len(f.replicas))] }

// leaderOrAny returns mostly the replica that leads.
func (f *faults) leaderOrAny() *replica {
	if leader := f.leader(); leader != nil && f.random.IntN(4) > 0 {
		return leader
	}
	return f.any()
}

// killServer kills any replica and starts it again.
func killServer(f *faults) string {
	r := f.leaderOrAny()
	if err := r.Kill(); err != nil {
		f.t.Error(err)
	}
	f.last(time.Millisecond, 2*time.Second)
	f.startAgain(r)
	return "kill of " + r.name
}

func (f *faults) signal(r *replica, s syscall.Signal) {
	if err := syscall.Kill(r.PID(), s); err != nil {
		f.t.Errorf("%s: %v", r.name, err)
	}
}

// pauseServer suspends a replica, as a hypervisor does that migrates its machine.
func pauseServer(f *faults) string {
	r := f.leaderOrAny()
	f.signal(r, syscall.SIGSTOP)
	f.last(300*time.Millisecond, 5*time.Second)
	f.signal(r, syscall.SIGCONT)
	return "suspension of " + r.name
}

// pauseInStep suspends the leader while it waits for an answer of Ironic, on which it decides, or of etcd, before it sends what it has
// decided. All answers are there when it goes on, and another one leads.
func pauseInStep(f *faults) string {
	r := f.leaderOrAny()
	hold := func(held bool) {
		r.toIronic.Set(line.Trouble{}, line.Trouble{Hold: held})
		r.toEtcd.Set(line.Trouble{}, line.Trouble{Hold: held})
	}
	hold(true)
	f.last(20*time.Millisecond, 300*time.Millisecond)
	f.signal(r, syscall.SIGSTOP)
	for range 20 {
		if leader := f.leader(); leader != nil && leader != r || !f.last(200*time.Millisecond, 400*time.Millisecond) {
			break
		}
	}
	hold(false)
	f.last(50*time.Millisecond, time.Second) // the other one acts
	f.signal(r, syscall.SIGCONT)
	return "suspension of " + r.name + " in the middle of a step"
}

func killEtcd(f *faults) string {
	if err := f.etcd.Kill(); err != nil {
		f.t.Error(err)
	}
	f.last(time.Millisecond, 2*time.Second)
	if err := f.etcd.Start(f.ctx); err != nil {
		f.t.Errorf("etcd does not start again: %v", err)
	}
	return "kill of etcd"
}

func pauseEtcd(f *faults) string {
	if err := f.etcd.Signal(syscall.SIGSTOP); err != nil {
		f.t.Error(err)
	}
	f.last(300*time.Millisecond, 4*time.Second)
	if err := f.etcd.Signal(syscall.SIGCONT); err != nil {
		f.t.Error(err)
	}
	return "suspension of etcd"
}

// stopIronic ends the API process of Ironic for a while. What the conductor does goes on.
func stopIronic(f *faults) string {
	f.ironic.RefuseConnections()
	f.last(200*time.Millisecond, 4*time.Second)
	if err := f.ironic.AcceptConnections(); err != nil {
		f.t.Errorf("Ironic does not start again: %v", err)
	}
	return "stop of Ironic's API"
}

func hangIronic(f *faults) string {
	f.ironic.SetFaults(ironicsim.Faults{Hang: true})
	f.last(200*time.Millisecond, 4*time.Second)
	f.ironic.SetFaults(ironicsim.Faults{})
	return "hanging Ironic"
}

// killConductor kills the conductor of Ironic, and what it was doing.
func killConductor(f *faults) string {
	f.ironic.KillConductor()
	f.last(100*time.Millisecond, 2*time.Second)
	f.ironic.RestartConductor()
	return "kill of the conductor"
}

// delayRequests has Ironic carry some changing requests out late, and lose the answers to others. At the end, it breaks the connections
// of whoever still waits, which would be for half a minute otherwise: the request is then carried out after the server has looked again.
func delayRequests(f *faults) string {
	var mu sync.Mutex
	judge := rand.New(rand.NewPCG(f.random.Uint64(), 1))
	f.ironic.Judge(func(_ string, r *http.Request) (v ironicsim.Verdict) {
		if r.Method == http.MethodGet {
			return v
		}
		mu.Lock()
		defer mu.Unlock()
		switch judge.IntN(4) {
		case 0:
			v.Late = time.Duration(1+judge.IntN(20_000)) * time.Millisecond
		case 1:
			v.Lost = true
		}
		return v
	})
	f.last(time.Second, 5*time.Second)
	f.ironic.Judge(nil)
	for _, r := range f.replicas {
		r.toIronic.Break()
	}
	return "late requests and lost answers"
}

// disturb has a line held up, lose, delay or break what is said. The line is chosen by of, and its name ends the description.
func disturb(name string, of func(*replica) *line.Line) fault {
	return func(f *faults) string {
		r := f.leaderOrAny()
		l := of(r)
		kinds := []string{"held both ways", "held there", "held back", "answers lost", "delayed", "refused"}
		what := kinds[f.random.IntN(len(kinds))]
		switch what {
		case "held both ways":
			l.Set(line.Trouble{Hold: true}, line.Trouble{Hold: true})
		case "held there":
			l.Set(line.Trouble{Hold: true}, line.Trouble{})
		case "held back":
			l.Set(line.Trouble{}, line.Trouble{Hold: true})
		case "answers lost":
			l.Set(line.Trouble{}, line.Trouble{Lose: true})
		case "delayed":
			delay := time.Duration(1+f.random.IntN(300)) * time.Millisecond
			l.Set(line.Trouble{Delay: delay}, line.Trouble{Delay: delay})
		case "refused":
			l.Refuse(true)
		}
		f.last(200*time.Millisecond, 6*time.Second)
		if f.random.IntN(2) == 0 {
			l.Break() // what was held is lost, for both ends
		}
		l.Set(line.Trouble{}, line.Trouble{})
		l.Refuse(false)
		return fmt.Sprintf("%s of %s", name+" "+what, r.name)
	}
}

var (
	disturbClients = disturb("connection of clients", func(r *replica) *line.Line { return r.toServer })
	disturbKube    = disturb("connection to kube-apiserver", func(r *replica) *line.Line { return r.toKube })
	disturbEtcd    = disturb("connection to etcd", func(r *replica) *line.Line { return r.toEtcd })
	disturbIronic  = disturb(validate.Slow, func(r *replica) *line.Line { return r.toIronic })
)
