// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/validation"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"k8s.io/apimachinery/pkg/api/equality"
)

// missing stands for a part that is left out.
var missing = new(int)

// mutations are the ways in which each part of an inventory is changed.
var mutations = map[string]any{
	"missing": missing, "null": nil, "an empty text": "", "a text": "eight", "a number": 12345, "a bool": true, "a negative number": -1,
	"a huge number": json.Number("9223372036854775808"), "a fraction": 1.5, "a list": []any{}, "an object": map[string]any{},
	"a weird text": "\x00\n\x1b[2J\t\u202e\"<&" + strings.Repeat("x", 4<<10),
}

// TestHardwareFromMutated changes each part of three full inventories in each way: by the ramdisk of Ironic 29.0, by one with all
// fields that ramdisks have in 39.0, and by Redfish. That costs the part only, and nothing of what was known of it if it cannot be
// read.
func TestHardwareFromMutated(t *testing.T) {
	for _, file := range []string{"trixie-inventory", "inventories/supermicro-usb-nic", "inventories/redfish-idrac"} {
		var whole any
		decoder := json.NewDecoder(bytes.NewReader(readTestdata(t, file+".json")))
		decoder.UseNumber()
		if err := decoder.Decode(&whole); err != nil {
			t.Fatal(err)
		}
		before := hardwareFrom(t, inventoryOf(t, whole), nil).hw
		was := flattened(before, before, nil)
		parts := 0
		visit(whole, nil, nil, func(path []string, set func(any), value any) {
			isUnused := slices.Contains(path[:len(path)-1], "lldp") || slices.Contains(path[:len(path)-1], "valid_interfaces")
			if path[0] == "inventory" && len(path) == 1 || isUnused {
				return // without an inventory, there is nothing
			}
			parts++
			for name, mutation := range mutations {
				set(mutation)
				where := fmt.Sprintf("%s: %s is %s", file, strings.Join(path, "."), name)
				checkMutated(t, where, path, before, was, inventoryOf(t, whole))
				set(value)
			}
		})
		if parts < 50 {
			t.Errorf("%s: only %d parts were changed", file, parts)
		}
	}
}

// visit calls do for each part of a JSON value with its path and a function that replaces it.
func visit(value any, path []string, set func(any), do func(path []string, set func(any), value any)) {
	if set != nil {
		do(path, set, value)
	}
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			visit(value[key], append(path, key), func(v any) {
				if v == any(missing) {
					delete(value, key)
					return
				}
				value[key] = v
			}, do)
		}
	case []any:
		for i := range value {
			visit(value[i], append(path, fmt.Sprint(i)), func(v any) {
				if v == any(missing) {
					v = nil // a list has no holes
				}
				value[i] = v
			}, do)
		}
	}
}

func inventoryOf(t *testing.T, whole any) *ironic.Inventory {
	t.Helper()
	raw := &ironic.Inventory{}
	encoded, err := json.Marshal(whole)
	if err == nil {
		err = json.Unmarshal(encoded, raw)
	}
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

type mutated struct {
	hw     *metal3.HardwareDetails
	unread string
}

func hardwareFrom(t *testing.T, raw *ironic.Inventory, known *metal3.HardwareDetails) mutated {
	t.Helper()
	hw, unread, err := HardwareFrom(raw, known)
	if err != nil {
		t.Fatal(err)
	}
	return mutated{hw, unread}
}

func checkMutated(t *testing.T, where string, path []string, before *metal3.HardwareDetails, was map[string]string, raw *ironic.Inventory) {
	t.Helper()
	may := mayChange(path, before)
	for _, known := range []*metal3.HardwareDetails{nil, before} {
		after := hardwareFrom(t, raw, known)
		if again := hardwareFrom(t, raw, after.hw); !equality.Semantic.DeepEqual(again.hw, after.hw) {
			t.Errorf("%s: reading it again is different", where)
		}
		is := flattened(after.hw, before, path)
		for key := range was {
			isAllowed := slices.ContainsFunc(may, func(prefix string) bool { return matches(key, prefix) })
			if is[key] != was[key] && !isAllowed {
				t.Errorf("%s: %s was %.80s and is %.80s", where, key, was[key], is[key])
			}
			if is[key] != was[key] && known != nil && after.unread != "" && !isUnidentified(path, before) {
				t.Errorf("%s: it cannot be read (%.80s), and what was known is lost: %s was %.80s and is %.80s", where, after.unread, key, was[key], is[key])
			}
		}
		data := &metal3.HardwareData{Spec: metal3.HardwareDataSpec{HardwareDetails: after.hw}}
		if errs := validation.ValidateHardwareData(data, nil); len(errs) > 0 {
			t.Errorf("%s: there can be no HardwareData: %v", where, errs)
		}
		if !archPattern.MatchString(after.hw.CPU.Arch) {
			t.Errorf("%s: the architecture is %q", where, after.hw.CPU.Arch)
		}
	}
}
