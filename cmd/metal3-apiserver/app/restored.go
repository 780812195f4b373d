// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	metal3api "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/manager"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/secrets"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3"
)

// keepSecretsTimeout limits keepSecrets.
const keepSecretsTimeout = time.Minute

// keepSecrets has the garbage collector of the cluster leave the Secrets of hosts and switches alone that are missing because etcd was
// restored. It is called before the server serves, while the garbage collector cannot ask for hosts.
func (e *engine) keepSecrets(ctx context.Context, m *manager.Manager) {
	ctx, cancel := context.WithTimeout(ctx, keepSecretsTimeout)
	defer cancel()
	restored, err := m.SeemsRestored(ctx)
	if err == nil && restored == "" {
		return
	}
	if err != nil {
		klog.ErrorS(err, "Whether etcd was restored is not known before the server serves: the Secrets of hosts that are missing may be deleted")
	}
	owners, err := e.ownersOfSecrets(ctx)
	if err != nil {
		klog.ErrorS(err, "The hosts and switches cannot be listed before the server serves: the Secrets of those that are missing may be deleted")
		return
	}
	e.hostless.Store(owners.Len() == 0)
	if restored == "" {
		return
	}
	if e.hostless.Load() {
		klog.ErrorS(errors.New(restored), "Etcd has no hosts any more: the server does not get ready, or clients would take them for deleted. "+beginWithoutHosts,
			"lease", klog.KRef(e.LeaderElection.ResourceNamespace, e.LeaderElection.ResourceName))
	}
	released, err := secrets.ReleaseGone(ctx, e.cluster.kubernetes, e.cluster.metadata, e.Settings.Namespaces, owners.Has)
	if err != nil {
		klog.ErrorS(err, "Not all Secrets of hosts that are missing could be kept from being deleted")
	}
	klog.InfoS("Etcd was restored: Secrets of hosts and switches that are missing belong to nobody until these are created again", "secrets", released)
}

// beginWithoutHosts is what a person can do if etcd has no hosts any more.
const beginWithoutHosts = "Restore a snapshot (docs/restore.md); or, to begin without hosts, remove the annotation metal3.io/restored from the Lease"

// hasHosts returns an error while etcd, which had hosts before, has none, such as on a new volume. It is a check of readiness: controllers that find
// no hosts delete what refers to them, and GitOps creates the hosts anew. It ends with the hold of a restore.
func (e *engine) hasHosts(ctx context.Context, m *manager.Manager) error {
	if !e.hostless.Load() {
		return nil
	}
	restored, err := m.SeemsRestored(ctx)
	if err != nil {
		return err
	}
	if restored != "" {
		return fmt.Errorf("etcd has no hosts any more: %s. %s", restored, beginWithoutHosts)
	}
	e.hostless.Store(false)
	return nil
}

// ownersOfSecrets returns the UIDs of all that own Secrets of users.
func (e *engine) ownersOfSecrets(ctx context.Context) (sets.Set[types.UID], error) {
	hosts, err := e.hosts.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	uids := sets.New[types.UID]()
	for i := range hosts.Items {
		uids.Insert(hosts.Items[i].UID)
	}
	switches, err := metal3.Objects[*metal3api.BareMetalSwitch](e.stores.Kinds).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return uids, meta.EachListItem(switches, func(device runtime.Object) error {
		uids.Insert(device.(*metal3api.BareMetalSwitch).UID)
		return nil
	})
}
