// SPDX-License-Identifier: Apache-2.0

package app

import (
	"path"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/validation"
)

func (o *Options) addSwitchFlags(fs *pflag.FlagSet) {
	s := &o.Switches
	fs.BoolVar(&s.Enabled, "configure-switches", false,
		"Write the configuration of BareMetalSwitches for Ironic's networking service, and tell Ironic the switch ports of hosts (env IRONIC_NETWORKING_ENABLED). Requires the other --switch flags.")
	fs.StringVar(&s.ConfigsSecret, "switch-configs-secret", "",
		"Name of the Secret, in each namespace with BareMetalSwitches, to which their configuration is written (env IRONIC_SWITCH_CONFIGS_SECRET).")
	fs.StringVar(&s.CredentialsSecret, "switch-credentials-secret", "",
		"Name of the Secret, in each namespace with BareMetalSwitches, to which their private keys are written (env IRONIC_SWITCH_CREDENTIALS_SECRET).")
	fs.StringVar(&s.CredentialsPath, "switch-credentials-path", "",
		"Directory at which --switch-credentials-secret is mounted into Ironic's networking service (env IRONIC_SWITCH_CREDENTIALS_PATH).")
}

// validateSwitches refuses switches that are to be configured in part.
func (o *Options) validateSwitches(refuse func(format string, args ...any)) {
	s := &o.Switches
	if !s.Enabled {
		return
	}
	enabled := o.source("configure-switches")
	for _, secret := range []struct{ flag, name string }{
		{"switch-configs-secret", s.ConfigsSecret}, {"switch-credentials-secret", s.CredentialsSecret},
	} {
		if errs := validation.NameIsDNSSubdomain(secret.name, false); len(errs) > 0 {
			refuse("%s requires %s: %q is not the name of a Secret", enabled, o.source(secret.flag), secret.name)
		}
	}
	if s.ConfigsSecret == s.CredentialsSecret && s.ConfigsSecret != "" {
		refuse("%s and %s must be different: each has a Secret of its own", o.source("switch-configs-secret"), o.source("switch-credentials-secret"))
	}
	if !path.IsAbs(s.CredentialsPath) {
		refuse("%s requires %s: %q is not an absolute path", enabled, o.source("switch-credentials-path"), s.CredentialsPath)
	}
}
