// SPDX-License-Identifier: Apache-2.0

package life

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// goes deletes a host and asserts what has to be true afterwards, whatever it was
// in before: nothing of it in Ironic, its Secret free, the machine off.
func (h *host) goes() {
	h.t.Helper()
	h.delete()
	h.isGone()
}

func (h *host) isGone() {
	h.t.Helper()
	h.gone()
	if _, err := s.ironic.Operator().Node(h.ctx, h.ns+"~"+h.name); !testbed.IsNotFound(err) {
		h.t.Errorf("Ironic still has its node: %v", err)
	}
	if h.machine.Power() != bmcsim.Off {
		h.t.Errorf("the machine is on and runs %v", h.machine.Running())
	}
	secret, err := s.Core.CoreV1().Secrets(h.ns).Get(h.ctx, h.name+"-bmc", metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		h.t.Error(err)
	case len(secret.Finalizers) != 0:
		h.t.Errorf("the Secret is held back by %q", secret.Finalizers)
	}
}

func TestDeleteWhileRegistering(t *testing.T) {
	t.Parallel()
	for _, fault := range []bmcsim.Fault{bmcsim.RefuseConnections, bmcsim.HangConnections, bmcsim.WrongPassword} {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			needsTimeouts(t, fault)
			h := newHost(t, faulty(fault))
			h.wait("known to Ironic", func(bmh *metal3.BareMetalHost) bool { return bmh.Status.Ironic != nil })
			h.goes()
		})
	}
	t.Run("no Secret", func(t *testing.T) {
		t.Parallel()
		h := newHost(t, withSecret("none"))
		h.failed(metal3.RegistrationError, "none")
		h.goes()
	})
}

func TestDeleteWhileInspecting(t *testing.T) {
	t.Parallel()
	needsInspection(t)
	h := newHost(t, faulty(bmcsim.SilentInspection))
	h.ironicIn(ironic.InspectWait)
	h.goes()
}

func TestDeleteWhileCleaned(t *testing.T) {
	t.Parallel()
	h := newHost(t, faulty(bmcsim.SilentRamdisk), notInspected, withImage)
	h.ironicIn(ironic.CleanWait)
	h.mend(bmcsim.SilentRamdisk)
	h.goes()
	h.wrote(0)
}

func TestDeleteWhenAvailable(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.available()
	h.states()
	h.goes()
	h.wrote(0)
	if got := h.states(); slices.Contains(got, metal3.StateDeprovisioning) {
		t.Errorf("the watcher saw %q", got)
	}
	// Kubernetes' garbage collector takes what the host owns; it is in no hurry.
	h.eventually(func() string {
		if _, err := s.Core.CoreV1().Secrets(h.ns).Get(h.ctx, h.name+"-bmc", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return "its Secret is still there"
		}
		if _, err := s.Metal3.Metal3V1alpha1().HardwareData(h.ns).Get(h.ctx, h.name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return "its HardwareData is still there"
		}
		return ""
	})
}

func TestDeleteWhileDeploying(t *testing.T) {
	t.Parallel()
	h := newHost(t, notInspected)
	h.available()
	h.deploying()
	h.goes()
	h.wrote(0)
}

func TestDeleteWhenProvisioned(t *testing.T) {
	t.Parallel()
	h := newHost(t, notInspected, withImage)
	h.provisioned()
	steps := len(h.machine.Steps())
	h.states()
	h.goes()
	if done := h.machine.Steps()[steps:]; !slices.Contains(done, "clean erase_devices_metadata") {
		t.Errorf("the disks of a deleted host were not cleaned: %q", done)
	}
	h.expectStates(metal3.StateProvisioned, metal3.StateDeprovisioning, metal3.StatePoweringOffBeforeDelete, metal3.StateDeleting)
}

func TestDeleteWhileDeprovisioning(t *testing.T) {
	t.Parallel()
	h := newHost(t, notInspected, withImage)
	h.provisioned()
	h.fault(bmcsim.SilentRamdisk)
	h.patch(`{"spec":{"image":null}}`)
	h.ironicIn(ironic.CleanWait)
	h.delete()
	h.mend(bmcsim.SilentRamdisk)
	h.isGone()
}

func TestDeleteAfterErrors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		fault bmcsim.Fault
		kind  metal3.ErrorType
		with  []option
	}{
		{bmcsim.InspectionFails, metal3.InspectionError, nil},
		{bmcsim.CleanStepFails, metal3.ProvisioningError, []option{notInspected, withImage}},
		{bmcsim.DeployStepFails, metal3.ProvisioningError, []option{notInspected, notCleaned, withImage}},
	} {
		t.Run(string(test.fault), func(t *testing.T) {
			t.Parallel()
			if test.fault == bmcsim.InspectionFails {
				needsInspection(t)
			}
			h := newHost(t, append(test.with, faulty(test.fault))...)
			h.failed(test.kind, "simulated fault")
			h.goes()
		})
	}
}

// A machine whose BMC is out of reach cannot be cleaned: the deletion gives up.
func TestDeleteWithSilentBMC(t *testing.T) {
	t.Parallel()
	h := newHost(t, notInspected, notCleaned, withImage)
	h.provisioned()
	h.fault(bmcsim.RefuseConnections)
	h.delete()
	h.gone()
}

// Cleaning that fails does not keep a host for ever.
func TestDeleteWithFailingCleaning(t *testing.T) {
	t.Parallel()
	h := newHost(t, notInspected, withImage)
	h.provisioned()
	h.fault(bmcsim.CleanStepFails)
	h.delete()
	h.wait("shows why", func(bmh *metal3.BareMetalHost) bool { return bmh.Status.ErrorType == metal3.ProvisioningError })
	h.mend(bmcsim.CleanStepFails)
	h.retry()
	h.isGone()
}

func TestDeleteWithoutSecret(t *testing.T) {
	t.Parallel()
	h := newHost(t, notInspected, withImage)
	h.provisioned()
	secrets := s.Core.CoreV1().Secrets(h.ns)
	if err := secrets.Delete(h.ctx, h.name+"-bmc", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	// Its finalizer would keep it until the host is gone.
	if _, err := secrets.Patch(h.ctx, h.name+"-bmc", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	h.goes()
}

// A namespace goes with all that is in it, and its machines are cleaned.
func TestDeleteNamespace(t *testing.T) {
	t.Parallel()
	h := newHost(t, withImage)
	other := newHostIn(t, h.ctx, h.ns, "worker-1", faulty(bmcsim.RefuseConnections))
	h.provisioned()
	steps := len(h.machine.Steps())
	if err := s.Core.CoreV1().Namespaces().Delete(h.ctx, h.ns, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	h.isGone()
	other.isGone()
	if done := h.machine.Steps()[steps:]; !slices.Contains(done, "clean erase_devices_metadata") {
		t.Errorf("the disks of a deleted host were not cleaned: %q", done)
	}
	h.eventually(func() string {
		ns, err := s.Core.CoreV1().Namespaces().Get(h.ctx, h.ns, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return ""
		}
		return "the namespace is still there: " + ns.Status.String()
	})
}

// A host whose deployment cannot begin goes like an available one.
func TestDeleteBlockedDeployment(t *testing.T) {
	t.Parallel()
	h := newHost(t, notInspected, notCleaned, withImage, func(h *metal3.BareMetalHost, _ *bmcsim.Machine) {
		h.Spec.UserData = &corev1.SecretReference{Name: "never"}
	})
	h.failed(metal3.ProvisioningError, `Secret "never"`)
	h.goes()
}

// A host that must not be switched off stays on.
func TestDeleteWithoutPowerOff(t *testing.T) {
	t.Parallel()
	if s.release == "bookworm" {
		t.Skip("Ironic 21.4 knows no disable_power_off")
	}
	h := newHost(t, external, runsAlready, func(h *metal3.BareMetalHost, _ *bmcsim.Machine) { h.Spec.DisablePowerOff = true })
	h.in(metal3.StateExternallyProvisioned)
	h.delete()
	h.gone()
	h.nodeGone()
	h.untouched()
	if h.machine.Power() != bmcsim.On {
		t.Error("the machine was switched off")
	}
}
