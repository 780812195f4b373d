// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

func secretRef(name string) *corev1.SecretReference { return &corev1.SecretReference{Name: name} }

// withConfig names the Secrets user, meta and net.
func withConfig(h *metal3.BareMetalHost) {
	h.Spec.UserData, h.Spec.MetaData, h.Spec.NetworkData = secretRef("user"), secretRef("meta"), secretRef("net")
}

func withPreprovisioning(h *metal3.BareMetalHost) {
	h.Spec.PreprovisioningNetworkDataName = "pre"
}

func data(pairs ...string) map[string][]byte {
	m := map[string][]byte{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = []byte(pairs[i+1])
	}
	return m
}

func TestConfigSecrets(t *testing.T) {
	type m = map[ConfigRole]string
	live := wantsImage(imageURL, withFormat(metal3.LiveISO))
	tests := map[string]struct {
		options []hostOption
		want    m
	}{
		"none":                   {want: m{}},
		"all":                    {options: []hostOption{withConfig}, want: m{UserData: "user", MetaData: "meta", NetworkData: "net"}},
		"fallback":               {options: []hostOption{withPreprovisioning}, want: m{PreprovisioningNetworkData: "pre"}},
		"no need of fallback":    {options: []hostOption{withConfig, withPreprovisioning}, want: m{UserData: "user", MetaData: "meta", NetworkData: "net"}},
		"reference without name": {options: []hostOption{func(h *metal3.BareMetalHost) { h.Spec.UserData = secretRef("") }}, want: m{}},
		"fallback for a reference without name": {
			options: []hostOption{withPreprovisioning, func(h *metal3.BareMetalHost) { h.Spec.NetworkData = secretRef("") }},
			want:    m{PreprovisioningNetworkData: "pre"},
		},
		"live ISO": {options: []hostOption{withConfig, live}},
		"custom deploy of an ISO": {
			options: []hostOption{withConfig, live, wantsMethod("a")},
			want:    m{UserData: "user", MetaData: "meta", NetworkData: "net"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, ConfigSecrets(newHost(test.options...))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestConfigDrive(t *testing.T) {
	type m = map[string]any
	defaults := func(more m) m {
		meta := m{
			"uuid": "0a1b", "metal3-namespace": "metal", "metal3-name": "host-1",
			"local-hostname": "host-1", "local_hostname": "host-1", "name": "host-1",
		}
		for key, value := range more {
			meta[key] = value
		}
		return meta
	}
	longKey := strings.Repeat("k", 1025)
	good := ConfigSources{
		UserData:    data("userData", "#cloud-config\n"),
		MetaData:    data("metaData", "name: other\nrole: worker\n"),
		NetworkData: data("networkData", `{"links": [{"id": "eth0", "mtu": 1500}]}`),
	}
	tests := map[string]struct {
		options []hostOption
		sources ConfigSources
		want    m
	}{
		"nothing named": {want: m{"meta_data": defaults(nil)}},
		"all": {
			options: []hostOption{withConfig}, sources: good,
			want: m{
				"user_data":    "#cloud-config\n",
				"meta_data":    defaults(m{"name": "other", "role": "worker"}),
				"network_data": m{"links": []any{m{"id": "eth0", "mtu": json.Number("1500")}}},
			},
		},
		"key value": {
			options: []hostOption{withConfig},
			sources: ConfigSources{UserData: data("value", "u"), MetaData: data("value", "a: b"), NetworkData: data("value", "links: []")},
			want:    m{"user_data": "u", "meta_data": defaults(m{"a": "b"}), "network_data": m{"links": []any{}}},
		},
		"named key goes before value": {
			options: []hostOption{withConfig},
			sources: ConfigSources{
				UserData: data("userData", "u", "value", "no"), MetaData: data("metaData", "a: b", "value", "a: no"), NetworkData: data("networkData", "c: d", "value", "c: no"),
			},
			want: m{"user_data": "u", "meta_data": defaults(m{"a": "b"}), "network_data": m{"c": "d"}},
		},
		"empty values": {
			options: []hostOption{withConfig},
			sources: ConfigSources{UserData: data("userData", ""), MetaData: data("metaData", ""), NetworkData: data("networkData", "")},
			want:    m{"meta_data": defaults(nil)},
		},
		"only comments": {
			options: []hostOption{withConfig},
			sources: ConfigSources{UserData: data("value", "# u"), MetaData: data("value", "# m\n"), NetworkData: data("value", "# n\n---\n")},
			want:    m{"user_data": "# u", "meta_data": defaults(nil)},
		},
		"network data may lack its key": {
			options: []hostOption{withConfig},
			sources: ConfigSources{UserData: good.UserData, MetaData: good.MetaData, NetworkData: data("other", "x: y")},
			want:    m{"user_data": "#cloud-config\n", "meta_data": defaults(m{"name": "other", "role": "worker"})},
		},
		"network data of the ramdisk": {
			options: []hostOption{withPreprovisioning},
			sources: ConfigSources{PreprovisioningNetworkData: data("networkData", "a: b")},
			want:    m{"meta_data": defaults(nil), "network_data": m{"a": "b"}},
		},
		"network data of the ramdisk, under value": {
			options: []hostOption{withPreprovisioning},
			sources: ConfigSources{PreprovisioningNetworkData: data("value", "a: b")},
			want:    m{"meta_data": defaults(nil), "network_data": m{"a": "b"}},
		},
		"own network data instead, even when empty": {
			options: []hostOption{withConfig, withPreprovisioning},
			sources: ConfigSources{UserData: good.UserData, MetaData: data("value", ""), NetworkData: data(), PreprovisioningNetworkData: data("networkData", "a: b")},
			want:    m{"user_data": "#cloud-config\n", "meta_data": defaults(nil)},
		},
		"large numbers, no others": {
			options: []hostOption{withConfig},
			sources: ConfigSources{UserData: good.UserData, MetaData: data("value", "id: 9007199254740993\nlist: [1, 2.5, true, null]\n1: one"), NetworkData: data()},
			want: m{"user_data": "#cloud-config\n", "meta_data": defaults(m{
				"id": json.Number("9007199254740993"), "list": []any{json.Number("1"), json.Number("2.5"), true, nil}, "1": "one",
			})},
		},
		"JSON that is not YAML": {
			options: []hostOption{withConfig},
			sources: ConfigSources{
				UserData:    good.UserData,
				MetaData:    data("value", `{"`+longKey+`": 1, "face": "\ud83d\ude00",`+"\n\t\"a\"\t:\ttrue}\n"),
				NetworkData: data("value", `{"links": [{"`+longKey+`": null}]}`),
			},
			want: m{
				"user_data":    "#cloud-config\n",
				"meta_data":    defaults(m{longKey: json.Number("1"), "face": "\U0001F600", "a": true}),
				"network_data": m{"links": []any{m{longKey: nil}}},
			},
		},
		"numbers of JSON, as they are written": {
			options: []hostOption{withConfig},
			sources: ConfigSources{UserData: good.UserData, MetaData: data("value", `{"id": 123456789012345678901234567890, "half": 0.50, "many": 1e3}`), NetworkData: data()},
			want: m{"user_data": "#cloud-config\n", "meta_data": defaults(m{
				"id": json.Number("123456789012345678901234567890"), "half": json.Number("0.50"), "many": json.Number("1e3"),
			})},
		},
		"a number that would be infinite": {
			options: []hostOption{withConfig},
			sources: ConfigSources{UserData: good.UserData, MetaData: data("value", `{"a": 1e400}`), NetworkData: data("value", "a: 1e400")},
			want:    m{"user_data": "#cloud-config\n", "meta_data": defaults(m{"a": "1e400"}), "network_data": m{"a": "1e400"}},
		},
		"a key that is there twice": {
			options: []hostOption{withConfig},
			sources: ConfigSources{UserData: good.UserData, MetaData: data("value", `{"a": {"b": 1}, "a": {"c": 2}}`), NetworkData: data("value", "a: {b: 1}\na: {c: 2}")},
			want:    m{"user_data": "#cloud-config\n", "meta_data": defaults(m{"a": m{"c": json.Number("2")}}), "network_data": m{"a": m{"c": json.Number("2")}}},
		},
		"the first document": {
			options: []hostOption{withConfig},
			sources: ConfigSources{UserData: good.UserData, MetaData: data("value", "{\"a\": \"b\"}\n---\n{\"a\": \"c\"}\n"), NetworkData: data("value", "a: b\n---\na: c\n")},
			want:    m{"user_data": "#cloud-config\n", "meta_data": defaults(m{"a": "b"}), "network_data": m{"a": "b"}},
		},
		"sources nobody named": {
			sources: ConfigSources{UserData: data("userData", "u"), PreprovisioningNetworkData: data("networkData", "- broken")},
			want:    m{"meta_data": defaults(nil)},
		},
		"live ISO": {options: []hostOption{withConfig, wantsImage(imageURL, withFormat(metal3.LiveISO))}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := ConfigDrive(newHost(test.options...), test.sources)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestConfigDriveErrors(t *testing.T) {
	good := data("value", "a: b")
	tests := map[string]struct {
		options  []hostOption
		sources  ConfigSources
		wantRole ConfigRole
		want     []string
	}{
		"user data without key": {
			sources:  ConfigSources{UserData: data("user-data", "s3cret"), MetaData: good, NetworkData: good},
			wantRole: UserData, want: []string{"Secret metal/user", "neither a key userData nor a key value"},
		},
		"user data of an empty Secret": {
			sources:  ConfigSources{MetaData: good, NetworkData: good},
			wantRole: UserData, want: []string{"Secret metal/user", "neither a key userData nor a key value"},
		},
		"user data that is no text": {
			sources:  ConfigSources{UserData: data("value", "\x1f\x8bs3cret"), MetaData: good, NetworkData: good},
			wantRole: UserData, want: []string{"Secret metal/user", "key value", "UTF-8"},
		},
		"metadata without key": {
			sources:  ConfigSources{UserData: good, MetaData: data("meta", "s3cret"), NetworkData: good},
			wantRole: MetaData, want: []string{"Secret metal/meta", "neither a key metaData nor a key value"},
		},
		"metadata that is a list": {
			sources:  ConfigSources{UserData: good, MetaData: data("metaData", "- s3cret"), NetworkData: good},
			wantRole: MetaData, want: []string{"Secret metal/meta: key metaData is not a YAML or JSON map"},
		},
		"metadata that is a text": {
			sources:  ConfigSources{UserData: good, MetaData: data("value", "s3cret"), NetworkData: good},
			wantRole: MetaData, want: []string{"Secret metal/meta: key value is not a YAML or JSON map"},
		},
		"network data that is broken": {
			sources:  ConfigSources{UserData: good, MetaData: good, NetworkData: data("networkData", "a: b\nlinks: [s3cret\n")},
			wantRole: NetworkData, want: []string{"Secret metal/net: key networkData is not a YAML or JSON map (see line "},
		},
		"network data that is broken and quoted by the parser": {
			sources:  ConfigSources{UserData: good, MetaData: good, NetworkData: data("networkData", "a: *s3cret\n")},
			wantRole: NetworkData, want: []string{"Secret metal/net: key networkData is not a YAML or JSON map"},
		},
		"network data with what JSON does not have": {
			sources:  ConfigSources{UserData: good, MetaData: good, NetworkData: data("networkData", "s3cret: .nan\n")},
			wantRole: NetworkData, want: []string{"Secret metal/net: key networkData is not a YAML or JSON map"},
		},
		"network data of the ramdisk": {
			options:  []hostOption{func(h *metal3.BareMetalHost) { h.Spec.NetworkData = nil }, withPreprovisioning},
			sources:  ConfigSources{UserData: good, MetaData: good, PreprovisioningNetworkData: data("value", "s3cret")},
			wantRole: PreprovisioningNetworkData, want: []string{"Secret metal/pre: key value is not a YAML or JSON map"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			drive, err := ConfigDrive(newHost(append([]hostOption{withConfig}, test.options...)...), test.sources)
			failure := new(ConfigError)
			if !errors.As(err, &failure) {
				t.Fatalf("got %v, error %v", drive, err)
			}
			if failure.Role != test.wantRole {
				t.Errorf("role is %q, want %q", failure.Role, test.wantRole)
			}
			for _, part := range test.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not tell %q", err, part)
				}
			}
			if strings.Contains(err.Error(), "s3cret") {
				t.Errorf("error tells what is in the Secret: %v", err)
			}
		})
	}
}

// A YAML file that doubles itself with every line must fail, and soon.
func TestConfigDriveAliasBomb(t *testing.T) {
	bomb := "a: &a [x, x, x, x, x, x, x, x, x]\n"
	for c := 'b'; c <= 'j'; c++ {
		bomb += strings.ReplaceAll("N: &N [*P, *P, *P, *P, *P, *P, *P, *P, *P]\n", "P", string(c-1))
		bomb = strings.ReplaceAll(bomb, "N", string(c))
	}
	host := newHost(func(h *metal3.BareMetalHost) { h.Spec.NetworkData = secretRef("net") })
	if _, err := ConfigDrive(host, ConfigSources{NetworkData: data("value", bomb)}); err == nil {
		t.Error("no error")
	}
}

// So must one that names a long text often, before it takes the memory.
func TestConfigDriveLongAliases(t *testing.T) {
	host := newHost(func(h *metal3.BareMetalHost) { h.Spec.NetworkData = secretRef("net") })
	text := func(times int) string {
		return "a: &a " + strings.Repeat("x", 50<<10) + "\nb: [" + strings.Repeat("*a,", times) + "]\n"
	}
	if drive, err := ConfigDrive(host, ConfigSources{NetworkData: data("value", text(4))}); err != nil || len(mustJSON(t, drive)["network_data"].(map[string]any)["b"].([]any)) != 4 {
		t.Errorf("some aliases: %v", err)
	}
	_, err := ConfigDrive(host, ConfigSources{NetworkData: data("value", text(100))})
	if err == nil || !strings.Contains(err.Error(), "key value has YAML aliases that expand to more than 1 MiB") {
		t.Errorf("many aliases: %v", err)
	}
}

// Network data of hundreds of interfaces are no trouble, but these have a limit, and so have the meta data.
func TestLargeConfigDrives(t *testing.T) {
	texts := func(n int) map[string][]byte {
		all := map[string]any{}
		for i := range n {
			all[fmt.Sprintf("eth%d", i)] = map[string]any{
				"type": "vlan", "vlan_id": i, "vlan_link": "bond0", "ethernet_mac_address": "52:54:00:aa:bb:cc", "ip_address": "10.11.12.13", "netmask": "255.255.255.0",
				"routes": []any{map[string]any{"network": "0.0.0.0", "netmask": "0.0.0.0", "gateway": "10.11.12.1"}},
			}
		}
		text, err := json.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		return data("value", string(text))
	}
	const tooLong = " KiB as JSON, which is more than the 256 KiB that a config drive takes: large texts belong into the userData"
	for role, test := range map[ConfigRole]struct {
		host *metal3.BareMetalHost
		want string
	}{
		NetworkData: {newHost(func(h *metal3.BareMetalHost) { h.Spec.NetworkData = secretRef("net") }), "Secret metal/net: its networkData has "},
		MetaData:    {newHost(func(h *metal3.BareMetalHost) { h.Spec.MetaData = secretRef("meta") }), "Secret metal/meta: its metaData has "},
	} {
		if _, err := ConfigDrive(test.host, ConfigSources{NetworkData: texts(500), MetaData: texts(500)}); err != nil {
			t.Errorf("%s of 500 interfaces: %v", role, err)
		}
		_, err := ConfigDrive(test.host, ConfigSources{NetworkData: texts(3_000), MetaData: texts(3_000)})
		if err == nil || !strings.HasPrefix(err.Error(), test.want) || !strings.HasSuffix(err.Error(), tooLong) {
			t.Errorf("%s of 3,000 interfaces: %v", role, err)
		}
	}
}

// FuzzConfigDrive: whatever the Secrets hold, nothing panics, what comes out can be
// sent as JSON, and no error quotes them.
func FuzzConfigDrive(f *testing.F) {
	for _, seed := range []string{
		"", "null", "{}", "a: b", `{"a": [1, 2.5, null]}`, "- a", "a: *b", "&a [*a]", "a: {", "? [x]\n: y", "a: .inf", "<<: {a: b}", "!!binary abcd",
		"a: 2001-01-01", "\tx", "a: \"\\xff\"", "---\na: b\n---\nc: d", "\xff\xfe", "a: !!int x", "a: 0x1_0", "a: ~",
	} {
		f.Add([]byte(seed), true)
		f.Add([]byte(seed), false)
	}
	f.Fuzz(func(t *testing.T, text []byte, meta bool) {
		// Every line of the marker's own makes it part of what the parser reads.
		const marker = "zq9xjkw7vb"
		marked := append([]byte(marker+": "+marker+"\n"), text...)
		for _, input := range [][]byte{text, marked, append(text, marker...)} {
			host := newHost(func(h *metal3.BareMetalHost) { h.Spec.NetworkData = secretRef("net") })
			sources := ConfigSources{NetworkData: map[string][]byte{"value": input}, MetaData: map[string][]byte{"value": input}}
			if meta {
				host = newHost(func(h *metal3.BareMetalHost) { h.Spec.MetaData = secretRef("net") })
			}
			drive, err := ConfigDrive(host, sources)
			if err != nil {
				checkConfigError(t, err, marker)
				continue
			}
			sent, err := json.Marshal(drive)
			if err != nil {
				t.Fatalf("cannot be sent: %v", err)
			}
			if len(sent) > 10*maxExpanded {
				t.Errorf("%d bytes have become %d", len(input), len(sent))
			}
			// What was understood is understood just so when it is written as JSON.
			part := map[bool]string{false: "network_data", true: "meta_data"}[meta]
			if drive[part] == nil {
				continue
			}
			written, err := json.Marshal(drive[part])
			if err != nil {
				t.Fatal(err)
			}
			sources.NetworkData["value"], sources.MetaData["value"] = written, written
			again, err := ConfigDrive(host, sources)
			if err != nil {
				t.Fatalf("%s, written by us: %v", written, err)
			}
			if diff := cmp.Diff(drive, again); diff != "" {
				t.Errorf("(-once +twice):\n%s", diff)
			}
		}
	})
}

func checkConfigError(t *testing.T, err error, marker string) {
	t.Helper()
	rest, ok := strings.CutPrefix(err.Error(), "Secret metal/net: key value is not ")
	if !ok || strings.Contains(rest, marker) {
		t.Errorf("unexpected error: %v", err)
	}
	rest = strings.TrimPrefix(rest, "a YAML or JSON map")
	if rest != "" && !strings.HasPrefix(rest, " (see line ") && !strings.HasPrefix(rest, "UTF-8 text") {
		t.Errorf("unexpected error: %v", err)
	}
}
