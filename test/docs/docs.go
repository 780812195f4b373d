// SPDX-License-Identifier: Apache-2.0

// Package docs reads the commands and the files that pages of docs/ show, for the tests that follow them.
package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// UsersPages are the tutorials for a cluster on which the server is installed, with the addresses of the BMCs that they name.
// `make demo` has such machines, too.
var UsersPages = map[string][]string{
	"first-host": {"ipmi://192.0.2.31"},
	"rack":       {"ipmi://192.0.2.70", "ipmi://192.0.2.71", "ipmi://192.0.2.72"},
	"tenants":    {"ipmi://192.0.2.90"},
}

// The credentials of these BMCs.
const (
	User     = "admin"
	Password = "s3cret"
)

// Commands returns the commands of docs/PAGE, from the first to the last. There are at least as many as a test expects.
func Commands(page string, least int) ([]Command, error) {
	content, err := read(page)
	if err != nil {
		return nil, err
	}
	commands := commandsOf(content)
	if len(commands) < least {
		return nil, fmt.Errorf("docs/%s has %d commands; have they another form now?", page, len(commands))
	}
	return commands, nil
}

// One returns the command of docs/PAGE that begins so, with the lines in which it goes on.
func One(page, beginning string) (Command, error) {
	commands, err := Commands(page, 1)
	if err != nil {
		return Command{}, err
	}
	i := slices.IndexFunc(commands, func(c Command) bool { return strings.HasPrefix(c.Text, beginning) })
	if i < 0 {
		return Command{}, fmt.Errorf("docs/%s has no command %q", page, beginning)
	}
	return commands[i], nil
}

// InstallCommands returns the commands of docs/install.md, from the first to the last.
func InstallCommands() ([]Command, error) { return Commands("install.md", 20) }

// InstallFile returns the file that docs/install.md shows in a block that begins with a comment with its path.
func InstallFile(path string) (string, error) { return block("install.md", "# "+path+"\n") }

// MigrationComponent returns the line that docs/migration.md adds to the components of a kustomization.
func MigrationComponent() (string, error) { return block("migration.md", "") }

// block returns what follows the beginning of the first block of YAML on docs/PAGE that begins so.
func block(page, beginning string) (string, error) {
	content, err := read(page)
	if err != nil {
		return "", err
	}
	_, rest, found := strings.Cut(content, "```yaml\n"+beginning)
	block, _, ended := strings.Cut(rest, "```")
	if !found || !ended {
		return "", fmt.Errorf("docs/%s has no block of YAML that begins with %q", page, beginning)
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

func read(page string) (string, error) {
	root, err := testbed.RepoRoot()
	if err != nil {
		return "", err
	}
	content, err := os.ReadFile(filepath.Join(root, "docs", page))
	return string(content), err
}
