// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestVulncheckFailsWithoutLooking runs hack/vulncheck.sh with a govulncheck that cannot reach its database.
func TestVulncheckFailsWithoutLooking(t *testing.T) {
	for name, test := range map[string]struct {
		status string
		want   string
	}{
		"nothing found":       {"0", ""},
		"vulnerabilities":     {"3", ""},
		"no database":         {"1", "NOT CHECKED"},
		"govulncheck is gone": {"127", "NOT CHECKED"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write := func(path, content string) {
				t.Helper()
				path = filepath.Join(dir, path)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			write("hack/vulncheck.sh", readDoc(t, "../hack/vulncheck.sh"))
			write("hack/toolchain.sh", readDoc(t, "../hack/toolchain.sh"))
			write("hack/build-linters.sh", "#!/bin/sh\n")
			write("bin/lint/govulncheck", "#!/bin/sh\necho 'govulncheck: fetching vulnerabilities: connection refused' >&2\nexit "+test.status+"\n")
			command := exec.CommandContext(t.Context(), filepath.Join(dir, "hack/vulncheck.sh"))
			command.Env = append(os.Environ(), "GOVULNDB=https://192.0.2.1")
			output, err := command.CombinedOutput()
			if failed := err != nil; failed != (test.status != "0") || strings.Contains(string(output), "NOT CHECKED") != (test.want != "") {
				t.Errorf("%v, output:\n%s", err, output)
			}
		})
	}
}

var (
	baseImage = regexp.MustCompile(`(?m)^(?:ARG \w+_IMAGE=|FROM (?:--\S+ )?)(\S+)`)
	pinned    = regexp.MustCompile(`@sha256:[0-9a-f]{64}$`)
)

// TestBaseImagesArePinned checks that the Dockerfile names each image by its digest, and compiles with the release of Go that
// make vulncheck looks at.
func TestBaseImagesArePinned(t *testing.T) {
	dockerfile := readDoc(t, "../Dockerfile")
	images := baseImage.FindAllStringSubmatch(dockerfile, -1)
	if len(images) < 4 {
		t.Errorf("%d images: the test is broken", len(images))
	}
	for _, match := range images {
		if image := match[1]; image != "scratch" && !strings.HasPrefix(image, "${") && !pinned.MatchString(image) {
			t.Errorf("the image %s has no digest", image)
		}
	}
	_, toolchain, _ := strings.Cut(readDoc(t, "../hack/toolchain.sh"), "export GOTOOLCHAIN=")
	if want := "ARG GO_TOOLCHAIN=" + strings.TrimSpace(toolchain) + "\n"; !strings.Contains(dockerfile, want) {
		t.Errorf("hack/toolchain.sh names another release of Go than the Dockerfile, which should have %q", want)
	}
}

// TestToolsArePinned checks that scripts run no program of a version that no go.sum knows.
func TestToolsArePinned(t *testing.T) {
	var scripts []string
	for _, pattern := range []string{"../Makefile", "../.ci/run", "../hack/*.sh", "../hack/*/*.sh"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		scripts = append(scripts, found...)
	}
	if len(scripts) < 10 {
		t.Errorf("%d scripts: the test is broken", len(scripts))
	}
	unpinned := regexp.MustCompile(`go (?:run|install|get) \S*@|GOFLAGS=.*-mod=mod|GONOSUM|GOFLAGS=.*-insecure|GOSUMDB=off`)
	for _, script := range scripts {
		if found := unpinned.FindString(readDoc(t, script)); found != "" {
			t.Errorf("%s: %q passes by the versions in go.mod and the checksums in go.sum", script, found)
		}
	}
	for _, module := range []string{"..", "../hack/tools", "../hack/tools/cert-manager", "../hack/tools/clusterctl", "../hack/tools/gitops", "../hack/tools/helm", "../hack/tools/krew", "../hack/tools/lint", "../hack/tools/olm"} {
		if _, err := os.Stat(filepath.Join(module, "go.sum")); err != nil {
			t.Error(err)
		}
	}
}

// TestReleaseHasAllManifests checks that the archive of a release has each folder of manifests that a page sends people to. Of that of
// krew, hack/krew.sh makes a file of its own.
func TestReleaseHasAllManifests(t *testing.T) {
	var folders []string
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if entry.IsDir() && entry.Name() != "krew" {
			folders = append(folders, entry.Name())
		}
	}
	if got := packedFolders(t); !slices.Equal(folders, got) {
		t.Errorf("a release has the folders %q of artifacts, where %q are", got, folders)
	}
}
