// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

const settingsPath = groupPath + "/namespaces/metal3/hostfirmwaresettings"

// TestFirmwareSettingsAreLive: whoever reads HostFirmwareSettings is shown what Ironic says now, which
// has been recorded, or is warned.
func TestFirmwareSettingsAreLive(t *testing.T) {
	for name, cache := range map[string]bool{"watch cache off": false, "watch cache on": true} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t, cache)
			body := `{"apiVersion":"metal3.io/v1alpha1","kind":"HostFirmwareSettings","metadata":{"name":"worker-0"},"spec":{"settings":{}}}`
			created := &metal3.HostFirmwareSettings{}
			s.do(t, "POST", settingsPath, body).into(t, 201, created)
			atCreated := "?resourceVersion=" + created.ResourceVersion
			one := func(path string) func(t *testing.T) metal3.HostFirmwareSettings {
				return func(t *testing.T) (read metal3.HostFirmwareSettings) {
					s.do(t, "GET", path, "").into(t, http.StatusOK, &read)
					return read
				}
			}
			list := func(path string) func(t *testing.T) metal3.HostFirmwareSettings {
				return func(t *testing.T) metal3.HostFirmwareSettings {
					read := &metal3.HostFirmwareSettingsList{}
					s.do(t, "GET", path, "").into(t, http.StatusOK, read)
					if len(read.Items) != 1 {
						t.Fatalf("%s lists %d objects", path, len(read.Items))
					}
					return read.Items[0]
				}
			}
			said := 0
			for name, read := range map[string]func(t *testing.T) metal3.HostFirmwareSettings{
				"get":                         one(settingsPath + "/worker-0"),
				"get at any resourceVersion":  one(settingsPath + "/worker-0?resourceVersion=0"),
				"get of the status":           one(settingsPath + "/worker-0/status"),
				"list":                        list(settingsPath),
				"list at a resourceVersion":   list(settingsPath + atCreated),
				"list not older than":         list(settingsPath + atCreated + "&resourceVersionMatch=NotOlderThan"),
				"list at any resourceVersion": list(settingsPath + "?resourceVersion=0"),
				"list by name":                list(settingsPath + "?fieldSelector=metadata.name%3Dworker-0"),
				"list of all namespaces":      list(groupPath + "/hostfirmwaresettings"),
			} {
				t.Run(name, func(t *testing.T) {
					said++
					s.live.say("worker-0", fmt.Sprint(said))
					got := read(t)
					if got.Status.Settings["Said"] != fmt.Sprint(said) {
						t.Errorf("shown is %v, and Ironic says %d", got.Status.Settings, said)
					}
					recorded, err := s.live.settings.Get(t.Context(), "metal3", "worker-0")
					if err != nil || recorded.ResourceVersion != got.ResourceVersion {
						t.Errorf("shown is resourceVersion %s, and recorded %s, %v", got.ResourceVersion, recorded.ResourceVersion, err)
					}
				})
			}
			exact := list(settingsPath + atCreated + "&resourceVersionMatch=Exact")(t)
			if exact.ResourceVersion != created.ResourceVersion || len(exact.Status.Settings) > 0 {
				t.Errorf("a list at exactly resourceVersion %s shows %+v", created.ResourceVersion, exact)
			}
			s.live.leave("Ironic is away")
			for _, path := range []string{settingsPath + "/worker-0", settingsPath + "/worker-0/status", settingsPath} {
				got := s.do(t, "GET", path, "")
				if warning := got.header.Get("Warning"); got.code != http.StatusOK || !strings.Contains(warning, "Ironic is away") {
					t.Errorf("%s: HTTP %d, warning %q", path, got.code, warning)
				}
			}
		})
	}
}

// TestDryRunOfFirmware: a dry run says what would be done to the machine, and nothing else does.
func TestDryRunOfFirmware(t *testing.T) {
	s := startServer(t, true)
	for kind, spec := range map[string]string{"HostFirmwareSettings": `{"settings":{}}`, "HostFirmwareComponents": `{"updates":[]}`} {
		path := groupPath + "/namespaces/metal3/" + strings.ToLower(kind)
		version := ""
		warned := func(method, path string, want string) {
			t.Helper()
			got := s.do(t, method, path, `{"apiVersion":"metal3.io/v1alpha1","kind":"`+kind+`","metadata":{"name":"worker-0"`+version+`},"spec":`+spec+`}`)
			if got.code >= 300 || !strings.Contains(got.header.Get("Warning"), want) || want == "" && got.header.Get("Warning") != "" {
				t.Errorf("%s %s: HTTP %d, warning %q", method, path, got.code, got.header.Get("Warning"))
			}
		}
		warned("POST", path+"?dryRun=All", "a preview of *v1alpha1."+kind)
		warned("POST", path, "")
		stored := &metav1.PartialObjectMetadata{}
		s.do(t, "GET", path+"/worker-0", "").into(t, http.StatusOK, stored)
		version = `,"resourceVersion":"` + stored.ResourceVersion + `"`
		warned("PUT", path+"/worker-0?dryRun=All", "a preview of *v1alpha1."+kind)
		warned("PUT", path+"/worker-0", "")
	}
}

// TestFirmwareComponentsAreLive: so is whoever reads HostFirmwareComponents, by the same storage.
func TestFirmwareComponentsAreLive(t *testing.T) {
	const path = groupPath + "/namespaces/metal3/hostfirmwarecomponents"
	s := startServer(t, true)
	body := `{"apiVersion":"metal3.io/v1alpha1","kind":"HostFirmwareComponents","metadata":{"name":"worker-0"},"spec":{"updates":[]}}`
	s.do(t, "POST", path, body).into(t, 201, &metal3.HostFirmwareComponents{})
	version := func(components []metal3.FirmwareComponentStatus) string {
		if len(components) != 1 {
			return fmt.Sprintf("%d components", len(components))
		}
		return components[0].CurrentVersion
	}
	read := func(path string, into runtime.Object) { s.do(t, "GET", path, "").into(t, http.StatusOK, into) }
	one, list := &metal3.HostFirmwareComponents{}, &metal3.HostFirmwareComponentsList{}
	s.live.say("worker-0", "1.0")
	if read(path+"/worker-0", one); version(one.Status.Components) != "1.0" {
		t.Errorf("a GET shows version %s", version(one.Status.Components))
	}
	s.live.say("worker-0", "1.1")
	if read(path+"/worker-0/status", one); version(one.Status.Components) != "1.1" {
		t.Errorf("a GET of the status shows version %s", version(one.Status.Components))
	}
	s.live.say("worker-0", "2.0")
	if read(path, list); len(list.Items) != 1 || version(list.Items[0].Status.Components) != "2.0" {
		t.Errorf("a LIST shows %+v", list.Items)
	}
	s.live.leave("Ironic is away")
	if got := s.do(t, "GET", path, ""); got.code != http.StatusOK || !strings.Contains(got.header.Get("Warning"), "Ironic is away") {
		t.Errorf("HTTP %d, warning %q", got.code, got.header.Get("Warning"))
	}
}
