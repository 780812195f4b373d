// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/metal3-io/metal3-apiserver/pkg/generated/clientset/versioned"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// baseFile makes the image in which the Dockerfile compiles the server. Nothing is fetched: it has a
// shell and the certificates of this machine, whose Go and whose caches are mounted.
const baseFile = `FROM scratch
COPY . /
ENV PATH=%[1]s/bin:/bin HOME=/root GOROOT=%[1]s GOPATH=/go GOMODCACHE=%[2]s GOCACHE=%[3]s GOPROXY=%[4]s GOSUMDB=%[5]s
`

// image is a built image, as buildah keeps it in a folder.
type image struct{ dir string }

func (i image) buildah(ctx context.Context, args ...string) (string, error) {
	// Neither the storage nor the settings of this machine are used. The driver vfs needs no
	// overlay mounts, which containers do not allow.
	cmd := exec.CommandContext(ctx, "buildah", append([]string{"--root", filepath.Join(i.dir, "root"), "--runroot", filepath.Join(i.dir, "run"), "--storage-driver", "vfs"}, args...)...)
	var stderr strings.Builder
	cmd.Dir, cmd.Stderr = "..", &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("buildah %s: %w\n%s%s", args[0], err, out, &stderr)
	}
	return strings.TrimSpace(string(out)), nil
}

// buildImage builds the Dockerfile. It skips the test where that is not possible.
func buildImage(t *testing.T, ctx context.Context) image {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("building an image without a container runtime, and running its program as another user, needs root")
	}
	for _, program := range []string{"buildah", "busybox", "unshare"} {
		if _, err := exec.LookPath(program); err != nil {
			skipWithout(t, "%v: on Debian, install buildah and busybox-static", err)
		}
	}
	goEnv, err := exec.CommandContext(ctx, "go", "env", "GOROOT", "GOMODCACHE", "GOCACHE", "GOPROXY", "GOSUMDB").Output()
	if err != nil {
		t.Fatal(err)
	}
	env := strings.Split(strings.TrimSpace(string(goEnv)), "\n")
	i := image{t.TempDir()}
	base := filepath.Join(i.dir, "base")
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{busybox: "bin/sh", "/etc/ssl/certs/ca-certificates.crt": "etc/ssl/certs/ca-certificates.crt"} {
		content, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(base, filepath.Dir(to)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(base, to), content, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(base, "tmp"), 0o1777); err != nil {
		t.Fatal(err)
	}
	policy, file := filepath.Join(i.dir, "policy.json"), filepath.Join(i.dir, "Dockerfile")
	if err := os.WriteFile(policy, []byte(`{"default":[{"type":"insecureAcceptAnything"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, fmt.Appendf(nil, baseFile, env[0], env[1], env[2], env[3], env[4]), 0o600); err != nil {
		t.Fatal(err)
	}
	build := []string{"build", "--quiet", "--signature-policy", policy, "--isolation", "chroot", "--pull-never", "--network", "host"}
	if _, err := i.buildah(ctx, append(build, "--tag", "localhost/go", "--file", file, base)...); err != nil {
		t.Fatal(err)
	}
	for _, folder := range env[:3] {
		build = append(build, "--volume", folder+":"+folder)
	}
	if _, err := i.buildah(ctx, append(build, "--build-arg", "GO_IMAGE=localhost/go", "--build-arg", "GO_TOOLCHAIN=local", "--build-arg", "VERSION=v1.2.3-image", "--tag", "localhost/metal3-apiserver", ".")...); err != nil {
		t.Fatal(err)
	}
	return i
}

// runInImage runs the server in the root of an image: as its user, with a root file system that cannot be
// written, and with the folder of the test's files at the same path as outside, where that user gets to whatever the
// umask is. The mounts
// are gone when the server ends, because it has a mount namespace of its own.
const runInImage = `#!/bin/sh
exec unshare --mount sh -euc '
	root=%[1]s files=%[2]s
	umask 022
	mkdir -p $root$files
	mount --bind $root $root
	mount --bind $files $root$files
	mount -o remount,bind,ro $root
	exec chroot --userspec=65532:65532 $root /metal3-apiserver "$@"
' sh "$@"
`

// TestImage builds the image and has its program serve hosts through a kube-apiserver, in nothing but
// the image's root.
func TestImage(t *testing.T) {
	skipShort(t)
	ctx, cancel := context.WithTimeout(t.Context(), 6*testbed.Patience) // it compiles the server
	defer cancel()
	for _, program := range []string{"etcd", "kube-apiserver", "kubectl"} {
		if _, err := os.Stat("../bin/" + program); err != nil {
			skipWithout(t, "%v: build it with hack/tools/build.sh", err)
		}
	}
	i := buildImage(t, ctx)
	inspected, err := i.buildah(ctx, "inspect", "--type", "image", "localhost/metal3-apiserver")
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		OCIv1 struct {
			Config struct{ User string } `json:"config"`
		}
	}
	if err := json.Unmarshal([]byte(inspected), &config); err != nil {
		t.Fatal(err)
	}
	if user := config.OCIv1.Config.User; user != "65532:65532" {
		t.Errorf("the image runs as %q; the Deployment as 65532:65532", user)
	}
	container, err := i.buildah(ctx, "from", "--pull-never", "--signature-policy", filepath.Join(i.dir, "policy.json"), "localhost/metal3-apiserver")
	if err != nil {
		t.Fatal(err)
	}
	root, err := i.buildah(ctx, "mount", container)
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	if err := fs.WalkDir(os.DirFS(root), ".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files = append(files, path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(files, " "); got != "etc/ssl/certs/ca-certificates.crt metal3-apiserver" {
		t.Errorf("the files of the image are %s", got)
	}

	kube, err := testbed.StartKube(ctx, testbed.KubeOptions{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := kube.Stop(); err != nil {
			t.Error(err)
		}
	})
	sim, err := testbed.StartSimulatedIronic(ironicsim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Close)
	dir, wrapper := t.TempDir(), filepath.Join(i.dir, "metal3-apiserver")
	if err := os.WriteFile(wrapper, fmt.Appendf(nil, runInImage, root, dir), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("METAL3_APISERVER", wrapper)
	server, err := testbed.NewServer(testbed.ServerOptions{Kube: kube, Dir: dir, IronicEndpoint: sim.URL(), Args: testbed.UnusedRamdiskArgs})
	if err != nil {
		t.Fatal(err)
	}
	// Its files are those of the image's user.
	if err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chown(path, 65532, 65532)
	}); err != nil {
		t.Fatal(err)
	}
	if err := server.ApplyRBAC(ctx); err != nil {
		t.Fatal(err)
	}
	if err := server.Start(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := server.Register(ctx); err != nil {
		t.Fatal(err)
	}
	hosts, err := versioned.NewForConfig(kube.Admin.Config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := hosts.Metal3V1alpha1().BareMetalHosts("").List(ctx, metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	log, err := server.Logs()
	if err != nil || !strings.Contains(log, `version="v1.2.3-image"`) {
		t.Errorf("the program in the image is of another version (%v):\n%.500s", err, log)
	}
}
