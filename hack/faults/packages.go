// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
)

// goPackage is what go list says of a package.
type goPackage struct {
	ImportPath                         string
	Imports, TestImports, XTestImports []string
	TestGoFiles, XTestGoFiles          []string
}

func (p *goPackage) hasTests() bool { return len(p.TestGoFiles)+len(p.XTestGoFiles) > 0 }

// packages are those of pkg/ and cmd/.
type packages struct {
	module string
	all    []*goPackage
}

func listPackages() (*packages, error) {
	module, err := exec.Command("go", "list", "-m").Output()
	if err != nil {
		return nil, err
	}
	listed, err := exec.Command("go", "list", "-json", "./pkg/...", "./cmd/...").Output()
	if err != nil {
		return nil, err
	}
	p := &packages{module: strings.TrimSpace(string(module))}
	decoder := json.NewDecoder(bytes.NewReader(listed))
	for {
		pkg := &goPackage{}
		if err := decoder.Decode(pkg); errors.Is(err, io.EOF) {
			return p, nil
		} else if err != nil {
			return nil, err
		}
		p.all = append(p.all, pkg)
	}
}

// thatMayNotice returns the packages with tests that a change of the package in a directory
// reaches: first itself, then those that import it, then those that import these, and so on.
func (p *packages) thatMayNotice(dir string) (levels [][]string) {
	reached := map[string]bool{}
	next := []string{p.module + "/" + dir}
	for len(next) > 0 {
		for _, path := range next {
			reached[path] = true
		}
		var level []string
		for _, path := range next {
			if pkg := p.find(path); pkg != nil && pkg.hasTests() {
				level = append(level, path)
			}
		}
		if len(level) > 0 {
			levels = append(levels, level)
		}
		var importers []string
		for _, pkg := range p.all {
			if !reached[pkg.ImportPath] && pkg.importsAny(next) {
				importers = append(importers, pkg.ImportPath)
			}
		}
		next = importers
	}
	return levels
}

func (p *packages) find(path string) *goPackage {
	for _, pkg := range p.all {
		if pkg.ImportPath == path {
			return pkg
		}
	}
	return nil
}

func (p *goPackage) importsAny(paths []string) bool {
	for _, path := range paths {
		for _, imports := range [][]string{p.Imports, p.TestImports, p.XTestImports} {
			for _, imported := range imports {
				if imported == path {
					return true
				}
			}
		}
	}
	return false
}
