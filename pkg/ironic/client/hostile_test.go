// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	certutil "k8s.io/client-go/util/cert"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// What answers in place of Ironic, or somebody on the way, must not get credentials from this
// process, nor fill its memory.

func TestRedirectsAreNotFollowed(t *testing.T) {
	asked := false
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	t.Cleanup(elsewhere.Close)
	for _, status := range []int{301, 302, 303, 307, 308} {
		f := newFake(t, newestMinor, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL+r.URL.Path, status)
		})
		dir := t.TempDir()
		cfg := Config{Endpoint: f.URL, UsernameFile: filepath.Join(dir, "u"), PasswordFile: filepath.Join(dir, "p")}
		writeFile(t, cfg.UsernameFile, "u")
		writeFile(t, cfg.PasswordFile, "p")
		c := newClient(t, cfg)
		if _, err := c.GetNode(t.Context(), "a"); !ironic.IsUnavailable(err) {
			t.Errorf("%d to a GET: %v", status, err)
		}
		if err := c.ClearMaintenance(t.Context(), ironic.NoFence, "a"); err == nil {
			t.Errorf("%d to a DELETE: no error", status)
		}
	}
	if asked {
		t.Error("the other server was asked")
	}
}

// A certificate of a trusted authority, but for another name, is refused before anything is sent.
func TestCertificateForAnotherName(t *testing.T) {
	cert, key, err := certutil.GenerateSelfSignedCertKey("other.example.com", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	asked := false
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair(t, string(cert), string(key))}}
	server.StartTLS()
	t.Cleanup(server.Close)
	ca := filepath.Join(t.TempDir(), "ca.crt")
	writeFile(t, ca, string(cert))
	_, err = newClient(t, Config{Endpoint: server.URL, CAFile: ca}).GetNode(t.Context(), "a")
	if !ironic.IsUnavailable(err) || !strings.Contains(ironic.ReasonOf(err), "certificate not accepted") || asked {
		t.Errorf("got %v, asked: %t", err, asked)
	}
}

// endless is a body that goes on until nobody reads it any more.
func endless(w io.Writer) {
	_, _ = io.WriteString(w, `{"error_message": "`)
	chunk := bytes.Repeat([]byte("x"), 1<<20)
	for {
		if _, err := w.Write(chunk); err != nil {
			return
		}
	}
}

func TestEndlessAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		status     int
		compressed bool
	}{
		"error":            {500, false},
		"bad request":      {400, false},
		"compressed error": {500, true},
		"answer":           {200, false},
		"compressed":       {200, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, newestMinor, func(w http.ResponseWriter, r *http.Request) {
				if test.compressed {
					w.Header().Set("Content-Encoding", "gzip")
					w.WriteHeader(test.status)
					packed := gzip.NewWriter(w)
					endless(packed)
					return
				}
				w.WriteHeader(test.status)
				endless(w)
			})
			c := f.client()
			c.transport.maxAnswer = 1 << 20
			if _, err := c.Features(t.Context()); err != nil { // what the first request costs does not count
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := c.ClearMaintenance(t.Context(), ironic.NoFence, "a")
			runtime.ReadMemStats(&after)
			if err == nil {
				t.Error("no error")
			}
			if len(ironic.ReasonOf(err)) > 1<<10 {
				t.Errorf("the reason is %d bytes long", len(ironic.ReasonOf(err)))
			}
			// That includes what this test itself needs to send the answer.
			if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > 32 {
				t.Errorf("%d MiB were allocated", used)
			}
		})
	}
}

func TestProxyVariablesAreIgnored(t *testing.T) {
	c := newClient(t, Config{Endpoint: "https://ironic.example.com"})
	if c.transport.current.Proxy != nil {
		t.Error("the passwords of BMCs would go to the proxy of the environment")
	}
}

func TestWarnings(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "clouds.yaml")
	if err := os.WriteFile(file, []byte("clouds: {plain: {auth: {auth_url: 'http://keystone.example.com:5000', username: u, password: p}}, safe: {auth: {auth_url: 'https://keystone.example.com', username: u, password: p}}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("OS_CLIENT_CONFIG_FILE", file)
	for _, test := range []struct {
		config Config
		says   string
	}{
		{Config{Endpoint: "https://ironic.example.com"}, ""},
		{Config{Endpoint: "http://127.0.0.1:6385"}, ""},
		{Config{Endpoint: "http://[::1]:6385"}, ""},
		{Config{Endpoint: "http://localhost:6385"}, ""},
		{Config{Endpoint: "http://ironic.example.com"}, "BMCs are sent in the clear"},
		{Config{Endpoint: "http://192.0.2.1:6385/v1"}, "BMCs are sent in the clear"},
		{Config{Endpoint: "https://ironic.example.com", Insecure: true}, "not verified"},
		{Config{Cloud: "plain"}, "auth_url"},
		{Config{Cloud: "safe"}, ""},
	} {
		if got := strings.Join(test.config.Warnings(), "; "); (got == "") != (test.says == "") || !strings.Contains(got, test.says) {
			t.Errorf("%+v: %q, want %q", test.config, got, test.says)
		}
	}
}
