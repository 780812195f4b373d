// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// written is an archive of an image, as it is read.
type written map[string][]byte

// blob returns what a descriptor describes, and checks its digest and its size.
func (w written) blob(t *testing.T, described descriptor) []byte {
	t.Helper()
	data := w[blobPath(described.Digest)]
	if digest(data) != described.Digest || len(data) != described.Size {
		t.Fatalf("%s: %d bytes with the digest %s, want %d", described.Digest, len(data), digest(data), described.Size)
	}
	return data
}

func decode[T any](t *testing.T, data []byte) (content T) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&content); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	return content
}

func testImage(t *testing.T) image {
	t.Helper()
	i := image{name: "metal3-apiserver", version: "v0.1.0", commit: "0123abc", date: date, certificates: []byte("certificates"), programs: map[string]string{}}
	for _, architecture := range []string{"arm64", "amd64"} {
		i.programs[architecture] = filepath.Join(t.TempDir(), "program")
		if err := os.WriteFile(i.programs[architecture], []byte("program for "+architecture), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return i
}

// TestImageLayout follows the digests of an image from the index to the files, as a container engine does.
func TestImageLayout(t *testing.T) {
	i, archive := testImage(t), filepath.Join(t.TempDir(), "image.tar")
	imageDigest, err := i.write(archive)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	image := written{}
	readTar(t, bytes.NewReader(data), image)
	if layout := string(image["oci-layout"]); layout != `{"imageLayoutVersion":"1.0.0"}` {
		t.Errorf("oci-layout is %s", layout)
	}
	top := decode[index](t, image["index.json"])
	if len(top.Manifests) != 1 || top.Manifests[0].Digest != imageDigest || top.Manifests[0].Annotations["io.containerd.image.name"] != "docker.io/library/metal3-apiserver:v0.1.0" {
		t.Fatalf("index.json is %+v, and the digest %s", top, imageDigest)
	}
	docker := decode[[]dockerImage](t, image["manifest.json"])
	var architectures []string
	for n, described := range decode[index](t, image.blob(t, top.Manifests[0])).Manifests {
		architecture := described.Platform.Architecture
		architectures = append(architectures, architecture)
		content := decode[manifest](t, image.blob(t, described))
		config := decode[imageConfig](t, image.blob(t, content.Config))
		if config.platform != (platform{architecture, "linux"}) || !config.Created.Equal(date) || len(config.RootFS.DiffIDs) != len(content.Layers) || len(config.History) != len(content.Layers) {
			t.Errorf("%s: the configuration is %+v", architecture, config)
		}
		if diff := cmp.Diff(i.config(), config.Config); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", architecture, diff)
		}
		wantDocker := dockerImage{Config: blobPath(content.Config.Digest), RepoTags: []string{"metal3-apiserver:v0.1.0-" + architecture}}
		files := written{}
		for n, layer := range content.Layers {
			wantDocker.Layers = append(wantDocker.Layers, blobPath(layer.Digest))
			compressed, err := gzip.NewReader(bytes.NewReader(image.blob(t, layer)))
			if err != nil {
				t.Fatal(err)
			}
			plain, err := io.ReadAll(compressed)
			if err != nil {
				t.Fatal(err)
			}
			if digest(plain) != config.RootFS.DiffIDs[n] {
				t.Errorf("%s: layer %d has the diff ID %s, want %s", architecture, n, config.RootFS.DiffIDs[n], digest(plain))
			}
			for _, header := range readTar(t, bytes.NewReader(plain), files) {
				if header.Name == "metal3-apiserver" && header.Mode != 0o755 {
					t.Errorf("%s: the program has the mode %o", architecture, header.Mode)
				}
			}
		}
		if diff := cmp.Diff(wantDocker, docker[n]); diff != "" {
			t.Errorf("%s: manifest.json (-want +got)\n%s", architecture, diff)
		}
		if program, certificates := string(files["metal3-apiserver"]), string(files["etc/ssl/certs/ca-certificates.crt"]); program != "program for "+architecture || certificates != "certificates" {
			t.Errorf("%s: the program is %q and the certificates are %q", architecture, program, certificates)
		}
	}
	if want := []string{"amd64", "arm64"}; !slices.Equal(architectures, want) || len(docker) != len(want) {
		t.Errorf("the image is for %q, and Docker's for %d", architectures, len(docker))
	}
}

// TestImageIsThatOfDockerfile checks that the Dockerfile describes the same image.
func TestImageIsThatOfDockerfile(t *testing.T) {
	dockerfile, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	_, stage, _ := strings.Cut(string(dockerfile), "\nFROM ${BASE_IMAGE}\n")
	i := testImage(t)
	stage = strings.NewReplacer("${VERSION}", i.version, "${COMMIT}", i.commit).Replace(stage)
	files := []string{}
	want := runConfig{Env: []string{searchPath}, ExposedPorts: map[string]struct{}{}, Labels: map[string]string{}}
	for _, line := range regexp.MustCompile(`(?m)^([A-Z]+) (.*)$`).FindAllStringSubmatch(stage, -1) {
		switch value := line[2]; line[1] {
		case "ARG":
		case "USER":
			want.User = value
		case "EXPOSE":
			want.ExposedPorts[value+"/tcp"] = struct{}{}
		case "ENTRYPOINT":
			want.Entrypoint = decode[[]string](t, []byte(value))
		case "LABEL":
			name, quoted, _ := strings.Cut(value, "=")
			want.Labels[name] = strings.Trim(quoted, `"`)
		case "COPY":
			files = append(files, strings.TrimPrefix(value[strings.LastIndex(value, " ")+1:], "/"))
		default:
			t.Errorf("what is %q?", line[0])
		}
	}
	if diff := cmp.Diff(want, i.config()); diff != "" {
		t.Errorf("the Dockerfile has something else: (-Dockerfile +image)\n%s", diff)
	}
	var layers []string
	for _, layer := range i.layers("program") {
		layers = append(layers, slices.Sorted(maps.Keys(layer))...)
	}
	if !slices.Equal(files, layers) {
		t.Errorf("the Dockerfile has the files %q, and the image %q", files, layers)
	}
}

func TestQualified(t *testing.T) {
	for name, want := range map[string]string{
		"metal3-apiserver":                         "docker.io/library/metal3-apiserver",
		"team/metal3-apiserver":                    "docker.io/team/metal3-apiserver",
		"images.example.com/team/metal3-apiserver": "images.example.com/team/metal3-apiserver",
		"localhost:5000/metal3-apiserver":          "localhost:5000/metal3-apiserver",
		"localhost/metal3-apiserver":               "localhost/metal3-apiserver",
	} {
		if got := qualified(name); got != want {
			t.Errorf("qualified(%q) is %q, want %q", name, got, want)
		}
	}
}
