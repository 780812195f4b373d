// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"encoding/json"
	"fmt"
	"strings"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/validation"
)

// cutMark ends a text that was cut, and is the name of the last entry of a list that was cut.
const cutMark = "..."

// cutHardware returns the details such that their JSON has at most validation.MaxHardware bytes, for
// which there is room in a host. If they are larger, which no ordinary machine's are, the longest
// lists and texts are cut, so that the machine can be used nevertheless.
func cutHardware(hw *metal3.HardwareDetails) (*metal3.HardwareDetails, error) {
	encoded, err := json.Marshal(hw)
	for limit := 1024; err == nil && len(encoded) > validation.MaxHardware; limit /= 2 {
		var fields any
		if err = json.Unmarshal(encoded, &fields); err != nil {
			break
		}
		hw = &metal3.HardwareDetails{}
		if encoded, err = json.Marshal(cutTo(limit, fields)); err == nil {
			err = json.Unmarshal(encoded, hw)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("inventory from Ironic: %w", err)
	}
	return hw, nil
}

// cutTo returns a decoded JSON value in which all lists have at most limit+1 entries, and all texts
// limit bytes and a mark.
func cutTo(limit int, value any) any {
	switch value := value.(type) {
	case string:
		if len(value) > limit+len(cutMark) {
			return strings.ToValidUTF8(value[:limit], "") + cutMark
		}
	case map[string]any:
		for name, field := range value {
			value[name] = cutTo(limit, field)
		}
	case []any:
		if len(value) > limit+1 {
			var mark any = cutMark
			if _, isObject := value[0].(map[string]any); isObject {
				mark = map[string]any{"name": cutMark}
			}
			value = append(value[:limit:limit], mark)
		}
		for i := range value {
			value[i] = cutTo(limit, value[i])
		}
		return value
	}
	return value
}
