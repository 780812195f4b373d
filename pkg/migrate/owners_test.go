// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"bytes"
	"context"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	kubefake "k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
)

// preferring is a cluster that has these resources. The fake has none.
type preferring struct {
	kubernetes.Interface
	resources []*metav1.APIResourceList
}

func (p preferring) Discovery() discovery.DiscoveryInterfaces {
	return preferred{p.Interface.Discovery(), p.resources}
}

type preferred struct {
	discovery.DiscoveryInterfaces
	resources []*metav1.APIResourceList
}

func (p preferred) ServerPreferredResources() ([]*metav1.APIResourceList, error) {
	return p.resources, nil
}

// Before the group is given back, nothing that hosts own keeps an owner that will not exist: the garbage collector would
// delete it. What cannot be changed is an error, and stops nothing else.
func TestOwnersThatMayNotBeChanged(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{}, "x", nil)
	secrets, pods := schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	detach := func(e *Export, ctx context.Context) error { return e.detachDependents(ctx, UIDs{"old": "new"}) }
	reattach := func(e *Export, ctx context.Context) error { return e.reattachDependents(ctx, UIDs{"old": "new"}) }
	for name, test := range map[string]struct {
		do        func(*Export, context.Context) error
		forbid    func(action clienttesting.Action) bool
		err, said string
		owner     string // the UID of the owner that Secret b has at the end
	}{
		"nothing is forbidden": {do: detach, forbid: func(clienttesting.Action) bool { return false }},
		"one Secret may not be changed": {
			do: detach, forbid: func(a clienttesting.Action) bool {
				p, is := a.(clienttesting.PatchAction)
				return is && p.GetName() == "a"
			},
			err: ":\n - secrets ns/a: ",
		},
		"Secrets may not be listed": {
			do: detach, forbid: func(a clienttesting.Action) bool { return a.GetResource() == secrets && a.GetVerb() == "list" },
			err: "all secrets: there is no permission to list them", owner: "old",
		},
		"Pods may not be listed": {
			do: detach, forbid: func(a clienttesting.Action) bool { return a.GetResource() == pods && a.GetVerb() == "list" },
			said: "warning: if hosts that were created after the switch own objects of these kinds, the garbage collector deletes them: for lack of permission, they cannot be searched: pods",
		},
		"one Secret may not be given back": {
			do: reattach, forbid: func(a clienttesting.Action) bool {
				p, is := a.(clienttesting.PatchAction)
				return is && p.GetName() == "a"
			},
			err: ":\n - secrets ns/a: ", owner: "new",
		},
		"Pods may not be listed afterwards": {
			do: reattach, forbid: func(a clienttesting.Action) bool { return a.GetResource() == pods && a.GetVerb() == "list" },
			said: "for lack of permission: pods", owner: "new",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var objects []runtime.Object
			for _, name := range []string{"a", "b"} {
				obj := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
				obj.OwnerReferences = []metav1.OwnerReference{{Name: name, UID: "old"}}
				if test.owner == "new" {
					obj.OwnerReferences, obj.Annotations = nil, map[string]string{ownersAnnotation: `[{"name":"` + name + `","uid":"old"}]`}
				}
				objects = append(objects, obj)
			}
			scheme := metadatafake.NewTestScheme()
			if err := metav1.AddMetaToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			client := metadatafake.NewSimpleMetadataClient(scheme, objects...)
			client.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
				return test.forbid(action), nil, forbidden
			})
			verbs := metav1.Verbs{"list", "patch"}
			resources := []*metav1.APIResourceList{{GroupVersion: "v1", APIResources: []metav1.APIResource{
				{Name: "secrets", Namespaced: true, Verbs: verbs}, {Name: "pods", Namespaced: true, Verbs: verbs},
			}}}
			var out bytes.Buffer
			export := &Export{Report: NewReport(&out), Cluster: &Cluster{metadata: client, kube: preferring{kubefake.NewClientset(), resources}}}
			err := test.do(export, t.Context())
			if (err != nil) != (test.err != "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("%v, want %q", err, test.err)
			}
			if !strings.Contains(out.String(), test.said) || (test.said == "") == strings.Contains(out.String(), "lack of permission") {
				t.Errorf("said: %q, want %q", &out, test.said)
			}
			b, err := client.Resource(secrets).Namespace("ns").Get(t.Context(), "b", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			owner := ""
			for _, reference := range b.OwnerReferences {
				owner += string(reference.UID)
			}
			if owner != test.owner {
				t.Errorf("the owner of the other Secret is %q, want %q", owner, test.owner)
			}
		})
	}
}
