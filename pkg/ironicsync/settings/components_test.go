// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// updates are written as component and URL, in turn.
func updates(texts ...string) (list []metal3.FirmwareUpdate) {
	for i := 0; i < len(texts); i += 2 {
		list = append(list, metal3.FirmwareUpdate{Component: texts[i], URL: texts[i+1]})
	}
	return list
}

// componentsWith is a HostFirmwareComponents of which Ironic's list has been read.
func componentsWith(wanted, made []metal3.FirmwareUpdate, listed ...string) *metal3.HostFirmwareComponents {
	c := &metal3.HostFirmwareComponents{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "h", Generation: 3}, Spec: metal3.HostFirmwareComponentsSpec{Updates: wanted}}
	var list []ironic.FirmwareComponent
	for _, name := range listed {
		list = append(list, ironic.FirmwareComponent{Component: ironic.Text(name), InitialVersion: "1", CurrentVersion: "1"})
	}
	RecordFirmware(c, list, &metal3.SettingsSource{NodeUUID: "u"})
	c.Status.Updates = made
	return c
}

// TestFirmwareUpdates follows what is wanted to the steps for it, and to what is recorded then.
func TestFirmwareUpdates(t *testing.T) {
	all := []string{"bios", "bmc", "nic:NIC1"}
	for name, tt := range map[string]struct {
		wanted, made []metal3.FirmwareUpdate
		listed       []string
		// steps are those of the clean, as components; recorded is what is recorded in the end.
		steps    string
		recorded []metal3.FirmwareUpdate
		detected bool
		fault    string
	}{
		"nothing":                       {listed: all},
		"in the user's order":           {wanted: updates("bmc", "u1", "bios", "u2"), listed: all, steps: "bmc bios", recorded: updates("bmc", "u1", "bios", "u2"), detected: true},
		"made already":                  {wanted: updates("bios", "u1"), made: updates("bios", "u1"), listed: all, recorded: updates("bios", "u1")},
		"another URL":                   {wanted: updates("bios", "u2", "bmc", "u1"), made: updates("bios", "u1", "bmc", "u1"), listed: all, steps: "bios", recorded: updates("bios", "u2", "bmc", "u1"), detected: true},
		"another order":                 {wanted: updates("bmc", "u1", "bios", "u1"), made: updates("bios", "u1", "bmc", "u1"), listed: all, recorded: updates("bmc", "u1", "bios", "u1")},
		"not asked for any more":        {made: updates("bios", "u1"), listed: all},
		"a network adapter":             {wanted: updates("nic:NIC1", "u1"), listed: all, steps: "nic:NIC1", recorded: updates("nic:NIC1", "u1"), detected: true},
		"a network adapter before 32":   {wanted: updates("nic:NIC1", "u1"), listed: []string{"bmc", "bios"}, detected: true, fault: "component nic:NIC1 cannot be updated: Ironic has found bios, bmc on this machine (network adapters need Ironic 32 or later)"},
		"an unknown component":          {wanted: updates("bios", "u1", "disk", "u2"), listed: all, detected: true, fault: "component disk is invalid, only 'bmc', 'bios', or names starting with 'nic:' are allowed as update names"},
		"a component twice":             {wanted: updates("bios", "u1", "bios", "u2"), listed: all, detected: true, fault: "component bios is named more than once"},
		"a machine of unknown firmware": {wanted: updates("bios", "u1"), detected: true, fault: "component bios cannot be updated: Ironic has found no firmware on this machine"},
	} {
		t.Run(name, func(t *testing.T) {
			host := &metal3.BareMetalHost{}
			c := componentsWith(tt.wanted, tt.made, tt.listed...)
			m := Machine{Host: host, Components: c}
			UpdateComponentConditions(c, componentsWith(nil, nil), metav1.Now())
			if detected := meta.IsStatusConditionTrue(c.Status.Conditions, ChangeDetectedCondition); detected != tt.detected {
				t.Errorf("a change is detected: %v", detected)
			}
			valid := meta.FindStatusCondition(c.Status.Conditions, ValidCondition)
			if tt.fault == "" {
				if valid.Status != metav1.ConditionTrue || valid.Reason != "OK" || valid.Message != "" || valid.ObservedGeneration != 3 {
					t.Errorf("Valid is %+v", valid)
				}
			} else if valid.Status != metav1.ConditionFalse || valid.Reason != "InvalidComponent" || valid.Message != "Invalid Firmware Components: ["+tt.fault+"]" {
				t.Errorf("Valid is %+v", valid)
			}
			if differs := Differ(m); differs != (tt.steps != "") {
				t.Errorf("it differs: %v", differs)
			}
			clean, err := NextClean(m)
			if err != nil {
				t.Fatal(err)
			}
			var steps []string
			if clean != nil {
				for _, step := range clean.Steps {
					list := step.Args["settings"].([]map[string]any)
					if step.Interface != "firmware" || step.Step != "update" || len(list) != 1 || list[0]["url"] == "" {
						t.Errorf("the step is %+v", step)
					}
					steps = append(steps, list[0]["component"].(string))
				}
				host.Status.Record.Preparation = Request(clean, recordOf(manageable()), metav1.Time{})
				Observe(&host.Status, nil, cleaning(), metav1.Time{})
				if Observe(&host.Status, nil, manageable(), metav1.Now()); Differ(m) {
					t.Error("it is to be updated again before it is recorded that it was")
				}
			}
			if strings.Join(steps, " ") != tt.steps {
				t.Errorf("the steps are for %s", steps)
			}
			before := c.DeepCopy()
			RecordUpdates(c, host)
			UpdateComponentConditions(c, before, metav1.Now())
			if diff := cmp.Diff(tt.recorded, c.Status.Updates, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("recorded (- want, + got):\n%s", diff)
			}
			if tt.fault == "" && (Differ(m) || meta.IsStatusConditionTrue(c.Status.Conditions, ChangeDetectedCondition)) {
				t.Errorf("it differs still: %+v", c.Status)
			}
			if UpdateComponentConditions(c, c.DeepCopy(), metav1.Now()) {
				t.Error("it is written again, and nothing has changed")
			}
		})
	}
}

// TestFirmwareUpdateFails: what was updated before the step that has failed is not updated again.
func TestFirmwareUpdateFails(t *testing.T) {
	c := componentsWith(updates("bmc", "u1", "bios", "u1"), updates("bios", "u0"), "bios", "bmc")
	m := Machine{Host: hostWith(redfish, layoutOf(mirror, nil), nil, nil), Components: c}
	clean, err := NextClean(m)
	if err != nil || stepsOf(clean) == "" || len(clean.Steps) != 4 {
		t.Fatalf("the clean is %+v, %v", clean, err)
	}
	status := &m.Host.Status
	status.Record.Preparation = Request(clean, recordOf(manageable()), metav1.Now())
	at := func(step int) *ironic.Node {
		node := cleaning()
		node.Internals.Clean = ironic.StepPosition{Number: step, Count: 4}
		return node
	}
	Observe(status, nil, at(2), metav1.Now())
	Observe(status, nil, at(4), metav1.Now())
	Observe(status, nil, &ironic.Node{UUID: "u", ProvisionState: ironic.CleanFail, LastError: "the signature is wrong"}, metav1.Now())
	RecordUpdates(c, m.Host)
	if diff := cmp.Diff(updates("bmc", "u1"), c.Status.Updates); diff != "" || !c.Status.PreparedAt.Time.Equal(status.Record.Preparation.StartedAt.Time) {
		t.Errorf("recorded (- want, + got):\n%s", diff)
	}
	if pending := pendingUpdates(m); cmp.Diff(updates("bios", "u1"), pending) != "" {
		t.Errorf("pending is %v", pending)
	}
	// It is recorded once: whoever asks for the same once more gets it.
	c.Status.Updates = nil
	if pending := pendingUpdates(m); len(pending) != 2 {
		t.Errorf("pending is %v", pending)
	}
}

// TestCleanThatNobodySaw: a clean that has ended while no server was running is not asked for again.
func TestCleanThatNobodySaw(t *testing.T) {
	c := componentsWith(updates("bios", "u1"), nil, "bios")
	m := Machine{Host: &metal3.BareMetalHost{}, Components: c}
	node := func(changed metav1.Time) *ironic.Node {
		n := manageable()
		n.ProvisionUpdatedAt = &changed.Time
		return n
	}
	began := metav1.Now()
	clean, err := NextClean(m)
	if err != nil {
		t.Fatal(err)
	}
	m.Host.Status.Record.Preparation = Request(clean, recordOf(node(began)), began)
	if Observe(&m.Host.Status, nil, node(began), began); m.Host.Status.Record.Preparation.Phase != metal3.PreparationRequested || !Differ(m) {
		t.Errorf("before it has begun: %+v", m.Host.Status.Record.Preparation)
	}
	if Observe(&m.Host.Status, nil, node(metav1.NewTime(began.Add(1e9))), began); m.Host.Status.Record.Preparation.Phase != metal3.PreparationSucceeded || Differ(m) {
		t.Errorf("after it has ended: %+v", m.Host.Status.Record.Preparation)
	}
}

// TestUpdatesAfterClockWentBack: the replica that has the firmware updated once more may have a clock that
// is behind that of the last one, and so may Ironic's conductor.
func TestUpdatesAfterClockWentBack(t *testing.T) {
	c := componentsWith(updates("bios", "u1"), nil, "bios")
	m := Machine{Host: &metal3.BareMetalHost{}, Components: c}
	ironicTime, ourTime := time.Unix(1_000_000, 0), time.Unix(1_000_000, 0)
	for _, url := range []string{"u1", "u2", "u3"} {
		c.Spec.Updates = updates("bios", url)
		node := manageable()
		node.ProvisionUpdatedAt = &ironicTime
		clean, err := NextClean(m)
		if err != nil || clean == nil {
			t.Fatalf("the clean for %s is %+v, %v", url, clean, err)
		}
		m.Host.Status.Record.Preparation = Request(clean, recordOf(node), metav1.NewTime(ourTime))
		Observe(&m.Host.Status, nil, cleaning(), metav1.NewTime(ourTime))
		Observe(&m.Host.Status, nil, manageable(), metav1.NewTime(ourTime))
		RecordUpdates(c, m.Host)
		if diff := cmp.Diff(updates("bios", url), c.Status.Updates); diff != "" {
			t.Errorf("recorded (- want, + got):\n%s", diff)
		}
		if Differ(m) {
			t.Errorf("%s is to be made again", url)
		}
		ironicTime, ourTime = ironicTime.Add(time.Minute), ourTime.Add(-10*time.Minute)
		if url == "u2" {
			ironicTime = ironicTime.Add(-24 * time.Hour)
		}
	}
}

// TestRefuseUpdates: Ironic without an API for firmware has one condition that says so.
func TestRefuseUpdates(t *testing.T) {
	c := componentsWith(updates("bios", "u1"), nil, "bios")
	UpdateComponentConditions(c, c.DeepCopy(), metav1.Now())
	if !RefuseUpdates(c, c.DeepCopy(), metav1.Now()) || RefuseUpdates(c, c.DeepCopy(), metav1.Now()) {
		t.Error("it is written not at all, or again")
	}
	conditions := c.Status.Conditions
	if len(conditions) != 1 || conditions[0].Type != "Valid" || conditions[0].Status != metav1.ConditionFalse || conditions[0].Reason != "NotSupported" || !strings.Contains(conditions[0].Message, "API 1.86") {
		t.Errorf("the conditions are %+v", conditions)
	}
	if Differ(Machine{Host: &metal3.BareMetalHost{}, Components: c}) {
		t.Error("it is to be updated")
	}
}

// A BMC can have thousands of components, and each of as many updates would name them all.
func TestManyFaultsInUpdates(t *testing.T) {
	var wanted []metal3.FirmwareUpdate
	var listed []string
	for i := range 3_000 {
		wanted = append(wanted, metal3.FirmwareUpdate{Component: fmt.Sprintf("nic:wanted%d", i), URL: "u"})
		listed = append(listed, fmt.Sprintf("nic:present%04d", i))
	}
	components := componentsWith(wanted, nil, listed...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	UpdateComponentConditions(components, componentsWith(nil, nil), metav1.Now())
	runtime.ReadMemStats(&after)
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 8<<20 {
		t.Errorf("%d MiB were allocated", allocated>>20)
	}
	valid := meta.FindStatusCondition(components.Status.Conditions, ValidCondition)
	if !strings.HasPrefix(valid.Message, "Invalid Firmware Components: [component nic:wanted0 cannot be updated: Ironic has found nic:present0000, nic:present0001, ") || len(valid.Message) > maxMessage+3 {
		t.Errorf("Valid is %.200s", valid.Message)
	}
}
