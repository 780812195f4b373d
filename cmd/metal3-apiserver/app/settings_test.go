// SPDX-License-Identifier: Apache-2.0

package app

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic/client"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/deploy"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/destination"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/reconcile"
)

// setEnvironment sets environment variables for a test. Other variables that the options use
// are cleared.
func setEnvironment(t *testing.T, variables map[string]string) {
	t.Helper()
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		for _, prefix := range []string{"IRONIC_", "DEPLOY_", "PROVISIONING_", "LIVE_ISO_", "DIRECT_DEPLOY_", "BMO_", "METAL3_AUTH_", "WATCH_"} {
			if strings.HasPrefix(name, prefix) {
				t.Setenv(name, "")
			}
		}
	}
	t.Setenv("METAL3_AUTH_ROOT_DIR", t.TempDir())
	t.Setenv("POD_NAMESPACE", "")
	for name, value := range variables {
		t.Setenv(name, value)
	}
}

func withRequired(args ...string) []string { return append(slices.Clone(requiredArgs), args...) }

func TestSettings(t *testing.T) {
	images := func(arch string) deploy.Images {
		return deploy.Images{KernelURL: "http://h/" + arch + ".kernel", RamdiskURL: "file:///" + arch + ".initramfs"}
	}
	with := func(change func(*reconcile.Settings)) reconcile.Settings {
		s := defaultSettings()
		change(&s)
		return s
	}
	for name, tt := range map[string]struct {
		variables map[string]string
		args      []string
		want      reconcile.Settings
	}{
		"defaults": {want: reconcile.Settings{
			Events:            destination.Policy{Schemes: []string{"http", "https"}},
			Ramdisk:           deploy.Ramdisk{ByArch: map[string]deploy.Images{}, ForcePersistentLiveISO: "Default", ForcePersistentDirect: "Default"},
			ProvisioningLimit: 20, MaxProvisioningRetries: 5, Workers: 8, PollInterval: time.Second, CallbackTimeout: 30 * time.Minute,
		}},
		"flags": {
			args: []string{
				"--deploy-kernel-url=http://h/x.kernel", "--deploy-ramdisk-url=file:///x.initramfs", "--deploy-iso-url=https://h/x.iso",
				"--deploy-kernel-url-by-arch=arm64=http://h/a.kernel,AMD64=http://h/b.kernel",
				"--deploy-ramdisk-url-by-arch=aarch64=file:///a.initramfs", "--deploy-ramdisk-url-by-arch=x86_64=file:///b.initramfs",
				"--namespaces=metal3,team-a", "--kernel-params=console=ttyS0 debug", "--ironic-external-url-v6=https://[2001:db8::1]:6183",
				"--live-iso-force-persistent-boot-device=Always", "--direct-deploy-force-persistent-boot-device=Never",
				"--provisioning-network-disabled", "--provisioning-limit=0", "--max-provisioning-retries=1", "--workers=3", "--ironic-poll-interval=2s", "--callback-timeout=1h",
			},
			want: reconcile.Settings{
				Namespaces: []string{"metal3", "team-a"},
				Events:     destination.Policy{Schemes: []string{"http", "https"}},
				Ramdisk: deploy.Ramdisk{
					Images:       deploy.Images{KernelURL: "http://h/x.kernel", RamdiskURL: "file:///x.initramfs", ISOURL: "https://h/x.iso"},
					ByArch:       map[string]deploy.Images{"aarch64": images("a"), "x86_64": images("b")},
					KernelParams: "console=ttyS0 debug", ExternalURLv6: "https://[2001:db8::1]:6183",
					ForcePersistentLiveISO: "Always", ForcePersistentDirect: "Never",
				},
				ProvisioningNetworkDisabled: true, ProvisioningLimit: 0, MaxProvisioningRetries: 1, Workers: 3, PollInterval: 2 * time.Second, CallbackTimeout: time.Hour,
			},
		},
		"environment": {
			variables: map[string]string{
				"DEPLOY_KERNEL_URL": "http://h/x.kernel", "DEPLOY_RAMDISK_URL": "file:///x.initramfs", "DEPLOY_ISO_URL": "https://h/x.iso",
				"DEPLOY_KERNEL_URL_AARCH64": "http://h/a.kernel", "DEPLOY_RAMDISK_URL_AARCH64": "file:///a.initramfs",
				"DEPLOY_KERNEL_BY_ARCH":   "aarch64:http://h/other,x86_64:http://h/b.kernel",
				"DEPLOY_RAMDISK_BY_ARCH":  "x86_64:file:///b.initramfs",
				"IRONIC_EXTERNAL_URL_V6":  "https://[2001:db8::1]:6183",
				"BMO_CONCURRENCY":         "2",
				"PROVISIONING_LIMIT":      "7",
				"IRONIC_CACERT_FILE":      "/ca",
				"IRONIC_UNKNOWN_VARIABLE": "x",

				"LIVE_ISO_FORCE_PERSISTENT_BOOT_DEVICE": "Never", "DIRECT_DEPLOY_FORCE_PERSISTENT_BOOT_DEVICE": "Always",
				"PROVISIONING_NETWORK_DISABLED": "True", "WATCH_NAMESPACE": "metal3,team-b",
			},
			want: with(func(s *reconcile.Settings) {
				s.Namespaces = []string{"metal3", "team-b"}
				s.Ramdisk = deploy.Ramdisk{
					Images:        deploy.Images{KernelURL: "http://h/x.kernel", RamdiskURL: "file:///x.initramfs", ISOURL: "https://h/x.iso"},
					ByArch:        map[string]deploy.Images{"aarch64": images("a"), "x86_64": images("b")},
					ExternalURLv6: "https://[2001:db8::1]:6183", ForcePersistentLiveISO: "Never", ForcePersistentDirect: "Always",
				}
				s.ProvisioningNetworkDisabled, s.ProvisioningLimit, s.Workers = true, 7, 2
			}),
		},
		"flags win": {
			variables: map[string]string{
				"PROVISIONING_LIMIT": "many", "BMO_CONCURRENCY": "0", "PROVISIONING_NETWORK_DISABLED": "true",
				"DEPLOY_ISO_URL": "nonsense", "WATCH_NAMESPACE": "Env", "DEPLOY_ISO_BY_ARCH": "aarch64:http://h/env.iso",
			},
			args: []string{
				"--provisioning-limit=3", "--workers=4", "--namespaces=flag", "--provisioning-network-disabled=false",
				"--deploy-iso-url=http://h/flag.iso", "--deploy-iso-url-by-arch=x86_64=http://h/b.iso",
			},
			want: with(func(s *reconcile.Settings) {
				s.ProvisioningLimit, s.Workers, s.Namespaces = 3, 4, []string{"flag"}
				s.Ramdisk.Images.ISOURL = "http://h/flag.iso"
				s.Ramdisk.ByArch["x86_64"] = deploy.Images{ISOURL: "http://h/b.iso"}
			}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			setEnvironment(t, tt.variables)
			o := parsed(t, withRequired(tt.args...)...)
			for range 2 { // the second time must not change anything
				if err := o.Validate(); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tt.want, o.Settings); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}

// TestInvalidSettings checks that errors are a single line and name the flag or the variable.
func TestInvalidSettings(t *testing.T) {
	for name, tt := range map[string]struct {
		variables map[string]string
		args      []string
		says      []string
	}{
		"namespaces":              {variables: map[string]string{"WATCH_NAMESPACE": "a,b c"}, says: []string{`WATCH_NAMESPACE: "b c" is not the name of a namespace`}},
		"BMC scheme":              {args: []string{"--bmc-schemes=redfish,http"}, says: []string{`--bmc-schemes: "http" is not one of ipmi://`}},
		"BMC hosts":               {args: []string{"--bmc-hosts=192.0.2.1/24"}, says: []string{"--bmc-hosts: 192.0.2.1/24 is not a network", "use 192.0.2.0/24"}},
		"image scheme":            {args: []string{"--image-schemes=file"}, says: []string{`--image-schemes: "file" is not one of http`}},
		"image hosts":             {args: []string{"--image-hosts=http://a"}, says: []string{`--image-hosts: "http://a" is neither a name`}},
		"kernel alone":            {args: []string{"--deploy-kernel-url=http://h/k"}, says: []string{"--deploy-kernel-url requires --deploy-ramdisk-url"}},
		"ramdisk alone":           {variables: map[string]string{"DEPLOY_RAMDISK_URL": "http://h/r"}, says: []string{"DEPLOY_RAMDISK_URL requires --deploy-kernel-url"}},
		"kernel of arch alone":    {args: []string{"--deploy-kernel-url-by-arch=aarch64=http://h/k"}, says: []string{"--deploy-kernel-url-by-arch aarch64 requires --deploy-ramdisk-url-by-arch aarch64"}},
		"variable of arch alone":  {variables: map[string]string{"DEPLOY_RAMDISK_URL_AARCH64": "http://h/r"}, says: []string{"DEPLOY_RAMDISK_URL_AARCH64 requires --deploy-kernel-url-by-arch aarch64"}},
		"scheme":                  {args: []string{"--deploy-iso-url=ftp://me:secret@h/i"}, says: []string{"--deploy-iso-url: it is not a URL with one of the schemes http, https, file"}},
		"no URL":                  {variables: map[string]string{"DEPLOY_ISO_URL": "me:secret@h/i"}, says: []string{"DEPLOY_ISO_URL: it is not a URL"}},
		"no host":                 {variables: map[string]string{"DEPLOY_ISO_URL_X86_64": "http:///i"}, says: []string{"DEPLOY_ISO_URL_X86_64: it is not a URL"}},
		"not parsed":              {args: []string{"--deploy-iso-url-by-arch=aarch64=http://me:secret/x@h/"}, says: []string{"--deploy-iso-url-by-arch aarch64: it is not a URL"}},
		"no architecture":         {args: []string{"--deploy-iso-url-by-arch=http://me:secret@h/i"}, says: []string{"url-by-arch: an architecture is missing"}},
		"variable without arch":   {variables: map[string]string{"DEPLOY_ISO_BY_ARCH": "http://me:secret@h/i"}, says: []string{"DEPLOY_ISO_BY_ARCH: an architecture is missing"}},
		"external URL":            {args: []string{"--ironic-external-url-v6=file:///x"}, says: []string{"--ironic-external-url-v6: it is not a URL with one of the schemes http, https,"}},
		"external URL (variable)": {variables: map[string]string{"IRONIC_EXTERNAL_URL_V6": "2001:db8::1"}, says: []string{"IRONIC_EXTERNAL_URL_V6: "}},
		"live ISO":                {args: []string{"--live-iso-force-persistent-boot-device=always"}, says: []string{`--live-iso-force-persistent-boot-device is "always", it must be Default, Always or Never`}},
		"direct deploy":           {variables: map[string]string{"DIRECT_DEPLOY_FORCE_PERSISTENT_BOOT_DEVICE": "yes"}, says: []string{`DIRECT_DEPLOY_FORCE_PERSISTENT_BOOT_DEVICE is "yes"`}},
		"limit":                   {args: []string{"--provisioning-limit=-1"}, says: []string{"--provisioning-limit is -1, it must be at least 0"}},
		"limit (variable)":        {variables: map[string]string{"PROVISIONING_LIMIT": "-1"}, says: []string{"PROVISIONING_LIMIT is -1"}},
		"no number":               {variables: map[string]string{"PROVISIONING_LIMIT": "many"}, says: []string{`PROVISIONING_LIMIT is "many", it must be of type int`}},
		"no boolean":              {variables: map[string]string{"PROVISIONING_NETWORK_DISABLED": "maybe"}, says: []string{`PROVISIONING_NETWORK_DISABLED is "maybe", it must be of type bool`}},
		"no duration":             {variables: map[string]string{"IRONIC_CLIENT_TIMEOUT": "30"}, says: []string{`IRONIC_CLIENT_TIMEOUT is "30", it must be of type duration`}},
		"retries":                 {args: []string{"--max-provisioning-retries=-1"}, says: []string{"--max-provisioning-retries is -1"}},
		"workers":                 {args: []string{"--workers=0"}, says: []string{"--workers is 0"}},
		"several": {
			variables: map[string]string{"PROVISIONING_LIMIT": "many", "BMO_CONCURRENCY": "0"}, args: []string{"--max-provisioning-retries=-1"},
			says: []string{"PROVISIONING_LIMIT", "BMO_CONCURRENCY is 0", "--max-provisioning-retries"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			setEnvironment(t, tt.variables)
			err := parsed(t, withRequired(tt.args...)...).Validate()
			if err == nil {
				t.Fatal("there is no error")
			}
			for _, words := range tt.says {
				if !strings.Contains(err.Error(), words) {
					t.Errorf("%q is not in: %v", words, err)
				}
			}
			if strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "secret") {
				t.Errorf("more than one line, or a password: %q", err)
			}
		})
	}
}

// authRoot returns a directory for METAL3_AUTH_ROOT_DIR, with the given files.
func authRoot(t *testing.T, files ...string) string {
	t.Helper()
	root := t.TempDir()
	dir := filepath.Join(root, "ironic")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if err := os.WriteFile(filepath.Join(dir, file), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestIronicFromEnvironment(t *testing.T) {
	both, one := authRoot(t, "username", "password"), authRoot(t, "username")
	base := client.Config{
		Endpoint: "http://ironic:6385", Timeout: client.DefaultTimeout,
		ReadConnections: client.DefaultReadConnections, WriteConnections: client.DefaultWriteConnections,
	}
	with := func(change func(*client.Config)) client.Config {
		c := base
		change(&c)
		return c
	}
	for name, tt := range map[string]struct {
		variables map[string]string
		args      []string
		want      client.Config
		says      string
	}{
		"nothing": {want: base},
		"TLS": {
			variables: map[string]string{
				"IRONIC_CACERT_FILE": "/ca", "IRONIC_CLIENT_CERT_FILE": "/cert", "IRONIC_CLIENT_PRIVATE_KEY_FILE": "/key", "IRONIC_CLIENT_TIMEOUT": "5s",
				"IRONIC_INSECURE": "False",
			},
			want: with(func(c *client.Config) {
				c.CAFile, c.CertFile, c.KeyFile, c.Timeout = "/ca", "/cert", "/key", 5*time.Second
			}),
		},
		"flags win": {
			variables: map[string]string{"IRONIC_CACERT_FILE": "/ca", "IRONIC_CLIENT_TIMEOUT": "5s"},
			args:      []string{"--ironic-ca-file=/other", "--ironic-timeout=6s"},
			want:      with(func(c *client.Config) { c.CAFile, c.Timeout = "/other", 6*time.Second }),
		},
		"insecure with an authority": {
			variables: map[string]string{"IRONIC_CACERT_FILE": "/ca", "IRONIC_INSECURE": "True"},
			want:      with(func(c *client.Config) { c.Insecure = true }),
		},
		"insecure against an authority": {
			variables: map[string]string{"IRONIC_CACERT_FILE": "/ca"}, args: []string{"--ironic-insecure"},
			want: with(func(c *client.Config) { c.Insecure = true }),
		},
		"authority against insecure": {
			variables: map[string]string{"IRONIC_INSECURE": "true"}, args: []string{"--ironic-ca-file=/ca"},
			want: with(func(c *client.Config) { c.CAFile = "/ca" }),
		},
		"credentials": {
			variables: map[string]string{"METAL3_AUTH_ROOT_DIR": both},
			want: with(func(c *client.Config) {
				c.UsernameFile, c.PasswordFile = filepath.Join(both, "ironic", "username"), filepath.Join(both, "ironic", "password")
			}),
		},
		"credentials by flag": {
			variables: map[string]string{"METAL3_AUTH_ROOT_DIR": both}, args: []string{"--ironic-username-file=/u", "--ironic-password-file=/p"},
			want: with(func(c *client.Config) { c.UsernameFile, c.PasswordFile = "/u", "/p" }),
		},
		"Keystone": {
			variables: map[string]string{"METAL3_AUTH_ROOT_DIR": both}, args: []string{"--ironic-cloud=metal3"},
			want: with(func(c *client.Config) { c.Cloud = "metal3" }),
		},
		"half of the credentials": {variables: map[string]string{"METAL3_AUTH_ROOT_DIR": one}, says: "METAL3_AUTH_ROOT_DIR: only one of "},
		"half of a certificate":   {variables: map[string]string{"IRONIC_CLIENT_CERT_FILE": "/cert"}, says: "together"},
	} {
		t.Run(name, func(t *testing.T) {
			setEnvironment(t, tt.variables)
			o := parsed(t, withRequired(tt.args...)...)
			for range 2 {
				err := o.Validate()
				if tt.says != "" {
					if err == nil || !strings.Contains(err.Error(), tt.says) {
						t.Errorf("%q is not in: %v", tt.says, err)
					}
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tt.want, o.Ironic); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}

// TestDefaultCertificates checks that certificates are found where the Bare Metal Operator has them.
func TestDefaultCertificates(t *testing.T) {
	dir := t.TempDir()
	was := defaultCertificates
	defaultCertificates = dir
	t.Cleanup(func() { defaultCertificates = was })
	add := func(name string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	expect := func(variables map[string]string, args []string, caFile, certFile, keyFile string) {
		t.Helper()
		setEnvironment(t, variables)
		o := parsed(t, withRequired(args...)...)
		if err := o.Validate(); err != nil {
			t.Fatal(err)
		}
		if c := o.Ironic; c.CAFile != caFile || c.CertFile != certFile || c.KeyFile != keyFile {
			t.Errorf("%v %q: certificates %q, %q, %q, want %q, %q, %q", variables, args, c.CAFile, c.CertFile, c.KeyFile, caFile, certFile, keyFile)
		}
	}
	expect(nil, nil, "", "", "")
	ca, cert := add("ca/tls.crt"), add("client/tls.crt")
	expect(nil, nil, ca, "", "") // half of a client certificate is none
	key := add("client/tls.key")
	expect(nil, nil, ca, cert, key)
	expect(map[string]string{"IRONIC_CACERT_FILE": "/ca"}, []string{"--ironic-cert-file=/cert", "--ironic-key-file=/key"}, "/ca", "/cert", "/key")
	expect(map[string]string{"IRONIC_INSECURE": "true"}, nil, "", cert, key)
	expect(nil, []string{"--ironic-cloud=metal3"}, "", "", "")
}

// TestUnknownVariables checks that a variable that looks like a setting of the Bare Metal Operator is
// not ignored silently, and that others are not complained about.
func TestUnknownVariables(t *testing.T) {
	for _, variable := range []string{"IRONIC_ENDPIONT", "IRONIC_INSPECTOR_ENDPOINT", "BMO_NEW_SETTING", "PROVISIONING_LIMITS", "DEPLOY_KERNEL_URI"} {
		if _, told := ineffective(variable); !told {
			t.Errorf("%s is ignored silently", variable)
		}
	}
	for _, variable := range []string{"IRONIC_SERVICE_HOST", "IRONIC_SERVICE_PORT_HTTPS", "IRONIC_PORT_6385_TCP_ADDR", "IRONIC_PORT", "PATH", "DEPLOY_ISO_URL_RISCV64"} {
		if reason, told := ineffective(variable); told {
			t.Errorf("%s: %s", variable, reason)
		}
	}
}

// TestHelpNamesVariables checks that the help of each flag names its environment variable.
func TestHelpNamesVariables(t *testing.T) {
	o := parsed(t)
	for name, variable := range flagVariables {
		flag := o.environment.flags.Lookup(name)
		if flag == nil || !strings.Contains(flag.Usage, variable) {
			t.Errorf("--%s does not name %s: %v", name, variable, flag)
		}
	}
}

// TestVariablesOfTheOperator checks that each environment variable of the Bare Metal Operator is
// either used or listed as having no effect, and is documented in both cases.
func TestVariablesOfTheOperator(t *testing.T) {
	docs, err := os.ReadFile("../../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	// Valid values that differ from the defaults.
	values := map[string]string{
		"IRONIC_INSECURE": "true", "IRONIC_CLIENT_TIMEOUT": "7s", "PROVISIONING_NETWORK_DISABLED": "true", "PROVISIONING_LIMIT": "3", "BMO_CONCURRENCY": "3",
		"LIVE_ISO_FORCE_PERSISTENT_BOOT_DEVICE": "Always", "DIRECT_DEPLOY_FORCE_PERSISTENT_BOOT_DEVICE": "Always",
		"WATCH_NAMESPACE":      "metal3,team-a",
		"METAL3_AUTH_ROOT_DIR": authRoot(t, "username", "password"), "IRONIC_ENDPOINT": "http://192.0.2.1:6385",
		"IRONIC_NETWORKING_ENABLED": "true",
	}
	for _, variable := range []string{
		"IRONIC_ENDPOINT", "IRONIC_NAME", "IRONIC_NAMESPACE", "IRONIC_CACERT_FILE", "IRONIC_INSECURE", "IRONIC_CLIENT_CERT_FILE", "IRONIC_CLIENT_PRIVATE_KEY_FILE",
		"IRONIC_SKIP_CLIENT_SAN_VERIFY", "IRONIC_CLIENT_CACHE_TTL", "IRONIC_CLIENT_TIMEOUT", "METAL3_AUTH_ROOT_DIR",
		"DEPLOY_KERNEL_URL", "DEPLOY_RAMDISK_URL", "DEPLOY_ISO_URL",
		"DEPLOY_KERNEL_URL_AARCH64", "DEPLOY_RAMDISK_URL_AARCH64", "DEPLOY_ISO_URL_AARCH64",
		"DEPLOY_KERNEL_URL_X86_64", "DEPLOY_RAMDISK_URL_X86_64", "DEPLOY_ISO_URL_X86_64",
		"DEPLOY_KERNEL_BY_ARCH", "DEPLOY_RAMDISK_BY_ARCH", "DEPLOY_ISO_BY_ARCH",
		"PROVISIONING_LIMIT", "LIVE_ISO_FORCE_PERSISTENT_BOOT_DEVICE", "DIRECT_DEPLOY_FORCE_PERSISTENT_BOOT_DEVICE", "IRONIC_EXTERNAL_URL_V6",
		"PROVISIONING_NETWORK_DISABLED", "BMO_CONCURRENCY", "WATCH_NAMESPACE",
		"LEASE_DURATION_SECONDS", "RENEW_DEADLINE_SECONDS", "RETRY_PERIOD_SECONDS", "PROVISIONER_PLUGIN_DIR", "POD_NAMESPACE",
		"IRONIC_NETWORKING_ENABLED", "IRONIC_SWITCH_CONFIGS_SECRET", "IRONIC_SWITCH_CREDENTIALS_SECRET", "IRONIC_SWITCH_CREDENTIALS_PATH",
	} {
		t.Run(variable, func(t *testing.T) {
			value := values[variable]
			switch {
			case value != "":
			case strings.HasSuffix(variable, "_BY_ARCH"):
				value = "aarch64:http://192.0.2.1/file"
			default:
				value = "http://192.0.2.1/file"
			}
			completed := func(variables map[string]string) *Options {
				setEnvironment(t, variables)
				o := parsed(t)
				o.completeFromEnvironment(func(format string, args ...any) { t.Errorf(format, args...) })
				o.environment = environment{}
				return o
			}
			without, with := completed(nil), completed(map[string]string{variable: value})
			taken := !cmp.Equal(without.Ironic, with.Ironic) || !cmp.Equal(without.Settings, with.Settings) || without.Switches != with.Switches
			if _, ignored := ineffective(variable); ignored == taken {
				t.Errorf("used: %t, listed as having no effect: %t", taken, ignored)
			}
			documented, _, _ := strings.Cut(variable, "_AARCH64")
			documented, _, _ = strings.Cut(documented, "_X86_64")
			if !strings.Contains(string(docs), "`"+documented) {
				t.Error("it is not documented")
			}
		})
	}
}
