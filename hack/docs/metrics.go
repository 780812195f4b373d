// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
)

// metrics returns a page with all metrics that the server defines. (What a running server exposes does not include counters
// that nothing has increased yet.)
func metrics() (string, error) {
	p, err := parseServer()
	if err != nil {
		return "", err
	}
	var rows [][]string
	for _, pkg := range p.packages {
		for _, file := range pkg.files {
			library := nameOf(file, "k8s.io/component-base/metrics")
			ast.Inspect(file, func(n ast.Node) bool {
				call, is := n.(*ast.CallExpr)
				if !is || err != nil {
					return err == nil
				}
				if library == "" || !isFrom(call.Fun, library) || !strings.HasPrefix(selected(call.Fun), "New") {
					return true
				}
				row, isRead := metric(selected(call.Fun), call.Args)
				switch {
				case !isRead:
					err = fmt.Errorf("%s: this metric cannot be read", p.set.Position(call.Pos()))
				case row != nil:
					rows = append(rows, row)
				}
				return true
			})
		}
	}
	if err != nil {
		return "", err
	}
	slices.SortFunc(rows, func(a, b []string) int { return strings.Compare(strings.Trim(a[0], "`"), strings.Trim(b[0], "`")) })
	content, err := table([]string{"Metric", "Type", "Labels", "Stability", "Meaning"}, rows)
	return "# Metrics\n\nThis page is made of the code. [Monitoring](../monitoring.md#metrics) says how to use them.\n\n" + content, err
}

// metric returns the row of the metric that a call of a constructor of k8s.io/component-base/metrics defines; nil if it
// defines none. It also reports whether it can read the call.
func metric(constructor string, args []ast.Expr) (row []string, isRead bool) {
	switch constructor {
	case "NewLazyConstMetric": // the value of a metric of NewDesc, which are all taken for gauges
		return nil, selected(args[1]) == "GaugeValue"
	case "NewDesc":
		name, is := literal(args[0])
		row, isRead = metricRow(name, "gauge", args[2], args[4], args[1])
		return row, is && isRead
	}
	kind, isVector := strings.CutSuffix(strings.TrimPrefix(constructor, "New"), "Vec")
	kind = strings.TrimSuffix(kind, "Func")
	options := fieldsOf(args[0])
	if options == nil || !slices.Contains([]string{"Counter", "Gauge", "Histogram"}, kind) {
		return nil, false
	}
	var name []string
	for _, field := range []string{"Namespace", "Subsystem", "Name"} {
		if part, is := literal(options[field]); is {
			name = append(name, part)
		} else if options[field] != nil {
			return nil, false
		}
	}
	var labels ast.Expr = ast.NewIdent("nil")
	if isVector {
		labels = args[1]
	}
	return metricRow(strings.Join(name, "_"), strings.ToLower(kind), labels, options["StabilityLevel"], options["Help"])
}

func metricRow(name, kind string, labels, stability, help ast.Expr) (row []string, isRead bool) {
	text, isText := literal(help)
	names, isList := labelNames(labels)
	return []string{"`" + name + "`", kind, names, selected(stability), cell(text)}, isText && isList
}

func labelNames(expression ast.Expr) (names string, isRead bool) {
	list, is := expression.(*ast.CompositeLit)
	if !is {
		none, is := expression.(*ast.Ident)
		return "none", is && none.Name == "nil"
	}
	var all []string
	for _, element := range list.Elts {
		name, is := literal(element)
		if !is {
			return "", false
		}
		all = append(all, "`"+name+"`")
	}
	return strings.Join(all, ", "), true
}
