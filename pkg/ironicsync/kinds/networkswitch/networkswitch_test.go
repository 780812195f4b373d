// SPDX-License-Identifier: Apache-2.0

package networkswitch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
)

const namespace = "metal3"

func newSwitch(name, mac string, change func(*metal3.BareMetalSwitchSpec)) *metal3.BareMetalSwitch {
	device := &metal3.BareMetalSwitch{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Generation: 3},
		Spec: metal3.BareMetalSwitchSpec{
			Address: "192.0.2.1", MACAddress: mac, DeviceType: "netmiko_arista_eos", Credentials: &corev1.SecretReference{Name: name},
		},
	}
	if change != nil {
		change(&device.Spec)
	}
	return device
}

// The sections are exactly those of the Bare Metal Operator.
func TestSection(t *testing.T) {
	for name, test := range map[string]struct {
		device *metal3.BareMetalSwitch
		given  credentials
		want   string
	}{
		"a password": {newSwitch("leaf-1", "00:1B:21:aa:bb:cc", nil), credentials{username: "admin", password: "secret"}, `[switch:leaf-1]
address=192.0.2.1
mac_address=00:1B:21:aa:bb:cc
driver_type=generic-switch
device_type=netmiko_arista_eos
username=admin
password=secret

`},
		"a key and everything else": {newSwitch("leaf-2", "00:1B:21:aa:bb:cc", func(s *metal3.BareMetalSwitchSpec) {
			s.Port, s.Driver, s.DisableCertificateVerification = ptr.To[int32](2222), metal3.GenericSwitch, true
		}), credentials{username: "admin", password: "unused", privateKey: []byte("key"), adminPassword: "enable"}, `[switch:leaf-2]
address=192.0.2.1
mac_address=00:1B:21:aa:bb:cc
port=2222
driver_type=generic-switch
device_type=netmiko_arista_eos
insecure=true
username=admin
key_file=/etc/keys/00-1B-21-aa-bb-cc.key
enable_secret=enable

`},
	} {
		if diff := cmp.Diff(test.want, section(test.device, test.given, "/etc/keys")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestUnwritable: what Ironic's networking service would read otherwise, or not at all, with all other switches. Passwords may be odd
// otherwise.
func TestUnwritable(t *testing.T) {
	const space, quotes = "begins or ends with a space", "is in quotes"
	for value, want := range map[string]string{
		"p4%xQ": "has a '%'", "%": "has a '%'", "a%%b": "", "a\nb": "has a line break", "a\xffb": "is not text in UTF-8",
		"\ufeffa": "begins with a byte order mark", "\xff\xfea\x00": "is text in UTF-16", "a\x00": "has NUL bytes", " a": space, "a\t": space, "a\u00a0": space, "a\x1f": space,
		`"a"`: quotes, "'a'": quotes, `"`: quotes, `"a`: "", `a"`: "", `"a'`: "", "": "", "a;b#c=d:e$f[g]": "", "#a": "", "a b": "", "ä": "",
	} {
		found, err := credentialsIn("s", data("username", "admin", "ssh-privatekey", "key", "admin-password", value))
		if got := fmt.Sprint(err); want == "" && (err != nil || found.adminPassword != value) || want != "" && !strings.Contains(got, "credentials secret s: key 'admin-password' "+want) {
			t.Errorf("%q: %v, want %q", value, err, want)
		}
	}
}

// TestUnreadableKey: a private key is in PEM, which is read as text in UTF-8.
func TestUnreadableKey(t *testing.T) {
	const pem = "-----BEGIN PRIVATE KEY-----\r\nMC4=\r\n-----END PRIVATE KEY-----\r\n"
	for key, want := range map[string]string{
		pem: "", "\ufeff" + pem: "begins with a byte order mark", "\xff\xfe-\x00\n\x00": "is text in UTF-16", "-\x00\n\x00": "has NUL bytes", pem + "\xe9": "is not text in UTF-8",
	} {
		_, err := credentialsIn("s", data("username", "admin", "ssh-privatekey", key))
		if got := fmt.Sprint(err); (err == nil) != (want == "") || want != "" && !strings.Contains(got, "credentials secret s: key 'ssh-privatekey' "+want) {
			t.Errorf("%q: %v, want %q", key, err, want)
		}
	}
}

// world is the switches of a namespace and its Secrets.
type world struct {
	enginetest.NoObjects
	switches   []*metal3.BareMetalSwitch
	secrets    map[string]map[string][]byte
	owned      []string
	refused    string // the name of a Secret that may not be changed
	unreadable string // the name of a Secret that kube-apiserver cannot read
	writeError error
	superseded bool // another replica leads
}

func (w *world) UpdateStatus(_ context.Context, device *metal3.BareMetalSwitch) (*metal3.BareMetalSwitch, error) {
	for i := range w.switches {
		if w.switches[i].Name == device.Name {
			w.switches[i] = device
		}
	}
	return device, nil
}

func (w *world) Own(_ context.Context, _, name string, owner metav1.OwnerReference, isCredentials func(*corev1.Secret) bool) (map[string][]byte, error) {
	data, exists := w.secrets[name]
	if !exists {
		return nil, apierrors.NewNotFound(corev1.Resource("secrets"), name)
	}
	if name == w.unreadable {
		return nil, apierrors.NewInternalError(errors.New("no matching key was found for the provided transformer"))
	}
	if name == w.refused {
		return nil, apierrors.NewForbidden(corev1.Resource("secrets"), name, errors.New("denied by a policy"))
	}
	if isCredentials(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}) {
		w.owned = append(w.owned, owner.Kind+" "+owner.Name+" of "+name)
	}
	return data, nil
}

func (w *world) ReplaceData(_ context.Context, _, name string, data map[string][]byte, mayReplace func(is map[string][]byte) bool) error {
	is, exists := w.secrets[name]
	if !exists {
		return apierrors.NewNotFound(corev1.Resource("secrets"), name)
	}
	if mayReplace != nil && !mayReplace(is) {
		return nil
	}
	if w.writeError == nil {
		w.secrets[name] = data
	}
	return w.writeError
}

// configure has the switches configured once. It returns the condition of each switch.
func (w *world) configure(t *testing.T) (conditions map[string]string, after time.Duration, err error) {
	t.Helper()
	fence := ironic.NoFence
	if w.superseded {
		fence = ironic.Fence{Term: func() bool { return false }}
	}
	c := New(Deps{Switches: w, Secrets: w, Fence: fence, Settings: Settings{Enabled: true, ConfigsSecret: "configs", CredentialsSecret: "keys", CredentialsPath: "/etc/keys"}})
	after, err = c.configure(t.Context(), namespace, w.switches)
	conditions = map[string]string{}
	for _, device := range w.switches {
		if valid := meta.FindStatusCondition(device.Status.Conditions, ValidCondition); valid != nil {
			conditions[device.Name] = string(valid.Status) + " " + valid.Reason + ": " + valid.Message
			if valid.ObservedGeneration != device.Generation {
				t.Errorf("%s: observedGeneration is %d", device.Name, valid.ObservedGeneration)
			}
		}
	}
	return conditions, after, err
}

func data(pairs ...string) map[string][]byte {
	all := map[string][]byte{}
	for i := 0; i < len(pairs); i += 2 {
		all[pairs[i]] = []byte(pairs[i+1])
	}
	return all
}

// Switches that cannot be configured are left out and say why. The others are configured.
func TestConfigure(t *testing.T) {
	const mac = "00:1b:21:aa:bb:cc"
	deleted := newSwitch("g", mac, nil)
	deleted.DeletionTimestamp = new(metav1.Now())
	w := &world{
		switches: []*metal3.BareMetalSwitch{
			newSwitch("a", mac, nil),
			newSwitch("b", mac, func(s *metal3.BareMetalSwitchSpec) { s.Credentials = nil }),
			newSwitch("c", mac, nil), // without a Secret
			newSwitch("d", mac, nil),
			newSwitch("e", mac, func(s *metal3.BareMetalSwitchSpec) { s.Credentials.Namespace = "kube-system" }),
			newSwitch("f", "00:1b:21:aa:bb:dd", nil),
			deleted,
			newSwitch("h", mac, func(s *metal3.BareMetalSwitchSpec) { s.Address = "192.0.2.1\nusername=root" }),
			newSwitch("i", mac, nil),
			newSwitch("j", mac, nil),
			newSwitch("k", mac, nil),
			newSwitch("l", mac, func(s *metal3.BareMetalSwitchSpec) { s.Address = "fe80::1%eth0" }),
		},
		refused: "k",
		secrets: map[string]map[string][]byte{
			"a": data("username", "admin", "password", "secret"), "d": data("password", "secret"), "e": data("username", "admin", "password", "secret"),
			"f": data("username", "admin", "ssh-privatekey", "-----BEGIN"), "g": data("username", "admin", "password", "secret"),
			"h": data("username", "admin", "password", "secret"), "i": data("username", "admin"), "j": data("username", "admin", "password", "a\n[switch:x]"),
			"k": data("username", "admin", "password", "secret"), "l": data("username", "admin", "password", "secret"),
			"configs": data("other", "is removed"), "keys": data("old.key", "is removed"),
		},
	}
	conditions, after, err := w.configure(t)
	if err != nil || after != missingRetry {
		t.Errorf("again after %s, %v", after, err)
	}
	want := map[string]string{
		"a": "True Reconciled: Switch configuration has been successfully reconciled into the config secret",
		"b": "False CredentialError: credentials secret reference is not set",
		"c": "False CredentialError: credentials secret metal3/c not found",
		"d": "False CredentialError: credentials secret d missing 'username' key",
		"e": "False CredentialError: credentials secret kube-system/e is in another namespace, it must be in that of the switch",
		"f": "True Reconciled: Switch configuration has been successfully reconciled into the config secret",
		"h": "False ConfigurationError: spec.address has a line break, which cannot be written to the configuration",
		"i": "False CredentialError: credentials secret i missing 'password' or 'ssh-privatekey' key",
		"k": `False CredentialError: secrets "k" is forbidden: denied by a policy`,
		"j": "False CredentialError: credentials secret j: key 'password' has a line break, which cannot be written to the configuration",
		"l": "False ConfigurationError: spec.address has a '%', which cannot be written to the configuration",
	}
	if diff := cmp.Diff(want, conditions); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	config := string(w.secrets["configs"][configKey])
	if !strings.HasPrefix(config, "# This file is managed by the Baremetal Operator\n\n[switch:a]\n") || strings.Count(config, "[switch:") != 2 ||
		!strings.Contains(config, "[switch:f]") || len(w.secrets["configs"]) != 1 {
		t.Errorf("the configuration is %q", w.secrets["configs"])
	}
	if diff := cmp.Diff(data("00-1b-21-aa-bb-dd.key", "-----BEGIN"), w.secrets["keys"]); diff != "" {
		t.Errorf("private keys (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"BareMetalSwitch a of a", "BareMetalSwitch f of f", "BareMetalSwitch h of h", "BareMetalSwitch l of l"}, w.owned); diff != "" {
		t.Errorf("owned Secrets (-want +got):\n%s", diff)
	}
}

// If the Secrets cannot be written, the switches say so. A namespace without switches needs no Secrets.
func TestSecretsThatCannotBeWritten(t *testing.T) {
	for name, test := range map[string]struct {
		missing string
		err     error
		says    string
	}{
		"no configuration": {missing: "configs", says: "False SecretError: secret metal3/configs cannot be written: NotFound"},
		"no private keys":  {missing: "keys", says: "False SecretError: secret metal3/keys cannot be written: NotFound"},
		"forbidden":        {err: apierrors.NewForbidden(corev1.Resource("secrets"), "keys", errors.New("secret")), says: "False SecretError: secret metal3/keys cannot be written: Forbidden"},
	} {
		w := &world{
			switches: []*metal3.BareMetalSwitch{newSwitch("a", "00:1b:21:aa:bb:cc", nil)}, writeError: test.err,
			secrets: map[string]map[string][]byte{"a": data("username", "admin", "password", "secret"), "configs": nil, "keys": nil},
		}
		delete(w.secrets, test.missing)
		conditions, after, err := w.configure(t)
		if conditions["a"] != test.says || (err != nil) != (test.err != nil) || test.err == nil && after != missingRetry {
			t.Errorf("%s: %q, want %q; again after %s, %v", name, conditions["a"], test.says, after, err)
		}
		w.switches, w.writeError = nil, nil
		if _, after, err := w.configure(t); err != nil || after != 0 {
			t.Errorf("%s, without switches: again after %s, %v", name, after, err)
		}
	}
}

// TestDeletedWhileNobodyLed: a new leader, which sees the Secrets and no switch, takes the credentials of the last one away. What somebody
// else has put into Secrets of these names stays.
func TestDeletedWhileNobodyLed(t *testing.T) {
	config := data(configKey, header+"[switch:a]\nusername=admin\npassword=secret\n\n")
	for name, test := range map[string]struct {
		changed                string // the Secret that the leader sees
		configs, keys          map[string][]byte
		configsAfter, keyFiles map[string][]byte
	}{
		"both":                  {"configs", config, data("00-1b-21-aa-bb-dd.key", "key"), data(configKey, header), data()},
		"seen by its keys":      {"keys", config, data("00-1b-21-aa-bb-dd.key", "key"), data(configKey, header), data()},
		"no configuration left": {"keys", nil, data("00-1b-21-aa-bb-dd.key", "key"), nil, data()},
		"of somebody else":      {"configs", data(configKey, "[switch:b]\npassword=theirs\n"), data("tls.key", "theirs"), data(configKey, "[switch:b]\npassword=theirs\n"), data("tls.key", "theirs")},
		"another Secret":        {"other", config, data(), config, data()},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{secrets: map[string]map[string][]byte{"keys": test.keys}}
				if test.configs != nil {
					w.secrets["configs"] = test.configs
				}
				c := New(Deps{Switches: enginetest.NewStock[*metal3.BareMetalSwitch]("baremetalswitches"), Secrets: w, Fence: ironic.NoFence, Settings: Settings{Enabled: true, ConfigsSecret: "configs", CredentialsSecret: "keys", CredentialsPath: "/etc/keys"}})
				ctx, cancel := context.WithCancel(t.Context())
				var running sync.WaitGroup
				running.Go(func() { _ = c.Run(ctx) })
				c.SecretChanged(namespace, test.changed)
				time.Sleep(time.Minute)
				cancel()
				running.Wait()
				if diff := cmp.Diff(test.configsAfter, w.secrets["configs"]); diff != "" {
					t.Errorf("configuration (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(test.keyFiles, w.secrets["keys"]); diff != "" {
					t.Errorf("private keys (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestUnreadableSecret: a switch whose Secret kube-apiserver cannot read stays in the configuration, and says what the others wait for.
func TestUnreadableSecret(t *testing.T) {
	w := &world{
		switches: []*metal3.BareMetalSwitch{newSwitch("a", "00:1b:21:aa:bb:cc", nil), newSwitch("b", "00:1b:21:aa:bb:cd", nil)}, unreadable: "b",
		secrets: map[string]map[string][]byte{
			"a": data("username", "admin", "password", "secret"), "b": data("username", "admin", "password", "secret"), "configs": data("of", "both"), "keys": nil,
		},
	}
	conditions, _, err := w.configure(t)
	if !apierrors.IsInternalError(err) || string(w.secrets["configs"]["of"]) != "both" {
		t.Errorf("%v; configuration %q", err, w.secrets["configs"])
	}
	for _, part := range []string{"Unknown SecretError: ", "Secret metal3/b", "transformer", "no switch of this namespace is configured"} {
		if !strings.Contains(conditions["b"], part) {
			t.Errorf("the switch says %q, want %q in it", conditions["b"], part)
		}
	}
	if conditions["a"] != "" {
		t.Errorf("the other switch says %q, although nothing was written", conditions["a"])
	}
}

// TestNotLeading: nothing is written by a leader that is superseded, or while everything is held after a restore.
func TestNotLeading(t *testing.T) {
	w := &world{
		switches: []*metal3.BareMetalSwitch{newSwitch("a", "00:1b:21:aa:bb:cc", nil)}, superseded: true,
		secrets: map[string]map[string][]byte{"a": data("username", "admin", "password", "secret"), "configs": data("newer", "than the backup"), "keys": nil},
	}
	if _, _, err := w.configure(t); !errors.Is(err, ironic.ErrNotLeading) || len(w.owned) > 0 || string(w.secrets["configs"]["newer"]) == "" {
		t.Errorf("%v; owned %q, configuration %q", err, w.owned, w.secrets["configs"])
	}
	w.switches = nil
	if _, _, err := w.configure(t); !errors.Is(err, ironic.ErrNotLeading) || string(w.secrets["configs"]["newer"]) == "" {
		t.Errorf("without switches: %v; configuration %q", err, w.secrets["configs"])
	}
}
