package inventory

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// read reads and prepares an inventory, and returns the names of the hosts and the mistakes.
func read(t *testing.T, text, fileName string) (names, mistakes []string, objects []Objects) {
	t.Helper()
	entries, wrong, err := Read(strings.NewReader(text), fileName)
	if err != nil {
		t.Fatal(err)
	}
	objects, more := Prepare(entries, Credentials{}, "metal3", t.TempDir())
	for _, m := range append(wrong, more...) {
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
			[]string{"w-1"}, []string{`line 2: extraneous or missing " in quoted-field`},
		},
		"too many values": {
			"name,address,username,password\nw-0,ipmi://192.0.2.1,admin,p,w\n",
			nil, []string{"line 2: w-0: it has 5 values, and the heading 4"},
		},
		"missing values": {
			"name,address,username,password\nw-0\n,ipmi://192.0.2.1,admin,pw\n",
			nil, []string{"line 2: w-0: it has no address of a BMC", "line 3: it has no name"},
		},
		"twice": {
			"name,address,username,password,mac\nw-0,ipmi://192.0.2.1,a,p,00:00:5e:00:53:aa\nw-0,ipmi://192.0.2.2,a,p,\nw-1,ipmi://192.0.2.1,a,p,\nw-2,ipmi://192.0.2.3,a,p,00:00:5E:00:53:AA\n",
			[]string{"w-0"}, []string{"line 3: w-0: it has the same name as line 2", "line 4: w-1: it has the same address as line 2", "line 5: w-2: it has the same bootMACAddress as line 2"},
		},
		"the rules of the server": {
			"name,address,username,password,mac\nW 0,ipmi://192.0.2.1,a,p,\nw-1,ilo4://192.0.2.2,a,p,\nw-2,ipmi://192.0.2.3,a,p,nonsense\n",
			nil, []string{"line 2: W 0: ", "line 3: w-1: spec.bmc.address", "line 4: w-2: spec.bootMACAddress"},
		},
		"values of other types": {
			"name,address,username,password,online,labels\nw-0,ipmi://192.0.2.1,a,p,perhaps,\nw-1,ipmi://192.0.2.2,a,p,,rack\n",
			nil, []string{`line 2: w-0: online: must be true or false, not "perhaps"`, "line 3: w-1: labels: must be pairs"},
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
			names, mistakes, _ := read(t, c.text, "inventory.csv")
			if diff := cmp.Diff(c.names, names); diff != "" {
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
`, "-")
	if diff := cmp.Diff([]string{"w-0"}, names); diff != "" {
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
	if got := string(objects[0].Secret.Data["password"]); got != "0123" {
		t.Errorf("the password is %q: it was taken for a number", got)
	}
	if host := objects[0].Host; host.Labels["rack"] != "7" || host.Spec.Online {
		t.Errorf("labels %v, online %t", host.Labels, host.Spec.Online)
	}
}

// TestUnusable: of these inventories, nothing can be used.
func TestUnusable(t *testing.T) {
	for name, c := range map[string]struct{ text, fileName, want string }{
		"empty":           {"\n# nothing\n", "x.csv", "the inventory is empty"},
		"empty YAML":      {"---\n", "x.yaml", "the inventory is empty"},
		"unknown column":  {"name,adress\nw-0,x\n", "x.csv", `line 1: "adress": there is no such field`},
		"column twice":    {"name,address,bmc\n", "x.csv", `line 1: "bmc" is there twice`},
		"spreadsheet":     {"PK\x03\x04...", "x.xlsx", "save it as CSV"},
		"UTF-16":          {"n\x00a\x00m\x00e\x00", "x.csv", "no text in UTF-8"},
		"broken YAML":     {"- name: [", "x.yaml", "yaml: "},
		"YAML with bombs": {"a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\n", "x.yaml", ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, mistakes, err := Read(strings.NewReader(c.text), c.fileName)
			switch {
			case c.want == "" && len(mistakes) == 0:
				t.Error("there is no mistake")
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("the error is %v, want %q", err, c.want)
			}
		})
	}
}

// TestPasswordsAreNotInErrors: whatever is wrong with a line, its password is not shown.
func TestPasswordsAreNotInErrors(t *testing.T) {
	const secret = "hunter2"
	for _, text := range []string{
		"name,address,username,password\nw-0,ipmi://192.0.2.1,admin,\"" + secret + "\n",
		"name,address,username,password\nw-0,nonsense://x,admin," + secret + "\n",
		"name,address,username,password\nw-0,ipmi://192.0.2.1,admin," + secret + "," + secret + "\n",
		"name,password,passwordFile\nw-0," + secret + ",x\n",
	} {
		_, mistakes, _ := read(t, text, "x.csv")
		if len(mistakes) == 0 || strings.Contains(strings.Join(mistakes, ""), secret) {
			t.Errorf("mistakes are %q", mistakes)
		}
	}
}

func TestObjects(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "pw"), []byte("from a file \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	entries, _, err := Read(strings.NewReader("name,namespace,address,passwordFile,image,imageChecksum,imageFormat,rootDevice\nw-0,other,ipmi://192.0.2.1,pw,http://images/x.raw,abc,raw,/dev/sda\nw-1,,ipmi://192.0.2.2,,,,,\n"), "x.csv")
	if err != nil {
		t.Fatal(err)
	}
	objects, mistakes := Prepare(entries, Credentials{Username: "root", Password: "common"}, "metal3", dir)
	if len(mistakes) > 0 {
		t.Fatal(mistakes)
	}
	first, second := objects[0], objects[1]
	if got := string(first.Secret.Data["username"]) + "/" + string(first.Secret.Data["password"]); got != "root/from a file " {
		t.Errorf("the credentials are %q", got)
	}
	if got := string(second.Secret.Data["password"]); got != "common" {
		t.Errorf("the password is %q", got)
	}
	if first.Host.Namespace != "other" || first.Secret.Namespace != "other" || second.Host.Namespace != "metal3" {
		t.Error("the namespaces are wrong")
	}
	if first.Secret.Name != "w-0-bmc-secret" || first.Host.Spec.BMC.CredentialsName != first.Secret.Name {
		t.Errorf("the Secret is %s, the host refers to %s", first.Secret.Name, first.Host.Spec.BMC.CredentialsName)
	}
	raw := metal3.Raw
	want := metal3.BareMetalHostSpec{
		Online: true, BMC: metal3.BMCDetails{Address: "ipmi://192.0.2.1", CredentialsName: "w-0-bmc-secret"},
		Image: &metal3.Image{URL: "http://images/x.raw", Checksum: "abc", DiskFormat: &raw}, RootDeviceHints: &metal3.RootDeviceHints{DeviceName: "/dev/sda"},
	}
	if diff := cmp.Diff(want, first.Host.Spec); diff != "" {
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
	names, mistakes, _ := read(t, b.String(), "x.csv")
	if len(names) != 499 || len(mistakes) != 1 || !strings.HasPrefix(mistakes[0], "line 302: w-300: ") {
		t.Errorf("%d hosts, mistakes %q", len(names), mistakes)
	}
}

func TestPasswordFile(t *testing.T) {
	dir := t.TempDir()
	for content, want := range map[string]string{"pw": "pw", "pw\n": "pw", "pw\r\n": "pw", " p w ": " p w "} {
		path := filepath.Join(dir, "pw")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadPasswordFile("", path); err != nil || got != want {
			t.Errorf("%q: %q %v", content, got, err)
		}
	}
	for name, content := range map[string]string{"empty": "", "line break": "\n", "two lines": "a\nb\n", "long": strings.Repeat("x", 5000)} {
		path := filepath.Join(dir, "bad")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadPasswordFile("", path); err == nil || strings.Contains(err.Error(), "xxx") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ReadPasswordFile("", dir); err == nil {
		t.Error("a folder is read as a password")
	}
}
