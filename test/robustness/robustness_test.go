// SPDX-License-Identifier: Apache-2.0

package robustness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/metal3-io/metal3-apiserver/test/robustness/history"
	"github.com/metal3-io/metal3-apiserver/test/robustness/validate"
)

// scenario is what the programs are, what is done with them, and what happens to them.
type scenario struct {
	name         string
	replicas     int
	externalEtcd bool
	mix          mix
	faults       []fault
}

// usual is the traffic that two processors can bear.
var usual = mix{owners: 6, readers: 2, meddlers: 1, watchers: 2, operators: 1}

var scenarios = []scenario{
	{name: "one-server", replicas: 1, mix: usual, faults: []fault{killServer, pauseServer}},
	{name: "ironic", replicas: 1, mix: usual, faults: []fault{stopIronic, hangIronic, killConductor, delayRequests, delayRequests, delayRequests, killServer, disturbIronic}},
	{name: "late", replicas: 1, mix: mix{waverers: 8, readers: 1}, faults: []fault{delayRequests}},
	{name: "replicas", replicas: 2, externalEtcd: true, mix: usual, faults: []fault{killServer, pauseServer, pauseInStep, pauseInStep, killEtcd, pauseEtcd}},
	{name: "lines", replicas: 2, externalEtcd: true, mix: usual, faults: []fault{disturbClients, disturbKube, disturbEtcd, disturbIronic}},
	{name: "all", replicas: 3, externalEtcd: true, mix: usual, faults: []fault{
		killServer, pauseServer, pauseInStep, killEtcd, pauseEtcd, stopIronic, hangIronic, killConductor, delayRequests,
		disturbClients, disturbKube, disturbEtcd, disturbIronic,
	}},
}

// TestRobustness runs each scenario for its part of TIME.
func TestRobustness(t *testing.T) {
	seed := rand.Uint64N(1 << 32)
	if given := os.Getenv("SEED"); given != "" {
		var err error
		if seed, err = strconv.ParseUint(given, 10, 64); err != nil {
			t.Fatalf("SEED=%s: %v", given, err)
		}
	}
	lasting, err := time.ParseDuration(os.Getenv("TIME"))
	if err != nil {
		t.Fatalf("TIME: %v", err)
	}
	only := os.Getenv("SCENARIO")
	if only == "" {
		lasting /= time.Duration(len(scenarios))
	}
	for _, scenario := range scenarios {
		if only == "" || only == scenario.name {
			t.Run(scenario.name, func(t *testing.T) { run(t, scenario, seed, lasting) })
		}
	}
}

// onceFailed are runs that have found something that is mended since.
var onceFailed = []struct {
	name, scenario string
	seed           uint64
	lasting        time.Duration
}{}

// TestOnceFailed repeats the runs of onceFailed. The real programs do not do the same twice, but they are asked for the same.
func TestOnceFailed(t *testing.T) {
	only := os.Getenv("SCENARIO")
	for _, once := range onceFailed {
		for _, scenario := range scenarios {
			if scenario.name == once.scenario && (only == "" || only == once.name) {
				t.Run(once.name, func(t *testing.T) { run(t, scenario, once.seed, once.lasting) })
			}
		}
	}
}

// restLimit is how long hosts have to become what their specs ask for after the last fault. For four minutes, the server does not
// deploy what a request without an answer could still end; see docs/life.md.
const restLimit = 7 * time.Minute

func run(t *testing.T, sc scenario, seed uint64, lasting time.Duration) {
	t.Logf("SCENARIO=%s SEED=%d TIME=%s", sc.name, seed, lasting)
	ctx, cancel := context.WithTimeout(t.Context(), lasting+10*time.Minute)
	defer cancel()
	dir, err := filepath.Abs(filepath.Join(cmp.Or(os.Getenv("RECORDS"), "../../bin/robustness"), fmt.Sprintf("%s-%d", sc.name, seed)))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	b := newBed(t, ctx, dir, sc.replicas, sc.externalEtcd, ramdisk)

	over, end := context.WithTimeout(ctx, lasting)
	defer end()
	clients := b.beginTraffic(over, seed, sc.mix)
	b.play(over, seed, sc.faults)
	end()
	clients.running.Wait()
	t.Logf("after %s, the traffic and the faults are over", time.Duration(b.record.Now()).Round(time.Second))
	if !t.Failed() { // else a program does not run any more
		b.comeToRest()
	}
	b.recordLeases()
	judge(t, b, dir)
}

// comeToRest waits until all hosts are as their specs ask, and records them.
func (b *bed) comeToRest() {
	complaints := map[string]string{}
	var finals []history.Final
	// What has not come to rest in time is recorded as such.
	_ = wait.PollUntilContextTimeout(b.ctx, 500*time.Millisecond, restLimit, true, func(ctx context.Context) (bool, error) {
		list, err := b.replicas[0].metal3.Metal3V1alpha1().BareMetalHosts(b.ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			complaints[""] = err.Error()
			return false, nil
		}
		finals, complaints = nil, map[string]string{}
		for i := range list.Items {
			h := convert(b.ironic, &list.Items[i])
			complaint := validate.AtRest(h)
			if complaint != "" {
				complaints[h.Name] = complaint
			}
			finals = append(finals, history.Final{Host: h, Complaint: complaint})
		}
		return len(complaints) == 0, nil
	})
	if complaints[""] != "" {
		b.t.Errorf("the hosts cannot be listed: %s", complaints[""])
	}
	for _, f := range finals {
		b.record.Add(history.Entry{Final: &f})
	}
}

// judge has the record judged. It stays where it is only if something is wrong.
func judge(t *testing.T, b *bed, dir string) {
	t.Helper()
	b.ironic.Close() // nothing is added after that
	entries, err := b.record.Close()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, e := range entries {
		switch {
		case e.Operation != nil:
			counts[e.Operation.Verb+" "+string(e.Operation.Outcome)]++
		case e.Watch != nil:
			counts["watch "+e.Watch.Type]++
		case e.Fault != nil:
			counts["fault"]++
		case e.Request != nil:
			counts["requests"]++
		case e.Machine != nil:
			counts["touches of machines"]++
		case e.Stored != nil:
			counts["versions in etcd"]++
		case e.Lease != nil:
			counts["leases"]++
		}
	}
	t.Logf("%d entries: %v", len(entries), counts)
	violations := validate.All(entries)
	for i, v := range violations {
		if i == 20 {
			t.Errorf("and %d others", len(violations)-i)
			break
		}
		t.Error(v)
	}
	if !t.Failed() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
		return
	}
	seen := map[string]bool{}
	for _, v := range violations {
		if v.Host != "" && !seen[v.Host] {
			seen[v.Host] = true
			drawHost(t, entries, v.Host, filepath.Join(dir, v.Host+".html"))
		}
	}
	t.Logf("the record is in %s, with a page for each host that is concerned", dir)
}

// drawHost writes porcupine's page of a host: its operations, and in which order they can have been carried out.
func drawHost(t *testing.T, entries []history.Entry, name, path string) {
	t.Helper()
	page, err := os.Create(path)
	if err != nil {
		t.Error(err)
		return
	}
	if err := errors.Join(validate.Visualize(entries, name, page), page.Close()); err != nil {
		t.Errorf("the page of %s: %v", name, err)
	}
}
