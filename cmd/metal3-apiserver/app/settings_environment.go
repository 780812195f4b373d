package app

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
)

// variables are the environment variables of the Bare Metal Operator, by the flags
// that they stand in for. See imageURLs for those of architectures.
var variables = map[string]string{
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
}

// unused are the environment variables of the Bare Metal Operator that have no effect
// here, with the reason.
var unused = map[string]string{
	"IRONIC_NAME":                      "the address of Ironic is not taken from an Ironic object: set IRONIC_ENDPOINT, and IRONIC_CACERT_FILE and METAL3_AUTH_ROOT_DIR to what the object's Secrets are mounted at",
	"IRONIC_NAMESPACE":                 "as IRONIC_NAME",
	"IRONIC_SKIP_CLIENT_SAN_VERIFY":    "the names in a client's certificate are its server's to verify, which is Ironic",
	"IRONIC_CLIENT_CACHE_TTL":          "one client serves as long as the process, and reads its credentials for each request",
	"IRONIC_NETWORKING_ENABLED":        "switches are not configured",
	"IRONIC_SWITCH_CONFIGS_SECRET":     "as IRONIC_NETWORKING_ENABLED",
	"IRONIC_SWITCH_CREDENTIALS_SECRET": "as IRONIC_NETWORKING_ENABLED",
	"IRONIC_SWITCH_CREDENTIALS_PATH":   "as IRONIC_NETWORKING_ENABLED",
}

const (
	authRootVariable = "METAL3_AUTH_ROOT_DIR"
	// defaultAuthRoot is where the Bare Metal Operator has the credentials for Ironic.
	defaultAuthRoot = "/opt/metal3/auth"
)

// environment is what was taken from the environment.
type environment struct {
	// flags are those that variables may stand in for.
	flags *pflag.FlagSet
	// sources are the variables that were taken, by what is in their place: a flag,
	// or byArchKey.
	sources map[string]string
}

// source is what the user has to change: the variable or the flag.
func (o *Options) source(key string) string {
	if variable, ok := o.environment.sources[key]; ok {
		return variable
	}
	return "--" + key
}

// byArchKey is the flag and the architecture that one URL is for.
func byArchKey(flag, arch string) string { return flag + byArchSuffix + " " + arch }

// completeFromEnvironment takes what the command line leaves open from the
// environment. Doing so twice changes nothing.
func (o *Options) completeFromEnvironment(refuse func(format string, args ...any)) {
	if o.environment.flags == nil {
		return // there is no command line
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
		if reason, ok := unused[name]; ok && !again {
			klog.InfoS("A variable of the environment has no effect", "variable", name, "reason", reason)
		}
	}
	o.environment.flags.VisitAll(func(flag *pflag.Flag) {
		variable, ok := variables[flag.Name]
		value, set := given[variable]
		if !ok || !set || flag.Changed {
			return
		}
		if err := flag.Value.Set(value); err != nil {
			refuse("%s is %q, it must be of type %s", variable, value, flag.Value.Type())
			return
		}
		o.environment.sources[flag.Name] = variable
	})
	o.imagesFromEnvironment(given, refuse)
	o.preferCommandLine()
	o.credentialsFromEnvironment(given, refuse)
}

// imagesFromEnvironment takes the URLs of architectures: from the variable of each
// of them, or else from the one that lists them.
func (o *Options) imagesFromEnvironment(given map[string]string, refuse func(format string, args ...any)) {
	for _, u := range imageURLs {
		flag := o.environment.flags.Lookup(u.flag + byArchSuffix)
		if flag == nil || flag.Changed {
			continue
		}
		urls := byArch{o.Settings.Ramdisk.ByArch, u.of}
		take := func(arch, address, variable string) {
			urls.put(arch, address)
			o.environment.sources[byArchKey(u.flag, strings.ToLower(arch))] = variable
		}
		list := u.variable + "_BY_ARCH"
		for entry := range strings.SplitSeq(given[list], ",") {
			arch, address, found := strings.Cut(strings.TrimSpace(entry), ":")
			switch {
			case entry == "":
			case !found || arch == "" || strings.HasPrefix(address, "//"): // a URL alone
				refuse("%s: an architecture is missing, it must be like aarch64:http://...,x86_64:http://...", list)
			default:
				take(arch, address, list)
			}
		}
		prefix := u.variable + "_URL_"
		for variable, address := range given {
			if arch, ok := strings.CutPrefix(variable, prefix); ok && arch != "" {
				take(arch, address, variable)
			}
		}
	}
}

// preferCommandLine has flags win also over variables that contradict them.
func (o *Options) preferCommandLine() {
	c, sources := &o.Ironic, o.environment.sources
	if c.Insecure && c.CAFile != "" && sources["ironic-ca-file"] != "" {
		c.CAFile = "" // the Bare Metal Operator takes both, and the file has no effect
	}
	if c.Insecure && c.CAFile != "" && sources["ironic-insecure"] != "" {
		c.Insecure = false
	}
}

// credentialsFromEnvironment takes the credentials for Ironic from where the Bare
// Metal Operator has them, if there are any.
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
		refuse("%s: of %s and %s there is only one", name, username, password)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
