// SPDX-License-Identifier: Apache-2.0

// Package crds has a cluster serve metal3.io from CustomResourceDefinitions, as the Bare Metal Operator's manifests do.
package crds

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/openapi"
	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/migrate"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

type object = map[string]any

// Resource is that of the CustomResourceDefinitions.
var Resource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// modelPrefix is that of our types' names in OpenAPI.
const modelPrefix = "io.metal3.v1alpha1."

// unknownToOperator are the fields of a status that the operator's definitions do not have, by kind.
var unknownToOperator = map[string][]string{
	"BareMetalHost": {"ironic", "record"}, "HostFirmwareComponents": {"preparedAt", "source"}, "HostFirmwareSettings": {"source"},
}

// definition is a structural CustomResourceDefinition made from our own description of a
// kind, without what the operator's does not have.
func definition(kind *migrate.Kind) *unstructured.Unstructured {
	const prefix = "#/definitions/"
	definitions := openapi.GetOpenAPIDefinitions(func(name string) spec.Ref { return spec.MustCreateRef(prefix + name) })
	top := structural(definitions, prefix, definitions[modelPrefix+kind.Kind].Schema)
	properties := top["properties"].(object)
	properties["metadata"] = object{"type": "object"}
	for _, name := range unknownToOperator[kind.Kind] {
		delete(properties["status"].(object)["properties"].(object), name)
	}
	singular := strings.ToLower(kind.Kind)
	version := object{
		"name": "v1alpha1", "served": true, "storage": true,
		"schema": object{"openAPIV3Schema": top},
	}
	if kind.HasStatus {
		version["subresources"] = object{"status": object{}}
	}
	scope := "Namespaced"
	if kind.ClusterScoped {
		scope = "Cluster"
	}
	return &unstructured.Unstructured{Object: object{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": object{"name": kind.CRD()},
		"spec": object{
			"group": v1alpha1.GroupName, "scope": scope,
			"names":    object{"plural": kind.Resource, "singular": singular, "kind": kind.Kind, "listKind": kind.Kind + "List"},
			"versions": []any{version},
		},
	}}
}

// structural is a schema with everything in its place, as CRDs want it.
func structural(definitions map[string]common.OpenAPIDefinition, prefix string, in spec.Schema) object {
	if ref := in.Ref.String(); ref != "" {
		return structural(definitions, prefix, definitions[strings.TrimPrefix(ref, prefix)].Schema)
	}
	if len(in.AllOf) == 1 {
		return structural(definitions, prefix, in.AllOf[0])
	}
	out := object{}
	if in.Format == "int-or-string" || len(in.Type) == 0 {
		return object{"x-kubernetes-int-or-string": true}
	}
	out["type"] = in.Type[0]
	switch in.Type[0] {
	case "object":
		if len(in.Properties) > 0 {
			properties := object{}
			for name := range in.Properties {
				properties[name] = structural(definitions, prefix, in.Properties[name])
			}
			out["properties"] = properties
			var required []any
			for _, name := range in.Required {
				required = append(required, name)
			}
			if len(required) > 0 {
				out["required"] = required
			}
		} else if in.AdditionalProperties != nil && in.AdditionalProperties.Schema != nil {
			out["additionalProperties"] = structural(definitions, prefix, *in.AdditionalProperties.Schema)
		} else {
			out["x-kubernetes-preserve-unknown-fields"] = true
		}
	case "array":
		out["items"], out["nullable"] = structural(definitions, prefix, *in.Items.Schema), true
	default:
		if in.Format != "" {
			out["format"] = in.Format
			out["nullable"] = in.Format == "date-time"
		}
		if value, ok := in.Default.(string); ok && value != "" {
			out["default"] = value
		}
		if len(in.Enum) > 0 {
			out["enum"] = in.Enum
		}
	}
	return out
}

// Create creates the CRDs of kinds, and waits until kube-apiserver serves them.
func Create(ctx context.Context, client dynamic.Interface, kinds []*migrate.Kind) error {
	for _, kind := range kinds {
		if _, err := client.Resource(Resource).Create(ctx, definition(kind), metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("CRD %s: %w", kind.CRD(), err)
		}
	}
	deadline := time.Now().Add(testbed.Patience)
	for {
		var missing []error
		for _, kind := range kinds {
			_, err := client.Resource(v1alpha1.SchemeGroupVersion.WithResource(kind.Resource)).List(ctx, metav1.ListOptions{Limit: 1})
			missing = append(missing, err)
		}
		err := errors.Join(missing...)
		if err == nil || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}
