// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// metric is a metric as the source or docs/monitoring.md describes it.
type metric struct {
	Type string
	// Labels are the names of the labels, in order.
	Labels string
}

// documentedMetrics returns the metrics of this server that docs/monitoring.md lists.
func documentedMetrics(t *testing.T) map[string]metric {
	t.Helper()
	documented := map[string]metric{}
	row := regexp.MustCompile("(?m)^\\| `(metal3_[a-z0-9_]+)` \\| ([a-z]+) \\| ?([^|]*?) ?\\| .+ \\|$")
	for _, match := range row.FindAllStringSubmatch(readDoc(t, "../docs/monitoring.md"), -1) {
		if _, twice := documented[match[1]]; twice {
			t.Errorf("docs/monitoring.md lists %s twice", match[1])
		}
		documented[match[1]] = metric{match[2], strings.ReplaceAll(match[3], "`", "")}
	}
	return documented
}

// TestDocumentedMetrics checks that docs/monitoring.md lists every metric that the source defines,
// with its type and labels, and no other. (What a running server exposes does not include counters
// that nothing has increased yet.)
func TestDocumentedMetrics(t *testing.T) {
	defined := map[string]metric{}
	for _, top := range []string{"../pkg", "../cmd/metal3-apiserver"} {
		err := filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "/generated/") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok {
					if name, m, ok := definition(call); ok {
						defined[name] = m
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(defined, documentedMetrics(t)); diff != "" {
		t.Errorf("docs/monitoring.md does not agree with the source (-source +docs):\n%s", diff)
	}
}

// definition returns the metric that a call of a constructor of k8s.io/component-base/metrics
// defines.
func definition(call *ast.CallExpr) (name string, m metric, ok bool) {
	constructor, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !strings.HasPrefix(constructor.Sel.Name, "New") || len(call.Args) == 0 {
		return "", m, false
	}
	if pkg, ok := constructor.X.(*ast.Ident); !ok || pkg.Name != "metrics" {
		return "", m, false
	}
	if constructor.Sel.Name == "NewDesc" { // only gauges are defined in this way
		return text(call.Args[0]), metric{"gauge", labelNames(call.Args[2])}, true
	}
	reference, ok := call.Args[0].(*ast.UnaryExpr)
	if !ok {
		return "", m, false
	}
	options, ok := reference.X.(*ast.CompositeLit)
	if !ok {
		return "", m, false
	}
	fields := map[string]string{}
	for _, element := range options.Elts {
		pair := element.(*ast.KeyValueExpr)
		fields[pair.Key.(*ast.Ident).Name] = text(pair.Value)
	}
	var parts []string
	for _, field := range []string{"Namespace", "Subsystem", "Name"} {
		if fields[field] != "" {
			parts = append(parts, fields[field])
		}
	}
	kind := strings.TrimPrefix(constructor.Sel.Name, "New")
	m.Type = strings.ToLower(strings.TrimSuffix(strings.TrimSuffix(kind, "Vec"), "Func"))
	if strings.HasSuffix(kind, "Vec") {
		m.Labels = labelNames(call.Args[1])
	}
	return strings.Join(parts, "_"), m, true
}

// text returns the value of a string literal, or "" for anything else.
func text(expr ast.Expr) string {
	literal, ok := expr.(*ast.BasicLit)
	if !ok {
		return ""
	}
	value, err := strconv.Unquote(literal.Value)
	if err != nil {
		return ""
	}
	return value
}

func labelNames(expr ast.Expr) string {
	list, ok := expr.(*ast.CompositeLit)
	if !ok {
		return "" // nil
	}
	var names []string
	for _, element := range list.Elts {
		names = append(names, text(element))
	}
	return strings.Join(names, ", ")
}

// documentedOtherMetrics returns the metrics of libraries that docs/monitoring.md lists.
func documentedOtherMetrics(t *testing.T) map[string]bool {
	t.Helper()
	documented := map[string]bool{}
	ours, _, _ := strings.Cut(readDoc(t, "../docs/monitoring.md"), "### Metrics of the Bare Metal Operator")
	for _, match := range regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\| [^|]+ \\|$").FindAllStringSubmatch(ours, -1) {
		documented[match[1]] = true
	}
	return documented
}
