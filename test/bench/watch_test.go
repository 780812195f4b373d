package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"
)

// changesPerSecond is how many hosts change while somebody watches.
const changesPerSecond = 20

// BenchmarkWatch has many watch all hosts while hosts change. A change here is a
// PATCH of an annotation, which is a write of ours like any other, and does not
// wait for Ironic.
func BenchmarkWatch(b *testing.B) {
	for _, hosts := range []int{small, large} {
		for _, watchCache := range []bool{false, true} {
			for _, watchers := range []int{0, 10, 100, 500} {
				b.Run(fmt.Sprintf("hosts=%d/watch-cache=%v/watchers=%d", hosts, watchCache, watchers), func(b *testing.B) {
					benchmarkWatch(b, at(b, hosts, watchCache), watchers)
				})
			}
		}
	}
}

func benchmarkWatch(b *testing.B, bed *bed, watchers int) {
	ctx, cancel := context.WithCancel(b.Context())
	seen := &arrivals{watchers: watchers, first: bed.changes}
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	version, err := bed.resourceVersion(ctx)
	if err != nil {
		b.Fatal(err)
	}
	// All at once: each begins with an observation of all hosts, which they share.
	var opening errgroup.Group
	for range watchers {
		opening.Go(func() error {
			stream, err := bed.watch(ctx, version)
			if err != nil {
				return err
			}
			watching.Go(func() {
				defer stream.Close()
				if err := seen.follow(stream); err != nil && ctx.Err() == nil {
					b.Errorf("a watch ended: %v", err)
				}
			})
			return nil
		})
	}
	if err := opening.Wait(); err != nil {
		b.Fatal(err)
	}

	var patches samples
	tick := time.NewTicker(time.Second / changesPerSecond)
	defer tick.Stop()
	before, began := bed.mustMetrics(b), time.Now()
	for b.Loop() {
		<-tick.C
		seen.expect()
		patches.timed(b, func() error { return bed.patch(ctx, bed.changes%len(bed.nodes), bed.changes) })
		bed.changes++
	}
	if err := wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) {
		return seen.complete(), nil
	}); err != nil {
		b.Fatalf("not all changes reached all of %d watchers: %v", watchers, err)
	}
	took := time.Since(began)
	after := bed.mustMetrics(b)
	changes := bed.changes - seen.first

	b.ReportMetric(0, "ns/op")
	b.ReportMetric(milliseconds(after.cpu-before.cpu)/float64(changes), "cpu-ms/change")
	b.ReportMetric(100*(after.cpu-before.cpu).Seconds()/took.Seconds(), "cpu-%")
	b.ReportMetric(after.rss/1e6, "RSS-MB")
	b.ReportMetric(milliseconds(patches.median()), "patch-ms")
	if watchers > 0 {
		b.ReportMetric(milliseconds(seen.latencies().median()), "last-watcher-ms")
		b.ReportMetric(milliseconds(seen.latencies().quantile(0.99)), "last-watcher-p99-ms")
	}
}

// resourceVersion is that of the hosts now.
func (b *bed) resourceVersion(ctx context.Context) (string, error) {
	var body bytes.Buffer
	if err := b.read(ctx, hostsPath+"?limit=1", "", &body); err != nil {
		return "", err
	}
	var list struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	err := json.Unmarshal(body.Bytes(), &list)
	return list.Metadata.ResourceVersion, err
}

func (b *bed) watch(ctx context.Context, version string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, b.server.Direct.Config.Host+hostsPath+"?watch=1&resourceVersion="+version, nil)
	if err != nil {
		return nil, err
	}
	answer, err := b.http.Do(request)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		defer answer.Body.Close()
		return nil, fmt.Errorf("watch: %s", answer.Status)
	}
	return answer.Body, nil
}

const changeAnnotation = "bench.metal3.io/change"

// patch makes change n, to host i.
func (b *bed) patch(ctx context.Context, i, n int) error {
	body := fmt.Sprintf(`{"metadata":{"annotations":{%q:"%d"}}}`, changeAnnotation, n)
	request, err := http.NewRequestWithContext(ctx, http.MethodPatch, b.server.Direct.Config.Host+hostsPath+"/"+hostName(i), strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/merge-patch+json")
	_, err = readAll(b.http, request, io.Discard)
	return err
}

// arrivals notes when each change has reached the last of the watchers.
type arrivals struct {
	mu       sync.Mutex
	watchers int
	first    int // number of the first change
	made     []time.Time
	left     []int
	latency  samples
}

// expect is called before each change.
func (a *arrivals) expect() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.made = append(a.made, time.Now())
	a.left = append(a.left, a.watchers)
}

func (a *arrivals) arrived(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n -= a.first
	if n < 0 || n >= len(a.left) {
		return
	}
	if a.left[n]--; a.left[n] == 0 {
		a.latency = append(a.latency, time.Since(a.made[n]))
	}
}

func (a *arrivals) complete() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.watchers == 0 || len(a.latency) == len(a.made)
}

func (a *arrivals) latencies() samples {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.latency
}

// follow reads events until the watch ends. It looks for the annotation only:
// hundreds of clients that decode would be what is measured.
func (a *arrivals) follow(stream io.Reader) error {
	lines := bufio.NewReaderSize(stream, 1<<16)
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			return err
		}
		if bytes.HasPrefix(line, []byte(`{"type":"ERROR"`)) {
			return errors.New(string(line))
		}
		_, after, found := bytes.Cut(line, []byte(`"`+changeAnnotation+`":"`))
		number, _, _ := bytes.Cut(after, []byte(`"`))
		if n, err := strconv.Atoi(string(number)); found && err == nil {
			a.arrived(n)
		}
	}
}
