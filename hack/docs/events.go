// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strings"
)

type event struct{ kind, reason, eventType, message string }

// events returns a page with all events that the server records.
func events() (string, error) {
	p, err := parseServer()
	if err != nil {
		return "", err
	}
	found, err := p.events()
	if err != nil {
		return "", err
	}
	page := &strings.Builder{}
	page.WriteString("# Events\n\nThis page is made of the code. `…` stands for what differs, such as a name or the text of an error.\n")
	var rows [][]string
	for i, e := range found {
		rows = append(rows, []string{"`" + e.reason + "`", e.eventType, cell(e.message)})
		if i < len(found)-1 && found[i+1].kind == e.kind {
			continue
		}
		content, err := table([]string{"Reason", "Type", "Message"}, rows)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(page, "\n## %s\n\n%s", e.kind, content)
		rows = nil
	}
	return page.String(), nil
}

// eventsFolder has the type Event. What it makes itself is about hosts.
const eventsFolder = "pkg/ironicsync/events"

// events returns what the literals of Event in the program can be. It fails if it cannot read one.
func (p *program) events() ([]event, error) {
	found := map[event]bool{}
	var problems []error
	for _, pkg := range p.packages {
		for _, file := range pkg.files {
			for _, declaration := range file.Decls {
				for _, made := range eventsIn(pkg, file, declaration) {
					if err := p.readEvent(made, found); err != nil {
						problems = append(problems, fmt.Errorf("%s: this event cannot be read: %w", p.set.Position(made.position), err))
					}
				}
			}
		}
	}
	return slices.SortedFunc(maps.Keys(found), func(a, b event) int {
		return cmp.Or(strings.Compare(strings.ToLower(a.kind), strings.ToLower(b.kind)), strings.Compare(a.reason, b.reason), strings.Compare(a.message, b.message))
	}), errors.Join(problems...)
}

// madeEvent is an event in the code.
type madeEvent struct {
	position token.Pos
	in       *frame
	// These are nil if they are not written there.
	kind, reason, eventType, message ast.Expr
}

// eventsIn returns the events that a declaration makes.
func eventsIn(pkg *code, file *ast.File, declaration ast.Decl) (all []madeEvent) {
	library := nameOf(file, module+"/"+eventsFolder)
	isEvent := func(expression ast.Expr) bool {
		if pkg.folder == eventsFolder {
			name, is := expression.(*ast.Ident)
			return is && name.Name == "Event"
		}
		return library != "" && isFrom(expression, library) && selected(expression) == "Event"
	}
	kinds := map[ast.Expr]ast.Expr{} // of the objects that events are recorded about
	ast.Inspect(declaration, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if selected(n.Fun) == "RecordObject" {
				if reference, is := n.Args[0].(*ast.CallExpr); is && selected(reference.Fun) == "ReferenceTo" {
					kinds[n.Args[1]] = reference.Args[0]
				}
			} else if strings.HasSuffix(selected(n.Fun), "Eventf") && pkg.folder != eventsFolder {
				all = append(all, madeEvent{position: n.Pos()}) // by client-go
			}
		case *ast.CompositeLit:
			if list, is := n.Type.(*ast.ArrayType); is && isEvent(list.Elt) && len(n.Elts) > 0 {
				all = append(all, madeEvent{position: n.Pos()})
			}
			if !isEvent(n.Type) {
				break
			}
			fields := fieldsOf(n)
			made := madeEvent{position: n.Pos(), in: newFrame(pkg, declaration), kind: kinds[n], reason: fields["Reason"], eventType: fields["Type"], message: fields["Message"]}
			if pkg.folder == eventsFolder {
				made.kind = &ast.BasicLit{Kind: token.STRING, Value: `"BareMetalHost"`}
			}
			all = append(all, made)
		}
		return true
	})
	return all
}

var severalHoles = regexp.MustCompile("……+")

// readEvent adds what an event can be.
func (p *program) readEvent(made madeEvent, found map[event]bool) error {
	if made.kind == nil || made.reason == nil || made.eventType == nil || made.message == nil {
		return errors.New("its kind of object, reason, type or message is not written where it is made")
	}
	return p.inAllCalls([]*frame{made.in}, func(stack []*frame) error {
		kinds, err := p.values(made.kind, stack)
		if err != nil {
			return err
		}
		reasons, err := p.values(made.reason, stack)
		if err != nil {
			return err
		}
		eventTypes, err := p.values(made.eventType, stack)
		if err != nil {
			return err
		}
		message, err := p.text(made.message, stack)
		if err != nil {
			return err
		}
		message = severalHoles.ReplaceAllString(message, "…")
		for _, kind := range kinds {
			for _, reason := range reasons {
				for _, eventType := range eventTypes {
					found[event{kind, reason, eventType, message}] = true
				}
			}
		}
		return nil
	})
}
