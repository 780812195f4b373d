// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

func startBMC(t *testing.T, ctx context.Context) bmc {
	t.Helper()
	b, err := bed(ctx).ironic.StartBMC(ctx, "admin", "password")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func createSecret(t *testing.T, ctx context.Context, ns, name, user, password string) {
	t.Helper()
	s.CreateSecret(t, ctx, ns, name, map[string]string{"username": user, "password": password})
}

// createHost makes a host that becomes available without booting a ramdisk, which
// no machine here can on a real Ironic: it is neither inspected nor cleaned. change,
// if any, has the last word.
func createHost(t *testing.T, ctx context.Context, ns, name, address, secret, mac string, change ...func(*metal3.BareMetalHost)) *metal3.BareMetalHost {
	t.Helper()
	if mac == "" && address != "" {
		mac = testbed.NewMAC() // needed where nothing is inspected
	}
	host := &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: metal3.BareMetalHostSpec{
		Online: true, BootMACAddress: mac, BMC: metal3.BMCDetails{Address: address, CredentialsName: secret},
		InspectionMode: metal3.InspectionModeDisabled, AutomatedCleaningMode: metal3.CleaningModeDisabled,
	}}
	for _, c := range change {
		c(host)
	}
	created, err := bed(ctx).Hosts(ns).Create(ctx, host, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created
}

// wholeLife has a host inspected and cleaned, as hosts are by default.
func wholeLife(h *metal3.BareMetalHost) {
	h.Spec.InspectionMode, h.Spec.AutomatedCleaningMode = "", ""
}

func waitGone(t *testing.T, ctx context.Context, ns, name string) {
	t.Helper()
	testbed.Eventually(t, ctx, func() string {
		host, err := bed(ctx).Hosts(ns).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return ""
		}
		if err != nil {
			return err.Error()
		}
		return fmt.Sprintf("host %s is still there: %s, finalizers %v, Ironic %+v", name, host.Status.Provisioning.State, host.Finalizers, host.Status.Ironic)
	})
}

// fakeHost makes a host of a node that is in Ironic already, with the
// fake-hardware driver: its power and its transitions take milliseconds, on a real
// Ironic too. The host takes the node over by its name and the address of its BMC.
func fakeHost(t *testing.T, ctx context.Context, ns, name string) *metal3.BareMetalHost {
	t.Helper()
	bmc := name + "." + ns + ".example.org"
	if _, err := bed(ctx).ironic.Operator().CreateNode(ctx, fakeNode(ns, name, bmc)); err != nil {
		t.Fatal(err)
	}
	createSecretOnce(t, ctx, ns, "bmc")
	createHost(t, ctx, ns, name, "ipmi://"+bmc, "bmc", "", wholeLife)
	return waitAvailable(t, ctx, ns, name)
}

// fakeNode is a node for a host, with the fake-hardware driver. That driver asks no BMC; the server goes by the address.
func fakeNode(ns, name, bmc string) map[string]any {
	return map[string]any{"name": ns + "~" + name, "driver": "fake-hardware", "driver_info": map[string]any{"ipmi_address": bmc, "ipmi_port": "623"}}
}

// waitAvailable waits until a new host has arrived: available, its power as the
// spec wants it, nothing under way.
func waitAvailable(t *testing.T, ctx context.Context, ns, name string) *metal3.BareMetalHost {
	t.Helper()
	return bed(ctx).WaitHost(t, ctx, ns, name, "is available", func(h *metal3.BareMetalHost) bool {
		return h.Status.Provisioning.State == metal3.StateAvailable && isAtRest(h)
	})
}

// waitState waits until a host is at rest in a state.
func waitState(t *testing.T, ctx context.Context, ns, name string, state metal3.ProvisioningState) *metal3.BareMetalHost {
	t.Helper()
	return bed(ctx).WaitHost(t, ctx, ns, name, "is "+string(state), func(h *metal3.BareMetalHost) bool {
		return h.Status.Provisioning.State == state && isAtRest(h)
	})
}

// runningHost makes a host of a machine that runs already, and waits until it is
// taken over as it is.
func runningHost(t *testing.T, ctx context.Context, ns, name string, b bmc) *metal3.BareMetalHost {
	t.Helper()
	createSecretOnce(t, ctx, ns, "bmc")
	if err := b.SetPower(true); err != nil {
		t.Fatal(err)
	}
	createHost(t, ctx, ns, name, b.Address(), "bmc", "", func(h *metal3.BareMetalHost) { h.Spec.ExternallyProvisioned = true })
	return waitState(t, ctx, ns, name, metal3.StateExternallyProvisioned)
}

// isOn asserts whether the machine itself is on.
func isOn(t *testing.T, b bmc, want bool) {
	t.Helper()
	if on, err := b.Power(); err != nil || on != want {
		t.Errorf("the machine is on: %t (%v), want %t", on, err, want)
	}
}

// isVerified reports whether Ironic has access to the BMC of a new host.
func isVerified(h *metal3.BareMetalHost) bool {
	return h.Status.Ironic != nil && h.Status.ErrorMessage == "" &&
		(h.Status.Ironic.ProvisionState == "manageable" || h.Status.Ironic.ProvisionState == "available")
}

// isAtRest reports whether a host is where its way through Ironic ends for a while, all is
// well with it and nothing is under way. The power of a fake-hardware node is not known
// until it has been switched.
func isAtRest(h *metal3.BareMetalHost) bool {
	i := h.Status.Ironic
	return i != nil && isResting(h.Status.Provisioning.State, i.ProvisionState) && i.TargetPowerState == "" && i.Reservation == "" &&
		h.Status.OperationalStatus == metal3.OperationalStatusOK && h.Status.ErrorMessage == "" &&
		(i.PowerState == "" || h.Status.PoweredOn == h.Spec.Online)
}

// isResting reports whether a node is where that of a host in a state rests. The node of
// an available host is available once it was cleaned, and manageable before.
func isResting(host metal3.ProvisioningState, node string) bool {
	return node == "available" || node == "active" || host == metal3.StateAvailable && node == "manageable"
}

func createSecretOnce(t *testing.T, ctx context.Context, ns, name string) {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: map[string]string{"username": "admin", "password": "password"}}
	if _, err := s.Core.CoreV1().Secrets(ns).Create(ctx, secret, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

// waitNode waits for Ironic's own word, past our server.
func waitNode(t *testing.T, ctx context.Context, id string, wanted func(testbed.Node) bool) testbed.Node {
	t.Helper()
	node, err := bed(ctx).ironic.Operator().WaitNode(ctx, id, wanted)
	if err != nil {
		t.Fatal(err)
	}
	return node
}
