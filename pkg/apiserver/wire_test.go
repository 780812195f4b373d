// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

const protobuf = "application/vnd.kubernetes.protobuf"

func TestWire(t *testing.T) {
	s := startServer(t, true)
	t.Run("media types", func(t *testing.T) { testMediaTypes(t, s) })
	t.Run("discovery", func(t *testing.T) { testDiscovery(t, s) })
	t.Run("strict", func(t *testing.T) { testStrict(t, s) })
	t.Run("selectors", func(t *testing.T) { testSelectors(t, s) })
	t.Run("table", func(t *testing.T) { testTable(t, s) })
	t.Run("health", func(t *testing.T) { testHealth(t, s) })
}

func testMediaTypes(t *testing.T, s *server) {
	s.create(t, "media")
	tests := []struct {
		accept string
		code   int
		got    string
	}{
		{"", 200, "application/json"},
		{protobuf + ",application/json", 200, "application/json"},
		{protobuf + ",*/*", 200, "application/json"},
		{"application/cbor,application/json", 200, "application/json"},
		{"application/yaml", 200, "application/yaml"},
		{protobuf, 406, ""},
		{"application/json;as=Table;v=v1;g=meta.k8s.io,application/json", 200, "application/json"},
		{"application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", 200, "application/json"},
		// The garbage collector and the namespace controller send this.
		{protobuf + ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json", 200, ""},
	}
	for _, test := range tests {
		got := s.do(t, "GET", hostsPath+"/media", "", "Accept: "+test.accept)
		if media := got.header.Get("Content-Type"); got.code != test.code || !strings.HasPrefix(media, test.got) {
			t.Errorf("Accept: %s: got HTTP %d with %s, want %d with %s", test.accept, got.code, media, test.code, test.got)
		}
	}
	var partial metav1.PartialObjectMetadata
	s.do(t, "PATCH", hostsPath+"/media", `{"metadata":{"labels":{"rack":"1"}}}`, mergePatch,
		"Accept: application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io").into(t, 200, &partial)
	if partial.Kind != "PartialObjectMetadata" || partial.Labels["rack"] != "1" {
		t.Errorf("a patch has answered %+v", partial)
	}

	var fromYAML metal3.BareMetalHost
	if err := yaml.Unmarshal(s.do(t, "GET", hostsPath+"/media", "", "Accept: application/yaml").body, &fromYAML); err != nil {
		t.Error(err)
	}
	if fromYAML.Name != "media" || fromYAML.Kind != "BareMetalHost" {
		t.Errorf("as YAML it is %s %s", fromYAML.Kind, fromYAML.Name)
	}

	posted, err := yaml.JSONToYAML([]byte(strings.ReplaceAll(hostJSON, "NAME", "from-yaml")))
	if err != nil {
		t.Fatal(err)
	}
	if got := s.do(t, "POST", hostsPath, string(posted), "Content-Type: application/yaml"); got.code != 201 {
		t.Errorf("a host in YAML: HTTP %d: %s", got.code, got.body)
	}
	if got := s.do(t, "POST", hostsPath, "k8s\x00", "Content-Type: "+protobuf); got.code != 415 {
		t.Errorf("a host in protobuf: HTTP %d: %s", got.code, got.body)
	}
}

func testDiscovery(t *testing.T, s *server) {
	var resources metav1.APIResourceList
	s.do(t, "GET", groupPath, "").into(t, 200, &resources)
	type resource struct {
		Kind, Singular, ShortNames, Verbs string
	}
	got := map[string]resource{}
	for _, r := range resources.APIResources {
		if r.Namespaced == strings.HasPrefix(r.Name, "provisionings") {
			t.Errorf("%s is in namespaces: %t", r.Name, r.Namespaced)
		}
		slices.Sort(r.Verbs)
		got[r.Name] = resource{r.Kind, r.SingularName, strings.Join(r.ShortNames, ","), strings.Join(r.Verbs, ",")}
	}
	const all = "create,delete,deletecollection,get,list,patch,update,watch"
	want := map[string]resource{
		"baremetalhosts":             {"BareMetalHost", "baremetalhost", "bmh,bmhost", all},
		"baremetalhosts/power":       {"HostPower", "", "", "create,get"},
		"baremetalhosts/inspect":     {"HostInspection", "", "", "create,get"},
		"baremetalhosts/retry":       {"HostRetry", "", "", "create"},
		"baremetalhosts/takeover":    {"HostTakeover", "", "", "create"},
		"baremetalhosts/transfer":    {"HostTransfer", "", "", "create"},
		"baremetalhosts/console":     {"HostConsoleOptions", "", "", "create,get"},
		"baremetalhosts/validate":    {"HostValidation", "", "", "get"},
		"baremetalhosts/history":     {"HostHistory", "", "", "get"},
		"baremetalhosts/maintenance": {"HostMaintenance", "", "", "create,get"},
		"baremetalhosts/bootdevice":  {"HostBootDevice", "", "", "create,get"},
		"baremetalhosts/nmi":         {"HostNMI", "", "", "create"},
		"baremetalhosts/rebuild":     {"HostRebuild", "", "", "create"},
		"baremetalhosts/clean":       {"HostClean", "", "", "create"},
		"baremetalhosts/indicator":   {"HostIndicator", "", "", "create,get"},
		"baremetalswitches":          {"BareMetalSwitch", "baremetalswitch", "bms", all},
		"bmceventsubscriptions":      {"BMCEventSubscription", "bmceventsubscription", "bes,bmcevent", all},
		"dataimages":                 {"DataImage", "dataimage", "", all},
		"firmwareschemas":            {"FirmwareSchema", "firmwareschema", "", all},
		"hardwaredata":               {"HardwareData", "hardwaredata", "hd", all},
		"hostclaims":                 {"HostClaim", "hostclaim", "", all},
		"hostdeploypolicies":         {"HostDeployPolicy", "hostdeploypolicy", "", all},
		"hostfirmwarecomponents":     {"HostFirmwareComponents", "hostfirmwarecomponents", "", all},
		"hostfirmwaresettings":       {"HostFirmwareSettings", "hostfirmwaresettings", "hfs", all},
		"hostnetworkattachments":     {"HostNetworkAttachment", "hostnetworkattachment", "", all},
		"hostupdatepolicies":         {"HostUpdatePolicy", "hostupdatepolicy", "", all},
		"preprovisioningimages":      {"PreprovisioningImage", "preprovisioningimage", "ppimg", all},
		"provisionings":              {"Provisioning", "provisioning", "", all},
	}
	for _, name := range []string{
		"baremetalhosts", "baremetalswitches", "bmceventsubscriptions", "dataimages", "hostclaims", "hostdeploypolicies",
		"hostfirmwarecomponents", "hostfirmwaresettings", "hostnetworkattachments", "preprovisioningimages", "provisionings",
	} {
		want[name+"/status"] = resource{want[name].Kind, "", "", "get,patch,update"}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(- want, + got):\n%s", diff)
	}
	var groups metav1.APIGroupList
	s.do(t, "GET", "/apis", "").into(t, 200, &groups)
	var preferred []string
	for _, group := range groups.Groups {
		preferred = append(preferred, group.PreferredVersion.GroupVersion)
	}
	if diff := cmp.Diff([]string{"metal3.io/v1alpha1", "ironic.metal3-apiserver.io/v1alpha1"}, preferred); diff != "" {
		t.Errorf("groups (- want, + got):\n%s", diff)
	}
}

func testStrict(t *testing.T, s *server) {
	bogus := strings.Replace(strings.ReplaceAll(hostJSON, "NAME", "strict"), `"online":true`, `"online":true,"onlin":true`, 1)
	twice := strings.Replace(strings.ReplaceAll(hostJSON, "NAME", "strict"), `"online":true`, `"online":true,"online":false`, 1)
	wrong := strings.Replace(strings.ReplaceAll(hostJSON, "NAME", "strict"), `"online":true`, `"online":"yes"`, 1)
	tests := []struct {
		name, body, query string
		code              int
		says, warns       string
	}{
		{"unknown field", bogus, "?fieldValidation=Strict&dryRun=All", 400, `unknown field "spec.onlin"`, ""},
		{"unknown field", bogus, "?fieldValidation=Warn&dryRun=All", 201, "", `unknown field "spec.onlin"`},
		{"unknown field", bogus, "?fieldValidation=Ignore&dryRun=All", 201, "", ""},
		{"field given twice", twice, "?fieldValidation=Strict&dryRun=All", 400, `duplicate field "spec.online"`, ""},
		{"wrong type", wrong, "?fieldValidation=Ignore&dryRun=All", 400, "spec.online", ""},
	}
	for _, test := range tests {
		t.Run(test.name+test.query, func(t *testing.T) {
			got := s.do(t, "POST", hostsPath+test.query, test.body)
			if got.code != test.code || !strings.Contains(string(got.body), strings.ReplaceAll(test.says, `"`, `\"`)) {
				t.Errorf("got HTTP %d: %s", got.code, got.body)
			}
			if warning := got.header.Get("Warning"); !strings.Contains(warning, strings.ReplaceAll(test.warns, `"`, `\"`)) || test.warns == "" && warning != "" {
				t.Errorf("warning is %q", warning)
			}
		})
	}
}

// testSelectors checks that a field selector with an unsupported field is refused, and that the
// error names the supported ones.
func testSelectors(t *testing.T, s *server) {
	for _, label := range metal3.BareMetalHostFieldLabels {
		if got := s.do(t, "GET", hostsPath+"?fieldSelector="+label+"%3Dx", ""); got.code != 200 {
			t.Errorf("%s: HTTP %d: %s", label, got.code, got.body)
		}
	}
	for path, supported := range map[string]string{
		hostsPath + "?fieldSelector=spec.image.url%3Dx":                                        "status.provisioning.state",
		groupPath + "/namespaces/metal3/hardwaredata?fieldSelector=spec.hardware.hostname%3Dx": "metadata.name",
	} {
		if got := s.do(t, "GET", path, ""); got.code != 400 || !strings.Contains(got.status(t).Message, supported) {
			t.Errorf("%s: HTTP %d: %s", path, got.code, got.body)
		}
	}
}

func testTable(t *testing.T, s *server) {
	s.register(t, "printed", nil)
	for _, path := range []string{"/printed", "/printed/status", "?fieldSelector=metadata.name%3Dprinted"} {
		var table metav1.Table
		s.do(t, "GET", hostsPath+path, "", "Accept: application/json;as=Table;v=v1;g=meta.k8s.io").into(t, 200, &table)
		if len(table.Rows) != 1 || table.Rows[0].Cells[0] != "printed" || len(table.ColumnDefinitions) != 15 {
			t.Errorf("%s: %d columns, rows %v", path, len(table.ColumnDefinitions), table.Rows)
		}
	}
	for _, path := range []string{"/power", "/inspect"} {
		var table metav1.Table
		s.do(t, "GET", hostsPath+"/printed"+path, "", "Accept: application/json;as=Table;v=v1;g=meta.k8s.io").into(t, 200, &table)
		if len(table.Rows) != 1 || table.Rows[0].Cells[0] != "printed" {
			t.Errorf("%s: rows %v", path, table.Rows)
		}
	}
}

// testHealth checks that the health endpoints do not depend on Ironic.
func testHealth(t *testing.T, s *server) {
	s.live.leave("no answer within 2.5s")
	s.ironic.disconnect(t)
	defer s.live.leave("")
	for _, path := range []string{"/readyz", "/livez", "/healthz"} {
		if got := s.do(t, "GET", path, ""); got.code != http.StatusOK {
			t.Errorf("%s: HTTP %d: %s", path, got.code, got.body)
		}
	}
	var version struct{ Major string }
	if err := json.Unmarshal(s.do(t, "GET", "/version", "").body, &version); err != nil {
		t.Error(err)
	}
}
