// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// readCSV reads each line by itself: a quote that is not closed would otherwise swallow all lines after it.
func readCSV(data []byte) (entries []Entry, mistakes []*LineError, err error) {
	var heading []*Field
	var comma byte
	comment, commentNumber := "", 0 // the last one above the heading
	number := 0
	for line := range strings.Lines(withLineFeeds(data)) {
		number++
		line = strings.TrimSuffix(line, "\n")
		trimmed := strings.TrimSpace(line)
		if trimmed == "" || number == 1 && strings.HasPrefix(trimmed, "sep=") { // the last is Excel's
			continue
		}
		if trimmed[0] == '#' {
			comment, commentNumber = trimmed[1:], number
			continue
		}
		if heading == nil {
			text, textNumber, isComment := line, number, isCommentedHeading(comment, line)
			if isComment {
				text, textNumber = comment, commentNumber
			}
			comma, _ = separator(text)
			if heading, err = readHeading(text, comma); err != nil {
				return nil, nil, fmt.Errorf("line %d: %w", textNumber, err)
			}
			if !isComment {
				continue
			}
		}
		entry, isEmpty, err := readRecord(line, comma, heading, number)
		switch {
		case err != nil:
			mistakes = append(mistakes, &LineError{Line: number, Name: entry.Name, Err: err})
		case !isEmpty:
			entries = append(entries, entry)
		}
	}
	if len(entries)+len(mistakes) == 0 {
		return nil, nil, errors.New("the inventory is empty: it has a heading, and no machines below")
	}
	return entries, mistakes, nil
}

// isCommentedHeading reports whether a comment is the heading, as in what tabdump of xCAT prints. It is not if the line below it is one.
func isCommentedHeading(comment, below string) bool {
	_, known := separator(comment)
	_, knownBelow := separator(below)
	return known > 1 && knownBelow < 2
}

// withLineFeeds ends all lines in the same way. Windows ends them with \r\n, and old spreadsheets of macOS with \r.
func withLineFeeds(data []byte) string {
	data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	return string(bytes.ReplaceAll(data, []byte("\r"), []byte("\n")))
}

// separators are those that spreadsheets write, which depend on the country, and one that people do.
const separators = ",;\t|"

// separator returns the separator with which a line has the most names of fields, and how many it has.
func separator(line string) (comma byte, known int) {
	comma = separators[0]
	for i := range len(separators) {
		names, err := splitLine(line, separators[i])
		if err != nil {
			continue
		}
		count := 0
		for _, name := range names {
			if _, err := fieldByName(name); err == nil {
				count++
			}
		}
		if count > known {
			comma, known = separators[i], count
		}
	}
	return comma, known
}

// readHeading returns the fields of the columns. One without a name is nil. A line is a heading if it names two fields: the values of
// a machine can be the name of one, such as ipmi. As any other line can begin a file that has no heading, a column that is no field is
// told by its number: what it contains may be a password.
func readHeading(line string, comma byte) ([]*Field, error) {
	if _, known := separator(line); known < 2 {
		return nil, errors.New("this is no heading: the first line has to have the names of the columns, such as name,address,username,password,bootMACAddress")
	}
	names, err := splitLine(line, comma)
	if err != nil {
		return nil, err
	}
	heading := make([]*Field, len(names))
	seen := map[string]string{}
	var unknown []string
	for i, name := range names {
		if name == "" {
			continue
		}
		field, err := fieldByName(name)
		if err != nil {
			unknown = append(unknown, strconv.Itoa(i+1))
			continue
		}
		if other, found := seen[field.Name]; found {
			return nil, fmt.Errorf("%q is there twice: %q means the same", name, other)
		}
		seen[field.Name] = name
		heading[i] = field
	}
	switch len(unknown) {
	case 0:
		return heading, nil
	case 1:
		return nil, fmt.Errorf("the name of column %s is that of no field; kubectl bmh create --help lists them; remove the columns that are not needed", unknown[0])
	}
	return nil, fmt.Errorf("the names of columns %s and %s are those of no fields; kubectl bmh create --help lists them; remove the columns that are not needed",
		strings.Join(unknown[:len(unknown)-1], ", "), unknown[len(unknown)-1])
}

// readRecord reads a line. If it has more values than the heading, each may be that of another column, such as a part of the password
// in that of the name, and is not looked at.
func readRecord(line string, comma byte, heading []*Field, number int) (entry Entry, isEmpty bool, err error) {
	entry = newEntry(number)
	values, err := splitLine(line, comma)
	if err != nil {
		return entry, false, err
	}
	isEmpty = true
	var errs []error
	extra := 0
	for i, value := range values {
		isEmpty = isEmpty && value == ""
		switch {
		case value == "":
		case i >= len(heading) || heading[i] == nil:
			extra = i + 1
		default:
			errs = append(errs, heading[i].Set(&entry, value))
		}
	}
	if extra > 0 {
		return newEntry(number), false, fmt.Errorf("it has a value in column %d, for which the heading has no name (a value with %q in it has to be in quotes)", extra, comma)
	}
	return entry, isEmpty, join(errs...)
}

var errQuote = errors.New(`a " is not closed, or has something behind it: within quotes, " is written "", and a value has no line breaks`)

// splitLine splits a line as spreadsheets do: a quote has a meaning only at the beginning of a value. Spaces around a value are no
// part of it, unless they are within quotes.
func splitLine(line string, comma byte) (values []string, err error) {
	isSpace := func(r rune) bool {
		return r != rune(comma) && (unicode.IsSpace(r) || r == '\u200b' || r == '\ufeff') // the last two are invisible
	}
	for {
		line = strings.TrimLeftFunc(line, isSpace)
		value, after, more := strings.Cut(line, string(comma))
		if strings.HasPrefix(line, `"`) {
			var ok bool
			if value, after, ok = cutQuoted(line[1:]); !ok {
				return nil, errQuote
			}
			var between string
			if between, after, more = strings.Cut(after, string(comma)); strings.TrimFunc(between, isSpace) != "" {
				return nil, errQuote
			}
		} else {
			value = strings.TrimFunc(value, isSpace)
		}
		values = append(values, value)
		if !more {
			return values, nil
		}
		line = after
	}
}

// cutQuoted returns a value up to its closing quote, and what follows.
func cutQuoted(text string) (value, after string, ok bool) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, `"`)
		b.WriteString(before)
		if !found {
			return "", "", false
		}
		if !strings.HasPrefix(rest, `"`) {
			return b.String(), rest, true
		}
		b.WriteByte('"')
		text = rest[1:]
	}
}
