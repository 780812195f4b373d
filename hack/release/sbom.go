// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// The parts of SPDX 2.3 that describe a program and what is linked into it.
type (
	spdxDocument struct {
		SPDXVersion       string             `json:"spdxVersion"`
		DataLicense       string             `json:"dataLicense"`
		SPDXID            string             `json:"SPDXID"`
		Name              string             `json:"name"`
		DocumentNamespace string             `json:"documentNamespace"`
		CreationInfo      spdxCreation       `json:"creationInfo"`
		Packages          []spdxPackage      `json:"packages"`
		Relationships     []spdxRelationship `json:"relationships"`
	}
	spdxCreation struct {
		Created  time.Time `json:"created"`
		Creators []string  `json:"creators"`
	}
	spdxPackage struct {
		SPDXID           string          `json:"SPDXID"`
		Name             string          `json:"name"`
		VersionInfo      string          `json:"versionInfo"`
		DownloadLocation string          `json:"downloadLocation"`
		FilesAnalyzed    bool            `json:"filesAnalyzed"`
		LicenseConcluded string          `json:"licenseConcluded"`
		LicenseDeclared  string          `json:"licenseDeclared"`
		CopyrightText    string          `json:"copyrightText"`
		PrimaryPurpose   string          `json:"primaryPackagePurpose"`
		Comment          string          `json:"comment,omitempty"`
		Checksums        []spdxChecksum  `json:"checksums,omitempty"`
		ExternalRefs     []spdxReference `json:"externalRefs"`
	}
	spdxChecksum struct {
		Algorithm string `json:"algorithm"`
		Value     string `json:"checksumValue"`
	}
	spdxReference struct {
		Category string `json:"referenceCategory"`
		Type     string `json:"referenceType"`
		Locator  string `json:"referenceLocator"`
	}
	spdxRelationship struct {
		Element string `json:"spdxElementId"`
		Type    string `json:"relationshipType"`
		Related string `json:"relatedSpdxElement"`
	}
)

const (
	noAssertion = "NOASSERTION"
	documentID  = "SPDXRef-DOCUMENT"
)

// writeSBOMs writes PROGRAM.spdx.json for each program, and the licenses of everything that is linked into them to a folder,
// in MODULE@VERSION.
func writeSBOMs(version, licenses string, programs []string, date time.Time) error {
	written := map[string]string{} // what the modules declare, by module and version
	for _, program := range programs {
		main, others, err := linked(program)
		if err != nil {
			return err
		}
		if err := locate(others); err != nil {
			return err
		}
		for _, m := range others {
			name := m.path + "@" + m.version
			if written[name] != "" {
				continue
			}
			texts, err := m.licenses()
			if err != nil {
				return err
			}
			written[name] = declared(texts)
			for path, text := range texts {
				path = filepath.Join(licenses, name, path)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					return err
				}
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					return err
				}
			}
		}
		data, err := os.ReadFile(program)
		if err != nil {
			return err
		}
		main.version, main.sum = version, fmt.Sprintf("%x", sha256.Sum256(data))
		document := sbom(filepath.Base(program), main, others, written, date)
		text, err := json.MarshalIndent(document, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(program+".spdx.json", append(text, '\n'), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// sbom describes a program. The sum of its main module is the SHA-256 of the program.
func sbom(program string, main module, others []module, licenses map[string]string, date time.Time) spdxDocument {
	described := newPackage(main, "Apache-2.0")
	described.Name, described.PrimaryPurpose = program, "APPLICATION"
	described.Comment, described.Checksums = "", []spdxChecksum{{"SHA256", main.sum}}
	document := spdxDocument{
		SPDXVersion: "SPDX-2.3",
		DataLicense: "CC0-1.0",
		SPDXID:      documentID,
		Name:        program + "-" + main.version,
		// A document has to have a name of its own in the world. Nothing need be there.
		DocumentNamespace: "https://" + main.path + "/spdx/" + program + "-" + main.version + "-" + main.sum,
		CreationInfo:      spdxCreation{date, []string{"Tool: metal3-apiserver-hack-release"}},
		Packages:          []spdxPackage{described},
		Relationships:     []spdxRelationship{{documentID, "DESCRIBES", described.SPDXID}},
	}
	for _, m := range others {
		contained := newPackage(m, licenses[m.path+"@"+m.version])
		document.Packages = append(document.Packages, contained)
		document.Relationships = append(document.Relationships, spdxRelationship{described.SPDXID, "CONTAINS", contained.SPDXID})
	}
	return document
}

// notInID are the characters that an identifier of SPDX cannot have.
var notInID = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

func newPackage(m module, license string) spdxPackage {
	described := spdxPackage{
		SPDXID:           "SPDXRef-Package-" + notInID.ReplaceAllString(m.path+"-"+m.version, "-"),
		Name:             m.path,
		VersionInfo:      m.version,
		DownloadLocation: noAssertion,
		LicenseConcluded: noAssertion,
		LicenseDeclared:  license,
		CopyrightText:    noAssertion,
		PrimaryPurpose:   "LIBRARY",
		// In the version of a package URL, a + has to be escaped.
		ExternalRefs: []spdxReference{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + m.path + "@" + strings.ReplaceAll(m.version, "+", "%2B")}},
	}
	if m.sum != "" {
		// Not a checksum of SPDX: it is of a list of the files, in base64.
		described.Comment = "The sum in go.sum: " + m.sum
	}
	return described
}
