// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/util"
	"k8s.io/kube-openapi/pkg/validation/spec"

	generated "github.com/metal3-io/metal3-apiserver/pkg/generated/openapi"
)

// GetOpenAPIDefinitions returns the OpenAPI definitions by model name.
func GetOpenAPIDefinitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	definitions := generated.GetOpenAPIDefinitions(func(name string) spec.Ref {
		return ref(modelName(name))
	})
	for _, definition := range definitions {
		for i, name := range definition.Dependencies {
			definition.Dependencies[i] = modelName(name)
		}
	}
	maps.Copy(definitions, coreDefinitions(ref))
	return definitions
}

// modelName converts the Go name of a type into its OpenAPI name. For types of packages that
// it does not process, the generator uses the Go name: k8s.io/api/core/v1.Taint is published
// as io.k8s.api.core.v1.Taint.
func modelName(name string) string {
	if strings.Contains(name, "/") {
		return util.ToRESTFriendlyName(name)
	}
	return name
}

func coreDefinitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	// SwaggerDoc has the description of the type, under the key "", and those of its fields.
	reference := stringFields(corev1.ObjectReference{}.SwaggerDoc(),
		"kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
	// Server-side apply must replace a reference as a whole.
	reference.AddExtension("x-kubernetes-map-type", "atomic")

	secret := stringFields(corev1.SecretReference{}.SwaggerDoc(), "name", "namespace")
	secret.AddExtension("x-kubernetes-map-type", "atomic")

	doc := corev1.Taint{}.SwaggerDoc()
	taint := stringFields(doc, "key", "value", "effect")
	taint.Required = []string{"key", "effect"}
	timeModel := metav1.Time{}.OpenAPIModelName()
	taint.Properties["timeAdded"] = spec.Schema{SchemaProps: spec.SchemaProps{
		Description: doc["timeAdded"],
		Ref:         ref(timeModel),
	}}

	return map[string]common.OpenAPIDefinition{
		corev1.ObjectReference{}.OpenAPIModelName(): {Schema: *reference},
		corev1.SecretReference{}.OpenAPIModelName(): {Schema: *secret},
		corev1.Taint{}.OpenAPIModelName():           {Schema: *taint, Dependencies: []string{timeModel}},
	}
}

// stringFields returns the schema of an object whose fields are strings.
func stringFields(doc map[string]string, fields ...string) *spec.Schema {
	schema := &spec.Schema{SchemaProps: spec.SchemaProps{
		Description: doc[""],
		Type:        []string{"object"},
		Properties:  map[string]spec.Schema{},
	}}
	for _, field := range fields {
		schema.Properties[field] = spec.Schema{SchemaProps: spec.SchemaProps{
			Description: doc[field],
			Type:        []string{"string"},
		}}
	}
	return schema
}
