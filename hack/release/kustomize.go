// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"regexp"
	"time"
)

const placeholder = "metal3-apiserver:latest"

var (
	digestForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	imageField = regexp.MustCompile(`(?m)^([ -]*image: metal3-apiserver):latest$`)
)

// packPinned is pack for kustomizations. Each manifest in the archive names the image by its digest, because a kustomization cannot pin
// what components add later. The name stays, also if a publisher has another one: by it, the kustomizations of users replace the image.
func packPinned(archive, folder, digest string, paths []string, date time.Time) error {
	if !digestForm.MatchString(digest) {
		return fmt.Errorf("%q is no digest", digest)
	}
	files, err := filesOf(folder, paths)
	if err != nil {
		return err
	}
	pinned := 0
	for name, file := range files {
		if path.Ext(name) != ".yaml" {
			continue
		}
		data, err := os.ReadFile(file.path)
		if err != nil {
			return err
		}
		pinned += len(imageField.FindAll(data, -1))
		file.data, file.path = imageField.ReplaceAll(data, []byte("${1}@"+digest)), ""
		if bytes.Contains(file.data, []byte(placeholder)) {
			return fmt.Errorf("%s names %s in a form that is not known here", name, placeholder)
		}
		files[name] = file
	}
	if pinned == 0 {
		return fmt.Errorf("no manifest in %s names %s", folder, placeholder)
	}
	return writeArchive(archive, files, date)
}
