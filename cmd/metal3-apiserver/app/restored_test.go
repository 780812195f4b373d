// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	componentconfig "k8s.io/component-base/config"

	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/manager"
)

// newCount is the count of an etcd that was never used.
type newCount struct{}

func (newCount) Get(context.Context) (int64, error)      { return 0, nil }
func (newCount) Set(context.Context, int64, int64) error { return nil }

// TestHostsGone checks that a server whose etcd has no hosts any more is not ready until the hold of the restore ends, and is from then on.
func TestHostsGone(t *testing.T) {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "metal3-system", Name: "metal3-apiserver", Annotations: map[string]string{"metal3.io/etcd-count": "7"}}}
	client := fake.NewClientset(lease)
	m := manager.New(manager.Config{
		Election: componentconfig.LeaderElectionConfiguration{ResourceNamespace: lease.Namespace, ResourceName: lease.Name},
		Leases:   client.CoordinationV1(), Count: newCount{}, RestoredAt: newCount{},
	})
	e := &engine{}
	if err := e.hasHosts(t.Context(), m); err != nil {
		t.Errorf("with hosts: %v", err)
	}
	e.hostless.Store(true)
	if err := e.hasHosts(t.Context(), m); err == nil || !strings.Contains(err.Error(), "its count is 0, that of the Lease 7") || !strings.Contains(err.Error(), "metal3.io/restored") {
		t.Errorf("without: %v", err)
	}
	set := func(annotations map[string]string) {
		lease.Annotations = annotations
		if _, err := client.CoordinationV1().Leases(lease.Namespace).Update(t.Context(), lease, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	set(nil)
	if err := e.hasHosts(t.Context(), m); err != nil {
		t.Errorf("after somebody has let it go on: %v", err)
	}
	set(map[string]string{"metal3.io/restored": "by hand"})
	if err := e.hasHosts(t.Context(), m); err != nil {
		t.Errorf("with a hold that came later: %v", err)
	}
}
