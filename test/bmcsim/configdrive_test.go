// SPDX-License-Identifier: Apache-2.0

package bmcsim

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestReadConfigDrive also reads testdata/configdrive.base64, which has the form in which Ironic passes a
// config drive. It was created by genisoimage with Ironic's options.
func TestReadConfigDrive(t *testing.T) {
	image, err := os.ReadFile("testdata/configdrive.base64")
	if err != nil {
		t.Fatal(err)
	}
	whole := map[string]string{
		UserDataPath: "#cloud-config\nhostname: one\n", MetaDataPath: `{"uuid": "u1", "name": "one"}`, NetworkDataPath: `{"links": []}`,
	}
	for _, test := range []struct {
		name  string
		value any
		want  map[string]string
		err   string
	}{
		{name: "none", value: nil, want: map[string]string{}},
		{name: "empty", value: "", want: map[string]string{}},
		{name: "image", value: string(image), want: whole},
		{
			name: "parts", value: map[string]any{"user_data": "#cloud-config\n", "meta_data": map[string]any{"name": "one"}},
			want: map[string]string{UserDataPath: "#cloud-config\n", MetaDataPath: `{"name":"one"}`},
		},
		{name: "not base64", value: "?", err: "illegal base64"},
		{name: "not gzip", value: "AAAA", err: "EOF"},
		{name: "number", value: 7.0, err: "float64"},
	} {
		t.Run(test.name, func(t *testing.T) {
			drive, err := readConfigDrive(t.Context(), test.value)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("error %v, want %q", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for path, content := range drive {
				got[path] = string(content)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
		})
	}
}

// TestReadDamagedISO checks that a truncated or damaged image causes an error or missing files, but never
// a panic.
func TestReadDamagedISO(t *testing.T) {
	text, err := os.ReadFile("testdata/configdrive.base64")
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, bytes.NewReader(text)))
	if err != nil {
		t.Fatal(err)
	}
	image, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	for length := 0; length < len(image); length += 997 {
		_, _ = readISO(image[:length])
	}
	for at := 16 * sectorSize; at < min(len(image), 40*sectorSize); at += 3 {
		image[at] ^= 0xff
		_, _ = readISO(image)
		image[at] ^= 0xff
	}
}
