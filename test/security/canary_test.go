// SPDX-License-Identifier: Apache-2.0

package security

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
)

// canary is a password that nothing else can be mistaken for.
type canary struct {
	what string
	text string
	core string // the part of text that no escaping changes
}

var canaries struct {
	sync.Mutex
	all []canary
}

// newCanary has in it what JSON, URLs, YAML, shells and Python escape, around
// a random core.
func newCanary(what string) canary {
	core := rand.Text()[:20]
	c := canary{what: what, core: core, text: `"<'&%` + core + `\{é`}
	canaries.Lock()
	defer canaries.Unlock()
	canaries.all = append(canaries.all, c)
	return c
}

// needles are what to look for: each half of the core as it is, in base64 at any
// place within something else, in hexadecimal and backwards.
func (c canary) needles() []string {
	found := sets.New[string]()
	for _, half := range []string{c.core[:len(c.core)/2], c.core[len(c.core)/2:]} {
		found.Insert(half, hex.EncodeToString([]byte(half)), strings.ToUpper(hex.EncodeToString([]byte(half))))
		for before := range 3 {
			// The characters at both ends depend on the neighbours.
			encoded := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("x", before) + half))
			from := []int{0, 2, 3}[before]
			found.Insert(encoded[from : len(encoded)-1])
		}
	}
	return sets.List(found)
}

// findCanaries reports which canaries are in text, and in which surroundings.
func findCanaries(text string) map[string]string {
	canaries.Lock()
	defer canaries.Unlock()
	found := map[string]string{}
	for _, c := range canaries.all {
		for _, needle := range c.needles() {
			if i := strings.Index(text, needle); i >= 0 {
				found[c.what] = text[max(0, i-200):min(len(text), i+100)]
				break
			}
		}
	}
	return found
}

// applied is a Secret as kubectl apply makes it: with all of it in an annotation.
var applied canary

func applySecret(ctx context.Context) error {
	applied = newCanary("a Secret in its annotation")
	secret, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "applied", "namespace": "default"},
		"stringData": map[string]string{"username": "admin", "password": applied.text},
	})
	if err != nil {
		return err
	}
	if _, _, err := s.Kube.Kubectl(ctx, string(secret), "apply", "-f", "-"); err != nil {
		return fmt.Errorf("applying a Secret: %w", err)
	}
	return nil
}

// searchFiles looks for the canaries of all tests in what the server has written,
// and in what clients were answered.
func searchFiles() error {
	heard.Lock()
	content := map[string]string{"the answers to all requests": heard.String()}
	heard.Unlock()
	err := dataFiles(content)
	for _, path := range []string{s.Server.LogPath, s.audit, s.Kube.AuditLogPath()} {
		text, readErr := os.ReadFile(path)
		err = errors.Join(err, readErr)
		content[path] = string(text)
	}
	content["the dumps in the log"] = undumped(content[s.Server.LogPath])
	for place, text := range content {
		for what, where := range findCanaries(text) {
			err = errors.Join(err, fmt.Errorf("%s has %s: ...%s...", place, what, where))
		}
	}
	return err
}

// dataFiles adds the files of our etcd, in which is also what was overwritten.
func dataFiles(found map[string]string) error {
	return filepath.WalkDir(s.Server.DataDir(), func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || entry.Name() == "reserve" { // of disk space, never written
			return err
		}
		content, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) && filepath.Ext(path) == ".tmp" {
			return nil // etcd has given a segment of its log, which has no entries before that, its name
		}
		found["the file "+path] = string(content)
		return err
	})
}
