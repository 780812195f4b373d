// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// documents parses JSON or YAML into what is in it, one after the other. Lines of the nodes are those of the file.
// A document that cannot be parsed is a mistake, and does not cost the others.
func documents(data []byte) (roots []*yaml.Node, mistakes []*LineError) {
	if trimmed := bytes.TrimSpace(data); len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '[') {
		roots, mistake := jsonDocuments(data)
		if mistake == nil {
			return roots, nil
		}
		// YAML without quotes may begin like JSON.
		if roots, mistakes = yamlDocuments(data); len(mistakes) > 0 {
			return nil, []*LineError{mistake}
		}
		return roots, nil
	}
	return yamlDocuments(data)
}

// yamlDocuments cuts YAML at its document markers, which can be nothing else at the beginning of a line.
func yamlDocuments(data []byte) (roots []*yaml.Node, mistakes []*LineError) {
	first, number := 0, 0 // the lines before the part, and those read so far
	var part []byte
	flush := func() {
		nodes, mistake := parseYAML(part, first)
		roots = append(roots, nodes...)
		if mistake != nil {
			mistakes = append(mistakes, mistake)
		}
	}
	for line := range bytes.Lines(data) {
		if isMarker(line) && !isDirectives(part) {
			flush()
			part, first = nil, number
		}
		part = append(part, line...)
		number++
	}
	flush()
	return roots, mistakes
}

func isMarker(line []byte) bool {
	rest, found := bytes.CutPrefix(line, []byte("---"))
	return found && (len(rest) == 0 || bytes.ContainsRune([]byte(" \t\r\n"), rune(rest[0])))
}

// isDirectives reports whether a part has nothing but directives, such as %YAML 1.2, which belong to the document after them.
func isDirectives(part []byte) bool {
	found := false
	for line := range bytes.Lines(part) {
		found = found || line[0] == '%'
		if line[0] != '%' && line[0] != '#' && len(bytes.TrimSpace(line)) > 0 {
			return false
		}
	}
	return found
}

func parseYAML(part []byte, before int) (roots []*yaml.Node, mistake *LineError) {
	decoder := yaml.NewDecoder(bytes.NewReader(part))
	for {
		var document yaml.Node
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return roots, nil
		}
		if err != nil {
			return roots, yamlMistake(err, part, before)
		}
		for _, root := range document.Content {
			if root.Kind == yaml.ScalarNode && root.ShortTag() == "!!null" {
				continue
			}
			moveLines(root, before)
			expandMerges(root)
			keepDates(root)
			roots = append(roots, root)
		}
	}
}

func moveLines(node *yaml.Node, by int) {
	if by == 0 {
		return
	}
	node.Line += by
	for _, content := range node.Content {
		moveLines(content, by)
	}
}

// keepDates has dates without quotes taken as they are written, as kubectl does: one can be a serial number.
func keepDates(node *yaml.Node) {
	if node.Kind == yaml.ScalarNode && node.ShortTag() == "!!timestamp" {
		node.Tag = "!!str"
	}
	for _, content := range node.Content {
		keepDates(content)
	}
}

var (
	yamlLine    = regexp.MustCompile(`^line (\d+): `)
	yamlUnknown = regexp.MustCompile(`unknown anchor '(.*)' referenced`)
	yamlQuoted  = regexp.MustCompile("'.*'|`(?s:.*)`")
)

// yamlMistake describes an error of the parser. What it quotes from the file may be a password that has no quotes.
func yamlMistake(err error, part []byte, before int) *LineError {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 1
	if match := yamlLine.FindStringSubmatch(text); match != nil {
		line, _ = strconv.Atoi(match[1]) // which is a number
		text = text[len(match[0]):]
	}
	hint := "check its quotes and indentation"
	switch match := yamlUnknown.FindStringSubmatch(text); {
	case bytes.Contains(part, []byte("{{")) || bytes.Contains(part, []byte("{%")):
		hint = "it looks like a template, which has to be rendered first"
	case match != nil:
		line = lineOf(part, max(0, bytes.Index(part, []byte("*"+match[1]))))
		text, hint = "a value begins with *", "put it into quotes"
	case strings.Contains(text, "cannot start any token"):
		text, hint = "a tab, or a value that begins with @ or `", "indent with spaces, and put such a value into quotes"
	}
	return &LineError{Line: before + line, Err: fmt.Errorf("this is not valid YAML (%s): %s", yamlQuoted.ReplaceAllString(text, "..."), hint)}
}
