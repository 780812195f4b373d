// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// file is a regular file of an archive: with data, or the content of a path.
type file struct {
	executable bool
	data       []byte
	path       string
}

// pack writes an archive of the files in folder, or of those at or below paths in it.
func pack(archive, folder string, paths []string, date time.Time) error {
	files, err := filesOf(folder, paths)
	if err != nil {
		return err
	}
	return writeArchive(archive, files, date)
}

// filesOf returns the files in folder, or those at or below paths in it, by their names in an archive.
func filesOf(folder string, paths []string) (map[string]file, error) {
	if len(paths) == 0 {
		paths = []string{"."}
	}
	files := map[string]file{}
	for _, path := range paths {
		err := filepath.WalkDir(filepath.Join(folder, path), func(found string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			info, err := entry.Info()
			if err != nil {
				return err
			}
			if !info.Mode().IsRegular() {
				return fmt.Errorf("%s is no regular file", found)
			}
			name, err := filepath.Rel(folder, found)
			files[filepath.ToSlash(name)] = file{executable: info.Mode()&0o100 != 0, path: found}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}

// writeArchive writes an archive, and compresses it if its name ends in gz.
func writeArchive(archive string, files map[string]file, date time.Time) error {
	return writeFile(archive, func(w io.Writer) error {
		if !strings.HasSuffix(archive, "gz") {
			return writeTar(w, files, date)
		}
		return writeGzip(w, func(w io.Writer) error { return writeTar(w, files, date) })
	})
}

func writeFile(path string, write func(io.Writer) error) error {
	created, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(created), created.Close())
}

// writeGzip compresses what write writes. The header has neither a name nor a time.
func writeGzip(w io.Writer, write func(io.Writer) error) error {
	compressed := gzip.NewWriter(w)
	return errors.Join(write(compressed), compressed.Close())
}

// writeTar writes files, by their names, and the folders that they are in. Nothing depends on the machine: names are sorted,
// everything is root's, and modes do not depend on a umask.
func writeTar(w io.Writer, files map[string]file, date time.Time) error {
	folders := map[string]bool{}
	for name := range files {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			folders[dir+"/"] = true
		}
	}
	archive := tar.NewWriter(w)
	for _, name := range slices.Sorted(maps.Keys(folders)) {
		if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755, ModTime: date}); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		file := files[name]
		data := file.data
		if file.path != "" {
			var err error
			if data, err = os.ReadFile(file.path); err != nil {
				return err
			}
		}
		mode := int64(0o644)
		if file.executable {
			mode = 0o755
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(data)), ModTime: date}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(data); err != nil {
			return err
		}
	}
	return archive.Close()
}
