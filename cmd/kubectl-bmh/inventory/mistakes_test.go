// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
)

const manifestHost = "apiVersion: metal3.io/v1alpha1\nkind: BareMetalHost\nmetadata: {name: h}\nspec: {bmc: {address: \"ipmi://192.0.2.1\", credentialsName: s}}\n"

// oneNode is a list of one node of Ironic, with a root device hint.
func oneNode(hint string) string {
	return `{"nodes": [{"name": "n", "driver": "ipmi", "driver_info": {"ipmi_address": "192.0.2.1", "ipmi_username": "a", "ipmi_password": "p"}, "properties": {"root_device": {` + hint + `}}}]}`
}

// TestMistakes: what is wrong in a file is told with its line, whatever the format.
func TestMistakes(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		hosts int
		want  []string // the beginnings of the mistakes
	}{
		"a broken document": {"a: [\n---\n" + manifestHost, 1, []string{"line 1: this is not valid YAML"}},
		"a broken one in the middle": {manifestHost + "---\nkind: x\n bad: y\n---\n" + strings.ReplaceAll(strings.ReplaceAll(manifestHost, "name: h", "name: i"), "2.1", "2.2"), 2,
			[]string{"line 7: this is not valid YAML"}},
		"other objects": {manifestHost + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n", 1, []string{"line 6: ConfigMap c is left out"}},
		"a list in a list": {"apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: List, items: []}\n- " + strings.ReplaceAll(strings.TrimSpace(manifestHost), "\n", "\n  "), 1,
			[]string{"line 4: List is left out"}},
		"a Secret that is not used":        {manifestHost + "---\napiVersion: v1\nkind: Secret\nmetadata: {name: other}\n", 1, []string{"line 6: Secret other is left out"}},
		"a Secret of another namespace":    {"apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: n}\n---\n" + manifestHost, 1, []string{"line 1: Secret s is left out, because no BareMetalHost of namespace n"}},
		"a Secret without a password":      {"apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {username: a}\n---\n" + manifestHost, 0, []string{"line 6: h: its Secret s (line 1): it has no password"}},
		"a Secret in UTF-16":               {"apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {username: YQ==, password: //5wAHcADQAKAA==}\n---\n" + manifestHost, 0, []string{"line 6: h: its Secret s (line 1): its password is text in UTF-16"}},
		"a password of two lines":          {"- {name: a, address: 192.0.2.1, username: u, password: \"p\\nq\"}\n", 0, []string{"line 1: a: its password has a line break"}},
		"a Secret that is not base64":      {"apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {username: YQ==, password: ab!}\n---\n" + manifestHost, 0, []string{"line 6: h: its Secret s (line 1): data.password: is not in base64"}},
		"a Secret twice":                   {"apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\n---\n" + manifestHost, 0, []string{"line 9: h: its Secret s (line 1): it is there again in line 5"}},
		"an encrypted Secret":              {manifestHost + "---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\nsops: {}\n", 0, []string{"line 1: h: its Secret s (line 6): is encrypted by SOPS"}},
		"unknown fields of a host":         {strings.Replace(manifestHost, "spec: {", "spec: {onlin: true, ", 1), 0, []string{`line 1: h: spec: unknown field "onlin"`}},
		"a field of a host of other type":  {strings.Replace(manifestHost, "spec: {", "spec: {bootMACAddress: 5, ", 1), 0, []string{"line 1: h: spec: bootMACAddress: must be a string, and not a number"}},
		"a fraction for a whole number":    {strings.Replace(manifestHost, "spec: {", "spec: {rootDeviceHints: {minSizeGigabytes: 1.5}, ", 1), 0, []string{"line 1: h: spec: rootDeviceHints.minSizeGigabytes: must be a whole number, and not too large"}},
		"a list for a number":              {strings.Replace(manifestHost, "spec: {", "spec: {rootDeviceHints: {minSizeGigabytes: [1]}, ", 1), 0, []string{"line 1: h: spec: rootDeviceHints.minSizeGigabytes: must be a whole number, and not a list"}},
		"a number for an enumerated value": {strings.Replace(manifestHost, "spec: {", "spec: {bootMode: 5, ", 1), 0, []string{"line 1: h: spec: bootMode: must be a string, and not a number"}},
		"text for true or false":           {strings.Replace(manifestHost, "spec: {", "spec: {rootDeviceHints: {rotational: [x]}, ", 1), 0, []string{"line 1: h: spec: rootDeviceHints.rotational: must be true or false, and not a list"}},
		"a host without an apiVersion":     {manifestHost + "---\nkind: BareMetalHost\nmetadata: {name: g}\n", 1, []string{"line 6: g: it has no kind or no apiVersion"}},
		"a list for the spec":              {"apiVersion: metal3.io/v1alpha1\nkind: BareMetalHost\nmetadata: {name: h}\nspec: [a]\n", 0, []string{"line 1: h: spec: must be a mapping, and not a list"}},
		"a mapping for a list":             {strings.Replace(manifestHost, "spec: {", "spec: {taints: {a: b}, ", 1), 0, []string{"line 1: h: spec: taints: must be a list, and not a mapping"}},
		"a list for a mapping":             {strings.Replace(manifestHost, "spec: {", "spec: {image: [a], ", 1), 0, []string{"line 1: h: spec: image: must be a mapping, and not a list"}},
		"an array that contains itself":    {"&a\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: c}}\n- {apiVersion: metal3.io/v1alpha1, kind: BareMetalHost, metadata: {name: h}, spec: {bmc: {address: \"ipmi://192.0.2.1\", credentialsName: s}}}\n- *a\n", 1, []string{"line 1: it has no kind or no apiVersion", "line 2: ConfigMap c is left out"}},
		"a host without metadata":          {strings.Replace(manifestHost, "metadata: {name: h}", "", 1), 0, []string{"line 1: it has no metadata"}},
		"a host without credentials":       {strings.Replace(manifestHost, ", credentialsName: s", "", 1), 0, []string{"line 1: h: it has no user name"}},
		"two names of one BMC":             {"name,address,username,password\na,ipmi://192.0.2.1:623,u,p\nb,192.0.2.1,u,p\n", 1, []string{"line 3: b: it has the same BMC as a in line 2"}},
		"a MAC in two spellings":           {"name,address,username,password,mac\na,192.0.2.1,u,p,00005E005301\nb,192.0.2.2,u,p,00:00:5e:00:53:01\n", 1, []string{"line 3: b: it has the same bootMACAddress as a in line 2"}},
		"a MAC that became a number":       {"name,address,username,password,mac\na,192.0.2.1,u,p,5.00E+09\n", 0, []string{"line 2: a: bootMACAddress: is not a MAC address"}},
		"no driver":                        {`{"nodes": [{"name": "n"}]}`, 0, []string{"line 1: n: it has no driver"}},
		"a driver without hosts":           {`{"nodes": [{"name": "n", "driver": "snmp"}]}`, 0, []string{`line 1: n: the driver "snmp" is none`}},
		"a driver without an address":      {"{\"nodes\": [\n{\"name\": \"n\", \"driver\": \"redfish\"}]}", 0, []string{"line 2: n: driver_info.redfish_address is missing"}},
		"what no host can have":            {`{"nodes": [{"name": "n", "driver": "ipmi", "driver_info": {"ipmi_address": "192.0.2.1", "ipmi_cipher_suite": 3}}]}`, 0, []string{`line 1: n: driver_info: "ipmi_cipher_suite": no host can have this`}},
		"a size that is equal":             {oneNode(`"size": 480`), 0, []string{"line 1: n: properties: root_device: size: a host can only have the least size"}},
		"a model that is equal":            {oneNode(`"model": "SSD 1"`), 0, []string{"line 1: n: properties: root_device: model: Ironic compares it in another way"}},
		"a serial number of several":       {oneNode(`"serial": "<or> a <or> b"`), 0, []string{`line 1: n: properties: root_device: serial: a host can only have the value that the disk has, and no "<or>"`}},
		"two names of a disk":              {oneNode(`"name": "/dev/sda", "by_path": "/dev/disk/by-path/a"`), 0, []string{"line 1: n: properties: root_device: by_path: a host can have only one name of a disk"}},
		"a size that is none":              {oneNode(`"size": ">= much"`), 0, []string{"line 1: n: properties: root_device: size: must be >= and a number of GiB"}},
		"a merge of what is no mapping":    {"- {name: a, address: 192.0.2.1, username: u, password: p, <<: 7}\n", 0, []string{`line 1: a: "<<": there is no such field`}},
		"a merge of itself":                {"apiVersion: metal3.io/v1alpha1\nkind: BareMetalHost\nmetadata: {name: h}\nspec: &s {bmc: {address: \"ipmi://192.0.2.1\", credentialsName: s}, raid: {<<: *s}}\n", 0, []string{"line 1: h: spec: "}},
		"a CA of a node":                   {`{"nodes": [{"name": "n", "driver": "redfish", "driver_info": {"redfish_address": "192.0.2.1", "redfish_verify_ca": "/ca"}}]}`, 0, []string{"line 1: n: redfish_verify_ca must be"}},
		"ports that are no list":           {`{"nodes": [{"name": "n", "driver": "ipmi", "driver_info": {"ipmi_address": "192.0.2.1"}, "ports": 7}]}`, 0, []string{"line 1: n: ports: must be a list"}},
		"the network of an install-config": {"platform: {baremetal: {hosts: [{name: n, bmc: {address: 192.0.2.1, username: u, password: p}, networkConfig: {a: b}}]}}", 0, []string{"line 1: n: networkConfig: remove it"}},
		"a hardware profile":               {"platform: {baremetal: {hosts: [{name: n, hardwareProfile: dell, bmc: {address: 192.0.2.1, username: u, password: p}}]}}", 0, []string{"line 1: n: hardwareProfile: is deprecated"}},
		"many mistakes in one line":        {"- {name: a, online: 7x, labels: x, mac: y}\n", 0, []string{"line 1: a: online: must be true or false; labels: must be pairs such as rack=7,row=b; bootMACAddress: is not"}},
	} {
		t.Run(name, func(t *testing.T) {
			names, mistakes, _ := read(t, c.text)
			if len(names) != c.hosts {
				t.Errorf("hosts %q, want %d", names, c.hosts)
			}
			if len(mistakes) != len(c.want) {
				t.Fatalf("mistakes %q, want %q", mistakes, c.want)
			}
			for i, want := range c.want {
				if !strings.HasPrefix(mistakes[i], want) {
					t.Errorf("mistake %q, want %q", mistakes[i], want)
				}
			}
		})
	}
}

// oddPasswords are such that YAML, JSON or CSV takes them for something else if they have no quotes.
var oddPasswords = []string{`*hunter2`, `&hunter2`, `!hunter2 x`, `@hunter2`, "`hunter2`", `%hunter2`, `"hunter2`, `'hunter2`, `{hunter2`, `[hunter2`, `hunter2: x`, `|hunter2`, `>hunter2`, `? hunter2`, `hunter2\q`, "hunter2\tx", `"a"hunter2`, `hunter2,hunter2`, `hunter2;x`, `<<hunter2`}

// TestPasswordsAreNotInErrors: whatever is wrong with a file or a line, no password is shown.
func TestPasswordsAreNotInErrors(t *testing.T) {
	for _, password := range oddPasswords {
		for name, text := range map[string]string{
			"csv":             "name,address,username,password\nw-0,nonsense://x,admin," + password + "\n",
			"slipped columns": "name,address,username,password,mac,online,labels\nw-0,ipmi://192.0.2.1,admin,," + password + "," + password + "," + password + "\n",
			"columns of BMCs": "name,iDRAC IP,iDRAC User,iDRAC Password\nw-0,nonsense://x,admin," + password + "\n",
			"name at the end": "username,password,name,address\nadmin," + password + ",hunter2,w-0,ipmi://192.0.2.1\n",
			"more columns":    "name,address,username,password\nw-0,ipmi://192.0.2.1,x,admin," + password + "\n",
			"no heading":      password + ",ipmi://192.0.2.1,admin,w-0\n",
			"two passwords":   "name,address,username,password,passwordFile\nw-0,ipmi://192.0.2.1,admin," + password + ",f\n",
			"yaml":            "- name: w-0\n  address: nonsense://x\n  username: admin\n  password: " + password + "\n",
			"yaml map":        "name: w-0\nadress: x\npassword: [" + password + "]\n",
			"json":            `{"hosts": [{"name": "w-0", "adress": "x", "password": "` + password + `"}]}`,
			"cut off":         `{"hosts": [{"name": "w-0", "adress": "x", "password": "` + password,
			"stringData":      "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData:\n  password: " + password + "\n---\n" + manifestHost,
			"data":            "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata:\n  password: " + password + "\n---\n" + manifestHost,
			"secrets only":    "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData:\n  password: " + password + "\n",
			"node":            `{"nodes": [{"name": "n", "driver": "snmp", "driver_info": {"password": "` + password + `"}}]}`,
			"install-config":  "platform:\n  baremetal:\n    hosts:\n    - name: n\n      bmc:\n        address: nonsense://x\n        username: u\n        password: " + password + "\n",
			"unknown":         "site: x\nbmcs:\n- password: " + password + "\n",
			"text":            password,
		} {
			entries, wrong, err := Read([]byte(text), "metal3")
			_, more := Prepare(entries, Credentials{}, "metal3", noPasswordFile)
			var texts []string
			if err != nil {
				texts = append(texts, err.Error())
			}
			for _, mistake := range append(wrong, more...) {
				texts = append(texts, mistake.Error())
			}
			if len(texts) == 0 {
				t.Errorf("%s with %q: there is no mistake", name, password)
			}
			if all := strings.Join(texts, "\n"); strings.Contains(all, "hunter2") {
				t.Errorf("%s with %q: %s", name, password, all)
			}
		}
	}
}

// TestSlippedPasswords: whichever column a password has slipped into, no message has it. What is in the column of the name is told.
func TestSlippedPasswords(t *testing.T) {
	noFile := func(name string) (string, error) { _, err := os.ReadFile(name); return "", err }
	columns := []string{"iDRAC IP", "BMC IP"}
	for _, f := range Fields {
		columns = append(columns, f.Name)
	}
	for _, column := range columns {
		if column == "name" {
			continue
		}
		for _, password := range append(oddPasswords, "hunter2", "hunter2!", "hunter2 x", "hunter2/x", "hunter2%zz", "[hunter2", strings.Repeat("hunter2", 14)) {
			values := map[string]string{"name": "w-0", "address": "ipmi://192.0.2.1", "username": "a", "password": "b"}
			field, err := fieldByName(column)
			if err != nil {
				t.Fatal(err)
			}
			delete(values, field.Name)
			if column == "passwordFile" {
				delete(values, "password")
			}
			heading, row := column, `"`+strings.ReplaceAll(password, `"`, `""`)+`"`
			for name, value := range values {
				heading, row = heading+";"+name, row+";"+value
			}
			entries, mistakes, err := Read([]byte(heading+"\n"+row+"\n"), "metal3")
			_, more := Prepare(entries, Credentials{}, "metal3", noFile)
			for _, mistake := range append(mistakes, more...) {
				err = errors.Join(err, mistake)
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%q in column %s: %v", password, column, err)
			}
		}
	}
}

// TestAddressesAreTold: an address that cannot be a password is repeated, so that it can be found.
func TestAddressesAreTold(t *testing.T) {
	_, mistakes, _ := read(t, "name,address,username,password\nw-0,ilo4://192.0.2.1,a,p\nw-1,192.0.2.256,a,p\n")
	want := []string{`line 2: w-0: spec.bmc.address: Invalid value: BMC address "ilo4://192.0.2.1": unknown type`, "line 3: w-1: spec.bmc.address: Invalid value: has no scheme, such as redfish://, and is none of IPMI"}
	if len(mistakes) != 2 || !strings.HasPrefix(mistakes[0], want[0]) || !strings.HasPrefix(mistakes[1], want[1]) {
		t.Errorf("mistakes %q, want %q", mistakes, want)
	}
}

// TestOddPasswordsAreKept: in quotes, each password is taken as it is, by each format.
func TestOddPasswordsAreKept(t *testing.T) {
	for _, password := range append(oddPasswords, " with spaces ", "päss\u00a0", "0123", "1e3", "~", "null", "yes", "#x", "\\") {
		asCSV := `"` + strings.ReplaceAll(password, `"`, `""`) + `"`
		asJSON, err := json.Marshal(password)
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{
			"csv":        "name;address;username;password\nh;ipmi://192.0.2.1;admin;" + asCSV + "\n",
			"json":       `[{"name":"h","address":"ipmi://192.0.2.1","username":"admin","password":` + string(asJSON) + "}]",
			"yaml":       "- name: h\n  address: ipmi://192.0.2.1\n  username: admin\n  password: " + string(asJSON) + "\n",
			"stringData": "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {username: a, password: " + string(asJSON) + "}\n---\n" + manifestHost,
			"data":       "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {username: YQ==, password: " + base64.StdEncoding.EncodeToString([]byte(password)) + "}\n---\n" + manifestHost,
		} {
			_, mistakes, objects := read(t, text)
			if len(mistakes) > 0 || len(objects) != 1 {
				t.Errorf("%s with %q: mistakes %q", name, password, mistakes)
			} else if got := string(objects[0].Secrets[0].Data["password"]); got != password {
				t.Errorf("%s with %q: the password is %q", name, password, got)
			}
		}
	}
}

func TestCleanMAC(t *testing.T) {
	for value, want := range map[string]string{
		"00:00:5e:00:53:01": "00:00:5e:00:53:01", "00:00:5E:00:53:01": "00:00:5E:00:53:01", "00-00-5E-00-53-01": "00:00:5e:00:53:01",
		"0000.5e00.5301": "00:00:5e:00:53:01", "00005E005301": "00:00:5e:00:53:01", "0:0:5e:0:53:1": "00:00:5e:00:53:01", "00 00 5e 00 53 01": "00:00:5e:00:53:01",
		"00005e-005301": "00:00:5e:00:53:01", "": "", "5E005301": "", "00:00:5e:00:53:0g": "", "00:00:5e:00:53:01:02": "", "nonsense": "", ":::::": "",
	} {
		if got, err := cleanMAC(value); got != want || (err == nil) != (want != "") {
			t.Errorf("%q is %q %v, want %q", value, got, err, want)
		}
	}
}
