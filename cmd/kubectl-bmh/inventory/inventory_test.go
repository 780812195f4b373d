// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

func noPasswordFile(name string) (string, error) { return "", errors.New(name + ": no such file") }

// read reads and prepares an inventory, and returns the names of the hosts and the mistakes.
func read(t *testing.T, text string) (names, mistakes []string, objects []Objects) {
	t.Helper()
	entries, wrong, err := Read([]byte(text), "metal3")
	if err != nil {
		t.Fatal(err)
	}
	objects, more := Prepare(entries, Credentials{}, "metal3", noPasswordFile)
	wrong = append(wrong, more...)
	slices.SortStableFunc(wrong, func(a, b *LineError) int { return cmp.Compare(a.Line, b.Line) })
	for _, m := range wrong {
		mistakes = append(mistakes, m.Error())
	}
	for _, o := range objects {
		names = append(names, o.Host.Name)
	}
	return names, mistakes, objects
}

// TestBadLines: a line with a mistake is reported with its number, and the others are read.
func TestBadLines(t *testing.T) {
	for name, c := range map[string]struct {
		text     string
		names    []string
		mistakes []string // parts of them
	}{
		"a quote that is not closed": {
			"name,address,username,password\nw-0,ipmi://192.0.2.1,admin,\"pw\nw-1,ipmi://192.0.2.2,admin,pw\n",
			[]string{"w-1"}, []string{`line 2: a " is not closed`},
		},
		"too many values": {
			"name,address,username,password\nw-0,ipmi://192.0.2.1,admin,p,w\n",
			nil, []string{"line 2: it has a value in column 5"},
		},
		"missing values": {
			"name,address,username,password\nw-0\n,ipmi://192.0.2.1,admin,pw\n",
			nil, []string{"line 2: w-0: it has no address of a BMC", "line 3: it has no name"},
		},
		"twice": {
			"name,address,username,password,mac\nw-0,ipmi://192.0.2.1,a,p,00:00:5e:00:53:aa\nw-0,ipmi://192.0.2.2,a,p,\nw-1,ipmi://192.0.2.1,a,p,\nw-2,ipmi://192.0.2.3,a,p,00:00:5E:00:53:AA\n",
			[]string{"w-0"}, []string{"line 3: w-0: it has the same name as w-0 in line 2", "line 4: w-1: it has the same BMC as w-0 in line 2", "line 5: w-2: it has the same bootMACAddress as w-0 in line 2"},
		},
		"the rules of the server": {
			"name,address,username,password,mac\nW 0,ipmi://192.0.2.1,a,p,\nw-1,ilo4://192.0.2.2,a,p,\nw-2,ipmi://192.0.2.3,a,p,nonsense\n",
			nil, []string{"line 2: W 0: ", "line 3: w-1: spec.bmc.address", "line 4: w-2: bootMACAddress: is not a MAC"},
		},
		"a heading that is a comment": {
			"# xCAT\n#node,bmc,username,password\n\"w-0\",\"192.0.2.1\",\"admin\",\"pw\"\n#w-1,192.0.2.2,admin,pw\n\"w-2\",\"\",\"admin\",\"pw\"\n",
			[]string{"w-0"}, []string{"line 5: w-2: it has no address"},
		},
		"a former heading in a comment": {
			"#name,bmc,password,username\nname,bmc,username,password\nw-0,192.0.2.1,admin,pw\n",
			[]string{"w-0"}, nil,
		},
		"a column that is of Redfish": {
			"name,iDRAC IP,username,password\nw-0,192.0.2.1,a,p\nw-1,192.0.2.2:443,a,p\nw-2,idrac-virtualmedia://192.0.2.3,a,p\nw-3,ipmi://192.0.2.4,a,p\nw-4,redfish:192.0.2.5,a,p\nw-5,idrac-virtualmedia:192.0.2.256,a,p\n",
			[]string{"w-2", "w-3", "w-4"}, []string{"line 2: w-0: address: has no scheme", "line 3: w-1: address: has no scheme", "line 7: w-5: spec.bmc.address"},
		},
		"values of other types": {
			"name,address,username,password,online,labels\nw-0,ipmi://192.0.2.1,a,p,perhaps,\nw-1,ipmi://192.0.2.2,a,p,,rack\n",
			nil, []string{"line 2: w-0: online: must be true or false", "line 3: w-1: labels: must be pairs"},
		},
		"credentials": {
			"name,address,username,password,passwordFile,credentialsName\nw-0,ipmi://192.0.2.1,,p,,\nw-1,ipmi://192.0.2.2,a,,,\nw-2,ipmi://192.0.2.3,a,p,f,\nw-3,ipmi://192.0.2.4,a,,missing,\nw-4,ipmi://192.0.2.5,a,p,,s\nw-5,ipmi://192.0.2.6,,,,s\n",
			[]string{"w-5"}, []string{"line 2: w-0: it has no user name", "line 3: w-1: it has no password", "line 4: w-2: it has both", "line 5: w-3: ", "line 6: w-4: credentialsName"},
		},
		"spreadsheets": {
			"\ufeffName;BMC;User;Password;Boot MAC Address;Labels\r\n\r\n# a comment; with separators\r\nw-0;ipmi://192.0.2.1;admin;pw;00:00:5e:00:53:01;\"rack=7;row=b\"\r\n",
			[]string{"w-0"}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			names, mistakes, _ := read(t, c.text)
			if diff := gocmp.Diff(c.names, names); diff != "" {
				t.Errorf("hosts: %s", diff)
			}
			if len(mistakes) != len(c.mistakes) {
				t.Fatalf("mistakes are %q, want %q", mistakes, c.mistakes)
			}
			for i, want := range c.mistakes {
				if !strings.HasPrefix(mistakes[i], want) {
					t.Errorf("mistake is %q, want %q", mistakes[i], want)
				}
			}
		})
	}
}

// TestSchemesOfColumns: a column whose name is of Redfish makes no host with IPMI of an IP address. Other columns do.
func TestSchemesOfColumns(t *testing.T) {
	for column, refused := range map[string]bool{
		"Redfish Address": true, "redfish_url": true, "iDRAC": true, "iDRAC IP": true, "iLO": true, "ilo_ip": true,
		"iLO5 Hostname": true, "Address (iDRAC9)": true, "DRAC IP": true, "OOB IP": true, "out-of-band IP": true, "OOB Management IP": true, "mgmt_ip": true,
		"Management Address": true, "IMM": true, "XCC IP": true, "CIMC_IP_Address": true, "iRMC": true, "IP iRMC": true, "BMC/iDRAC IP": true,
		"address": false, "BMC IP": false, "IPMI address": false, "IPMI/BMC IP": false, "BMC Hostname": false, "ipmi_addr": false,
	} {
		for _, text := range []string{
			"name," + column + ",username,password\nw-0,192.0.2.1,a,p\n",
			"- {name: w-0, " + column + ": 192.0.2.1, username: a, password: p}\n",
		} {
			names, mistakes, _ := read(t, text)
			if got := len(names) == 0; got != refused || refused && !strings.Contains(mistakes[0], "would be an address of IPMI: write redfish://") {
				t.Errorf("%q: hosts %q, mistakes %q", text, names, mistakes)
			}
		}
	}
}

// TestColumnsOfBMCs: user name and password are known by the name of the BMC before or behind them.
func TestColumnsOfBMCs(t *testing.T) {
	for _, pair := range [][2]string{
		{"iDRAC User", "iDRAC Password"}, {"iLO Username", "iLO Passwd"}, {"ipmi_userid", "ipmi_pw"}, {"BMC Login", "BMC Pwd"}, {"OOB user", "OOB pass"},
		{"Management Username", "Management Password"}, {"mgmt-user", "mgmt-password"}, {"IMM UserID", "IMM Password"}, {"XCC2 User Name", "XCC2 Password"},
		{"CIMC User", "CIMC Password"}, {"Username (iDRAC9)", "Password (iDRAC9)"}, {"iDRAC/iLO user", "iDRAC/iLO password"}, {"redfish_username", "redfish_password"},
		{"User ID", "PWD"},
	} {
		names, mistakes, objects := read(t, "name,address,"+pair[0]+","+pair[1]+"\nw-0,ipmi://192.0.2.1,a,p\n")
		if len(names) != 1 || len(mistakes) > 0 {
			t.Errorf("%q: hosts %q, mistakes %q", pair, names, mistakes)
		} else if data := objects[0].Secrets[0].Data; string(data["username"]) != "a" || string(data["password"]) != "p" {
			t.Errorf("%q: %q", pair, data)
		}
	}
	for _, name := range []string{"BMC MAC", "iLO Name", "IPMI port", "user password", "management VLAN", "bmcs", "iDRAC password 2"} {
		if field, err := fieldByName(name); err == nil {
			t.Errorf("%q is taken for %s", name, field.Name)
		}
	}
}

func TestYAML(t *testing.T) {
	names, mistakes, objects := read(t, `
hosts:
- name: w-0
  address: ipmi://192.0.2.1
  username: admin
  password: 0123
  labels: {rack: 7}
  online: false
- just text
- name: w-1
  adress: ipmi://192.0.2.2
- name: w-2
  name: w-3
- name: w-4
  address: [a, b]
---
- name: w-5
  address: ipmi://192.0.2.5
  username: admin
  password: ~
`)
	if diff := gocmp.Diff([]string{"w-0"}, names); diff != "" {
		t.Error(diff)
	}
	want := []string{"line 9: must have keys", `line 10: w-1: "adress": there is no such field`, "line 12: w-2: name is there twice", "line 14: w-4: address: must be a single value", "line 17: w-5: it has no password"}
	if len(mistakes) != len(want) {
		t.Fatalf("mistakes are %q", mistakes)
	}
	for i := range want {
		if !strings.HasPrefix(mistakes[i], want[i]) {
			t.Errorf("mistake is %q, want %q", mistakes[i], want[i])
		}
	}
	if got := string(objects[0].Secrets[0].Data["password"]); got != "0123" {
		t.Errorf("the password is %q: it was taken for a number", got)
	}
	if host := objects[0].Host; host.Labels["rack"] != "7" || host.Spec.Online {
		t.Errorf("labels %v, online %t", host.Labels, host.Spec.Online)
	}
}

// TestForeignList: a list that some other program has written is not complained of key by key.
func TestForeignList(t *testing.T) {
	_, mistakes, _ := read(t, "- {name: w-0, site: a, rack: b, position: c, face: d, airflow: e, status: f}\n- {name: w-1, site: a, rack: b, adress: c}\n")
	want := []string{
		"line 1: w-0: 6 of its 7 keys are no fields, so that this is hardly a list for this command; kubectl bmh create --help lists the fields",
		`line 2: w-1: "site": there is no such field`,
	}
	if len(mistakes) != 2 || mistakes[0] != want[0] || !strings.HasPrefix(mistakes[1], want[1]) || !strings.Contains(mistakes[1], `"adress"`) {
		t.Errorf("mistakes are %q, want %q", mistakes, want)
	}
}

func TestObjects(t *testing.T) {
	entries, _, err := Read([]byte("name,namespace,address,passwordFile,image,imageChecksum,imageFormat,rootDevice\nw-0,other,ipmi://192.0.2.1,pw,http://images/x.raw,abc,raw,/dev/sda\nw-1,,ipmi://192.0.2.2,,,,,\n"), "metal3")
	if err != nil {
		t.Fatal(err)
	}
	objects, mistakes := Prepare(entries, Credentials{Username: "root", Password: "common"}, "metal3", func(name string) (string, error) { return "from the file " + name, nil })
	if len(mistakes) > 0 {
		t.Fatal(mistakes)
	}
	first, second := objects[0], objects[1]
	if got := string(first.Secrets[0].Data["username"]) + "/" + string(first.Secrets[0].Data["password"]); got != "root/from the file pw" {
		t.Errorf("the credentials are %q", got)
	}
	if got := string(second.Secrets[0].Data["password"]); got != "common" {
		t.Errorf("the password is %q", got)
	}
	if first.Host.Namespace != "other" || first.Secrets[0].Namespace != "other" || second.Host.Namespace != "metal3" {
		t.Error("the namespaces are wrong")
	}
	if first.Secrets[0].Name != "w-0-bmc-secret" || first.Host.Spec.BMC.CredentialsName != first.Secrets[0].Name {
		t.Errorf("the Secret is %s, the host refers to %s", first.Secrets[0].Name, first.Host.Spec.BMC.CredentialsName)
	}
	raw := metal3.Raw
	want := metal3.BareMetalHostSpec{
		Online: true, BMC: metal3.BMCDetails{Address: "ipmi://192.0.2.1", CredentialsName: "w-0-bmc-secret"},
		Image: &metal3.Image{URL: "http://images/x.raw", Checksum: "abc", DiskFormat: &raw}, RootDeviceHints: &metal3.RootDeviceHints{DeviceName: "/dev/sda"},
	}
	if diff := gocmp.Diff(want, first.Host.Spec); diff != "" {
		t.Error(diff)
	}
}

// TestMany: hundreds of lines with one mistake are all read but one.
func TestMany(t *testing.T) {
	var b strings.Builder
	b.WriteString("name,address,username,password\n")
	for i := range 500 {
		address := fmt.Sprintf("ipmi://192.0.2.%d:%d", i%250, 6000+i)
		if i == 300 {
			address = "ipmi://[bad"
		}
		fmt.Fprintf(&b, "w-%d,%s,admin,pw\n", i, address)
	}
	names, mistakes, _ := read(t, b.String())
	if len(names) != 499 || len(mistakes) != 1 || !strings.HasPrefix(mistakes[0], "line 302: w-300: ") {
		t.Errorf("%d hosts, mistakes %q", len(names), mistakes)
	}
}
