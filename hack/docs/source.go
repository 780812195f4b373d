// SPDX-License-Identifier: Apache-2.0

package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

const module = "github.com/metal3-io/metal3-apiserver"

// program is the source of the server without its tests.
type program struct {
	set      *token.FileSet
	packages map[string]*code // by their folders
}

// code is the source of a package.
type code struct {
	folder string
	files  []*ast.File
	info   *types.Info
}

// parseServer parses the server, with what it shares with other programs.
func parseServer() (*program, error) {
	p := &program{set: token.NewFileSet(), packages: map[string]*code{}}
	for _, top := range []string{"pkg", "cmd/metal3-apiserver"} {
		err := filepath.WalkDir(top, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "pkg/generated/") {
				return err
			}
			file, err := parser.ParseFile(p.set, name, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			folder := filepath.Dir(name)
			if p.packages[folder] == nil {
				p.packages[folder] = &code{folder: folder}
			}
			p.packages[folder].files = append(p.packages[folder].files, file)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return p, nil
}

// object returns what a name stands for in its package. That is nil for what other packages declare, which are not read.
func (c *code) object(p *program, name *ast.Ident) types.Object {
	if c.info == nil {
		c.info = &types.Info{Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}}
		_, _ = (&types.Config{Error: func(error) {}}).Check("", p.set, c.files, c.info)
	}
	return c.info.ObjectOf(name)
}

// nameOf returns the name by which a file refers to a package that it imports. It is empty if it does not import it.
func nameOf(file *ast.File, importPath string) string {
	for _, spec := range file.Imports {
		switch imported, err := strconv.Unquote(spec.Path.Value); {
		case err != nil || imported != importPath:
		case spec.Name != nil:
			return spec.Name.Name
		default:
			return path.Base(importPath)
		}
	}
	return ""
}

// isFrom reports whether an expression is a name of a package, to which its file refers by pkg.
func isFrom(expression ast.Expr, pkg string) bool {
	selector, is := expression.(*ast.SelectorExpr)
	if !is {
		return false
	}
	from, is := selector.X.(*ast.Ident)
	return is && from.Name == pkg
}

// selected returns the name that is selected from a package or an object; empty if the expression selects none.
func selected(expression ast.Expr) string {
	if selector, is := expression.(*ast.SelectorExpr); is {
		return selector.Sel.Name
	}
	return ""
}

// literal returns the value of a literal text.
func literal(expression ast.Expr) (text string, is bool) {
	value, is := expression.(*ast.BasicLit)
	if !is || value.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(value.Value)
	return text, err == nil
}

// fieldsOf returns the fields of a literal of a struct, or of its address; nil if it is none, or does not name them.
func fieldsOf(expression ast.Expr) map[string]ast.Expr {
	if address, is := expression.(*ast.UnaryExpr); is {
		expression = address.X
	}
	value, is := expression.(*ast.CompositeLit)
	if !is {
		return nil
	}
	fields := map[string]ast.Expr{}
	for _, element := range value.Elts {
		pair, is := element.(*ast.KeyValueExpr)
		if !is {
			return nil
		}
		fields[pair.Key.(*ast.Ident).Name] = pair.Value
	}
	return fields
}
