// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/validation"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// TestHugeInventory checks that an inventory that is too large for a host is cut with a mark, and
// begins as it was.
func TestHugeInventory(t *testing.T) {
	list := func(n int, entry string) string {
		entries := make([]string, n)
		for i := range entries {
			entries[i] = strings.ReplaceAll(entry, "INDEX", fmt.Sprint(i))
		}
		return "[" + strings.Join(entries, ",") + "]"
	}
	for name, inventory := range map[string]string{
		"network interfaces": `{"memory":{"physical_mb":4096},"interfaces":` + list(10_000, `{"name":"ethINDEX","mac_address":"52:54:00:00:00:01","product":"a product"}`) + `}`,
		"disks":              `{"memory":{"physical_mb":4096},"disks":` + list(10_000, `{"name":"/dev/sdINDEX","size":1,"model":"a model","serial":"INDEX"}`) + `}`,
		"flags":              `{"memory":{"physical_mb":4096},"cpu":{"flags":` + list(100_000, `"flagINDEX"`) + `}}`,
		"a text":             `{"memory":{"physical_mb":4096},"hostname":"` + strings.Repeat("x", 1<<20) + `"}`,
		"characters that JSON escapes": `{"memory":{"physical_mb":4096},"disks":` +
			list(1000, `{"name":"/dev/sdINDEX","model":"`+strings.Repeat("<", 1500)+`"}`) + `}`,
	} {
		t.Run(name, func(t *testing.T) {
			hw, _, err := HardwareFrom(&ironic.Inventory{Inventory: []byte(inventory)}, nil)
			if err != nil {
				t.Fatal(err)
			}
			encoded, err := json.Marshal(hw)
			if err != nil {
				t.Fatal(err)
			}
			if len(encoded) > validation.MaxHardware {
				t.Errorf("%d bytes, want at most %d", len(encoded), validation.MaxHardware)
			}
			if hw.RAMMebibytes != 4096 {
				t.Errorf("the memory is %d MiB", hw.RAMMebibytes)
			}
			if n := len(hw.NIC); n > 0 && (hw.NIC[0].Name != "eth0" || hw.NIC[n-1].Name != "...") {
				t.Errorf("%d network interfaces from %s to %s", n, hw.NIC[0].Name, hw.NIC[n-1].Name)
			}
			if n := len(hw.Storage); n > 0 && (hw.Storage[0].Name != "/dev/sd0" || n < 1000 && hw.Storage[n-1].Name != "...") {
				t.Errorf("%d disks from %s to %s", n, hw.Storage[0].Name, hw.Storage[n-1].Name)
			}
			if n := len(hw.CPU.Flags); n > 0 && hw.CPU.Flags[n-1] != "..." {
				t.Errorf("%d flags to %s", n, hw.CPU.Flags[n-1])
			}
			if len(hw.Hostname) > 0 && !strings.HasSuffix(hw.Hostname, "x...") {
				t.Errorf("a host name of %d bytes has no mark", len(hw.Hostname))
			}
		})
	}
}
