// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/httpbasic"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/noauth"
	"k8s.io/klog/v2"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
)

// authenticator makes the gophercloud client that carries the credentials.
type authenticator interface {
	// client returns the client to use now.
	client(ctx context.Context) (*gophercloud.ServiceClient, error)
	// renew is called when Ironic refused the credentials of a client. It
	// reports whether it is worth trying again.
	renew(ctx context.Context, refused *gophercloud.ServiceClient) bool
}

func newAuthenticator(cfg Config, t *transport) (authenticator, error) {
	httpClient := http.Client{
		Transport: t,
		// For the requests that gophercloud makes without a context.
		Timeout: cfg.Timeout,
		// Ironic does not redirect, and a POST would become a GET.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	endpoint := ""
	if cfg.Endpoint != "" {
		var err error
		if endpoint, err = baseURL(cfg.Endpoint); err != nil {
			return nil, err
		}
	}
	switch {
	case cfg.Cloud != "":
		k := &keystone{cfg: cfg, endpoint: endpoint, http: httpClient, login: make(chan struct{}, 1)}
		_, _, err := k.options()
		return k, err
	case cfg.Username != "":
		sc, err := httpbasic.NewBareMetalHTTPBasic(httpbasic.EndpointOpts{
			IronicEndpoint: endpoint, IronicUser: strings.TrimSpace(cfg.Username), IronicUserPassword: strings.TrimSpace(cfg.Password),
		})
		if err != nil {
			return nil, err
		}
		sc.HTTPClient = httpClient
		return fixed{sc}, nil
	case cfg.UsernameFile != "":
		b := &basic{cfg: cfg, endpoint: endpoint, http: httpClient}
		_, err := b.load()
		return b, err
	default:
		sc, err := noauth.NewBareMetalNoAuth(noauth.EndpointOpts{IronicEndpoint: endpoint})
		if err != nil {
			return nil, err
		}
		sc.HTTPClient = httpClient
		return fixed{sc}, nil
	}
}

// fixed is for auth_strategy=noauth, and for credentials that are in memory.
type fixed struct{ sc *gophercloud.ServiceClient }

func (f fixed) client(context.Context) (*gophercloud.ServiceClient, error) { return f.sc, nil }

func (fixed) renew(context.Context, *gophercloud.ServiceClient) bool { return false }

// basic is for auth_strategy=http_basic.
type basic struct {
	cfg      Config
	endpoint string
	http     http.Client

	mu             sync.Mutex
	user, password string
	sc             *gophercloud.ServiceClient
}

func (b *basic) client(ctx context.Context) (*gophercloud.ServiceClient, error) {
	sc, err := b.load()
	if err != nil && sc != nil {
		klog.FromContext(ctx).Error(err, "Cannot read the Ironic credentials, going on with those from before")
		return sc, nil
	}
	return sc, err
}

// load reads the files. On an error it returns the client from before as well.
func (b *basic) load() (*gophercloud.ServiceClient, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	user, err := readTrimmed("user name", b.cfg.UsernameFile)
	if err != nil {
		return b.sc, err
	}
	// The password may have any bytes: Ironic compares them as they are.
	if wrong := bmc.Unsendable(user); wrong != "" {
		return b.sc, fmt.Errorf("the Ironic user name file %s: the user name %s", b.cfg.UsernameFile, wrong)
	}
	password, err := readTrimmed("password", b.cfg.PasswordFile)
	if err != nil {
		return b.sc, err
	}
	if b.sc != nil && user == b.user && password == b.password {
		return b.sc, nil
	}
	sc, err := httpbasic.NewBareMetalHTTPBasic(httpbasic.EndpointOpts{
		IronicEndpoint: b.endpoint, IronicUser: user, IronicUserPassword: password,
	})
	if err != nil {
		return b.sc, err
	}
	sc.HTTPClient = b.http
	b.user, b.password, b.sc = user, password, sc
	return sc, nil
}

// renew finds that the files have changed since the request was built.
func (b *basic) renew(ctx context.Context, refused *gophercloud.ServiceClient) bool {
	sc, err := b.client(ctx)
	return err == nil && sc != refused
}

func readTrimmed(what, path string) (string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("the Ironic %s file: %w", what, err)
	}
	value := strings.TrimSpace(string(content))
	if value == "" {
		return "", fmt.Errorf("the Ironic %s file %s is empty", what, path)
	}
	return value, nil
}

// keystone is for auth_strategy=keystone. The login is left until Ironic is
// needed, and repeated when the token is refused; clouds.yaml is read again
// each time. gophercloud's ReauthFunc is not set, because gophercloud would then
// repeat the request itself, without checking the fence again.
type keystone struct {
	cfg      Config
	endpoint string // replaces the one of the catalog when not empty
	http     http.Client

	login chan struct{} // held during a login; a mutex that knows contexts

	mu sync.Mutex
	sc *gophercloud.ServiceClient
	// unverified is logged in, but Ironic has not said yet that it may list nodes. It is changed only while
	// login is held.
	unverified *gophercloud.ServiceClient
}

func (k *keystone) options() (gophercloud.AuthOptions, gophercloud.EndpointOpts, error) {
	auth, endpoint, err := parseCloud(k.cfg)
	if err != nil {
		return auth, endpoint, fmt.Errorf("cloud %q: %w", k.cfg.Cloud, err)
	}
	return auth, endpoint, nil
}

func (k *keystone) known() *gophercloud.ServiceClient {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.sc
}

// loggedIn returns the client that Ironic is asked about now, or is to be asked about next. Without one, Keystone is.
func (k *keystone) loggedIn() *gophercloud.ServiceClient {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.unverified
}

func (k *keystone) set(sc, unverified *gophercloud.ServiceClient) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sc, k.unverified = sc, unverified
}

func (k *keystone) client(ctx context.Context) (*gophercloud.ServiceClient, error) {
	if sc := k.known(); sc != nil {
		return sc, nil
	}
	select {
	case k.login <- struct{}{}:
		defer func() { <-k.login }()
	case <-ctx.Done():
		if k.loggedIn() == nil {
			return nil, &keystoneError{ctx.Err()}
		}
		return nil, ctx.Err()
	}
	if sc := k.known(); sc != nil {
		return sc, nil
	}
	sc := k.loggedIn()
	if sc == nil {
		var err error
		if sc, err = k.authenticate(ctx); err != nil {
			return nil, err
		}
		k.set(nil, sc)
	}
	if err := checkMayList(ctx, sc); err != nil {
		if gophercloud.ResponseCodeIs(err, http.StatusUnauthorized) || gophercloud.ResponseCodeIs(err, http.StatusForbidden) {
			k.set(nil, nil)
		}
		return nil, &listError{err}
	}
	k.set(sc, nil)
	return sc, nil
}

func (k *keystone) authenticate(ctx context.Context) (*gophercloud.ServiceClient, error) {
	auth, search, err := k.options()
	if err != nil {
		return nil, err
	}
	provider, err := openstack.NewClient(auth.IdentityEndpoint)
	if err != nil {
		return nil, err
	}
	provider.HTTPClient = k.http
	if err := openstack.Authenticate(ctx, provider, auth); err != nil {
		return nil, &keystoneError{err}
	}
	endpoint := k.endpoint
	if endpoint == "" {
		// Not openstack.NewBareMetalV1: where the catalog has no /v1 in the URL,
		// it asks Ironic about it in a request that knows no context.
		search.ApplyDefaults("baremetal")
		if endpoint, err = provider.EndpointLocator(search); err != nil {
			return nil, err
		}
		if endpoint, err = baseURL(endpoint); err != nil {
			return nil, err
		}
		if isExposed(endpoint) {
			klog.FromContext(ctx).Error(nil, "The service catalog has Ironic at http://: the passwords of all BMCs are sent in the clear", "endpoint", endpoint)
		}
	}
	sc, err := noauth.NewBareMetalNoAuth(noauth.EndpointOpts{IronicEndpoint: endpoint})
	if err != nil {
		return nil, err
	}
	sc.ProviderClient = provider
	return sc, nil
}

// checkMayList returns an error unless Ironic lets the user list nodes. From a user who may not, Ironic
// conceals each single node as well: it answers 404, as if the node did not exist, and its host would be
// registered again.
func checkMayList(ctx context.Context, sc *gophercloud.ServiceClient) error {
	resp, err := sc.Get(ctx, sc.ServiceURL("nodes")+"?limit=1", nil, &gophercloud.RequestOpts{KeepResponseBody: true, OkCodes: []int{http.StatusOK}})
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return errors.Join(err, resp.Body.Close())
}

// listError is an error of checkMayList, which comes from Ironic.
type listError struct{ error }

func (e *listError) Unwrap() error { return e.error }

// keystoneError is an error of a login at Keystone.
type keystoneError struct{ error }

func (e *keystoneError) Unwrap() error { return e.error }

// renew drops a token that has expired or was revoked.
func (k *keystone) renew(_ context.Context, refused *gophercloud.ServiceClient) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.sc == refused {
		k.sc = nil
	}
	return true
}

// authError explains a login that failed. Only what the server said is taken
// from it, never what was sent.
func authError(op string, err error, waited time.Duration) error {
	if list := new(listError); errors.As(err, &list) {
		return requestError(context.Background(), op, list.error, nil, waited)
	}
	var answer gophercloud.ErrUnexpectedResponseCode
	if errors.As(err, &answer) {
		return &ironic.UnavailableError{Op: op, Class: ironic.ClassAuth, Reason: keystoneAnswer(answer)}
	}
	var endpoint *gophercloud.ErrEndpointNotFound
	if errors.As(err, &endpoint) {
		return &ironic.UnavailableError{Op: op, Class: ironic.ClassAuth, Reason: "the service catalog of Keystone has no baremetal endpoint for this region and interface"}
	}
	unavailable := ironic.NewUnavailableError(op, err, waited)
	login := new(keystoneError)
	syntax, content := new(json.SyntaxError), new(json.UnmarshalTypeError)
	switch {
	case !errors.As(err, &login):
	case errors.As(err, &syntax), errors.As(err, &content):
		unavailable.Reason = notKeystone
	default:
		unavailable.Reason = "no login at Keystone: " + unavailable.Reason
	}
	return unavailable
}

// notKeystone is the reason if a dashboard or another service answers at the URL of Keystone.
const notKeystone = "what answers at the auth_url of the cloud is not Keystone"

// keystoneAnswer says what an answer other than a token means. Keystone itself says why; a proxy in front of it may
// not.
func keystoneAnswer(answer gophercloud.ErrUnexpectedResponseCode) string {
	message, _ := ironic.DecodeMessage(answer.Actual, answer.Body)
	switch code := answer.Actual; {
	case message != "":
		return fmt.Sprintf("Keystone answered HTTP %d: %s", code, message)
	case code == http.StatusUnauthorized, code == http.StatusTooManyRequests, code >= http.StatusInternalServerError:
		return fmt.Sprintf("Keystone answered HTTP %d", code)
	}
	return fmt.Sprintf("%s: HTTP %d", notKeystone, answer.Actual)
}
