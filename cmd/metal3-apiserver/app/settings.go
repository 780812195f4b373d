package app

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/deploy"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/drive"
)

func defaultSettings() drive.Settings {
	return drive.Settings{
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

// imageURLs are the flags about the ramdisk. Each has another one for
// architectures, and variables that begin with the given word.
var imageURLs = []struct {
	flag, variable, what string
	of                   func(*deploy.Images) *string
}{
	{"deploy-kernel-url", "DEPLOY_KERNEL", "the kernel of the ramdisk that inspects, cleans and deploys hosts", func(i *deploy.Images) *string { return &i.KernelURL }},
	{"deploy-ramdisk-url", "DEPLOY_RAMDISK", "the ramdisk that goes with --deploy-kernel-url", func(i *deploy.Images) *string { return &i.RamdiskURL }},
	{"deploy-iso-url", "DEPLOY_ISO", "an ISO with the ramdisk, for virtual media and UEFI HTTP boot", func(i *deploy.Images) *string { return &i.ISOURL }},
}

const byArchSuffix = "-by-arch"

func addSettingsFlags(fs *pflag.FlagSet, s *drive.Settings) {
	r := &s.Ramdisk
	for _, u := range imageURLs {
		fs.StringVar(u.of(&r.Images), u.flag, "", fmt.Sprintf("URL of %s (env %s_URL). Default: what Ironic is configured with.", u.what, u.variable))
		fs.Var(byArch{r.ByArch, u.of}, u.flag+byArchSuffix, fmt.Sprintf(
			"--%s for hosts of an architecture, for instance aarch64=http://... (env %s_URL_AARCH64 and the like, or %s_BY_ARCH). May be repeated. What is given for an architecture replaces all that is given for the others.", u.flag, u.variable, u.variable))
	}
	fs.StringVar(&r.KernelParams, "kernel-params", "", "Parameters for the ramdisk's kernel, after those that Ironic is configured with.")
	fs.StringVar(&r.ExternalURLv6, "ironic-external-url-v6", "",
		"URL by which BMCs with an IPv6 address reach the virtual media that Ironic serves (env IRONIC_EXTERNAL_URL_V6).")
	fs.StringVar(&r.ForcePersistentLiveISO, "live-iso-force-persistent-boot-device", r.ForcePersistentLiveISO,
		"Whether hosts with a live ISO have their boot device set for good: Default (as the BMC needs it), Always or Never (env LIVE_ISO_FORCE_PERSISTENT_BOOT_DEVICE).")
	fs.StringVar(&r.ForcePersistentDirect, "direct-deploy-force-persistent-boot-device", r.ForcePersistentDirect,
		"The same for all other hosts (env DIRECT_DEPLOY_FORCE_PERSISTENT_BOOT_DEVICE).")
	fs.BoolVar(&s.ProvisioningNetworkDisabled, "provisioning-network-disabled", false,
		"There is no provisioning network: hosts whose BMC address would need one are refused (env PROVISIONING_NETWORK_DISABLED).")
	fs.IntVar(&s.ProvisioningLimit, "provisioning-limit", s.ProvisioningLimit,
		"How many hosts are inspected, provisioned and deprovisioned at a time, those with virtual media apart; 0 is no limit (env PROVISIONING_LIMIT).")
	fs.IntVar(&s.MaxProvisioningRetries, "max-provisioning-retries", s.MaxProvisioningRetries,
		"After how many failures in a row a host is not provisioned again.")
	fs.DurationVar(&s.CallbackTimeout, "callback-timeout", s.CallbackTimeout,
		"How long a ramdisk may be silent where Ironic 29.0.5 does not watch over it any more. Others are Ironic's to time out.")
	fs.IntVar(&s.Workers, "workers", s.Workers, "How many hosts the leader works on at a time (env BMO_CONCURRENCY).")
}

// byArch is a flag that holds a URL for each of some architectures.
type byArch struct {
	images map[string]deploy.Images
	of     func(*deploy.Images) *string
}

// Set never fails, as the error would repeat the URL, with any password in it:
// what is wrong is found later.
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

func (b byArch) put(arch, address string) {
	arch = strings.ToLower(strings.TrimSpace(arch))
	images := b.images[arch]
	*b.of(&images) = strings.TrimSpace(address)
	b.images[arch] = images
}

func (b byArch) get(arch string) string {
	images := b.images[arch]
	return *b.of(&images)
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

// Type is how --help shows what the flag takes.
func (b byArch) Type() string { return "arch=url" }

// validateSettings refuses bad settings, by the name of the flag or variable that
// they come from. It repeats no URL, because there may be a password in it.
func (o *Options) validateSettings(refuse func(format string, args ...any)) {
	s := &o.Settings
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
		{"max-provisioning-retries", s.MaxProvisioningRetries, 1},
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
	for _, u := range imageURLs {
		if err := checkURL(*u.of(&images), "http", "https", "file"); err != nil {
			refuse("%s: %w", o.source(key(u.flag)), err)
		}
	}
	kernel, ramdisk := o.source(key("deploy-kernel-url")), o.source(key("deploy-ramdisk-url"))
	switch {
	case images.KernelURL != "" && images.RamdiskURL == "":
		refuse("%s needs %s: kernel and ramdisk go together", kernel, ramdisk)
	case images.KernelURL == "" && images.RamdiskURL != "":
		refuse("%s needs %s: kernel and ramdisk go together", ramdisk, kernel)
	}
}

// checkURL refuses a URL that is none, or not of the schemes. Empty is none given.
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
