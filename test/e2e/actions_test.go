// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/generated/clientset/versioned"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

func actionPath(ns, name, action string) string {
	return fmt.Sprintf("/apis/metal3.io/v1alpha1/namespaces/%s/baremetalhosts/%s/%s", ns, name, action)
}

// TestPowerByKubectl switches a machine by its BMC, with the commands and the
// short bodies that users type.
func TestPowerByKubectl(t *testing.T) {
	t.Parallel()
	ctx, ns := s.Begin(t)
	b := startBMC(t, ctx)
	createSecret(t, ctx, ns, "creds", "admin", "password")
	createHost(t, ctx, ns, "worker-1", b.Address(), "creds", "")
	waitAvailable(t, ctx, ns, "worker-1")

	power := func(body string) metal3.HostPower {
		t.Helper()
		began := time.Now()
		stdout, stderr, err := s.Kube.Kubectl(ctx, body, "create", "--raw", actionPath(ns, "worker-1", "power"), "-f", "-")
		if err != nil {
			t.Fatalf("%v: %s", err, stderr)
		}
		var answer metal3.HostPower
		if err := json.Unmarshal([]byte(stdout), &answer); err != nil {
			t.Fatalf("%v: %s", err, stdout)
		}
		if answer.Kind != "HostPower" || answer.Name != "worker-1" || answer.Namespace != ns || answer.ManagedFields != nil {
			t.Errorf("answer is %s", stdout)
		}
		t.Logf("%s answered after %s: %+v", body, time.Since(began).Round(time.Millisecond), answer.Status)
		return answer
	}
	isOn := func(want bool) {
		t.Helper()
		host := bed(ctx).WaitHost(t, ctx, ns, "worker-1", fmt.Sprintf("is on: %t", want), func(h *metal3.BareMetalHost) bool {
			return h.Status.PoweredOn == want && h.Status.Ironic.TargetPowerState == "" && h.Status.Ironic.Reservation == ""
		})
		if on, err := b.Power(); err != nil || on != want {
			t.Errorf("the machine itself is on: %t (%v), want %t", on, err, want)
		}
		if host.Spec.Online != want {
			t.Errorf("spec.online is %t, want %t", host.Spec.Online, want)
		}
	}
	power(`{"spec":{"action":"on"}}`)
	isOn(true)
	if a := power(`{"spec":{"action":"off","mode":"hard"}}`); a.Status.Mode != metal3.PowerModeHard {
		t.Errorf("mode is %q, want hard", a.Status.Mode)
	}
	isOn(false)
	power(`{"spec":{"action":"on"}}`)
	isOn(true)
	power(`{"spec":{"action":"off"}}`) // softly, by default
	isOn(false)

	testbed.Eventually(t, ctx, func() string {
		events := kubectl(t, ctx, "", "get", "events", "-n", ns, "--field-selector", "reason=PowerRequested")
		if strings.Contains(events, `User "`) && strings.Contains(events, "has requested") {
			return ""
		}
		return "who has requested it is not among the events: " + events
	})
	stdout, stderr, err := s.Kube.Kubectl(ctx, "", "get", "--raw", actionPath(ns, "worker-1", "power"))
	if err != nil || !strings.Contains(stdout, `"powerState":"power off"`) {
		t.Errorf("get --raw: %v %s: %s", err, stderr, stdout)
	}
}

// TestPowerErrors: what is refused, with which code and words, and that nothing
// has happened then.
func TestPowerErrors(t *testing.T) {
	testbed.OnSimulator(t, "the server refuses these requests before it asks Ironic")
	ctx, ns := s.Begin(t)
	fakeHost(t, ctx, ns, "worker-1")
	hosts := bed(ctx).Hosts(ns)
	createHost(t, ctx, ns, "new", "ipmi://192.0.2.9", "missing", "")
	act := func(name string, spec metal3.HostPowerSpec) error {
		_, err := hosts.Power(ctx, name, &metal3.HostPower{Spec: spec}, metav1.CreateOptions{})
		return err
	}
	on, off := metal3.HostPowerSpec{Action: metal3.PowerActionOn}, metal3.HostPowerSpec{Action: metal3.PowerActionOff}

	if err := act("absent", on); !apierrors.IsNotFound(err) {
		t.Errorf("absent host: %v", err)
	}
	if err := act("worker-1", metal3.HostPowerSpec{Action: "explode"}); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.action") {
		t.Errorf("unknown action: %v", err)
	}
	if err := act("new", on); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "not registered") {
		t.Errorf("host that is not in Ironic: %v", err)
	}
	dry, err := hosts.Power(ctx, "worker-1", &metal3.HostPower{Spec: off}, metav1.CreateOptions{DryRun: []string{"All"}})
	if err != nil {
		t.Errorf("dry run: %v", err)
	} else if got := bed(ctx).GetHost(t, ctx, ns, "worker-1"); !got.Spec.Online || dry.Status.Mode == "" {
		t.Errorf("a dry run set spec.online to %t and answered %+v", got.Spec.Online, dry.Status)
	}
	if err := bed(ctx).ironic.Stop(); err != nil {
		t.Fatal(err)
	}
	err = act("worker-1", off)
	if seconds, retry := apierrors.SuggestsClientDelay(err); !apierrors.IsServiceUnavailable(err) || !retry || seconds == 0 {
		t.Errorf("Ironic away: %v (retry after %d)", err, seconds)
	}
	if err := bed(ctx).ironic.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if got := bed(ctx).GetHost(t, ctx, ns, "worker-1"); !got.Spec.Online {
		t.Error("spec.online is false though nothing was done")
	}
	bed(ctx).PatchHost(t, ctx, ns, "worker-1", `{"spec":{"disablePowerOff":true}}`)
	if err := act("worker-1", off); !apierrors.IsInvalid(err) {
		t.Errorf("power-off disabled: %v", err)
	}
}

// TestInspect: an inspection begins at once; what it found shows once it is done.
func TestInspect(t *testing.T) {
	t.Parallel()
	sim := needsSimulator(t)
	ctx, ns := s.Begin(t)
	createSecret(t, ctx, ns, "creds", "admin", "password")
	createHost(t, ctx, ns, "worker-1", startBMC(t, ctx).Address(), "creds", "", func(h *metal3.BareMetalHost) { h.Spec.InspectionMode = "" })
	host := waitAvailable(t, ctx, ns, "worker-1")
	id := host.Status.Provisioning.ID
	if hw := host.Status.HardwareDetails; hw == nil || hw.RAMMebibytes != 16384 {
		t.Errorf("hardware after the first inspection: %+v", hw)
	}
	if err := sim.HoldRamdisk(id); err != nil { // the test plays the next one
		t.Fatal(err)
	}

	began := time.Now()
	stdout, stderr, err := s.Kube.Kubectl(ctx, `{"spec":{}}`, "create", "--raw", actionPath(ns, "worker-1", "inspect"), "-f", "-")
	if err != nil {
		t.Fatalf("%v: %s", err, stderr)
	}
	t.Logf("answered after %s: %s", time.Since(began).Round(time.Millisecond), stdout)
	host = bed(ctx).WaitHost(t, ctx, ns, "worker-1", "is inspected", func(h *metal3.BareMetalHost) bool {
		return h.Status.Provisioning.State == metal3.StateInspecting && h.Status.Ironic.ProvisionState == "inspect wait"
	})
	if host.Status.OperationHistory.Inspect.Start.IsZero() || !host.Status.OperationHistory.Inspect.End.IsZero() {
		t.Errorf("history of inspections: %+v", host.Status.OperationHistory.Inspect)
	}
	hosts := bed(ctx).Hosts(ns)
	if _, err := hosts.Inspect(ctx, "worker-1", &metal3.HostInspection{}, metav1.CreateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("a second inspection: %v, want a conflict", err)
	}
	if err := sim.Ramdisk(id, map[string]any{
		"interfaces": []any{map[string]any{"name": "eth0", "mac_address": host.Spec.BootMACAddress}},
		"cpu":        map[string]any{"count": 8, "architecture": "x86_64"},
		"disks":      []any{map[string]any{"name": "/dev/sda", "size": 53687091200}},
		"memory":     map[string]any{"physical_mb": 32768},
	}); err != nil {
		t.Fatal(err)
	}
	bed(ctx).WaitHost(t, ctx, ns, "worker-1", "shows its hardware", func(h *metal3.BareMetalHost) bool {
		return h.Status.HardwareDetails != nil && h.Status.HardwareDetails.RAMMebibytes == 32768
	})
	host = waitAvailable(t, ctx, ns, "worker-1")
	hw := host.Status.HardwareDetails
	if hw.CPU.Count != 8 || hw.CPU.Arch != "x86_64" || len(hw.NIC) != 1 || hw.NIC[0].MAC != host.Spec.BootMACAddress || len(hw.Storage) != 1 || hw.Storage[0].SizeBytes != 53687091200 {
		t.Errorf("hardware: %+v", hw)
	}
	if _, asked := host.Annotations[metal3.InspectAnnotation]; asked || host.Status.OperationHistory.Inspect.End.IsZero() {
		t.Errorf("after the inspection: annotations %v, history %+v", host.Annotations, host.Status.OperationHistory.Inspect)
	}
	inspection, err := hosts.GetInspect(ctx, "worker-1", metav1.GetOptions{})
	if err != nil || inspection.Status.FinishedAt == nil || inspection.Status.State != "manageable" {
		t.Errorf("GET inspect: %v %+v", err, inspection)
	}
}

// TestActionsNeedTheirOwnRights: reading and editing hosts does not include
// acting on the hardware; the operator's role does.
func TestActionsNeedTheirOwnRights(t *testing.T) {
	testbed.OnSimulator(t, "permissions are a matter of RBAC")
	t.Parallel()
	ctx, ns := s.Begin(t)
	fakeHost(t, ctx, ns, "worker-1")
	can := func(role string) (read, edit, act error) {
		t.Helper()
		user := role + "-of-" + ns
		_, err := s.Core.RbacV1().RoleBindings(ns).Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: role},
			RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{Kind: "User", Name: user}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		client, err := s.Kube.ClientFor(user)
		if err != nil {
			t.Fatal(err)
		}
		hosts, err := versioned.NewForConfig(client.Config)
		if err != nil {
			t.Fatal(err)
		}
		mine := hosts.Metal3V1alpha1().BareMetalHosts(ns)
		testbed.Eventually(t, ctx, func() string { // until the authorizer has seen the binding
			if role == "metal3-baremetalhosts-operator" {
				_, err = mine.Power(ctx, "worker-1", &metal3.HostPower{Spec: metal3.HostPowerSpec{Action: "on"}}, metav1.CreateOptions{})
			} else {
				_, err = mine.Get(ctx, "worker-1", metav1.GetOptions{})
			}
			if apierrors.IsForbidden(err) {
				return err.Error()
			}
			return ""
		})
		_, read = mine.Get(ctx, "worker-1", metav1.GetOptions{})
		_, edit = mine.Patch(ctx, "worker-1", "application/merge-patch+json", []byte(`{"spec":{"description":"by `+role+`"}}`), metav1.PatchOptions{})
		_, act = mine.Power(ctx, "worker-1", &metal3.HostPower{Spec: metal3.HostPowerSpec{Action: "on"}}, metav1.CreateOptions{})
		return read, edit, act
	}
	for role, want := range map[string]string{
		"metal3-baremetalhosts-reader": "read", "metal3-baremetalhosts-operator": "act",
		"view": "read", "edit": "read edit",
	} {
		read, edit, act := can(role)
		var got []string
		for what, err := range map[string]error{"read": read, "edit": edit, "act": act} {
			if err == nil {
				got = append(got, what)
			} else if !apierrors.IsForbidden(err) {
				t.Errorf("%s may not %s, but by %v", role, what, err)
			}
		}
		for _, what := range []string{"read", "edit", "act"} {
			if has, wants := slices.Contains(got, what), slices.Contains(strings.Fields(want), what); has != wants {
				t.Errorf("%s: may %s: %t, want %t", role, what, has, wants)
			}
		}
	}
}

// TestStatusIsWrittenByThoseWhoDoToday: PUT and PATCH of /status, generation and
// spec untouched; and it is Ironic that has the last word on what Ironic knows.
func TestStatusIsWrittenByThoseWhoDoToday(t *testing.T) {
	testbed.OnSimulator(t, "this is about the registry")
	t.Parallel()
	ctx, ns := s.Begin(t)
	fakeHost(t, ctx, ns, "worker-1")
	// As Cluster API does around a move: nobody else writes then.
	bed(ctx).PatchHost(t, ctx, ns, "worker-1", `{"metadata":{"annotations":{"baremetalhost.metal3.io/paused":"metal3.io/capm3"}}}`)
	hosts := bed(ctx).Hosts(ns)
	before := settled(t, ctx, ns, "worker-1")
	got, err := hosts.Patch(ctx, "worker-1", "application/merge-patch+json",
		[]byte(`{"spec":{"online":false},"status":{"provisioningFailCount":3,"hardwareProfile":"dell","poweredOn":true}}`), metav1.PatchOptions{}, "status")
	if err != nil {
		t.Fatal(err)
	}
	if !got.Spec.Online || got.Generation != before.Generation {
		t.Errorf("a patch of the status changed the spec: online %t, generation %d -> %d", got.Spec.Online, before.Generation, got.Generation)
	}
	after := bed(ctx).GetHost(t, ctx, ns, "worker-1")
	if after.Status.ProvisioningFailCount != 3 {
		t.Errorf("the patch was lost: %+v", after.Status)
	}
	if after.Status.HardwareProfile != before.Status.HardwareProfile || after.Status.PoweredOn != before.Status.PoweredOn {
		t.Errorf("what the server decides by was written: profile %q, on %t", after.Status.HardwareProfile, after.Status.PoweredOn)
	}
	after.Status.ProvisioningFailCount = 0
	after.Spec.Description = "not through status"
	put, err := hosts.UpdateStatus(ctx, after, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if put.Status.ProvisioningFailCount != 0 || put.Spec.Description != "" {
		t.Errorf("after the PUT: fail count %d, description %q", put.Status.ProvisioningFailCount, put.Spec.Description)
	}
}
