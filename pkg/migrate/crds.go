package migrate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

var crdResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// ours is the version that our server serves, and that the CRDs store.
var ours = v1alpha1.SchemeGroupVersion.Version

// aside is a version that the CRDs get for the time of a migration: the same
// schema under another name, so that custom resources can be reached while
// v1alpha1 is our server's. Such a name comes last when clients choose a version.
const aside = "migration"

// definedKinds are those of kinds that the cluster has a CRD of. What it has
// besides, and what cannot be moved as it is, are reasons to refuse.
func (c *Cluster) definedKinds(ctx context.Context, kinds []*Kind, refuse *refusals) ([]*Kind, error) {
	list, err := c.dynamic.Resource(crdResource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing CustomResourceDefinitions: %w", err)
	}
	crds := map[string]*unstructured.Unstructured{}
	for i := range list.Items {
		if group, _, _ := unstructured.NestedString(list.Items[i].Object, "spec", "group"); group == v1alpha1.GroupName {
			crds[list.Items[i].GetName()] = &list.Items[i]
		}
	}
	var defined []*Kind
	for _, kind := range kinds {
		crd := crds[kind.CRD()]
		if crd == nil {
			continue
		}
		delete(crds, kind.CRD())
		defined = append(defined, kind)
		if crd.GetDeletionTimestamp() != nil {
			refuse.add("CRD %s is being deleted, and its objects with it", kind.CRD())
		}
		if strategy, _, _ := unstructured.NestedString(crd.Object, "spec", "conversion", "strategy"); strategy == "Webhook" {
			refuse.add("CRD %s is converted by a webhook, which the operator would have to serve: set spec.conversion.strategy to None", kind.CRD())
		}
		if version := findVersion(crd, ours); version == nil || version["storage"] != true {
			refuse.add("CRD %s does not store version %s", kind.CRD(), ours)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(crds)) {
		if version := findVersion(crds[name], ours); version != nil && version["served"] == true {
			refuse.add("CRD %s is of a kind that metal3-apiserver does not serve, and would no longer be reachable: remove it if it is not needed", name)
		}
	}
	return defined, nil
}

// findVersion is the version of a CRD, to be read or written, or nil.
func findVersion(crd *unstructured.Unstructured, name string) map[string]any {
	spec, _ := crd.Object["spec"].(map[string]any)
	versions, _ := spec["versions"].([]any)
	for _, v := range versions {
		if version, _ := v.(map[string]any); version["name"] == name {
			return version
		}
	}
	return nil
}

// changeVersions changes which versions the CRDs of kinds serve, where they do not
// do so already.
func (c *Cluster) changeVersions(ctx context.Context, kinds []*Kind, change func(crd *unstructured.Unstructured) (changed bool)) error {
	for _, kind := range kinds {
		err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
			crd, err := c.dynamic.Resource(crdResource).Get(ctx, kind.CRD(), metav1.GetOptions{})
			if err != nil || !change(crd) {
				return err
			}
			_, err = c.dynamic.Resource(crdResource).Update(ctx, crd, metav1.UpdateOptions{FieldManager: fieldManager})
			return err
		})
		if err != nil {
			return fmt.Errorf("CRD %s: %w", kind.CRD(), err)
		}
	}
	return nil
}

// serve sets whether v1alpha1 of the CRDs is served.
func (c *Cluster) serve(ctx context.Context, kinds []*Kind, served bool) error {
	return c.changeVersions(ctx, kinds, func(crd *unstructured.Unstructured) bool {
		version := findVersion(crd, ours)
		if version == nil || version["served"] == served {
			return false
		}
		version["served"] = served
		return true
	})
}

// openAside has the custom resources served aside, and waits until they are.
func (c *Cluster) openAside(ctx context.Context, kinds []*Kind) error {
	err := c.changeVersions(ctx, kinds, func(crd *unstructured.Unstructured) bool {
		if findVersion(crd, aside) != nil {
			return false
		}
		version := runtime.DeepCopyJSON(findVersion(crd, ours))
		version["name"], version["served"], version["storage"] = aside, true, false
		versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
		return unstructured.SetNestedSlice(crd.Object, append(versions, version), "spec", "versions") == nil
	})
	if err != nil {
		return err
	}
	for _, kind := range kinds {
		err := poll(ctx, time.Minute, func(ctx context.Context) error {
			_, err := c.dynamic.Resource(kind.resource(aside)).List(ctx, metav1.ListOptions{Limit: 1})
			return err
		})
		if err != nil {
			return fmt.Errorf("the custom resources are not served as %s: %w", kind.resource(aside), err)
		}
	}
	return nil
}

// isAside tells whether the custom resources of any kind are served aside: a migration
// was begun and did not end.
func (c *Cluster) isAside(ctx context.Context, kinds []*Kind) (bool, error) {
	for _, kind := range kinds {
		crd, err := c.dynamic.Resource(crdResource).Get(ctx, kind.CRD(), metav1.GetOptions{})
		if err != nil {
			return false, fmt.Errorf("CRD %s: %w", kind.CRD(), err)
		}
		if findVersion(crd, aside) != nil {
			return true, nil
		}
	}
	return false, nil
}

// closeAside ends openAside.
func (c *Cluster) closeAside(ctx context.Context, kinds []*Kind) error {
	return c.changeVersions(ctx, kinds, func(crd *unstructured.Unstructured) bool {
		if findVersion(crd, aside) == nil {
			return false
		}
		versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
		versions = slices.DeleteFunc(versions, func(v any) bool {
			version, _ := v.(map[string]any)
			return version["name"] == aside
		})
		return unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions") == nil
	})
}

// poll tries until done returns nil, and otherwise returns its last error.
func poll(ctx context.Context, limit time.Duration, done func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 250*time.Millisecond, limit, true, func(attempt context.Context) (bool, error) {
		err := done(attempt)
		if err != nil && (attempt.Err() == nil || last == nil) {
			last = err // and not that the time was over while it was asked again
		}
		return err == nil, nil
	})
	if err == nil {
		return nil
	}
	return errors.Join(last, ctx.Err())
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
