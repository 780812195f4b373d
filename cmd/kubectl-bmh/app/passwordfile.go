// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/inventory"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
)

// maxPassword is the largest file that is read as a password, in bytes.
const maxPassword = 4096

// readPasswordFile reads a password from a file. The line break at its end is no part of it. The
// errors do not contain what was read.
func readPasswordFile(dir, name string) (string, error) {
	if !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	info, err := os.Stat(name)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() && info.Mode()&os.ModeNamedPipe == 0 && info.Mode()&os.ModeCharDevice == 0 {
		return "", fmt.Errorf("%s is no file", name)
	}
	if info.Size() > maxPassword {
		return "", fmt.Errorf("%s has %d bytes, which is too long for a password", name, info.Size())
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	return cleanPassword(string(data), name)
}

// cleanPassword removes the line break at the end of a password, and refuses what cannot be one.
func cleanPassword(password, source string) (string, error) {
	password = strings.TrimSuffix(strings.TrimSuffix(password, "\n"), "\r")
	if password == "" {
		return "", fmt.Errorf("%s: the password is empty", source)
	}
	if wrong := bmc.Unsendable(password); wrong != "" {
		return "", fmt.Errorf("%s: the password %s", source, wrong)
	}
	return password, nil
}

// passwordFilesIn returns what reads password files whose names are relative to a folder.
func passwordFilesIn(dir string) inventory.PasswordReader {
	return func(name string) (string, error) { return readPasswordFile(dir, name) }
}
