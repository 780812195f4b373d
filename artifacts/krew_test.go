// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// goForThisPlatform compiles nothing for other platforms: each would take minutes, and their archives are packed all the same.
const goForThisPlatform = `#!/bin/sh
[ "${GOOS-%[2]s}/${GOARCH-%[3]s}" != %[2]s/%[3]s ] || exec %[1]s "$@"
while [ "$1" != -o ]; do shift; done
echo "a program for $GOOS/$GOARCH" >"$2"
chmod 755 "$2"
`

// TestKrew makes the archives of the plugin and krew's manifest with hack/krew.sh. The program with which krew's index checks manifests
// then has krew install the plugin on each platform: krew downloads the archives, and compares their checksums.
func TestKrew(t *testing.T) {
	skipShort(t)
	bin, err := filepath.Abs("../bin")
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"kubectl", "kubectl-krew", "validate-krew-manifest"} {
		if _, err := os.Stat(filepath.Join(bin, program)); err != nil {
			skipWithout(t, "%v: build it with hack/tools/build.sh kubectl krew", err)
		}
	}
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	server := httptest.NewServer(http.FileServer(http.Dir(out)))
	t.Cleanup(server.Close)
	run := func(env []string, name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Env = append(os.Environ(), env...)
		output, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, output)
		}
		return string(output)
	}

	compiler, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "go"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "go/go"), fmt.Appendf(nil, goForThisPlatform, compiler, runtime.GOOS, runtime.GOARCH), 0o755); err != nil {
		t.Fatal(err)
	}
	run([]string{
		"VERSION=v0.1.0", "URL=" + server.URL, "OUT=" + out, "SOURCE_DATE_EPOCH=0", "PATH=" + filepath.Join(dir, "go") + ":" + os.Getenv("PATH"),
		"GOFLAGS=" + strings.ReplaceAll(os.Getenv("GOFLAGS"), "-race", ""), // which needs cgo
	}, "../hack/krew.sh")
	manifest := filepath.Join(out, "bmh.yaml")
	checkArchives(t, server.URL, out, readDoc(t, manifest))

	path := "PATH=" + bin + ":" + os.Getenv("PATH")
	t.Log(run([]string{path}, filepath.Join(bin, "validate-krew-manifest"), "-manifest", manifest))

	// As a user does without access to the URL.
	home := filepath.Join(dir, "home")
	archive := filepath.Join(out, fmt.Sprintf("kubectl-bmh_v0.1.0_%s_%s.tar.gz", runtime.GOOS, runtime.GOARCH))
	env := []string{"KREW_ROOT=" + home, "KREW_NO_UPGRADE_CHECK=1", "KUBECONFIG=/dev/null", "PATH=" + filepath.Join(home, "bin") + ":" + bin + ":" + os.Getenv("PATH")}
	run(env, filepath.Join(bin, "kubectl"), "krew", "install", "--manifest="+manifest, "--archive="+archive)
	if printed := run(env, filepath.Join(bin, "kubectl"), "bmh", "--version"); !strings.Contains(printed, "v0.1.0") {
		t.Errorf("the installed plugin prints %s", printed)
	}
}

// checkArchives checks that a manifest for krew names all archives in a folder, with their checksums, and what they have.
func checkArchives(t *testing.T, url, folder, manifest string) {
	t.Helper()
	var plugin struct {
		Spec struct {
			Version   string
			Platforms []struct{ URI, SHA256, Bin string }
		}
	}
	if err := yaml.Unmarshal([]byte(manifest), &plugin); err != nil {
		t.Fatal(err)
	}
	packed, err := filepath.Glob(filepath.Join(folder, "*.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	if len(packed) != len(plugin.Spec.Platforms) || len(packed) < 5 || plugin.Spec.Version != "v0.1.0" {
		t.Errorf("the manifest of %s has %d platforms; there are %d archives", plugin.Spec.Version, len(plugin.Spec.Platforms), len(packed))
	}
	for _, platform := range plugin.Spec.Platforms {
		name := strings.TrimPrefix(platform.URI, url+"/")
		content, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Error(err)
			continue
		}
		if sum := fmt.Sprintf("%x", sha256.Sum256(content)); sum != platform.SHA256 {
			t.Errorf("%s has the checksum %s, the manifest %s", name, sum, platform.SHA256)
		}
		want := []string{"-rw-r--r-- LICENSE", "-rwxr-xr-x " + platform.Bin, "-rwxr-xr-x kubectl_complete-bmh"}
		if got := layout(t, bytes.NewReader(content)); !slices.Equal(got, want) {
			t.Errorf("%s has %q, want %q", name, got, want)
		}
	}
}

// layout returns the modes and names of what is in an archive.
func layout(t *testing.T, archive io.Reader) (files []string) {
	t.Helper()
	plain, err := gzip.NewReader(archive)
	if err != nil {
		t.Fatal(err)
	}
	for reader := tar.NewReader(plain); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, header.FileInfo().Mode().String()+" "+header.Name)
	}
}
