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
	"k8s.io/client-go/util/retry"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

var apiServiceResource = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}

const (
	// automanaged has kube-apiserver keep an APIService as the CRDs want it.
	automanaged = "kube-aggregator.kubernetes.io/automanaged"
	// Those of a CRD's APIService, so that short names resolve as before.
	groupPriority, versionPriority = 1000, 100
)

var apiServiceName = v1alpha1.SchemeGroupVersion.Version + "." + v1alpha1.GroupName

// Target is where kube-apiserver finds our server.
type Target struct {
	// Namespace and Name are those of its Service.
	Namespace, Name string
	Port            int32
	// CA is the certificate of the authority that has signed our server's.
	CA []byte
}

// handler is who answers for metal3.io/v1alpha1.
type handler string

const (
	byCRDs   handler = "the CRDs"
	byOurs   handler = "metal3-apiserver"
	byOthers handler = "somebody else"
)

// servedBy reads the APIService. service is what it names, if anything.
func (c *Cluster) servedBy(ctx context.Context, target Target) (by handler, service string, err error) {
	apiService, err := c.dynamic.Resource(apiServiceResource).Get(ctx, apiServiceName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return byCRDs, "", nil // kube-apiserver then asks its own, which are the CRDs
	}
	if err != nil {
		return "", "", fmt.Errorf("APIService %s: %w", apiServiceName, err)
	}
	named, has, _ := unstructured.NestedMap(apiService.Object, "spec", "service")
	switch {
	case !has || named == nil:
		return byCRDs, "", nil
	case named["namespace"] == target.Namespace && named["name"] == target.Name:
		return byOurs, "", nil
	}
	return byOthers, fmt.Sprintf("%s/%s", named["namespace"], named["name"]), nil
}

// pointTo has kube-apiserver pass the group on to our server, and waits until it
// does so. The APIService is changed in place: without one there would be a moment
// when nobody answers.
func (c *Cluster) pointTo(ctx context.Context, target Target) error {
	spec := map[string]any{
		"group": v1alpha1.GroupName, "version": ours,
		"groupPriorityMinimum": int64(groupPriority), "versionPriority": int64(versionPriority),
		"service": map[string]any{"namespace": target.Namespace, "name": target.Name, "port": int64(target.Port)},
	}
	if len(target.CA) > 0 {
		spec["caBundle"] = base64.StdEncoding.EncodeToString(target.CA)
	}
	if err := c.setAPIService(ctx, spec); err != nil {
		return err
	}
	return c.waitRouted(ctx, true)
}

// pointBack gives the group back to the CRDs, and waits until they answer and
// kube-apiserver keeps their APIService. They must be served by then: without an
// APIService, kube-apiserver asks them, and finds nothing missing. Changed in place, it
// would go on telling clients, in the list of all kinds, what our server told it last:
// the garbage collector would not find our kinds any more.
func (c *Cluster) pointBack(ctx context.Context, target Target) error {
	resource := c.dynamic.Resource(apiServiceResource)
	by, service, err := c.servedBy(ctx, target)
	if err != nil {
		return err
	}
	switch by {
	case byOthers:
		return fmt.Errorf("APIService %s names the Service %s", apiServiceName, service)
	case byOurs:
		if err := resource.Delete(ctx, apiServiceName, metav1.DeleteOptions{}); ignoreNotFound(err) != nil {
			return fmt.Errorf("APIService %s: %w", apiServiceName, err)
		}
	}
	err = poll(ctx, time.Minute, func(ctx context.Context) error {
		_, err := resource.Get(ctx, apiServiceName, metav1.GetOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("kube-apiserver has not made the APIService of the CRDs: %w", err)
	}
	return c.waitRouted(ctx, false)
}

// setAPIService makes spec that of the APIService, and takes the label off with
// which kube-apiserver would make it that of the CRDs again.
func (c *Cluster) setAPIService(ctx context.Context, spec map[string]any) error {
	resource := c.dynamic.Resource(apiServiceResource)
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
		delete(labels, automanaged)
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

// waitRouted waits until requests go to our server, or to the CRDs. Our server is
// known by a subresource that no CRD has; and where it is not up yet, kube-apiserver
// says so.
func (c *Cluster) waitRouted(ctx context.Context, toOurs bool) error {
	return poll(ctx, time.Minute, func(ctx context.Context) error {
		isOurs, err := c.answers(ctx)
		switch {
		case toOurs && (isOurs || apierrors.IsServiceUnavailable(err)):
			return nil
		case !toOurs && err == nil && !isOurs:
			return nil
		case err != nil:
			return err
		}
		return errors.New("kube-apiserver does not yet act by the APIService")
	})
}

// answers tells whether it is our server that answers for the group.
func (c *Cluster) answers(ctx context.Context) (isOurs bool, err error) {
	body, err := c.kube.Discovery().RESTClient().Get().AbsPath("/apis", v1alpha1.GroupName, ours).Do(ctx).Raw()
	return strings.Contains(string(body), `"baremetalhosts/power"`), err
}

// waitAvailable waits until our server answers through kube-apiserver.
func (c *Cluster) waitAvailable(ctx context.Context, limit time.Duration) error {
	return poll(ctx, limit, func(ctx context.Context) error {
		isOurs, err := c.answers(ctx)
		if err == nil && !isOurs {
			err = errors.New("the answer is not metal3-apiserver's")
		}
		return err
	})
}
