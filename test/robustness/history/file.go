// SPDX-License-Identifier: Apache-2.0

package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// Recorder keeps a record, and writes each entry to a file at once, one JSON object a line. All of its methods may be
// called at any time from any goroutine.
type Recorder struct {
	began time.Time

	mu      sync.Mutex
	entries []Entry
	file    *os.File
	buffer  *bufio.Writer
	err     error
}

// NewRecorder creates the file. The time of the record begins now.
func NewRecorder(path string) (*Recorder, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return &Recorder{began: time.Now(), file: file, buffer: bufio.NewWriter(file)}, nil
}

// Now is the time of the record.
func (r *Recorder) Now() Time { return r.At(time.Now()) }

// At converts a time that has a monotonic reading.
func (r *Recorder) At(t time.Time) Time { return Time(t.Sub(r.began)) }

// Add adds an entry. An error to write it is returned by Close.
func (r *Recorder) Add(e Entry) {
	line, err := json.Marshal(e)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entries = append(r.entries, e)
	if err == nil {
		_, err = r.buffer.Write(append(line, '\n'))
	}
	r.err = errors.Join(r.err, err)
}

// Close closes the file and returns the record. Nothing may be added after that.
func (r *Recorder) Close() ([]Entry, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.entries, errors.Join(r.err, r.buffer.Flush(), r.file.Close())
}

// Read reads a record that a Recorder has written.
func Read(path string) (entries []Entry, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines := json.NewDecoder(bufio.NewReader(file))
	for {
		var e Entry
		err := lines.Decode(&e)
		if errors.Is(err, io.EOF) {
			return entries, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s, entry %d: %w", path, len(entries)+1, err)
		}
		entries = append(entries, e)
	}
}
