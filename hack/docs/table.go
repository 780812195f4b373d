// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
)

// table returns a table. Whoever reads an empty cell does not know what it means, so there must be none.
func table(header []string, rows [][]string) (string, error) {
	text := &strings.Builder{}
	writeRow(text, header)
	text.WriteString(strings.Repeat("|---", len(header)) + "|\n")
	for _, row := range rows {
		for i, content := range row {
			if content == "" {
				return "", fmt.Errorf("%s has no %s", row[0], strings.ToLower(header[i]))
			}
		}
		writeRow(text, row)
	}
	return text.String(), nil
}

func writeRow(text *strings.Builder, cells []string) {
	text.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}

// cell returns text in the form that it has in one cell of a table.
func cell(text string) string {
	parts := strings.Split(strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", `\|`), "`")
	for i := range parts {
		if isCode := i%2 == 1 && i < len(parts)-1; !isCode {
			parts[i] = strings.NewReplacer("<", "&lt;", "*", `\*`, "_", `\_`).Replace(parts[i])
		}
	}
	return strings.Join(parts, "`")
}
