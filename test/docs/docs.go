// SPDX-License-Identifier: Apache-2.0

// Package docs reads the commands and the files that docs/install.md shows, for the tests that follow it.
package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

var indentedCommand = regexp.MustCompile(`(?m)^    ((?:kubectl|docker|metal3-apiserver/)\S*(?:.*\\\n)*.*)$`)

// InstallCommands returns the commands of docs/install.md, from the first to the last.
func InstallCommands() ([]string, error) {
	page, err := read()
	if err != nil {
		return nil, err
	}
	var commands []string
	for _, match := range indentedCommand.FindAllStringSubmatch(page, -1) {
		commands = append(commands, match[1])
	}
	if len(commands) < 20 {
		return nil, fmt.Errorf("docs/install.md has the commands %q; have they another form now?", commands)
	}
	return commands, nil
}

// InstallFile returns the file that docs/install.md shows in a block that begins with a comment with its path.
func InstallFile(path string) (string, error) {
	page, err := read()
	if err != nil {
		return "", err
	}
	_, rest, found := strings.Cut(page, "```yaml\n# "+path+"\n")
	block, _, ended := strings.Cut(rest, "```")
	if !found || !ended {
		return "", fmt.Errorf("docs/install.md has no %s", path)
	}
	return block, nil
}

// Kustomization returns my-cluster/kustomization.yaml of docs/install.md, with what a site replaces in it: the texts by which
// replacements are keyed must be there.
func Kustomization(replacements map[string]string) (string, error) {
	file, err := InstallFile("my-cluster/kustomization.yaml")
	if err != nil {
		return "", err
	}
	for from, to := range replacements {
		if !strings.Contains(file, from) {
			return "", fmt.Errorf("the kustomization of docs/install.md does not have %q", from)
		}
		file = strings.Replace(file, from, to, 1)
	}
	return file, nil
}

func read() (string, error) {
	root, err := testbed.RepoRoot()
	if err != nil {
		return "", err
	}
	content, err := os.ReadFile(filepath.Join(root, "docs", "install.md"))
	return string(content), err
}
