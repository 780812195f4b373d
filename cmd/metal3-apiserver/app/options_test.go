// SPDX-License-Identifier: Apache-2.0

package app

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// parsed returns the options for a command line.
func parsed(t *testing.T, args ...string) *Options {
	t.Helper()
	o := NewOptions()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	for _, fs := range o.Flags().FlagSets {
		flags.AddFlagSet(fs)
	}
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return o
}

// requiredArgs is a command line with which a server can start.
var requiredArgs = []string{"--data-dir=/var/lib/metal3", "--ironic-endpoint=http://ironic:6385"}

func TestValidOptions(t *testing.T) {
	for _, args := range [][]string{
		requiredArgs,
		{"--etcd-servers=https://etcd-0:2379,https://etcd-1:2379", "--ironic-endpoint=https://ironic/v1/"},
		{"--data-dir=d", "--ironic-cloud=metal3"},
		{"--data-dir=d", "--ironic-cloud=metal3", "--ironic-endpoint=http://ironic:6385"},
		append(slices.Clone(requiredArgs), "--leader-elect=false", "--leader-elect-lease-duration=1s"),
		append(slices.Clone(requiredArgs), "--watch-cache=true"),
	} {
		if err := parsed(t, args...).Validate(); err != nil {
			t.Errorf("%v: %v", args, err)
		}
	}
}

// TestInvalidOptions checks that errors are a single line and name the flag.
func TestInvalidOptions(t *testing.T) {
	tests := []struct {
		args []string // added to requiredArgs, unless alone is set
		says []string
		// alone means that requiredArgs are not added
		alone bool
	}{
		{alone: true, says: []string{"--etcd-servers", "--data-dir", "--ironic-endpoint", "--ironic-cloud"}},
		{alone: true, args: []string{"--ironic-endpoint=http://ironic:6385"}, says: []string{"one of --etcd-servers (for an external etcd) and --data-dir (for the embedded one) is required"}},
		{alone: true, args: []string{"--data-dir=d"}, says: []string{"one of --ironic-endpoint and --ironic-cloud is required"}},
		{args: []string{"--etcd-servers=http://etcd:2379"}, says: []string{"--etcd-servers and --data-dir are mutually exclusive"}},
		{alone: true, args: []string{"--ironic-endpoint=http://ironic:6385", "--etcd-servers=etcd-0:2379,x"}, says: []string{`--etcd-servers: "etcd-0:2379" is not a URL`, `"x" is not a URL`}},
		{args: []string{"--ironic-endpoint=ironic:6385"}, says: []string{"endpoint"}},
		{args: []string{"--ironic-endpoint=http://user:secret@ironic:6385"}, says: []string{"must not hold credentials"}},
		{args: []string{"--ironic-cloud=metal3", "--ironic-username-file=u", "--ironic-password-file=p"}, says: []string{"exclude each other"}},
		{args: []string{"--ironic-cert-file=c"}, says: []string{"together"}},
		{args: []string{"--ironic-insecure", "--ironic-ca-file=ca"}, says: []string{"no effect"}},
		{args: []string{"--ironic-timeout=-1s"}, says: []string{"negative"}},
		{args: []string{"--ironic-read-connections=-1"}, says: []string{"negative"}},
		{args: []string{"--ironic-poll-interval=10ms"}, says: []string{"--ironic-poll-interval is 10ms"}},
		{args: []string{"--ironic-read-timeout=0"}, says: []string{"--ironic-read-timeout is 0s"}},
		{args: []string{"--leader-elect-lease-duration=5s"}, says: []string{"--leader-elect-lease-duration (5s)", "--leader-elect-renew-deadline"}},
		{args: []string{"--secure-port=70000"}, says: []string{"--secure-port"}},
		{args: []string{"--tls-min-version=SSL3"}, says: []string{"--tls-min-version", "SSL3"}},
		{args: []string{"--tls-cipher-suites=ROT13"}, says: []string{"--tls-cipher-suites", "ROT13"}},
		{args: []string{"--request-timeout=-1s"}, says: []string{"--request-timeout"}},
		{args: []string{"--ironic-poll-interval=0", "--ironic-read-timeout=0", "--secure-port=-1"},
			says: []string{"--ironic-poll-interval", "--ironic-read-timeout", "--secure-port"}},
	}
	for _, test := range tests {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			args := test.args
			if !test.alone {
				args = append(slices.Clone(requiredArgs), args...)
			}
			t.Setenv("IRONIC_ENDPOINT", "")
			err := parsed(t, args...).Validate()
			if err == nil {
				t.Fatal("there is no error")
			}
			t.Log(err)
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one line: %q", err)
			}
			for _, word := range test.says {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%q is not in: %v", word, err)
				}
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("a password is shown: %v", err)
			}
		})
	}
}

func TestEndpointFromEnvironment(t *testing.T) {
	t.Setenv("IRONIC_ENDPOINT", "http://from-environment:6385")
	if got := parsed(t).Ironic.Endpoint; got != "http://from-environment:6385" {
		t.Errorf("endpoint is %q", got)
	}
	if got := parsed(t, "--ironic-endpoint=http://flag:6385").Ironic.Endpoint; got != "http://flag:6385" {
		t.Errorf("with a flag, endpoint is %q", got)
	}
}
