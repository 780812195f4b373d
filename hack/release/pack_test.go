// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

var date = time.Unix(1_700_000_000, 0).UTC()

// TestPack packs the same files twice, with other times and modes, and reads the archive.
func TestPack(t *testing.T) {
	var archives [2][]byte
	for i, mode := range []os.FileMode{0o600, 0o664} {
		folder := t.TempDir()
		for name, mode := range map[string]os.FileMode{"b/text": mode, "a": mode | 0o100, "ignored": mode} {
			path := filepath.Join(folder, name)
			if err := os.MkdirAll(filepath.Dir(path), mode|0o100); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte("content of "+name), mode); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(path, time.Time{}, time.Now().Add(time.Duration(i)*time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
		archive := filepath.Join(t.TempDir(), "archive.tar.gz")
		if err := pack(archive, folder, []string{"b", "a"}, date); err != nil {
			t.Fatal(err)
		}
		var err error
		if archives[i], err = os.ReadFile(archive); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("the archives differ")
	}
	plain, err := gzip.NewReader(bytes.NewReader(archives[0]))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, header := range readTar(t, plain, nil) {
		names = append(names, header.Name)
		executable := header.Name == "a" || header.Typeflag == tar.TypeDir
		if header.Mode&0o777 != 0o644 && !executable || header.Mode&0o777 != 0o755 && executable {
			t.Errorf("%s has the mode %o", header.Name, header.Mode)
		}
		if !header.ModTime.Equal(date) || header.Uid != 0 || header.Gid != 0 {
			t.Errorf("%s is of %v, %d:%d", header.Name, header.ModTime, header.Uid, header.Gid)
		}
	}
	if want := []string{"b/", "a", "b/text"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
}

// readTar returns the headers of an archive, and puts the contents into files.
func readTar(t *testing.T, r io.Reader, files map[string][]byte) (headers []*tar.Header) {
	t.Helper()
	archive := tar.NewReader(r)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return headers
		}
		if err != nil {
			t.Fatal(err)
		}
		headers = append(headers, header)
		data, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		if files != nil {
			files[header.Name] = data
		}
	}
}
