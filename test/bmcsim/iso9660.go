// SPDX-License-Identifier: Apache-2.0

package bmcsim

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unicode/utf16"
)

const sectorSize = 2048

// readISO returns the files of an ISO 9660 image (ECMA-119) by path. It requires the Joliet tree, which
// has long names in UCS-2 and which Ironic always creates.
func readISO(image []byte) (ConfigDrive, error) {
	for sector := 16; ; sector++ {
		d := slice(image, sector*sectorSize, sectorSize)
		if d == nil || string(d[1:6]) != "CD001" || d[0] == 255 {
			return nil, errors.New("not an ISO 9660 image with a Joliet tree")
		}
		escape := string(d[88:91])
		if d[0] == 2 && (escape == "%/@" || escape == "%/C" || escape == "%/E") {
			files := ConfigDrive{}
			return files, readISODirectory(image, d[156:190], "", files, 0)
		}
	}
}

// readISODirectory adds the files below the directory that record describes.
func readISODirectory(image, record []byte, path string, files ConfigDrive, depth int) error {
	if depth > 16 {
		return errors.New("directories of the ISO image are nested too deep")
	}
	content, err := extent(image, record)
	if err != nil {
		return err
	}
	for at := 0; at < len(content); {
		length := int(content[at])
		if length == 0 { // the rest of a sector is empty if no other record fits into it
			at = (at/sectorSize + 1) * sectorSize
			continue
		}
		r := slice(content, at, length)
		if len(r) < 34 || 33+int(r[32]) > len(r) {
			return fmt.Errorf("directory %q of the ISO image is damaged", path)
		}
		at += length
		name := r[33 : 33+int(r[32])]
		if len(name) == 1 && name[0] <= 1 { // . and ..
			continue
		}
		full := path + isoName(name)
		if r[25]&2 != 0 {
			if err := readISODirectory(image, r, full+"/", files, depth+1); err != nil {
				return err
			}
			continue
		}
		if files[full], err = extent(image, r); err != nil {
			return err
		}
	}
	return nil
}

// extent returns the contents to which a directory record refers.
func extent(image, record []byte) ([]byte, error) {
	start, size := binary.LittleEndian.Uint32(record[2:]), binary.LittleEndian.Uint32(record[10:])
	content := slice(image, int(start)*sectorSize, int(size))
	if content == nil && size > 0 {
		return nil, errors.New("the ISO image is truncated")
	}
	return content, nil
}

// isoName decodes a Joliet name and removes the version, which is always 1.
func isoName(b []byte) string {
	units := make([]uint16, len(b)/2)
	for i := range units {
		units[i] = binary.BigEndian.Uint16(b[2*i:])
	}
	return strings.TrimSuffix(string(utf16.Decode(units)), ";1")
}

// slice returns a part of b, or nil if b is too short.
func slice(b []byte, start, length int) []byte {
	if start < 0 || length < 0 || start > len(b) || length > len(b)-start {
		return nil
	}
	return b[start : start+length]
}
