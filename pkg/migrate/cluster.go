// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

const (
	// requestTimeout bounds each request to the cluster.
	requestTimeout = 60 * time.Second
	// pageSize is how many objects are requested at a time; a host can have 100 KB.
	pageSize = 250
	// workers is how many objects are written at a time.
	workers = 16
	// fieldManager identifies the migration in managedFields.
	fieldManager = "metal3-apiserver-migration"
)

// Cluster is the Kubernetes cluster that has the CRDs.
type Cluster struct {
	crds
	aggregator
	scheme   *runtime.Scheme
	dynamic  dynamic.Interface
	kube     kubernetes.Interface
	metadata metadata.Interface
}

// NewCluster returns the cluster to which config connects. The scheme must have the types
// of metal3.io/v1alpha1.
func NewCluster(config *rest.Config, scheme *runtime.Scheme) (*Cluster, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1 // kube-apiserver has a limit of its own
	config.Timeout = requestTimeout
	config.UserAgent = fieldManager
	config.WarningHandler = rest.NoWarnings{} // the fields that a CRD drops are detected and reported once per object
	dynamic, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	metadata, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return newCluster(scheme, dynamic, kube, metadata), nil
}

func newCluster(scheme *runtime.Scheme, dynamic dynamic.Interface, kube kubernetes.Interface, metadata metadata.Interface) *Cluster {
	return &Cluster{
		crds: crds{dynamic}, aggregator: aggregator{dynamic, kube.Discovery()},
		scheme: scheme, dynamic: dynamic, kube: kube, metadata: metadata,
	}
}

// list returns the custom resources of a kind in all namespaces, in the given version.
func (c *Cluster) list(ctx context.Context, kind *Kind, version string) ([]unstructured.Unstructured, error) {
	var err error
	// All pages belong to one resourceVersion. If it is compacted, the list starts again.
	for range 3 {
		var items []unstructured.Unstructured
		if items, err = c.listOnce(ctx, kind, version); err == nil || !apierrors.IsResourceExpired(err) {
			return items, err
		}
	}
	return nil, fmt.Errorf("the %s change faster than they can be listed: stop the clients that write them: %w", kind.Resource, err)
}

func (c *Cluster) listOnce(ctx context.Context, kind *Kind, version string) ([]unstructured.Unstructured, error) {
	var items []unstructured.Unstructured
	options := metav1.ListOptions{Limit: pageSize}
	for {
		page, err := c.dynamic.Resource(kind.resource(version)).List(ctx, options)
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", kind.resource(version), err)
		}
		items = append(items, page.Items...)
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return items, nil
		}
	}
}

// customResources returns the custom resources of a kind as metal3-apiserver would store
// them.
func (c *Cluster) customResources(ctx context.Context, kind *Kind, version string) (Objects, error) {
	objects, unreadable, err := c.readCustomResources(ctx, kind, version)
	if err != nil {
		return nil, err
	}
	return objects, unreadable.err(unreadableObjects)
}

// unreadableObjects is said of objects whose fields are of other types than those of metal3-apiserver.
const unreadableObjects = "these objects cannot be read: correct or delete them"

// readCustomResources is customResources, apart from those that cannot be read, which are in unreadable.
func (c *Cluster) readCustomResources(ctx context.Context, kind *Kind, version string) (objects Objects, unreadable refusals, err error) {
	items, err := c.list(ctx, kind, version)
	if err != nil {
		return nil, nil, err
	}
	objects = make(Objects, len(items))
	for i := range items {
		obj, err := fromCustomResource(c.scheme, kind, &items[i])
		if err != nil {
			unreadable.add("%v", err)
			continue
		}
		objects[obj.Key] = obj
	}
	if found := len(objects) + len(unreadable); found != len(items) {
		return nil, nil, fmt.Errorf("the list of %s changed while it was being read: %d items, %d names: try again", kind.Resource, len(items), found)
	}
	return objects, unreadable, nil
}

// HasSecret reports whether a Secret exists. The error is that of the API.
func (c *Cluster) HasSecret(ctx context.Context, namespace, name string) (bool, error) {
	_, err := c.metadata.Resource(corev1.SchemeGroupVersion.WithResource("secrets")).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}
