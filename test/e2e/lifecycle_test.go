package e2e

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

func TestEnrolAndDelete(t *testing.T) {
	ctx, ns := s.Begin(t)
	b := startBMC(t, ctx)
	createSecret(t, ctx, ns, "worker-0-bmc", "admin", "password")
	createHost(t, ctx, ns, "worker-0", b.Address(), "worker-0-bmc", "00:ab:4f:d8:9e:fa")

	host := waitAvailable(t, ctx, ns, "worker-0")
	if on, err := b.Power(); err != nil || !on || !host.Status.PoweredOn {
		t.Errorf("spec.online is true, status.poweredOn %t, and the machine is on: %t (%v)", host.Status.PoweredOn, on, err)
	}
	node, err := s.ironic.Operator().Node(ctx, host.Status.Provisioning.ID)
	if err != nil {
		t.Fatal(err)
	}
	if want := ns + "~worker-0"; node.Name != want || node.Driver != "ipmi" {
		t.Errorf("node is named %q with driver %q, want %q with ipmi", node.Name, node.Driver, want)
	}
	secret, err := s.Core.CoreV1().Secrets(ns).Get(ctx, "worker-0-bmc", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if secret.Labels["environment.metal3.io"] != "baremetal" || len(secret.OwnerReferences) != 1 || secret.OwnerReferences[0].UID != host.UID ||
		len(secret.Finalizers) != 1 || secret.Finalizers[0] != "baremetalhost.metal3.io/secret" {
		t.Errorf("the Secret is not claimed: %v", secret.ObjectMeta)
	}

	if err := s.Metal3.Metal3V1alpha1().BareMetalHosts(ns).Delete(ctx, "worker-0", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	waitGone(t, ctx, ns, "worker-0", 30*time.Second)
	if _, err := s.ironic.Operator().Node(ctx, node.UUID); err == nil {
		t.Errorf("node %s is still in Ironic", node.UUID)
	}
	if on, err := b.Power(); err != nil || on {
		t.Errorf("the machine of the deleted host is on: %t (%v)", on, err)
	}
}

func TestSecretMissingThenMended(t *testing.T) {
	ctx, ns := s.Begin(t)
	b := startBMC(t, ctx)
	createHost(t, ctx, ns, "worker-0", b.Address(), "creds", "")
	host := waitHost(t, ctx, ns, "worker-0", 10*time.Second, "complains about the Secret", func(h *metal3.BareMetalHost) bool {
		return h.Status.ErrorType == metal3.RegistrationError
	})
	if !strings.Contains(host.Status.ErrorMessage, `Secret "creds"`) || host.Status.Provisioning.State != metal3.StateRegistering || host.Status.OperationalStatus != metal3.OperationalStatusError {
		t.Errorf("state %q, status %q, message %q", host.Status.Provisioning.State, host.Status.OperationalStatus, host.Status.ErrorMessage)
	}
	// Incomplete: the message names the missing key and nothing of what is there.
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "creds"}, StringData: map[string]string{"username": "admin"}}
	if _, err := s.Core.CoreV1().Secrets(ns).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	waitHost(t, ctx, ns, "worker-0", 5*time.Second, "complains about the password", func(h *metal3.BareMetalHost) bool {
		return strings.Contains(h.Status.ErrorMessage, "password") && strings.Contains(h.Status.ErrorMessage, "creds")
	})
	patchSecret(t, ctx, ns, "creds", `{"stringData":{"password":"password"}}`)
	mended := time.Now()
	waitHost(t, ctx, ns, "worker-0", 5*time.Second, "recovers within 5 s of the Secret being mended", func(h *metal3.BareMetalHost) bool {
		return isVerified(h)
	})
	t.Logf("recovered %s after the Secret was mended", time.Since(mended).Round(time.Millisecond))
}

func TestWrongPasswordThenMended(t *testing.T) {
	ctx, ns := s.Begin(t)
	b := startBMC(t, ctx)
	createSecret(t, ctx, ns, "creds", "admin", "wrong")
	createHost(t, ctx, ns, "worker-0", b.Address(), "creds", "")
	waitHost(t, ctx, ns, "worker-0", 30*time.Second, "shows Ironic's words", func(h *metal3.BareMetalHost) bool {
		return h.Status.ErrorType == metal3.RegistrationError && strings.Contains(h.Status.ErrorMessage, "IPMI call failed")
	})
	patchSecret(t, ctx, ns, "creds", `{"stringData":{"password":"password"}}`)
	mended := time.Now()
	waitHost(t, ctx, ns, "worker-0", 5*time.Second, "recovers within 5 s of the Secret being mended", func(h *metal3.BareMetalHost) bool {
		return isVerified(h)
	})
	t.Logf("recovered %s after the Secret was mended", time.Since(mended).Round(time.Millisecond))
}

// TestBMCAwayWhileRegistering is the lab guide's story: an unreachable BMC shows
// in the list with Ironic's own words, and the host recovers by itself.
func TestBMCAwayWhileRegistering(t *testing.T) {
	ctx, ns := s.Begin(t)
	b := startBMC(t, ctx)
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	createSecret(t, ctx, ns, "creds", "admin", "password")
	createHost(t, ctx, ns, "openshift-master-0", b.Address(), "creds", "")
	host := waitHost(t, ctx, ns, "openshift-master-0", 30*time.Second, "shows the error", func(h *metal3.BareMetalHost) bool {
		return h.Status.OperationalStatus == metal3.OperationalStatusError
	})
	want := "Failed to get power state for node " + host.Status.Provisioning.ID + ". Error: IPMI call failed: power status."
	if host.Status.ErrorMessage != want {
		t.Errorf("message is %q, want %q", host.Status.ErrorMessage, want)
	}
	if host.Status.ErrorType != metal3.RegistrationError || host.Status.Provisioning.State != metal3.StateRegistering {
		t.Errorf("error type %q in state %q", host.Status.ErrorType, host.Status.Provisioning.State)
	}
	if err := b.Start(ctx); err != nil {
		t.Fatal(err)
	}
	back := time.Now()
	waitHost(t, ctx, ns, "openshift-master-0", 30*time.Second, "recovers within 30 s of the BMC answering", func(h *metal3.BareMetalHost) bool {
		return h.Status.OperationalStatus == metal3.OperationalStatusOK && isVerified(h)
	})
	t.Logf("recovered %s after the BMC answered again", time.Since(back).Round(time.Millisecond))
}

// TestBMCGoesAway: the BMC of a registered host dies. Ironic's power sync notices
// and puts the node in maintenance with a fault; both end when the BMC is back.
func TestBMCGoesAway(t *testing.T) {
	ctx, ns := s.Begin(t)
	b := startBMC(t, ctx)
	createSecret(t, ctx, ns, "creds", "admin", "password")
	createHost(t, ctx, ns, "worker-0", b.Address(), "creds", "")
	waitAvailable(t, ctx, ns, "worker-0")
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	host := waitHost(t, ctx, ns, "worker-0", time.Minute, "shows the fault", func(h *metal3.BareMetalHost) bool {
		return h.Status.OperationalStatus == metal3.OperationalStatusError
	})
	if host.Status.ErrorType != metal3.PowerManagementError || !strings.Contains(host.Status.ErrorMessage, "IPMI call failed: power status.") || host.Status.Ironic.Fault != "power failure" {
		t.Errorf("error type %q, message %q, fault %q", host.Status.ErrorType, host.Status.ErrorMessage, host.Status.Ironic.Fault)
	}
	if err := b.Start(ctx); err != nil {
		t.Fatal(err)
	}
	waitHost(t, ctx, ns, "worker-0", time.Minute, "is well again", func(h *metal3.BareMetalHost) bool {
		return h.Status.OperationalStatus == metal3.OperationalStatusOK && h.Status.ErrorMessage == "" && h.Status.ErrorCount == 0 && h.Status.Ironic.Fault == ""
	})
}

// TestRedfishHost: Ironic accepts what we tell it of a Redfish BMC, and its error
// shows when there is none at the address.
func TestRedfishHost(t *testing.T) {
	ctx, ns := s.Begin(t)
	createSecret(t, ctx, ns, "creds", "admin", "password")
	createHost(t, ctx, ns, "worker-0", "redfish-virtualmedia+http://127.0.0.1:9/redfish/v1/Systems/1", "creds", "52:54:00:77:00:21")
	host := waitHost(t, ctx, ns, "worker-0", 90*time.Second, "shows Ironic's error", func(h *metal3.BareMetalHost) bool {
		return h.Status.ErrorType == metal3.RegistrationError
	})
	node, err := s.ironic.Operator().Node(ctx, host.Status.Provisioning.ID)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"redfish_address": "http://127.0.0.1:9", "redfish_system_id": "/redfish/v1/Systems/1", "redfish_username": "admin", "redfish_password": "******",
	}
	for key, value := range want {
		if node.DriverInfo[key] != value {
			t.Errorf("driver_info.%s is %v, want %v", key, node.DriverInfo[key], value)
		}
	}
	if node.Driver != "redfish" {
		t.Errorf("driver is %q", node.Driver)
	}
	t.Logf("Ironic says: %s", host.Status.ErrorMessage)
}

func TestTwoHostsWithOneMAC(t *testing.T) {
	ctx, ns := s.Begin(t)
	b := startBMC(t, ctx)
	createSecret(t, ctx, ns, "creds", "admin", "password")
	createHost(t, ctx, ns, "first", b.Address(), "creds", "52:54:00:77:00:01")
	waitAvailable(t, ctx, ns, "first")
	createHost(t, ctx, ns, "second", b.Address(), "creds", "52:54:00:77:00:01")
	waitHost(t, ctx, ns, "second", 15*time.Second, "names the MAC and both hosts", func(h *metal3.BareMetalHost) bool {
		return h.Status.ErrorType == metal3.RegistrationError && strings.Contains(h.Status.ErrorMessage, "52:54:00:77:00:01") && strings.Contains(h.Status.ErrorMessage, ns+"/first") && strings.Contains(h.Status.ErrorMessage, ns+"/second")
	})
}

func TestHostWithoutBMCIsUnmanaged(t *testing.T) {
	ctx, ns := s.Begin(t)
	createHost(t, ctx, ns, "found", "", "", "52:54:00:77:00:09")
	waitHost(t, ctx, ns, "found", 10*time.Second, "is unmanaged", func(h *metal3.BareMetalHost) bool {
		return h.Status.Provisioning.State == metal3.StateUnmanaged && h.Status.OperationalStatus == metal3.OperationalStatusDiscovered
	})
	b := startBMC(t, ctx)
	createSecret(t, ctx, ns, "creds", "admin", "password")
	patchHost(t, ctx, ns, "found", `{"spec":{"bmc":{"address":"`+b.Address()+`","credentialsName":"creds"}}}`)
	waitAvailable(t, ctx, ns, "found")
}

func TestPausedHostIsLeftAlone(t *testing.T) {
	ctx, ns := s.Begin(t)
	b := startBMC(t, ctx)
	createSecret(t, ctx, ns, "creds", "admin", "password")
	createHost(t, ctx, ns, "worker-0", b.Address(), "creds", "")
	host := waitAvailable(t, ctx, ns, "worker-0")
	patchHost(t, ctx, ns, "worker-0", `{"metadata":{"annotations":{"baremetalhost.metal3.io/paused":"metal3.io/capm3"}}}`)
	if err := s.Metal3.Metal3V1alpha1().BareMetalHosts(ns).Delete(ctx, "worker-0", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	// A host that comes and goes after it shows that the queue went past it.
	createHost(t, ctx, ns, "other", b.Address(), "creds", "")
	waitAvailable(t, ctx, ns, "other")
	if _, err := s.ironic.Operator().Node(ctx, host.Status.Provisioning.ID); err != nil {
		t.Errorf("the node of a paused host: %v", err)
	}
	patchHost(t, ctx, ns, "worker-0", `{"metadata":{"annotations":{"baremetalhost.metal3.io/paused":null}}}`)
	waitGone(t, ctx, ns, "worker-0", 15*time.Second)
}

func TestNodeLostIsRegisteredAgain(t *testing.T) {
	ctx, ns := s.Begin(t)
	b := startBMC(t, ctx)
	createSecret(t, ctx, ns, "creds", "admin", "password")
	createHost(t, ctx, ns, "worker-0", b.Address(), "creds", "52:54:00:77:00:11")
	host := waitAvailable(t, ctx, ns, "worker-0")
	if err := s.ironic.Operator().DeleteNode(ctx, host.Status.Provisioning.ID); err != nil {
		t.Fatal(err)
	}
	lost := getHost(t, ctx, ns, "worker-0")
	if lost.Status.Ironic != nil {
		t.Errorf("right after the loss the host shows %+v", lost.Status.Ironic)
	}
	again := waitAvailable(t, ctx, ns, "worker-0")
	if again.Status.Provisioning.ID != host.Status.Provisioning.ID {
		t.Errorf("node %s came back as %s", host.Status.Provisioning.ID, again.Status.Provisioning.ID)
	}
}

func TestDeleteWhenTheNodeIsGone(t *testing.T) {
	ctx, ns := s.Begin(t)
	host := fakeHost(t, ctx, ns, "worker-0")
	patchHost(t, ctx, ns, "worker-0", `{"metadata":{"annotations":{"baremetalhost.metal3.io/paused":"test"}}}`)
	if err := s.ironic.Operator().DeleteNode(ctx, host.Status.Provisioning.ID); err != nil {
		t.Fatal(err)
	}
	if err := s.Metal3.Metal3V1alpha1().BareMetalHosts(ns).Delete(ctx, "worker-0", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	patchHost(t, ctx, ns, "worker-0", `{"metadata":{"annotations":{"baremetalhost.metal3.io/paused":null}}}`)
	waitGone(t, ctx, ns, "worker-0", 10*time.Second)
}

func TestDeleteWhileIronicIsDown(t *testing.T) {
	ctx, ns := s.Begin(t)
	host := fakeHost(t, ctx, ns, "worker-0")
	if err := s.ironic.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := s.Metal3.Metal3V1alpha1().BareMetalHosts(ns).Delete(ctx, "worker-0", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	// Still there, and readable, while its node cannot be removed.
	if h := getHost(t, ctx, ns, "worker-0"); h.DeletionTimestamp == nil {
		t.Error("the host is not being deleted")
	}
	if err := s.ironic.Start(ctx); err != nil {
		t.Fatal(err)
	}
	back := time.Now()
	waitGone(t, ctx, ns, "worker-0", 30*time.Second)
	t.Logf("gone %s after Ironic was back", time.Since(back).Round(time.Millisecond))
	if _, err := s.ironic.Operator().Node(ctx, host.Status.Provisioning.ID); !testbed.IsNotFound(err) {
		t.Errorf("the node: %v, want not found", err)
	}
}

func TestDeleteNamespace(t *testing.T) {
	ctx, ns := s.Begin(t)
	for _, name := range []string{"a", "b", "c"} {
		fakeHost(t, ctx, ns, name)
	}
	if err := s.Core.CoreV1().Namespaces().Delete(ctx, ns, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	eventually(t, ctx, 90*time.Second, func() string {
		left, err := s.Core.CoreV1().Namespaces().Get(ctx, ns, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return ""
		}
		if err != nil {
			return err.Error()
		}
		return "namespace is still there: " + left.String()
	})
	t.Logf("namespace with three hosts and their Secret gone after %s", time.Since(began).Round(time.Millisecond))
	nodes, err := s.ironic.Operator().Nodes(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		if strings.HasPrefix(n.Name, ns+"~") {
			t.Errorf("node %s is left", n.Name)
		}
	}
}
