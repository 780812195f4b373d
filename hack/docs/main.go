// SPDX-License-Identifier: Apache-2.0

// Command docs writes pages of reference that are made of the code. It runs in the root of the project. The arguments are a
// folder, and the names of pages:
//
//	api     the fields of all kinds
//	words   conditions, reasons, annotations, labels and finalizers
//	metrics
//	events
//	errors  what the errors of machines mean, and what helps
//
// The last three are kept in docs/reference, for those who read the documents without the site.
package main

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/doc"
	"go/parser"
	"go/token"
	"go/types"
	"log"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/metal3-io/metal3-apiserver/pkg/generated/openapi"
)

var pages = map[string]func() (string, error){"api": fields, "words": words, "metrics": metrics, "events": events, "errors": failures}

func main() {
	if len(os.Args) < 3 {
		log.Fatal("usage: docs FOLDER PAGE...")
	}
	for _, name := range os.Args[2:] {
		if pages[name] == nil {
			log.Fatalf("there is no page %q", name)
		}
		content, err := pages[name]()
		if err != nil {
			log.Fatalf("%s: %v", name, err)
		}
		if err := os.WriteFile(filepath.Join(os.Args[1], name+".md"), []byte(content), 0o644); err != nil {
			log.Fatal(err)
		}
	}
}

// fields returns a page with the fields of all types that the API has.
func fields() (string, error) {
	definitions := openapi.GetOpenAPIDefinitions(func(name string) spec.Ref { return spec.MustCreateRef("#/" + name) })
	page := &strings.Builder{}
	page.WriteString("# The fields of all kinds\n\nThis page is made of the code, and `kubectl explain` shows the same.\n\n")
	ours := func(name string) bool {
		return strings.HasPrefix(name, "io.metal3") && !strings.HasSuffix(name, "List")
	}
	for _, kind := range []bool{true, false} { // the kinds first
		for _, name := range slices.SortedFunc(maps.Keys(definitions), func(a, b string) int { return strings.Compare(short(a), short(b)) }) {
			if _, is := definitions[name].Schema.Properties["metadata"]; ours(name) && is == kind {
				writeType(page, definitions, name)
			}
		}
	}
	return page.String(), nil
}

func writeType(page *strings.Builder, definitions map[string]common.OpenAPIDefinition, name string) {
	schema := definitions[name].Schema
	fmt.Fprintf(page, "## %s\n\n%s\n\n", short(name), cell(schema.Description))
	if len(schema.Properties) == 0 {
		return
	}
	page.WriteString("| Field | Type | Description |\n|---|---|---|\n")
	for _, field := range slices.Sorted(maps.Keys(schema.Properties)) {
		if field == "apiVersion" || field == "kind" {
			continue // as in every kind of Kubernetes
		}
		property := schema.Properties[field]
		required := ""
		if slices.Contains(schema.Required, field) {
			required = " (required)"
		}
		fmt.Fprintf(page, "| `%s`%s | %s | %s |\n", field, required, typeOf(property), cell(property.Description))
	}
	page.WriteString("\n")
}

// typeOf returns the type of a field in the words of OpenAPI, with links to types on the page.
func typeOf(schema spec.Schema) string {
	switch {
	case schema.Ref.String() != "" || len(schema.AllOf) == 1:
		ref := schema.Ref.String()
		if ref == "" {
			ref = schema.AllOf[0].Ref.String()
		}
		name := short(ref)
		if !strings.Contains(ref, "io.metal3") {
			return name
		}
		return fmt.Sprintf("[%s](#%s)", name, strings.ToLower(name))
	case schema.Items != nil && schema.Items.Schema != nil:
		return "list of " + typeOf(*schema.Items.Schema)
	case schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil:
		return "map of " + typeOf(*schema.AdditionalProperties.Schema)
	}
	return strings.Join(schema.Type, ", ")
}

// short returns the name of a type without its package.
func short(name string) string { return name[strings.LastIndex(name, ".")+1:] }

// words returns a page with what the API has words for.
func words() (string, error) {
	return constants("pkg/apis/metal3/v1alpha1/conditions.go", "pkg/apis/metal3/v1alpha1/keys.go")
}

// constants returns a page with the exported string constants of some files, by groups.
func constants(paths ...string) (string, error) {
	page := &strings.Builder{}
	page.WriteString("# Conditions, reasons and annotations\n\nThis page is made of the code.\n\n")
	set := token.NewFileSet()
	var files []*ast.File
	for _, path := range paths {
		file, err := parser.ParseFile(set, path, nil, parser.ParseComments)
		if err != nil {
			return "", err
		}
		files = append(files, file)
	}
	info := &types.Info{Defs: map[*ast.Ident]types.Object{}}
	// What is declared in other files is missing, and not needed.
	_, _ = (&types.Config{Error: func(error) {}}).Check("", set, files, info)
	var values []string // of the names that comments use
	for name, object := range info.Defs {
		if value, is := object.(*types.Const); is && value.Val().Kind() == constant.String {
			values = append(values, name.Name, "`"+constant.StringVal(value.Val())+"`")
		}
	}
	for _, file := range files {
		for _, declaration := range file.Decls {
			if group, is := declaration.(*ast.GenDecl); is && group.Tok == token.CONST {
				writeGroup(page, group, info, values)
			}
		}
	}
	return page.String(), nil
}

func writeGroup(page *strings.Builder, group *ast.GenDecl, info *types.Info, values []string) {
	rows := &strings.Builder{}
	for _, s := range group.Specs {
		declared := s.(*ast.ValueSpec)
		name := declared.Names[0]
		value, is := info.Defs[name].(*types.Const)
		if !is || !name.IsExported() || value.Val().Kind() != constant.String {
			continue
		}
		text := declared.Doc.Text()
		if text == "" {
			text = group.Doc.Text()
		}
		fmt.Fprintf(rows, "| `%s` | %s |\n", constant.StringVal(value.Val()), inWords(text, values))
	}
	if rows.Len() == 0 {
		return
	}
	title := new(doc.Package).Synopsis(group.Doc.Text())
	if !group.Lparen.IsValid() {
		title = group.Specs[0].(*ast.ValueSpec).Names[0].Name
	}
	fmt.Fprintf(page, "## %s\n\n| Value | Meaning |\n|---|---|\n%s\n", inWords(strings.TrimSuffix(title, "."), values), rows)
}

// inWords returns a comment with the values of constants in place of their names.
func inWords(comment string, values []string) string {
	words := strings.Fields(cell(comment))
	for i, word := range words {
		for n := 0; n < len(values); n += 2 {
			if strings.TrimRight(word, ".,;:)") == values[n] {
				words[i] = strings.Replace(word, values[n], values[n+1], 1)
			}
		}
	}
	return strings.Join(words, " ")
}
