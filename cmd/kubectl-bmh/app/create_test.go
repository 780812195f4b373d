// SPDX-License-Identifier: Apache-2.0

package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	ironic "github.com/metal3-io/metal3-apiserver/pkg/apis/ironic/v1alpha1"
	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// answerApply makes the fake server accept server-side applies, but for hosts called "refused".
func (c *cluster) answerApply() *[]string {
	var mu sync.Mutex
	var applied []string
	c.dynamic.PrependReactor("patch", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		patch := action.(clienttesting.PatchAction)
		if patch.GetName() == "refused" {
			return true, nil, apierrors.NewForbidden(metal3.Resource("baremetalhosts"), patch.GetName(), errors.New("no"))
		}
		u := &unstructured.Unstructured{}
		if err := json.Unmarshal(patch.GetPatch(), u); err != nil {
			return true, nil, err
		}
		mu.Lock()
		defer mu.Unlock()
		applied = append(applied, u.GetKind()+"/"+u.GetName())
		return true, u, nil
	})
	return &applied
}

func writeFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCreate(t *testing.T) {
	c := newCluster()
	applied := c.answerApply()
	c.stdin = "the password\n"
	if code := c.run(t, "create", "w-0", "--address", "ipmi://192.0.2.1", "--username", "admin", "--password-file", "-", "--boot-mac", "00:00:5e:00:53:01", "--labels", "rack=7"); code != exitOK {
		t.Fatalf("exit code %d: %s", code, c.errOut)
	}
	if want := "secret/w-0-bmc-secret serverside-applied\nbaremetalhost.metal3.io/w-0 serverside-applied\n"; c.out != want {
		t.Errorf("stdout is %q, want %q", c.out, want)
	}
	if got := strings.Join(*applied, " "); got != "Secret/w-0-bmc-secret BareMetalHost/w-0" {
		t.Errorf("applied %s", got)
	}
}

// TestCreatePrints: what is printed can be piped into kubectl apply, and nobody is asked.
func TestCreatePrints(t *testing.T) {
	c := newCluster()
	password := writeFile(t, "pw", "secret\n")
	if code := c.run(t, "create", "w-0", "--address", "ipmi://192.0.2.1", "--username", "admin", "--password-file", password, "--online=false", "--dry-run=client", "-o", "yaml"); code != exitOK {
		t.Fatalf("exit code %d: %s", code, c.errOut)
	}
	expect(t, "the output", c.out, "kind: Secret", "password: c2VjcmV0\n", "---\n", "kind: BareMetalHost", "online: false", "credentialsName: w-0-bmc-secret")
	if strings.Contains(c.out, "status:") || strings.Contains(c.out, "creationTimestamp") {
		t.Errorf("the output has what users cannot set:\n%s", c.out)
	}
	if len(c.dynamic.Actions()) > 0 {
		t.Errorf("the server was asked: %v", c.dynamic.Actions())
	}
}

// TestCreateInventory: bad lines and refused hosts are reported with their lines, and the others are
// created.
func TestCreateInventory(t *testing.T) {
	c := newCluster()
	applied := c.answerApply()
	path := writeFile(t, "rack.csv", `name,address,username,password
w-0,ipmi://192.0.2.1,admin,pw
w-1,nonsense://x,admin,pw
refused,ipmi://192.0.2.3,admin,pw
w-2,ipmi://192.0.2.4,admin,pw
`)
	if code := c.run(t, "create", "-f", path); code != exitError {
		t.Errorf("exit code %d", code)
	}
	expect(t, "stderr", c.errOut, "line 3: w-1: spec.bmc.address", "line 4: refused: Error from server (Forbidden)", "2 of 4 hosts applied\n")
	if len(*applied) != 5 { // one of the refused host's Secret
		t.Errorf("applied %q", *applied)
	}
	if !strings.HasSuffix(c.out, "baremetalhost.metal3.io/w-2 serverside-applied\n") {
		t.Errorf("stdout is %q", c.out)
	}
}

// TestCreateKeeps: what is not given stays, the image above all, and what is given as false is.
func TestCreateKeeps(t *testing.T) {
	for name, test := range map[string]struct {
		args, want []string
		file       string
	}{
		"a label": {
			args: []string{"create", "w-0", "--address", "ipmi://192.0.2.1", "--username", "admin", "--password-file", "-", "--labels", "row=b"},
			want: []string{`"image":{"checksum":"abc","checksumType":"sha512","url":"http://images/x"}`, `"rack":"7"`, `"row":"b"`, `"online":false`, `"externallyProvisioned":true`, `"disableCertificateVerification":true`, `"automatedCleaningMode":"disabled"`},
		},
		"false": {
			args: []string{"create", "w-0", "--address", "ipmi://192.0.2.1", "--username", "admin", "--password-file", "-", "--externally-provisioned=false", "--online", "--disable-certificate-verification=false"},
			want: []string{`"online":true`, `-"externallyProvisioned"`, `-"disableCertificateVerification"`, `"image":`},
		},
		"another image": {
			args: []string{"create", "w-0", "--address", "ipmi://192.0.2.1", "--username", "admin", "--password-file", "-", "--image", "http://images/y", "--image-checksum", "def"},
			want: []string{`"image":{"checksum":"def","url":"http://images/y"}`},
		},
		"a manifest": {
			file: `{"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": {"name": "w-0"}, "spec": {"image": null, "bmc": {"address": "ipmi://192.0.2.1", "credentialsName": "s"}}}`,
			want: []string{`-"image"`, `"online":false`, `"automatedCleaningMode":"disabled"`, `-"description"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			existing := host("w-0", metal3.StateProvisioned, func(h *metal3.BareMetalHost) {
				h.Labels = map[string]string{"rack": "7", "team": "blue"}
				h.Spec.Online, h.Spec.ExternallyProvisioned, h.Spec.AutomatedCleaningMode = false, true, metal3.CleaningModeDisabled
				h.Spec.Image.Checksum, h.Spec.Image.ChecksumType, h.Spec.Description = "abc", metal3.SHA512, "of somebody else"
				h.Spec.BMC.DisableCertificateVerification = true
				h.ManagedFields = []metav1.ManagedFieldsEntry{
					{Manager: "kubectl", Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:team":{}}},"f:spec":{"f:description":{}}}`)},
					{Manager: fieldManager, Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:rack":{}}},"f:spec":{` +
						`"f:bmc":{"f:address":{},"f:disableCertificateVerification":{}},"f:image":{"f:url":{},"f:checksum":{},"f:checksumType":{}},"f:externallyProvisioned":{},"f:automatedCleaningMode":{},"f:online":{}}}`)},
				}
			})
			c := newCluster(existing)
			c.answerApply()
			c.stdin = "the password\n"
			if test.file != "" {
				test.args = []string{"create", "-f", writeFile(t, "hosts.json", test.file)}
			}
			if code := c.run(t, test.args...); code != exitOK {
				t.Fatalf("exit code %d: %s", code, c.errOut)
			}
			actions := c.dynamic.Actions()
			applied := string(actions[len(actions)-1].(clienttesting.PatchAction).GetPatch())
			for _, want := range append(test.want, `-"team"`) {
				if absent, isAbsent := strings.CutPrefix(want, "-"); strings.Contains(applied, strings.TrimPrefix(want, "-")) == isAbsent {
					t.Errorf("applied %s; %s: %t", applied, absent, isAbsent)
				}
			}
		})
	}
}

// TestRefusedHostKeepsItsPassword: the Secret of a host that exists stays as it is if the host is refused, or is not the one that
// was meant.
func TestRefusedHostKeepsItsPassword(t *testing.T) {
	c := newCluster(host("refused", metal3.StateProvisioned), host("w-0", metal3.StateProvisioned), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": ironic.SchemeGroupVersion.String(), "kind": "Candidate", "metadata": map[string]any{"name": "u"},
		"status": map[string]any{"provisionState": "manageable", "bmcAddress": "ipmi://192.0.2.9"},
	}})
	applied := c.answerApply()
	for _, args := range [][]string{
		{"create", "refused", "--address", "ipmi://192.0.2.1", "--username", "admin", "--password-file", "-"},
		{"adopt", "u", "--name", "w-0", "--username", "admin", "--password-file", "-"},
	} {
		c.stdin = "another password\n"
		if code := c.run(t, args...); code != exitError || len(*applied) > 0 {
			t.Errorf("%q: exit code %d, applied %q", args, code, *applied)
		}
	}
	expect(t, "stderr", c.errOut, "there is a host w-0 already")
	// Nor is anything done to one that cannot be read.
	c.metal3.PrependReactor("get", "baremetalhosts", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(metal3.Resource("baremetalhosts"), "w-0", errors.New("no"))
	})
	c.stdin = "another password\n"
	if code := c.run(t, "create", "w-0", "--address", "ipmi://192.0.2.1", "--username", "admin", "--password-file", "-"); code != exitError || len(*applied) > 0 {
		t.Errorf("exit code %d, applied %q", code, *applied)
	}
}

// TestCreateFile: what the operator's users have is applied as it is, and what is no list of machines creates nothing.
func TestCreateFile(t *testing.T) {
	c := newCluster()
	applied := c.answerApply()
	path := writeFile(t, "hosts.txt", `{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"username": "a", "password": "b"}}
{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
{"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": {"name": "h"}, "spec": {"online": true, "bmc": {"address": "ipmi://192.0.2.1", "credentialsName": "s"}}}
`)
	if code := c.run(t, "create", "-f", path); code != exitError || strings.Join(*applied, " ") != "Secret/s BareMetalHost/h" {
		t.Errorf("exit code %d, applied %q", code, *applied)
	}
	expect(t, "stderr", c.errOut, "line 2: ConfigMap c is left out", "1 of 1 host applied\n")

	c = newCluster()
	path = writeFile(t, "rack.csv", "PK\x03\x04")
	if code := c.run(t, "create", "-f", path); code != exitError || len(c.dynamic.Actions()) > 0 {
		t.Errorf("exit code %d, requests %v", code, c.dynamic.Actions())
	}
	expect(t, "stderr", c.errOut, "rack.csv: this is a ZIP archive or an Excel workbook")
}

// TestCreateManyMistakes: not all of 10,000 lines with the same mistake are printed, and no line is lost from the count.
func TestCreateManyMistakes(t *testing.T) {
	c := newCluster()
	var b strings.Builder
	b.WriteString("name,address,username,password\nw,ipmi://192.0.2.1,a,p\n")
	for i := range 9_999 {
		fmt.Fprintf(&b, "w-%d,nonsense://x,a,p\n", i)
	}
	if code := c.run(t, "create", "--dry-run", "client", "-f", writeFile(t, "rack.csv", b.String())); code != exitError {
		t.Errorf("exit code %d", code)
	}
	expect(t, "stderr", c.errOut, "line 102: w-99: spec.bmc.address", "and 9899 more, up to line 10001\n", "1 of 10000 hosts valid (dry run)\n")
	if lines := strings.Count(c.errOut, "\n"); lines != maxMistakes+2 {
		t.Errorf("stderr has %d lines", lines)
	}
}

func TestCreateFlags(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"create"}, "either a name or -f"},
		{[]string{"create", "w-0", "-f", "x.csv"}, "either a name or -f"},
		{[]string{"create", "-f", "-", "--password-file", "-"}, "cannot both come from stdin"},
		{[]string{"create", "-f", "x.csv", "--boot-mac", "x"}, "--boot-mac is for a single host"},
		{[]string{"create", "-f", "/nonexistent.csv"}, "no such file"},
		{[]string{"create", "w-0", "--address", "ipmi://192.0.2.1", "--username", "a"}, "it has no password"},
		{[]string{"create", "w-0", "--address", "ipmi://192.0.2.1", "--username", "a", "--online=perhaps"}, "online: must be true or false"},
		{[]string{"create", "w-0", "--password", "x"}, "unknown flag: --password"},
	} {
		cl := newCluster()
		if code := cl.run(t, c.args...); code != exitError || !strings.Contains(cl.errOut, c.want) {
			t.Errorf("%q: exit code %d, %q, want %q", c.args, code, cl.errOut, c.want)
		}
	}
}

// TestCreateElsewhere: who names a namespace changes no host in another one, whatever the file says.
func TestCreateElsewhere(t *testing.T) {
	c := newCluster()
	file := writeFile(t, "hosts.yaml", `{apiVersion: metal3.io/v1alpha1, kind: BareMetalHost, metadata: {name: w-0, namespace: prod}, spec: {online: true, bmc: {address: "ipmi://192.0.2.1", credentialsName: bmc}}}`)
	if code := c.run(t, "create", "-f", file); code != exitError || !strings.Contains(c.errOut, "its namespace is prod, and --namespace asks for metal3") || len(c.dynamic.Actions()) > 0 {
		t.Errorf("exit code %d, %s, requests %v", code, c.errOut, c.dynamic.Actions())
	}
}
