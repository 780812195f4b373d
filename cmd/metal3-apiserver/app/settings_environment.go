// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
)

// flagVariables are the environment variables of the Bare Metal Operator that can be used
// instead of flags, by flag. See imageFlags for those of single architectures.
var flagVariables = map[string]string{
	"ironic-ca-file":   "IRONIC_CACERT_FILE",
	"ironic-cert-file": "IRONIC_CLIENT_CERT_FILE",
	"ironic-key-file":  "IRONIC_CLIENT_PRIVATE_KEY_FILE",
	"ironic-insecure":  "IRONIC_INSECURE",
	"ironic-timeout":   "IRONIC_CLIENT_TIMEOUT",

	"deploy-kernel-url":                          "DEPLOY_KERNEL_URL",
	"deploy-ramdisk-url":                         "DEPLOY_RAMDISK_URL",
	"deploy-iso-url":                             "DEPLOY_ISO_URL",
	"ironic-external-url-v6":                     "IRONIC_EXTERNAL_URL_V6",
	"live-iso-force-persistent-boot-device":      "LIVE_ISO_FORCE_PERSISTENT_BOOT_DEVICE",
	"direct-deploy-force-persistent-boot-device": "DIRECT_DEPLOY_FORCE_PERSISTENT_BOOT_DEVICE",
	"provisioning-network-disabled":              "PROVISIONING_NETWORK_DISABLED",
	"provisioning-limit":                         "PROVISIONING_LIMIT",
	"workers":                                    "BMO_CONCURRENCY",
	"namespaces":                                 "WATCH_NAMESPACE",
	"configure-switches":                         "IRONIC_NETWORKING_ENABLED",
	"switch-configs-secret":                      "IRONIC_SWITCH_CONFIGS_SECRET",
	"switch-credentials-secret":                  "IRONIC_SWITCH_CREDENTIALS_SECRET",
	"switch-credentials-path":                    "IRONIC_SWITCH_CREDENTIALS_PATH",
}

// ignoredVariables are the environment variables of the Bare Metal Operator that have no effect
// here, with the reason.
var ignoredVariables = map[string]string{
	"IRONIC_NAME":                   "the address of Ironic is not taken from an Ironic object: create an IronicInstance with ironicRef; or set IRONIC_ENDPOINT, and set IRONIC_CACERT_FILE and METAL3_AUTH_ROOT_DIR to the paths at which the object's Secrets are mounted",
	"IRONIC_NAMESPACE":              "as for IRONIC_NAME",
	"IRONIC_SKIP_CLIENT_SAN_VERIFY": "the names in a client certificate are verified by the server that it is presented to, which is Ironic",
	"POD_NAMESPACE":                 "the Lease is in the namespace --leader-elect-resource-namespace",
	"IRONIC_CLIENT_CACHE_TTL":       "one client is used for the lifetime of the process, and reads its credentials for each request",
	"LEASE_DURATION_SECONDS":        "set --leader-elect-lease-duration",
	"RENEW_DEADLINE_SECONDS":        "set --leader-elect-renew-deadline",
	"RETRY_PERIOD_SECONDS":          "set --leader-elect-retry-period",
	"PROVISIONER_PLUGIN_DIR":        "there are no plug-ins",
}

// operatorPrefixes are the prefixes of the names of the Bare Metal Operator's environment
// variables, of whatever release.
var operatorPrefixes = []string{"IRONIC_", "DEPLOY_KERNEL_", "DEPLOY_RAMDISK_", "DEPLOY_ISO_", "BMO_", "METAL3_AUTH_", "PROVISIONING_", "LIVE_ISO_", "DIRECT_DEPLOY_"}

// serviceVariable matches the variables that Kubernetes sets for each Service of the namespace.
var serviceVariable = regexp.MustCompile(`_(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT(_[0-9]+_(TCP|UDP|SCTP)(_.*)?)?)$`)

// ineffective reports why an environment variable has no effect, if it seems to be meant for this
// server.
func ineffective(variable string) (reason string, ok bool) {
	if reason, ok := ignoredVariables[variable]; ok {
		return reason, true
	}
	if variable == "IRONIC_ENDPOINT" || variable == authRootVariable || serviceVariable.MatchString(variable) ||
		slices.Contains(slices.Collect(maps.Values(flagVariables)), variable) {
		return "", false
	}
	for _, f := range imageFlags {
		if variable == f.variable+"_BY_ARCH" || strings.HasPrefix(variable, f.variable+"_URL_") {
			return "", false
		}
	}
	if slices.ContainsFunc(operatorPrefixes, func(prefix string) bool { return strings.HasPrefix(variable, prefix) }) {
		return "it is not known: check its name, and see docs/configuration.md for what replaces it", true
	}
	return "", false
}

const (
	authRootVariable = "METAL3_AUTH_ROOT_DIR"
	// defaultAuthRoot is the directory in which the Bare Metal Operator has the credentials for
	// Ironic.
	defaultAuthRoot = "/opt/metal3/auth"
)

// environment records which options come from environment variables.
type environment struct {
	// flags are the flags instead of which variables can be used.
	flags *pflag.FlagSet
	// sources are the variables that were used, by flag or by byArchKey.
	sources map[string]string
}

// source returns the variable or the flag from which an option comes, and which the user has to
// change if the option is invalid.
func (o *Options) source(key string) string {
	if variable, ok := o.environment.sources[key]; ok {
		return variable
	}
	return "--" + key
}

// byArchKey identifies the URL for one architecture.
func byArchKey(flag, arch string) string { return flag + byArchSuffix + " " + arch }

// completeFromEnvironment sets the options that are not on the command line from the
// environment. It can be called more than once.
func (o *Options) completeFromEnvironment(refuse func(format string, args ...any)) {
	if o.environment.flags == nil {
		return // Flags was not called
	}
	again := o.environment.sources != nil
	o.environment.sources = map[string]string{}
	given := map[string]string{}
	for _, pair := range os.Environ() {
		name, value, _ := strings.Cut(pair, "=")
		if value == "" {
			continue
		}
		given[name] = value
		if reason, ok := ineffective(name); ok && !again {
			klog.ErrorS(nil, "An environment variable has no effect", "variable", name, "reason", reason)
		}
	}
	o.environment.flags.VisitAll(func(flag *pflag.Flag) {
		variable, ok := flagVariables[flag.Name]
		value, isGiven := given[variable]
		if !ok || !isGiven || flag.Changed {
			return
		}
		set := flag.Value.Set
		if list, ok := flag.Value.(pflag.SliceValue); ok {
			set = func(value string) error { return list.Replace(strings.Split(value, ",")) } // Set appends
		}
		if err := set(value); err != nil {
			refuse("%s is %q, it must be of type %s", variable, value, flag.Value.Type())
			return
		}
		o.environment.sources[flag.Name] = variable
	})
	o.imagesFromEnvironment(given, refuse)
	o.certificatesFromFiles()
	o.preferCommandLine()
	o.credentialsFromEnvironment(given, refuse)
}

// imagesFromEnvironment sets the URLs for single architectures, from the variable of each
// architecture or, with lower priority, from the variable that lists them.
func (o *Options) imagesFromEnvironment(given map[string]string, refuse func(format string, args ...any)) {
	for _, f := range imageFlags {
		flag := o.environment.flags.Lookup(f.flag + byArchSuffix)
		if flag == nil || flag.Changed {
			continue
		}
		urls := byArch{o.Settings.Ramdisk.ByArch, f.field}
		take := func(arch, address, variable string) {
			urls.put(arch, address)
			o.environment.sources[byArchKey(f.flag, archName(arch))] = variable
		}
		list := f.variable + "_BY_ARCH"
		for entry := range strings.SplitSeq(given[list], ",") {
			arch, address, found := strings.Cut(strings.TrimSpace(entry), ":")
			switch {
			case entry == "":
			case !found || arch == "" || strings.HasPrefix(address, "//"): // a URL without an architecture
				refuse("%s: an architecture is missing, it must be like aarch64:http://...,x86_64:http://...", list)
			default:
				take(arch, address, list)
			}
		}
		prefix := f.variable + "_URL_"
		for variable, address := range given {
			if arch, ok := strings.CutPrefix(variable, prefix); ok && arch != "" {
				take(arch, address, variable)
			}
		}
	}
}

// defaultCertificates is the directory in which the Bare Metal Operator looks for certificates if no
// variable says where they are. Tests change it.
var defaultCertificates = "/opt/metal3/certs"

// certificatesFromFiles uses the certificates in the directory of the Bare Metal Operator, as far as
// neither a flag nor a variable says where they are.
func (o *Options) certificatesFromFiles() {
	c, dir := &o.Ironic, defaultCertificates
	if c.Cloud != "" {
		return // clouds.yaml says it
	}
	if c.CAFile == "" && !c.Insecure && exists(filepath.Join(dir, "ca", "tls.crt")) {
		c.CAFile = filepath.Join(dir, "ca", "tls.crt")
	}
	cert, key := filepath.Join(dir, "client", "tls.crt"), filepath.Join(dir, "client", "tls.key")
	if c.CertFile == "" && c.KeyFile == "" && exists(cert) && exists(key) {
		c.CertFile, c.KeyFile = cert, key
	}
}

// preferCommandLine gives flags precedence over variables that contradict them.
func (o *Options) preferCommandLine() {
	c, sources := &o.Ironic, o.environment.sources
	if c.Insecure && c.CAFile != "" && sources["ironic-ca-file"] != "" {
		c.CAFile = "" // the Bare Metal Operator accepts both, and then ignores the file
	}
	if c.Insecure && c.CAFile != "" && sources["ironic-insecure"] != "" {
		c.Insecure = false
	}
}

// credentialsFromEnvironment uses the credentials for Ironic in the directory of the Bare Metal
// Operator, if there are any.
func (o *Options) credentialsFromEnvironment(given map[string]string, refuse func(format string, args ...any)) {
	c := &o.Ironic
	if c.UsernameFile != "" || c.PasswordFile != "" || c.Cloud != "" {
		return
	}
	root, name := defaultAuthRoot, fmt.Sprintf("%s (default %s)", authRootVariable, defaultAuthRoot)
	if dir, ok := given[authRootVariable]; ok {
		root, name = dir, authRootVariable
	}
	username, password := filepath.Join(root, "ironic", "username"), filepath.Join(root, "ironic", "password")
	hasUsername, hasPassword := exists(username), exists(password)
	switch {
	case hasUsername && hasPassword:
		c.UsernameFile, c.PasswordFile = username, password
	case hasUsername != hasPassword:
		refuse("%s: only one of %s and %s exists", name, username, password)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
