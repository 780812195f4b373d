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
	"k8s.io/cli-runtime/pkg/printers"

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

// listOrPrint lists the objects of a resource of the group ironic.metal3-apiserver.io. It prints them if -o asks for that, and
// returns them with their type otherwise.
func listOrPrint[T any](ctx context.Context, s *session, resource schema.GroupVersionResource, print *genericclioptions.PrintFlags) (items []T, isPrinted bool, err error) {
	var printer printers.ResourcePrinter
	format := *print.OutputFormat
	if format != "" {
		if printer, err = print.ToPrinter(); err != nil {
			return nil, false, err
		}
	}
	c, _, err := s.connect()
	if err != nil {
		return nil, false, err
	}
	list, err := c.listIronicObjects(ctx, resource)
	if err != nil {
		return nil, false, err
	}
	if printer != nil {
		return nil, true, printer.PrintObj(list, s.objects(format))
	}
	items, err = itemsOf[T](list)
	return items, false, err
}
