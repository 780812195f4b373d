// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// The configuration of Ironic's networking service follows the switches of a namespace and their
// Secrets.
func TestSwitches(t *testing.T) {
	t.Parallel()
	ctx, ns := s.Begin(t)
	secrets, switches := s.Core.CoreV1().Secrets(ns), bed(ctx).Metal3.Metal3V1alpha1().BareMetalSwitches(ns)
	secret := func(name string, data map[string]string) {
		t.Helper()
		if _, err := secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: data}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	valid := func(name, reason string) {
		t.Helper()
		testbed.EventuallyEvery(t, ctx, 200*time.Millisecond, func() string {
			device, err := switches.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err.Error()
			}
			if c := meta.FindStatusCondition(device.Status.Conditions, "Valid"); c == nil || c.Reason != reason {
				return fmt.Sprintf("switch %s has the conditions %+v, want the reason %s", name, device.Status.Conditions, reason)
			}
			return ""
		})
	}
	config := func(want string) {
		t.Helper()
		testbed.EventuallyEvery(t, ctx, 200*time.Millisecond, func() string {
			configs, err := secrets.Get(ctx, "switch-configs", metav1.GetOptions{})
			if err != nil {
				return err.Error()
			}
			if got := string(configs.Data["switch-configs.conf"]); got != "# This file is managed by the Baremetal Operator\n\n"+want {
				return fmt.Sprintf("the configuration is %q", got)
			}
			return ""
		})
	}
	device := &metal3.BareMetalSwitch{ObjectMeta: metav1.ObjectMeta{Name: "leaf-1"}, Spec: metal3.BareMetalSwitchSpec{
		Address: "192.0.2.1", MACAddress: "00:1b:21:aa:bb:cc", DeviceType: "netmiko_arista_eos", Credentials: &corev1.SecretReference{Name: "leaf-1"},
	}}
	if _, err := switches.Create(ctx, device, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	valid("leaf-1", "CredentialError")
	secret("leaf-1", map[string]string{"username": "admin", "password": "switch password"})
	valid("leaf-1", "SecretError")
	secret("switch-configs", nil)
	secret("switch-keys", nil)
	valid("leaf-1", "Reconciled")
	section := "[switch:leaf-1]\naddress=192.0.2.1\nmac_address=00:1b:21:aa:bb:cc\ndriver_type=generic-switch\ndevice_type=netmiko_arista_eos\nusername=admin\n"
	config(section + "password=switch password\n\n")

	key := []byte(`{"stringData":{"ssh-privatekey":"a private key"}}`)
	if _, err := secrets.Patch(ctx, "leaf-1", types.MergePatchType, key, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	config(section + "key_file=/etc/switch-keys/00-1b-21-aa-bb-cc.key\n\n")
	keys, err := secrets.Get(ctx, "switch-keys", metav1.GetOptions{})
	if err != nil || len(keys.Data) != 1 || string(keys.Data["00-1b-21-aa-bb-cc.key"]) != "a private key" {
		t.Errorf("the private keys are %q, %v", keys.Data, err)
	}
	claimed, err := secrets.Get(ctx, "leaf-1", metav1.GetOptions{})
	if err != nil || len(claimed.OwnerReferences) != 1 || claimed.OwnerReferences[0].Kind != "BareMetalSwitch" || len(claimed.Finalizers) != 0 {
		t.Errorf("the Secret of the switch is %+v, %v", claimed.ObjectMeta, err)
	}

	if err := switches.Delete(ctx, "leaf-1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	config("")
}
