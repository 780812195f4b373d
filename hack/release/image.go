// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// image is the container image of metal3-apiserver, as the Dockerfile describes it.
type image struct {
	name, version, commit string
	date                  time.Time
	certificates          []byte            // of the public certificate authorities
	programs              map[string]string // the paths of the programs, by architecture
}

// The types of OCI's image specification, as far as this image needs them.
type (
	descriptor struct {
		MediaType   string            `json:"mediaType"`
		Digest      string            `json:"digest"`
		Size        int               `json:"size"`
		Platform    *platform         `json:"platform,omitempty"`
		Annotations map[string]string `json:"annotations,omitempty"`
	}
	platform struct {
		Architecture string `json:"architecture"`
		OS           string `json:"os"`
	}
	index struct {
		SchemaVersion int          `json:"schemaVersion"`
		MediaType     string       `json:"mediaType"`
		Manifests     []descriptor `json:"manifests"`
	}
	manifest struct {
		SchemaVersion int          `json:"schemaVersion"`
		MediaType     string       `json:"mediaType"`
		Config        descriptor   `json:"config"`
		Layers        []descriptor `json:"layers"`
	}
	imageConfig struct {
		Created time.Time `json:"created"`
		platform
		Config  runConfig `json:"config"`
		RootFS  rootFS    `json:"rootfs"`
		History []history `json:"history"`
	}
	runConfig struct {
		User         string
		ExposedPorts map[string]struct{}
		Env          []string
		Entrypoint   []string
		Labels       map[string]string
	}
	rootFS struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	}
	history struct {
		Created   time.Time `json:"created"`
		CreatedBy string    `json:"created_by"`
	}
	// dockerImage is an entry of manifest.json, from which releases of Docker read an archive that cannot read OCI's layout.
	dockerImage struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
)

const (
	mediaTypeIndex    = "application/vnd.oci.image.index.v1+json"
	mediaTypeManifest = "application/vnd.oci.image.manifest.v1+json"
	mediaTypeConfig   = "application/vnd.oci.image.config.v1+json"
	mediaTypeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// searchPath is what container engines give each image that they build.
const searchPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// config returns how the program is run.
func (i image) config() runConfig {
	return runConfig{
		User:         "65532:65532",
		ExposedPorts: map[string]struct{}{"6443/tcp": {}},
		Env:          []string{searchPath},
		Entrypoint:   []string{"/metal3-apiserver"},
		Labels: map[string]string{
			"org.opencontainers.image.title":       "metal3-apiserver",
			"org.opencontainers.image.description": "Metal3's BareMetalHost as an aggregated Kubernetes API",
			"org.opencontainers.image.source":      "https://github.com/metal3-io/metal3-apiserver",
			"org.opencontainers.image.licenses":    "Apache-2.0",
			"org.opencontainers.image.version":     i.version,
			"org.opencontainers.image.revision":    i.commit,
		},
	}
}

// layers returns the files of each layer. The certificates are the first one, because releases have it in common.
func (i image) layers(program string) []map[string]file {
	return []map[string]file{
		{"etc/ssl/certs/ca-certificates.crt": {data: i.certificates}},
		{"metal3-apiserver": {executable: true, path: program}},
	}
}

// write writes an archive with OCI's layout, and returns the digest of the image, which covers all architectures.
func (i image) write(archive string) (string, error) {
	blobs := layout{}
	all := index{SchemaVersion: 2, MediaType: mediaTypeIndex}
	var docker []dockerImage
	for _, architecture := range slices.Sorted(maps.Keys(i.programs)) {
		described, image, err := i.add(blobs, architecture)
		if err != nil {
			return "", err
		}
		all.Manifests, docker = append(all.Manifests, described), append(docker, image)
	}
	described, err := blobs.addJSON(mediaTypeIndex, all)
	if err != nil {
		return "", err
	}
	described.Annotations = map[string]string{
		"org.opencontainers.image.ref.name": i.version,
		"io.containerd.image.name":          qualified(i.name) + ":" + i.version, // containerd's, Docker's and podman's name
	}
	for name, content := range map[string]any{
		"oci-layout":    map[string]string{"imageLayoutVersion": "1.0.0"},
		"index.json":    index{SchemaVersion: 2, MediaType: mediaTypeIndex, Manifests: []descriptor{described}},
		"manifest.json": docker,
	} {
		data, err := json.Marshal(content)
		if err != nil {
			return "", err
		}
		blobs[name] = file{data: data}
	}
	return described.Digest, writeFile(archive, func(w io.Writer) error { return writeTar(w, blobs, i.date) })
}

// add adds the image of an architecture.
func (i image) add(blobs layout, architecture string) (described descriptor, docker dockerImage, err error) {
	config := imageConfig{
		Created: i.date, platform: platform{architecture, "linux"}, Config: i.config(), RootFS: rootFS{Type: "layers"},
	}
	content := manifest{SchemaVersion: 2, MediaType: mediaTypeManifest}
	for _, files := range i.layers(i.programs[architecture]) {
		layer, diffID, err := blobs.addLayer(files, i.date)
		if err != nil {
			return described, docker, err
		}
		content.Layers = append(content.Layers, layer)
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, diffID)
		created := "hack/release: " + strings.Join(slices.Sorted(maps.Keys(files)), " ")
		config.History = append(config.History, history{i.date, created})
		docker.Layers = append(docker.Layers, blobPath(layer.Digest))
	}
	if content.Config, err = blobs.addJSON(mediaTypeConfig, config); err != nil {
		return described, docker, err
	}
	docker.Config = blobPath(content.Config.Digest)
	docker.RepoTags = []string{i.name + ":" + i.version + "-" + architecture}
	described, err = blobs.addJSON(mediaTypeManifest, content)
	described.Platform = &config.platform
	return described, docker, err
}

// layout has the files of OCI's image layout.
type layout map[string]file

func (l layout) add(mediaType string, data []byte) descriptor {
	described := descriptor{MediaType: mediaType, Digest: digest(data), Size: len(data)}
	l[blobPath(described.Digest)] = file{data: data}
	return described
}

func (l layout) addJSON(mediaType string, content any) (descriptor, error) {
	data, err := json.Marshal(content)
	return l.add(mediaType, data), err
}

// addLayer adds a layer. Its diff ID is the digest of what is compressed.
func (l layout) addLayer(files map[string]file, date time.Time) (described descriptor, diffID string, err error) {
	var compressed bytes.Buffer
	plain := sha256.New()
	err = writeGzip(&compressed, func(w io.Writer) error { return writeTar(io.MultiWriter(w, plain), files, date) })
	return l.add(mediaTypeLayer, compressed.Bytes()), fmt.Sprintf("sha256:%x", plain.Sum(nil)), err
}

func digest(data []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(data)) }

func blobPath(digest string) string { return "blobs/" + strings.Replace(digest, ":", "/", 1) }

// qualified returns the name of an image with its registry. Without one, container engines take it for one of Docker Hub's,
// and so does the kubelet, which finds an imported image only by that name.
func qualified(name string) string {
	first, _, found := strings.Cut(name, "/")
	switch {
	case !found:
		return "docker.io/library/" + name
	case strings.ContainsAny(first, ".:") || first == "localhost":
		return name
	}
	return "docker.io/" + name
}
