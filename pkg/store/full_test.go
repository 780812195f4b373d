// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/baremetalhost"
	"github.com/metal3-io/metal3-apiserver/pkg/store"
	"github.com/metal3-io/metal3-apiserver/test/storetest"
)

// TestExplainedStorageHasWatchCache checks that the errors of a full etcd are not explained at the
// price of the watch cache: without it, reads ask etcd and Ironic one after the other, and lists
// wait until the cache has its next look at etcd.
func TestExplainedStorageHasWatchCache(t *testing.T) {
	api, err := baremetalhost.NewStore(scheme, store.Explained(storetest.New(t, storetest.Codec())), nil)
	if err != nil {
		t.Fatal(err)
	}
	storetest.Use(t, api)
	storetest.Create(t, api, newHost("worker-0"))
	hosts := store.NewHosts(api)
	err = wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 5*time.Minute, true, func(ctx context.Context) (bool, error) {
		return hosts.Cached(ctx, "metal3", "worker-0") != nil, nil
	})
	if err != nil {
		t.Error("the watch cache does not show the host")
	}
}
