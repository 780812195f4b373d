// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// watchCache is the server's --watch-cache.
var watchCache = true

// seesCache reports for each file with tests whether the watch cache can make a difference to them: to lists, watches,
// resourceVersions, and writes, which begin with the object that the cache has. These tests run again without it. For
// the others, it is of no importance where the server reads: they are about admission, printing, or what clients do
// with an object of their own.
var seesCache = map[string]bool{
	"admission_copies_test.go":   false,
	"admission_down_test.go":     false,
	"admission_policy_test.go":   false,
	"admission_webhook_test.go":  false,
	"attachments_test.go":        true, // lists of hosts decide about a deletion
	"capm3_external_test.go":     false,
	"capm3_machine_test.go":      false,
	"capm3_move_test.go":         false,
	"capm3_program_test.go":      false,
	"clientgo_history_test.go":   true,
	"clientgo_informer_test.go":  true,
	"clientgo_kinds_test.go":     true,
	"clientgo_list_test.go":      true,
	"clientgo_namespace_test.go": true,
	"clientgo_restart_test.go":   true,
	"clientgo_resume_test.go":    true,
	"clientgo_watch_test.go":     true,
	"discovery_test.go":          true, // lists as tables
	"examples_test.go":           false,
	"gitops_test.go":             true, // a read must not be older than a write
	"kubectl_crd_test.go":        false,
	"kubectl_diff_test.go":       false,
	"kubectl_read_test.go":       true,
	"kubectl_tell_test.go":       false,
	"kubectl_watch_test.go":      true,
	"ownership_test.go":          false, // the garbage collector's informers are those of clientgo_informer_test.go
	"pages_test.go":              false, // the pages are about what commands do
	"quota_kinds_test.go":        false,
	"quota_test.go":              false, // so are those of the quota controller
	"runtime_manager_test.go":    true,
	"tutorials_capi_test.go":     false,
	"tutorials_cluster_test.go":  false,
	"tutorials_move_test.go":     false,
	"tutorials_test.go":          false,
	"watchcache_test.go":         false,
	"webpages_test.go":           false,
}

// testsByFile returns the tests of this package by their files.
func testsByFile() (map[string][]string, error) {
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		return nil, err
	}
	tests := map[string][]string{}
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, decl := range file.Decls {
			function, ok := decl.(*ast.FuncDecl)
			if ok && strings.HasPrefix(function.Name.Name, "Test") && function.Name.Name != "TestMain" {
				tests[path] = append(tests[path], function.Name.Name)
			}
		}
	}
	return tests, nil
}

// TestEachFileIsInSeesCache: for each file with tests, somebody has decided whether its tests run without the watch cache.
func TestEachFileIsInSeesCache(t *testing.T) {
	tests, err := testsByFile()
	if err != nil {
		t.Fatal(err)
	}
	for file := range tests {
		if _, known := seesCache[file]; !known {
			t.Errorf("%s is not in seesCache: if its tests list, watch, or depend on a resourceVersion, add it with true", file)
		}
	}
	for file := range seesCache {
		if tests[file] == nil {
			t.Errorf("seesCache has %s, which has no tests", file)
		}
	}
}

// withAndWithoutCache runs all tests, and those of seesCache again on a server without watch cache.
type withAndWithoutCache struct{ testbed.Runner }

func (r withAndWithoutCache) Run() int {
	code := r.Runner.Run()
	if flag.Lookup("test.list").Value.String() != "" {
		return code
	}
	if err := disableCache(); err != nil {
		fmt.Fprintf(os.Stderr, "contract: without the watch cache: %v\n", err)
		return 1
	}
	fmt.Println("contract: again, without the watch cache")
	return cmp.Or(code, r.Runner.Run())
}

// disableCache restarts the server, and limits the tests to those that run without watch cache.
func disableCache() error {
	tests, err := testsByFile()
	if err != nil {
		return err
	}
	var skip []string
	for file, names := range tests {
		if !seesCache[file] {
			skip = append(skip, names...)
		}
	}
	slices.Sort(skip)
	pattern := "^(" + strings.Join(skip, "|") + ")$"
	if given := flag.Lookup("test.skip").Value.String(); given != "" {
		pattern = given + "|" + pattern
	}
	if err := flag.Set("test.skip", pattern); err != nil {
		return err
	}
	watchCache = false
	ctx, cancel := context.WithTimeout(context.Background(), testbed.Patience)
	defer cancel()
	return s.Server.Restart(ctx, serverArgs()...)
}
