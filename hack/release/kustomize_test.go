// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPackPinned packs manifests, and finds those that would be left with an image that somebody can exchange.
func TestPackPinned(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0a", 32)
	const deployment = "      containers:\n      - image: metal3-apiserver:latest\n        imagePullPolicy: IfNotPresent\n"
	for name, test := range map[string]struct {
		digest, content, want, problem string
	}{
		"pinned":             {digest, deployment, strings.Replace(deployment, ":latest", "@"+digest, 1), ""},
		"no image":           {digest, "kind: Service\n", "", "no manifest in"},
		"an unknown form":    {digest, deployment + "      - image: \"metal3-apiserver:latest\"\n", "", "deployment.yaml names metal3-apiserver:latest"},
		"not a digest":       {"v0.1.0", deployment, "", `"v0.1.0" is no digest`},
		"a digest in quotes": {`"` + digest + `"`, deployment, "", "is no digest"},
	} {
		t.Run(name, func(t *testing.T) {
			folder, archive := t.TempDir(), filepath.Join(t.TempDir(), "archive.tar.gz")
			for path, content := range map[string]string{"deployment.yaml": test.content, "make-certs.sh": "# metal3-apiserver:latest"} {
				if err := os.WriteFile(filepath.Join(folder, path), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			err := packPinned(archive, folder, test.digest, nil, date)
			if test.problem != "" {
				if err == nil || !strings.Contains(err.Error(), test.problem) {
					t.Errorf("%v, want %q", err, test.problem)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			packed, err := os.ReadFile(archive)
			if err != nil {
				t.Fatal(err)
			}
			plain, err := gzip.NewReader(bytes.NewReader(packed))
			if err != nil {
				t.Fatal(err)
			}
			files := map[string][]byte{}
			readTar(t, plain, files)
			if got := string(files["deployment.yaml"]); got != test.want || len(files) != 2 {
				t.Errorf("%q in %d files, want %q", got, len(files), test.want)
			}
		})
	}
}
