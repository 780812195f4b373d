// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

// TestHosts: HOSTS is refused where there are not as many machines, or if it is not a number of them.
func TestHosts(t *testing.T) {
	for name, tt := range map[string]struct {
		environment map[string]string
		hosts       int
		err         string
	}{
		"fifty":                   {map[string]string{"HOSTS": "50"}, 50, ""},
		"simulated Ironic":        {map[string]string{"HOSTS": "50", "IRONIC": "sim"}, 50, ""},
		"without":                 {nil, workers + 1, ""},
		"Ironic of Debian":        {map[string]string{"HOSTS": "50", "IRONIC": "debian"}, 0, "HOSTS=50: only the simulated Ironic"},
		"the user's Ironic":       {map[string]string{"HOSTS": "50", "IRONIC_ENDPOINT": "http://192.0.2.1:6385"}, 0, "HOSTS=50: only the simulated Ironic"},
		"too few for a rack":      {map[string]string{"HOSTS": "9"}, 0, "HOSTS=9: must be a number from 10 to 1000"},
		"too many for a terminal": {map[string]string{"HOSTS": "1001"}, 0, "HOSTS=1001: must be a number from 10 to 1000"},
		"no number":               {map[string]string{"HOSTS": "many"}, 0, "HOSTS=many: must be a number from 10 to 1000"},
	} {
		t.Run(name, func(t *testing.T) {
			ironic, err := chooseIronic(func(name string) string { return tt.environment[name] })
			switch {
			case tt.err != "":
				if err == nil || !strings.HasPrefix(err.Error(), tt.err) {
					t.Errorf("%v, and not: %s", err, tt.err)
				}
			case err != nil:
				t.Error(err)
			case len(ironic.hosts()) != tt.hosts:
				t.Errorf("%d hosts, and not %d", len(ironic.hosts()), tt.hosts)
			}
		})
	}
}
