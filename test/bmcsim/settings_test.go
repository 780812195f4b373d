// SPDX-License-Identifier: Apache-2.0

package bmcsim_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

func TestBIOSSettings(t *testing.T) {
	m := start(t, bmcsim.Options{Machines: 1}).Machine(0)
	settings := m.SystemID() + "/Bios/Settings"
	for _, test := range []struct {
		attributes string
		code       int
	}{
		{`{"LogicalProc":"Disabled","NumCores":64,"QuietBoot":false,"AssetTag":"0123456789abcdef"}`, 204},
		{`{"LogicalProc":"Perhaps"}`, 400},
		{`{"NumCores":0}`, 400},
		{`{"NumCores":65}`, 400},
		{`{"NumCores":1.5}`, 400},
		{`{"NumCores":"20"}`, 400},
		{`{"QuietBoot":"true"}`, 400},
		{`{"AssetTag":"0123456789abcdefg"}`, 400},
		{`{"AssetTag":1}`, 400},
		{`{"SerialNumber":"1"}`, 400},
		{`{"SetupPassword":"1"}`, 400},
		{`{"Nonsense":1}`, 400},
	} {
		if code := call(t, m, http.MethodPatch, settings, `{"Attributes":`+test.attributes+`}`, nil); code != test.code {
			t.Errorf("%s: %d, want %d", test.attributes, code, test.code)
		}
	}
	if got := m.BIOS(); got["LogicalProc"] != "Enabled" || got["QuietBoot"] != true {
		t.Errorf("before the reset: %v", got)
	}
	reset(t, m, "On")
	want := map[string]any{
		"AssetTag": "0123456789abcdef", "BootMode": "Uefi", "LogicalProc": "Disabled", "NumCores": 64.0, "ProcVirtualization": "Disabled",
		"QuietBoot": false, "SerialNumber": "QPX12345", "SetupPassword": nil, "SriovGlobalEnable": "Disabled",
	}
	if diff := cmp.Diff(want, m.BIOS()); diff != "" {
		t.Errorf("after the reset (-want +got):\n%s", diff)
	}

	setFault(t, m, bmcsim.LoseBIOSChanges, "")
	call(t, m, http.MethodPatch, settings, `{"Attributes":{"NumCores":2}}`, nil)
	reset(t, m, "ForceRestart")
	var bios, pending struct{ Attributes map[string]any }
	call(t, m, http.MethodGet, m.SystemID()+"/Bios", "", &bios)
	call(t, m, http.MethodGet, settings, "", &pending)
	if bios.Attributes["NumCores"] != 64.0 || pending.Attributes["NumCores"] != 64.0 {
		t.Errorf("after a lost change: NumCores %v, pending %v", bios.Attributes["NumCores"], pending.Attributes["NumCores"])
	}
}

func setFault(t *testing.T, m *bmcsim.Machine, f bmcsim.Fault, message string) {
	t.Helper()
	if err := m.SetFault(f, message); err != nil {
		t.Fatal(err)
	}
}

// location sends a request and returns the status code and the Location header.
func location(t *testing.T, m *bmcsim.Machine, method, path, body string) (code int, path2 string) {
	t.Helper()
	response := send(t, m, method, path, body)
	response.Body.Close()
	return response.StatusCode, response.Header.Get("Location")
}

// volume returns a request for a volume on drives of the RAID controller.
func volume(m *bmcsim.Machine, level string, bytes int64, drives ...int) string {
	links := ""
	for i, d := range drives {
		if i > 0 {
			links += ","
		}
		links += fmt.Sprintf(`{"@odata.id":"%s/Storage/RAID/Drives/Disk.Bay.%d"}`, m.SystemID(), d)
	}
	size := ""
	if bytes > 0 {
		size = fmt.Sprintf(`"CapacityBytes":%d,`, bytes)
	}
	return fmt.Sprintf(`{"RAIDType":%q,%s"Links":{"Drives":[%s]}}`, level, size, links)
}

func TestVolumes(t *testing.T) {
	m := start(t, bmcsim.Options{Machines: 1}).Machine(0)
	collection := m.SystemID() + "/Storage/RAID/Volumes"
	for _, test := range []struct {
		body string
		code int
	}{
		{volume(m, "RAID1", 100<<30, 0, 1), 201},
		{volume(m, "RAID5", 0, 0, 1, 2), 201}, // takes what is left
		{volume(m, "RAID0", 1, 0), 400},       // and nothing is left
		{volume(m, "RAID0", 1200<<30, 3), 201},
		{volume(m, "RAID1", 480<<30+1, 4, 5), 400},
		{volume(m, "RAID1", 1, 4), 400},
		{volume(m, "RAID1", 1, 4, 4), 400},
		{volume(m, "RAID1", 1, 4, 6), 400},
		{volume(m, "RAID7", 1, 4, 5), 400},
	} {
		code, path := location(t, m, http.MethodPost, collection, test.body)
		if code != test.code {
			t.Errorf("%s: %d, want %d", test.body, code, test.code)
		}
		if code == 201 && call(t, m, http.MethodGet, path, "", nil) != 200 {
			t.Errorf("there is nothing at %q", path)
		}
	}
	hdd := func(numbers ...int) (ids []string) {
		for _, n := range numbers {
			ids = append(ids, fmt.Sprintf("Disk.Bay.%d", n))
		}
		return ids
	}
	want := []bmcsim.Volume{
		{ID: "1", Name: "Virtual disk 1", RAIDType: "RAID1", Bytes: 100 << 30, Drives: hdd(0, 1), Disk: "/dev/sdb"},
		{ID: "2", Name: "Virtual disk 2", RAIDType: "RAID5", Bytes: 2200 << 30, Drives: hdd(0, 1, 2), Disk: "/dev/sdc"},
		{ID: "3", Name: "Virtual disk 3", RAIDType: "RAID0", Bytes: 1200 << 30, Drives: hdd(3), Disk: "/dev/sdd"},
	}
	if diff := cmp.Diff(want, m.Volumes()); diff != "" {
		t.Errorf("volumes (-want +got):\n%s", diff)
	}
	if len(m.Disks()) != 5 {
		t.Errorf("%d disks, want two and three volumes", len(m.Disks()))
	}
	if code := call(t, m, http.MethodDelete, collection+"/2", "", nil); code != 204 {
		t.Errorf("deletion: %d", code)
	}
	if code := call(t, m, http.MethodDelete, collection+"/2", "", nil); code != 404 {
		t.Errorf("deletion again: %d", code)
	}
	if diff := cmp.Diff([]bmcsim.Volume{want[0], want[2]}, m.Volumes()); diff != "" {
		t.Errorf("volumes after a deletion (-want +got):\n%s", diff)
	}
}

// task is what a client sees of a task.
type task struct {
	TaskState, TaskStatus string
	Messages              []struct{ Message string }
}

func getTask(t *testing.T, m *bmcsim.Machine, path string) (code int, got task) {
	t.Helper()
	code = call(t, m, http.MethodGet, path, "", &got)
	return code, got
}

func TestVolumeTaskFails(t *testing.T) {
	m := start(t, bmcsim.Options{Machines: 1}).Machine(0)
	setFault(t, m, bmcsim.VolumeTaskFails, "no power")
	code, path := location(t, m, http.MethodPost, m.SystemID()+"/Storage/RAID/Volumes", volume(m, "RAID1", 1<<30, 4, 5))
	if code != 202 {
		t.Fatalf("the volume: %d", code)
	}
	if code, got := getTask(t, m, path); code != 202 || got.TaskState != "Starting" || len(m.Volumes()) != 0 {
		t.Errorf("before the reset, %d %+v and %d volumes", code, got, len(m.Volumes()))
	}
	reset(t, m, "ForceRestart")
	if code, got := getTask(t, m, path); code != 200 || got.TaskState != "Exception" || len(got.Messages) != 1 || len(m.Volumes()) != 0 {
		t.Errorf("after the reset, %d %+v and %d volumes", code, got, len(m.Volumes()))
	}
}

// ended polls a task until it has ended or waits for a reset.
func ended(t *testing.T, m *bmcsim.Machine, path string) (got task) {
	t.Helper()
	testbed.EventuallyEvery(t, t.Context(), 5*time.Millisecond, func() string {
		if _, got = getTask(t, m, path); got.TaskState == "New" {
			return "the task is still new"
		}
		return ""
	})
	return got
}

func TestFirmwareUpdate(t *testing.T) {
	sim := start(t, bmcsim.Options{Machines: 1, BMCRestart: 10 * time.Millisecond})
	m := sim.Machine(0)
	update := func(url string) string {
		t.Helper()
		code, path := location(t, m, http.MethodPost, "/redfish/v1/UpdateService/Actions/UpdateService.SimpleUpdate", `{"ImageURI":"`+url+`","TransferProtocol":"HTTP"}`)
		if code != 202 {
			t.Fatalf("update with %s: %d", url, code)
		}
		return path
	}
	want := map[string]string{"bios": "2.17.1", "bmc": "1.45.0", "nic:NIC1": "22.5.7"}
	check := func(when string) {
		t.Helper()
		if diff := cmp.Diff(want, m.Firmware()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}

	path := update(sim.FirmwareURL("bios", "2.18.0"))
	if got := ended(t, m, path); got.TaskState != "Starting" {
		t.Errorf("before the reset: %+v", got)
	}
	check("before the reset")
	reset(t, m, "On")
	if _, got := getTask(t, m, path); got.TaskState != "Completed" || got.TaskStatus != "OK" {
		t.Errorf("after the reset: %+v", got)
	}
	want["bios"] = "2.18.0"
	check("after the reset")

	for _, url := range []string{sim.FileURL(bmcsim.ImageFile), sim.FileURL("missing"), sim.FirmwareURL("nic:NIC9", "1")} {
		if got := ended(t, m, update(url)); got.TaskState != "Exception" || len(got.Messages) == 0 || got.Messages[0].Message == "" {
			t.Errorf("update with %s: %+v", url, got)
		}
	}
	setFault(t, m, bmcsim.UpdateTaskFails, "the signature is wrong")
	if got := ended(t, m, update(sim.FirmwareURL("bmc", "1.46.0"))); got.TaskState != "Exception" || got.Messages[0].Message != "the signature is wrong" {
		t.Errorf("with UpdateTaskFails: %+v", got)
	}
	check("after updates that have failed")
	if err := m.ClearFault(); err != nil {
		t.Fatal(err)
	}

	// A BMC that restarts itself forgets its tasks.
	setFault(t, m, bmcsim.BMCRestarts, "")
	path = update(sim.FirmwareURL("bmc", "1.46.0"))
	eventually := func(what string, is func() bool) {
		t.Helper()
		testbed.EventuallyEvery(t, t.Context(), 5*time.Millisecond, func() string {
			if !is() {
				return "not: " + what
			}
			return ""
		})
	}
	eventually("installed", func() bool { return m.Firmware()["bmc"] == "1.46.0" })
	if code, _ := getTask(t, m, path); code != 202 {
		t.Errorf("the task before the restart of the BMC: %d", code)
	}
	eventually("back after a restart", func() bool { return m.BMCRestarts() == 1 })
	if code, _ := getTask(t, m, path); code != 404 {
		t.Errorf("the task after a restart of the BMC: %d", code)
	}
	want["bmc"] = "1.46.0"
	check("after a restart of the BMC")
	var inventory struct{ Version string }
	call(t, m, http.MethodGet, "/redfish/v1/UpdateService/FirmwareInventory/BMC", "", &inventory)
	if inventory.Version != "1.46.0" {
		t.Errorf("in the inventory: %+v", inventory)
	}
	if len(m.Updates()) != 6 {
		t.Errorf("updates: %v", m.Updates())
	}
}
