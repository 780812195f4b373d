// SPDX-License-Identifier: Apache-2.0

package client

import (
	"crypto/tls"
	"crypto/x509"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	certutil "k8s.io/client-go/util/cert"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

func selfSigned(t *testing.T) (cert, key string) {
	t.Helper()
	c, k, err := certutil.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(c), string(k)
}

func pair(t *testing.T, cert, key string) tls.Certificate {
	t.Helper()
	p, err := tls.X509KeyPair([]byte(cert), []byte(key))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestCertificatesRotate(t *testing.T) {
	serverCert, serverKey := selfSigned(t)
	clientCert, clientKey := selfSigned(t)
	otherCert, otherKey := selfSigned(t)

	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM([]byte(clientCert))
	plain := newFake(t, newestMinor, answer(200, "{}"))
	server := httptest.NewUnstartedServer(plain.Config.Handler)
	server.TLS = &tls.Config{
		Certificates: []tls.Certificate{pair(t, serverCert, serverKey)},
		// The generated certificates are not for clients: compare them here.
		ClientAuth: tls.RequireAnyClientCert,
		VerifyPeerCertificate: func(raw [][]byte, _ [][]*x509.Certificate) error {
			want := pair(t, clientCert, clientKey).Certificate[0]
			if string(raw[0]) != string(want) {
				return x509.UnknownAuthorityError{}
			}
			return nil
		},
	}
	server.StartTLS()
	t.Cleanup(server.Close)

	dir := t.TempDir()
	cfg := Config{
		Endpoint: server.URL,
		CAFile:   filepath.Join(dir, "ca.crt"), CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key"),
	}
	writeFile(t, cfg.CAFile, otherCert)
	writeFile(t, cfg.CertFile, otherCert)
	writeFile(t, cfg.KeyFile, otherKey)
	c := newClient(t, cfg)

	_, err := c.GetNode(t.Context(), "a")
	if !ironic.IsUnavailable(err) || !strings.Contains(ironic.ReasonOf(err), "certificate not accepted") {
		t.Errorf("with another CA: %v", err)
	}
	writeFile(t, cfg.CAFile, serverCert)
	if _, err = c.GetNode(t.Context(), "a"); !ironic.IsUnavailable(err) {
		t.Errorf("with another client certificate: %v", err)
	}
	// Half of a change: what was there before goes on being used.
	writeFile(t, cfg.CertFile, clientCert)
	if _, err = c.GetNode(t.Context(), "a"); !ironic.IsUnavailable(err) {
		t.Errorf("with a certificate and key that do not match: %v", err)
	}
	writeFile(t, cfg.KeyFile, clientKey)
	if _, err = c.GetNode(t.Context(), "a"); err != nil {
		t.Errorf("with all in place: %v", err)
	}
	writeFile(t, cfg.CAFile, "garbage")
	if _, err = c.GetNode(t.Context(), "a"); err != nil {
		t.Errorf("with a damaged CA file: %v", err)
	}
}

func TestInsecure(t *testing.T) {
	server := httptest.NewTLSServer(newFake(t, newestMinor, answer(200, "{}")).Config.Handler)
	t.Cleanup(server.Close)
	if _, err := newClient(t, Config{Endpoint: server.URL, Insecure: true}).GetNode(t.Context(), "a"); err != nil {
		t.Error(err)
	}
}
