// SPDX-License-Identifier: Apache-2.0

package firmware

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// untouched is an Ironic that panics when it is asked for anything.
type untouched struct{ Ironic }

// elsewhere puts a host into the Ironic of an IronicInstance.
func (f *fleet) elsewhere(ironic string, hosts ...string) {
	for _, name := range hosts {
		f.hosts[name].Status.Record.Ironic = ironic
	}
}

// The settings of each host are read from its own Ironic. Two nodes of the same UUID, as in a copy of an Ironic, do not share a
// request that is under way.
func TestSettingsComeFromTheHostsOwnIronic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet("a", "b")
		room := &countingIronic{value: "off", takes: time.Second}
		f.ironic.takes = time.Second
		f.others = map[string]Ironic{"room-b": room, "room-c": untouched{}}
		f.elsewhere("room-b", "b")
		f.hosts["b"].Status.Ironic.NodeUUID = "node-a"
		var running sync.WaitGroup
		for name := range f.hosts {
			running.Go(func() {
				if _, err := f.Settings.Ensure(t.Context(), f.hosts[name]); err != nil {
					t.Error(err)
				}
			})
		}
		running.Wait()
		for name, want := range map[string]string{"a": "on", "b": "off"} {
			if got := f.value(t, name); got != want {
				t.Errorf("%s is %s, want %s", name, got, want)
			}
		}
		for _, client := range []*countingIronic{f.ironic, room} {
			if len(client.asked) != 1 || client.asked["node-a"] != 1 {
				t.Errorf("asked for %v", client.asked)
			}
		}
	})
}

// While the Ironic of a host is not known, its settings stay as they were recorded, and a read says why. They are refreshed when it
// is known.
func TestSettingsOfAnUnknownIronic(t *testing.T) {
	f := newFleet("a")
	f.ensure(t, "a")
	f.ironic.asked, f.ironic.value = nil, "off"
	f.elsewhere("room-b", "a")
	f.moved("a")
	for _, read := range []func() error{
		func() error { return f.RefreshSettings(t.Context(), "n", "a") },
		func() error { return f.RefreshAllSettings(t.Context(), "n") },
	} {
		if err := read(); !ironic.IsUnavailable(err) || !strings.Contains(err.Error(), "the BIOS settings of n/a are as they were recorded") || !strings.Contains(err.Error(), "IronicInstance room-b does not exist") {
			t.Errorf("the error is %v", err)
		}
	}
	if len(f.ironic.asked) > 0 || f.value(t, "a") != "on" {
		t.Errorf("asked for %v; a is %s", f.ironic.asked, f.value(t, "a"))
	}
	f.others = map[string]Ironic{"room-b": f.ironic}
	if err := f.RefreshSettings(t.Context(), "n", "a"); err != nil || f.value(t, "a") != "off" {
		t.Errorf("when the Ironic is known: %v, a is %s", err, f.value(t, "a"))
	}
}

// A list refreshes what other Ironics have while one does not answer, and says which one that is, once, however many hosts it has.
func TestAListWhileAnIronicHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var names, hung []string
		for i := range readers * 4 {
			names = append(names, fmt.Sprintf("a-%02d", i))
			hung = append(hung, fmt.Sprintf("b-%02d", i))
		}
		f := newFleet(slices.Concat(names, hung)...)
		room := &countingIronic{value: "on"}
		f.others = map[string]Ironic{"room-b": room}
		f.elsewhere("room-b", hung...)
		for name := range f.hosts {
			f.ensure(t, name)
			f.moved(name)
		}
		f.ironic.value, f.ironic.takes, room.takes, room.asked = "off", 100*time.Millisecond, time.Minute, nil
		began := time.Now()
		err := f.RefreshAllSettings(t.Context(), "")
		if took := time.Since(began); took > f.Timeout("")+100*time.Millisecond {
			t.Errorf("the list took %s", took)
		}
		if err == nil || !strings.HasPrefix(err.Error(), "IronicInstance room-b: the BIOS settings of n/b-") || !strings.HasSuffix(err.Error(), fmt.Sprintf("(and %d more)", len(hung)-1)) || strings.Contains(err.Error(), "\n") {
			t.Errorf("the error is %v", err)
		}
		for _, name := range names {
			if f.value(t, name) != "off" {
				t.Errorf("%s was not refreshed", name)
			}
		}
		for _, name := range hung {
			if f.value(t, name) != "on" {
				t.Errorf("%s is %s, want what was recorded", name, f.value(t, name))
			}
		}
		time.Sleep(time.Minute) // the requests end
		synctest.Wait()
	})
}

// release is an Ironic that knows one component of each node, if it supports firmware at all.
type release struct {
	Ironic
	supported bool
	asked     []string
}

func (c *release) Features(context.Context) (ironic.Features, error) {
	return ironic.Features{Firmware: c.supported}, nil
}

func (c *release) ListFirmware(_ context.Context, uuid string) ([]ironic.FirmwareComponent, error) {
	c.asked = append(c.asked, uuid)
	return []ironic.FirmwareComponent{{Component: "bmc"}}, nil
}

// Whether a host can have firmware components, and which ones it has, says its own Ironic. Nothing is created while that is not
// known.
func TestComponentsComeFromTheHostsOwnIronic(t *testing.T) {
	f := newFleet("a", "b", "c")
	f.elsewhere("room-b", "b")
	f.elsewhere("room-c", "c")
	older, newer := &release{}, &release{supported: true}
	stored := &objects[*metal3.HostFirmwareComponents]{}
	ironics := map[string]Ironic{"": older, "room-b": newer}
	keeper := NewComponentKeeper(stored, func(host *metal3.BareMetalHost) (Ironic, error) {
		if client, known := ironics[host.Status.Record.Ironic]; known {
			return client, nil
		}
		return nil, &ironic.UnavailableError{Op: "find the Ironic", Reason: "it is not known"}
	}, clock.RealClock{})
	for _, host := range f.hosts {
		host.Spec.BMC.Address = "redfish://192.0.2.1/redfish/v1/Systems/1"
	}
	if made, err := keeper.Ensure(t.Context(), f.hosts["a"]); err != nil || made != nil {
		t.Errorf("with an older Ironic: %v, %v", made, err)
	}
	if made, err := keeper.Ensure(t.Context(), f.hosts["b"]); err != nil || made == nil || len(made.Status.Components) != 1 {
		t.Errorf("with a newer one: %v, %v", made, err)
	}
	if made, err := keeper.Ensure(t.Context(), f.hosts["c"]); !ironic.IsUnavailable(err) || made != nil {
		t.Errorf("with one that is not known: %v, %v", made, err)
	}
	if len(older.asked) > 0 || !slices.Equal(newer.asked, []string{"node-b"}) || len(stored.stored) != 1 {
		t.Errorf("asked for %q and %q; there are %d objects", older.asked, newer.asked, len(stored.stored))
	}
	ironics["room-c"] = newer
	if made, err := keeper.Ensure(t.Context(), f.hosts["c"]); err != nil || made == nil {
		t.Errorf("when it is known: %v, %v", made, err)
	}
}

// What may be done to a machine that runs something depends on its own Ironic.
func TestWhatIronicCanDoIsThatOfTheHostsOwn(t *testing.T) {
	f := newFleet("a")
	f.elsewhere("room-b", "a")
	host := f.hosts["a"]
	host.Status.Provisioning.State = metal3.StateProvisioned
	host.Status.PoweredOn = true
	host.Status.Record.Servicing = &metal3.Servicing{}
	w := NewWatch(Deps{Settings: f.Settings, Components: NewComponentKeeper(&objects[*metal3.HostFirmwareComponents]{}, nil, clock.RealClock{}), Policies: f.policies}, nil, nil)
	host.Status.Ironic = nil // so that there is nothing to read of it
	if _, err := w.SettingsFor(t.Context(), host); !ironic.IsUnavailable(err) {
		t.Errorf("while the Ironic is not known: %v", err)
	}
	f.others = map[string]Ironic{"room-b": servicing{}}
	if found, err := w.SettingsFor(t.Context(), host); err != nil || !found.CanService {
		t.Errorf("%+v, %v", found, err)
	}
}

// servicing is an Ironic that can change a machine that runs something.
type servicing struct{ Ironic }

func (servicing) Features(context.Context) (ironic.Features, error) {
	return ironic.Features{Servicing: true}, nil
}
