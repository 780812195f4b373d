// SPDX-License-Identifier: Apache-2.0

package robustness

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/robustness/history"
)

var streams atomic.Int64

// watch lists all hosts and follows their changes, as an informer does: when a stream ends, it goes on at another replica with
// the last version that it has seen. After a while it begins again.
func (t *traffic) watch(c *client, random *rand.Rand) {
	_, o := c.list(t.any(random), "", 0)
	if o.Outcome != history.OK {
		t.pause(random, time.Second)
		return
	}
	version := strconv.FormatInt(o.ListVersion, 10)
	for range 1 + random.IntN(5) {
		if version == "" || t.over.Err() != nil {
			return
		}
		version = t.stream(t.any(random), version, time.Duration(1+random.IntN(20))*time.Second)
	}
}

// stream follows one watch. It returns the version to go on with; empty if a list is needed.
func (t *traffic) stream(r *replica, version string, lasting time.Duration) string {
	number := int(streams.Add(1))
	add := func(kind string, host history.Host) {
		t.record.Add(history.Entry{Watch: &history.WatchEvent{Stream: number, Server: r.name, At: t.record.Now(), Type: kind, Host: host}})
	}
	ctx, cancel := context.WithTimeout(t.over, lasting)
	defer cancel()
	w, err := r.metal3.Metal3V1alpha1().BareMetalHosts(t.ns).Watch(ctx, metav1.ListOptions{ResourceVersion: version, AllowWatchBookmarks: true})
	if err != nil {
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			return ""
		}
		t.waitFor(ctx, 200*time.Millisecond)
		return version
	}
	defer w.Stop()
	add(history.Started, history.Host{Version: parseVersion(version)})
	defer func() { add(history.Ended, history.Host{}) }()
	for e := range w.ResultChan() {
		host, is := e.Object.(*metal3.BareMetalHost)
		if e.Type == watch.Error || !is {
			return ""
		}
		version = host.ResourceVersion
		add(string(e.Type), convert(t.ironic, host))
	}
	return version
}

// waitFor waits for d, or until ctx ends.
func (t *traffic) waitFor(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
