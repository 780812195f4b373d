// SPDX-License-Identifier: Apache-2.0

package client

import (
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

func TestBasicAuthInMemory(t *testing.T) {
	f := newFake(t, newestMinor, basicAuth(func() (string, string) { return "admin", "s3cret" }, answer(200, "{}")))
	right := f.client(func(cfg *Config) { cfg.Username, cfg.Password = "admin", "s3cret\n" }) // as from a file
	if _, err := right.GetNode(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	wrong := f.client(func(cfg *Config) { cfg.Username, cfg.Password = "admin", "wr0ng" })
	if _, err := wrong.GetNode(t.Context(), "a"); !ironic.IsRefused(err) || strings.Contains(err.Error(), "wr0ng") {
		t.Errorf("a wrong password: %v", err)
	}
}

func TestCAInMemory(t *testing.T) {
	f := newFake(t, newestMinor, answer(200, "{}"))
	secure := httptest.NewTLSServer(f.Config.Handler)
	t.Cleanup(secure.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})
	if _, err := newClient(t, Config{Endpoint: secure.URL, CAData: ca}).GetNode(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	if _, err := newClient(t, Config{Endpoint: secure.URL}).GetNode(t.Context(), "a"); !strings.Contains(ironic.ReasonOf(err), "certificate not accepted") {
		t.Errorf("without the authority: %v", err)
	}
	if _, err := New(Config{Endpoint: secure.URL, CAData: []byte("none")}); err == nil {
		t.Error("what is no certificate is accepted")
	}
}

// Neither the environment of the process nor files have a part in a cloud that is in memory.
func TestCloudInMemory(t *testing.T) {
	k := newKeystone(t)
	k.cloud(t, "wr0ng") // of a file with a cloud of the same name
	t.Setenv("OS_CLOUD", "other")
	t.Setenv("OS_REGION_NAME", "RegionTwo")
	t.Setenv("OS_INTERFACE", "internal")
	ca := filepath.Join(t.TempDir(), "ca.crt")
	foreign := httptest.NewTLSServer(nil)
	t.Cleanup(foreign.Close)
	writeFile(t, ca, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: foreign.Certificate().Raw})))
	t.Setenv("OS_CACERT", ca)
	f := newFake(t, newestMinor, k.guard(answer(200, "{}")))
	k.set(func() { k.endpoint = f.URL })
	content := k.content("s3cret")
	cfg := Config{Cloud: "metal", CloudsYAML: []byte(content)}
	if _, err := newClient(t, cfg).GetNode(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	if config, err := tlsConfig(cfg); err != nil || config.RootCAs != nil || config.InsecureSkipVerify {
		t.Errorf("the TLS configuration is %+v, %v", config, err)
	}
	cfg.CloudsYAML = []byte(strings.Replace(content, "auth:", "verify: false\n    auth:", 1))
	if config, err := tlsConfig(cfg); err != nil || !config.InsecureSkipVerify {
		t.Errorf("with verify: false, the TLS configuration is %+v, %v", config, err)
	}
}

func TestBadCloudsInMemory(t *testing.T) {
	const entry = "clouds: {metal: {%s, auth: {auth_url: http://k, username: u, password: s3cret}}}"
	for name, test := range map[string]struct{ content, want string }{
		"no YAML":            {"s3cret: [", "not a valid one"},
		"other types":        {"clouds: {metal: {auth: s3cret}}", "not a valid one"},
		"another cloud":      {"clouds: {other: {}}", `has no cloud "metal"`},
		"no Keystone":        {"clouds: {metal: {auth: {password: s3cret}}}", "no auth_url"},
		"standalone Ironic":  {"clouds: {metal: {auth_type: none, baremetal_endpoint_override: 'https://s3cret'}}", "no auth_url"},
		"null auth":          {"clouds: {metal: {auth: null, password: s3cret}}", "no auth_url"},
		"empty entry":        {"clouds: {metal: }", "no auth_url"},
		"CA file":            {fmt.Sprintf(entry, "cacert: /etc/s3cret"), "names files"},
		"client certificate": {fmt.Sprintf(entry, "cert: /a, key: /b"), "names files"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(Config{Cloud: "metal", CloudsYAML: []byte(test.content)})
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
	for _, entry := range []string{"{auth_type: none}", "", "{auth: {username: u, password: p}}"} {
		file := filepath.Join(t.TempDir(), "clouds.yaml")
		if err := os.WriteFile(file, []byte("clouds:\n  metal: "+entry), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv("OS_CLIENT_CONFIG_FILE", file)
		if _, err := New(Config{Cloud: "metal"}); err == nil || !strings.Contains(err.Error(), "no auth_url") {
			t.Errorf("a file with %q: %v", entry, err)
		}
	}
	// A profile is in a file beside clouds.yaml, which must not be looked for.
	if _, err := New(Config{Cloud: "metal", CloudsYAML: fmt.Appendf(nil, entry, "profile: vendor")}); err != nil {
		t.Error(err)
	}
}
