// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

var crdResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// storedVersion is the version that metal3-apiserver serves and that the CRDs store.
var storedVersion = v1alpha1.SchemeGroupVersion.Version

// migrationVersion is a version that the CRDs have only during a migration. It has the
// same schema under another name, so that the custom resources can be reached while
// requests for v1alpha1 go to metal3-apiserver. Clients that choose a version prefer any
// other one to a name of this form.
const migrationVersion = "migration"

// crds are the CustomResourceDefinitions of the cluster.
type crds struct{ dynamic dynamic.Interface }

// definedKinds returns those of kinds for which the cluster has a CRD. It refuses CRDs that
// cannot be migrated in their current state, and CRDs of the group for other kinds.
func (c crds) definedKinds(ctx context.Context, kinds []*Kind, refuse *refusals) ([]*Kind, error) {
	list, err := c.dynamic.Resource(crdResource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing CustomResourceDefinitions: %w", err)
	}
	found := map[string]*unstructured.Unstructured{}
	for i := range list.Items {
		if group, _, _ := unstructured.NestedString(list.Items[i].Object, "spec", "group"); group == v1alpha1.GroupName {
			found[list.Items[i].GetName()] = &list.Items[i]
		}
	}
	var defined []*Kind
	for _, kind := range kinds {
		crd := found[kind.CRD()]
		if crd == nil {
			continue
		}
		delete(found, kind.CRD())
		defined = append(defined, kind)
		if crd.GetDeletionTimestamp() != nil {
			refuse.add("CRD %s is being deleted together with its objects", kind.CRD())
		}
		if strategy, _, _ := unstructured.NestedString(crd.Object, "spec", "conversion", "strategy"); strategy == "Webhook" {
			refuse.add("CRD %s has a conversion webhook, which the operator would have to serve: set spec.conversion.strategy to None", kind.CRD())
		}
		if version := findVersion(crd, storedVersion); version == nil || version["storage"] != true {
			refuse.add("CRD %s does not store version %s", kind.CRD(), storedVersion)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if version := findVersion(found[name], storedVersion); version != nil && version["served"] == true {
			refuse.add("CRD %s defines a kind that metal3-apiserver does not serve and that would no longer be reachable: remove the CRD if it is not needed", name)
		}
	}
	return defined, nil
}

// findVersion returns a version of a CRD, or nil. Changes to the result change the CRD.
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

// changeVersions applies change to the CRDs of kinds, and writes those that it changed.
func (c crds) changeVersions(ctx context.Context, kinds []*Kind, change func(crd *unstructured.Unstructured) (changed bool)) error {
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

// setServed sets whether the CRDs serve v1alpha1.
func (c crds) setServed(ctx context.Context, kinds []*Kind, served bool) error {
	return c.changeVersions(ctx, kinds, func(crd *unstructured.Unstructured) bool {
		version := findVersion(crd, storedVersion)
		if version == nil || version["served"] == served {
			return false
		}
		version["served"] = served
		return true
	})
}

// addMigrationVersion adds the migration version to the CRDs, and waits until it is served.
func (c crds) addMigrationVersion(ctx context.Context, kinds []*Kind) error {
	err := c.changeVersions(ctx, kinds, func(crd *unstructured.Unstructured) bool {
		if findVersion(crd, migrationVersion) != nil {
			return false
		}
		version := runtime.DeepCopyJSON(findVersion(crd, storedVersion))
		version["name"], version["served"], version["storage"] = migrationVersion, true, false
		versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
		return unstructured.SetNestedSlice(crd.Object, append(versions, version), "spec", "versions") == nil
	})
	if err != nil {
		return err
	}
	for _, kind := range kinds {
		err := poll(ctx, time.Minute, func(ctx context.Context) error {
			_, err := c.dynamic.Resource(kind.resource(migrationVersion)).List(ctx, metav1.ListOptions{Limit: 1})
			return err
		})
		if err != nil {
			return fmt.Errorf("the custom resources are not served as %s: %w", kind.resource(migrationVersion), err)
		}
	}
	return nil
}

// hasMigrationVersion reports whether the CRD of any kind has the migration version, which
// means that a migration was interrupted.
func (c crds) hasMigrationVersion(ctx context.Context, kinds []*Kind) (bool, error) {
	for _, kind := range kinds {
		crd, err := c.dynamic.Resource(crdResource).Get(ctx, kind.CRD(), metav1.GetOptions{})
		if err != nil {
			return false, fmt.Errorf("CRD %s: %w", kind.CRD(), err)
		}
		if findVersion(crd, migrationVersion) != nil {
			return true, nil
		}
	}
	return false, nil
}

// removeMigrationVersion undoes addMigrationVersion.
func (c crds) removeMigrationVersion(ctx context.Context, kinds []*Kind) error {
	return c.changeVersions(ctx, kinds, func(crd *unstructured.Unstructured) bool {
		if findVersion(crd, migrationVersion) == nil {
			return false
		}
		versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
		versions = slices.DeleteFunc(versions, func(v any) bool {
			version, _ := v.(map[string]any)
			return version["name"] == migrationVersion
		})
		return unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions") == nil
	})
}

// poll calls done until it returns nil, and returns its last error if that does not happen
// within limit.
func poll(ctx context.Context, limit time.Duration, done func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 250*time.Millisecond, limit, true, func(attempt context.Context) (bool, error) {
		err := done(attempt)
		if err != nil && (attempt.Err() == nil || last == nil) {
			last = err // an attempt that was cut off at the limit says nothing
		}
		return err == nil, nil
	})
	if err == nil {
		return nil
	}
	return errors.Join(last, ctx.Err())
}
