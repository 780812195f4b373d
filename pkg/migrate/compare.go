package migrate

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// comparison is what tells our store from the custom resources of a kind.
type comparison struct {
	kind *Kind
	// missing are not in our store, changed are there with the same UID and another
	// content, replaced with another UID. All are as the CRDs have them.
	missing, changed, replaced []*Object
	// extra are in our store alone.
	extra []*Object
	// paths are where those that changed differ first.
	paths map[types.NamespacedName]string
	// served is set where our server has recorded what Ironic says: it was at work
	// on what is stored.
	served bool
	// equal is how many are the same.
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
			path := difference(obj, is)
			if path == "" {
				c.equal++
				continue
			}
			c.changed, c.paths[obj.Key] = append(c.changed, obj), path
			if host, ok := is.typed.(*v1alpha1.BareMetalHost); ok && host.Status.Ironic != nil {
				c.served = true
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
	return append(append(append([]*Object(nil), c.missing...), c.changed...), c.replaced...)
}

// differences are told when both were to be the same.
func (c *comparison) differences(refuse *refusals) {
	for _, obj := range c.missing {
		refuse.add("%s is not in our store", obj)
	}
	for _, obj := range c.changed {
		refuse.add("%s differs in %s", obj, c.paths[obj.Key])
	}
	for _, obj := range c.replaced {
		refuse.add("%s has another UID in our store", obj)
	}
	for _, obj := range c.extra {
		refuse.add("%s is in our store and not in the CRDs", obj)
	}
}

// compareAll reads the custom resources and our store. What our types do not know is
// a difference too, unless it is to be dropped.
func (i *Import) compareAll(ctx context.Context, kinds []*Kind, version string, store *Store) (map[string]Objects, []*comparison, error) {
	sources := map[string]Objects{}
	var all []*comparison
	for _, kind := range kinds {
		source, err := i.Cluster.customResources(ctx, kind, version)
		if err != nil {
			return nil, nil, err
		}
		stored, err := store.List(ctx, kind)
		if err != nil {
			return nil, nil, err
		}
		sources[kind.Resource] = source
		all = append(all, compare(kind, source, stored))
	}
	// Kinds without CRD have no objects in the cluster.
	for _, kind := range i.kinds {
		if sources[kind.Resource] != nil {
			continue
		}
		stored, err := store.List(ctx, kind)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, compare(kind, nil, stored))
	}
	return sources, all, nil
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
	return refuse.err("these fields are not known to metal3-apiserver and would be lost (--drop-unknown-fields loses them)")
}

// refuseForeign keeps what is in our store and is not from this cluster, or not as
// it was imported.
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
			refuse.add("%s is stored, and the CRDs do not have it", obj)
		}
		if c.served {
			for _, obj := range c.changed {
				refuse.add("%s differs in %s, and metal3-apiserver has driven what is stored", obj, c.paths[obj.Key])
			}
		}
	}
	return refuse.err("our store holds what is not this cluster's, or is newer than the CRDs: name another etcd (--etcd-prefix, --data-dir), or have it replaced with --replace")
}

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
