// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	ironic "github.com/metal3-io/metal3-apiserver/pkg/apis/ironic/v1alpha1"
)

// listIronicObjects lists the objects of a resource of the group ironic.metal3-apiserver.io.
func (c *clients) listIronicObjects(ctx context.Context, resource schema.GroupVersionResource) (*unstructured.UnstructuredList, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	list, err := c.dynamic.Resource(resource).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("the server does not serve %s: it is too old, or the APIService %s.%s is missing", resource.Resource, ironic.SchemeGroupVersion.Version, ironic.GroupName)
	}
	return list, err
}

// itemsOf returns the objects of a list with their type.
func itemsOf[T any](list *unstructured.UnstructuredList) ([]T, error) {
	items := make([]T, len(list.Items))
	for i := range list.Items {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &items[i]); err != nil {
			return nil, err
		}
	}
	return items, nil
}

// listPrinter returns what prints a list as -o asks for, or nil without -o.
func (s *session) listPrinter(print *genericclioptions.PrintFlags) (func(*unstructured.UnstructuredList) error, error) {
	format := *print.OutputFormat
	if format == "" {
		return nil, nil
	}
	printer, err := print.ToPrinter()
	if err != nil {
		return nil, err
	}
	return func(list *unstructured.UnstructuredList) error { return printer.PrintObj(list, s.objects(format)) }, nil
}
