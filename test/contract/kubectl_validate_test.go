// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"strings"
	"testing"
)

// TestKubectlValidate: a field that is misspelt or given twice is refused, warned
// of or ignored, as the user says.
func TestKubectlValidate(t *testing.T) {
	k := newShell(t)
	k.create("h")
	misspelt := hostYAML("h", "online: true, rootDeviceHint: {deviceName: /dev/sda}, bmc: {address: '', credentialsName: '', adress: x}")
	for _, verb := range []string{"create", "apply", "replace", "apply --server-side"} {
		t.Run(strings.ReplaceAll(verb, " ", ""), func(t *testing.T) {
			k := k.in(t)
			command := append(strings.Fields(verb), "-f", "-", "--dry-run=server")
			manifest := misspelt
			if verb != "replace" {
				manifest = strings.Replace(manifest, "name: h", "name: "+verb[:3]+"-new", 1)
			}
			if strings.Contains(verb, "--server-side") {
				// It has no way to leave out what it does not know, and names one such field.
				k.refused(manifest, append(command, "--validate=strict"), ".spec.", ": field not declared in schema")
				return
			}
			for _, strict := range [][]string{nil, {"--validate=strict"}, {"--validate=true"}} {
				k.refused(manifest, append(command, strict...), `unknown field "spec.rootDeviceHint"`, `unknown field "spec.bmc.adress"`)
			}
			_, stderr, code := k.run(manifest, append(command, "--validate=warn")...)
			if code != 0 || !strings.Contains(stderr, `Warning: unknown field "spec.rootDeviceHint"`) || !strings.Contains(stderr, `Warning: unknown field "spec.bmc.adress"`) {
				t.Errorf("warn: exit code %d: %s", code, stderr)
			}
			for _, ignore := range []string{"--validate=ignore", "--validate=false"} {
				if _, stderr, code := k.run(manifest, append(command, ignore)...); code != 0 || strings.Contains(stderr, "unknown") {
					t.Errorf("%s: exit code %d: %s", ignore, code, stderr)
				}
			}
		})
	}
	t.Run("given twice", func(t *testing.T) {
		k := k.in(t)
		// kubectl itself keeps one of the two, when it reads the file.
		k.refused(`{"kind":"BareMetalHost","apiVersion":"metal3.io/v1alpha1","metadata":{"name":"twice"},"spec":{"online":true,"online":false}}`,
			[]string{"create", "--raw", "/apis/metal3.io/v1alpha1/namespaces/" + k.ns + "/baremetalhosts?fieldValidation=Strict", "-f", "-"}, `duplicate field "spec.online"`)
	})
	t.Run("patch", func(t *testing.T) {
		k := k.in(t)
		// kubectl patch has no such flag, and asks for warnings.
		_, stderr, code := k.run("", "patch", "bmh", "h", "--type=merge", "-p", `{"spec":{"onlin":true}}`)
		if code != 0 || !strings.Contains(stderr, `Warning: unknown field "spec.onlin"`) {
			t.Errorf("exit code %d: %s", code, stderr)
		}
	})
}
