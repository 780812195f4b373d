// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestSBOM describes the program of this test, and collects its licenses.
func TestSBOM(t *testing.T) {
	program, folder := filepath.Join(t.TempDir(), "program"), t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := copyFile(program, self); err != nil {
		t.Fatal(err)
	}
	if err := writeSBOMs("v0.1.0", folder, []string{program}, date); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(program + ".spdx.json")
	if err != nil {
		t.Fatal(err)
	}
	var document spdxDocument
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	described := document.Packages[0]
	if described.Name != "program" || described.VersionInfo != "v0.1.0" || len(described.Checksums) != 1 || !document.CreationInfo.Created.Equal(date) {
		t.Errorf("%+v, %+v", document.CreationInfo, described)
	}
	ids := map[string]bool{documentID: true}
	licenses := map[string]string{}
	for _, p := range document.Packages {
		if ids[p.SPDXID] || !regexp.MustCompile(`^SPDXRef-[A-Za-z0-9.-]+$`).MatchString(p.SPDXID) {
			t.Errorf("the identifier %s is invalid, or there twice", p.SPDXID)
		}
		ids[p.SPDXID] = true
		licenses[p.Name] = p.LicenseDeclared
	}
	for _, r := range document.Relationships {
		if !ids[r.Element] || !ids[r.Related] {
			t.Errorf("%+v refers to something that is not there", r)
		}
	}
	// One relationship is that of the document with the program, and each package but that one is contained in the program.
	if len(document.Relationships) != len(document.Packages) {
		t.Errorf("%d relationships of %d packages", len(document.Relationships), len(document.Packages))
	}
	for name, license := range map[string]string{"sigs.k8s.io/yaml": "Apache-2.0 AND BSD-3-Clause AND MIT", standardLibrary: "BSD-3-Clause"} {
		if licenses[name] != license {
			t.Errorf("the license of %s is %q, want %q", name, licenses[name], license)
		}
		if found, err := filepath.Glob(filepath.Join(folder, name+"@*", "LICENSE")); err != nil || len(found) != 1 {
			t.Errorf("the license of %s: %q, %v", name, found, err)
		}
	}
}

func copyFile(to, from string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	return writeFile(to, func(w io.Writer) error {
		_, err := io.Copy(w, source)
		return err
	})
}

func TestNewPackage(t *testing.T) {
	described := newPackage(module{path: "github.com/Some/old", version: "v2.0.1+incompatible", sum: "h1:abc="}, "MIT")
	if id := described.SPDXID; id != "SPDXRef-Package-github.com-Some-old-v2.0.1-incompatible" {
		t.Error(id)
	}
	if purl := described.ExternalRefs[0].Locator; purl != "pkg:golang/github.com/Some/old@v2.0.1%2Bincompatible" {
		t.Error(purl)
	}
	if described.Comment != "The sum in go.sum: h1:abc=" {
		t.Error(described.Comment)
	}
}

// TestDeclared has the sentences that identify licenses, in the variants that modules have.
func TestDeclared(t *testing.T) {
	const bsd = "Redistribution and use in source and binary\nforms, with or without\nmodification, are permitted"
	for name, test := range map[string]struct {
		texts map[string]string
		want  string
	}{
		"Apache":           {map[string]string{"LICENSE": "          Apache License\n     Version 2.0, January 2004"}, "Apache-2.0"},
		"Apache, briefly":  {map[string]string{"LICENSE": "Licensed under the Apache License, Version 2.0 (the \"License\")"}, "Apache-2.0"},
		"two clauses":      {map[string]string{"LICENSE": bsd}, "BSD-2-Clause"},
		"three clauses":    {map[string]string{"LICENSE": bsd + "\n * Neither the name of\n * Google nor"}, "BSD-3-Clause"},
		"author":           {map[string]string{"LICENSE": bsd + " 3. The name of the author may not be used"}, "BSD-3-Clause"},
		"ISC":              {map[string]string{"LICENSE": "Permission to use, copy, modify, and/or distribute this software for any\npurpose with or without fee"}, "ISC"},
		"MPL":              {map[string]string{"LICENSE": "Mozilla Public License, version 2.0"}, "MPL-2.0"},
		"two":              {map[string]string{"LICENSE": "Permission is hereby granted, free of charge", "NOTICE": "Apache License, Version 2.0"}, "Apache-2.0 AND MIT"},
		"of a part":        {map[string]string{"LICENSE": "Permission is hereby granted, free of charge", "copied/LICENSE": bsd}, "MIT"},
		"of its own words": {map[string]string{"LICENSE": "Do what you want."}, noAssertion},
	} {
		t.Run(name, func(t *testing.T) {
			if license := declared(test.texts); license != test.want {
				t.Errorf("%s, want %s", license, test.want)
			}
		})
	}
}
