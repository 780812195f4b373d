package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

const (
	imageURL  = "http://192.0.2.1/image.qcow2"
	wantImage = `{"spec":{"image":{"url":"` + imageURL + `","checksum":"` + imageURL + `.sha256sum"}}}`
	noImage   = `{"spec":{"image":null}}`
)

// waitState waits until a host is at rest in a state.
func waitState(t *testing.T, ctx context.Context, ns, name string, state metal3.ProvisioningState) *metal3.BareMetalHost {
	t.Helper()
	return waitHost(t, ctx, ns, name, 30*time.Second, "is "+string(state), func(h *metal3.BareMetalHost) bool {
		return h.Status.Provisioning.State == state && isAtRest(h)
	})
}

func deleteHost(t *testing.T, ctx context.Context, ns, name string) {
	t.Helper()
	if err := s.Metal3.Metal3V1alpha1().BareMetalHosts(ns).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// watched is what a watcher of one namespace with one host was told.
type watched struct {
	mu    sync.Mutex
	hosts []*metal3.BareMetalHost
}

// watchHosts records the hosts of a namespace until the test ends.
func watchHosts(t *testing.T, ctx context.Context, ns string) *watched {
	t.Helper()
	watcher, err := s.Metal3.Metal3V1alpha1().BareMetalHosts(ns).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w := &watched{}
	var following sync.WaitGroup
	following.Go(func() {
		for event := range watcher.ResultChan() {
			if host, ok := event.Object.(*metal3.BareMetalHost); ok && event.Type != watch.Bookmark {
				w.mu.Lock()
				w.hosts = append(w.hosts, host)
				w.mu.Unlock()
			}
		}
	})
	t.Cleanup(func() { watcher.Stop(); following.Wait() })
	return w
}

// changes are the values of what, in order and each once in a row.
func changes[T comparable](w *watched, what func(*metal3.BareMetalHost) T) []T {
	w.mu.Lock()
	defer w.mu.Unlock()
	var values []T
	for _, host := range w.hosts {
		values = append(values, what(host))
	}
	return slices.Compact(values)
}

// sawStates waits until the watcher was told of just these states, in order.
func sawStates(t *testing.T, ctx context.Context, w *watched, want ...metal3.ProvisioningState) {
	t.Helper()
	eventually(t, ctx, 10*time.Second, func() string {
		got := changes(w, func(h *metal3.BareMetalHost) metal3.ProvisioningState { return h.Status.Provisioning.State })
		if len(got) > 0 && got[0] == metal3.StateNone {
			got = got[1:]
		}
		if slices.Equal(got, want) {
			return ""
		}
		return "a watcher saw the states " + quoted(got) + ", want " + quoted(want)
	})
}

func quoted(states []metal3.ProvisioningState) string {
	var words []string
	for _, state := range states {
		words = append(words, `"`+string(state)+`"`)
	}
	return strings.Join(words, ", ")
}

// hasEvents waits until kubectl describe shows an event of each reason for a host.
func hasEvents(t *testing.T, ctx context.Context, ns, name string, reasons ...string) {
	t.Helper()
	eventually(t, ctx, 15*time.Second, func() string {
		out := kubectl(t, ctx, "", "describe", "bmh", name, "-n", ns)
		_, events, _ := strings.Cut(out, "\nEvents:")
		for _, reason := range reasons {
			if !slices.Contains(strings.Fields(events), reason) {
				return "kubectl describe shows no event " + reason + ":\n" + events
			}
		}
		return ""
	})
}

// TestLife takes a host through its whole life as a user does, and asserts what a
// watcher is told of it, with no state skipped.
func TestLife(t *testing.T) {
	ctx, ns := s.Begin(t)
	w := watchHosts(t, ctx, ns)
	host := fakeHost(t, ctx, ns, "worker-0")
	id := host.Status.Provisioning.ID
	if host.Status.HardwareProfile != "unknown" {
		t.Errorf("hardware profile is %q", host.Status.HardwareProfile)
	}
	sawStates(t, ctx, w, metal3.StateRegistering, metal3.StateInspecting, metal3.StatePreparing, metal3.StateAvailable)

	createSecretData(t, ctx, ns, "user-data", map[string]string{"userData": "#cloud-config\n"})
	patchHost(t, ctx, ns, "worker-0", `{"spec":{"userData":{"name":"user-data"}}}`)
	patchHost(t, ctx, ns, "worker-0", wantImage)
	host = waitState(t, ctx, ns, "worker-0", metal3.StateProvisioned)
	if got := host.Status.Provisioning.Image.URL; got != imageURL {
		t.Errorf("status.provisioning.image.url is %q", got)
	}
	if h := host.Status.OperationHistory.Provision; h.Start.IsZero() || h.End.IsZero() {
		t.Errorf("history of provisioning: %+v", h)
	}
	node := waitNode(t, ctx, id, func(n testbed.Node) bool { return n.ProvisionState == "active" })
	if node.InstanceInfo["image_source"] != imageURL || node.InstanceInfo["configdrive"] == nil || node.InstanceUUID != string(host.UID) {
		t.Errorf("Ironic was told %v and instance %q", node.InstanceInfo, node.InstanceUUID)
	}
	for _, condition := range []string{"Provisioned", "Ready"} {
		kubectl(t, ctx, "", "wait", "bmh/worker-0", "-n", ns, "--for=condition="+condition, "--timeout=10s")
	}

	patchHost(t, ctx, ns, "worker-0", noImage)
	host = waitState(t, ctx, ns, "worker-0", metal3.StateAvailable)
	if got := host.Status.Provisioning.Image.URL; got != "" || host.Status.OperationHistory.Deprovision.End.IsZero() {
		t.Errorf("after deprovisioning: image %q, history %+v", got, host.Status.OperationHistory.Deprovision)
	}
	if node := waitNode(t, ctx, id, func(n testbed.Node) bool { return n.ProvisionState == "available" }); node.InstanceUUID != "" || len(node.InstanceInfo) > 0 {
		t.Errorf("Ironic still has %v, instance %q", node.InstanceInfo, node.InstanceUUID)
	}
	hasEvents(t, ctx, ns, "worker-0", "BMCAccessValidated", "Registered", "InspectionStarted", "InspectionComplete", "ProfileSet",
		"ProvisioningStarted", "ProvisioningComplete", "DeprovisioningStarted", "DeprovisioningComplete")
	deleteHost(t, ctx, ns, "worker-0")
	waitGone(t, ctx, ns, "worker-0", 30*time.Second)
	sawStates(t, ctx, w, metal3.StateRegistering, metal3.StateInspecting, metal3.StatePreparing, metal3.StateAvailable,
		metal3.StateProvisioning, metal3.StateProvisioned, metal3.StateDeprovisioning, metal3.StateAvailable,
		metal3.StatePoweringOffBeforeDelete, metal3.StateDeleting)
}

func createSecretData(t *testing.T, ctx context.Context, ns, name string, data map[string]string) {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: data}
	if _, err := s.Core.CoreV1().Secrets(ns).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestDeleteProvisionedHost: nothing is left on its disks, nor of it in Ironic.
func TestDeleteProvisionedHost(t *testing.T) {
	ctx, ns := s.Begin(t)
	host := fakeHost(t, ctx, ns, "worker-0")
	patchHost(t, ctx, ns, "worker-0", wantImage)
	waitState(t, ctx, ns, "worker-0", metal3.StateProvisioned)
	w := watchHosts(t, ctx, ns)
	deleteHost(t, ctx, ns, "worker-0")
	waitGone(t, ctx, ns, "worker-0", 30*time.Second)
	sawStates(t, ctx, w, metal3.StateProvisioned, metal3.StateDeprovisioning, metal3.StatePoweringOffBeforeDelete, metal3.StateDeleting)
	if _, err := s.ironic.Operator().Node(ctx, host.Status.Provisioning.ID); !testbed.IsNotFound(err) {
		t.Errorf("the node: %v, want not found", err)
	}
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

// powers are the power states that a watcher was told of.
func powers(w *watched) []bool {
	return changes(w, func(h *metal3.BareMetalHost) bool { return h.Status.PoweredOn })
}

// isOn asserts whether the machine itself is on.
func isOn(t *testing.T, b bmc, want bool) {
	t.Helper()
	if on, err := b.Power(); err != nil || on != want {
		t.Errorf("the machine is on: %t (%v), want %t", on, err, want)
	}
}

// TestExternallyProvisioned: a machine that runs is adopted and left running; when
// it is not said to be provisioned elsewhere any more, it becomes one of ours.
func TestExternallyProvisioned(t *testing.T) {
	ctx, ns := s.Begin(t)
	b := startBMC(t, ctx)
	w := watchHosts(t, ctx, ns)
	host := runningHost(t, ctx, ns, "worker-0", b)
	isOn(t, b, true)
	node := waitNode(t, ctx, host.Status.Provisioning.ID, func(n testbed.Node) bool { return n.ProvisionState == "active" })
	if !host.Status.OperationHistory.Provision.Start.IsZero() || node.InstanceInfo["image_source"] != nil {
		t.Errorf("it was provisioned: %+v, %v", host.Status.OperationHistory.Provision, node.InstanceInfo)
	}
	if got := powers(w); !slices.Equal(got, []bool{false, true}) { // false: not known yet
		t.Errorf("a watcher saw its power %v", got)
	}
	sawStates(t, ctx, w, metal3.StateRegistering, metal3.StateExternallyProvisioned)
	patchHost(t, ctx, ns, "worker-0", `{"spec":{"externallyProvisioned":false}}`)
	waitState(t, ctx, ns, "worker-0", metal3.StateAvailable)
	sawStates(t, ctx, w, metal3.StateRegistering, metal3.StateExternallyProvisioned, metal3.StateDeprovisioning, metal3.StateAvailable)
}

// TestPowerDrift: whoever switches a machine, it is soon as the spec wants it;
// unless the host is paused.
func TestPowerDrift(t *testing.T) {
	ctx, ns := s.Begin(t)
	b := startBMC(t, ctx)
	host := runningHost(t, ctx, ns, "worker-0", b)
	w := watchHosts(t, ctx, ns)
	switches := 0
	back := func(what string, limit time.Duration) {
		t.Helper()
		began := time.Now()
		switches += 2
		eventually(t, ctx, limit, func() string {
			if got := powers(w); len(got) != switches+1 || !got[switches] {
				return fmt.Sprintf("%s: a watcher saw its power %v", what, got)
			}
			return ""
		})
		isOn(t, b, true)
		t.Logf("%s: on again after %s", what, time.Since(began).Round(time.Millisecond))
		waitState(t, ctx, ns, "worker-0", metal3.StateExternallyProvisioned)
	}
	off := func() {
		t.Helper()
		if err := s.ironic.Operator().Power(ctx, host.Status.Provisioning.ID, "power off"); err != nil {
			t.Fatal(err)
		}
	}
	off()
	back("switched off in Ironic", 15*time.Second)
	if err := b.SetPower(false); err != nil {
		t.Fatal(err)
	}
	back("switched off by its button", 30*time.Second) // Ironic looks every five seconds

	patchHost(t, ctx, ns, "worker-0", `{"metadata":{"annotations":{"baremetalhost.metal3.io/paused":"test"}}}`)
	off()
	waitHost(t, ctx, ns, "worker-0", 15*time.Second, "is off", func(h *metal3.BareMetalHost) bool { return !h.Status.PoweredOn })
	settled(t, ctx, ns, "worker-0")
	isOn(t, b, false)
	patchHost(t, ctx, ns, "worker-0", `{"metadata":{"annotations":{"baremetalhost.metal3.io/paused":null}}}`)
	back("paused no more", 15*time.Second)

	patchHost(t, ctx, ns, "worker-0", `{"spec":{"online":false}}`)
	waitState(t, ctx, ns, "worker-0", metal3.StateExternallyProvisioned)
	isOn(t, b, false)
	hasEvents(t, ctx, ns, "worker-0", "PowerOff", "PowerOn")
}

// TestRebootAnnotations: the plain one is for one reboot and goes by itself, one
// with a key keeps the host off until its owner removes it.
func TestRebootAnnotations(t *testing.T) {
	ctx, ns := s.Begin(t)
	b := startBMC(t, ctx)
	runningHost(t, ctx, ns, "worker-0", b)
	w := watchHosts(t, ctx, ns)

	patchHost(t, ctx, ns, "worker-0", `{"metadata":{"annotations":{"reboot.metal3.io":"{\"mode\":\"hard\"}"}}}`)
	waitHost(t, ctx, ns, "worker-0", 30*time.Second, "is rebooted", func(h *metal3.BareMetalHost) bool {
		_, asked := h.Annotations[metal3.RebootAnnotation]
		return !asked && h.Status.PoweredOn && isAtRest(h)
	})
	isOn(t, b, true)
	eventually(t, ctx, 5*time.Second, func() string {
		if got := powers(w); !slices.Equal(got, []bool{true, false, true}) {
			return fmt.Sprintf("a watcher saw its power %v, want on, off, on", got)
		}
		return ""
	})

	patchHost(t, ctx, ns, "worker-0", `{"metadata":{"annotations":{"reboot.metal3.io/fencing":""}}}`)
	waitHost(t, ctx, ns, "worker-0", 30*time.Second, "is off", func(h *metal3.BareMetalHost) bool { return !h.Status.PoweredOn })
	if host := settled(t, ctx, ns, "worker-0"); !host.Spec.Online || host.Status.PoweredOn || host.Annotations["reboot.metal3.io/fencing"] != "" {
		t.Errorf("while it is held off: online %t, powered on %t, annotations %v", host.Spec.Online, host.Status.PoweredOn, host.Annotations)
	}
	isOn(t, b, false)
	patchHost(t, ctx, ns, "worker-0", `{"metadata":{"annotations":{"reboot.metal3.io/fencing":null}}}`)
	waitState(t, ctx, ns, "worker-0", metal3.StateExternallyProvisioned)
	isOn(t, b, true)
}

// TestDetachAndAttach: a host that is detached is gone from Ironic, its machine
// runs on, and its status is kept; attached again it is as it was.
func TestDetachAndAttach(t *testing.T) {
	ctx, ns := s.Begin(t)
	b := startBMC(t, ctx)
	before := runningHost(t, ctx, ns, "worker-0", b)
	w := watchHosts(t, ctx, ns)
	patchHost(t, ctx, ns, "worker-0", `{"metadata":{"annotations":{"baremetalhost.metal3.io/detached":""}}}`)
	detached := waitHost(t, ctx, ns, "worker-0", 15*time.Second, "is detached", func(h *metal3.BareMetalHost) bool {
		return h.Status.OperationalStatus == metal3.OperationalStatusDetached
	})
	if _, err := s.ironic.Operator().Node(ctx, before.Status.Provisioning.ID); !testbed.IsNotFound(err) {
		t.Errorf("the node: %v, want not found", err)
	}
	if s := detached.Status; s.Provisioning.State != metal3.StateExternallyProvisioned || !s.PoweredOn || s.ErrorMessage != "" {
		t.Errorf("while detached: state %q, powered on %t, error %q", s.Provisioning.State, s.PoweredOn, s.ErrorMessage)
	}
	patchHost(t, ctx, ns, "worker-0", `{"metadata":{"annotations":{"baremetalhost.metal3.io/detached":null}}}`)
	after := waitState(t, ctx, ns, "worker-0", metal3.StateExternallyProvisioned)
	if !after.Status.OperationHistory.Provision.Start.IsZero() {
		t.Errorf("it was provisioned: %+v", after.Status.OperationHistory.Provision)
	}
	waitNode(t, ctx, after.Status.Provisioning.ID, func(n testbed.Node) bool { return n.ProvisionState == "active" && n.PowerState == "power on" })
	if got := powers(w); !slices.Equal(got, []bool{true}) {
		t.Errorf("a watcher saw its power change: %v", got)
	}
	isOn(t, b, true)
	sawStates(t, ctx, w, metal3.StateExternallyProvisioned)
	hasEvents(t, ctx, ns, "worker-0", "Detached", "Attached")

	// Deleted while detached, it leaves at once, and its machine runs on.
	patchHost(t, ctx, ns, "worker-0", `{"metadata":{"annotations":{"baremetalhost.metal3.io/detached":""}}}`)
	waitHost(t, ctx, ns, "worker-0", 15*time.Second, "is detached", func(h *metal3.BareMetalHost) bool {
		return h.Status.OperationalStatus == metal3.OperationalStatusDetached
	})
	deleteHost(t, ctx, ns, "worker-0")
	waitGone(t, ctx, ns, "worker-0", 10*time.Second)
	isOn(t, b, true)
}

// TestNodeLostWhileRunning: a machine whose node is gone from Ironic is registered
// and adopted again, and runs on.
func TestNodeLostWhileRunning(t *testing.T) {
	ctx, ns := s.Begin(t)
	b := startBMC(t, ctx)
	id := runningHost(t, ctx, ns, "worker-0", b).Status.Provisioning.ID
	w := watchHosts(t, ctx, ns)
	operator := s.ironic.Operator()
	if err := operator.SetMaintenance(ctx, id, true, "to be lost"); err != nil {
		t.Fatal(err)
	}
	if err := operator.DeleteNode(ctx, id); err != nil {
		t.Fatal(err)
	}
	if lost := getHost(t, ctx, ns, "worker-0"); lost.Status.Ironic != nil || lost.Status.Provisioning.State != metal3.StateExternallyProvisioned || !lost.Status.PoweredOn {
		t.Errorf("right after the loss: %+v", lost.Status)
	}
	again := waitState(t, ctx, ns, "worker-0", metal3.StateExternallyProvisioned)
	if again.Status.Provisioning.ID != id {
		t.Errorf("node %s came back as %s", id, again.Status.Provisioning.ID)
	}
	if got := powers(w); !slices.Equal(got, []bool{true}) {
		t.Errorf("a watcher saw its power change: %v", got)
	}
	isOn(t, b, true)
	sawStates(t, ctx, w, metal3.StateExternallyProvisioned)
}
