// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

func TestInspect(t *testing.T) {
	s := startServer(t, true)
	in := func(state ironic.ProvisionState) func(*metal3.BareMetalHost, *ironic.Node) {
		return func(_ *metal3.BareMetalHost, n *ironic.Node) { n.ProvisionState = state }
	}
	begunByOther := func(i *simulatedIronic, node string) error {
		return errors.Join(setState(ironic.Inspecting)(i, node), lockNode(i, node))
	}
	tests := []struct {
		name   string
		body   string // by default {"spec":{}}
		before func(*metal3.BareMetalHost, *ironic.Node)
		away   bool
		// meanwhile has what happens before each change reaches Ironic, in order
		meanwhile []interference
		code      int
		says      string
		retry     string
		calls     []string
		// asked is whether the host has the annotation that requests an inspection afterwards
		asked bool
	}{
		{name: "manageable", before: in(ironic.Manageable), code: 201, calls: []string{"inspect"}},
		{name: "inspect failed", before: in(ironic.InspectFail), code: 201, calls: []string{"inspect"}},
		{name: "available", before: in(ironic.Available), code: 201, calls: []string{"manage", "inspect"}},
		{name: "empty object", body: `{}`, before: in(ironic.Manageable), code: 201, calls: []string{"inspect"}},
		{name: "the controller was quicker", before: in(ironic.Available), meanwhile: []interference{none, begunByOther}, code: 201, calls: []string{"manage", "inspect"}},

		{name: "inspecting", before: in(ironic.InspectWait), code: 409, says: "under way already"},
		{name: "provisioned", before: in(ironic.Active), code: 409, says: "deprovision it first"},
		{name: "held back", code: 409, says: "annotation reboot.metal3.io/fence lets no inspection begin", before: func(h *metal3.BareMetalHost, n *ironic.Node) {
			h.Annotations, n.ProvisionState = map[string]string{"reboot.metal3.io/fence": `{"force":true}`}, ironic.Manageable
		}},
		{name: "kept off once it runs something", code: 201, calls: []string{"inspect"}, before: func(h *metal3.BareMetalHost, n *ironic.Node) {
			h.Annotations, n.ProvisionState = map[string]string{"reboot.metal3.io/fence": ""}, ironic.Manageable
		}},
		{name: "not verified", before: in(ironic.Enroll), code: 409, says: "not been verified"},
		{name: "cleaning", before: in(ironic.CleanWait), code: 409, says: "clean wait"},
		{name: "locked", before: func(_ *metal3.BareMetalHost, n *ironic.Node) { n.Reservation = "conductor-0" }, code: 429, says: "conductor-0", retry: "2"},
		{name: "not registered", before: func(h *metal3.BareMetalHost, _ *ironic.Node) { h.Status.Provisioning.ID = "" }, code: 409, says: "not registered"},
		{name: "node lost", before: func(h *metal3.BareMetalHost, _ *ironic.Node) { h.Status.Provisioning.ID = "gone" }, code: 409, says: "no node"},
		{name: "externally provisioned", code: 409, says: "externally provisioned", before: func(h *metal3.BareMetalHost, n *ironic.Node) {
			h.Status.Provisioning.State = metal3.StateAvailable
			h.Spec.ExternallyProvisioned = true
			n.ProvisionState = ironic.Manageable
		}},
		{name: "provisioned, its node was lost and is manageable", code: 409, says: "provisioned", before: func(h *metal3.BareMetalHost, n *ironic.Node) {
			h.Status.Provisioning.State = metal3.StateProvisioned
			n.ProvisionState = ironic.Manageable
		}},
		{name: "disabled by the spec", before: func(h *metal3.BareMetalHost, _ *ironic.Node) { h.Spec.InspectionMode = metal3.InspectionModeDisabled },
			code: 409, says: "spec.inspectionMode"},

		{name: "refused", before: in(ironic.Manageable), meanwhile: []interference{setState(ironic.Active)}, code: 409, says: "Ironic refused", calls: []string{"inspect"}},
		{name: "locked since", before: in(ironic.Manageable), meanwhile: []interference{lockNode}, code: 429, says: "locked", retry: "2", calls: []string{"inspect"}},
		{name: "available, manage refused", meanwhile: []interference{setState(ironic.Active)}, code: 409, says: "Ironic refused", calls: []string{"manage"}},
		{name: "available, locked", meanwhile: []interference{lockNode}, code: 429, says: "locked", retry: "2", calls: []string{"manage"}},
		{name: "available, inspect refused", meanwhile: []interference{none, setState(ironic.Active)}, code: 409, says: "Ironic refused", calls: []string{"manage", "inspect"}},

		{name: "available, locked since", meanwhile: []interference{none, lockNode}, code: 429, says: "locked", retry: "2", calls: []string{"manage", "inspect"}},
		{name: "not permitted", before: in(ironic.Manageable), meanwhile: []interference{failWrites(403)}, code: 503, says: "nothing was done", retry: "1", calls: []string{"inspect"}},
		{name: "available and asked for, refused", meanwhile: []interference{setState(ironic.Active)}, code: 409, says: "Ironic refused", calls: []string{"manage"}, asked: true,
			before: func(h *metal3.BareMetalHost, _ *ironic.Node) {
				h.Annotations = map[string]string{metal3.InspectAnnotation: ""}
			}},

		{name: "away", away: true, code: 503, says: "nothing was done", retry: "1"},
		// The inspection may have begun. The answer has no Retry-After, because clients would repeat the
		// request by themselves and inspect the host twice.
		{name: "no answer", before: in(ironic.Manageable), meanwhile: []interference{breakConnection}, code: 504, says: "is not known, look before you try again", calls: []string{"inspect"}},
		{name: "HTTP 500", before: in(ironic.InspectFail), meanwhile: []interference{failWrites(500)}, code: 504, says: "is not known, look before you try again", calls: []string{"inspect"}},
		// The controller completes the inspection because of the annotation.
		{name: "available, no answer", meanwhile: []interference{breakConnection}, code: 504, says: "begins if it has not yet", calls: []string{"manage"}, asked: true},
		{name: "available, no answer to inspect", meanwhile: []interference{none, breakConnection}, code: 504, says: "begins if it has not yet", calls: []string{"manage", "inspect"}, asked: true},

		{name: "empty body", body: " ", code: 400},
		{name: "another name", body: `{"metadata":{"name":"another"}}`, code: 400, says: "another"},
		{name: "another kind", body: `{"apiVersion":"metal3.io/v1alpha1","kind":"HostPower"}`, code: 400},
		{name: "wrong type", body: `{"spec":[]}`, code: 400},
	}
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			name := fmt.Sprintf("inspect-%d", i)
			s.register(t, name, test.before)
			asked := func() bool {
				_, is := s.recorded(t, name).Annotations[metal3.InspectAnnotation]
				return is
			}
			if test.away {
				s.ironic.disconnect(t)
			} else {
				s.ironic.interfere(t, func(i *simulatedIronic, node string) error {
					changes := i.requested()
					if slices.Equal(changes, []string{"manage"}) && !asked() {
						t.Error("if this process died now, the inspection would not be completed")
					}
					if n := len(changes); n <= len(test.meanwhile) {
						return test.meanwhile[n-1](i, node)
					}
					return nil
				})
			}
			if test.body == "" {
				test.body = `{"spec":{}}`
			}
			got := s.do(t, "POST", hostsPath+"/"+name+"/inspect", strings.TrimSpace(test.body))

			if diff := cmp.Diff(test.calls, s.ironic.requested()); diff != "" {
				t.Errorf("calls to Ironic (- want, + got):\n%s", diff)
			}
			if asked() != test.asked {
				t.Errorf("the host has the annotation: %t, want %t", asked(), test.asked)
			}
			if got := got.header.Get("Retry-After"); got != test.retry {
				t.Errorf("Retry-After is %q, want %q", got, test.retry)
			}
			if got.code != test.code {
				t.Fatalf("HTTP %d: %s", got.code, got.body)
			}
			if test.code != 201 {
				checkError(t, got, name, test.says)
				return
			}
			var inspection metal3.HostInspection
			got.into(t, 201, &inspection)
			if inspection.Kind != "HostInspection" || inspection.Name != name || inspection.ManagedFields != nil || inspection.Status.State == "" {
				t.Errorf("the answer is %+v", inspection)
			}
		})
	}
	t.Run("get", func(t *testing.T) { testGetInspect(t, s) })
	t.Run("disabled by the annotation", func(t *testing.T) { testInspectDisabled(t, s) })
}

// testInspectDisabled checks that the annotation is left alone if it disables inspections. The
// same annotation, with another value, requests them.
func testInspectDisabled(t *testing.T, s *server) {
	s.register(t, "disabled", func(h *metal3.BareMetalHost, _ *ironic.Node) {
		h.Annotations = map[string]string{metal3.InspectAnnotation: metal3.InspectAnnotationValueDisabled}
	})
	s.ironic.reset(t)
	got := s.do(t, "POST", hostsPath+"/disabled/inspect", `{}`)
	if got.code != 409 || !strings.Contains(got.status(t).Message, "inspection is disabled") {
		t.Errorf("HTTP %d: %s", got.code, got.body)
	}
	if value := s.recorded(t, "disabled").Annotations[metal3.InspectAnnotation]; value != metal3.InspectAnnotationValueDisabled {
		t.Errorf("the annotation is now %q", value)
	}
}

func testGetInspect(t *testing.T, s *server) {
	begun := time.Date(2026, 11, 21, 7, 0, 0, 0, time.UTC)
	ended := begun.Add(5 * time.Minute)
	s.register(t, "get", func(_ *metal3.BareMetalHost, n *ironic.Node) {
		n.ProvisionState, n.InspectionStartedAt = ironic.InspectWait, &begun
	})
	read := func() metal3.HostInspection {
		var inspection metal3.HostInspection
		s.do(t, "GET", hostsPath+"/get/inspect", "").into(t, 200, &inspection)
		return inspection
	}
	if got := read().Status; got.State != "inspect wait" || !got.StartedAt.Time.Equal(begun) || got.FinishedAt != nil {
		t.Errorf("in progress: %+v", got)
	}
	// Ironic no longer knows when an inspection began as soon as it has ended, but the host
	// does.
	if err := record(t.Context(), s.hosts, namespace, "get", func(status *metal3.BareMetalHostStatus) {
		status.OperationHistory.Inspect.Start = metav1.NewTime(begun)
	}); err != nil {
		t.Fatal(err)
	}
	s.ironic.edit(t, s.ironic.nodeOf(t, "get"), func(n *ironic.Node) {
		n.ProvisionState, n.InspectionStartedAt, n.InspectionFinishedAt, n.LastError = ironic.InspectFail, nil, &ended, "timeout"
	})
	if got := read().Status; got.State != "inspect failed" || !got.StartedAt.Time.Equal(begun) || !got.FinishedAt.Time.Equal(ended) || got.LastError != "timeout" {
		t.Errorf("failed: %+v", got)
	}
}
