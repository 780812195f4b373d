// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestEpochOfRecord checks that the epoch is raised whenever the record changes. Otherwise a server of the former version,
// which shares the hosts during an upgrade, would remove the fields that it does not know.
// A new epoch needs a new file: run the test with UPDATE_RECORD=1, and leave those of former epochs as they are.
func TestEpochOfRecord(t *testing.T) {
	var text strings.Builder
	describeType(&text, reflect.TypeFor[HostRecord](), "record", map[reflect.Type]bool{})
	path := filepath.Join("testdata", fmt.Sprintf("record-epoch-%d.txt", RecordEpoch))
	if os.Getenv("UPDATE_RECORD") != "" {
		if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text.String()); diff != "" {
		t.Errorf("HostRecord is not that of epoch %d: raise RecordEpoch (-epoch +now):\n%s", RecordEpoch, diff)
	}
}

// describeType writes a line for each field of a type, with its path in JSON.
func describeType(text *strings.Builder, of reflect.Type, path string, within map[reflect.Type]bool) {
	switch of.Kind() {
	case reflect.Pointer:
		describeType(text, of.Elem(), path, within)
		return
	case reflect.Slice, reflect.Array:
		describeType(text, of.Elem(), path+"[]", within)
		return
	case reflect.Map:
		describeType(text, of.Elem(), path+"{}", within)
		return
	}
	if of.Kind() != reflect.Struct || of.PkgPath() != reflect.TypeFor[HostRecord]().PkgPath() || within[of] {
		fmt.Fprintf(text, "%s %s\n", path, of)
		return
	}
	within[of] = true
	defer delete(within, of)
	for i := range of.NumField() {
		field := of.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "-" {
			continue // not stored
		}
		if !field.Anonymous {
			name = path + "." + name
		} else {
			name = path
		}
		describeType(text, field.Type, name, within)
	}
}
