// SPDX-License-Identifier: Apache-2.0

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
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"
)

// watchers watch all hosts until they are stopped.
type watchers struct {
	*arrivals
	cancel context.CancelFunc
	ended  sync.WaitGroup
	mu     sync.Mutex
	errs   []error
}

// startWatchers opens n watches from what is recorded now on. All at once: each
// begins with an observation of all hosts, which they share.
func (b *bed) startWatchers(ctx context.Context, n int) (*watchers, error) {
	version, err := b.resourceVersion(ctx)
	if err != nil {
		return nil, err
	}
	w := &watchers{arrivals: &arrivals{watchers: n, first: b.changes}}
	ctx, w.cancel = context.WithCancel(ctx)
	var opening errgroup.Group
	for range n {
		opening.Go(func() error {
			stream, err := b.watch(ctx, version)
			if err != nil {
				return err
			}
			w.ended.Go(func() {
				defer stream.Close()
				if err := w.follow(stream); ctx.Err() == nil {
					w.mu.Lock()
					defer w.mu.Unlock()
					w.errs = append(w.errs, err)
				}
			})
			return nil
		})
	}
	if err := opening.Wait(); err != nil {
		w.stop()
		return nil, err
	}
	return w, nil
}

// stop ends all watches and returns how those ended that did so before.
func (w *watchers) stop() []error {
	w.cancel()
	w.ended.Wait()
	return w.errs
}

// waitComplete waits until all watchers have seen all changes.
func (w *watchers) waitComplete(ctx context.Context) error {
	return wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) {
		return w.complete(), nil
	})
}

// resourceVersion is that of the hosts now.
func (b *bed) resourceVersion(ctx context.Context) (string, error) {
	var body bytes.Buffer
	if err := b.direct.read(ctx, b.hostsPath+"?limit=1", nil, &body); err != nil {
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
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, b.direct.url+b.hostsPath+"?watch=1&resourceVersion="+version, nil)
	if err != nil {
		return nil, err
	}
	answer, err := b.direct.http.Do(request)
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

// change changes an annotation of the next host, which is a write of ours like any
// other, and does not wait for Ironic.
func (b *bed) change(ctx context.Context) error {
	n := b.changes
	b.changes++
	body := fmt.Sprintf(`{"metadata":{"annotations":{%q:"%d"}}}`, changeAnnotation, n)
	request, err := http.NewRequestWithContext(ctx, http.MethodPatch, b.direct.url+hostsPath+"/"+hostName(n%len(b.nodes)), strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/merge-patch+json")
	_, err = readAll(b.direct.http, request, io.Discard)
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
