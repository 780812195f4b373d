// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/metal3-io/metal3-apiserver/cmd/metal3-apiserver/app"
	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/docs"
)

func readDoc(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// TestDocumentedFlags checks that the tables of docs/configuration.md list all flags about
// Ironic, and that each documented flag exists and has the documented default.
func TestDocumentedFlags(t *testing.T) {
	t.Setenv("IRONIC_ENDPOINT", "")
	flags := app.NewOptions().Flags()
	all := pflag.NewFlagSet("all", pflag.ContinueOnError)
	for _, group := range flags.FlagSets {
		all.AddFlagSet(group)
	}
	documented := map[string]bool{}
	// The rows with two columns are flags of the Bare Metal Operator.
	row := regexp.MustCompile("(?m)^\\| `--([a-z-]+)` \\|([^|\n]*)\\|[^|\n]*\\|")
	for _, match := range row.FindAllStringSubmatch(readDoc(t, "../docs/configuration.md"), -1) {
		name, value := match[1], strings.TrimSpace(match[2])
		documented[name] = true
		flag := all.Lookup(name)
		if flag == nil {
			t.Errorf("there is no flag --%s", name)
			continue
		}
		if quoted := strings.Trim(value, "`"); quoted != value && !strings.HasPrefix(quoted, "$") && quoted != flag.DefValue {
			t.Errorf("the default of --%s is %s, documented is %s", name, flag.DefValue, quoted)
		}
	}
	flags.FlagSet("Ironic").VisitAll(func(flag *pflag.Flag) {
		if !documented[flag.Name] {
			t.Errorf("--%s is not documented", flag.Name)
		}
	})
}

// TestDocumentedPathsExist looks for the files and folders that the documents name.
func TestDocumentedPathsExist(t *testing.T) {
	docs, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	manifests := regexp.MustCompile(`artifacts/apiservice[\w./-]*`)
	anything := regexp.MustCompile(`(?:artifacts|cmd|docs|hack|pkg|test)/[\w./-]*`)
	paths := map[string]*regexp.Regexp{"../CONTRIBUTING.md": anything, "../README.md": manifests}
	for _, doc := range docs {
		paths[doc] = manifests
	}
	for doc, path := range paths {
		for _, found := range path.FindAllString(readDoc(t, doc), -1) {
			if _, err := os.Stat(filepath.Join("..", strings.TrimRight(found, "."))); err != nil {
				t.Errorf("%s: %v", doc, err)
			}
		}
	}
}

// TestDocumentedFolders checks that the table of docs/design.md lists every folder that contains code,
// and no other folder.
func TestDocumentedFolders(t *testing.T) {
	documented := map[string]bool{}
	_, section, _ := strings.Cut(readDoc(t, "../docs/design.md"), "\n## Where things are\n")
	for _, match := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(section, -1) {
		documented[match[1]] = true
		if info, err := os.Stat(filepath.Join("..", match[1])); err != nil || !info.IsDir() {
			t.Errorf("docs/design.md names %s, which is not a folder: %v", match[1], err)
		}
	}
	for _, top := range []string{"cmd", "hack", "pkg", "test"} {
		err := filepath.WalkDir(filepath.Join("..", top), func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			folder, _ := filepath.Rel("..", filepath.Dir(path))
			switch {
			case entry.IsDir() && (entry.Name() == "testdata" || filepath.Base(folder)+"/"+entry.Name() == "pkg/generated"):
				return filepath.SkipDir
			case entry.IsDir() || documented[folder]:
			case strings.HasSuffix(path, ".go") || strings.HasSuffix(path, ".sh"):
				documented[folder] = true // one error is enough
				t.Errorf("docs/design.md does not list %s", folder)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// TestPromisesAreHeld checks that docs/promises.md names tests only that there are, in the packages that it says.
func TestPromisesAreHeld(t *testing.T) {
	packages := testsOf(t, "cmd", "pkg", "test")
	// In a cell, a list of packages in parentheses follows their tests; some are everywhere, or named alone.
	named := regexp.MustCompile("`(Test\\w+)`|\\(([a-z0-9, -]+)\\)")
	count := 0
	for _, row := range strings.Split(readDoc(t, "../docs/promises.md"), "\n") {
		var tests []string
		for _, match := range named.FindAllStringSubmatch(row, -1) {
			if test := match[1]; test != "" {
				count++
				tests = append(tests, test)
				if packages[test] == nil {
					t.Errorf("docs/promises.md names %s, which is no test", test)
				}
				continue
			}
			for _, test := range tests {
				if in := packages[test]; in != nil && !isInOneOf(in, strings.Split(match[2], ", ")) {
					t.Errorf("docs/promises.md says that %s is in %s, and it is in %s", test, match[2], strings.Join(in, ", "))
				}
			}
			tests = nil
		}
	}
	if count < 100 {
		t.Errorf("docs/promises.md names %d tests only: is it read right?", count)
	}
}

// testsOf returns the packages of the tests in these folders, by the tests' names.
func testsOf(t *testing.T, folders ...string) map[string][]string {
	t.Helper()
	packages := map[string][]string{}
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	for _, top := range folders {
		err := filepath.WalkDir(filepath.Join("..", top), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			for _, match := range function.FindAllStringSubmatch(readDoc(t, path), -1) {
				packages[match[1]] = append(packages[match[1]], filepath.ToSlash(filepath.Dir(path)))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return packages
}

// isInOneOf reports whether one of the folders is in one of the packages, of which only a part of the path is known.
func isInOneOf(folders, packages []string) bool {
	for _, folder := range folders {
		for _, name := range packages {
			if strings.Contains(folder+"/", "/"+name+"/") {
				return true
			}
		}
	}
	return false
}

// TestChangelogNamesWhatCannotGoBack checks that the first section of CHANGELOG.md has the record epoch of this code, and the minor
// version of its etcd, which starts with no data of a later one: whoever updates has to know whether they were raised.
func TestChangelogNamesWhatCannotGoBack(t *testing.T) {
	etcd := regexp.MustCompile(`go\.etcd\.io/etcd/server/v3 v(\d+\.\d+)\.`).FindStringSubmatch(readDoc(t, "../go.mod"))
	if etcd == nil {
		t.Fatal("which etcd?")
	}
	want := fmt.Sprintf("Record epoch: %d. etcd: %s.", metal3.RecordEpoch, etcd[1])
	if _, unreleased, _ := strings.Cut(readDoc(t, "../CHANGELOG.md"), "\n## "); !strings.Contains(strings.SplitN(unreleased, "\n### ", 2)[0], want) {
		t.Errorf("the first section of CHANGELOG.md does not say %q", want)
	}
}

// TestBindingsOfTheMoment: what a document has somebody create, and delete again, is not what an installation has. To delete that would
// take the server's rights away.
func TestBindingsOfTheMoment(t *testing.T) {
	docs, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	created := map[string]string{}
	for _, doc := range docs {
		for _, match := range regexp.MustCompile(`kubectl create clusterrolebinding (\S+)`).FindAllStringSubmatch(readDoc(t, doc), -1) {
			created[match[1]] = doc
		}
	}
	if len(created) == 0 {
		t.Error("no document creates a ClusterRoleBinding any more: remove this test")
	}
	forEach(t, func(t *testing.T, objs objects) {
		for name, doc := range created {
			if named[*rbacv1.ClusterRoleBinding](objs, name) != nil {
				t.Errorf("%s has the ClusterRoleBinding %s created, which the installation has", doc, name)
			}
		}
	})
}

// TestEveryCommandIsRun: each command of the README and of docs/ is run by a test, or docs.Runs says why by none.
func TestEveryCommandIsRun(t *testing.T) {
	all, err := docs.All()
	if err != nil {
		t.Fatal(err)
	}
	tests := testsOf(t, "artifacts", "cmd", "hack", "pkg", "test")
	commands, unrun, used := 0, 0, map[docs.Run]bool{}
	for page, shown := range all {
		for _, command := range shown {
			commands++
			var best *docs.Run
			for i, run := range docs.Runs {
				if run.Page == page && strings.HasPrefix(command.Text, run.Begins) && (best == nil || len(run.Begins) > len(best.Begins)) {
					best = &docs.Runs[i]
				}
			}
			if best == nil {
				t.Errorf("%s:%d: who runs %q? Say it in test/docs/runs.go", page, command.Line, command.Text)
				continue
			}
			used[*best] = true
			if best.Test == "" {
				unrun++
			}
		}
	}
	for _, run := range docs.Runs {
		switch {
		case !used[run]:
			t.Errorf("%s has no command %q any more, or others of docs.Runs are about each", run.Page, run.Begins)
		case run.Test == "" && run.Why == "":
			t.Errorf("%s: nobody runs %q, and nobody says why", run.Page, run.Begins)
		case run.Test != "" && tests[run.Test] == nil:
			t.Errorf("%s: there is no test %s, which is said to run %q", run.Page, run.Test, run.Begins)
		}
	}
	t.Logf("%d commands, of which %d are run by no test", commands, unrun)
	if commands < 300 || unrun > maxUnrun {
		t.Errorf("%d of %d commands are run by no test, want at most %d of 300 or more", unrun, commands, maxUnrun)
	}
}

// maxUnrun is how many commands no test runs. It can only become less.
const maxUnrun = 35
