// SPDX-License-Identifier: Apache-2.0

package client

import (
	"fmt"
	"strings"
	"testing"
)

func TestValidate(t *testing.T) {
	const endpoint = "http://ironic:6385"
	for name, test := range map[string]struct {
		config Config
		want   string // part of the only error; empty means valid
	}{
		"endpoint":                        {config: Config{Endpoint: endpoint}},
		"cloud":                           {config: Config{Cloud: "metal"}},
		"cloud with own endpoint":         {config: Config{Cloud: "metal", Endpoint: endpoint}},
		"basic":                           {config: Config{Endpoint: endpoint, UsernameFile: "u", PasswordFile: "p"}},
		"client certificate":              {config: Config{Endpoint: endpoint, CAFile: "ca", CertFile: "c", KeyFile: "k"}},
		"nothing":                         {config: Config{}, want: "endpoint or a cloud is required"},
		"user without password":           {config: Config{Endpoint: endpoint, UsernameFile: "u"}, want: "needed together"},
		"password without user":           {config: Config{Endpoint: endpoint, PasswordFile: "p"}, want: "needed together"},
		"certificate without key":         {config: Config{Endpoint: endpoint, CertFile: "c"}, want: "needed together"},
		"cloud and basic":                 {config: Config{Cloud: "metal", UsernameFile: "u", PasswordFile: "p"}, want: "exclude each other"},
		"insecure with CA":                {config: Config{Endpoint: endpoint, Insecure: true, CAFile: "ca"}, want: "has no effect"},
		"basic in memory":                 {config: Config{Endpoint: endpoint, Username: "u", Password: "s3cret", CAData: []byte("ca")}},
		"cloud in memory":                 {config: Config{Cloud: "metal", CloudsYAML: []byte("clouds: {metal: {}}"), CAData: []byte("ca")}},
		"user in memory without password": {config: Config{Endpoint: endpoint, Username: "u"}, want: "needed together"},
		"password in memory without user": {config: Config{Endpoint: endpoint, Password: "s3cret"}, want: "needed together"},
		"basic in memory and in files":    {config: Config{Endpoint: endpoint, Username: "u", Password: "s3cret", UsernameFile: "u", PasswordFile: "p"}, want: "exclude each other"},
		"cloud and basic in memory":       {config: Config{Cloud: "metal", Username: "u", Password: "s3cret"}, want: "exclude each other"},
		"clouds.yaml without a cloud":     {config: Config{Endpoint: endpoint, CloudsYAML: []byte("clouds: {}")}, want: "needs the name of a cloud"},
		"CA in memory and in a file":      {config: Config{Endpoint: endpoint, CAFile: "ca", CAData: []byte("ca")}, want: "exclude each other"},
		"CA in memory, cloud in a file":   {config: Config{Cloud: "metal", CAData: []byte("ca")}, want: "needs the content of clouds.yaml"},
		"insecure with CA in memory":      {config: Config{Endpoint: endpoint, Insecure: true, CAData: []byte("ca")}, want: "has no effect"},
		"negative timeout":                {config: Config{Endpoint: endpoint, Timeout: -1}, want: "must not be negative"},
		"negative connections":            {config: Config{Endpoint: endpoint, WriteConnections: -1}, want: "must not be negative"},
		"not http":                        {config: Config{Endpoint: "ftp://ironic"}, want: "http or https URL"},
		"no scheme":                       {config: Config{Endpoint: "ironic:6385"}, want: "http or https URL"},
		"no host":                         {config: Config{Endpoint: "http:///v1"}, want: "http or https URL"},
		"query":                           {config: Config{Endpoint: endpoint + "?a=b"}, want: "query"},
		"credentials in the URL":          {config: Config{Endpoint: "http://admin:s3cret@ironic:6385"}, want: "must not hold credentials"},
		"not even a URL":                  {config: Config{Endpoint: "http://admin:s3cret@ironic:x"}, want: "not a URL"},
		"control character in URL":        {config: Config{Endpoint: "http://s3cret\n"}, want: "not a URL"},
	} {
		t.Run(name, func(t *testing.T) {
			errs := test.config.Validate()
			if test.want == "" {
				if len(errs) > 0 {
					t.Fatalf("refused: %v", errs)
				}
				return
			}
			if len(errs) != 1 || !strings.Contains(errs[0].Error(), test.want) {
				t.Fatalf("got %v, want one error with %q", errs, test.want)
			}
			if strings.Contains(errs[0].Error(), "s3cret") {
				t.Errorf("the error shows the password: %v", errs[0])
			}
			if _, err := New(test.config); err == nil {
				t.Error("New accepts what Validate refuses")
			}
		})
	}
}

func TestBaseURL(t *testing.T) {
	for given, want := range map[string]string{
		"http://ironic:6385":           "http://ironic:6385/v1/",
		"http://ironic:6385/":          "http://ironic:6385/v1/",
		"http://ironic:6385/v1":        "http://ironic:6385/v1/",
		"http://ironic:6385/v1/":       "http://ironic:6385/v1/",
		"https://cloud/baremetal":      "https://cloud/baremetal/v1/",
		"https://cloud/baremetal/v1//": "https://cloud/baremetal/v1/",
		"http://[fd00::1]:6385/v1":     "http://[fd00::1]:6385/v1/",
	} {
		if got, err := baseURL(given); err != nil || got != want {
			t.Errorf("baseURL(%q) = %q, %v; want %q", given, got, err, want)
		}
	}
}

// A Config that is printed, for example in an error, shows no credentials.
func TestConfigIsPrintedWithoutSecrets(t *testing.T) {
	cfg := Config{Endpoint: "https://ironic:6385", Cloud: "metal", Username: "admin", Password: "s3cret", CloudsYAML: []byte("s3cret")}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		for _, value := range []any{cfg, &cfg, []Config{cfg}} {
			if got := fmt.Sprintf(format, value); strings.Contains(got, "s3cret") || strings.Contains(got, "admin") {
				t.Errorf("%s: %s", format, got)
			}
		}
	}
	if got := cfg.String(); got != `Ironic at "https://ironic:6385/v1/", cloud "metal"` {
		t.Error(got)
	}
	if got := (Config{Endpoint: "http://admin:s3cret@ironic"}).String(); strings.Contains(got, "s3cret") {
		t.Error(got)
	}
}
