// SPDX-License-Identifier: Apache-2.0

package baremetalhost_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/baremetalhost"
	"github.com/metal3-io/metal3-apiserver/test/storetest"
)

// oneNode is an Ironic with one node, or none, that keeps the paths of patches.
type oneNode struct {
	baremetalhost.Ironic // what is not asked here

	node    *ironic.Node
	read    error
	write   error
	removed []string
}

func (o *oneNode) GetNode(ctx context.Context, _ string) (*ironic.Node, error) {
	mustBeGuarded(ctx)
	if o.read != nil {
		return nil, o.read
	}
	return o.node, nil
}

func (o *oneNode) UpdateNode(ctx context.Context, fence ironic.Fence, _ string, patches []ironic.Patch) (*ironic.Node, error) {
	mustBeGuarded(ctx)
	if err := fence.Check(); err != nil { // as the client does
		return nil, err
	}
	if o.write != nil {
		return nil, o.write
	}
	for _, p := range patches {
		o.removed = append(o.removed, string(p.Op)+" "+p.Path)
	}
	return o.node, nil
}

// TestDeletedForMove: a node is given up with the host that clusterctl has moved, and only then.
func TestDeletedForMove(t *testing.T) {
	released := []string{"remove /extra/metal3_apiserver_host", "remove /extra/metal3_apiserver_cluster"}
	forMove := func(h *metal3.BareMetalHost) {
		h.Annotations = map[string]string{metal3.DeleteForMoveAnnotation: ""}
	}
	tests := map[string]struct {
		host      func(*metal3.BareMetalHost)
		noNode    bool
		marks     func(host *metal3.BareMetalHost) ironic.Marks // by default, the host's
		ironic    oneNode
		options   metav1.DeleteOptions
		together  bool // as the contents of a namespace are deleted
		forbidden bool
		released  []string
		stays     bool
		code      func(error) bool // nil for no error
	}{
		"moved":                   {host: forMove, released: released},
		"together":                {host: forMove, together: true, released: released},
		"together, and no Ironic": {host: forMove, together: true, ironic: oneNode{read: errors.New("no route to host")}, stays: true, code: apierrors.IsServiceUnavailable},
		"no mark of a cluster": {host: forMove, marks: func(h *metal3.BareMetalHost) ironic.Marks {
			return ironic.Marks{Host: ironic.Text(h.UID)}
		}, released: released[:1]},
		"only deleted":        {host: func(*metal3.BareMetalHost) {}},
		"with a finalizer":    {host: func(h *metal3.BareMetalHost) { forMove(h); h.Finalizers = []string{metal3.BareMetalHostFinalizer} }, stays: true},
		"dry run":             {host: forMove, options: metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}, stays: true},
		"forbidden":           {host: forMove, forbidden: true, stays: true, code: apierrors.IsForbidden},
		"never registered":    {host: forMove, noNode: true, ironic: oneNode{read: errors.New("not to be asked")}},
		"a node that is gone": {host: forMove, ironic: oneNode{read: &ironic.APIError{Status: 404, Op: "GetNode"}}},
		"marked by another": {host: forMove, marks: func(*metal3.BareMetalHost) ironic.Marks {
			return ironic.Marks{Host: "another", Cluster: "cluster"}
		}},
		"no answer to the read":  {host: forMove, ironic: oneNode{read: errors.New("no route to host")}, stays: true, code: apierrors.IsServiceUnavailable},
		"no answer to the patch": {host: forMove, ironic: oneNode{write: errors.New("no route to host")}, stays: true, code: apierrors.IsServiceUnavailable},
		"a locked node":          {host: forMove, ironic: oneNode{write: &ironic.APIError{Status: 409, Op: "UpdateNode", Message: "Node is locked by host"}}, stays: true, code: apierrors.IsTooManyRequests},
	}
	eachCache(t, func(t *testing.T, store *genericregistry.Store) {
		for name, test := range tests {
			t.Run(name, func(t *testing.T) {
				asked, id := test.ironic, strings.ReplaceAll(strings.ToLower(name), " ", "-")
				id = strings.ReplaceAll(id, ",", "")
				hosts := baremetalhost.NewREST(store, newScripted(store), func(*metal3.BareMetalHost) (baremetalhost.Ironic, error) { return &asked, nil }, new(oneHost))
				host := storetest.Create(t, store, newHost(id, test.host))
				if !test.noNode {
					record(t, store, id, func(s *metal3.BareMetalHostStatus) { s.Provisioning.ID = "node" })
				}
				asked.node = &ironic.Node{UUID: "node", Marks: ironic.Marks{Host: ironic.Text(host.UID), Cluster: "cluster"}}
				if test.marks != nil {
					asked.node.Marks = test.marks(host)
				}
				var validate rest.ValidateObjectFunc = rest.ValidateAllObjectFunc
				if test.forbidden {
					validate = func(context.Context, runtime.Object) error {
						return apierrors.NewForbidden(metal3.Resource("baremetalhosts"), id, errors.New("a policy"))
					}
				}
				var err error
				if test.together {
					_, err = hosts.DeleteCollection(storetest.InNamespace(t), validate, &test.options, &metainternalversion.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", id)})
				} else {
					_, _, err = hosts.Delete(storetest.InNamespace(t), id, validate, &test.options)
				}
				if test.code == nil && err != nil || test.code != nil && !test.code(err) {
					t.Errorf("error %v", err)
				}
				if !slices.Equal(asked.removed, test.released) {
					t.Errorf("Ironic was asked to %q, want %q", asked.removed, test.released)
				}
				_, err = store.Get(storetest.InNamespace(t), id, &metav1.GetOptions{})
				if is := err == nil; is != test.stays {
					t.Errorf("the host is there: %t (%v)", is, err)
				}
			})
		}
	})
}

// TestFinalizersRemovedForMove: clusterctl removes the finalizers after it has deleted the host. Its node is given up with the
// last of them.
func TestFinalizersRemovedForMove(t *testing.T) {
	released := []string{"remove /extra/metal3_apiserver_host", "remove /extra/metal3_apiserver_cluster"}
	away := errors.New("no route to host")
	tests := map[string]struct {
		notForMove bool
		left       []string // finalizers
		notDeleted bool
		read       error // of the node
		write      error
		options    metav1.UpdateOptions
		forbidden  bool
		released   []string
		stays      bool
		code       func(error) bool // nil for no error
	}{
		"moved":         {released: released},
		"only deleted":  {notForMove: true},
		"another holds": {left: []string{"example.com/another"}, stays: true},
		"not deleted":   {notDeleted: true, stays: true},
		"dry run":       {options: metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}}, stays: true},
		"forbidden":     {forbidden: true, stays: true, code: apierrors.IsForbidden},
		"no answer":     {read: away, stays: true, code: apierrors.IsServiceUnavailable},
		"locked":        {write: &ironic.APIError{Status: 409, Op: "UpdateNode", Message: "Node is locked by host"}, stays: true, code: apierrors.IsTooManyRequests},
	}
	eachCache(t, func(t *testing.T, store *genericregistry.Store) {
		for name, test := range tests {
			t.Run(name, func(t *testing.T) {
				asked, id := oneNode{read: test.read, write: test.write}, "finalizers-"+strings.ReplaceAll(name, " ", "-")
				hosts := baremetalhost.NewREST(store, newScripted(store), func(*metal3.BareMetalHost) (baremetalhost.Ironic, error) { return &asked, nil }, new(oneHost))
				created := storetest.Create(t, store, newHost(id, func(h *metal3.BareMetalHost) {
					h.Finalizers = []string{metal3.BareMetalHostFinalizer, "example.com/another"}
					if !test.notForMove {
						h.Annotations = map[string]string{metal3.DeleteForMoveAnnotation: ""}
					}
				}))
				record(t, store, id, func(s *metal3.BareMetalHostStatus) { s.Provisioning.ID = "node" })
				asked.node = &ironic.Node{UUID: "node", Marks: ironic.Marks{Host: ironic.Text(created.UID), Cluster: "cluster"}}
				if !test.notDeleted {
					if _, _, err := hosts.Delete(storetest.InNamespace(t), id, rest.ValidateAllObjectFunc, &metav1.DeleteOptions{}); err != nil {
						t.Fatal(err)
					}
				}
				if len(asked.removed) != 0 {
					t.Errorf("the node was given up before the finalizers were removed: %q", asked.removed)
				}
				host := get(t, store, id)
				host.Finalizers = test.left
				validate := rest.ValidateAllObjectUpdateFunc
				if test.forbidden {
					validate = func(context.Context, runtime.Object, runtime.Object) error {
						return apierrors.NewForbidden(metal3.Resource("baremetalhosts"), id, errors.New("a policy"))
					}
				}
				_, _, err := hosts.Update(storetest.InNamespace(t), id, rest.DefaultUpdatedObjectInfo(host), rest.ValidateAllObjectFunc, validate, false, &test.options)
				if test.code == nil && err != nil || test.code != nil && !test.code(err) {
					t.Errorf("error %v", err)
				}
				if !slices.Equal(asked.removed, test.released) {
					t.Errorf("Ironic was asked to %q, want %q", asked.removed, test.released)
				}
				_, err = store.Get(storetest.InNamespace(t), id, &metav1.GetOptions{})
				if is := err == nil; is != test.stays {
					t.Errorf("the host is there: %t (%v)", is, err)
				}
			})
		}
	})
}

// TestFinalizersRemovedOneByOne: the node is given up with the last finalizer, and can be when an attempt has failed before.
func TestFinalizersRemovedOneByOne(t *testing.T) {
	eachCache(t, func(t *testing.T, store *genericregistry.Store) {
		asked, id := &oneNode{write: errors.New("no route to host")}, "one-by-one"
		hosts := baremetalhost.NewREST(store, newScripted(store), func(*metal3.BareMetalHost) (baremetalhost.Ironic, error) { return asked, nil }, new(oneHost))
		host := storetest.Create(t, store, newHost(id, func(h *metal3.BareMetalHost) {
			h.Finalizers = []string{metal3.BareMetalHostFinalizer, "example.com/another"}
			h.Annotations = map[string]string{metal3.DeleteForMoveAnnotation: ""}
		}))
		record(t, store, id, func(s *metal3.BareMetalHostStatus) { s.Provisioning.ID = "node" })
		asked.node = &ironic.Node{UUID: "node", Marks: ironic.Marks{Host: ironic.Text(host.UID)}}
		if _, _, err := hosts.Delete(storetest.InNamespace(t), id, rest.ValidateAllObjectFunc, &metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		leave := func(finalizers ...string) error {
			host := get(t, store, id)
			host.Finalizers = finalizers
			_, _, err := hosts.Update(storetest.InNamespace(t), id, rest.DefaultUpdatedObjectInfo(host), rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
			return err
		}
		if err := leave("example.com/another"); err != nil {
			t.Errorf("the first of two: %v", err)
		}
		if err := leave(); !apierrors.IsServiceUnavailable(err) {
			t.Errorf("the last one, while Ironic is away: %v", err)
		}
		if left := get(t, store, id).Finalizers; !slices.Equal(left, []string{"example.com/another"}) {
			t.Errorf("after that, the host has the finalizers %q", left)
		}
		asked.write = nil
		if err := leave(); err != nil || len(asked.removed) != 1 {
			t.Errorf("the last one: %v, with the requests %q", err, asked.removed)
		}
		if _, err := store.Get(storetest.InNamespace(t), id, &metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the host is there: %v", err)
		}
	})
}
