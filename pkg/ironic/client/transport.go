// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// idleTimeout is how long an idle connection is kept: less than the 10 s after
// which newer Ironics close it themselves, since a write that is sent just then
// would fail.
const idleTimeout = 5 * time.Second

// transport is the way to Ironic and Keystone. It takes up changed
// certificates with the next request. Requests under way end as they began,
// whereas client-go breaks their connections.
type transport struct {
	cfg   Config
	files files
	// maxAnswer and maxErrorAnswer bound the bodies of answers, in bytes.
	maxAnswer, maxErrorAnswer int64

	mu      sync.Mutex
	current *http.Transport
}

func newTransport(cfg Config) (*transport, error) {
	t := &transport{cfg: cfg, maxAnswer: maxAnswer, maxErrorAnswer: maxErrorAnswer}
	for _, path := range []string{cfg.CAFile, cfg.CertFile, cfg.KeyFile} {
		if path != "" {
			t.files.paths = append(t.files.paths, path)
		}
	}
	if _, err := t.files.read(); err != nil {
		return nil, err
	}
	return t, t.reload()
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	via := t.cfg.Transport
	if via == nil {
		via = t.get(req.Context())
	}
	resp, err := via.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	limit := t.maxAnswer
	if resp.StatusCode >= http.StatusMultipleChoices {
		limit = t.maxErrorAnswer
	}
	// What is beyond the limit is an error, so that half of an answer is not taken for the whole. The bytes of a compressed
	// answer count as they are after decompression, which http.Transport does.
	resp.Body = http.MaxBytesReader(nil, resp.Body, limit)
	return resp, nil
}

// CloseIdleConnections closes the connections that are not in use.
func (t *transport) CloseIdleConnections() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.current.CloseIdleConnections()
}

func (t *transport) get(ctx context.Context) *http.Transport {
	if changed, err := t.files.read(); err != nil {
		klog.FromContext(ctx).Error(err, "Cannot read the TLS files for Ironic, going on with what they held before")
	} else if changed {
		if err := t.reload(); err != nil {
			klog.FromContext(ctx).Error(err, "Cannot use the changed TLS files for Ironic, going on with what they held before")
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.current
}

// reload makes a new transport from what the files hold now.
func (t *transport) reload() error {
	config, err := tlsConfig(t.cfg)
	if err != nil {
		return err
	}
	fresh := &http.Transport{
		// No Proxy: HTTPS_PROXY and the like are often set for all pods, and mean the way out of the
		// cluster. The passwords of BMCs must not go there.
		DialContext:         t.dial,
		TLSClientConfig:     config,
		TLSHandshakeTimeout: min(5*time.Second, t.cfg.Timeout),
		MaxIdleConnsPerHost: t.cfg.ReadConnections + t.cfg.WriteConnections,
		IdleConnTimeout:     idleTimeout,

		MaxResponseHeaderBytes: 64 << 10,
	}
	t.mu.Lock()
	old := t.current
	t.current = fresh
	t.mu.Unlock()
	if old != nil {
		old.CloseIdleConnections()
	}
	return nil
}

func tlsConfig(cfg Config) (*tls.Config, error) {
	if cfg.Cloud != "" && len(cfg.CloudsYAML) == 0 {
		config, err := cloudTLS(cfg)
		if err != nil {
			return nil, fmt.Errorf("cloud %q: %w", cfg.Cloud, err)
		}
		return config, nil
	}
	insecure := cfg.Insecure
	if cfg.Cloud != "" {
		cloud, err := readCloud(cfg)
		if err != nil {
			return nil, err
		}
		insecure = insecure || cloud.Verify != nil && !*cloud.Verify
	}
	config := &tls.Config{InsecureSkipVerify: insecure} //nolint:gosec // Only where the user asks for it.
	if len(cfg.CAData) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(cfg.CAData) {
			return nil, errors.New("the content of the Ironic CA file holds no certificate in PEM form")
		}
	}
	if cfg.CAFile != "" {
		pem, err := os.ReadFile(cfg.CAFile)
		if err != nil {
			return nil, fmt.Errorf("the Ironic CA file: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("the Ironic CA file %s holds no certificate in PEM form", cfg.CAFile)
		}
	}
	if cfg.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(cfg.CertFile, cfg.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("the Ironic client certificate: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// files are small files whose contents matter. They are read each time:
// that is cheap beside a request, and sees every change.
type files struct {
	paths []string

	mu       sync.Mutex
	contents [][]byte
}

// read reports whether the contents differ from those of the last time.
func (f *files) read() (changed bool, err error) {
	contents := make([][]byte, 0, len(f.paths))
	for _, path := range f.paths {
		b, err := os.ReadFile(path)
		if err != nil {
			return false, err
		}
		contents = append(contents, b)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	changed = len(contents) != len(f.contents)
	for i := 0; !changed && i < len(contents); i++ {
		changed = !bytes.Equal(contents[i], f.contents[i])
	}
	f.contents = contents
	return changed, nil
}
