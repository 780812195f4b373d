// SPDX-License-Identifier: Apache-2.0

package bmcsim

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"sync"
	"time"
)

// files are the files that Ironic and ramdisks fetch. Those that most tests need exist from the
// beginning.
type files struct {
	since  time.Time
	mu     sync.Mutex
	byName map[string][]byte
}

// The files that exist from the beginning, for use with Sim.FileURL.
const (
	KernelFile  = "ipa.kernel"
	RamdiskFile = "ipa.initramfs"
	AgentISO    = "ipa.iso"
	LiveISO     = "live.iso"
	ImageFile   = "image.raw"
)

func newFiles() *files {
	f := &files{since: time.Now(), byName: map[string][]byte{}}
	for _, name := range []string{KernelFile, RamdiskFile, ImageFile} {
		f.byName[name] = []byte("bmcsim " + name + "\n")
	}
	for _, name := range []string{AgentISO, LiveISO} {
		f.byName[name] = emptyISO(name)
	}
	return f
}

// AddFile serves content under a name. It returns the URL and the SHA-256 checksum.
func (s *Sim) AddFile(name string, content []byte) (url, checksum string) {
	s.files.mu.Lock()
	s.files.byName[name] = bytes.Clone(content)
	s.files.since = time.Now()
	s.files.mu.Unlock()
	return s.FileURL(name), sha256Of(content)
}

// FileURL returns the URL of a file.
func (s *Sim) FileURL(name string) string { return s.url + "/files/" + name }

// FileChecksum returns the SHA-256 checksum of a file, or an empty string if it does not exist.
func (s *Sim) FileChecksum(name string) string {
	s.files.mu.Lock()
	content, ok := s.files.byName[name]
	s.files.mu.Unlock()
	if !ok {
		return ""
	}
	return sha256Of(content)
}

func (f *files) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	content, ok := f.byName[r.PathValue("name")]
	since := f.since
	f.mu.Unlock()
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	// Ironic keeps its cached copy of a file as long as the modification time does not change.
	http.ServeContent(w, r, "", since, bytes.NewReader(content))
}

func sha256Of(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// emptyISO returns an image without files, because Ironic only reads the header.
func emptyISO(label string) []byte {
	image := make([]byte, 20*sectorSize)
	for i, kind := range []byte{1, 255} { // primary descriptor, end of descriptors
		copy(image[(16+i)*sectorSize:], append([]byte{kind}, "CD001\x01"...))
	}
	copy(image[16*sectorSize+40:], label)
	return image
}
