// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

func consumedBy(kind string) func(*metal3.BareMetalHost) {
	return func(h *metal3.BareMetalHost) { h.Spec.ConsumerRef = &corev1.ObjectReference{Kind: kind, Name: h.Name} }
}

func withAnnotation(key, value string) func(*metal3.BareMetalHost) {
	return func(h *metal3.BareMetalHost) { metav1.SetMetaDataAnnotation(&h.ObjectMeta, key, value) }
}

// TestPause: whatever runs something takes its status along, whoever claims it, but for what CAPM3 pauses.
func TestPause(t *testing.T) {
	runs := func(h *metal3.BareMetalHost) {
		h.Status.Provisioning.ID, h.Status.Provisioning.Image.URL = "node", h.Spec.Image.URL
		h.Status.HardwareDetails = &metal3.HardwareDetails{Hostname: "x"}
		h.Status.Record.Epoch = metal3.RecordEpoch
		h.Status.Conditions = []metav1.Condition{{Type: metal3.HeldCondition}}
	}
	held := func(h *metal3.BareMetalHost) {
		h.Status.Conditions = []metav1.Condition{{Type: metal3.HeldCondition, Status: metav1.ConditionTrue, Reason: metal3.DeploymentGoneReason, Message: "Somebody has deployed it."}}
	}
	record := func(is metal3.HostRecord) func(*metal3.BareMetalHost) {
		return func(h *metal3.BareMetalHost) { h.Status.Record = is }
	}
	detached := func(h *metal3.BareMetalHost) {
		h.Status.OperationalStatus, h.Status.Ironic = metal3.OperationalStatusDetached, nil
	}
	deleted := func(h *metal3.BareMetalHost) { h.DeletionTimestamp, h.Finalizers = new(metav1.Now()), []string{"x"} }
	serviced := func(h *metal3.BareMetalHost) { h.Status.OperationalStatus = metal3.OperationalStatusServicing }
	notLeft := record(metal3.HostRecord{Servicing: &metal3.Servicing{Preparation: metal3.Preparation{Phase: metal3.PreparationFailed}}})
	toAdopt := record(metal3.HostRecord{Deployment: &metal3.Deployment{MayAdopt: true}})
	const untilIdle = ": wait for that with kubectl bmh wait a --for idle"
	for name, test := range map[string]struct {
		host    *metal3.BareMetalHost
		pause   string // its value; empty if the host must not be paused
		status  bool
		message string
		code    int
	}{
		"provisioned":            {host("a", metal3.StateProvisioned, runs), pausedForMove, true, "ready to be moved: paused, with its status", 0},
		"of a HostClaim":         {host("a", metal3.StateProvisioned, runs, consumedBy("HostClaim")), pausedForMove, true, "paused, with its status", 0},
		"external":               {host("a", metal3.StateExternallyProvisioned, runs), pausedForMove, true, "paused, with its status", 0},
		"available":              {host("a", metal3.StateAvailable), pausedForMove, false, "paused", 0},
		"new":                    {host("a", metal3.StateNone), pausedForMove, false, "paused", 0},
		"of a Metal3Machine":     {host("a", metal3.StateProvisioned, runs, consumedBy("Metal3Machine")), "", false, "left to Cluster API Provider Metal3", 0},
		"paused before":          {host("a", metal3.StateProvisioned, runs, withAnnotation(metal3.PausedAnnotation, "repair")), "repair", true, "paused already, by others, with its status", 0},
		"being provisioned":      {host("a", metal3.StateProvisioning), "", false, "a: error: the host is provisioning", exitError},
		"being inspected":        {host("a", metal3.StateInspecting), "", false, "a: error: the host is inspecting", exitError},
		"held":                   {host("a", metal3.StateProvisioned, runs, held), "", false, "a: error: the host is held for DeploymentGone, of which the other cluster would not know: solve that first. Somebody has deployed it.", exitError},
		"held without an image":  {host("a", metal3.StateAvailable, held), "", false, "a: error: the host is held", exitError},
		"being serviced":         {host("a", metal3.StateProvisioned, runs, serviced), "", false, "a: error: its settings are being changed" + untilIdle, exitError},
		"left by no service":     {host("a", metal3.StateProvisioned, runs, notLeft), "", false, "a: error: its settings are being changed" + untilIdle, exitError},
		"to be transferred":      {host("a", metal3.StateAvailable, record(metal3.HostRecord{Transfer: &metal3.Transfer{To: "room-b"}})), "", false, `a: error: the host is being moved to IronicInstance "room-b": wait until it is there`, exitError},
		"being deleted":          {host("a", metal3.StateAvailable, deleted), "", false, "a: error: the host is being deleted", exitError},
		"to be undeployed late":  {host("a", metal3.StateProvisioned, runs, record(metal3.HostRecord{Asked: &metal3.AskedChange{Target: "deleted"}})), "", false, "a: error: Ironic may still carry out a request (deleted): wait until status.record.asked is gone", exitError},
		"to be off late":         {host("a", metal3.StateProvisioned, runs, record(metal3.HostRecord{AskedPower: &metal3.AskedPower{Target: "soft power off"}})), "", false, "a: error: Ironic may still carry out a request (soft power off): wait until status.record.askedPower is gone", exitError},
		"to be on late":          {host("a", metal3.StateProvisioned, runs, record(metal3.HostRecord{PowerOns: []metal3.PowerOn{{ID: "1"}}})), "", false, "a: error: Ironic may still carry out a request to switch the machine on: wait until status.record.powerOns is gone", exitError},
		"being cut":              {host("a", metal3.StateProvisioned, runs, record(metal3.HostRecord{PowerCut: &metal3.PowerCut{}})), "", false, "a: error: its power is being cut: wait until it is off", exitError},
		"to be adopted":          {host("a", metal3.StateProvisioned, runs, toAdopt), "", false, "a: error: Ironic has lost its node, or has yet to adopt its machine" + untilIdle, exitError},
		"detached":               {host("a", metal3.StateProvisioned, runs, toAdopt, detached), pausedForMove, true, "paused, with its status", 0},
		"without its BMC":        {host("a", metal3.StateRegistering), pausedForMove, false, "paused", 0},
		"with an earlier status": {host("a", metal3.StateProvisioned, runs, withAnnotation(metal3.PausedAnnotation, pausedForMove), withAnnotation(metal3.StatusAnnotation, "{}")), pausedForMove, true, "paused, with its status", 0},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(test.host.DeepCopy())
			conflicts := 1
			c.metal3.PrependReactor("patch", "baremetalhosts", func(clienttesting.Action) (bool, runtime.Object, error) {
				conflicts--
				return conflicts == 0, nil, apierrors.NewConflict(metal3.Resource("baremetalhosts"), "a", errors.New("written meanwhile"))
			})
			if code := c.run(t, "pause", "--all"); code != test.code {
				t.Errorf("exit code %d, want %d", code, test.code)
			}
			expect(t, "what is said", c.out+c.errOut, test.message)
			is, err := c.metal3.Metal3V1alpha1().BareMetalHosts("metal3").Get(t.Context(), "a", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if pause := is.Annotations[metal3.PausedAnnotation]; pause != test.pause {
				t.Errorf("paused by %q, want %q", pause, test.pause)
			}
			var status *metal3.BareMetalHostStatus
			if value, has := is.Annotations[metal3.StatusAnnotation]; has {
				if status, err = metal3.ParseStatusAnnotation(value); err != nil {
					t.Fatal(err)
				}
			}
			var want *metal3.BareMetalHostStatus
			if test.status {
				want = &metal3.BareMetalHostStatus{OperationalStatus: test.host.Status.OperationalStatus, Provisioning: test.host.Status.Provisioning}
			}
			if diff := cmp.Diff(want, status); diff != "" {
				t.Errorf("the status that it takes along (-want +got):\n%s", diff)
			}
		})
	}
}

// TestUnpause: only what was paused for the move goes on, with the status that it has brought along.
func TestUnpause(t *testing.T) {
	moved, others := host("moved", metal3.StateNone, withAnnotation(metal3.PausedAnnotation, pausedForMove), withAnnotation(metal3.StatusAnnotation, "{}")),
		host("others", metal3.StateNone, withAnnotation(metal3.PausedAnnotation, "metal3.io/capm3"))
	c := newCluster(moved, others, host("never", metal3.StateAvailable))
	if code := c.run(t, "unpause", "--all"); code != 0 {
		t.Errorf("exit code %d: %s", code, c.errOut)
	}
	expect(t, "what is said", c.out, "/moved released\n", "/never released: it was not paused\n", `/others released: others have paused it ("metal3.io/capm3")`)
	for name, want := range map[string]map[string]string{
		"moved": {metal3.StatusAnnotation: "{}"}, "others": {metal3.PausedAnnotation: "metal3.io/capm3"}, "never": nil,
	} {
		is, err := c.metal3.Metal3V1alpha1().BareMetalHosts("metal3").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, is.Annotations); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
