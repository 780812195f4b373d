// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// object is an object of a manifest.
type object struct {
	node             *yaml.Node
	apiVersion, kind string
}

// isManifest reports whether a document is an object of Kubernetes, or an array of them, such as jq makes of the items of a list.
func isManifest(root *yaml.Node) bool {
	if isList(root) && len(root.Content) > 0 {
		root = resolved(root.Content[0])
	}
	return wordAt(root, "apiVersion") != "" && wordAt(root, "kind") != ""
}

// objectsOf returns an object, or those of a list or an array. In the lists of an API, the items have no kind of their own.
func objectsOf(root *yaml.Node) (objects []object) {
	if isList(root) {
		for _, item := range root.Content {
			if item = resolved(item); isList(item) { // which may be the array itself
				objects = append(objects, object{node: item})
				continue
			}
			objects = append(objects, objectsOf(item)...)
		}
		return objects
	}
	apiVersion, kind := wordAt(root, "apiVersion"), wordAt(root, "kind")
	items := child(root, "items")
	itemKind, isListKind := strings.CutSuffix(kind, "List")
	if !isListKind || !isList(items) {
		return []object{{root, apiVersion, kind}}
	}
	for _, item := range items.Content {
		item = resolved(item)
		objects = append(objects, object{item, cmp.Or(wordAt(item, "apiVersion"), apiVersion), cmp.Or(wordAt(item, "kind"), itemKind)})
	}
	return objects
}

func (o object) isHost() bool {
	return o.kind == "BareMetalHost" && strings.HasPrefix(o.apiVersion, metal3.GroupName+"/")
}

func (o object) isSecret() bool { return o.kind == "Secret" && o.apiVersion == "v1" }

// name is for messages.
func (o object) name() string {
	return strings.TrimSpace(o.kind + " " + wordAt(o.node, "metadata", "name"))
}

// readManifest reads BareMetalHosts and the Secrets that they name. namespace is that of objects without one.
func readManifest(roots []*yaml.Node, namespace string) (entries []Entry, mistakes []*LineError, err error) {
	var objects []object
	for _, root := range roots {
		objects = append(objects, objectsOf(root)...)
	}
	if !slices.ContainsFunc(objects, object.isHost) {
		return nil, nil, fmt.Errorf("this has Kubernetes objects (%s), and no BareMetalHost: kubectl apply -f is for them", kindsOf(objects))
	}
	secrets := secretsIn{}
	for _, o := range objects {
		if o.isSecret() {
			secrets.add(o, namespace)
		}
	}
	for _, o := range objects {
		switch {
		case o.isSecret():
		case o.kind == "" || o.apiVersion == "":
			mistakes = append(mistakes, &LineError{Line: o.node.Line, Name: wordAt(o.node, "metadata", "name"), Err: errors.New("it has no kind or no apiVersion, which every object of Kubernetes has")})
		case !o.isHost():
			mistakes = append(mistakes, &LineError{Line: o.node.Line, Err: fmt.Errorf("%s is left out, because this command creates hosts only: kubectl apply -f creates it", o.name()), IsOther: true})
		default:
			entry, err := readHost(o, namespace)
			if err = join(err, secrets.give(&entry)); err != nil {
				mistakes = append(mistakes, &LineError{Line: entry.Line, Name: entry.Name, Err: err})
				continue
			}
			entries = append(entries, entry)
		}
	}
	return entries, append(mistakes, secrets.unused()...), nil
}

func readHost(o object, namespace string) (Entry, error) {
	entry := Entry{Line: o.node.Line, Given: sets.New[string](), IsObject: true}
	meta, metaErr := readMetadata(o.node, namespace)
	entry.Name, entry.Namespace, entry.Labels, entry.Annotations = meta.Name, meta.Namespace, meta.Labels, meta.Annotations
	spec := child(o.node, "spec")
	entry.Given.Insert(keysOf(spec)...)
	entry.Given.Insert(keysOf(child(spec, "bmc"))...)
	var specErr error
	if !isNull(spec) {
		specErr = within("spec", toStruct(&entry.Spec)(spec))
	}
	return entry, join(metaErr, specErr)
}

func keysOf(node *yaml.Node) (keys []string) {
	for i := 0; isMap(node) && i+1 < len(node.Content); i += 2 {
		keys = append(keys, node.Content[i].Value)
	}
	return keys
}

// readMetadata reads what the user has chosen. The rest, as in the output of kubectl get -o yaml, is the server's.
func readMetadata(node *yaml.Node, namespace string) (meta metav1.ObjectMeta, err error) {
	metadata := child(node, "metadata")
	if !isMap(metadata) {
		return meta, errors.New("it has no metadata")
	}
	for _, field := range []struct {
		key string
		set func(*yaml.Node) error
	}{{"name", toText(&meta.Name)}, {"namespace", toText(&meta.Namespace)}, {"labels", toMap(&meta.Labels)}, {"annotations", toMap(&meta.Annotations)}} {
		if value := child(metadata, field.key); value != nil {
			err = join(err, within("metadata."+field.key, field.set(value)))
		}
	}
	meta.Namespace = cmp.Or(meta.Namespace, namespace)
	delete(meta.Annotations, corev1.LastAppliedConfigAnnotation) // kubectl's, of what was applied before
	return meta, err
}

// kindsOf is for messages.
func kindsOf(objects []object) string {
	kinds := map[string]bool{}
	for _, o := range objects {
		kinds[cmp.Or(o.kind, "one without a kind")] = true
	}
	sorted := slices.Sorted(maps.Keys(kinds))
	if len(sorted) > 5 {
		sorted = append(sorted[:5], "...")
	}
	return strings.Join(sorted, ", ")
}
