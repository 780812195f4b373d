// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

// maxDepth is how deep JSON may be nested. Deeper is no list of machines.
const maxDepth = 100

// jsonReader makes nodes of JSON. YAML's parser does not know all that JSON may have, such as tabs and "\ud83d\ude00".
type jsonReader struct {
	data    []byte
	decoder *json.Decoder
	// offset and line are of the last node.
	offset, line int
}

// jsonDocuments parses JSON: one value, or several one after the other.
func jsonDocuments(data []byte) (roots []*yaml.Node, mistake *LineError) {
	r := &jsonReader{data: data, decoder: json.NewDecoder(bytes.NewReader(data)), line: 1}
	r.decoder.UseNumber()
	for {
		root, err := r.value(0)
		if errors.Is(err, io.EOF) {
			return roots, nil
		}
		if err != nil {
			return nil, r.mistake(err)
		}
		roots = append(roots, root)
	}
}

// mistake does not repeat the decoder's words, which quote the character that is wrong.
func (r *jsonReader) mistake(err error) *LineError {
	offset := int(r.decoder.InputOffset())
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
		offset = max(offset, int(syntax.Offset)-1)
	}
	what := "check commas, quotes and brackets"
	if errors.Is(err, io.ErrUnexpectedEOF) {
		offset, what = len(r.data), "it ends too early"
	} else if errors.Is(err, errTooDeep) {
		what = errTooDeep.Error()
	}
	return &LineError{Line: lineOf(r.data, offset), Err: fmt.Errorf("this is not valid JSON: %s", what)}
}

var errTooDeep = errors.New("it is nested too deep")

func (r *jsonReader) value(depth int) (*yaml.Node, error) {
	token, err := r.decoder.Token()
	if err != nil {
		return nil, err
	}
	offset := int(r.decoder.InputOffset())
	r.line += bytes.Count(r.data[r.offset:offset], []byte("\n"))
	r.offset = offset
	node := &yaml.Node{Kind: yaml.ScalarNode, Line: r.line}
	switch token := token.(type) {
	case json.Delim:
		if depth >= maxDepth {
			return nil, errTooDeep
		}
		return r.collection(node, token, depth+1)
	case string:
		node.Tag, node.Style, node.Value = "!!str", yaml.DoubleQuotedStyle, token
	case json.Number:
		node.Tag, node.Value = "!!float", token.String()
		if _, err := token.Int64(); err == nil {
			node.Tag = "!!int"
		}
	case bool:
		node.Tag, node.Value = "!!bool", fmt.Sprint(token)
	default:
		node.Tag, node.Value = "!!null", "null"
	}
	return node, nil
}

func (r *jsonReader) collection(node *yaml.Node, open json.Delim, depth int) (*yaml.Node, error) {
	node.Kind, node.Tag = yaml.SequenceNode, "!!seq"
	if open == '{' {
		node.Kind, node.Tag = yaml.MappingNode, "!!map"
	}
	for r.decoder.More() {
		content, err := r.value(depth)
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, err
		}
		node.Content = append(node.Content, content)
	}
	_, err := r.decoder.Token()
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return node, err
}
