// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"

	metal3api "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3"
)

// CRDs of this server's kinds can be served again beside its APIService, for example after an upgrade of the Bare Metal Operator
// with clusterctl. Requests still go to this server, but kube-apiserver then has two schemas for one version: it publishes the one
// and the other in turn in OpenAPI v3, and leaves out this server's in v2. What reads them, such as kubectl explain or a GitOps tool
// that compares objects, fails every now and then. Nothing tells why, so the leader does.

// crdLookInterval is how often the leader looks for such CRDs.
const crdLookInterval = 10 * time.Minute

// crdLookTimeout bounds one look, which is a request for each kind.
const crdLookTimeout = time.Minute

var crdResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

var servedCRDs = metrics.NewGauge(&metrics.GaugeOpts{
	Namespace:      "metal3",
	Name:           "served_crds",
	Help:           "CustomResourceDefinitions that serve v1alpha1 of metal3.io beside this server. Only on the leader.",
	StabilityLevel: metrics.ALPHA,
})

// crdLook looks for CRDs that are served beside this server.
type crdLook struct {
	client dynamic.Interface
	names  []string
	told   []string
}

func newCRDLook(client dynamic.Interface, kinds metal3.Kinds) *crdLook {
	return &crdLook{client: client, names: crdNames(kinds)}
}

// crdNames returns the names that CRDs of this server's kinds have.
func crdNames(kinds metal3.Kinds) []string {
	names := []string{"baremetalhosts." + metal3api.GroupName}
	for resource := range maps.Keys(kinds) {
		names = append(names, resource+"."+metal3api.GroupName)
	}
	slices.Sort(names)
	return names
}

// run looks again and again until ctx ends.
func (l *crdLook) run(ctx context.Context) error {
	defer servedCRDs.Set(0)
	wait.JitterUntilWithContext(ctx, l.look, crdLookInterval, 0.1, true)
	return nil
}

// look reports which CRDs are served, each time that these are others than before.
func (l *crdLook) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, crdLookTimeout)
	defer cancel()
	var served []string
	for _, name := range l.names {
		crd, err := l.client.Resource(crdResource).Get(ctx, name, metav1.GetOptions{})
		is := err == nil && isServed(crd)
		// Most clusters have none of them, and the server may not be permitted to see them. Any other error says nothing.
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
			is = slices.Contains(l.told, name)
		}
		if is {
			served = append(served, name)
		}
	}
	if ctx.Err() != nil {
		return
	}
	servedCRDs.Set(float64(len(served)))
	switch log := klog.FromContext(ctx); {
	case slices.Equal(served, l.told):
	case len(served) > 0:
		log.Error(nil, "CustomResourceDefinitions are served beside this server, and spoil the published schemas: set served to false in them (docs/troubleshooting.md)", "crds", strings.Join(served, ", "))
	default:
		log.Info("No CustomResourceDefinition is served beside this server any more")
	}
	l.told = served
}

// isServed reports whether a CRD serves the version that this server serves.
func isServed(crd *unstructured.Unstructured) bool {
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	return slices.ContainsFunc(versions, func(v any) bool {
		version, _ := v.(map[string]any)
		return version["name"] == metal3api.SchemeGroupVersion.Version && version["served"] == true
	})
}
