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

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// ownersAnnotation keeps owner references while they are taken off. Two owners that
// could be named, one by each of its UIDs, would not do: the garbage collector takes
// the one off that it does not find.
const ownersAnnotation = "metal3-apiserver.metal3.io/owners-to-restore"

// dependents are all objects of other groups that may be owned by ours, but for those
// that we may not list, which forbidden are. Their contents, such as those of Secrets,
// are not read.
func (c *Cluster) dependents(ctx context.Context, report *Report, visit func(schema.GroupVersionResource, *metav1.PartialObjectMetadata) error) (forbidden []string, err error) {
	lists, err := c.kube.Discovery().ServerPreferredResources()
	if failed := new(discovery.ErrGroupDiscoveryFailed); errors.As(err, &failed) {
		delete(failed.Groups, v1alpha1.SchemeGroupVersion) // which has just changed hands, and is not looked through here
		if len(failed.Groups) > 0 {
			report.Warn("not all resources of the cluster can be looked through for what hosts own: %v", failed)
		}
	} else if err != nil {
		return nil, fmt.Errorf("which resources the cluster has: %w", err)
	}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil || gv.Group == v1alpha1.GroupName || gv.Group == "events.k8s.io" {
			continue
		}
		for _, resource := range list.APIResources {
			if !resource.Namespaced || resource.Name == "events" || !slices.Contains(resource.Verbs, "list") || !slices.Contains(resource.Verbs, "patch") {
				continue
			}
			if err := c.eachMetadata(ctx, gv.WithResource(resource.Name), visit); apierrors.IsForbidden(err) {
				forbidden = append(forbidden, resource.Name)
			} else if err != nil {
				return nil, err
			}
		}
	}
	return forbidden, nil
}

func (c *Cluster) eachMetadata(ctx context.Context, gvr schema.GroupVersionResource, visit func(schema.GroupVersionResource, *metav1.PartialObjectMetadata) error) error {
	options := metav1.ListOptions{Limit: pageSize}
	for {
		page, err := c.metadata.Resource(gvr).List(ctx, options)
		if err != nil {
			return fmt.Errorf("listing %s: %w", gvr.Resource, err)
		}
		for i := range page.Items {
			if err := visit(gvr, &page.Items[i]); err != nil {
				return fmt.Errorf("%s %s/%s: %w", gvr.Resource, page.Items[i].Namespace, page.Items[i].Name, err)
			}
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return nil
		}
	}
}

// detachOwned takes the owner references off that would dangle once the CRDs have the
// group: those to objects that have another UID there.
func (e *Export) detachOwned(ctx context.Context, uids UIDs) error {
	if !uids.changed() {
		return nil
	}
	n := 0
	forbidden, err := e.Cluster.dependents(ctx, e.Report, func(gvr schema.GroupVersionResource, obj *metav1.PartialObjectMetadata) error {
		dangling := func(owner metav1.OwnerReference) bool {
			uid, known := uids[owner.UID]
			return known && uid != owner.UID
		}
		if !slices.ContainsFunc(obj.OwnerReferences, dangling) {
			return nil
		}
		n++
		var taken []metav1.OwnerReference
		if text, has := obj.Annotations[ownersAnnotation]; has {
			if err := json.Unmarshal([]byte(text), &taken); err != nil {
				return fmt.Errorf("annotation %s: %w", ownersAnnotation, err)
			}
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
		return e.Cluster.setOwners(ctx, gvr, obj, slices.DeleteFunc(slices.Clone(obj.OwnerReferences), dangling), string(text))
	})
	if err != nil {
		return err
	}
	if len(forbidden) > 0 {
		e.Report.Done("not looked through for what hosts own, as we may not: %s", strings.Join(forbidden, ", "))
	}
	e.Report.Done("%d objects whose owners get another UID are without owner for now (annotation %s)", n, ownersAnnotation)
	return nil
}

// attachOwned gives what detachOwned has detached to the owners as they are now.
func (e *Export) attachOwned(ctx context.Context, uids UIDs) error {
	n := 0
	_, err := e.Cluster.dependents(ctx, e.Report, func(gvr schema.GroupVersionResource, obj *metav1.PartialObjectMetadata) error {
		text, has := obj.Annotations[ownersAnnotation]
		if !has {
			return nil
		}
		var taken []metav1.OwnerReference
		if err := json.Unmarshal([]byte(text), &taken); err != nil {
			return fmt.Errorf("annotation %s: %w", ownersAnnotation, err)
		}
		owners := obj.OwnerReferences
		for _, owner := range taken {
			uid, known := uids[owner.UID]
			if !known {
				e.Report.Warn("%s %s/%s: its owner %s %s is gone, and not put back", gvr.Resource, obj.Namespace, obj.Name, owner.Kind, owner.Name)
				continue
			}
			owner.UID = uid
			if !slices.ContainsFunc(owners, func(o metav1.OwnerReference) bool { return o.UID == uid }) {
				owners = append(owners, owner)
			}
		}
		n++
		return e.Cluster.setOwners(ctx, gvr, obj, owners, "")
	})
	if err == nil && n > 0 {
		e.Report.Done("%d objects have their owners again", n)
	}
	return err
}

// setOwners patches owners and annotation, unless somebody has written meanwhile.
func (c *Cluster) setOwners(ctx context.Context, gvr schema.GroupVersionResource, obj *metav1.PartialObjectMetadata, owners []metav1.OwnerReference, annotation string) error {
	var kept any // null removes
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
