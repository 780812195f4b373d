// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRamdiskNetwork(t *testing.T) {
	tests := map[string]struct {
		data map[string][]byte
		want map[string]any
	}{
		"key networkData": {data("networkData", "a: b"), map[string]any{"a": "b"}},
		"key value":       {data("value", `{"a": "b"}`), map[string]any{"a": "b"}},
		"empty":           {data("networkData", ""), nil},
		"other keys":      {data("userData", "- a"), nil},
		"no keys":         {nil, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := RamdiskNetwork("metal", "net", test.data)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	_, err := RamdiskNetwork("metal", "net", data("value", "s3cret"))
	if err == nil || strings.Contains(err.Error(), "s3cret") || !strings.Contains(err.Error(), "Secret metal/net: key value") {
		t.Errorf("error is %v", err)
	}
	long := strings.Repeat("x", 4<<10)
	for name, text := range map[string]string{
		"long": `{"a": "` + strings.Repeat(long, 17) + `"}`, "long with its aliases": "a: &a " + long + "\nb: [" + strings.Repeat("*a, ", 17) + "]",
	} {
		if _, err := RamdiskNetwork("metal", "net", data("networkData", text)); err == nil || !strings.Contains(err.Error(), " KiB as JSON, which is more than the 64 KiB that a ramdisk can have") {
			t.Errorf("%s: error is %v", name, err)
		}
	}
}
