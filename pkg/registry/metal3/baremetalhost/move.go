// SPDX-License-Identifier: Apache-2.0

package baremetalhost

import (
	"context"
	"fmt"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"
	"k8s.io/klog/v2"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/kind"
	"github.com/metal3-io/metal3-apiserver/pkg/store"
)

// The node of a host that clusterctl has moved to another cluster loses its marks with the request that removes the host
// here: if that cluster uses the same Ironic, its server would otherwise take the node for that of a host in this cluster,
// and hold its own. The copy there has everything else: the name, which is also that of the node, and the annotation with
// the status. Which request that is depends on clusterctl: before 1.10, it removes the finalizers and then deletes the
// host; since then, it deletes it and then removes the finalizers. The node is released where the store would write next:
// after admission and the comparison of resourceVersions, so that what they refuse is not released, and before the host is
// gone, so that the request fails and can be repeated if Ironic does not answer.

// Delete deletes a host.
func (r *REST) Delete(ctx context.Context, name string, deleteValidation rest.ValidateObjectFunc, options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	return r.Store.Delete(ctx, name, r.releasing(deleteValidation, options), options)
}

// DeleteCollection deletes hosts one by one. A namespace that is deleted has its contents deleted in this way.
func (r *REST) DeleteCollection(ctx context.Context, deleteValidation rest.ValidateObjectFunc, options *metav1.DeleteOptions, listOptions *metainternalversion.ListOptions) (runtime.Object, error) {
	return r.Store.DeleteCollection(ctx, r.releasing(deleteValidation, options), options, listOptions)
}

// releasing extends validate: afterwards, it releases the node of a moved host, unless finalizers keep the host.
func (r *REST) releasing(validate rest.ValidateObjectFunc, options *metav1.DeleteOptions) rest.ValidateObjectFunc {
	return kind.Then(validate, func(ctx context.Context, obj runtime.Object) error {
		return r.releaseMoved(ctx, obj.(*metal3.BareMetalHost), options.DryRun)
	})
}

// Update updates a host. To remove the last finalizer of one that is being deleted is to delete it.
func (r *REST) Update(ctx context.Context, name string, objInfo rest.UpdatedObjectInfo, createValidation rest.ValidateObjectFunc, updateValidation rest.ValidateObjectUpdateFunc, forceAllowCreate bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	validateAndRelease := kind.ThenOnUpdate(updateValidation, func(ctx context.Context, obj, _ runtime.Object) error {
		host := obj.(*metal3.BareMetalHost)
		if host.DeletionTimestamp == nil {
			return nil
		}
		return r.releaseMoved(ctx, host, options.DryRun)
	})
	return r.Store.Update(ctx, name, objInfo, createValidation, validateAndRelease, forceAllowCreate, options)
}

// releaseMoved releases the node of a host that is gone with the request, if the host was moved.
func (r *REST) releaseMoved(ctx context.Context, host *metal3.BareMetalHost, dryRun []string) error {
	if !metal3.IsDeletedForMove(host) || len(host.Finalizers) > 0 || dryrun.IsDryRun(dryRun) {
		return nil
	}
	return r.release(ctx, host)
}

// release removes the marks of the host from its node.
func (r *REST) release(ctx context.Context, host *metal3.BareMetalHost) error {
	if host.Status.Provisioning.ID == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, actionTimeout)
	defer cancel()
	ctx = r.nodes.Guard(ctx, host)
	asked, err := r.ironicOf(host)
	if err != nil {
		return releaseFailed(host, err)
	}
	node, err := asked.GetNode(ctx, host.Status.Provisioning.ID)
	if ironic.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return releaseFailed(host, err)
	}
	if string(node.Marks.Host) != string(host.UID) {
		return nil // it is not marked, or not as this host's
	}
	patches := []ironic.Patch{{Op: ironic.PatchRemove, Path: "/extra/" + ironic.HostMark}}
	if node.Marks.Cluster != "" {
		patches = append(patches, ironic.Patch{Op: ironic.PatchRemove, Path: "/extra/" + ironic.ClusterMark})
	}
	if _, err := asked.UpdateNode(ctx, ironic.NoFence, node.UUID, patches); err != nil {
		return releaseFailed(host, err)
	}
	klog.FromContext(ctx).Info("The host has moved to another cluster, so its node does not bear its marks any more", "host", klog.KObj(host), "node", node.UUID)
	return nil
}

// releaseFailed returns the API error of a release, which may be repeated whatever has become of it.
func releaseFailed(host *metal3.BareMetalHost, err error) error {
	if ironic.IsLocked(err) {
		return tooMany(fmt.Sprintf("baremetalhost %q: %v; try again when that is done", host.Name, err))
	}
	return store.Unavailable(host.Name, fmt.Sprintf(
		"the node of a host that moves to another cluster has to be released in %s first: %s; try again. To delete the host without that, remove the annotation %s; in a cluster with the same Ironic, its node then has to be taken over",
		ironicName(host), ironic.ReasonOf(err), metal3.DeleteForMoveAnnotation))
}
