// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
)

func TestWithoutSecrets(t *testing.T) {
	const password = `Ab"c<d'e\f%g`
	inJSON, _ := json.Marshal(map[string]any{"ipmi_password": password})
	twice, _ := json.Marshal(string(inJSON))
	for name, message := range map[string]string{
		"as it is":     "the BMC refused " + password + " of admin",
		"JSON":         "invalid: " + string(inJSON),
		"JSON in JSON": "invalid: " + string(twice),
		"Python":       `invalid: {'x': 'Ab"c<d\'e\\f%g'}`,
		"URL":          "GET http://bmc/login?p=" + url.QueryEscape(password),
	} {
		got := Secrets(message, []string{password})
		if strings.Contains(got, "c<d") || strings.Contains(got, "Ab") || !strings.Contains(got, redacted) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// Ironic may quote the middle of a long text.
func TestWithoutPartsOfSecrets(t *testing.T) {
	userData := "#cloud-config\nchpasswd: {list: ['root:correct-horse-battery-staple']}\n"
	got := Secrets("Node worker-0: cannot parse ...oot:correct-horse-battery-sta...", []string{userData})
	if want := "Node worker-0: cannot parse ..." + redacted + "..."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := Secrets(strings.Repeat("x", 1<<20), nil); len(got) > longestMessage+len("...") {
		t.Errorf("a message of %d bytes", len(got))
	}
}

func TestMaskPasswords(t *testing.T) {
	const masked = redacted
	for text, want := range map[string]string{
		"": "",
		"Failed to get power state for node x. Error: refused":                  "Failed to get power state for node x. Error: refused",
		`{'ipmi_username': 'admin', 'ipmi_password': 'a\'b c'}`:                 `{'ipmi_username': 'admin', 'ipmi_password': ` + masked + `}`,
		`{"redfish_password": "a\"b", "redfish_address": "https://bmc"}`:        `{"redfish_password": ` + masked + `, "redfish_address": "https://bmc"}`,
		`"{\"redfish_password\": \"hunter2\", \"x\": 1}"`:                       `"{\"redfish_password\": ` + masked + `, \"x\": 1}"`,
		"ipmitool -U admin --password=hunter2 chassis":                          "ipmitool -U admin --password=" + masked + " chassis",
		"Max retries exceeded with url: https://admin:hunter2@bmc:443/x":        "Max retries exceeded with url: https://" + masked + "@bmc:443/x",
		"Authorization: Basic YWRtaW46aHVudGVyMg== was refused":                 "Authorization: Basic " + masked + " was refused",
		"basic authentication is not enabled":                                   "basic authentication is not enabled",
		"Missing the following Redfish properties: redfish_password":            "Missing the following Redfish properties: redfish_password",
		"the password of the BMC was refused at https://bmc:8443/redfish":       "the password of the BMC was refused at https://bmc:8443/redfish",
		"download of oci://registry:5000/linux@sha256:0d5e failed":              "download of oci://registry:5000/linux@sha256:0d5e failed",
		"download of oci://user:hunter2@registry:5000/linux@sha256:0d5e failed": "download of oci://" + masked + "@sha256:0d5e failed",
	} {
		if got := NamedPasswords(text); got != want {
			t.Errorf("%s\n got %s\nwant %s", text, got, want)
		}
	}
}

// Whichever name a password has, and however that is written.
func TestMaskPasswordsOfAnyName(t *testing.T) {
	for _, name := range append([]string{"authorization: basic ", "x-auth-token: "}, passwordNames...) {
		for _, spelled := range []string{name, strings.ToUpper(name), strings.ReplaceAll(name, "s", "ſ"), strings.ReplaceAll(name, "k", "\u212a")} {
			text := "before " + spelled + "=hunter2 after"
			if got := NamedPasswords(text); strings.Contains(got, "hunter2") {
				t.Errorf("%s remains", got)
			}
		}
	}
}

func TestContentsOf(t *testing.T) {
	drive := map[string]any{
		"user_data": "#cloud-config", "meta_data": map[string]any{"name": "a-long-name-of-a-host", "note": "a secret"},
		"network_data": map[string]any{"links": []any{map[string]any{"type": "phy", "secret": json.Number("1234567890")}}},
	}
	found := strings.Join(TextsOf(drive), "|")
	for want, in := range map[string]bool{"#cloud-config": true, "a secret": true, "1234567890": true, "phy": false, "a-long-name": false} {
		if strings.Contains(found, want) != in {
			t.Errorf("%q in %q: want %t", want, found, in)
		}
	}
}
