// SPDX-License-Identifier: Apache-2.0

package security

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/metal3-io/metal3-apiserver/test/testbed"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

const groupVersion = "/apis/metal3.io/v1alpha1"

// client is somebody's way to a server, by HTTP alone, so that nothing is put
// right on the way.
type client struct {
	server string
	http   *http.Client
	header http.Header
}

// answer is what came back.
type answer struct {
	code int
	body string
}

// status is the answer as what every error has to be.
func (a answer) status() (metav1.Status, error) {
	var status metav1.Status
	err := json.Unmarshal([]byte(a.body), &status)
	if err == nil && (status.Kind != "Status" || status.Code != int32(a.code)) {
		err = fmt.Errorf("no Status of code %d: %s", a.code, a.body)
	}
	return status, err
}

// heard is all that clients were answered: it must not hold a password either.
var heard struct {
	sync.Mutex
	strings.Builder
}

// newClient presents a certificate, or none, to a server.
func newClient(t *testing.T, server *rest.Config, certificates ...tls.Certificate) *client {
	t.Helper()
	// The certificates of the servers are not what is tested.
	config := &tls.Config{InsecureSkipVerify: true}
	if len(certificates) > 0 {
		// Also where its authority is not among those that the server names.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &certificates[0], nil }
	}
	transport := &http.Transport{
		TLSClientConfig:     config,
		MaxIdleConnsPerHost: 8, ForceAttemptHTTP2: true,
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &client{server: server.Host, http: &http.Client{Transport: transport}, header: http.Header{}}
}

// throughKube and direct are the two ways to our server.
func throughKube(t *testing.T, certificates ...tls.Certificate) *client {
	t.Helper()
	return newClient(t, s.Kube.Admin.Config, certificates...)
}

func direct(t *testing.T, certificates ...tls.Certificate) *client {
	t.Helper()
	return newClient(t, s.Server.Direct.Config, certificates...)
}

// user is a certificate by the cluster's authority.
func user(t *testing.T, name string, groups ...string) tls.Certificate {
	t.Helper()
	return issue(t, s.Kube.ClientAuthority().Issue, name, groups...)
}

func issue(t *testing.T, by func(string, time.Time, ...string) (tls.Certificate, error), name string, groups ...string) tls.Certificate {
	t.Helper()
	certificate, err := by(name, time.Now().Add(time.Hour), groups...)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}

// with is the same client with a header added.
func (c *client) with(name string, values ...string) *client {
	other := &client{server: c.server, http: c.http, header: c.header.Clone()}
	other.header[http.CanonicalHeaderKey(name)] = values
	return other
}

// do sends a request. Of a watch, which has no end, only the code is waited for.
func (c *client) do(ctx context.Context, method, path, contentType, body string) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, testbed.Patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, c.server+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return answer{}, err
	}
	request.Header = c.header.Clone()
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	if strings.Contains(path, "watch=true") && response.StatusCode == http.StatusOK {
		return answer{code: response.StatusCode}, nil
	}
	content, err := io.ReadAll(io.LimitReader(response.Body, 64<<20))
	if err != nil {
		return answer{}, err
	}
	heard.Lock()
	defer heard.Unlock()
	heard.Write(content)
	return answer{code: response.StatusCode, body: string(content)}, nil
}

func (c *client) mustDo(t *testing.T, ctx context.Context, method, path, contentType, body string) answer {
	t.Helper()
	a, err := c.do(ctx, method, path, contentType, body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return a
}

func (c *client) get(t *testing.T, ctx context.Context, path string) answer {
	t.Helper()
	return c.mustDo(t, ctx, http.MethodGet, path, "", "")
}
