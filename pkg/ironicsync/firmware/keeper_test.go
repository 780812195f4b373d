// SPDX-License-Identifier: Apache-2.0

package firmware

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// TestReadsAskForWhatChanged: a read asks Ironic for the list of those hosts only whose nodes have
// come into another state.
func TestReadsAskForWhatChanged(t *testing.T) {
	f := newFleet("a", "b", "c")
	for name := range f.hosts {
		f.ensure(t, name)
	}
	f.ironic.asked, f.ironic.value = nil, "off"
	f.moved("b")
	if err := f.RefreshAllSettings(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if len(f.ironic.asked) != 1 || f.ironic.asked["node-b"] != 1 || f.value(t, "b") != "off" || f.value(t, "a") != "on" {
		t.Errorf("asked for %v; b is %s, a is %s", f.ironic.asked, f.value(t, "b"), f.value(t, "a"))
	}
	f.moved("a")
	if err := f.RefreshAllSettings(t.Context(), "another"); err != nil || f.value(t, "a") != "on" {
		t.Errorf("a list of another namespace: %v, a is %s", err, f.value(t, "a"))
	}
	for range 2 {
		if err := f.RefreshSettings(t.Context(), "n", "a"); err != nil {
			t.Fatal(err)
		}
	}
	if f.ironic.asked["node-a"] != 1 || f.value(t, "a") != "off" {
		t.Errorf("asked for %v; a is %s", f.ironic.asked, f.value(t, "a"))
	}
	if err := f.RefreshSettings(t.Context(), "n", "no-such"); err != nil {
		t.Errorf("settings without a host: %v", err)
	}
}

// TestSlowIronic: reads wait for a limited time, and share a request that is under way.
func TestSlowIronic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet("a", "b", "c", "d", "e", "f", "g", "h")
		for name := range f.hosts {
			f.ensure(t, name)
			f.moved(name)
		}
		f.ironic.asked, f.ironic.takes = nil, 4*time.Second
		for range 3 {
			began := time.Now()
			if err := f.RefreshAllSettings(t.Context(), ""); err == nil || time.Since(began) > 1100*time.Millisecond {
				t.Errorf("after %s: %v", time.Since(began), err)
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		for node, requests := range f.ironic.asked {
			if requests > 1 {
				t.Errorf("node %s was asked for %d times at once", node, requests)
			}
		}
		if len(f.ironic.asked) == 0 {
			t.Error("Ironic was not asked")
		}
	})
}

// TestUnread: what Ironic does not give for one node, each reader does not ask for again; the object says why its status is not new,
// and keeps what was known. Another state of the node ends the pause.
func TestUnread(t *testing.T) {
	for name, test := range map[string]struct {
		err   error
		takes time.Duration
		says  string
	}{
		"refused": {err: &ironic.APIError{Status: 400, Message: "no such table"}, says: "no such table"},
		"fails":   {err: &ironic.APIError{Status: 500, Message: "no such table"}, says: "no such table"},
		"hung":    {err: &ironic.UnavailableError{Class: ironic.ClassTimeout, Reason: "no answer within 10s"}, takes: time.Minute, says: "no answer within 10s"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet("a")
				f.ensure(t, "a")
				f.ironic.asked, f.ironic.err, f.ironic.takes = nil, test.err, test.takes
				f.moved("a")
				for range 600 {
					_ = f.RefreshSettings(t.Context(), "n", "a")
					if err := f.RefreshAllSettings(t.Context(), "n"); err != nil && test.takes == 0 {
						t.Fatal(err)
					}
					time.Sleep(time.Second)
				}
				if n := f.ironic.asked["node-a"]; n < 3 || n > 10 {
					t.Errorf("Ironic was asked %d times in ten minutes", n)
				}
				settings, err := f.settings.Get(t.Context(), "n", "a")
				if err != nil || settings.Status.Settings["Turbo"] != "on" {
					t.Errorf("%+v, %v", settings.Status, err)
				}
				c := meta.FindStatusCondition(settings.Status.Conditions, "UpToDate")
				if c == nil || c.Status != metav1.ConditionFalse || !strings.HasPrefix(c.Message, "Ironic does not give the BIOS settings of the machine") || !strings.HasSuffix(c.Message, test.says) {
					t.Errorf("the condition is %+v", c)
				}
				gets := f.settings.gets
				for range 10 {
					if err := f.RefreshAllSettings(t.Context(), "n"); err != nil {
						t.Fatal(err)
					}
				}
				if n := f.settings.gets - gets; n > 0 {
					t.Errorf("lists read the object %d times while it says what is unread", n)
				}
				f.ironic.err, f.ironic.takes, f.ironic.value = nil, 0, "off"
				f.moved("a")
				if err := f.RefreshSettings(t.Context(), "n", "a"); err != nil || f.value(t, "a") != "off" {
					t.Errorf("in another state of the node: %v, %s", err, f.value(t, "a"))
				}
				settings, _ = f.settings.Get(t.Context(), "n", "a")
				if c := meta.FindStatusCondition(settings.Status.Conditions, "UpToDate"); c != nil {
					t.Errorf("the condition is %+v", c)
				}
				time.Sleep(time.Minute) // the requests end
			})
		})
	}
}

// TestCannotBeKept: what a machine says of its BIOS may be of any size and of types that nobody knows. Then its object says why it is
// as it was, and the host does without.
func TestCannotBeKept(t *testing.T) {
	long := ironic.Text(strings.Repeat("x", 800<<10))
	for name, test := range map[string]struct {
		more ironic.BIOSSetting
		says string // empty if it can be kept
	}{
		"a type of the BMC's own": {more: ironic.BIOSSetting{Name: "Map", AttributeType: "Map", Value: "a"}},
		"a huge schema":           {ironic.BIOSSetting{Name: "List", AttributeType: "Enumeration", AllowableValues: []ironic.Text{long}}, "786432 bytes"},
		"a huge value":            {ironic.BIOSSetting{Name: "Text", AttributeType: "String", Value: long}, "524288 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet("a")
				f.ensure(t, "a")
				f.moved("a")
				f.ironic.asked, f.ironic.more, f.ironic.value = nil, []ironic.BIOSSetting{test.more}, "off"
				for range 600 {
					settings, err := f.Settings.Ensure(t.Context(), f.hosts["a"])
					if unread := new(unreadError); errors.As(err, &unread) != (test.says != "") || test.says == "" && settings == nil {
						t.Fatalf("%v, the error is %v", settings, err)
					}
					time.Sleep(time.Second)
				}
				if n := f.ironic.asked["node-a"]; test.says != "" && (n < 3 || n > 10) {
					t.Errorf("Ironic was asked %d times in ten minutes", n)
				}
				settings, err := f.settings.Get(t.Context(), "n", "a")
				if err != nil {
					t.Fatal(err)
				}
				c := meta.FindStatusCondition(settings.Status.Conditions, "UpToDate")
				if test.says == "" {
					if schema, _ := f.Settings.SchemaOf(t.Context(), settings); c != nil || settings.Status.Settings["Map"] != "a" || schema.Spec.Schema["Map"].AttributeType != "" {
						t.Errorf("%+v, %+v", settings.Status, schema)
					}
					return
				}
				if c == nil || c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "cannot be kept") || !strings.Contains(c.Message, test.says) {
					t.Errorf("the condition is %+v", c)
				}
				if settings.Status.Settings["Turbo"] != "on" {
					t.Errorf("what was known is lost: %d settings", len(settings.Status.Settings))
				}
			})
		})
	}
}

// TestNeverRead: if Ironic has never given the settings of a machine, its object says so, whether or not it has wishes.
func TestNeverRead(t *testing.T) {
	f := newFleet("a")
	f.ironic.err = &ironic.APIError{Status: 400, Message: "Schema error for response body: bios[3].lower_bound: -1 is less than the minimum of 0"}
	says := func(when string) {
		t.Helper()
		settings, err := f.settings.Get(t.Context(), "n", "a")
		if err != nil {
			t.Fatal(err)
		}
		if c := meta.FindStatusCondition(settings.Status.Conditions, "UpToDate"); c == nil || c.Status != metav1.ConditionFalse || !strings.HasSuffix(c.Message, "the minimum of 0") {
			t.Errorf("%s: the condition is %+v", when, c)
		}
	}
	unread := new(unreadError)
	if _, err := f.Settings.Ensure(t.Context(), f.hosts["a"]); !errors.As(err, &unread) {
		t.Errorf("the error is %v", err)
	}
	says("at first")
	wish, err := f.settings.Get(t.Context(), "n", "a")
	if err != nil {
		t.Fatal(err)
	}
	wish.Spec.Settings, wish.Generation = metal3.DesiredSettingsMap{"Turbo": intstr.FromString("on")}, 2
	if _, err := f.settings.UpdateStatus(t.Context(), wish); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Settings.Refresh(t.Context(), f.hosts["a"]); !errors.As(err, &unread) {
		t.Errorf("with a wish, the error is %v", err)
	}
	says("with a wish")
	f.ironic.err = nil
	f.moved("a")
	if err := f.RefreshSettings(t.Context(), "n", "a"); err != nil || f.value(t, "a") != "on" {
		t.Errorf("read at last: %v, %s", err, f.value(t, "a"))
	}
}

// TestReadsWhileIronicIsAway: what is recorded is served, and the error says so.
func TestReadsWhileIronicIsAway(t *testing.T) {
	f := newFleet("a")
	f.ensure(t, "a")
	f.away = errors.New("away")
	if err := f.RefreshSettings(t.Context(), "n", "a"); !errors.Is(err, f.away) {
		t.Errorf("the error is %v", err)
	}
	f.away, f.ironic.err = nil, errors.New("no list")
	f.moved("a")
	for _, read := range []func() error{
		func() error { return f.RefreshSettings(t.Context(), "n", "a") },
		func() error { return f.RefreshAllSettings(t.Context(), "n") },
	} {
		if err := read(); !errors.Is(err, f.ironic.err) || f.value(t, "a") != "on" {
			t.Errorf("the error is %v, and the value %s", err, f.value(t, "a"))
		}
	}
}

// TestEnsure: settings get their host as an owner, share a schema, and are judged at once.
func TestEnsure(t *testing.T) {
	f := newFleet("a", "b")
	made := &metal3.HostFirmwareSettings{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "b"}}
	made.Spec.Settings = metal3.DesiredSettingsMap{"Turbo": intstr.FromString("off")}
	if _, err := f.settings.Create(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	a, b := f.ensure(t, "a"), f.ensure(t, "b")
	for name, settings := range map[string]*metal3.HostFirmwareSettings{"a": a, "b": b} {
		if owners := settings.OwnerReferences; len(owners) != 1 || owners[0].UID != types.UID("host-"+name) || owners[0].Controller != nil {
			t.Errorf("the owners of %s are %+v", name, owners)
		}
	}
	if *a.Status.FirmwareSchema != *b.Status.FirmwareSchema {
		t.Errorf("schemas %v and %v", a.Status.FirmwareSchema, b.Status.FirmwareSchema)
	}
	schema, err := f.schemas.Get(t.Context(), "n", a.Status.FirmwareSchema.Name)
	if err != nil || len(schema.OwnerReferences) != 2 {
		t.Errorf("the schema is %+v, %v", schema, err)
	}
	if !meta.IsStatusConditionTrue(b.Status.Conditions, "ChangeDetected") || !meta.IsStatusConditionFalse(a.Status.Conditions, "ChangeDetected") {
		t.Errorf("conditions: %+v", b.Status.Conditions)
	}
	if f.Settings.isDue(f.hosts["a"], a) {
		t.Error("settings are due again")
	}
	version := a.ResourceVersion
	if again := f.ensure(t, "a"); again.ResourceVersion != version {
		t.Error("a host to which nothing has happened costs a write")
	}
}

// TestRace: what a user writes meanwhile is not lost, and is what is judged.
func TestRace(t *testing.T) {
	f := newFleet("a")
	f.ensure(t, "a")
	f.moved("a")
	f.ironic.value = "off"
	f.settings.race = func() {
		settings, err := f.settings.Get(t.Context(), "n", "a")
		if err != nil {
			t.Fatal(err)
		}
		settings.Spec.Settings, settings.Generation = metal3.DesiredSettingsMap{"Turbo": intstr.FromString("on")}, 2
		f.settings.put(settings)
	}
	settings, err := f.Settings.Refresh(t.Context(), f.hosts["a"])
	if err != nil {
		t.Fatal(err)
	}
	changed := meta.FindStatusCondition(settings.Status.Conditions, "ChangeDetected")
	if changed.Status != metav1.ConditionTrue || changed.ObservedGeneration != 2 || settings.Status.Settings["Turbo"] != "off" {
		t.Errorf("the settings are %+v", settings)
	}
}

// TestPreview: whoever writes settings or updates is told what that would do to the machine.
func TestPreview(t *testing.T) {
	f := newFleet("a")
	host := f.hosts["a"]
	host.Status.Provisioning.State = metal3.StateAvailable
	settings := f.ensure(t, "a")
	settings.Generation++
	components := &metal3.HostFirmwareComponents{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a", Generation: 2}}
	components.Status.Source = settings.Status.Source
	components.Status.Components = []metal3.FirmwareComponentStatus{{Component: "bios"}, {Component: "bmc"}}
	wants := func(name, value string, updates ...metal3.FirmwareUpdate) {
		settings.Spec.Settings = metal3.DesiredSettingsMap{name: intstr.FromString(value)}
		components.Spec.Updates = updates
	}
	expect := func(obj runtime.Object, want string) {
		t.Helper()
		if got, err := f.Preview(t.Context(), obj); err != nil || got != want {
			t.Errorf("the preview is %q, %v; want %q", got, err, want)
		}
	}
	wants("Turbo", "on")
	expect(settings, "")
	expect(components, "")
	wants("Turbo", "off", metal3.FirmwareUpdate{Component: "bmc", URL: "http://images/bmc"}, metal3.FirmwareUpdate{Component: "bios", URL: "http://images/bios"})
	expect(settings, "host a: the machine would be rebooted for the clean steps bios.apply_configuration (Turbo)")
	expect(components, "host a: the machine would be rebooted for the clean steps firmware.update (bmc), firmware.update (bios)")
	host.Status.Provisioning.State = metal3.StateProvisioned
	expect(settings, "host a: when it runs nothing (it is provisioned now), the machine would be rebooted for the clean steps bios.apply_configuration (Turbo)")
	f.policies.put(&metal3.HostUpdatePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a"}, Spec: metal3.HostUpdatePolicySpec{FirmwareSettings: metal3.UpdateOnReboot}})
	expect(settings, "host a: at its next reboot, Ironic would carry out the service steps bios.apply_configuration (Turbo)")
	expect(components, "host a: when it runs nothing (it is provisioned now), the machine would be rebooted for the clean steps firmware.update (bmc), firmware.update (bios)")
	wants("NoSuch", "off", metal3.FirmwareUpdate{Component: "disk", URL: "http://images/disk"})
	expect(settings, "nothing would be changed: Invalid BIOS setting: setting NoSuch is not in the Status field")
	expect(components, "nothing would be changed: Invalid Firmware Components: [component disk is invalid, only 'bmc', 'bios', or names starting with 'nic:' are allowed as update names]")
	schema, err := f.schemas.Get(t.Context(), settings.Status.FirmwareSchema.Namespace, settings.Status.FirmwareSchema.Name)
	if err != nil {
		t.Fatal(err)
	}
	schema = schema.DeepCopy()
	schema.Spec.Schema["Fan"] = metal3.SettingSchema{ReadOnly: ptr.To(true)}
	f.schemas.put(schema)
	wants("Turbo", "off")
	settings.Spec.Settings["Fan"], settings.Status.Settings["Fan"] = intstr.FromInt32(2), "1"
	expect(settings, "host a: at its next reboot, Ironic would carry out the service steps bios.apply_configuration (Turbo). Read-only now, and applied if that has changed when the other settings are applied: Fan")
	settings.Name = "no-such-host"
	expect(settings, "")
}
