// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// basicAuth guards as Ironic's http_basic does: below /v1/, not /v1 itself.
func basicAuth(accepted func() (user, password string), next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		wantUser, wantPassword := accepted()
		if user != wantUser || password != wantPassword {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error":{"message":"Incorrect username or password","code":401}}`)
			return
		}
		next(w, r)
	}
}

func TestBasicAuthRotates(t *testing.T) {
	dir := t.TempDir()
	userFile, passwordFile := filepath.Join(dir, "username"), filepath.Join(dir, "password")
	writeFile(t, userFile, "admin\n")
	writeFile(t, passwordFile, " first \n")
	password := "first"
	f := newFake(t, newestMinor, basicAuth(func() (string, string) { return "admin", password }, answer(200, "{}")))
	c := f.client(func(cfg *Config) { cfg.UsernameFile, cfg.PasswordFile = userFile, passwordFile })
	ctx := within(t, time.Minute)
	if _, err := c.GetNode(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	password = "second"
	_, err := c.GetNode(ctx, "a")
	if !ironic.IsUnavailable(err) || ironic.ReasonOf(err) != "credentials refused (HTTP 401)" {
		t.Errorf("with the old password: %v", err)
	}
	if strings.Contains(err.Error(), "first") {
		t.Errorf("the error shows the password: %v", err)
	}
	writeFile(t, passwordFile, "second") // the same instant and length do not matter
	if _, err := c.GetNode(ctx, "a"); err != nil {
		t.Errorf("with the new password: %v", err)
	}
	if err := c.setPowerState(ctx, ironic.NoFence, "a", ironic.TargetPowerOn, 0); err != nil {
		t.Errorf("write with the new password: %v", err)
	}
	// A file that cannot be read for a moment changes nothing.
	writeFile(t, passwordFile, "")
	if _, err := c.GetNode(ctx, "a"); err != nil {
		t.Errorf("with an empty file: %v", err)
	}
}

// The files change after the request was built: it is sent again.
func TestBasicAuthRotatesDuringRequest(t *testing.T) {
	dir := t.TempDir()
	userFile, passwordFile := filepath.Join(dir, "username"), filepath.Join(dir, "password")
	writeFile(t, userFile, "admin")
	writeFile(t, passwordFile, "first")
	f := newFake(t, newestMinor, basicAuth(func() (string, string) {
		writeFile(t, passwordFile, "second")
		return "admin", "second"
	}, answer(202, "")))
	c := f.client(func(cfg *Config) { cfg.UsernameFile, cfg.PasswordFile = userFile, passwordFile })
	if err := c.setPowerState(t.Context(), ironic.NoFence, "a", ironic.TargetPowerOn, 0); err != nil {
		t.Error(err)
	}
}

func TestBasicAuthFilesAtStart(t *testing.T) {
	dir := t.TempDir()
	empty, full, marked := filepath.Join(dir, "empty"), filepath.Join(dir, "full"), filepath.Join(dir, "marked")
	writeFile(t, marked, "\ufeffadmin\r\n")
	writeFile(t, empty, "\n")
	writeFile(t, full, "x")
	for _, cfg := range []Config{
		{Endpoint: "http://a", UsernameFile: filepath.Join(dir, "missing"), PasswordFile: full},
		{Endpoint: "http://a", UsernameFile: full, PasswordFile: empty},
		{Endpoint: "http://a", UsernameFile: marked, PasswordFile: full},
		{Endpoint: "http://a", CAFile: filepath.Join(dir, "missing")},
		{Endpoint: "http://a", CAFile: full},
		{Endpoint: "http://a", CertFile: full, KeyFile: full},
		{Cloud: "nowhere"},
	} {
		t.Setenv("OS_CLIENT_CONFIG_FILE", filepath.Join(dir, "missing"))
		if _, err := New(cfg); err == nil {
			t.Errorf("%+v is accepted", cfg)
		}
	}
}

// fakeKeystone issues tokens for one password.
type fakeKeystone struct {
	*httptest.Server
	mu       sync.Mutex
	password string
	endpoint string // Ironic's, in the catalog; none when empty
	token    string
	logins   int
}

func newKeystone(t *testing.T) *fakeKeystone {
	k := &fakeKeystone{password: "s3cret"}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v3/auth/tokens", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		k.logins++
		w.Header().Set("Content-Type", "application/json")
		if !strings.Contains(string(body), `"password":"`+k.password+`"`) {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error":{"code":401,"message":"The request you have made requires authentication.","title":"Unauthorized"}}`)
			return
		}
		k.token = fmt.Sprintf("token-%d", k.logins)
		catalog := []any{}
		if k.endpoint != "" {
			catalog = append(catalog, map[string]any{"type": "baremetal", "name": "ironic", "endpoints": []any{
				map[string]any{"interface": "public", "region": "RegionOne", "region_id": "RegionOne", "url": k.endpoint},
			}})
		}
		w.Header().Set("X-Subject-Token", k.token)
		w.WriteHeader(http.StatusCreated)
		json.NewEncoder(w).Encode(map[string]any{"token": map[string]any{ //nolint:errcheck // The client notices.
			"expires_at": "2099-01-01T00:00:00.000000Z", "catalog": catalog,
		}})
	})
	k.Server = httptest.NewServer(mux)
	t.Cleanup(k.Close)
	return k
}

// guard accepts the token issued last.
func (k *fakeKeystone) guard(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		k.mu.Lock()
		token := k.token
		k.mu.Unlock()
		if token == "" || r.Header.Get("X-Auth-Token") != token {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error":{"message":"The request you have made requires authentication.","code":401}}`)
			return
		}
		next(w, r)
	}
}

func (k *fakeKeystone) set(change func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	change()
}

func (k *fakeKeystone) cloud(t *testing.T, password string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "clouds.yaml")
	t.Setenv("OS_CLIENT_CONFIG_FILE", path)
	k.writeCloud(t, path, password)
}

func (k *fakeKeystone) writeCloud(t *testing.T, path, password string) {
	t.Helper()
	writeFile(t, path, k.content(password))
}

// content is that of a clouds.yaml.
func (k *fakeKeystone) content(password string) string {
	return fmt.Sprintf(`clouds:
  metal:
    region_name: RegionOne
    auth:
      auth_url: %s/v3
      username: admin
      password: %s
      project_name: admin
      user_domain_name: Default
      project_domain_name: Default
`, k.URL, password)
}

func TestKeystone(t *testing.T) {
	k := newKeystone(t)
	k.cloud(t, "s3cret")
	f := newFake(t, newestMinor, k.guard(answer(200, "{}")))
	for name, endpoint := range map[string]string{"versioned": f.URL + "/v1", "versionless": f.URL} {
		t.Run(name, func(t *testing.T) {
			k.set(func() { k.endpoint, k.logins = endpoint, 0 })
			c := newClient(t, Config{Cloud: "metal"})
			ctx := within(t, time.Minute)
			var wg sync.WaitGroup
			for range 20 {
				wg.Go(func() {
					if _, err := c.GetNode(ctx, "a"); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if k.logins != 1 {
				t.Errorf("%d logins, want one for all", k.logins)
			}
			k.set(func() { k.token = "expired" })
			if err := c.setPowerState(ctx, ironic.NoFence, "a", ironic.TargetPowerOn, 0); err != nil {
				t.Errorf("after the token expired: %v", err)
			}
			if k.logins != 2 {
				t.Errorf("%d logins, want 2", k.logins)
			}
		})
	}
}

func TestKeystoneFailures(t *testing.T) {
	k := newKeystone(t)
	path := filepath.Join(t.TempDir(), "clouds.yaml")
	t.Setenv("OS_CLIENT_CONFIG_FILE", path)
	k.writeCloud(t, path, "wr0ng")
	f := newFake(t, newestMinor, k.guard(answer(200, "{}")))
	c := newClient(t, Config{Cloud: "metal"})
	ctx := within(t, time.Minute)
	_, err := c.GetNode(ctx, "a")
	if want := "Keystone answered HTTP 401: The request you have made requires authentication."; !ironic.IsUnavailable(err) || ironic.ReasonOf(err) != want {
		t.Errorf("wrong password: %v, want %s", err, want)
	}
	k.writeCloud(t, path, "s3cret")
	_, err = c.GetNode(ctx, "a")
	if !ironic.IsUnavailable(err) || !strings.Contains(ironic.ReasonOf(err), "no baremetal endpoint") {
		t.Errorf("Ironic not in the catalog: %v", err)
	}
	// The catalog is that of the token: a new login sees the new one.
	k.set(func() { k.endpoint = f.URL + "/v1" })
	if _, err := c.GetNode(ctx, "a"); err != nil {
		t.Errorf("after everything was mended: %v", err)
	}
}

// Ironic answers 404 to a GET of a node that the user may not see. Of a user who may not even list nodes, that
// must not look as if the node were gone.
func TestKeystoneUserWithoutRole(t *testing.T) {
	k := newKeystone(t)
	k.cloud(t, "s3cret")
	var mu sync.Mutex
	hasRole := true
	setRole := func(has bool) {
		mu.Lock()
		defer mu.Unlock()
		hasRole = has
	}
	f := newFake(t, newestMinor, k.guard(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case hasRole:
			answer(200, "{}")(w, r)
		case r.URL.Path == "/v1/nodes":
			answer(403, fault("Access was denied to the following resource: baremetal:node:list"))(w, r)
		default:
			answer(404, fault("Node a could not be found."))(w, r)
		}
	}))
	k.set(func() { k.endpoint = f.URL })
	c := newClient(t, Config{Cloud: "metal"})
	if _, err := c.GetNode(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	setRole(false)
	k.set(func() { k.token = "expired" })
	for range 2 {
		_, err := c.GetNode(t.Context(), "a")
		want := "not permitted by Ironic's policy (HTTP 403): Access was denied to the following resource: baremetal:node:list"
		if !ironic.IsUnavailable(err) || ironic.IsNotFound(err) || !ironic.IsRefused(err) || ironic.ReasonOf(err) != want {
			t.Errorf("without a role: %v, reason %q, want %q", err, ironic.ReasonOf(err), want)
		}
	}
	setRole(true)
	if _, err := c.GetNode(t.Context(), "a"); err != nil {
		t.Errorf("when the user has the role again: %v", err)
	}
}

func TestKeystoneWithOwnEndpoint(t *testing.T) {
	k := newKeystone(t)
	k.cloud(t, "s3cret")
	f := newFake(t, newestMinor, k.guard(answer(200, "{}")))
	if _, err := newClient(t, Config{Cloud: "metal", Endpoint: f.URL}).GetNode(t.Context(), "a"); err != nil {
		t.Error(err)
	}
}

// silent answers nobody.
type silent struct{}

func (silent) RoundTrip(req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	return nil, req.Context().Err()
}

// TestKeystoneHangs: each reader gives up by its own limit, although Keystone never answers: nobody waits for another one's attempt.
func TestKeystoneHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const readers = 8
		cloud := (&fakeKeystone{Server: &httptest.Server{URL: "https://keystone.example"}}).content("s3cret")
		c := newClient(t, Config{Cloud: "metal", CloudsYAML: []byte(cloud), Transport: silent{}, ReadConnections: readers}) // none of them waits for a connection
		var wg sync.WaitGroup
		for i := range readers {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+i)*time.Second)
				defer cancel()
				want := fmt.Sprintf("no login at Keystone: no answer within %ds", 1+i)
				if _, err := c.GetNode(ctx, "a"); !ironic.IsTimeout(err) || ironic.ReasonOf(err) != want {
					t.Errorf("%v, want %s", err, want)
				}
			})
		}
		wg.Wait()
	})
}

// answering answers each request without a network, in which a handshake could take longer than the client waits.
type answering func(req *http.Request) (*http.Response, error)

func (a answering) RoundTrip(req *http.Request) (*http.Response, error) { return a(req) }

// TestKeystoneIsNamed: Ironic is well, or is not asked at all.
func TestKeystoneIsNamed(t *testing.T) {
	page := func(status int, content string) answering {
		return func(req *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(content)), Request: req}, nil
		}
	}
	fails := func(err error) answering {
		return func(*http.Request) (*http.Response, error) { return nil, err }
	}
	untrusted := &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}
	for name, test := range map[string]struct {
		path          string
		keystone      answering
		class, reason string
	}{
		"down":                  {"/v3", fails(&net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}), "refused", "no login at Keystone: connection refused"},
		"not trusted":           {"/v3", fails(untrusted), "tls", "no login at Keystone: certificate not accepted: "},
		"a dashboard":           {"", page(200, "<html>Log in</html>"), "other", notKeystone},
		"Ironic":                {"", page(200, `{"name": "OpenStack Ironic API", "versions": []}`), "other", notKeystone},
		"a dashboard's login":   {"/v3", page(302, ""), ironic.ClassAuth, notKeystone + ": HTTP 302"},
		"a dashboard's refusal": {"/v3", page(403, "<html>CSRF</html>"), ironic.ClassAuth, notKeystone + ": HTTP 403"},
		"no such page":          {"/v3", page(404, "<html>no</html>"), ironic.ClassAuth, notKeystone + ": HTTP 404"},
		"a proxy":               {"/v3", page(503, "<html>later</html>"), ironic.ClassAuth, "Keystone answered HTTP 503"},
	} {
		t.Run(name, func(t *testing.T) {
			const keystone = "https://keystone.example"
			cloud := strings.Replace((&fakeKeystone{Server: &httptest.Server{URL: keystone}}).content("s3cret"), keystone+"/v3", keystone+test.path, 1)
			_, err := newClient(t, Config{Cloud: "metal", CloudsYAML: []byte(cloud), Endpoint: "https://ironic.example", Transport: test.keystone}).GetNode(t.Context(), "a")
			unavailable := new(ironic.UnavailableError)
			if !errors.As(err, &unavailable) || unavailable.Class != test.class || !strings.HasPrefix(unavailable.Reason, test.reason) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%v, want %s (%s)", err, test.reason, test.class)
			}
		})
	}
}

// nameless knows no host.
type nameless struct{}

func (nameless) RoundTrip(req *http.Request) (*http.Response, error) {
	return nil, &net.DNSError{Err: "no such host", Name: req.URL.Hostname(), IsNotFound: true}
}

func TestKeystoneOfUnknownName(t *testing.T) {
	cloud := (&fakeKeystone{Server: &httptest.Server{URL: "https://keystone.example"}}).content("s3cret")
	_, err := newClient(t, Config{Cloud: "metal", CloudsYAML: []byte(cloud), Endpoint: "https://ironic.example", Transport: nameless{}}).GetNode(t.Context(), "a")
	if want := `no login at Keystone: host name "keystone.example" cannot be resolved`; ironic.ReasonOf(err) != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestIronicHangsAfterLogin: who waits for the answer of Ironic to somebody else's login does not blame Keystone.
func TestIronicHangsAfterLogin(t *testing.T) {
	k := newKeystone(t)
	k.cloud(t, "s3cret")
	asked := make(chan struct{}, 1)
	hung := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	defer hung.Close()
	c := newClient(t, Config{Cloud: "metal", Endpoint: hung.URL})
	ctx, cancel := context.WithCancel(t.Context())
	var first sync.WaitGroup
	first.Go(func() { _, _ = c.GetNode(ctx, "a") })
	defer first.Wait()
	defer cancel()
	<-asked
	late, end := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer end()
	if _, err := c.GetNode(late, "a"); !ironic.IsTimeout(err) || !strings.HasPrefix(ironic.ReasonOf(err), "no answer within ") {
		t.Errorf("got %v", err)
	}
}

func TestNoAuthSendsNoCredentials(t *testing.T) {
	f := newFake(t, newestMinor, answer(200, "{}"))
	if _, err := f.client().GetNode(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if got := f.last().Authorization; got != "" {
		t.Errorf("sent %q", got)
	}
}
