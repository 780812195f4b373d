// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// TestWatchBeginsAgain: that the hosts are not watched is told, whatever the reason, and no longer when a watch begins again, even
// if nothing happens to the hosts. Only a refusal that lasts ends it.
func TestWatchBeginsAgain(t *testing.T) {
	for name, test := range map[string]struct {
		err     error
		notice  string
		forever bool // the watch goes on whatever time passes
	}{
		"nobody listens": {fmt.Errorf("dial tcp 192.0.2.1:6443: %w", syscall.ECONNREFUSED), "connection refused", true},
		"too many":       {apierrors.NewTooManyRequests("wait", 1), "wait", true},
		"unauthorized":   {apierrors.NewUnauthorized("the token has expired"), "the server refuses: the token has expired", false},
		"forbidden":      {apierrors.NewForbidden(metal3.Resource("baremetalhosts"), "", nil), "the server refuses", false},
	} {
		for _, lasts := range []time.Duration{20 * time.Second, time.Hour} {
			t.Run(name+" for "+lasts.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := newCluster(host("worker-0", metal3.StateAvailable))
					var isCut atomic.Bool
					isCut.Store(true)
					established := watch.NewFake()
					c.metal3.PrependWatchReactor("baremetalhosts", func(clienttesting.Action) (bool, watch.Interface, error) {
						if isCut.Load() {
							return true, nil, test.err
						}
						return true, established, nil
					})
					fleet, err := watchFleet(t.Context(), &clients{c.metal3, c.core, c.dynamic}, "metal3", metav1.ListOptions{})
					if err != nil {
						t.Fatal(err)
					}
					defer fleet.stop()
					synctest.Wait()
					if got := fleet.notice(); !strings.Contains(got, test.notice) {
						t.Errorf("without a watch: %q, want %q", got, test.notice)
					}
					time.Sleep(lasts)
					synctest.Wait()
					if isLost, want := fleet.lost() != nil, !test.forever && lasts > refusedGrace; isLost != want {
						t.Errorf("after %s: lost %t: %v", lasts, isLost, fleet.lost())
					} else if isLost {
						return
					}
					isCut.Store(false)
					time.Sleep(time.Minute)
					synctest.Wait()
					if got := fleet.notice(); got != "" || fleet.lost() != nil {
						t.Errorf("with a watch: %q, lost %v", got, fleet.lost())
					}
				})
			})
		}
	}
}
