// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// comparison holds the differences between the custom resources of a kind and the store.
type comparison struct {
	kind *Kind
	// These objects are as they are in the CRDs. The missing ones are not in the store, the
	// changed ones are in the store with the same UID and other contents, and the replaced
	// ones are in the store with another UID.
	missing, changed, replaced []*Object
	// extra are the objects that are only in the store.
	extra []*Object
	// paths maps each changed object to the first field that differs.
	paths map[types.NamespacedName]string
	// actedOn is set if metal3-apiserver has recorded an observation of Ironic in any of
	// the changed objects, which means that it has acted on the stored objects.
	actedOn bool
	// equal is the number of objects that are the same.
	equal int
}

func compare(kind *Kind, source, stored Objects) *comparison {
	c := &comparison{kind: kind, paths: map[types.NamespacedName]string{}}
	for _, obj := range sortedObjects(source) {
		is := stored[obj.Key]
		switch {
		case is == nil:
			c.missing = append(c.missing, obj)
		case is.UID != obj.UID:
			c.replaced = append(c.replaced, obj)
		default:
			path := firstDifference(obj, is)
			if path == "" {
				c.equal++
				continue
			}
			c.changed, c.paths[obj.Key] = append(c.changed, obj), path
			if host, ok := is.typed.(*v1alpha1.BareMetalHost); ok && host.Status.Ironic != nil {
				c.actedOn = true
			}
		}
	}
	for _, obj := range sortedObjects(stored) {
		if source[obj.Key] == nil {
			c.extra = append(c.extra, obj)
		}
	}
	return c
}

func (c *comparison) toWrite() []*Object {
	return slices.Concat(c.missing, c.changed, c.replaced)
}

// refuseDifferences adds each difference as a reason to refuse. It is used where the store
// and the CRDs must be the same.
func (c *comparison) refuseDifferences(refuse *refusals) {
	for _, obj := range c.missing {
		refuse.add("%s is not in the store", obj)
	}
	for _, obj := range c.changed {
		refuse.add("%s differs in %s", obj, c.paths[obj.Key])
	}
	for _, obj := range c.replaced {
		refuse.add("%s has another UID in the store", obj)
	}
	for _, obj := range c.extra {
		refuse.add("%s is in the store but not in the CRDs", obj)
	}
}

// requireSame refuses to continue if the store and the CRDs differ.
func (i *Import) requireSame(all []*comparison, otherwise string) error {
	var refuse refusals
	for _, c := range all {
		c.refuseDifferences(&refuse)
	}
	if err := refuse.err(otherwise); err != nil {
		return err
	}
	i.Report.Done("all UIDs and contents are the same: %s", counts(all, func(c *comparison) int { return c.equal }))
	return nil
}

// compareAll reads the custom resources and the store, and compares them. It returns the
// custom resources by the resource name of their kind, and one comparison per kind.
func (i *Import) compareAll(ctx context.Context, defined []*Kind, store *Store) (sources map[string]Objects, all []*comparison, err error) {
	sources = map[string]Objects{}
	var refuse refusals
	for _, kind := range i.kinds {
		if slices.Contains(defined, kind) { // the cluster has no objects of kinds that have no CRD
			var unreadable refusals
			if sources[kind.Resource], unreadable, err = i.Cluster.readCustomResources(ctx, kind, storedVersion); err != nil {
				return nil, nil, err
			}
			refuse = append(refuse, unreadable...)
		}
		stored, err := store.List(ctx, kind)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, compare(kind, sources[kind.Resource], stored))
	}
	return sources, all, refuse.err(unreadableObjects)
}

func (i *Import) refuseUnknown(sources map[string]Objects) error {
	var refuse refusals
	for _, kind := range i.kinds {
		for _, obj := range sortedObjects(sources[kind.Resource]) {
			for _, path := range obj.Unknown {
				if i.DropUnknownFields {
					i.Report.Warn("%s: %s is dropped: metal3-apiserver does not know it", obj, path)
				} else {
					refuse.add("%s: %s", obj, path)
				}
			}
		}
	}
	return refuse.err("these fields are not known to metal3-apiserver and would be lost (use --drop-unknown-fields to drop them)")
}

// refuseForeign protects stored objects that are not from this cluster, or that have
// changed since they were imported.
func (i *Import) refuseForeign(all []*comparison) error {
	if i.Replace {
		return nil
	}
	var refuse refusals
	for _, c := range all {
		for _, obj := range c.replaced {
			refuse.add("%s is stored with another UID", obj)
		}
		for _, obj := range c.extra {
			refuse.add("%s is stored, but is not in the CRDs", obj)
		}
		if c.actedOn {
			for _, obj := range c.changed {
				refuse.add("%s differs in %s, and metal3-apiserver has acted on the stored object", obj, c.paths[obj.Key])
			}
		}
	}
	return refuse.err("the store of metal3-apiserver holds objects that are not from this cluster, or are newer than the CRDs: use another etcd (--etcd-prefix, --data-dir), or replace them with --replace")
}

// counts formats the numbers of all kinds that are not 0, as in "2 baremetalhosts, 1 hardwaredata".
func counts(all []*comparison, number func(*comparison) int) string {
	text := ""
	for _, c := range all {
		if n := number(c); n > 0 {
			if text != "" {
				text += ", "
			}
			text += fmt.Sprintf("%d %s", n, c.kind.Resource)
		}
	}
	if text == "" {
		return "none"
	}
	return text
}
