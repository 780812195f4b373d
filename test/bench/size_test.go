// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

var sizeHosts = flag.Int("hosts", 0, "how many hosts BenchmarkSize has behind one server, in ten Ironics and a hundred namespaces; 100000, for instance")

// BenchmarkSize measures what depends on the number of hosts, of which ten Ironics have a tenth each. Readers read one namespace of a
// hundred unless something else is said. Everything runs once.
func BenchmarkSize(b *testing.B) {
	if *sizeHosts == 0 {
		b.Skip("-hosts=100000, for instance")
	}
	get := measureGetOfFew(b)
	r := startRooms(b, *sizeHosts)
	record(figure{what: fmt.Sprintf("start of the server until it is ready, %d hosts", *sizeHosts), measured: text(r.start), beside: "lists are live after " + text(r.live), wanted: "60 s"})
	r.measureIdle(b, "idle, after the start")
	r.measureGets(b, get)
	r.measureLists(b)
	r.measureWatch(b)
	r.measurePages(b)
	r.measurePowerChange(b)
	r.measureMemory(b)
	requests := r.measureIdle(b, "idle, at the end")
	r.measureReplica(b, requests)
}

func startRooms(b *testing.B, hosts int) *rooms {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), 30*time.Minute)
	defer cancel()
	if err := leaveAlone(ctx); err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	r, err := newRooms(ctx, hosts)
	b.Cleanup(func() {
		if err := errors.Join(r.stop(), os.RemoveAll(r.dir)); err != nil {
			b.Error(err)
		}
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Logf("%d hosts are there after %s", hosts, text(time.Since(began)))
	return r
}

// measureGetOfFew is the time of a GET with 1,000 hosts.
func measureGetOfFew(b *testing.B) (got samples) {
	b.Run("few", func(b *testing.B) {
		got = startRooms(b, 1000).getMany(b)
	})
	return got
}

func (r *rooms) getMany(b *testing.B) (got samples) {
	for n := range 300 {
		i := n * 7919 % len(r.nodes)
		_, namespace := r.place(i)
		got.timed(b, func() error { return r.user.read(b.Context(), pathIn(namespace)+"/"+hostName(i), nil, new(counter)) })
	}
	return got
}

func (r *rooms) measureGets(b *testing.B, few samples) {
	got := r.getMany(b)
	record(figure{
		what: "GET of one host", measured: text(got.median()), beside: "with 1,000 hosts " + text(few.median()),
		result: times(got.median(), few.median()), wanted: "x 1.20",
	})
}

// measureIdle returns the requests per second to all Ironics together while nobody reads and nothing changes.
func (r *rooms) measureIdle(b *testing.B, what string) (perSecond float64) {
	revision, err := r.revision(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	profiled := r.profileCPU(b)
	before, asked, began := r.mustMetrics(b), r.requests(), time.Now()
	over := time.NewTimer(2 * *idle)
	defer over.Stop()
	select {
	case <-over.C:
	case <-b.Context().Done():
		b.Fatal(b.Context().Err())
	}
	took := time.Since(began)
	perSecond = float64(r.requests()-asked) / took.Seconds()
	after := r.mustMetrics(b)
	then, err := r.revision(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	profiled()
	record(figure{what: "CPU, " + what, measured: fmt.Sprintf("%.0f %% of a core", 100*(after.cpu-before.cpu).Seconds()/took.Seconds()), wanted: "25 %"})
	record(figure{what: "requests to all Ironics together, " + what, measured: fmt.Sprintf("%.1f/s", perSecond), wanted: "5/s"})
	record(figure{what: "writes to etcd, " + what, measured: fmt.Sprintf("%d in %s", then-revision, text(took)), wanted: "0"})
	return perSecond
}

// measureLists lists one namespace after the other while nodes change, at least one in the listed namespace before each list.
func (r *rooms) measureLists(b *testing.B) {
	const lists, perSecond = 200, 50
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		tick := time.NewTicker(time.Second / perSecond)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-stop:
				stopped <- nil
				return
			case <-tick.C:
			}
			i := n * 7919 % len(r.nodes)
			room, _ := r.place(i)
			if err := r.sims[room].SetNode(r.nodes[i], map[string]any{"maintenance": true, "maintenance_reason": "another change"}); err != nil {
				stopped <- err
				return
			}
		}
	}()
	profiled := r.profileCPU(b)
	before := r.mustMetrics(b)
	var took samples
	var body bytes.Buffer
	stale := 0
	for n := range lists {
		i := n * r.hostsPerNamespace * 37 % len(r.nodes)
		_, namespace := r.place(i)
		mark, err := r.changeRoom(i + n%r.hostsPerNamespace)
		if err != nil {
			b.Fatal(err)
		}
		body.Reset()
		warned := false
		took.timed(b, func() error {
			err := r.user.read(b.Context(), pathIn(namespace), nil, &body)
			if errors.Is(err, errStale) {
				warned, err = true, nil
			}
			return err
		})
		if warned || !bytes.Contains(body.Bytes(), []byte(mark)) {
			stale++
		}
	}
	cpu := (r.mustMetrics(b).cpu - before.cpu) / lists
	close(stop)
	if err := <-stopped; err != nil {
		b.Fatal(err)
	}
	profiled()
	record(figure{
		what:     fmt.Sprintf("LIST of a namespace of %d among %d (%.1f MB), live", r.hostsPerNamespace, len(r.nodes), float64(body.Len())/1e6),
		measured: "p50 " + text(took.median()), beside: "p99 " + text(took.quantile(0.99)) + ", CPU of the server " + text(cpu), wanted: "p50 80 ms",
	})
	record(figure{what: fmt.Sprintf("stale answers of %d of these, while %d nodes a second change", lists, perSecond), measured: fmt.Sprint(stale), wanted: "0"})
}

// measureWatch has somebody watch one namespace, of whose nodes one changes now and then.
func (r *rooms) measureWatch(b *testing.B) {
	const changes = 100
	_, namespace := r.place(r.hostsPerNamespace * 55)
	watching := *r.bed
	watching.hostsPath = pathIn(namespace)
	version, err := watching.resourceVersion(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	stream, err := watching.watch(b.Context(), version)
	if err != nil {
		b.Fatal(err)
	}
	seen, ended := make(chan []byte), make(chan struct{})
	go func() {
		defer close(ended)
		defer close(seen)
		lines := bufio.NewReaderSize(stream, 1<<16)
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return // the end is seen by who waits for an event
			}
			select {
			case seen <- line:
			case <-b.Context().Done():
				return
			}
		}
	}()
	var took samples
	for n := range changes {
		mark, err := r.changeRoom(r.hostsPerNamespace*55 + n%r.hostsPerNamespace)
		if err != nil {
			b.Fatal(err)
		}
		began := time.Now()
		limit := time.NewTimer(time.Minute)
		for found := false; !found; {
			select {
			case line, open := <-seen:
				if !open {
					b.Fatal("the watch has ended")
				}
				found = bytes.Contains(line, []byte(mark))
			case <-limit.C:
				b.Fatal("no event for a change within a minute")
			}
		}
		limit.Stop()
		took = append(took, time.Since(began))
	}
	_ = stream.Close()
	for range seen { //nolint:revive // what is under way
	}
	<-ended
	record(figure{
		what:     "change in one Ironic -> watcher of its namespace",
		measured: "p99 " + text(took.quantile(0.99)), beside: "p50 " + text(took.median()), wanted: "p99 1 s",
	})
}

// measurePages lists all hosts in pages.
func (r *rooms) measurePages(b *testing.B) {
	held, err := r.memory()
	if err != nil {
		b.Fatal(err)
	}
	most, hosts, stale, next := held.anonymous, 0, 0, ""
	profiled := r.profileCPU(b)
	began := time.Now()
	for {
		var body bytes.Buffer
		query := url.Values{"limit": {"500"}}
		if next != "" {
			query.Set("continue", next)
		}
		if err := r.user.read(b.Context(), allHostsPath+"?"+query.Encode(), http.Header{"Accept-Encoding": {"identity"}}, &body); errors.Is(err, errStale) {
			stale++
		} else if err != nil {
			b.Fatal(err)
		}
		hosts += bytes.Count(body.Bytes(), []byte(`"hardware":`))
		if now, err := r.memory(); err == nil {
			most = max(most, now.anonymous)
		}
		// The metadata comes first, and only they are looked at.
		var list struct {
			Metadata struct {
				Continue string `json:"continue"`
			} `json:"metadata"`
		}
		before, _, _ := bytes.Cut(body.Bytes(), []byte(`,"items":[`))
		if err := json.Unmarshal(append(before, '}'), &list); err != nil {
			b.Fatal(err)
		}
		if next = list.Metadata.Continue; next == "" {
			break
		}
	}
	took := time.Since(began)
	profiled()
	record(figure{what: fmt.Sprintf("all %d hosts in pages of 500", hosts), measured: text(took), beside: fmt.Sprintf("%d pages not live", stale), wanted: "15 s"})
	record(figure{what: "memory of the server meanwhile", measured: fmt.Sprintf("+ %.0f MB", most-held.anonymous), wanted: "+ 300 MB"})
}

// measurePowerChange counts what is written to etcd when the power of a machine has changed.
func (r *rooms) measurePowerChange(b *testing.B) {
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	i := 33 * r.hostsPerNamespace
	room, namespace := r.place(i)
	// A host in maintenance is left as it is: the power would be switched back.
	if err := r.sims[room].SetNode(r.nodes[i], map[string]any{"maintenance": true, "maintenance_reason": "power is measured"}); err != nil {
		b.Fatal(err)
	}
	if err := r.waitQuiet(ctx); err != nil {
		b.Fatal(err)
	}
	revision, err := r.revision(ctx)
	if err != nil {
		b.Fatal(err)
	}
	writes := r.etcd.Watch(ctx, "/", clientv3.WithPrefix(), clientv3.WithRev(revision+1))
	if err := r.sims[room].SetNode(r.nodes[i], map[string]any{"power_state": "power off"}); err != nil {
		b.Fatal(err)
	}
	if err := r.direct.read(ctx, pathIn(namespace)+"/"+hostName(i), nil, new(counter)); err != nil {
		b.Fatal(err)
	}
	if err := r.waitQuiet(ctx); err != nil {
		b.Fatal(err)
	}
	then, err := r.revision(ctx)
	if err != nil {
		b.Fatal(err)
	}
	written, puts := 0, 0
	for seen := revision; seen < then; {
		answer := <-writes
		if err := answer.Err(); err != nil {
			b.Fatal(err)
		}
		for _, event := range answer.Events {
			written += len(event.Kv.Key) + len(event.Kv.Value)
			puts++
			seen = max(seen, event.Kv.ModRevision)
		}
	}
	record(figure{what: "bytes written to etcd for a change of the power of a host", measured: fmt.Sprintf("%.1f kB", float64(written)/1e3), beside: fmt.Sprintf("%d writes", puts), wanted: "4 kB"})
}

// measureMemory is what the server holds with ten watchers of all hosts while some change.
func (r *rooms) measureMemory(b *testing.B) {
	seen, err := r.startWatchers(b.Context(), 10)
	if err != nil {
		b.Fatal(err)
	}
	tick := time.NewTicker(time.Second / changesPerSecond)
	defer tick.Stop()
	for n := range 20 * changesPerSecond {
		<-tick.C
		if _, err := r.changeRoom(n * 7919 % len(r.nodes)); err != nil {
			b.Fatal(err)
		}
	}
	held, err := r.memory()
	if err != nil {
		b.Fatal(err)
	}
	if err := r.writeProfile(b, "/debug/pprof/heap?gc=1", "heap"); err != nil {
		b.Fatal(err)
	}
	if errs := seen.stop(); len(errs) > 0 {
		b.Errorf("%d watches ended, the first with %v", len(errs), errs[0])
	}
	record(figure{
		what: "memory of the server with 10 watchers of all, without mapped files", measured: fmt.Sprintf("%.1f GB", held.anonymous/1e3),
		beside: fmt.Sprintf("%.1f GB with them, peak %.1f GB", held.resident/1e3, held.peak/1e3), wanted: "3.5 GB",
	})
}

// measureReplica starts a second replica, which uses the etcd of the first one, and is not the leader.
func (r *rooms) measureReplica(b *testing.B, alone float64) {
	dir, err := os.MkdirTemp(shared.dir, "replica-")
	if err != nil {
		b.Fatal(err)
	}
	replica, err := testbed.NewServer(testbed.ServerOptions{
		Kube: shared.kube, Dir: dir, IronicEndpoint: r.endpoint, EtcdServers: "unix://" + filepath.Join(r.server.DataDir(), "etcd.sock"), Args: testbed.UnusedRamdiskArgs,
	})
	if err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	if err := replica.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	ready := time.Since(began)
	direct, err := newReader(replica.Direct.Config)
	if err != nil {
		b.Fatal(err)
	}
	defer direct.close()
	if err := waitLive(b.Context(), direct); err != nil {
		b.Fatal(err)
	}
	record(figure{what: "start of a second replica until it is ready", measured: text(ready), beside: "lists are live after " + text(time.Since(began)), wanted: "60 s"})
	with := r.measureIdle(b, "with a second replica")
	if _, err := replica.Stop(); err != nil {
		b.Error(err)
	}
	record(figure{what: "requests of a second replica to each Ironic, idle", measured: fmt.Sprintf("%.2f/s", (with-alone)/roomCount), wanted: "1/s"})
}
