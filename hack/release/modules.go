// SPDX-License-Identifier: Apache-2.0

package main

import (
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// module is a Go module that is linked into a program, or Go's standard library.
type module struct {
	path, version string
	sum           string // as in go.sum
	dir           string // its sources
}

// standardLibrary is the path that vulnerability databases use for it.
const standardLibrary = "stdlib"

// linked returns what a program is made of: the module with its main package, and all others by their paths.
func linked(program string) (main module, others []module, err error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return module{}, nil, err
	}
	others = []module{{path: standardLibrary, version: strings.TrimPrefix(info.GoVersion, "go")}}
	for _, dependency := range info.Deps {
		used := dependency
		if dependency.Replace != nil {
			used = dependency.Replace
		}
		others = append(others, module{path: used.Path, version: used.Version, sum: used.Sum})
	}
	return module{path: info.Main.Path}, others, nil
}

// locate finds the sources of modules in Go's module cache, and downloads those that are not there.
func locate(modules []module) error {
	args := []string{"mod", "download", "-json"}
	for _, m := range modules {
		if m.path != standardLibrary {
			args = append(args, m.path+"@"+m.version)
		}
	}
	out, err := exec.Command("go", args...).Output()
	if err != nil {
		return fmt.Errorf("go mod download: %w\n%s", err, out)
	}
	dirs := map[string]string{}
	for decoder := json.NewDecoder(strings.NewReader(string(out))); decoder.More(); {
		var downloaded struct{ Path, Version, Dir string }
		if err := decoder.Decode(&downloaded); err != nil {
			return err
		}
		dirs[downloaded.Path+"@"+downloaded.Version] = downloaded.Dir
	}
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return err
	}
	for i, m := range modules {
		modules[i].dir = dirs[m.path+"@"+m.version]
		if m.path == standardLibrary {
			modules[i].dir = strings.TrimSpace(string(goroot))
		}
	}
	return nil
}

var licenseFile = regexp.MustCompile(`(?i)^(un)?(licen[cs]e|copying|copyright|notice|patents)`)

// licenses returns the texts of a module's licenses and notices, by their paths in it, including those of code that it has
// copied from elsewhere.
func (m module) licenses() (map[string]string, error) {
	texts := map[string]string{}
	err := fs.WalkDir(os.DirFS(m.dir), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			// Of Go's distribution, only the standard library is linked; its commands have licenses of their own.
			skipped := []string{"testdata", "vendor", "node_modules"}
			if slices.Contains(skipped, entry.Name()) || m.path == standardLibrary && path != "." {
				return fs.SkipDir
			}
			return nil
		}
		if licenseFile.MatchString(entry.Name()) && filepath.Ext(path) != ".go" {
			text, err := os.ReadFile(filepath.Join(m.dir, path))
			texts[path] = string(text)
			return err
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(texts) == 0 {
		return nil, errors.New(m.path + " has no license")
	}
	return texts, nil
}

// phrases are what identifies licenses, by their identifiers in SPDX's list.
var phrases = map[string]string{
	"Apache-2.0":   "apache license version 2.0",
	"BSD-2-Clause": "redistribution and use in source and binary forms",
	"ISC":          "permission to use, copy, modify, and distribute this software for any purpose with or without fee",
	"MIT":          "permission is hereby granted, free of charge",
	"MPL-2.0":      "mozilla public license version 2.0",
}

// noEndorsement is the third clause of BSD-3-Clause, which the variants word differently.
var noEndorsement = regexp.MustCompile(`(neither the name|the name of the author may not|nor the names of)`)

var notWords = regexp.MustCompile(`[\s*#=]+`)

// declared returns what the licenses in a module's root say, as an expression of SPDX, or noAssertion if they are none of phrases.
func declared(texts map[string]string) string {
	found := map[string]bool{}
	for path, text := range texts {
		if strings.Contains(path, "/") {
			continue
		}
		text = notWords.ReplaceAllString(strings.ToLower(text), " ")
		text = strings.NewReplacer("license, version", "license version", "and/or", "and").Replace(text)
		for id, phrase := range phrases {
			if !strings.Contains(text, phrase) {
				continue
			}
			if id == "BSD-2-Clause" && noEndorsement.MatchString(text) {
				id = "BSD-3-Clause"
			}
			found[id] = true
		}
	}
	if len(found) == 0 {
		return noAssertion
	}
	return strings.Join(slices.Sorted(maps.Keys(found)), " AND ")
}
