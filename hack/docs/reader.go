// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strings"
)

// frame is a declaration, mostly of a function, whose expressions are read.
type frame struct {
	in          *code
	declaration ast.Decl
	// call is the call of the function that is looked at. It is in the next frame of a stack, and nil in the last one.
	call *ast.CallExpr
	// entries are the entries of maps that are looked at, by the expressions of their keys.
	entries map[string]*ast.KeyValueExpr
}

func newFrame(in *code, declaration ast.Decl) *frame {
	return &frame{in: in, declaration: declaration, entries: map[string]*ast.KeyValueExpr{}}
}

// errCaller is that an expression depends on the caller of the last function of a stack.
var errCaller = errors.New("nobody calls its function")

// entryError is that an expression is the key of entries of a map.
type entryError struct {
	in      *frame
	key     string
	entries []ast.Expr
}

func (e *entryError) Error() string { return e.key + " is not known" }

// unknownError is that nothing can be said of an expression.
type unknownError struct{ expression ast.Expr }

func (e *unknownError) Error() string { return types.ExprString(e.expression) + " is not known" }

// maxCalls is how many calls are followed. Functions that call themselves record no events.
const maxCalls = 6

// inAllCalls calls read for all calls of the function in the last frame, and for all entries of maps, as far as read depends on them.
func (p *program) inAllCalls(stack []*frame, read func(stack []*frame) error) error {
	err := read(stack)
	if entry := new(entryError); errors.As(err, &entry) {
		defer delete(entry.in.entries, entry.key)
		for _, e := range entry.entries {
			entry.in.entries[entry.key] = e.(*ast.KeyValueExpr)
			if err := p.inAllCalls(stack, read); err != nil {
				return err
			}
		}
		return nil
	}
	last := stack[len(stack)-1]
	if !errors.Is(err, errCaller) || len(stack) > maxCalls {
		return err
	}
	defer func() { last.call = nil }()
	for _, caller := range p.callersOf(last) {
		err, last.call = nil, caller.call
		if err := p.inAllCalls(append(slices.Clone(stack), newFrame(caller.in, caller.declaration)), read); err != nil {
			return err
		}
	}
	return err
}

// callersOf returns where the function of a frame is called. Calls are found by its name and the number of its parameters. Only those
// of an exported function can be in another package.
func (p *program) callersOf(called *frame) (callers []frame) {
	function := called.declaration.(*ast.FuncDecl)
	parameters, isVariadic := parametersOf(function)
	for _, pkg := range p.packages {
		if pkg != called.in && !function.Name.IsExported() {
			continue
		}
		for _, file := range pkg.files {
			for _, declaration := range file.Decls {
				ast.Inspect(declaration, func(n ast.Node) bool {
					call, is := n.(*ast.CallExpr)
					if is && calledName(call) == function.Name.Name && (len(call.Args) == len(parameters) || isVariadic && len(call.Args) >= len(parameters)-1) {
						callers = append(callers, frame{in: pkg, declaration: declaration, call: call})
					}
					return true
				})
			}
		}
	}
	return callers
}

// parametersOf returns the parameters of a function; none if that is not what is declared.
func parametersOf(declaration ast.Decl) (names []*ast.Ident, isVariadic bool) {
	function, is := declaration.(*ast.FuncDecl)
	if !is {
		return nil, false
	}
	for _, field := range function.Type.Params.List {
		names = append(names, field.Names...)
		_, isVariadic = field.Type.(*ast.Ellipsis)
	}
	return names, isVariadic
}

func calledName(call *ast.CallExpr) string {
	if function, is := call.Fun.(*ast.Ident); is {
		return function.Name
	}
	return selected(call.Fun)
}

// values returns the texts that an expression of the first frame can be.
func (p *program) values(expression ast.Expr, stack []*frame) ([]string, error) {
	f := stack[0]
	switch e := expression.(type) {
	case *ast.BasicLit:
		if text, is := literal(e); is {
			return []string{text}, nil
		}
	case *ast.Ident, *ast.SelectorExpr:
		if eventType, is := strings.CutPrefix(selected(e), "EventType"); is {
			return []string{eventType}, nil
		}
		entry, err := f.entryOf(e)
		if entry != nil {
			return p.values(entry.Key, stack)
		}
		if name, is := e.(*ast.Ident); is && err == nil {
			return p.valuesOf(name, stack)
		}
		if err != nil {
			return nil, err
		}
	case *ast.IndexExpr:
		entry, err := f.entryOf(e.Index)
		if entry != nil {
			return p.values(entry.Value, stack)
		}
		if err != nil {
			return nil, err
		}
	case *ast.BinaryExpr:
		return join(e, func(part ast.Expr) ([]string, error) { return p.values(part, stack) })
	case *ast.CallExpr:
		if results := f.in.resultsOf(calledName(e)); len(e.Args) == 0 && len(results) > 0 {
			return results, nil
		}
		if calledName(e) == "TrimPrefix" {
			texts, err := p.values(e.Args[0], stack)
			prefix, is := literal(e.Args[1])
			for i := range texts {
				texts[i] = strings.TrimPrefix(texts[i], prefix)
			}
			if is {
				return texts, err
			}
		}
	}
	return nil, &unknownError{expression}
}

// join returns what the parts of a sum can be together.
func join(sum *ast.BinaryExpr, read func(ast.Expr) ([]string, error)) (texts []string, err error) {
	first, err := read(sum.X)
	if err != nil {
		return nil, err
	}
	second, err := read(sum.Y)
	for _, a := range first {
		for _, b := range second {
			texts = append(texts, a+b)
		}
	}
	return texts, err
}

// entryOf returns the entry of a map of the package that is looked at, if an expression is used as a key of the map in the declaration.
// It returns an error if none is looked at.
func (f *frame) entryOf(key ast.Expr) (entry *ast.KeyValueExpr, err error) {
	text := types.ExprString(key)
	if entry := f.entries[text]; entry != nil {
		return entry, nil
	}
	ast.Inspect(f.declaration, func(n ast.Node) bool {
		if index, is := n.(*ast.IndexExpr); is && types.ExprString(index.Index) == text {
			if entries := f.in.entriesOf(index.X); entries != nil {
				err = &entryError{f, text, entries}
			}
		}
		return true
	})
	return nil, err
}

// entriesOf returns the entries of a map that a package declares.
func (c *code) entriesOf(name ast.Expr) (entries []ast.Expr) {
	for _, file := range c.files {
		for _, declaration := range file.Decls {
			group, is := declaration.(*ast.GenDecl)
			if !is || group.Tok != token.VAR {
				continue
			}
			for _, spec := range group.Specs {
				for i, value := range spec.(*ast.ValueSpec).Values {
					list, is := value.(*ast.CompositeLit)
					if !is || spec.(*ast.ValueSpec).Names[i].Name != types.ExprString(name) {
						continue
					}
					if _, is := list.Type.(*ast.MapType); is {
						entries = list.Elts
					}
				}
			}
		}
	}
	return entries
}

// resultsOf returns what methods without parameters of a name return, if they do nothing else.
func (c *code) resultsOf(name string) (results []string) {
	for _, file := range c.files {
		for _, declaration := range file.Decls {
			method, is := declaration.(*ast.FuncDecl)
			if !is || method.Name.Name != name || method.Body == nil || len(method.Body.List) != 1 {
				continue
			}
			if returned, is := method.Body.List[0].(*ast.ReturnStmt); is && len(returned.Results) == 1 {
				if text, is := literal(returned.Results[0]); is {
					results = append(results, text)
				}
			}
		}
	}
	return results
}

// valuesOf returns the texts that a constant, a parameter or a variable of the first frame can be.
func (p *program) valuesOf(name *ast.Ident, stack []*frame) (texts []string, err error) {
	if value, is := stack[0].in.object(p, name).(*types.Const); is && value.Val().Kind() == constant.String {
		return []string{constant.StringVal(value.Val())}, nil
	}
	assigned, err := p.assignedTo(name, stack)
	for _, a := range assigned {
		values, err := p.values(a.expression, a.stack)
		if err != nil {
			return nil, err
		}
		texts = append(texts, values...)
	}
	if err == nil && len(texts) == 0 {
		err = &unknownError{name}
	}
	return texts, err
}

// assigned is what a parameter or a variable is set to.
type assigned struct {
	expression ast.Expr
	stack      []*frame
}

// assignedTo returns all that a parameter or a variable of the first frame is set to.
func (p *program) assignedTo(name *ast.Ident, stack []*frame) (all []assigned, err error) {
	f := stack[0]
	variable := f.in.object(p, name)
	parameters, _ := parametersOf(f.declaration)
	for i, parameter := range parameters {
		switch {
		case variable == nil || f.in.object(p, parameter) != variable:
		case f.call == nil:
			return nil, errCaller
		default:
			all = append(all, assigned{f.call.Args[i], stack[1:]})
		}
	}
	ast.Inspect(f.declaration, func(n ast.Node) bool {
		assignment, is := n.(*ast.AssignStmt)
		if !is {
			return true
		}
		for i, to := range assignment.Lhs {
			if to, is := to.(*ast.Ident); !is || variable == nil || f.in.object(p, to) != variable {
				continue
			}
			from := assignment.Rhs[min(i, len(assignment.Rhs)-1)]
			if assignment.Tok == token.ADD_ASSIGN || len(assignment.Rhs) < len(assignment.Lhs) && i > 0 {
				from = &ast.BadExpr{}
			}
			all = append(all, assigned{from, stack})
		}
		return true
	})
	return all, nil
}

// verb is where a text is put into a format.
var verb = regexp.MustCompile(`%[#+0-9.-]*[a-zA-Z]`)

// text returns what an expression of the first frame says, with … for what differs.
func (p *program) text(expression ast.Expr, stack []*frame) (string, error) {
	switch e := expression.(type) {
	case *ast.BinaryExpr:
		texts, err := join(e, func(part ast.Expr) ([]string, error) {
			text, err := p.text(part, stack)
			return []string{text}, err
		})
		return strings.Join(texts, ""), err
	case *ast.CallExpr:
		switch calledName(e) {
		case "Sprintf":
			format, err := p.text(e.Args[0], stack)
			return verb.ReplaceAllString(strings.ReplaceAll(format, "%q", `"%s"`), "…"), err
		case "withoutCredentials":
			return p.text(e.Args[0], stack)
		}
	case *ast.Ident:
		if all, err := p.assignedTo(e, stack); err != nil {
			return "", err
		} else if len(all) == 1 {
			return p.text(all[0].expression, all[0].stack)
		} else if len(all) > 1 {
			return "…", nil
		}
	}
	texts, err := p.values(expression, stack)
	if errors.As(err, new(*unknownError)) || err == nil && len(texts) != 1 {
		return "…", nil
	}
	return strings.Join(texts, ""), err
}
