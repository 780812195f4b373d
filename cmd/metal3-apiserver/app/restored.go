// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/manager"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/secrets"
)

// keepSecretsTimeout limits keepSecrets.
const keepSecretsTimeout = time.Minute

// keepSecrets has the garbage collector of the cluster leave the Secrets of hosts alone that are missing because etcd was
// restored. It is called before the server serves, while the garbage collector cannot ask for hosts.
func (e *engine) keepSecrets(ctx context.Context, m *manager.Manager) {
	ctx, cancel := context.WithTimeout(ctx, keepSecretsTimeout)
	defer cancel()
	restored, err := m.SeemsRestored(ctx)
	if err != nil {
		klog.ErrorS(err, "Whether etcd was restored is not known before the server serves: the Secrets of hosts that are missing may be deleted")
	}
	if !restored {
		return
	}
	hosts, err := e.hosts.List(ctx, metav1.ListOptions{})
	if err != nil {
		klog.ErrorS(err, "The hosts cannot be listed before the server serves: the Secrets of those that are missing may be deleted")
		return
	}
	uids := sets.New[types.UID]()
	for i := range hosts.Items {
		uids.Insert(hosts.Items[i].UID)
	}
	released, err := secrets.ReleaseGone(ctx, e.cluster.kubernetes, e.cluster.metadata, e.Settings.Namespaces, uids.Has)
	if err != nil {
		klog.ErrorS(err, "Not all Secrets of hosts that are missing could be kept from being deleted")
	}
	klog.InfoS("Etcd was restored: Secrets of hosts that are missing belong to nobody until these are created again", "secrets", released)
}
