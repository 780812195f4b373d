// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"

	ironicv1alpha1 "github.com/metal3-io/metal3-apiserver/pkg/apis/ironic/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

var apiServiceResource = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}

const (
	// automanagedLabel marks an APIService that kube-apiserver manages for the CRDs.
	automanagedLabel = "kube-aggregator.kubernetes.io/automanaged"
	// The priorities of a CRD's APIService, so that short names resolve as before.
	groupPriority, versionPriority = 1000, 100
)

var (
	apiServiceName       = v1alpha1.SchemeGroupVersion.Version + "." + v1alpha1.GroupName
	ironicAPIServiceName = ironicv1alpha1.SchemeGroupVersion.Version + "." + ironicv1alpha1.GroupName
)

// Target is where kube-apiserver finds metal3-apiserver.
type Target struct {
	// Namespace and Name are those of its Service.
	Namespace, Name string
	// Port is the port of the Service.
	Port int32
	// CA is the PEM-encoded certificate of the authority that signed metal3-apiserver's
	// serving certificate.
	CA []byte
}

// handler is what serves metal3.io/v1alpha1.
type handler string

const (
	servedByCRDs   handler = "the CRDs"
	servedByServer handler = "metal3-apiserver"
	servedByOther  handler = "another server"
)

// aggregator is the part of kube-apiserver that has the group served as its APIService says.
type aggregator struct {
	dynamic   dynamic.Interface
	discovery discovery.DiscoveryInterface
}

// servedBy reads the APIService. If it names a Service that is not metal3-apiserver's,
// service is the namespace and name of that Service.
func (a aggregator) servedBy(ctx context.Context, target Target) (by handler, service string, err error) {
	return a.servedAs(ctx, apiServiceName, target)
}

func (a aggregator) servedAs(ctx context.Context, name string, target Target) (by handler, service string, err error) {
	apiService, err := a.dynamic.Resource(apiServiceResource).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return servedByCRDs, "", nil // kube-apiserver then serves the group itself, from the CRDs
	}
	if err != nil {
		return "", "", fmt.Errorf("APIService %s: %w", name, err)
	}
	named, has, _ := unstructured.NestedMap(apiService.Object, "spec", "service")
	switch {
	case !has || named == nil:
		return servedByCRDs, "", nil
	case named["namespace"] == target.Namespace && named["name"] == target.Name:
		return servedByServer, "", nil
	}
	return servedByOther, fmt.Sprintf("%s/%s", named["namespace"], named["name"]), nil
}

// routeToServer makes kube-apiserver forward requests for the group to metal3-apiserver,
// and waits until it does so. The APIService is changed in place: if it were deleted and
// created again, requests would fail in between.
func (a aggregator) routeToServer(ctx context.Context, target Target) error {
	spec := map[string]any{
		"group": v1alpha1.GroupName, "version": storedVersion,
		"groupPriorityMinimum": int64(groupPriority), "versionPriority": int64(versionPriority),
		"service": map[string]any{"namespace": target.Namespace, "name": target.Name, "port": int64(target.Port)},
	}
	if len(target.CA) > 0 {
		spec["caBundle"] = base64.StdEncoding.EncodeToString(target.CA)
	}
	if err := a.setAPIService(ctx, spec); err != nil {
		return err
	}
	return a.waitRouted(ctx, true)
}

// routeToCRDs gives the group back to the CRDs, and waits until they answer and
// kube-apiserver manages their APIService. The CRDs must already be served: as soon as
// there is no APIService, kube-apiserver serves the group from them. The APIService is
// deleted rather than changed in place, because kube-apiserver would otherwise continue
// to show clients, in aggregated discovery, what metal3-apiserver last reported, and the
// garbage collector would no longer find the kinds of the group.
func (a aggregator) routeToCRDs(ctx context.Context, target Target) error {
	resource := a.dynamic.Resource(apiServiceResource)
	by, service, err := a.servedBy(ctx, target)
	if err != nil {
		return err
	}
	switch by {
	case servedByOther:
		return fmt.Errorf("APIService %s names the Service %s", apiServiceName, service)
	case servedByServer:
		if err := resource.Delete(ctx, apiServiceName, metav1.DeleteOptions{}); ignoreNotFound(err) != nil {
			return fmt.Errorf("APIService %s: %w", apiServiceName, err)
		}
	}
	err = poll(ctx, time.Minute, func(ctx context.Context) error {
		_, err := resource.Get(ctx, apiServiceName, metav1.GetOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("kube-apiserver has not created the APIService for the CRDs: %w", err)
	}
	return a.waitRouted(ctx, false)
}

// removeIronicGroup deletes the APIService of the group that only metal3-apiserver serves. Once it is stopped for good, kube-apiserver
// would find that group unavailable, and delete no namespace of the cluster any more.
func (a aggregator) removeIronicGroup(ctx context.Context, target Target) (removed bool, err error) {
	if by, _, err := a.servedAs(ctx, ironicAPIServiceName, target); err != nil || by != servedByServer {
		return false, err
	}
	if err := a.dynamic.Resource(apiServiceResource).Delete(ctx, ironicAPIServiceName, metav1.DeleteOptions{}); ignoreNotFound(err) != nil {
		return false, fmt.Errorf("APIService %s: %w", ironicAPIServiceName, err)
	}
	return true, nil
}

// setAPIService replaces the spec of the APIService. It also removes the label that
// makes kube-apiserver reset the APIService to the one of the CRDs.
func (a aggregator) setAPIService(ctx context.Context, spec map[string]any) error {
	resource := a.dynamic.Resource(apiServiceResource)
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		apiService, err := resource.Get(ctx, apiServiceName, metav1.GetOptions{})
		missing := apierrors.IsNotFound(err)
		if missing {
			apiService, err = &unstructured.Unstructured{Object: map[string]any{}}, nil
			apiService.SetGroupVersionKind(apiServiceResource.GroupVersion().WithKind("APIService"))
			apiService.SetName(apiServiceName)
		}
		if err != nil {
			return err
		}
		labels := apiService.GetLabels()
		delete(labels, automanagedLabel)
		apiService.SetLabels(labels)
		apiService.Object["spec"] = spec
		if missing {
			_, err = resource.Create(ctx, apiService, metav1.CreateOptions{FieldManager: fieldManager})
		} else {
			_, err = resource.Update(ctx, apiService, metav1.UpdateOptions{FieldManager: fieldManager})
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("APIService %s: %w", apiServiceName, err)
	}
	return nil
}

// waitRouted waits until kube-apiserver routes requests to metal3-apiserver, or else to
// the CRDs. metal3-apiserver is recognised by a subresource that no CRD has. If it is not
// running yet, kube-apiserver answers that the service is unavailable.
func (a aggregator) waitRouted(ctx context.Context, toOurs bool) error {
	return poll(ctx, time.Minute, func(ctx context.Context) error {
		isOurs, err := a.isServerAnswering(ctx)
		switch {
		case toOurs && (isOurs || apierrors.IsServiceUnavailable(err)):
			return nil
		case !toOurs && err == nil && !isOurs:
			return nil
		case err != nil:
			return err
		}
		return errors.New("kube-apiserver does not follow the APIService yet")
	})
}

// isServerAnswering reports whether it is metal3-apiserver that serves the group.
func (a aggregator) isServerAnswering(ctx context.Context) (isOurs bool, err error) {
	body, err := a.discovery.RESTClient().Get().AbsPath("/apis", v1alpha1.GroupName, storedVersion).Do(ctx).Raw()
	return strings.Contains(string(body), `"baremetalhosts/power"`), err
}

// waitAvailable waits until metal3-apiserver answers through kube-apiserver.
func (a aggregator) waitAvailable(ctx context.Context, limit time.Duration) error {
	return poll(ctx, limit, func(ctx context.Context) error {
		isOurs, err := a.isServerAnswering(ctx)
		if err == nil && !isOurs {
			err = errors.New("the answer is not from metal3-apiserver")
		}
		return err
	})
}
