// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/util/retry"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// ownersAnnotation stores owner references while they are removed from an object. It would
// not work to refer to an owner twice, by its old and its new UID, because the garbage
// collector removes the reference that it cannot resolve.
const ownersAnnotation = "metal3-apiserver.metal3.io/owners-to-restore"

// requiredDependents are the kinds that metal3-apiserver itself makes hosts and switches own. These must be searched.
var requiredDependents = []string{"configmaps", "secrets"}

// forEachDependent visits the metadata of all objects of other groups that objects of this
// group may own. It returns the names of resources that it has no permission to list.
// Contents, such as those of Secrets, are not read.
//
// A visit that is forbidden is an error, after all others were made: a webhook or a policy may
// refuse to have single objects changed.
func (c *Cluster) forEachDependent(ctx context.Context, report *Report, visit visitor) (unlisted []string, err error) {
	lists, err := c.kube.Discovery().ServerPreferredResources()
	if failed := new(discovery.ErrGroupDiscoveryFailed); errors.As(err, &failed) {
		delete(failed.Groups, v1alpha1.SchemeGroupVersion) // it is just changing hands, and is not needed here
		if len(failed.Groups) > 0 {
			report.Warn("not all resources of the cluster can be searched for objects that hosts own: %v", failed)
		}
	} else if err != nil {
		return nil, fmt.Errorf("discovering the resources of the cluster: %w", err)
	}
	var refuse refusals
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil || gv.Group == v1alpha1.GroupName || gv.Group == "events.k8s.io" {
			continue
		}
		for _, resource := range list.APIResources {
			if !resource.Namespaced || resource.Name == "events" || !slices.Contains(resource.Verbs, "list") || !slices.Contains(resource.Verbs, "patch") {
				continue
			}
			mayList, forbidden, err := c.forEachMetadata(ctx, gv.WithResource(resource.Name), visit)
			if err != nil {
				return nil, err
			}
			refuse = append(refuse, forbidden...)
			switch {
			case mayList:
			case gv.Group == "" && slices.Contains(requiredDependents, resource.Name):
				refuse.add("all %s: there is no permission to list them", resource.Name)
			default:
				unlisted = append(unlisted, resource.Name)
			}
		}
	}
	return unlisted, refuse.err("hosts may own these objects, whose owner references may not be changed: permit it, and run export again")
}

// visitor is called with an object that objects of this group may own.
type visitor func(schema.GroupVersionResource, *metav1.PartialObjectMetadata) error

// forEachMetadata lists a resource, and begins again if another client wrote one of its objects before visit did: an
// object that visit has been at needs nothing more. (To get just that object would need a permission to get Secrets.)
// forbidden has the visits that were.
func (c *Cluster) forEachMetadata(ctx context.Context, gvr schema.GroupVersionResource, visit visitor) (mayList bool, forbidden refusals, err error) {
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		mayList, forbidden = true, nil
		options := metav1.ListOptions{Limit: pageSize}
		for {
			page, err := c.metadata.Resource(gvr).List(ctx, options)
			if apierrors.IsForbidden(err) {
				mayList = false
				return nil
			}
			if err != nil {
				return fmt.Errorf("listing %s: %w", gvr.Resource, err)
			}
			for i := range page.Items {
				obj := &page.Items[i]
				if err := visit(gvr, obj); apierrors.IsForbidden(err) {
					forbidden.add("%s %s/%s: %v", gvr.Resource, obj.Namespace, obj.Name, err)
				} else if err != nil {
					return fmt.Errorf("%s %s/%s: %w", gvr.Resource, obj.Namespace, obj.Name, err)
				}
			}
			if options.Continue = page.Continue; options.Continue == "" {
				return nil
			}
		}
	})
	return mayList, forbidden, err
}

// detachDependents removes the owner references that would be dangling once the CRDs serve
// the group, because the owner has another UID there. It keeps them in ownersAnnotation.
func (e *Export) detachDependents(ctx context.Context, uids UIDs) error {
	if !uids.changed() {
		return nil
	}
	n := 0
	unlisted, err := e.Cluster.forEachDependent(ctx, e.Report, func(gvr schema.GroupVersionResource, obj *metav1.PartialObjectMetadata) error {
		dangling := func(owner metav1.OwnerReference) bool {
			uid, known := uids[owner.UID]
			return known && uid != owner.UID
		}
		if !slices.ContainsFunc(obj.OwnerReferences, dangling) {
			return nil
		}
		taken, err := takenOwners(obj)
		if err != nil {
			return err
		}
		for _, owner := range obj.OwnerReferences {
			if dangling(owner) {
				taken = append(taken, owner)
			}
		}
		text, err := json.Marshal(taken)
		if err != nil {
			return err
		}
		err = e.Cluster.setOwners(ctx, gvr, obj, slices.DeleteFunc(slices.Clone(obj.OwnerReferences), dangling), string(text))
		if err == nil {
			n++
		}
		return err
	})
	if err != nil {
		return err
	}
	e.warnUnlisted(unlisted)
	e.Report.Done("objects without an owner for now, because their owners get new UIDs: %d (annotation %s)", n, ownersAnnotation)
	return nil
}

// warnUnlisted says which kinds were not searched for objects that hosts own.
func (e *Export) warnUnlisted(unlisted []string) {
	if len(unlisted) > 0 {
		e.Report.Warn("if hosts that were created after the switch own objects of these kinds, the garbage collector deletes them: "+
			"for lack of permission, they cannot be searched: %s", strings.Join(unlisted, ", "))
	}
}

// takenOwners returns the owner references that were removed from an object; nil if none were.
func takenOwners(obj *metav1.PartialObjectMetadata) (taken []metav1.OwnerReference, err error) {
	text, has := obj.Annotations[ownersAnnotation]
	if !has {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(text), &taken); err != nil {
		return nil, fmt.Errorf("annotation %s: %w", ownersAnnotation, err)
	}
	return taken, nil
}

// reattachDependents restores the owner references that detachDependents removed, with the
// UIDs that the owners have now.
func (e *Export) reattachDependents(ctx context.Context, uids UIDs) error {
	n := 0
	unlisted, err := e.Cluster.forEachDependent(ctx, e.Report, func(gvr schema.GroupVersionResource, obj *metav1.PartialObjectMetadata) error {
		taken, err := takenOwners(obj)
		if err != nil || taken == nil {
			return err
		}
		owners := obj.OwnerReferences
		for _, owner := range taken {
			uid, known := uids[owner.UID]
			if !known {
				e.Report.Warn("%s %s/%s: its owner %s %s no longer exists, so the owner reference is not restored", gvr.Resource, obj.Namespace, obj.Name, owner.Kind, owner.Name)
				continue
			}
			owner.UID = uid
			if !slices.ContainsFunc(owners, func(o metav1.OwnerReference) bool { return o.UID == uid }) {
				owners = append(owners, owner)
			}
		}
		err = e.Cluster.setOwners(ctx, gvr, obj, owners, "")
		if err == nil {
			n++
		}
		return err
	})
	if n > 0 {
		e.Report.Done("objects that have their owners again: %d", n)
	}
	if e.left == nil && len(unlisted) > 0 { // an earlier run may have had more permissions
		e.Report.Done("not searched for objects with the annotation %s, for lack of permission: %s", ownersAnnotation, strings.Join(unlisted, ", "))
	}
	return err
}

// setOwners patches the owner references and ownersAnnotation of an object, unless somebody
// has written the object in the meantime. An empty annotation is removed.
func (c *Cluster) setOwners(ctx context.Context, gvr schema.GroupVersionResource, obj *metav1.PartialObjectMetadata, owners []metav1.OwnerReference, annotation string) error {
	var kept any // null removes the annotation
	if annotation != "" {
		kept = annotation
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": obj.ResourceVersion, "ownerReferences": owners, "annotations": map[string]any{ownersAnnotation: kept},
	}})
	if err != nil {
		return err
	}
	_, err = c.metadata.Resource(gvr).Namespace(obj.Namespace).Patch(ctx, obj.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
