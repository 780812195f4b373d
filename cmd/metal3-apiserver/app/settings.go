// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/weburl"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/deploy"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/destination"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/reconcile"
)

func defaultSettings() reconcile.Settings {
	return reconcile.Settings{
		Events: destination.Policy{Schemes: weburl.Web},
		Ramdisk: deploy.Ramdisk{
			ByArch:                 map[string]deploy.Images{},
			ForcePersistentLiveISO: "Default",
			ForcePersistentDirect:  "Default",
		},
		ProvisioningLimit:      20,
		MaxProvisioningRetries: 5,
		CallbackTimeout:        30 * time.Minute,
		Workers:                8,
		PollInterval:           time.Second,
	}
}

// imageFlags are the flags about the images of the ramdisk. For each of them there is a second
// flag for single architectures, and environment variables that begin with variable.
var imageFlags = []struct {
	flag, variable, description string
	field                       func(*deploy.Images) *string
}{
	{"deploy-kernel-url", "DEPLOY_KERNEL", "the kernel of the ramdisk that inspects, cleans and deploys hosts", func(i *deploy.Images) *string { return &i.KernelURL }},
	{"deploy-ramdisk-url", "DEPLOY_RAMDISK", "the ramdisk that belongs to --deploy-kernel-url", func(i *deploy.Images) *string { return &i.RamdiskURL }},
	{"deploy-iso-url", "DEPLOY_ISO", "an ISO with the ramdisk, for virtual media and UEFI HTTP boot", func(i *deploy.Images) *string { return &i.ISOURL }},
}

const byArchSuffix = "-by-arch"

func addSettingsFlags(fs *pflag.FlagSet, s *reconcile.Settings) {
	fs.StringSliceVar(&s.Namespaces, "namespaces", nil,
		"The namespaces whose hosts are managed, separated by commas (env WATCH_NAMESPACE). Hosts can be created only there, and the server needs permissions on Secrets only there. Default: all namespaces.")
	r := &s.Ramdisk
	for _, f := range imageFlags {
		fs.StringVar(f.field(&r.Images), f.flag, "", fmt.Sprintf("URL of %s (env %s_URL). Default: what Ironic is configured with.", f.description, f.variable))
		fs.Var(byArch{r.ByArch, f.field}, f.flag+byArchSuffix, fmt.Sprintf(
			"--%s for hosts of one architecture, for example aarch64=http://... (env %s_URL_AARCH64 and so on, or %s_BY_ARCH). May be repeated. An architecture for which any such flag gives a URL uses none of the URLs that are given for all architectures.", f.flag, f.variable, f.variable))
	}
	fs.BoolVar(&s.BuildImages, "build-preprov-image", false,
		"Have a ramdisk image built for each host, with a PreprovisioningImage: by another controller, or, if the flags above give an ISO or a kernel and a ramdisk, by this server, which offers these.")
	fs.StringVar(&r.KernelParams, "kernel-params", "", "Parameters for the ramdisk's kernel, appended to those that Ironic is configured with.")
	fs.StringVar(&r.ExternalURLv6, "ironic-external-url-v6", "",
		"URL at which BMCs that have only IPv6 addresses reach the virtual media that Ironic serves (env IRONIC_EXTERNAL_URL_V6).")
	fs.StringVar(&r.ForcePersistentLiveISO, "live-iso-force-persistent-boot-device", r.ForcePersistentLiveISO,
		"Whether the boot device of hosts with a live ISO is set persistently: Default (as the BMC requires), Always or Never (env LIVE_ISO_FORCE_PERSISTENT_BOOT_DEVICE).")
	fs.StringVar(&r.ForcePersistentDirect, "direct-deploy-force-persistent-boot-device", r.ForcePersistentDirect,
		"Whether the boot device of hosts without a live ISO is set persistently: Default (as the BMC requires), Always or Never (env DIRECT_DEPLOY_FORCE_PERSISTENT_BOOT_DEVICE).")
	fs.BoolVar(&s.ProvisioningNetworkDisabled, "provisioning-network-disabled", false,
		"There is no provisioning network: refuse hosts whose BMC address requires one (env PROVISIONING_NETWORK_DISABLED).")
	fs.IntVar(&s.ProvisioningLimit, "provisioning-limit", s.ProvisioningLimit,
		"How many hosts are inspected, provisioned or deprovisioned at a time, not counting those with virtual media. 0 means no limit (env PROVISIONING_LIMIT).")
	fs.IntVar(&s.MaxProvisioningRetries, "max-provisioning-retries", s.MaxProvisioningRetries,
		"After how many failures in a row a host is no longer provisioned again. 0 means no limit.")
	fs.DurationVar(&s.CallbackTimeout, "callback-timeout", s.CallbackTimeout,
		"How long a ramdisk may be silent on a node for which Ironic 29.0.5 no longer enforces its own time-outs. For all other nodes, Ironic does.")
	fs.IntVar(&s.Workers, "workers", s.Workers, "How many hosts the leader works on at a time (env BMO_CONCURRENCY).")
}

// byArch is a flag with a URL for each of several architectures.
type byArch struct {
	images map[string]deploy.Images
	field  func(*deploy.Images) *string
}

// Set never returns an error, because the error of a flag repeats its value, including any
// password in the URL. Validation reports what is wrong.
func (b byArch) Set(value string) error {
	for entry := range strings.SplitSeq(value, ",") {
		arch, address, found := strings.Cut(entry, "=")
		if !found {
			arch, address = "", entry
		}
		b.put(arch, address)
	}
	return nil
}

// archName returns the name of an architecture as hosts have it.
func archName(arch string) string {
	return deploy.ArchitectureName(strings.ToLower(strings.TrimSpace(arch)))
}

func (b byArch) put(arch, address string) {
	arch = archName(arch)
	images := b.images[arch]
	*b.field(&images) = strings.TrimSpace(address)
	b.images[arch] = images
}

func (b byArch) get(arch string) string {
	images := b.images[arch]
	return *b.field(&images)
}

func (b byArch) String() string {
	var entries []string
	for _, arch := range slices.Sorted(maps.Keys(b.images)) {
		if address := b.get(arch); address != "" {
			entries = append(entries, arch+"="+address)
		}
	}
	return strings.Join(entries, ",")
}

// Type describes the value of the flag in --help.
func (b byArch) Type() string { return "arch=url" }

// validateSettings refuses invalid settings. Its errors name the flag or variable from which a
// setting comes, but do not repeat URLs, which can contain a password.
func (o *Options) validateSettings(refuse func(format string, args ...any)) {
	s := &o.Settings
	for _, namespace := range s.Namespaces {
		if errs := validation.IsDNS1123Label(namespace); len(errs) > 0 {
			refuse("%s: %q is not the name of a namespace: %s", o.source("namespaces"), namespace, errs[0])
		}
	}
	o.validateDestinations(refuse)
	o.validateSwitches(refuse)
	o.validateImages(s.Ramdisk.Images, func(flag string) string { return flag }, refuse)
	for _, arch := range slices.Sorted(maps.Keys(s.Ramdisk.ByArch)) {
		if arch == "" {
			refuse("--deploy-{kernel,ramdisk,iso}-url%s: an architecture is missing, it must be like aarch64=http://...", byArchSuffix)
			continue
		}
		o.validateImages(s.Ramdisk.ByArch[arch], func(flag string) string { return byArchKey(flag, arch) }, refuse)
	}
	if err := checkURL(s.Ramdisk.ExternalURLv6, "http", "https"); err != nil {
		refuse("%s: %w", o.source("ironic-external-url-v6"), err)
	}
	for _, choice := range []struct{ flag, value string }{
		{"live-iso-force-persistent-boot-device", s.Ramdisk.ForcePersistentLiveISO},
		{"direct-deploy-force-persistent-boot-device", s.Ramdisk.ForcePersistentDirect},
	} {
		if !slices.Contains([]string{"Default", "Always", "Never"}, choice.value) {
			refuse("%s is %q, it must be Default, Always or Never", o.source(choice.flag), choice.value)
		}
	}
	for _, number := range []struct {
		flag       string
		value, min int
	}{
		{"provisioning-limit", s.ProvisioningLimit, 0},
		{"max-provisioning-retries", s.MaxProvisioningRetries, 0},
		{"workers", s.Workers, 1},
	} {
		if number.value < number.min {
			refuse("%s is %d, it must be at least %d", o.source(number.flag), number.value, number.min)
		}
	}
	if s.PollInterval < 100*time.Millisecond {
		refuse("--ironic-poll-interval is %s, it must be at least 100ms", s.PollInterval)
	}
}

func (o *Options) validateImages(images deploy.Images, key func(flag string) string, refuse func(format string, args ...any)) {
	for _, f := range imageFlags {
		if err := checkURL(*f.field(&images), "http", "https", "file"); err != nil {
			refuse("%s: %w", o.source(key(f.flag)), err)
		}
	}
	kernel, ramdisk := o.source(key("deploy-kernel-url")), o.source(key("deploy-ramdisk-url"))
	switch {
	case images.KernelURL != "" && images.RamdiskURL == "" && o.Settings.BuildImages:
		// The kernel is for ramdisks that others build without one.
	case images.KernelURL != "" && images.RamdiskURL == "":
		refuse("%s requires %s: kernel and ramdisk belong together", kernel, ramdisk)
	case images.KernelURL == "" && images.RamdiskURL != "":
		refuse("%s requires %s: kernel and ramdisk belong together", ramdisk, kernel)
	}
}

// checkURL checks that an address is a URL with one of the schemes. An empty address is
// accepted.
func checkURL(address string, schemes ...string) error {
	if address == "" {
		return nil
	}
	u, err := url.Parse(address)
	if err != nil || !slices.Contains(schemes, u.Scheme) || u.Scheme != "file" && u.Host == "" || u.Host+u.Path == "" {
		return fmt.Errorf("it is not a URL with one of the schemes %s, such as http://192.0.2.1/file", strings.Join(schemes, ", "))
	}
	return nil
}
