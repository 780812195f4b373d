package inventory

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxSize is the largest inventory that is read, in bytes. It has room for 100,000 machines.
const maxSize = 32 << 20

// LineError is a mistake in a line of an inventory.
type LineError struct {
	// Line is counted from 1.
	Line int
	// Name is the name of the machine, if it is known.
	Name string
	Err  error
}

func (e *LineError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", e.Name, e.Err)
	}
	if e.Name == "" {
		return fmt.Sprintf("line %d: %s", e.Line, e.Err)
	}
	return fmt.Sprintf("line %d: %s: %s", e.Line, e.Name, e.Err)
}

func (e *LineError) Unwrap() error { return e.Err }

// Read reads an inventory. The name of the file says which format it has; that of one without a
// known ending, such as "-", is found out from the contents. mistakes are the lines that cannot be
// used; err is returned if none of the inventory can be.
func Read(r io.Reader, fileName string) (entries []Entry, mistakes []*LineError, err error) {
	data, err := io.ReadAll(io.LimitReader(r, maxSize+1))
	if err != nil {
		return nil, nil, err
	}
	if len(data) > maxSize {
		return nil, nil, fmt.Errorf("the inventory has more than %d MiB", maxSize>>20)
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")) // the mark that spreadsheets put in front of UTF-8
	if bytes.HasPrefix(data, []byte("PK\x03\x04")) {
		return nil, nil, errors.New("this is a spreadsheet or an archive: save it as CSV")
	}
	if bytes.IndexByte(data, 0) >= 0 {
		return nil, nil, errors.New("this is no text in UTF-8")
	}
	if isYAML(data, fileName) {
		return readYAML(data)
	}
	return readCSV(data)
}

func isYAML(data []byte, fileName string) bool {
	switch strings.ToLower(filepath.Ext(fileName)) {
	case ".csv", ".tsv":
		return false
	case ".yaml", ".yml", ".json":
		return true
	}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		return strings.HasPrefix(line, "-") || strings.HasPrefix(line, "[") || strings.HasPrefix(line, "{") || strings.Contains(line, ":")
	}
	return false
}

// readCSV reads each line by itself: a quote that is not closed would otherwise swallow all lines
// after it.
func readCSV(data []byte) (entries []Entry, mistakes []*LineError, err error) {
	var fields []*Field
	comma := ','
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		line = strings.TrimRight(line, "\r\n")
		if strings.TrimSpace(line) == "" || strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		if fields == nil {
			comma = separator(line)
			if fields, err = readHeader(line, comma); err != nil {
				return nil, nil, fmt.Errorf("line %d: %w", number, err)
			}
			continue
		}
		entry, err := readRecord(line, comma, fields, number)
		if err != nil {
			mistakes = append(mistakes, &LineError{number, entry.Name, err})
			continue
		}
		entries = append(entries, entry)
	}
	if fields == nil {
		return nil, nil, errors.New("the inventory is empty: its first line has the names of the fields, for example name,address,username,password,bootMACAddress")
	}
	return entries, mistakes, nil
}

// separator returns the separator of a heading: spreadsheets write semicolons in some countries.
func separator(header string) rune {
	for _, c := range []rune{',', ';', '\t'} {
		if strings.ContainsRune(header, c) {
			return c
		}
	}
	return ','
}

func splitLine(line string, comma rune) ([]string, error) {
	r := csv.NewReader(strings.NewReader(line))
	r.Comma, r.FieldsPerRecord, r.TrimLeadingSpace = comma, -1, true
	values, err := r.Read()
	if parse := (*csv.ParseError)(nil); errors.As(err, &parse) {
		return nil, parse.Err // without the position, which is that in this line only
	}
	return values, err
}

func readHeader(line string, comma rune) ([]*Field, error) {
	names, err := splitLine(line, comma)
	if err != nil {
		return nil, err
	}
	fields := make([]*Field, len(names))
	seen := map[*Field]bool{}
	for i, name := range names {
		field, err := fieldByName(name)
		if err != nil {
			return nil, err
		}
		if seen[field] {
			return nil, fmt.Errorf("%q is there twice", name)
		}
		seen[field] = true
		fields[i] = field
	}
	return fields, nil
}

func readRecord(line string, comma rune, fields []*Field, number int) (Entry, error) {
	entry := newEntry(number)
	values, err := splitLine(line, comma)
	if err != nil {
		return entry, err
	}
	var errs []error
	for i, value := range values[:min(len(values), len(fields))] {
		if fields[i].Name != "password" { // a password may end in a space
			value = strings.TrimSpace(value)
		}
		errs = append(errs, fields[i].Set(&entry, value))
	}
	if len(values) > len(fields) {
		errs = append(errs, fmt.Errorf("it has %d values, and the heading %d", len(values), len(fields)))
	}
	return entry, errors.Join(errs...)
}

// readYAML reads a list of machines, or a key "hosts" with such a list, in one or more documents.
func readYAML(data []byte) (entries []Entry, mistakes []*LineError, err error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var document yaml.Node
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, err
		}
		for _, node := range machinesOf(&document) {
			entry, err := readNode(node)
			if err != nil {
				mistakes = append(mistakes, &LineError{node.Line, entry.Name, err})
				continue
			}
			entries = append(entries, entry)
		}
	}
	if len(entries)+len(mistakes) == 0 {
		return nil, nil, errors.New("the inventory is empty")
	}
	return entries, mistakes, nil
}

// machinesOf returns the nodes that stand for machines.
func machinesOf(node *yaml.Node) []*yaml.Node {
	switch node.Kind {
	case yaml.DocumentNode:
		var all []*yaml.Node
		for _, content := range node.Content {
			all = append(all, machinesOf(content)...)
		}
		return all
	case yaml.SequenceNode:
		return node.Content
	case yaml.MappingNode:
		if len(node.Content) == 2 && node.Content[0].Value == "hosts" && node.Content[1].Kind == yaml.SequenceNode {
			return node.Content[1].Content
		}
	case yaml.ScalarNode:
		if node.ShortTag() == "!!null" {
			return nil
		}
	}
	return []*yaml.Node{node}
}

func readNode(node *yaml.Node) (Entry, error) {
	entry := newEntry(node.Line)
	node = resolved(node)
	if node.Kind != yaml.MappingNode {
		return entry, errors.New("must have keys such as name and address")
	}
	var errs []error
	seen := map[*Field]bool{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], resolved(node.Content[i+1])
		field, err := fieldByName(key.Value)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if seen[field] {
			errs = append(errs, fmt.Errorf("%s is there twice", field.Name))
			continue
		}
		seen[field] = true
		errs = append(errs, setNode(&entry, field, value))
	}
	return entry, errors.Join(errs...)
}

func setNode(entry *Entry, field *Field, value *yaml.Node) error {
	switch {
	case value.Kind == yaml.ScalarNode && value.ShortTag() == "!!null":
		return nil
	case value.Kind == yaml.ScalarNode:
		return field.Set(entry, value.Value) // as it is written: 0123 is a password, not a number
	case value.Kind == yaml.MappingNode && field.Name == "labels":
		for i := 0; i+1 < len(value.Content); i += 2 {
			if entry.Labels == nil {
				entry.Labels = map[string]string{}
			}
			entry.Labels[value.Content[i].Value] = resolved(value.Content[i+1]).Value
		}
		return nil
	}
	return fmt.Errorf("%s: must be a single value", field.Name)
}

// resolved returns what an alias stands for. An alias of an alias cannot be written in YAML.
func resolved(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode && node.Alias != nil {
		return node.Alias
	}
	return node
}
