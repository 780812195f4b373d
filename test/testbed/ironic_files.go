// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
)

// ServedFile returns the content of a file at a URL that Ironic has given a BMC for a virtual drive.
// The web server that belongs to a complete installation does not run here.
func (i *DebianIronic) ServedFile(fileURL string) ([]byte, error) {
	parsed, err := url.Parse(fileURL)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(i.state, "http", filepath.FromSlash(parsed.Path))
	// The link, if it is one, is that of a process whose root is i.root.
	if target, err := os.Readlink(path); err == nil && filepath.IsAbs(target) {
		path = filepath.Join(i.root, target)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("Ironic does not serve %s: %w", fileURL, err)
	}
	return content, nil
}
