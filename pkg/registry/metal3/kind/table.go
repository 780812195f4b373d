// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"
	"unicode"

	"k8s.io/apimachinery/pkg/api/meta"
	metatable "k8s.io/apimachinery/pkg/api/meta/table"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/util/jsonpath"
)

// Column is a column that kubectl get prints, described as in additionalPrinterColumns of a
// CRD.
type Column struct {
	// Name is the heading. Description says what the column shows.
	Name, Description string
	// Type is string, integer, number, boolean or date. A date is printed as an age.
	Type string
	// JSONPath is the path of the value in the object, for example
	// .metadata.creationTimestamp.
	JSONPath string
	// Priority is 0, or 1 for a column that is printed only with -o wide.
	Priority int32
}

// Age is the column that shows the age of an object.
var Age = Column{
	Name: "Age", Type: "date", JSONPath: ".metadata.creationTimestamp",
	Description: "Time since the object was created.",
}

// Table returns a table with a row for an object, or for each object of a list.
func Table(obj, options runtime.Object, columns []metav1.TableColumnDefinition, cells func(runtime.Object) ([]any, error)) (*metav1.Table, error) {
	table := &metav1.Table{}
	if o, ok := options.(*metav1.TableOptions); !ok || !o.NoHeaders {
		table.ColumnDefinitions = columns
	}
	if list, err := meta.ListAccessor(obj); err == nil {
		table.ResourceVersion = list.GetResourceVersion()
		table.Continue = list.GetContinue()
		table.RemainingItemCount = list.GetRemainingItemCount()
	} else if m, err := meta.CommonAccessor(obj); err == nil {
		table.ResourceVersion = m.GetResourceVersion()
	}
	var err error
	table.Rows, err = metatable.MetaToTableRow(obj, func(obj runtime.Object, _ metav1.Object, _, _ string) ([]any, error) {
		row, err := cells(obj)
		for i, cell := range row {
			if text, ok := cell.(string); ok && !isPlain(text) {
				row[i] = printable(text)
			}
		}
		return row, err
	})
	return table, err
}

// isPlain reports whether a text has nothing but printable ASCII and line breaks, as nearly all cells have.
func isPlain(text string) bool {
	for i := range len(text) {
		if c := text[i]; c > '~' || c < ' ' && c != '\n' {
			return false
		}
	}
	return true
}

// printable leaves out what controls a terminal or turns the direction of text: kubectl escapes only some
// of it. It cuts a cell at a line break itself.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\u2028' || r == '\u2029': // line breaks that kubectl does not take for such
			return ' '
		case r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)):
			return -1
		}
		return r
	}, text)
}

// tableConvertor prints objects for kubectl: the name, followed by the columns of the kind.
type tableConvertor struct {
	definitions []metav1.TableColumnDefinition
	paths       []*jsonpath.JSONPath // of all columns except the name
}

func newTableConvertor(columns []Column) (*tableConvertor, error) {
	c := &tableConvertor{definitions: []metav1.TableColumnDefinition{
		{Name: "Name", Type: "string", Format: "name", Description: "Name of the object."},
	}}
	for _, column := range columns {
		path := jsonpath.New(column.Name).AllowMissingKeys(true)
		if err := path.Parse("{" + column.JSONPath + "}"); err != nil {
			return nil, fmt.Errorf("column %s: JSONPath %s: %w", column.Name, column.JSONPath, err)
		}
		c.paths = append(c.paths, path)
		c.definitions = append(c.definitions, metav1.TableColumnDefinition{
			Name: column.Name, Type: column.Type, Description: column.Description, Priority: column.Priority,
		})
	}
	return c, nil
}

// ConvertToTable returns the table that kubectl get requests.
func (c *tableConvertor) ConvertToTable(_ context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	return Table(obj, options, c.definitions, func(obj runtime.Object) ([]any, error) {
		m, err := meta.Accessor(obj)
		if err != nil {
			return nil, err
		}
		cells := []any{m.GetName()}
		for i, path := range c.paths {
			found, err := path.FindResults(obj)
			if err != nil || len(found) == 0 || len(found[0]) == 0 {
				cells = append(cells, nil) // missing values are not printed, as with a CRD
				continue
			}
			cells = append(cells, cell(c.definitions[i+1].Type, found[0][0]))
		}
		return cells, nil
	})
}

// cell converts a value to one that JSON supports. The age is computed as of now; the objects
// that a watch sends as bookmarks have none.
func cell(columnType string, value reflect.Value) any {
	value = reflect.Indirect(value)
	if !value.IsValid() {
		return nil
	}
	if columnType == "date" {
		if t, ok := value.Interface().(metav1.Time); ok && !t.IsZero() {
			return duration.HumanDuration(time.Since(t.Time))
		}
		return nil
	}
	switch {
	case columnType == "boolean" && value.Kind() == reflect.Bool:
		return value.Bool()
	case columnType == "integer" && value.CanInt():
		return value.Int()
	case columnType == "number" && value.CanFloat():
		return value.Float()
	}
	return fmt.Sprint(value.Interface())
}
