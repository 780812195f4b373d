package lifecycle

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// TestUnreadPartsStayKnown makes each part of three full inventories one that cannot be read: by the ramdisk of Ironic
// 29.0, by one with all fields that ramdisks have in 39.0, and by Redfish. What was known of it remains, and the rest is
// as it was.
func TestUnreadPartsStayKnown(t *testing.T) {
	for _, file := range []string{"trixie-inventory", "inventories/supermicro-usb-nic", "inventories/redfish-idrac"} {
		var whole any
		decoder := json.NewDecoder(bytes.NewReader(readTestdata(t, file+".json")))
		decoder.UseNumber()
		if err := decoder.Decode(&whole); err != nil {
			t.Fatal(err)
		}
		before := hardwareFrom(t, whole, nil)
		parts := 0
		visit(whole, nil, nil, func(path []string, set func(any), value any) {
			if isUnidentified(path, before) {
				return
			}
			parts++
			var bad any = map[string]any{}
			if _, isObject := value.(map[string]any); isObject {
				bad = []any{}
			}
			set(bad)
			if diff := cmp.Diff(before, hardwareFrom(t, whole, before)); diff != "" {
				t.Errorf("%s: without %s (-known +is):\n%s", file, strings.Join(path, "."), diff)
			}
			set(value)
		})
		if parts < 40 {
			t.Errorf("%s: only %d parts were changed", file, parts)
		}
	}
}

// isUnidentified reports whether it is not known of what a part is if it cannot be read: of an entry of a list, and of the
// name of a disk that has no serial number. Without an inventory, there is nothing at all.
func isUnidentified(path []string, before *metal3.HardwareDetails) bool {
	last := path[len(path)-1]
	_, notAnEntry := strconv.Atoi(last)
	if len(path) == 4 && path[1] == "disks" && last == "name" {
		disk, err := strconv.Atoi(path[2])
		return err == nil && before.Storage[disk].SerialNumber == ""
	}
	return last == "inventory" || notAnEntry == nil || slices.Contains(path[:len(path)-1], "switch_port_vlans")
}

// visit calls do for each part of a JSON value with its path and a function that replaces it.
func visit(value any, path []string, set func(any), do func(path []string, set func(any), value any)) {
	if set != nil {
		do(path, set, value)
	}
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			visit(value[key], append(path, key), func(v any) { value[key] = v }, do)
		}
	case []any:
		for i := range value {
			visit(value[i], append(path, fmt.Sprint(i)), func(v any) { value[i] = v }, do)
		}
	}
}

func hardwareFrom(t *testing.T, whole any, known *metal3.HardwareDetails) *metal3.HardwareDetails {
	t.Helper()
	raw := &ironic.Inventory{}
	encoded, err := json.Marshal(whole)
	if err == nil {
		err = json.Unmarshal(encoded, raw)
	}
	if err != nil {
		t.Fatal(err)
	}
	hw, _, err := HardwareFrom(raw, known)
	if err != nil {
		t.Fatal(err)
	}
	return hw
}
