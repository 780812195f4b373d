// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/metal3-io/metal3-apiserver/test/docs"
)

// releaseDigest is that of the image of a release.
const releaseDigest = "sha256:5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d73a27fb57e9"

// makeRelease has hack/release make a part of a release, as hack/release.sh does.
func makeRelease(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"run", "../hack/release"}, args...)...)
	cmd.Env = append(cmd.Environ(), "SOURCE_DATE_EPOCH=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("release %s: %v\n%s", args[0], err, out)
	}
}

// packedFolders returns the folders that hack/release.sh packs into the archive of kustomizations.
func packedFolders(t *testing.T) []string {
	t.Helper()
	packed := regexp.MustCompile(`(?m)_kustomize\.tar\.gz" artifacts "\$digest" (.*)$`).FindStringSubmatch(readDoc(t, "../hack/release.sh"))
	if packed == nil {
		t.Fatal("hack/release.sh packs no manifests")
	}
	return strings.Fields(packed[1])
}

// unpackRelease makes the archive of kustomizations that a release has, and unpacks it into a folder.
func unpackRelease(t *testing.T, folder string) {
	t.Helper()
	archive := filepath.Join(t.TempDir(), "kustomize.tar.gz")
	makeRelease(t, append([]string{"kustomize", archive, ".", releaseDigest}, packedFolders(t)...)...)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "tar", "-xzf", archive, "-C", folder).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// TestKustomizeArchive renders what is in the archive of kustomizations of a release, the folders that need make-certs.sh included. All
// pods have the image of the release, until a kustomization of a user names another one.
func TestKustomizeArchive(t *testing.T) {
	rendered := rendered(t) // skips where there is no kubectl
	dir := t.TempDir()
	unpackRelease(t, filepath.Join(dir, "metal3-apiserver/artifacts"))
	apiservice := filepath.Join(dir, "metal3-apiserver/artifacts/apiservice")
	certs := exec.CommandContext(t.Context(), filepath.Join(apiservice, "components/self-signed/make-certs.sh"), "--new-authority")
	certs.Env = append(os.Environ(), "KUBECONFIG=/dev/null") // no cluster is asked
	if out, err := certs.CombinedOutput(); err != nil {
		t.Fatalf("make-certs.sh: %v\n%s", err, out)
	}
	render := func(folder string) []byte {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), "../bin/kubectl", "kustomize", folder).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return out
	}
	check := func(name string, manifest []byte, want string) {
		t.Helper()
		images := imageField.FindAllSubmatch(manifest, -1)
		if len(images) == 0 {
			t.Errorf("%s: no images", name)
		}
		for _, image := range images {
			if got := string(image[1]); got != want {
				t.Errorf("%s: the image %s, want %s", name, got, want)
			}
		}
	}

	const pinned = "metal3-apiserver@" + releaseDigest
	overlays, err := filepath.Glob(filepath.Join(apiservice, "overlays/*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range append(overlays, apiservice) {
		check(filepath.Base(folder), render(folder), pinned)
	}
	if diff := cmp.Diff(string(bytes.ReplaceAll(rendered["default"], []byte("metal3-apiserver:latest"), []byte(pinned))), string(render(apiservice))); diff != "" {
		t.Errorf("the default installation of the archive has more than another image (-sources +archive):\n%s", diff)
	}
	// Components that the overlays do not use.
	err = fs.WalkDir(os.DirFS(apiservice), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if content := readDoc(t, filepath.Join(apiservice, path)); imageField.MatchString(content) {
			check(path, []byte(content), pinned)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}

	// The image of docs/install.md has a digest.
	for instead, want := range map[string]string{
		"digest: " + siteDigest: "@" + siteDigest,
		"newTag: v0.2.0":        ":v0.2.0",
		"# neither":             "@" + releaseDigest,
	} {
		mine, err := docs.Kustomization(map[string]string{
			"artifacts/apiservice ": "artifacts/apiservice/overlays/high-availability ", "REGISTRY": "registry.example.com", "digest: sha256:0123...": instead,
		})
		if err != nil {
			t.Fatal(err)
		}
		folder := filepath.Join(dir, "my-cluster")
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(mine), 0o600); err != nil {
			t.Fatal(err)
		}
		check("with "+instead, render(folder), "registry.example.com/metal3-apiserver"+want)
	}
}
