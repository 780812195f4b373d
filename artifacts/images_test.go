// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
)

var imageField = regexp.MustCompile(`(?m)^[ \t-]*"?image"?:[ \t]*(\S+)`)

// TestImages checks that the manifests name no image but the placeholder, which the images of a
// kustomization replace, and that they do so in all pods: with a digest, no image is left that
// somebody could exchange.
func TestImages(t *testing.T) {
	const placeholder = "metal3-apiserver:latest"
	found := 0
	manifests := os.DirFS("apiservice")
	err := fs.WalkDir(manifests, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".yaml") {
			return err
		}
		content, err := fs.ReadFile(manifests, path)
		for _, image := range imageField.FindAllStringSubmatch(string(content), -1) {
			found++
			if image[1] != placeholder {
				t.Errorf("apiservice/%s names the image %s, want the placeholder %s", path, image[1], placeholder)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 5 {
		t.Errorf("%d images, want those of the server and of the four jobs of the migration", found)
	}
	for name, manifest := range map[string][]byte{
		"site-basic-auth": rendered(t)["site-basic-auth"],
		"migration":       renderMigration(t, "overlays/embedded-etcd", "migration-embedded-etcd"),
	} {
		images := imageField.FindAllStringSubmatch(string(manifest), -1)
		if len(images) == 0 {
			t.Errorf("%s: no images", name)
		}
		for _, image := range images {
			if image[1] != siteImage {
				t.Errorf("%s: the image %s is not the pinned one", name, image[1])
			}
		}
	}
}
