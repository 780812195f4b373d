// SPDX-License-Identifier: Apache-2.0

package firmware

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// TestManyHostsShareASchema: the owners of a schema are bounded, and a schema that was deleted while
// it is used is created again.
func TestManyHostsShareASchema(t *testing.T) {
	var names []string
	for i := range maxOwners + 10 {
		names = append(names, fmt.Sprintf("host-%d", i))
	}
	f := newFleet(names...)
	for _, name := range names {
		f.ensure(t, name)
	}
	if len(f.schemas.stored) != 1 {
		t.Fatalf("%d schemas", len(f.schemas.stored))
	}
	for _, schema := range f.schemas.stored {
		if len(schema.OwnerReferences) != maxOwners {
			t.Errorf("%d owners", len(schema.OwnerReferences))
		}
	}
	clear(f.schemas.stored)
	if err := f.RefreshSettings(t.Context(), "n", names[0]); err != nil || len(f.schemas.stored) != 1 {
		t.Errorf("%d schemas, %v", len(f.schemas.stored), err)
	}
}

// TestSchemaCreatedByOthers: two hosts of a model create their schema at the same time. Ironic is not asked again for that.
func TestSchemaCreatedByOthers(t *testing.T) {
	f := newFleet("a", "b")
	f.schemas.race = func() { f.ensure(t, "b") }
	f.ensure(t, "a")
	if len(f.schemas.stored) != 1 {
		t.Errorf("there are %d schemas", len(f.schemas.stored))
	}
	if asked := f.ironic.asked; len(asked) != 2 || asked["node-a"] != 1 || asked["node-b"] != 1 {
		t.Errorf("asked for %v", asked)
	}
	for name, schema := range f.schemas.stored {
		if len(schema.OwnerReferences) != 2 {
			t.Errorf("%s has the owners %v", name, schema.OwnerReferences)
		}
	}
}

// TestFormerSchemasGo: a BMC that tells other settings at each look leaves no schemas behind, and one that another host uses stays.
func TestFormerSchemasGo(t *testing.T) {
	f := newFleet("a", "b")
	shared := f.ensure(t, "a").Status.FirmwareSchema.Name
	f.ensure(t, "b")
	for i := range 5 {
		f.moved("a")
		f.ironic.more = []ironic.BIOSSetting{{Name: fmt.Sprint("Setting", i), Value: "on", AttributeType: "String"}}
		f.ensure(t, "a")
	}
	names := slices.Sorted(maps.Keys(f.schemas.stored))
	own := f.ensure(t, "a").Status.FirmwareSchema.Name
	if len(names) != 2 || !slices.Contains(names, "n/"+shared) || !slices.Contains(names, "n/"+own) {
		t.Errorf("there are the schemas %q; those of the hosts are %s and %s", names, own, shared)
	}
	if owners := f.schemas.stored["n/"+shared].OwnerReferences; len(owners) != 1 || owners[0].Name != "b" {
		t.Errorf("the shared schema has the owners %+v", owners)
	}
	f.moved("b")
	f.ensure(t, "b")
	if len(f.schemas.stored) != 1 {
		t.Errorf("there are the schemas %q, and one is used", slices.Sorted(maps.Keys(f.schemas.stored)))
	}
}
