// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"fmt"
	"sort"
	"strings"
)

// pyRepr writes a JSON value as Python prints it, since Ironic's error messages
// quote values in that way. quote puts strings at the top into quotes, as repr()
// does and str() does not.
func pyRepr(v any, quote bool) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		if v {
			return "True"
		}
		return "False"
	case string:
		if !quote {
			return v
		}
		if strings.Contains(v, "'") && !strings.Contains(v, `"`) {
			return `"` + strings.ReplaceAll(v, `\`, `\\`) + `"`
		}
		return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`, "\n", `\n`).Replace(v) + "'"
	case []string:
		items := make([]any, len(v))
		for i := range v {
			items[i] = v[i]
		}
		return pyRepr(items, true)
	case []any:
		parts := make([]string, len(v))
		for i := range v {
			parts[i] = pyRepr(v[i], true)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case map[string]any:
		// Python keeps the order of the request, which decoding has lost; these
		// keys come in this order in what clients send.
		first := map[string]int{"op": 1, "path": 2, "interface": 3, "step": 4, "args": 5, "value": 6}
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		sort.Slice(keys, func(i, j int) bool {
			a, b := first[keys[i]], first[keys[j]]
			if a != b && a != 0 && b != 0 {
				return a < b
			}
			if (a == 0) != (b == 0) {
				return a != 0
			}
			return keys[i] < keys[j]
		})
		parts := make([]string, len(keys))
		for i, k := range keys {
			parts[i] = pyRepr(k, true) + ": " + pyRepr(v[k], true)
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return fmt.Sprint(v)
}
