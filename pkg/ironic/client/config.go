// SPDX-License-Identifier: Apache-2.0

package client

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"k8s.io/utils/clock"
)

// Defaults of Config.
const (
	DefaultTimeout          = 30 * time.Second
	DefaultReadConnections  = 4
	DefaultWriteConnections = 4
)

// Config says where Ironic is, how to authenticate with it and how hard it may
// be used.
type Config struct {
	// Name is that of the IronicInstance, for metrics; empty for the Ironic of the server's flags.
	Name string
	// Endpoint is the URL of Ironic, with or without /v1 and a trailing slash.
	// With Cloud it replaces the endpoint of the service catalog.
	Endpoint string
	// Cloud is the name of a clouds.yaml entry; Keystone is asked for a token.
	// The file is searched for as every OpenStack client does
	// (OS_CLIENT_CONFIG_FILE, ./, ~/.config/openstack, /etc/openstack).
	Cloud string
	// CloudsYAML is the content of a clouds.yaml, in place of the file that is searched for. Neither
	// environment variables nor other files complete it, so it must not name any.
	CloudsYAML []byte
	// UsernameFile and PasswordFile hold the HTTP basic credentials. They are
	// read again for each request, so that they can be rotated.
	UsernameFile, PasswordFile string
	// Username and Password are the HTTP basic credentials themselves, in place of the files.
	Username, Password string
	// CAFile verifies the server; empty means the system's authorities.
	CAFile string
	// CAData is the content of a CA file, in place of the file.
	CAData []byte
	// CertFile and KeyFile are the client certificate, if Ironic wants one.
	CertFile, KeyFile string
	// Insecure switches off the verification of the server's certificate.
	Insecure bool
	// Transport carries the requests, if it is not nil, instead of connections
	// that the client makes: to an Ironic in the same process.
	Transport http.RoundTripper
	// Timeout limits each request; 0 means DefaultTimeout.
	Timeout time.Duration
	// ReadConnections and WriteConnections bound the requests under way at one
	// time; 0 means the default. Slow writes never hold up reads.
	ReadConnections, WriteConnections int
	// Clock measures how long requests take and waits between retries; nil means the real one.
	Clock clock.Clock
}

// Validate checks the combination of options, without reading any file.
func (c *Config) Validate() []error {
	var errs []error
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }

	if c.Endpoint == "" && c.Cloud == "" {
		refuse("an Ironic endpoint or a cloud is required")
	}
	if c.Endpoint != "" {
		if _, err := baseURL(c.Endpoint); err != nil {
			errs = append(errs, err)
		}
	}
	if (c.UsernameFile == "") != (c.PasswordFile == "") {
		refuse("the Ironic user name file and password file are needed together")
	}
	if (c.Username == "") != (c.Password == "") {
		refuse("the Ironic user name and password are needed together")
	}
	if (c.Username != "" || c.Password != "") && (c.UsernameFile != "" || c.PasswordFile != "") {
		refuse("the Ironic user name and password, and the files that hold them, exclude each other")
	}
	if len(c.CloudsYAML) > 0 && c.Cloud == "" {
		refuse("the content of clouds.yaml needs the name of a cloud in it")
	}
	if c.Cloud != "" && (c.UsernameFile != "" || c.PasswordFile != "" || c.Username != "" || c.Password != "") {
		refuse("the Ironic cloud %q (Keystone) and HTTP basic credentials exclude each other", c.Cloud)
	}
	if (c.CertFile == "") != (c.KeyFile == "") {
		refuse("the Ironic client certificate file and key file are needed together")
	}
	if c.CAFile != "" && len(c.CAData) > 0 {
		refuse("the Ironic CA file %q and the content of another exclude each other", c.CAFile)
	}
	if len(c.CAData) > 0 && c.Cloud != "" && len(c.CloudsYAML) == 0 {
		refuse("the content of a CA file needs the content of clouds.yaml: a clouds.yaml that is a file names its own CA file")
	}
	if c.Insecure && len(c.CAData) > 0 {
		refuse("the content of an Ironic CA file has no effect when the certificate is not verified: give one of the two")
	}
	if c.Insecure && c.CAFile != "" {
		refuse("the Ironic CA file %q has no effect when the certificate is not verified: give one of the two", c.CAFile)
	}
	if c.Timeout < 0 {
		refuse("the Ironic timeout %v must not be negative", c.Timeout)
	}
	if c.ReadConnections < 0 || c.WriteConnections < 0 {
		refuse("the Ironic read and write connections must not be negative, found %d and %d", c.ReadConnections, c.WriteConnections)
	}
	return errs
}

// String says where Ironic is, without any credentials.
func (c Config) String() string {
	endpoint, err := baseURL(c.Endpoint)
	if err != nil {
		endpoint = ""
	}
	return fmt.Sprintf("Ironic at %q, cloud %q", endpoint, c.Cloud)
}

// GoString returns the same for %#v.
func (c Config) GoString() string { return c.String() }

// Warnings returns what is possible but exposes credentials, for the log.
func (c *Config) Warnings() []string {
	var warnings []string
	if isExposed(c.Endpoint) {
		warnings = append(warnings, "Ironic is reached by http://: its credentials and the passwords of all BMCs are sent in the clear. Use https://, unless nobody else is on that network")
	}
	if c.Cloud != "" {
		if auth, _, err := parseCloud(*c); err == nil && isExposed(auth.IdentityEndpoint) {
			warnings = append(warnings, "Keystone is reached by http://: the password for it is sent in the clear. Use an auth_url with https://")
		}
	}
	if c.Insecure {
		warnings = append(warnings, "Ironic's certificate is not verified: whoever intercepts the connection gets its credentials and the passwords of all BMCs")
	}
	return warnings
}

// isExposed reports whether a URL is of plain HTTP to another machine.
func isExposed(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" || u.Hostname() == "localhost" {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return err != nil || !ip.IsLoopback()
}

// withDefaults returns a copy in which everything is set.
func (c Config) withDefaults() Config {
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.ReadConnections == 0 {
		c.ReadConnections = DefaultReadConnections
	}
	if c.WriteConnections == 0 {
		c.WriteConnections = DefaultWriteConnections
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	return c
}

// baseURL returns the endpoint in the form that gophercloud wants: ending in /v1/.
func baseURL(endpoint string) (string, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		// The error of url.Parse repeats its input, with any password in it.
		return "", errors.New("the Ironic endpoint is not a URL, want for example http://ironic.example.com:6385")
	}
	switch {
	case u.User != nil:
		return "", fmt.Errorf("the Ironic endpoint %s must not hold credentials: put them into files", u.Redacted())
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return "", fmt.Errorf("the Ironic endpoint %q must be an http or https URL, for example http://ironic.example.com:6385", endpoint)
	case u.RawQuery != "", u.Fragment != "":
		return "", fmt.Errorf("the Ironic endpoint %q must not have a query or a fragment", endpoint)
	}
	u.Path = strings.TrimSuffix(strings.TrimRight(u.Path, "/"), "/v1") + "/v1/"
	return u.String(), nil
}
