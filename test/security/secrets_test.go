// SPDX-License-Identifier: Apache-2.0

package security

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// TestNoSecretGetsOut has hosts go through all that can happen to their Secrets,
// each with a password that occurs nowhere else, and looks for these everywhere. (What
// the other tests do is searched when all have ended, by searchFiles.)
func TestNoSecretGetsOut(t *testing.T) {
	attack(t, "read all kinds, events, logs, metrics, etcd", "find a password, in the whole life of a host")
	simulator(t) // skips
	ctx, ns := s.Begin(t)
	t.Run("life", func(t *testing.T) {
		for name, scenario := range scenarios {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				scenario(t, ctx, ns)
			})
		}
	})
	seen := map[string]string{}
	for place, content := range everything(t, ctx) {
		for what, where := range findCanaries(content) {
			seen[what] = where
			t.Errorf("%s has %s: ...%s...", place, what, where)
		}
	}
	// The search finds what is there to be found.
	sent := findCanaries(s.ironic.all())
	secrets, err := s.Core.CoreV1().Secrets("").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(secrets) // base64
	if err != nil {
		t.Fatal(err)
	}
	stored := findCanaries(string(text))
	canaries.Lock()
	defer canaries.Unlock()
	for _, c := range canaries.all {
		if _, found := sent[c.what]; !found && mustReachIronic(c.what) {
			t.Errorf("%s never reached Ironic: the search or the test is broken", c.what)
		}
		if _, found := stored[c.what]; !found && strings.HasPrefix(c.what, "life: ") && !strings.Contains(c.what, "no colon") { // base64 twice
			t.Errorf("%s is in no Secret: the search is broken", c.what)
		}
	}
}

// mustReachIronic: those of malformed Secrets, and of other tests, do not.
func mustReachIronic(what string) bool {
	return what == "the password for Ironic" || strings.HasPrefix(what, "life: ") && !strings.Contains(what, "malformed")
}

// secretOf makes a BMC Secret with a new password.
func secretOf(t *testing.T, ctx context.Context, ns, name string) canary {
	t.Helper()
	c := newCanary("life: the password of " + name)
	s.CreateSecret(t, ctx, ns, name, map[string]string{"username": "admin", "password": c.text})
	return c
}

func hasError(h *metal3.BareMetalHost) bool { return h.Status.ErrorMessage != "" }

var testImage = metal3.Image{URL: "http://192.0.2.1/image", Checksum: "d41d8cd98f00b204e9800998ecf8427e"}

// scenarios are what can happen to Secrets. Each has a host of its own name.
var scenarios = map[string]func(t *testing.T, ctx context.Context, ns string){
	"registered, provisioned, rotated, deleted": func(t *testing.T, ctx context.Context, ns string) {
		password := secretOf(t, ctx, ns, "whole-life")
		userData := newCanary("life: user data")
		s.CreateSecret(t, ctx, ns, "whole-life-data", map[string]string{
			"userData":    "#cloud-config\n# " + userData.text,
			"networkData": `{"services":[{"type":"dns","address":"192.0.2.1","secret":` + quoted(newCanary("life: network data")) + `}]}`,
			"metaData":    `{"token":` + quoted(newCanary("life: meta data")) + `}`,
		})
		address := simulator(t).NewBMC("admin", password.text)
		createHost(t, ctx, ns, "whole-life", address, "whole-life", func(spec *metal3.BareMetalHostSpec) {
			ref := &corev1.SecretReference{Name: "whole-life-data"}
			spec.Image, spec.UserData, spec.NetworkData, spec.MetaData = testImage.DeepCopy(), ref, ref, ref
			spec.PreprovisioningNetworkDataName = "whole-life-data"
		})
		host := waitHost(t, ctx, ns, "whole-life", "provisioned", func(h *metal3.BareMetalHost) bool {
			return h.Status.Provisioning.State == metal3.StateProvisioned
		})
		rotated := newCanary("life: the rotated password")
		simulator(t).AddBMC(address, "admin", rotated.text)
		patch := fmt.Sprintf(`{"stringData":{"password":%s}}`, quoted(rotated))
		if _, err := s.Core.CoreV1().Secrets(ns).Patch(ctx, "whole-life", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		waitHost(t, ctx, ns, "whole-life", "told the new password", func(h *metal3.BareMetalHost) bool {
			return h.Status.GoodCredentials.Version != host.Status.GoodCredentials.Version && h.Status.ErrorMessage == ""
		})
		// Long afterwards, Ironic says what it was sent.
		words := fmt.Sprintf(`Failed: {'ipmi_username': 'admin', 'ipmi_password': '%s'} at https://admin:%s@192.0.2.1/x, "{\"redfish_password\": \"%s\"}"`, rotated.core, rotated.core, rotated.core)
		if err := simulator(t).SetNode(host.Status.Provisioning.ID, map[string]any{"last_error": words, "maintenance": true, "maintenance_reason": words, "fault": "power failure"}); err != nil {
			t.Fatal(err)
		}
		waitHost(t, ctx, ns, "whole-life", "in maintenance", func(h *metal3.BareMetalHost) bool {
			return h.Status.Ironic != nil && h.Status.Ironic.MaintenanceReason != ""
		})
		c := throughKube(t, user(t, "admin", "system:masters"))
		for _, sub := range []string{"power", "inspect"} {
			c.get(t, ctx, groupVersion+"/namespaces/"+ns+"/baremetalhosts/whole-life/"+sub)
		}
		if err := simulator(t).SetNode(host.Status.Provisioning.ID, map[string]any{"last_error": nil, "maintenance": false, "maintenance_reason": nil, "fault": nil}); err != nil {
			t.Fatal(err)
		}
		// The Secrets stay, as the search has to find them.
		if _, err := s.Core.CoreV1().Secrets(ns).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "was-whole-life"}, StringData: map[string]string{
			"a": password.text, "b": rotated.text,
		}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		deleteHost(t, ctx, ns, "whole-life")
	},
	"wrong password": func(t *testing.T, ctx context.Context, ns string) {
		secretOf(t, ctx, ns, "wrong")
		createHost(t, ctx, ns, "wrong", simulator(t).NewBMC("admin", "another"), "wrong")
		waitHost(t, ctx, ns, "wrong", "refused", hasError)
	},
	"a driver's sentence has the password": func(t *testing.T, ctx context.Context, ns string) {
		password := secretOf(t, ctx, ns, "sentence")
		createHost(t, ctx, ns, "sentence", simulator(t).NewBMC("admin", password.text), "sentence")
		host := waitHost(t, ctx, ns, "sentence", "available and on", func(h *metal3.BareMetalHost) bool {
			return isAvailable(h) && h.Status.PoweredOn // switching it on would end the error of the node
		})
		words := fmt.Sprintf("login of admin with %s at the console failed", password.text)
		if err := simulator(t).SetNode(host.Status.Provisioning.ID, map[string]any{"last_error": words, "maintenance": true, "maintenance_reason": words, "fault": "power failure"}); err != nil {
			t.Fatal(err)
		}
		c := throughKube(t, user(t, "admin", "system:masters"))
		for _, path := range []string{"", "/sentence", "/sentence/power", "/sentence/inspect"} {
			if answer := c.get(t, ctx, groupVersion+"/namespaces/"+ns+"/baremetalhosts"+path); !strings.Contains(answer.body, "login of admin with ****** at the console") {
				t.Errorf("GET %s does not tell what Ironic says: %s", path, answer.body)
			}
		}
	},
	"silent BMC": func(t *testing.T, ctx context.Context, ns string) {
		secretOf(t, ctx, ns, "silent")
		createHost(t, ctx, ns, "silent", "redfish://192.0.2.9/redfish/v1/Systems/1", "silent")
		waitHost(t, ctx, ns, "silent", "given up", hasError)
	},
	"Ironic quotes the registration in a 400": func(t *testing.T, ctx context.Context, ns string) {
		quotes(t, ctx, ns, "quoted-400", http.StatusBadRequest)
	},
	"Ironic quotes the registration in a 500": func(t *testing.T, ctx context.Context, ns string) {
		quotes(t, ctx, ns, "quoted-500", http.StatusInternalServerError)
	},
	"Ironic quotes the registration in a 409": func(t *testing.T, ctx context.Context, ns string) {
		quotes(t, ctx, ns, "quoted-409", http.StatusConflict)
	},
	"Ironic quotes a rotation": func(t *testing.T, ctx context.Context, ns string) {
		password := secretOf(t, ctx, ns, "quoted-rotation")
		createHost(t, ctx, ns, "quoted-rotation", simulator(t).NewBMC("admin", password.text), "quoted-rotation")
		waitHost(t, ctx, ns, "quoted-rotation", "available", isAvailable)
		rotated := newCanary("life: a rotated password that Ironic quotes")
		s.ironic.refuseWith(rotated.core, http.StatusBadRequest)
		patch := fmt.Sprintf(`{"stringData":{"password":%s,"before":%s}}`, quoted(rotated), quoted(password))
		if _, err := s.Core.CoreV1().Secrets(ns).Patch(ctx, "quoted-rotation", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		waitRefused(t, ctx, rotated)
		waitHost(t, ctx, ns, "quoted-rotation", "in error", hasError)
	},
	"Ironic quotes the pull secret": func(t *testing.T, ctx context.Context, ns string) {
		password := secretOf(t, ctx, ns, "pull")
		pull := newCanary("life: an image pull secret")
		config, err := json.Marshal(object{"auths": object{"registry.example.com": object{"username": "puller", "password": pull.text}}})
		if err != nil {
			t.Fatal(err)
		}
		createSecretOf(t, ctx, ns, "pull-secret", corev1.SecretTypeDockerConfigJson, map[string]string{corev1.DockerConfigJsonKey: string(config)})
		s.ironic.refuseWith(pull.core, http.StatusBadRequest)
		createHost(t, ctx, ns, "pull", simulator(t).NewBMC("admin", password.text), "pull", func(spec *metal3.BareMetalHostSpec) {
			name := "pull-secret"
			spec.Image = &metal3.Image{URL: "oci://registry.example.com/image:1", OCIAuthSecretName: &name}
		})
		waitRefused(t, ctx, pull)
		waitHost(t, ctx, ns, "pull", "in error", hasError)
	},
	"Ironic quotes the config drive": func(t *testing.T, ctx context.Context, ns string) {
		password := secretOf(t, ctx, ns, "drive")
		userData := newCanary("life: user data that Ironic quotes")
		s.CreateSecret(t, ctx, ns, "drive-data", map[string]string{"value": "#!/bin/sh\npasswd <<'EOF'\n" + userData.text + "\nEOF\n"})
		s.ironic.refuseWith(userData.core, http.StatusBadRequest)
		createHost(t, ctx, ns, "drive", simulator(t).NewBMC("admin", password.text), "drive", func(spec *metal3.BareMetalHostSpec) {
			spec.Image, spec.UserData = testImage.DeepCopy(), &corev1.SecretReference{Name: "drive-data"}
		})
		waitRefused(t, ctx, userData)
		waitHost(t, ctx, ns, "drive", "in error", hasError)
	},
	"Ironic quotes the network data": func(t *testing.T, ctx context.Context, ns string) {
		secretOf(t, ctx, ns, "network")
		network := newCanary("life: network data that Ironic quotes")
		s.CreateSecret(t, ctx, ns, "network-data", map[string]string{"networkData": `{"links":[{"id":` + quoted(network) + `}]}`})
		s.ironic.refuseWith(network.core, http.StatusBadRequest)
		createHost(t, ctx, ns, "network", simulator(t).NewBMC("admin", "x"), "network", func(spec *metal3.BareMetalHostSpec) {
			spec.PreprovisioningNetworkDataName = "network-data"
		})
		waitRefused(t, ctx, network)
		waitHost(t, ctx, ns, "network", "in error", hasError)
	},
	// Somebody who may edit hosts and not read Secrets has them parsed, and reads the errors.
	"malformed Secrets": func(t *testing.T, ctx context.Context, ns string) {
		password := secretOf(t, ctx, ns, "parsed")
		bad := map[string]string{}
		for name, form := range map[string]string{
			"scalar": "%s", "list": "- %s", "unclosed": "{a: %s", "alias": "*%s", "tab": "a:\n\t%s: b", "tag": "!!binary %s", "json": `{"%s":`,
		} {
			bad[name] = fmt.Sprintf(form, newCanary("life: malformed network data: "+name).core)
			s.CreateSecret(t, ctx, ns, "parsed-"+name, map[string]string{"value": bad[name]})
			createHost(t, ctx, ns, "parsed-"+name, simulator(t).NewBMC("admin", password.text), "parsed", func(spec *metal3.BareMetalHostSpec) {
				spec.PreprovisioningNetworkDataName = "parsed-" + name
			})
		}
		for name := range bad {
			waitHost(t, ctx, ns, "parsed-"+name, "in error", hasError)
		}
		for name, auth := range map[string]string{
			"not-json":   newCanary("life: malformed pull secret: not JSON").core,
			"not-base64": `{"auths":{"registry.example.com":{"auth":"` + newCanary("life: malformed pull secret: not base64").core + `!"}}}`,
			"no-colon":   `{"auths":{"registry.example.com":{"auth":"` + base64.StdEncoding.EncodeToString([]byte(newCanary("life: malformed pull secret: no colon").core)) + `"}}}`,
			"elsewhere":  `{"auths":{"other.example.com":{"username":"u","password":"` + newCanary("life: malformed pull secret: another registry").core + `"}}}`,
		} {
			name = "pull-" + name
			// An Opaque one, as kube-apiserver looks into those of the right type.
			kind, key := corev1.SecretTypeDockerConfigJson, corev1.DockerConfigJsonKey
			if name == "pull-not-json" {
				kind = corev1.SecretTypeOpaque
			}
			createSecretOf(t, ctx, ns, name, kind, map[string]string{key: auth})
			createHost(t, ctx, ns, name, simulator(t).NewBMC("admin", password.text), "parsed", func(spec *metal3.BareMetalHostSpec) {
				spec.Image = &metal3.Image{URL: "oci://registry.example.com/image:1", OCIAuthSecretName: &name}
			})
			waitHost(t, ctx, ns, name, "in error", hasError)
		}
		half := newCanary("life: malformed: a password without a user")
		s.CreateSecret(t, ctx, ns, "half", map[string]string{"password": half.text})
		createHost(t, ctx, ns, "half", simulator(t).NewBMC("admin", "x"), "half")
		waitHost(t, ctx, ns, "half", "in error", hasError)
	},
}

func quotes(t *testing.T, ctx context.Context, ns, name string, status int) {
	t.Helper()
	password := secretOf(t, ctx, ns, name)
	s.ironic.refuseWith(password.core, status)
	createHost(t, ctx, ns, name, simulator(t).NewBMC("admin", password.text), name)
	waitRefused(t, ctx, password)
	if status < 500 { // a 500 is an Ironic that is away
		waitHost(t, ctx, ns, name, "in error", hasError)
	}
	throughKube(t, user(t, "admin", "system:masters")).mustDo(t, ctx, http.MethodPost,
		groupVersion+"/namespaces/"+ns+"/baremetalhosts/"+name+"/power", "application/json",
		`{"apiVersion":"metal3.io/v1alpha1","kind":"HostPower","spec":{"action":"off"}}`)
}

func waitRefused(t *testing.T, ctx context.Context, c canary) {
	t.Helper()
	eventually(t, ctx, func() string {
		if !s.ironic.hasRefused(c.core) {
			return "Ironic was not sent " + c.what + " yet"
		}
		return ""
	})
}

func quoted(c canary) string {
	text, err := json.Marshal(c.text)
	if err != nil {
		return `""` // a string always encodes
	}
	return string(text)
}

// everything is all that anybody but a reader of Secrets, of Ironic's database or
// of the server's memory can get at.
func everything(t *testing.T, ctx context.Context) map[string]string {
	t.Helper()
	found := map[string]string{}
	file := func(name, path string) {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		found[name] = string(content)
		if len(content) == 0 {
			t.Errorf("%s is empty", name)
		}
	}
	file("the server's log", s.Server.LogPath)
	found["the server's log, its hexadecimal dumps"] = undumped(found["the server's log"])
	file("the server's audit log", s.audit)
	file("kube-apiserver's audit log", s.Kube.AuditLogPath())
	file("the log of kube-apiserver", filepath.Join(filepath.Dir(s.Kube.Admin.Kubeconfig), "kube-apiserver.log"))
	file("the server's command line", fmt.Sprintf("/proc/%d/cmdline", s.Server.PID()))
	file("the server's environment", fmt.Sprintf("/proc/%d/environ", s.Server.PID()))
	master := user(t, "admin", "system:masters")
	c := throughKube(t, master)
	for _, r := range discover(t, ctx) {
		if slices.Contains(r.Verbs, "list") {
			found[r.Name] = c.get(t, ctx, collectionOf(r, "")).body
			found[r.Name+" as a table"] = c.with("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").get(t, ctx, collectionOf(r, "")+"?includeObject=Object").body
		}
	}
	for name, path := range map[string]string{
		"events": "/api/v1/events", "configmaps": "/api/v1/configmaps", "leases": "/apis/coordination.k8s.io/v1/leases",
		"namespaces": "/api/v1/namespaces", "the APIService": "/apis/apiregistration.k8s.io/v1/apiservices",
	} {
		got := c.get(t, ctx, path)
		if got.code != http.StatusOK {
			t.Errorf("%s: %d", path, got.code)
		}
		found[name] = got.body
	}
	ours := direct(t, master)
	for _, path := range paths {
		if method, path, _ := strings.Cut(path, " "); method == http.MethodGet && !strings.Contains(path, "seconds=") {
			found[path] = ours.get(t, ctx, path).body
		}
	}
	heard.Lock()
	found["the answers to all requests"] = heard.String()
	heard.Unlock()
	stored(t, ctx, found)
	return found
}

// dumped is the text of a line of a hexadecimal dump, as which client-go logs protobuf.
var dumped = regexp.MustCompile(`(?m)  \|(.{1,16})\|$`)

func undumped(log string) string {
	var text strings.Builder
	for _, line := range dumped.FindAllStringSubmatch(log, -1) {
		text.WriteString(line[1])
	}
	return text.String()
}

// stored adds the keys of our etcd, and its files.
func stored(t *testing.T, ctx context.Context, found map[string]string) {
	t.Helper()
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{"unix://" + filepath.Join(s.Server.DataDir(), "etcd.sock")}, Context: ctx})
	if err != nil {
		t.Fatal(err)
	}
	defer etcd.Close()
	all, err := etcd.Get(ctx, "", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range all.Kvs {
		found["etcd's "+string(kv.Key)] = string(kv.Value)
	}
	if len(all.Kvs) == 0 {
		t.Error("etcd has no keys")
	}
	if err := dataFiles(found); err != nil {
		t.Error(err)
	}
}
