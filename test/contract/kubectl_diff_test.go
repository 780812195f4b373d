// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"slices"
	"strings"
	"testing"
)

// TestKubectlDiff: what would change is shown, and nothing else.
func TestKubectlDiff(t *testing.T) {
	k := newShell(t)
	for name, flags := range map[string][]string{"client-side": nil, "server-side": {"--server-side"}} {
		t.Run(name, func(t *testing.T) {
			k := k.in(t)
			k.ok(hostYAML(name, "online: true, description: rack 7"), append([]string{"apply", "-f", "-"}, flags...)...)
			k.settled(name)
			diff := append([]string{"diff", "-f", "-"}, flags...)
			if stdout, stderr, code := k.run(hostYAML(name, "online: true, description: rack 7"), diff...); code != 0 || stdout+stderr != "" {
				t.Errorf("without a change: exit code %d: %s%s", code, stdout, stderr)
			}
			stdout, stderr, code := k.run(hostYAML(name, "online: false, description: rack 7"), diff...)
			if code != 1 {
				t.Errorf("with a change: exit code %d: %s", code, stderr)
			}
			if got, want := changedLines(stdout), []string{"-  generation: 1", "+  generation: 2", "-  online: true", "+  online: false"}; !slices.Equal(got, want) {
				t.Errorf("shows %q, want %q:\n%s", got, want, stdout)
			}
			if stdout, _, code := k.run(hostYAML("new", "online: true"), diff...); code != 1 || !strings.Contains(stdout, "+  name: new\n") {
				t.Errorf("of a new host: exit code %d: %s", code, stdout)
			}
			if got := k.field(name, ".spec.online"); got != "true" {
				t.Error("diff has changed the host")
			}
			k.refused("", []string{"get", "bmh", "new"}, "NotFound")
		})
	}
}

func changedLines(diff string) (changed []string) {
	for _, line := range strings.Split(diff, "\n") {
		if (strings.HasPrefix(line, "-") || strings.HasPrefix(line, "+")) && !strings.HasPrefix(line, "---") && !strings.HasPrefix(line, "+++") {
			changed = append(changed, line)
		}
	}
	return changed
}
