// SPDX-License-Identifier: Apache-2.0

package consumers

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/pager"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// machineKind is the kind that stands for a Node, both in Cluster API and in OpenShift.
const machineKind = "Machine"

// manyNamespaces is from how many namespaces on a kind is listed in all of them at once.
const manyNamespaces = 5

// Consumer is what stands behind the consumer of a host.
type Consumer struct {
	Machine, Node string
}

// key identifies an object. The version is not part of it: a host refers to its consumer in the
// version in which it was written.
type key struct {
	kind            schema.GroupKind
	namespace, name string
}

// Resolver finds Machines and Nodes. It lists each kind once for a fleet, and asks no more
// for kinds that do not exist or that the user may not read.
type Resolver struct {
	client  dynamic.Interface
	objects map[key]*unstructured.Unstructured
	listed  map[list]bool
}

// list is a kind in a namespace, "" for all namespaces.
type list struct {
	kind      schema.GroupVersionKind
	namespace string
}

// Resolve returns the consumers of hosts, by their UIDs. A consumer that cannot be read has
// neither Machine nor Node: to show hosts, nobody needs rights to Machines.
func Resolve(ctx context.Context, client dynamic.Interface, hosts []*metal3.BareMetalHost) map[string]Consumer {
	r := &Resolver{client: client, objects: map[key]*unstructured.Unstructured{}, listed: map[list]bool{}}
	refs := map[string]corev1.ObjectReference{}
	for _, host := range hosts {
		if ref := host.Spec.ConsumerRef; ref != nil && ref.Name != "" && ref.Kind != "" {
			full := *ref
			if full.Namespace == "" {
				full.Namespace = host.Namespace
			}
			refs[string(host.UID)] = full
		}
	}
	r.listAll(ctx, refs)
	// Cluster API: the Metal3Machine is owned by the Machine. OpenShift: the consumer is the Machine.
	machines := map[string]corev1.ObjectReference{}
	for uid, ref := range refs {
		if ref.Kind == machineKind {
			machines[uid] = ref
		} else if machine, ok := machineOf(r.get(ref)); ok {
			machines[uid] = machine
		}
	}
	r.listAll(ctx, machines)

	consumers := map[string]Consumer{}
	for uid, machine := range machines {
		consumers[uid] = Consumer{Machine: machine.Name, Node: nodeOf(r.get(machine))}
	}
	return consumers
}

// machineOf returns the Machine that owns an object, which may be nil.
func machineOf(object *unstructured.Unstructured) (corev1.ObjectReference, bool) {
	if object == nil {
		return corev1.ObjectReference{}, false
	}
	for _, owner := range object.GetOwnerReferences() {
		if owner.Kind == machineKind {
			return corev1.ObjectReference{APIVersion: owner.APIVersion, Kind: owner.Kind, Namespace: object.GetNamespace(), Name: owner.Name}, true
		}
	}
	return corev1.ObjectReference{}, false
}

func nodeOf(machine *unstructured.Unstructured) string {
	if machine == nil {
		return ""
	}
	name, _, _ := unstructured.NestedString(machine.Object, "status", "nodeRef", "name")
	return name
}

func keyOf(ref corev1.ObjectReference) key {
	return key{ref.GroupVersionKind().GroupKind(), ref.Namespace, ref.Name}
}

func (r *Resolver) get(ref corev1.ObjectReference) *unstructured.Unstructured {
	return r.objects[keyOf(ref)]
}

// canBeRead reports whether a reference, which anybody has written who may write hosts, is to be followed
// with the rights of whoever runs the plugin. The kind becomes part of a path: with slashes in it, it
// would be that of any GET, also of one through a proxy that does something. No consumer is of the core
// group, which has the Secrets.
func canBeRead(ref corev1.ObjectReference) bool {
	kind := ref.GroupVersionKind()
	return len(validation.IsDNS1123Subdomain(kind.Group)) == 0 && len(validation.IsDNS1035Label(kind.Version)) == 0 &&
		len(validation.IsDNS1035Label(strings.ToLower(kind.Kind))) == 0 && len(validation.IsDNS1123Label(ref.Namespace)) == 0
}

// listAll lists the kinds of the references, in their namespaces.
func (r *Resolver) listAll(ctx context.Context, refs map[string]corev1.ObjectReference) {
	namespaces := map[schema.GroupVersionKind]map[string]bool{}
	for _, ref := range refs {
		if !canBeRead(ref) {
			continue
		}
		kind := ref.GroupVersionKind()
		if namespaces[kind] == nil {
			namespaces[kind] = map[string]bool{}
		}
		namespaces[kind][ref.Namespace] = true
	}
	for kind, in := range namespaces {
		if len(in) >= manyNamespaces {
			if r.list(ctx, list{kind, metav1.NamespaceAll}) {
				continue
			}
		}
		for namespace := range in {
			r.list(ctx, list{kind, namespace})
		}
	}
}

// list lists a kind, and reports whether it could.
func (r *Resolver) list(ctx context.Context, l list) bool {
	if r.listed[l] {
		return true
	}
	r.listed[l] = true
	// The kinds in question have regular plurals, so discovery is not needed.
	resource, _ := meta.UnsafeGuessKindToResource(l.kind)
	p := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return r.client.Resource(resource).Namespace(l.namespace).List(ctx, options)
	})
	err := p.EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
		if u, ok := object.(*unstructured.Unstructured); ok {
			r.objects[key{l.kind.GroupKind(), u.GetNamespace(), u.GetName()}] = u
		}
		return nil
	})
	return err == nil
}
