// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// TestPureOfTime: the time is an argument. (Which packages may be imported is in
// .depguard.yaml; time itself is imported for durations.)
func TestPureOfTime(t *testing.T) {
	clocks := map[string]bool{
		"time.Now": true, "time.Since": true, "time.Until": true, "time.After": true, "time.AfterFunc": true,
		"time.NewTimer": true, "time.NewTicker": true, "time.Sleep": true, "time.Tick": true, "metav1.Now": true, "metav1.NowMicro": true,
	}
	for _, dir := range []string{".", "../deploy"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no files in %s: %v", dir, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			set := token.NewFileSet()
			parsed, err := parser.ParseFile(set, file, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(parsed, func(n ast.Node) bool {
				if selector, ok := n.(*ast.SelectorExpr); ok {
					if pkg, ok := selector.X.(*ast.Ident); ok && clocks[pkg.Name+"."+selector.Sel.Name] {
						t.Errorf("%s reads the clock with %s.%s", set.Position(n.Pos()), pkg.Name, selector.Sel.Name)
					}
				}
				return true
			})
		}
	}
}
