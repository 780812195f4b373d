// SPDX-License-Identifier: Apache-2.0

package ironicsync

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Conditions, reasons and messages are for people and for other programs. What the engine decides
// by is in typed fields, so that a changed word changes no decision. These functions may read them
// all the same, for the reason that is given. A name is that of a function or method, in whichever
// package it is.
var mayReadConditions = map[string]string{
	"StartManaging": "takes over the error of a status that a user restores",

	"changes":     "renders what has changed into events",
	"setStatus":   "renders the status of a HostClaim",
	"machineWith": "renders a condition before it is stored",

	"offer":     "builders of ramdisk images, which are other programs, answer by conditions",
	"provide":   "builders of ramdisk images, which are other programs, answer by conditions",
	"verdictOn": "builders of ramdisk images, which are other programs, answer by conditions",
	"readiness": "the operator of an Ironic object, which is another program, says by a condition whether it is ready; it is only shown",
}

// These decide by the conditions of kinds that have no record yet: HostFirmwareSettings, HostFirmwareComponents
// and HostClaims. None is to be added.
var readConditions = []string{"conditions", "missingHost"}

// TestNothingReadsConditionsBack goes by names, which is enough: who wants to read a condition has
// to get it from a list of conditions first.
func TestNothingReadsConditionsBack(t *testing.T) {
	readers := map[string][]string{}
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			name := "a declaration in " + path
			if function, ok := decl.(*ast.FuncDecl); ok {
				name = function.Name.Name
			}
			for _, read := range conditionsReadIn(decl) {
				readers[name] = append(readers[name], fmt.Sprintf("%s: %s", fset.Position(read.Pos()), read.Name))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, places := range readers {
		if mayReadConditions[name] == "" && !slices.Contains(readConditions, name) {
			t.Errorf("%s reads what is meant for people: decide by a typed field of the status instead\n\t%s", name, strings.Join(places, "\n\t"))
		}
	}
	for name := range mayReadConditions {
		if len(readers[name]) == 0 {
			t.Errorf("%s reads no condition or message any more: remove it from mayReadConditions", name)
		}
	}
	for _, name := range readConditions {
		if len(readers[name]) == 0 {
			t.Errorf("%s reads no condition or message any more: remove it from readConditions", name)
		}
	}
}

// conditionsReadIn returns what reads conditions, or an error message of a status.
func conditionsReadIn(root ast.Node) (reads []*ast.Ident) {
	written := map[ast.Node]bool{}
	changes := func(args []ast.Expr) {
		if address, ok := args[0].(*ast.UnaryExpr); ok {
			written[address.X] = true
		}
	}
	ast.Inspect(root, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.AssignStmt:
			if node.Tok == token.ASSIGN {
				for _, to := range node.Lhs {
					written[to] = true
				}
			}
		case *ast.CallExpr:
			switch function := node.Fun.(type) {
			case *ast.Ident:
				switch function.Name {
				case "findCondition":
					reads = append(reads, function)
				case "setConditions":
					changes(node.Args)
				}
			case *ast.SelectorExpr: // what only changes conditions is given the address of their list
				if slices.Contains([]string{"SetStatusCondition", "RemoveStatusCondition", "Unread"}, function.Sel.Name) {
					changes(node.Args)
				}
			}
		case *ast.SelectorExpr:
			if slices.Contains([]string{"Conditions", "ErrorMessage"}, node.Sel.Name) && !written[node] {
				reads = append(reads, node.Sel)
			}
		}
		return true
	})
	return reads
}
