// SPDX-License-Identifier: Apache-2.0

package life

import (
	"net/http"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
)

// forgetsPower reports whether Ironic leaves a node that was deployed out of its power
// synchronisation: 29.0.5 does, since it was patched.
func (s *suite) forgetsPower() bool { return s.release == "trixie" }

// automatedClean is Ironic's own word.
func (h *host) automatedClean() bool {
	h.t.Helper()
	var node struct {
		AutomatedClean *bool `json:"automated_clean"`
	}
	if err := s.ironic.Operator().Do(h.ctx, http.MethodGet, "/v1/nodes/"+h.ns+"~"+h.name, nil, &node); err != nil {
		h.t.Fatal(err)
	}
	return node.AutomatedClean != nil && *node.AutomatedClean
}

// automatedCleaningMode reaches Ironic also while there is nothing else to do for the
// host, and that alone cleans nothing.
func TestCleaningModeOfAvailableHost(t *testing.T) {
	t.Parallel()
	h := newHost(t, notInspected, notCleaned)
	h.available()
	h.power(bmcsim.On) // while Ironic switches it on, the node is locked
	for _, mode := range []metal3.AutomatedCleaningMode{metal3.CleaningModeMetadata, metal3.CleaningModeDisabled} {
		wanted := mode != metal3.CleaningModeDisabled
		if h.automatedClean() == wanted {
			t.Fatalf("automated_clean is %t before the mode is %s", wanted, mode)
		}
		h.patch(`{"spec":{"automatedCleaningMode":%q}}`, mode)
		h.eventually(func() string {
			if h.automatedClean() != wanted {
				return "automated_clean does not follow the mode " + string(mode)
			}
			return ""
		})
		h.available()
	}
	if steps := h.machine.Steps(); len(steps) != 0 {
		t.Errorf("steps were done: %q", steps)
	}
}

// A host that we deployed comes back on, whoever has switched it off. It was written
// where the hardware profile says: it has no root device hints.
func TestSwitchedBehindOurBackWhenProvisioned(t *testing.T) {
	t.Parallel()
	h := newHost(t, notInspected, notCleaned, withImage)
	h.provisioned()
	node, err := s.ironic.Operator().Node(h.ctx, h.ns+"~"+h.name)
	if err != nil {
		t.Fatal(err)
	}
	if hints, _ := node.InstanceInfo["root_device"].(map[string]any); len(hints) != 1 || hints["name"] != "s== /dev/sda" {
		t.Errorf("root device hints are %v, want those of the profile unknown", node.InstanceInfo["root_device"])
	}
	h.states()
	back := func(how string, boots int) {
		t.Helper()
		h.wait("on again after it was switched off "+how, func(bmh *metal3.BareMetalHost) bool {
			return len(h.machine.Boots()) == boots+1 && bmh.Status.PoweredOn && bmh.Status.Ironic.TargetPowerState == ""
		})
	}
	boots := len(h.machine.Boots())
	if err := s.ironic.Operator().Power(h.ctx, node.UUID, "power off"); err != nil {
		t.Fatal(err)
	}
	back("in Ironic", boots)
	if !s.forgetsPower() {
		h.machine.SetPower(bmcsim.Off)
		back("by its button", boots+1)
	}
	h.provisioned()
	h.expectStates(metal3.StateProvisioned)
	h.wrote(1)
}

// A password that is wrong is told, costs a provisioned host nothing, and the right
// one mends it.
func TestWrongPasswordWhenProvisioned(t *testing.T) {
	t.Parallel()
	h := newHost(t, notInspected, notCleaned, withImage)
	first := h.provisioned().Status.TriedCredentials.Version
	boots := len(h.machine.Boots())
	h.states()
	h.patchSecret(h.name+"-bmc", map[string]string{"password": "not-the-password"})
	h.wait("in step with the Secret", func(bmh *metal3.BareMetalHost) bool {
		return bmh.Status.TriedCredentials.Version != first
	})
	if s.forgetsPower() { // nothing else makes this Ironic ask the BMC
		h.patch(`{"spec":{"online":false}}`)
	}
	bmh := h.failed(metal3.PowerManagementError, "")
	if bmh.Status.Provisioning.State != metal3.StateProvisioned || strings.Contains(bmh.Status.ErrorMessage, "not-the-password") {
		t.Errorf("in state %q the error is %q", bmh.Status.Provisioning.State, bmh.Status.ErrorMessage)
	}
	h.stays(4*time.Second, "provisioned, with the error", func(bmh *metal3.BareMetalHost) bool {
		return bmh.Status.Provisioning.State == metal3.StateProvisioned && bmh.Status.ErrorMessage != ""
	})
	h.patchSecret(h.name+"-bmc", map[string]string{"password": h.machine.Password()})
	if s.forgetsPower() {
		h.power(bmcsim.Off)
		h.patch(`{"spec":{"online":true}}`)
		boots++
	}
	h.provisioned()
	h.expectStates(metal3.StateProvisioned)
	h.wrote(1)
	if got := len(h.machine.Boots()); got != boots {
		t.Errorf("the machine booted %d times more", got-boots)
	}
}

// While a host is detached its BMC may move; it is attached at the new address.
func TestBMCAddressChangedWhileDetached(t *testing.T) {
	t.Parallel()
	h := newHost(t, notInspected, notCleaned, withImage)
	h.provisioned()
	boots := len(h.machine.Boots())
	h.states()
	h.annotate(metal3.DetachedAnnotation, "")
	h.detached(metal3.StateProvisioned)
	h.patch(`{"spec":{"bmc":{"address":%q}}}`, h.machine.VirtualMediaAddress())
	h.annotateNot(metal3.DetachedAnnotation)
	h.ironicIn(ironic.Active)
	h.provisioned()
	var node struct {
		BootInterface string `json:"boot_interface"`
	}
	if err := s.ironic.Operator().Do(h.ctx, http.MethodGet, "/v1/nodes/"+h.ns+"~"+h.name, nil, &node); err != nil {
		t.Fatal(err)
	}
	if node.BootInterface != "redfish-virtual-media" {
		t.Errorf("Ironic boots it by %q, want what the new address says", node.BootInterface)
	}
	h.expectStates(metal3.StateProvisioned)
	h.wrote(1)
	if got := len(h.machine.Boots()); got != boots {
		t.Errorf("the machine booted %d times more", got-boots)
	}
}

// A Secret that vanishes while the host is registering is told, and the host goes on
// when it is back.
func TestSecretVanishesWhileRegistering(t *testing.T) {
	t.Parallel()
	h := newHost(t, notInspected, notCleaned, faulty(bmcsim.RefuseConnections))
	h.failed(metal3.RegistrationError, "")
	name := h.name + "-bmc"
	secrets := s.Core.CoreV1().Secrets(h.ns)
	if err := secrets.Delete(h.ctx, name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	// The host holds it back by a finalizer; somebody does not care.
	h.eventually(func() string {
		_, err := secrets.Patch(h.ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return ""
		case err != nil:
			return err.Error()
		}
		return "Secret " + name + " is still there"
	})
	bmh := h.failed(metal3.RegistrationError, `Secret "`+name+`"`)
	if bmh.Status.Provisioning.State != metal3.StateRegistering {
		t.Errorf("state %q", bmh.Status.Provisioning.State)
	}
	h.mend(bmcsim.RefuseConnections)
	h.secret(name, map[string]string{"username": h.machine.Username(), "password": h.machine.Password()})
	h.triedAgain()
	h.available()
}

// A BMC that falls silent when the host is available, and while it is cleaned for its
// image: each is told, and is over when it answers again.
func TestBMCSilentUntilCleaned(t *testing.T) {
	t.Parallel()
	h := newHost(t, notInspected)
	h.available()
	silent := func(state metal3.ProvisioningState) {
		t.Helper()
		bmh := h.wait("shows an error", func(bmh *metal3.BareMetalHost) bool {
			return bmh.Status.OperationalStatus == metal3.OperationalStatusError
		})
		if bmh.Status.Provisioning.State != state || bmh.Status.ErrorMessage == "" {
			t.Errorf("%s: %q in state %q, want it in %q", bmh.Status.ErrorType, bmh.Status.ErrorMessage, bmh.Status.Provisioning.State, state)
		}
		h.mend(bmcsim.RefuseConnections)
	}
	h.fault(bmcsim.RefuseConnections)
	silent(metal3.StateAvailable)
	h.available()

	h.fault(bmcsim.SilentRamdisk)
	h.wantImage()
	h.ironicIn(ironic.CleanWait)
	h.fault(bmcsim.RefuseConnections)
	h.mend(bmcsim.SilentRamdisk)
	silent(metal3.StateProvisioning)
	h.provisioned()
	h.wrote(1)
}
