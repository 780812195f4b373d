// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf16"
	"unicode/utf8"
)

// toUTF8 returns the text of a file without a byte order mark. Spreadsheets write UTF-8 with such a mark, and as
// "Unicode text" UTF-16, which Windows' tools write, too. Files that were joined have marks within, at the beginning of a line.
func toUTF8(data []byte) (text []byte, err error) {
	switch {
	case bytes.HasPrefix(data, []byte("\xff\xfe")):
		data, err = fromUTF16(data[2:], binary.LittleEndian)
	case bytes.HasPrefix(data, []byte("\xfe\xff")):
		data, err = fromUTF16(data[2:], binary.BigEndian)
	default:
		data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	}
	if err != nil {
		return nil, err
	}
	if bytes.IndexByte(data, 0) >= 0 {
		return nil, errors.New("this is binary, and not text: give a list of machines as CSV, YAML or JSON in UTF-8")
	}
	if !utf8.Valid(data) {
		return nil, fmt.Errorf("line %d is not UTF-8: save the file in UTF-8 (spreadsheets call it \"CSV UTF-8\")", lineOf(data, invalidAt(data)))
	}
	return bytes.ReplaceAll(data, []byte("\n\ufeff"), []byte("\n")), nil
}

func fromUTF16(data []byte, order binary.ByteOrder) ([]byte, error) {
	if len(data)%2 != 0 {
		return nil, errors.New("this is UTF-16 that was cut off: save the file in UTF-8")
	}
	units := make([]uint16, len(data)/2)
	for i := range units {
		units[i] = order.Uint16(data[2*i:])
	}
	return []byte(string(utf16.Decode(units))), nil
}

// invalidAt returns the offset of the first byte that is not UTF-8.
func invalidAt(data []byte) int {
	offset := 0
	for offset < len(data) {
		r, size := utf8.DecodeRune(data[offset:])
		if r == utf8.RuneError && size <= 1 {
			break
		}
		offset += size
	}
	return offset
}

// lineOf returns the line of an offset, counted from 1.
func lineOf(data []byte, offset int) int {
	return 1 + bytes.Count(data[:min(offset, len(data))], []byte("\n"))
}
