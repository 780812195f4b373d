// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"encoding/json"
	"strings"
	"testing"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A host that was moved here keeps what it runs, and is registered anew: what was
// registered elsewhere, with a Secret of other versions, says nothing here.
func TestBeginRestoresStatus(t *testing.T) {
	moved := newHost(provisionedHost...)
	status, err := json.Marshal(moved.Status)
	if err != nil {
		t.Fatal(err)
	}
	host := newHost(annotated(metal3.StatusAnnotation, string(status)))
	host.Finalizers, host.Status = nil, metal3.BareMetalHostStatus{}
	SetHold(host, Step{Reason: metal3.RestoredReason, Message: "it was created while all hosts were held"}) // and the status was written because of that
	host.Status.LastUpdated = StatusTime(now)
	if err := StartManaging(host, metal3.StateRegistering, now); err != nil {
		t.Fatal(err)
	}
	if s := host.Status; s.Provisioning.State != metal3.StateProvisioned || s.Provisioning.Image.URL != "http://images/a" || s.Provisioning.ID == "" {
		t.Errorf("restored: %+v", s.Provisioning)
	}
	if hasAnnotation(host, metal3.StatusAnnotation) || !hasFinalizer(host) {
		t.Errorf("metadata: %+v", host.ObjectMeta)
	}
	if got := nextOf(planned(host, nodeIn("active"))); got.Do != Register {
		t.Errorf("next is %s, want Register", got)
	}
}

// A host of which it is not known what it runs is held, and the annotation stays, until a person has corrected or removed it.
func TestUnreadableStatusHolds(t *testing.T) {
	for name, value := range map[string]string{
		"not JSON":       `{`,
		"another type":   `[]`,
		"a later field":  `{"provisioning":{"state":"provisioned","ID":"x","image":{"url":""},"colour":"red"}}`,
		"a wrong number": `{"errorCount":"three"}`,
		"empty":          "",
		"null":           "null",
		"no field":       " {}",
		"no field of it": `{"ironic":{"nodeUUID":"x"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			host := newHost(annotated(metal3.StatusAnnotation, value), wantsImage("http://images/v1"))
			host.Finalizers, host.Status = nil, metal3.BareMetalHostStatus{}
			before := host.DeepCopy()
			if err := StartManaging(host, metal3.StateRegistering, now); err == nil || !equality.Semantic.DeepEqual(before, host) {
				t.Errorf("error %v; the host is %+v, %+v", err, host.ObjectMeta, host.Status)
			}
			step := nextOf(planned(host, nil))
			if step.Do != Hold || step.Reason != metal3.StatusUnreadableReason || !strings.Contains(step.Message, "must be JSON in the format of the status of a host") {
				t.Fatalf("the next step is %+v", step)
			}
			SetHold(host, step)
			if step := nextOf(planned(host, nil)); step.Do != Wait {
				t.Errorf("then %s", step)
			}
			removed := host.DeepCopy()
			delete(removed.Annotations, metal3.StatusAnnotation)
			if step := nextOf(planned(removed, nil)); step.Do != Begin {
				t.Errorf("without the annotation, %s", step)
			}
			host.Annotations[metal3.StatusAnnotation] = `{"provisioning":{"state":"provisioned","ID":"x","image":{"url":""}}}`
			if step := nextOf(planned(host, nil)); step.Do != Begin {
				t.Errorf("with a corrected annotation, %s", step)
			}
			deletedHost := before.DeepCopy()
			deletedHost.DeletionTimestamp = &metav1.Time{Time: now}
			if step := nextOf(planned(deletedHost, nil)); step.Do != Wait {
				t.Errorf("deleted, %s", step)
			}
		})
	}
}

// What the Bare Metal Operator records, in the same states.
func TestSettingsAreRecorded(t *testing.T) {
	host := newHost()
	host.Finalizers, host.Status = nil, metal3.BareMetalHostStatus{}
	if err := StartManaging(host, metal3.StateRegistering, now); err != nil {
		t.Fatal(err)
	}
	if s := host.Status; s.Provisioning.BootMode != metal3.UEFI || !s.OperationHistory.Register.Start.Time.Equal(WholeSeconds(now).Time) {
		t.Errorf("registering: %+v, %+v", s.Provisioning, s.OperationHistory)
	}
	Enter(host, setState(metal3.StateExternallyProvisioned), now)
	if s := host.Status; s.Provisioning.RootDeviceHints == nil || s.Provisioning.RootDeviceHints.DeviceName != "/dev/sda" || s.HardwareProfile != "unknown" {
		t.Errorf("external: %q, %+v", s.HardwareProfile, s.Provisioning)
	}

	host = newHost()
	host.Spec.BootMode = metal3.Legacy
	Enter(host, setState(metal3.StateInspecting), now)
	if got := host.Status.Provisioning.BootMode; got != metal3.Legacy {
		t.Errorf("inspecting: boot mode %q", got)
	}
}

// TestMoveRebootsNothing: a machine that is never switched off, and was rebooted for an annotation, is not rebooted for it once more when
// the host comes to another cluster with its status. An annotation for which it was not is carried out there.
func TestMoveRebootsNothing(t *testing.T) {
	const key = metal3.RebootAnnotationPrefix + "drain"
	for name, test := range map[string]struct {
		before  func(h *metal3.BareMetalHost) // where it comes from
		foreign bool                          // the status is written by a program that knows no record
		after   func(h *metal3.BareMetalHost)
		want    string
	}{
		"rebooted":                       {before: rebootedFor("drain"), want: "Wait"},
		"not yet":                        {want: "soft-rebooting"},
		"for another value":              {before: rebootedFor("drain"), after: annotated(key, `{"mode":"hard"}`), want: "rebooting"},
		"for another key":                {before: rebootedFor("drain"), after: annotated(metal3.RebootAnnotationPrefix+"other", ""), want: "soft-rebooting"},
		"by Cluster API's provider":      {before: rebootedFor("drain"), foreign: true, want: "Wait"},
		"by the same, to be rebooted":    {foreign: true, after: annotated(metal3.RebootAnnotation, ""), want: "soft-rebooting"},
		"by the same, to be off by then": {foreign: true, after: func(h *metal3.BareMetalHost) { h.Spec.DisablePowerOff = false }, want: "soft-power-off"},
	} {
		t.Run(name, func(t *testing.T) {
			host, node := provisionedBy(neverOff, annotated(key, ""))
			node.Name = NodeName(host)
			host = observed(host, node)
			if test.before != nil {
				test.before(host)
			}
			if test.foreign {
				host.Status.Record = metal3.HostRecord{}
			}
			status, err := json.Marshal(host.Status)
			if err != nil {
				t.Fatal(err)
			}
			annotated(metal3.StatusAnnotation, string(status))(host)
			if test.after != nil {
				test.after(host)
			}
			host.UID, host.Finalizers, host.Status = "another", nil, metal3.BareMetalHostStatus{}
			if err := StartManaging(host, metal3.StateRegistering, now); err != nil {
				t.Fatal(err)
			}
			SetTriedCredentials(host, "7", now)
			registeredAs()(host)
			node.Marks.Host = ironic.Text(host.UID)
			if got := nextOf(planned(observed(host, node), node)).String(); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}
