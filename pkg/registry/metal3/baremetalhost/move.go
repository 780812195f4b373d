package baremetalhost

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"
	"k8s.io/klog/v2"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// NodeReleaser reads nodes, and removes what marks them as a host's.
type NodeReleaser interface {
	NodeGetter
	UpdateNode(ctx context.Context, fence ironic.Fence, idOrName string, patches []ironic.Patch) (*ironic.Node, error)
}

// The node of a host that clusterctl has moved to another cluster loses its marks with the request that removes the host
// here: if that cluster uses the same Ironic, its server would otherwise take the node for that of a host in this cluster,
// and hold its own. The copy there has everything else: the name, which is also that of the node, and the annotation with
// the status. clusterctl deletes a host that has finalizers and removes them then, so that an update is the last request.

// Delete deletes a host. If nothing keeps one that was moved, its node is released first.
func (r *REST) Delete(ctx context.Context, name string, deleteValidation rest.ValidateObjectFunc, options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	obj, err := r.Store.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, false, err
	}
	host := obj.(*metal3.BareMetalHost)
	// With finalizers, the host will be there after the request, too.
	if metal3.IsDeletedForMove(host) && len(host.Finalizers) == 0 && !dryrun.IsDryRun(options.DryRun) {
		// What admission, or a precondition, refuses is not released.
		dry := options.DeepCopy()
		dry.DryRun = []string{metav1.DryRunAll}
		if obj, deleted, err := r.Store.Delete(ctx, name, deleteValidation, dry); err != nil {
			return obj, deleted, err
		}
		if err := r.release(ctx, host); err != nil {
			return nil, false, err
		}
	}
	return r.Store.Delete(ctx, name, deleteValidation, options)
}

// Update updates a host. If that removes the last finalizer of one that was moved and is being deleted, its node is
// released first.
func (r *REST) Update(ctx context.Context, name string, objInfo rest.UpdatedObjectInfo, createValidation rest.ValidateObjectFunc, updateValidation rest.ValidateObjectUpdateFunc, forceAllowCreate bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	// The store validates what it is about to write, after it has compared resourceVersions.
	validateAndRelease := func(ctx context.Context, obj, old runtime.Object) error {
		if updateValidation != nil {
			if err := updateValidation(ctx, obj, old); err != nil {
				return err
			}
		}
		host := obj.(*metal3.BareMetalHost)
		if host.DeletionTimestamp == nil || !metal3.IsDeletedForMove(host) || len(host.Finalizers) > 0 || dryrun.IsDryRun(options.DryRun) {
			return nil
		}
		return r.release(ctx, host)
	}
	return r.Store.Update(ctx, name, objInfo, createValidation, validateAndRelease, forceAllowCreate, options)
}

// release removes the marks of the host from its node.
func (r *REST) release(ctx context.Context, host *metal3.BareMetalHost) error {
	if host.Status.Provisioning.ID == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, actionTimeout)
	defer cancel()
	ctx = r.passwords.Guard(ctx, host)
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
	return serviceUnavailable(host.Name, fmt.Sprintf(
		"the node of a host that moves to another cluster has to be released in %s first: %s; try again. To delete the host without that, remove the annotation %s; in a cluster with the same Ironic, its node then has to be taken over",
		ironicName(host), ironic.ReasonOf(err), metal3.DeleteForMoveAnnotation))
}
