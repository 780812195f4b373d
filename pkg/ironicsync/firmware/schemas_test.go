// SPDX-License-Identifier: Apache-2.0

package firmware

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
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

// TestUnnamedSchemasGo: what a BMC says in a status that is refused, or that somebody writes meanwhile, leaves no schemas behind either, and
// takes none away that the status goes on naming.
func TestUnnamedSchemasGo(t *testing.T) {
	for name, test := range map[string]struct {
		value ironic.Text
		write bool
	}{
		"a status that is too large":                                  {value: ironic.Text(strings.Repeat("x", 600<<10))},
		"a status that is too large, and a spec that somebody writes": {value: ironic.Text(strings.Repeat("x", 600<<10)), write: true},
		"a spec that somebody writes":                                 {value: "on", write: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet("a")
			f.ensure(t, "a")
			for i := range 5 {
				f.moved("a")
				tell := func(setting string) {
					f.ironic.more = []ironic.BIOSSetting{{Name: fmt.Sprint(setting, i), Value: test.value, AttributeType: "String"}}
				}
				tell("Setting")
				if test.write {
					f.settings.race = func() {
						settings, err := f.settings.Get(t.Context(), "n", "a")
						if err != nil {
							t.Fatal(err)
						}
						f.settings.put(settings)
						tell("Other")
					}
				}
				unread := new(unreadError)
				if _, err := f.Settings.Ensure(t.Context(), f.hosts["a"]); err != nil && !errors.As(err, &unread) {
					t.Fatal(err)
				}
				settings, err := f.settings.Get(t.Context(), "n", "a")
				if err != nil {
					t.Fatal(err)
				}
				if names := slices.Sorted(maps.Keys(f.schemas.stored)); !slices.Equal(names, []string{"n/" + settings.Status.FirmwareSchema.Name}) {
					t.Fatalf("there are the schemas %q, and the status names %s", names, settings.Status.FirmwareSchema.Name)
				}
			}
		})
	}
}

// TestSchemaOfNewOwnerStays: a host that comes to use a schema while its last owner leaves it keeps it.
func TestSchemaOfNewOwnerStays(t *testing.T) {
	f := newFleet("a", "b")
	shared := f.ensure(t, "a").Status.FirmwareSchema.Name
	f.moved("a")
	latest := f.ironic.more
	f.ironic.more = []ironic.BIOSSetting{{Name: "Setting", Value: "on", AttributeType: "String"}}
	f.settings.race = func() { // the new schema is written, and the status comes next
		f.schemas.race = func() {
			f.ironic.more = latest
			f.ensure(t, "b")
		}
	}
	f.ensure(t, "a")
	schema, err := f.schemas.Get(t.Context(), "n", shared)
	if err != nil || len(schema.OwnerReferences) != 1 || schema.OwnerReferences[0].Name != "b" {
		t.Errorf("the schema is %+v, %v", schema, err)
	}
}

// TestSchemasOfOneModelDiffer: of two machines of a model, different settings are read-only. Each has its own schema, although the operator's
// rule gives both one name.
func TestSchemasOfOneModelDiffer(t *testing.T) {
	f := newFleet("a", "b", "c")
	readOnly := func(first, second bool) {
		f.ironic.more = []ironic.BIOSSetting{{Name: "X", Value: "1", AttributeType: "String", ReadOnly: &first}, {Name: "Y", Value: "1", AttributeType: "String", ReadOnly: &second}}
	}
	readOnly(true, false)
	f.ensure(t, "a")
	readOnly(false, true)
	f.ensure(t, "b")
	f.ensure(t, "c")
	schemas := map[string]bool{}
	for host, want := range map[string]bool{"a": true, "b": false, "c": false} {
		settings, err := f.settings.Get(t.Context(), "n", host)
		if err != nil {
			t.Fatal(err)
		}
		schema, err := f.Settings.SchemaOf(t.Context(), settings)
		if err != nil || *schema.Spec.Schema["X"].ReadOnly != want {
			t.Errorf("%s: X is read-only: %t, want %t; %v", host, !want, want, err)
		}
		schemas[schema.Name] = true
	}
	if len(schemas) != 2 {
		t.Errorf("the schemas are %v", schemas)
	}
}

// TestFormerTermsSchemasGo: what a server that was killed, or an older version, has left goes in the next term.
func TestFormerTermsSchemasGo(t *testing.T) {
	f := newFleet("a", "b", "gone")
	shared := f.ensure(t, "a").Status.FirmwareSchema.Name
	f.ensure(t, "b")
	f.ensure(t, "gone")
	delete(f.settings.stored, "n/gone") // the garbage collector judges what it owns
	for i, owners := range [][]string{{"a"}, {"a", "b"}, {"gone"}, {"a", "gone"}, nil} {
		left := &metal3.FirmwareSchema{Spec: metal3.FirmwareSchemaSpec{Schema: map[string]metal3.SettingSchema{}}}
		left.Namespace, left.Name = "n", fmt.Sprint("left-", i)
		for _, name := range owners {
			owner := &metal3.HostFirmwareSettings{}
			owner.Name, owner.UID = name, types.UID("uid-"+name)
			left.OwnerReferences = append(left.OwnerReferences, metal3.NewOwnerReference("HostFirmwareSettings", owner))
		}
		f.schemas.put(left)
	}
	f.schemas.put(&metal3.FirmwareSchema{ObjectMeta: metav1.ObjectMeta{
		Namespace: "n", Name: "invalid", OwnerReferences: f.schemas.stored["n/left-1"].OwnerReferences,
	}}) // of a version that knew other rules
	if err := f.Settings.leaveUnnamed(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for name, schema := range f.schemas.stored {
		got[name] = len(schema.OwnerReferences)
	}
	want := map[string]int{"n/" + shared: 3, "n/left-2": 1, "n/left-3": 1, "n/left-4": 0, "n/invalid": 2}
	if !maps.Equal(got, want) {
		t.Errorf("the owners of the schemas are %v, want %v", got, want)
	}
}
