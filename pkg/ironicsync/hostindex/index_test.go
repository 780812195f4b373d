// SPDX-License-Identifier: Apache-2.0

package hostindex_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/hostindex"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
)

// TestBugOfOneChange: who cannot cope with the change of one host is told of all others.
func TestBugOfOneChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hosts := enginetest.NewHosts()
		index := hostindex.New(hosts, nil)
		var told []string
		hasSynced, err := index.OnChange(func(_, host *metal3.BareMetalHost) {
			told = append(told, host.Name)
			if host.Name == enginetest.HostName(0) {
				panic("a bug")
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { index.Run(ctx); close(ended) }()
		synctest.Wait()
		for i := range 2 {
			hosts.Add(&metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: enginetest.Namespace, Name: enginetest.HostName(i)}})
			synctest.Wait()
		}
		cancel()
		<-ended
		if want := []string{enginetest.HostName(0), enginetest.HostName(1)}; !slices.Equal(told, want) || !hasSynced() {
			t.Errorf("told of %v, want %v", told, want)
		}
	})
}
