// SPDX-License-Identifier: Apache-2.0

package app

import (
	"strings"
	"testing"

	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/kinds/networkswitch"
)

// Switches are configured with all of their settings, from flags or variables, or not at all.
func TestSwitchSettings(t *testing.T) {
	all := networkswitch.Settings{Enabled: true, ConfigsSecret: "configs", CredentialsSecret: "keys", CredentialsPath: "/etc/keys"}
	for name, test := range map[string]struct {
		variables map[string]string
		args      []string
		want      networkswitch.Settings
		refused   []string
	}{
		"off":       {},
		"flags":     {args: []string{"--configure-switches", "--switch-configs-secret=configs", "--switch-credentials-secret=keys", "--switch-credentials-path=/etc/keys"}, want: all},
		"variables": {variables: map[string]string{"IRONIC_NETWORKING_ENABLED": "true", "IRONIC_SWITCH_CONFIGS_SECRET": "configs", "IRONIC_SWITCH_CREDENTIALS_SECRET": "keys", "IRONIC_SWITCH_CREDENTIALS_PATH": "/etc/keys"}, want: all},
		"alone": {
			variables: map[string]string{"IRONIC_NETWORKING_ENABLED": "true"}, want: networkswitch.Settings{Enabled: true},
			refused: []string{"IRONIC_NETWORKING_ENABLED requires --switch-configs-secret", "requires --switch-credentials-secret", "requires --switch-credentials-path"},
		},
		"one Secret": {
			args:    []string{"--configure-switches", "--switch-configs-secret=keys", "--switch-credentials-secret=keys", "--switch-credentials-path=/etc/keys"},
			want:    networkswitch.Settings{Enabled: true, ConfigsSecret: "keys", CredentialsSecret: "keys", CredentialsPath: "/etc/keys"},
			refused: []string{"must be different"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			setEnvironment(t, test.variables)
			o := parsed(t, withRequired(test.args...)...)
			err := o.Validate()
			if o.Switches != test.want || (err != nil) != (len(test.refused) > 0) {
				t.Errorf("settings %+v, %v", o.Switches, err)
			}
			for _, text := range test.refused {
				if err != nil && !strings.Contains(err.Error(), text) {
					t.Errorf("the error is %q, it does not say %q", err, text)
				}
			}
		})
	}
}
