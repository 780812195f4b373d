// Package testbed starts the real things that the end-to-end tests and the demo
// run on: a kube-apiserver with its etcd, our own server behind an APIService,
// and an Ironic from Debian packages with simulated BMCs. All of it is made from
// nothing, on free ports of 127.0.0.1, and is gone when the program that started
// it ends, however it ends.
package testbed

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const modulePath = "github.com/metal3-io/metal3-apiserver"

// RepoRoot is the folder of our go.mod, looked for from the working directory
// upwards: the programs in bin/ and the scripts in test/ironic/ are below it.
func RepoRoot() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		content, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(content), "module "+modulePath+"\n") {
			return dir, nil
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("%s is not inside a checkout of %s", start, modulePath)
		}
	}
}

// builtProgram is the path of a program in bin/ of the checkout.
func builtProgram(name, howToBuild string) (string, error) {
	root, err := RepoRoot()
	if err != nil {
		return "", err
	}
	path := filepath.Join(root, "bin", name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%w: build it with %s", err, howToBuild)
	}
	return path, nil
}
