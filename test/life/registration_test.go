// SPDX-License-Identifier: Apache-2.0

package life

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
)

// New credentials for a provisioned host reach Ironic and disturb nothing.
func TestCredentialsRotated(t *testing.T) {
	t.Parallel()
	h := newHost(t, notInspected, notCleaned, withImage)
	first := h.provisioned().Status.TriedCredentials
	boots := len(h.machine.Boots())
	h.states()

	// The same name, other contents: Ironic ignores the space that we cut off.
	h.patchSecret(h.name+"-bmc", map[string]string{"password": h.machine.Password() + "\n"})
	second := h.wait("in step with the changed Secret", func(bmh *metal3.BareMetalHost) bool {
		return bmh.Status.TriedCredentials.Version != first.Version && bmh.Status.GoodCredentials.Version == bmh.Status.TriedCredentials.Version
	}).Status.TriedCredentials

	// Another Secret, and another password of the BMC.
	h.machine.SetPassword("another-password")
	h.secret("rotated", map[string]string{"username": h.machine.Username(), "password": h.machine.Password()})
	h.patch(`{"spec":{"bmc":{"credentialsName":"rotated"}}}`)
	h.wait("in step with the other Secret", func(bmh *metal3.BareMetalHost) bool {
		good := bmh.Status.GoodCredentials
		return good.Reference != nil && good.Reference.Name == "rotated" && good.Version != second.Version && bmh.Status.ErrorMessage == ""
	})
	old, err := s.Core.CoreV1().Secrets(h.ns).Get(h.ctx, h.name+"-bmc", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(old.Finalizers) != 0 {
		t.Errorf("the Secret that is no longer used is held back by %q", old.Finalizers)
	}
	h.provisioned()
	h.expectStates(metal3.StateProvisioned)
	h.wrote(1)
	if got := len(h.machine.Boots()); got != boots {
		t.Errorf("the machine booted %d times more", got-boots)
	}
	h.patch(`{"spec":{"online":false}}`)
	h.power(bmcsim.Off)
}

// As long as a host is registering, its BMC's address may be corrected; also to
// one that boots in another way.
func TestBMCAddressCorrected(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		address func(*bmcsim.Machine) string
	}{
		{"same driver", (*bmcsim.Machine).Address},
		{"virtual media", (*bmcsim.Machine).VirtualMediaAddress},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, notInspected, notCleaned, func(h *metal3.BareMetalHost, m *bmcsim.Machine) {
				h.Spec.BMC.Address = strings.Replace(m.Address(), m.Name(), "another", 1)
			})
			h.failed(metal3.RegistrationError, "")
			h.patch(`{"spec":{"bmc":{"address":%q}}}`, test.address(h.machine))
			h.triedAgain()
			h.available()
			node, err := s.ironic.Operator().Node(h.ctx, h.ns+"~"+h.name)
			if err != nil || node.DriverInfo["redfish_system_id"] != h.machine.SystemID() {
				t.Errorf("Ironic has %v: %v", node.DriverInfo, err)
			}
		})
	}
	t.Run("ipmi before", func(t *testing.T) {
		t.Parallel()
		h := newHost(t, notInspected, notCleaned, func(h *metal3.BareMetalHost, m *bmcsim.Machine) {
			h.Spec.BMC.Address = "ipmi://127.0.0.1:1"
		})
		h.failed(metal3.RegistrationError, "")
		h.patch(`{"spec":{"bmc":{"address":%q}}}`, h.machine.Address())
		h.triedAgain()
		h.available()
	})
}

// Two hosts with one MAC address: the second learns whose it is, and goes on when
// that one is gone.
func TestBootMACConflict(t *testing.T) {
	t.Parallel()
	first := newHost(t, notInspected, notCleaned)
	first.available()
	second := newHostIn(t, first.ctx, first.ns, "worker-1", notInspected, notCleaned, func(h *metal3.BareMetalHost, _ *bmcsim.Machine) {
		h.Spec.BootMACAddress = strings.ToUpper(first.machine.MAC())
	})
	bmh := second.failed(metal3.RegistrationError, "MAC address")
	for _, name := range []string{first.machine.MAC(), "host " + first.ns + "/" + first.name + " ", "host " + second.ns + "/" + second.name + " "} {
		if !strings.Contains(strings.ToLower(bmh.Status.ErrorMessage), name) {
			t.Errorf("the error does not name %s: %q", name, bmh.Status.ErrorMessage)
		}
	}
	if bmh := first.get(); bmh.Status.ErrorMessage != "" || bmh.Status.Provisioning.State != metal3.StateAvailable {
		t.Errorf("the first host is %s, error %q", bmh.Status.Provisioning.State, bmh.Status.ErrorMessage)
	}
	first.delete()
	first.gone()
	second.available()
}

// Ironic knows the machine by what the spec says of it.
func TestSpecReachesIronic(t *testing.T) {
	t.Parallel()
	h := newHost(t, notInspected, notCleaned, func(h *metal3.BareMetalHost, _ *bmcsim.Machine) {
		h.Spec.BootMode = metal3.Legacy
		h.Spec.Architecture = "aarch64"
		rotational := false
		h.Spec.RootDeviceHints = &metal3.RootDeviceHints{DeviceName: "/dev/nvme0n1", MinSizeGigabytes: 100, Rotational: &rotational}
	}, withImage)
	h.provisioned()
	node, err := s.ironic.Operator().Node(h.ctx, h.ns+"~"+h.name)
	if err != nil {
		t.Fatal(err)
	}
	if node.Properties["capabilities"] != "boot_mode:bios" || node.Properties["cpu_arch"] != "aarch64" {
		t.Errorf("properties are %v", node.Properties)
	}
	hints, _ := node.InstanceInfo["root_device"].(map[string]any)
	if hints["name"] != "s== /dev/nvme0n1" || hints["size"] != ">= 100" || hints["rotational"] != "false" {
		t.Errorf("root device hints are %v", hints)
	}
	if !slices.Contains(h.machine.Steps(), "deploy write_image") {
		t.Errorf("steps are %q", h.machine.Steps())
	}
}
