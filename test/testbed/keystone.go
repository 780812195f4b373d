// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Keystone is a real Keystone from Debian packages, without users but an administrator and the service
// user with which Ironic verifies tokens.
type Keystone struct {
	// URL is https://127.0.0.1:PORT/v3.
	URL string
	// CAFile has the certificate of the authority that has signed Keystone's.
	CAFile string
	// LogPath is the path of its log, which has a line for each request.
	LogPath string

	password string // of the administrator and of the service user
	client   *http.Client
	state    string
	command  command
	run      *process

	mu      sync.Mutex
	token   string // of the administrator
	expires time.Time
}

// Users and projects that exist from the beginning.
const (
	keystoneAdmin   = "admin"
	keystoneService = "ironic"
	serviceProject  = "service"
)

// StartKeystone creates the Debian root file system if it does not exist yet, and starts a Keystone. Its log, certificates
// and files of credentials are in dir, which must exist. The caller must stop it with Close.
func StartKeystone(ctx context.Context, dir string) (_ *Keystone, err error) {
	if err := DebianIronicMissing(); err != nil {
		return nil, err
	}
	repo, err := RepoRoot()
	if err != nil {
		return nil, err
	}
	scripts := filepath.Join(repo, "test", "ironic")
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	root, err := makeRoot(ctx, scripts, "keystone")
	if err != nil {
		return nil, err
	}
	if err := removeLeftovers(filepath.Join(root, "state")); err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	name := stateName("keystone", port)
	k := &Keystone{
		URL: fmt.Sprintf("https://127.0.0.1:%d/v3", port), CAFile: filepath.Join(dir, "keystone-ca.crt"),
		LogPath:  filepath.Join(dir, "keystone.log"),
		password: "a password", state: filepath.Join(root, "state", name),
	}
	base := filepath.Join(dir, "keystone")
	if err := k.makeCertificates(base); err != nil {
		return nil, err
	}
	k.command = command{
		name: "keystone", log: k.LogPath, path: filepath.Join(scripts, "keystone-run.sh"),
		env: []string{
			"KEYSTONE_PORT=" + strconv.Itoa(port), "KEYSTONE_NAME=" + name, "KEYSTONE_PASSWORD=" + k.password,
			"KEYSTONE_CERT=" + base + ".crt", "KEYSTONE_KEY=" + base + ".key",
		},
		onParentDeath: syscall.SIGTERM, // which ends the worker, too
	}
	if err := errors.Join(k.start(ctx), k.createService(ctx)); err != nil {
		return nil, errors.Join(err, k.Close())
	}
	return k, nil
}

// makeCertificates creates an authority and a serving certificate.
func (k *Keystone) makeCertificates(base string) error {
	authority, err := newAuthority("keystone-authority")
	if err != nil {
		return err
	}
	serving, err := authority.server("keystone")
	if err != nil {
		return err
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(authority.pem)
	// Connections are not reused, because Keystone closes them when it is stopped.
	k.client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: trusted}}}
	return errors.Join(serving.write(base), os.WriteFile(k.CAFile, authority.pem, 0o644))
}

// start starts Keystone.
func (k *Keystone) start(ctx context.Context) (err error) {
	if k.run, err = k.command.start(); err != nil {
		return err
	}
	return k.run.waitReady(ctx, func(ctx context.Context) error { return k.do(ctx, http.MethodGet, "/projects", nil, nil) })
}

// RevokeTokens has Ironic refuse all tokens that a user has got so far. Keystone revokes them when it disables the user, who is
// enabled again.
func (k *Keystone) RevokeTokens(ctx context.Context, user string) error {
	for _, enabled := range []bool{false, true} {
		change := map[string]any{"user": map[string]any{"enabled": enabled}}
		if err := k.do(ctx, http.MethodPatch, "/users/"+user, change, nil); err != nil {
			return err
		}
	}
	return nil
}

// createService creates the user with whom Ironic verifies tokens.
func (k *Keystone) createService(ctx context.Context) error {
	project, err := k.CreateProject(ctx, serviceProject)
	if err != nil {
		return err
	}
	user, err := k.CreateUser(ctx, keystoneService, k.password)
	if err != nil {
		return err
	}
	return k.Grant(ctx, user, "service", project)
}

// Close stops Keystone, and removes its state but not the log.
func (k *Keystone) Close() error {
	return errors.Join(k.run.stop(), os.RemoveAll(k.state))
}

// CreateProject creates a project in the default domain, and returns its ID.
func (k *Keystone) CreateProject(ctx context.Context, name string) (id string, err error) {
	return k.create(ctx, "project", map[string]any{"name": name, "domain_id": "default"})
}

// CreateUser creates a user in the default domain, and returns its ID.
func (k *Keystone) CreateUser(ctx context.Context, name, password string) (id string, err error) {
	return k.create(ctx, "user", map[string]any{"name": name, "password": password, "domain_id": "default"})
}

// CreateRole creates a role, and returns its ID. The roles admin, member, reader and service exist.
func (k *Keystone) CreateRole(ctx context.Context, name string) (id string, err error) {
	return k.create(ctx, "role", map[string]any{"name": name})
}

// System is the scope of Grant that is not a project.
const System = "system"

// Grant gives a user a role in a project, or in the System. User and project are IDs.
func (k *Keystone) Grant(ctx context.Context, user, role, project string) error {
	var found struct {
		Roles []struct {
			ID string `json:"id"`
		} `json:"roles"`
	}
	if err := k.do(ctx, http.MethodGet, "/roles?name="+role, nil, &found); err != nil {
		return err
	}
	if len(found.Roles) != 1 {
		return fmt.Errorf("Keystone has %d roles %q", len(found.Roles), role)
	}
	scope := "/projects/" + project
	if project == System {
		scope = "/system"
	}
	return k.do(ctx, http.MethodPut, scope+"/users/"+user+"/roles/"+found.Roles[0].ID, nil, nil)
}

// AddBareMetalEndpoint adds Ironic to the service catalog.
func (k *Keystone) AddBareMetalEndpoint(ctx context.Context, url string) error {
	service, err := k.create(ctx, "service", map[string]any{"type": "baremetal", "name": "ironic"})
	if err != nil {
		return err
	}
	_, err = k.create(ctx, "endpoint", map[string]any{"service_id": service, "interface": "public", "region_id": "RegionOne", "url": url})
	return err
}

// CreateApplicationCredential creates a credential with which a program can act as a user in a project
// without knowing the user's password. User and project are IDs.
func (k *Keystone) CreateApplicationCredential(ctx context.Context, user, password, project string) (id, secret string, err error) {
	token, _, err := k.login(ctx, map[string]any{"id": user, "password": password}, map[string]any{"project": map[string]any{"id": project}})
	if err != nil {
		return "", "", err
	}
	var made struct {
		Credential struct {
			ID     string `json:"id"`
			Secret string `json:"secret"`
		} `json:"application_credential"`
	}
	_, err = k.send(ctx, token, http.MethodPost, "/users/"+user+"/application_credentials", map[string]any{"application_credential": map[string]any{"name": "metal3"}}, &made)
	return made.Credential.ID, made.Credential.Secret, err
}

// WriteClouds writes a clouds.yaml with the cloud CloudName. auth is the part of the credentials without
// auth_url.
func (k *Keystone) WriteClouds(path string, auth map[string]string) error {
	all := map[string]string{"auth_url": k.URL}
	for key, value := range auth {
		all[key] = value
	}
	cloud := map[string]any{"auth": all, "region_name": "RegionOne", "cacert": k.CAFile}
	if all["application_credential_id"] != "" {
		cloud["auth_type"] = "v3applicationcredential"
	}
	text, err := json.Marshal(map[string]any{"clouds": map[string]any{CloudName: cloud}}) // JSON is YAML
	if err != nil {
		return err
	}
	// The file is replaced at once: it may be read at any time.
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// CloudName is the name of the cloud in files that WriteClouds writes.
const CloudName = "metal3"

// AdministratorAuth is the authentication of the administrator, with system scope.
func (k *Keystone) AdministratorAuth() map[string]string {
	return map[string]string{"username": keystoneAdmin, "password": k.password, "user_domain_id": "default", "system_scope": "all"}
}

// Logins counts the tokens that gophercloud, the library of metal3-apiserver, has requested so far.
func (k *Keystone) Logins() (int, error) {
	log, err := readFile(k.LogPath)
	n := 0
	for line := range strings.Lines(log) {
		if strings.Contains(line, "POST /v3/auth/tokens") && strings.Contains(line, "gophercloud") {
			n++
		}
	}
	return n, err
}

// adminToken returns a valid token of the administrator.
func (k *Keystone) adminToken(ctx context.Context) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if time.Now().Before(k.expires) {
		return k.token, nil
	}
	domain := map[string]any{"id": "default"}
	token, expires, err := k.login(ctx, map[string]any{"name": keystoneAdmin, "domain": domain, "password": k.password}, map[string]any{"system": map[string]any{"all": true}})
	if err != nil {
		return "", err
	}
	k.token, k.expires = token, time.Now().Add(time.Until(expires)/2)
	return token, nil
}

func (k *Keystone) login(ctx context.Context, user, scope map[string]any) (token string, expires time.Time, err error) {
	var answer struct {
		Token struct {
			ExpiresAt time.Time `json:"expires_at"`
		} `json:"token"`
	}
	header, err := k.send(ctx, "", http.MethodPost, "/auth/tokens", map[string]any{"auth": map[string]any{
		"identity": map[string]any{"methods": []string{"password"}, "password": map[string]any{"user": user}}, "scope": scope,
	}}, &answer)
	if err != nil {
		return "", time.Time{}, err
	}
	return header.Get("X-Subject-Token"), answer.Token.ExpiresAt, nil
}

// create creates an entity, such as a project, and returns its ID.
func (k *Keystone) create(ctx context.Context, kind string, fields map[string]any) (id string, err error) {
	var answer map[string]struct {
		ID string `json:"id"`
	}
	err = k.do(ctx, http.MethodPost, "/"+kind+"s", map[string]any{kind: fields}, &answer)
	return answer[kind].ID, err
}

// do sends a request as the administrator.
func (k *Keystone) do(ctx context.Context, method, path string, body, out any) error {
	token, err := k.adminToken(ctx)
	if err == nil {
		_, err = k.send(ctx, token, method, path, body, out)
	}
	return err
}

func (k *Keystone) send(ctx context.Context, token, method, path string, body, out any) (http.Header, error) {
	header := map[string]string{}
	if token != "" {
		header["X-Auth-Token"] = token
	}
	response, answer, err := exchange(ctx, k.client, method, k.URL+path, header, body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode/100 != 2 {
		return nil, fmt.Errorf("Keystone answers %s %s with %s: %s", method, path, response.Status, answer)
	}
	return response.Header, decode(answer, out)
}
