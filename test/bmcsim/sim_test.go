// SPDX-License-Identifier: Apache-2.0

package bmcsim_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
)

func start(t *testing.T, options bmcsim.Options) *bmcsim.Sim {
	t.Helper()
	sim, err := bmcsim.Start(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sim.Close(); err != nil {
			t.Error(err)
		}
	})
	return sim
}

// send sends a request to a machine's BMC. The caller must close the body of the response.
func send(t *testing.T, m *bmcsim.Machine, method, path, body string) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, m.URL()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.SetBasicAuth(m.Username(), m.Password())
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	return response
}

// call sends a request to a machine's BMC, and decodes the answer if into is not nil.
func call(t *testing.T, m *bmcsim.Machine, method, path, body string, into any) int {
	t.Helper()
	response := send(t, m, method, path, body)
	defer response.Body.Close()
	if into != nil {
		if err := json.NewDecoder(response.Body).Decode(into); err != nil {
			t.Fatalf("%s %s: %v", method, path, err)
		}
	}
	return response.StatusCode
}

func reset(t *testing.T, m *bmcsim.Machine, kind string) {
	t.Helper()
	if code := call(t, m, http.MethodPost, m.SystemID()+"/Actions/ComputerSystem.Reset", `{"ResetType":"`+kind+`"}`, nil); code != http.StatusNoContent {
		t.Fatalf("reset %s: %d", kind, code)
	}
}

// TestRedfishLinks checks that every link in the service leads to a resource.
func TestRedfishLinks(t *testing.T) {
	m := start(t, bmcsim.Options{Machines: 1}).Machine(0)
	seen := map[string]bool{}
	var visit func(path string)
	var follow func(value any)
	follow = func(value any) {
		switch v := value.(type) {
		case map[string]any:
			for key, inner := range v {
				if path, ok := inner.(string); ok && key == "@odata.id" {
					visit(path)
				}
				follow(inner)
			}
		case []any:
			for _, inner := range v {
				follow(inner)
			}
		}
	}
	visit = func(path string) {
		if seen[path] {
			return
		}
		seen[path] = true
		var r map[string]any
		if code := call(t, m, http.MethodGet, path, "", &r); code != http.StatusOK || r["@odata.id"] != path {
			t.Errorf("GET %s: %d, its @odata.id is %v", path, code, r["@odata.id"])
		}
		follow(r)
	}
	visit("/redfish/v1/")
	if len(seen) < 30 {
		t.Errorf("only %d resources: %v", len(seen), seen)
	}
	if code := call(t, m, http.MethodGet, "/redfish/v1/Systems/machine-1", "", nil); code != http.StatusNotFound {
		t.Errorf("another machine's system: %d", code)
	}
}

func TestSession(t *testing.T) {
	m := start(t, bmcsim.Options{Machines: 1, Username: "root", Password: "calvin"}).Machine(0)
	login := func(password string) *http.Response {
		t.Helper()
		body := strings.NewReader(`{"UserName":"root","Password":"` + password + `"}`)
		response, err := http.Post(m.URL()+"/redfish/v1/SessionService/Sessions", "application/json", body)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response
	}
	if r := login("wrong"); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("wrong password: %d", r.StatusCode)
	}
	session := login("calvin")
	get := func() int {
		t.Helper()
		request, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, m.URL()+m.SystemID(), nil)
		request.Header.Set("X-Auth-Token", session.Header.Get("X-Auth-Token"))
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response.StatusCode
	}
	if code := get(); code != http.StatusOK {
		t.Errorf("with a session: %d", code)
	}
	if err := m.SetFault(bmcsim.WrongPassword, ""); err != nil {
		t.Fatal(err)
	}
	if code := get(); code != http.StatusUnauthorized {
		t.Errorf("with a session from before the password was changed: %d", code)
	}
}

func TestBoot(t *testing.T) {
	for _, test := range []struct {
		name  string
		boot  string
		media string
		want  []bmcsim.Boot
	}{
		{"nothing overrides", `{}`, "", []bmcsim.Boot{{Device: "Hdd", Running: bmcsim.RunningDisk}, {Device: "Hdd", Running: bmcsim.RunningDisk}}},
		{
			"network once", `{"BootSourceOverrideTarget":"Pxe","BootSourceOverrideEnabled":"Once"}`, "",
			[]bmcsim.Boot{{Device: "Pxe", Running: bmcsim.RunningRamdisk}, {Device: "Hdd", Running: bmcsim.RunningDisk}},
		},
		{
			"network always", `{"BootSourceOverrideTarget":"UefiHttp","BootSourceOverrideEnabled":"Continuous"}`, "",
			[]bmcsim.Boot{{Device: "UefiHttp", Running: bmcsim.RunningRamdisk}, {Device: "UefiHttp", Running: bmcsim.RunningRamdisk}},
		},
		{
			"virtual CD once", `{"BootSourceOverrideTarget":"Cd","BootSourceOverrideEnabled":"Once"}`, "http://a/ipa.iso",
			[]bmcsim.Boot{{Device: "Cd", Media: "http://a/ipa.iso", Running: bmcsim.RunningRamdisk}, {Device: "Hdd", Running: bmcsim.RunningDisk}},
		},
		{
			"virtual CD always", `{"BootSourceOverrideTarget":"Cd","BootSourceOverrideEnabled":"Continuous"}`, "http://a/live.iso",
			[]bmcsim.Boot{{Device: "Cd", Media: "http://a/live.iso", Running: bmcsim.RunningLiveISO}, {Device: "Cd", Media: "http://a/live.iso", Running: bmcsim.RunningLiveISO}},
		},
		{
			"empty virtual CD", `{"BootSourceOverrideTarget":"Cd","BootSourceOverrideEnabled":"Once"}`, "",
			[]bmcsim.Boot{{Device: "Cd", Running: bmcsim.RunningDisk}, {Device: "Hdd", Running: bmcsim.RunningDisk}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := start(t, bmcsim.Options{Machines: 1}).Machine(0)
			if code := call(t, m, http.MethodPatch, m.SystemID(), `{"Boot":`+test.boot+`}`, nil); code != http.StatusNoContent {
				t.Fatalf("boot override: %d", code)
			}
			if test.media != "" {
				path := "/redfish/v1/Managers/machine-0/VirtualMedia/Cd/Actions/VirtualMedia.InsertMedia"
				if code := call(t, m, http.MethodPost, path, `{"Image":"`+test.media+`"}`, nil); code != http.StatusNoContent {
					t.Fatalf("insert: %d", code)
				}
			}
			reset(t, m, "On")
			reset(t, m, "ForceRestart")
			for i := range test.want {
				test.want[i].Drive = test.media
			}
			if diff := cmp.Diff(test.want, m.Boots()); diff != "" {
				t.Errorf("boots (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPower(t *testing.T) {
	m := start(t, bmcsim.Options{Machines: 1}).Machine(0)
	for _, step := range []struct {
		kind  string
		fault bmcsim.Fault
		want  bmcsim.Power
	}{
		{"On", bmcsim.IgnorePower, bmcsim.Off},
		{"On", "", bmcsim.On},
		{"On", "", bmcsim.On},
		{"GracefulShutdown", bmcsim.IgnoreSoftPower, bmcsim.On},
		{"GracefulShutdown", "", bmcsim.Off},
		{"PushPowerButton", "", bmcsim.On},
		{"GracefulRestart", "", bmcsim.On},
		{"PushPowerButton", "", bmcsim.Off},
		{"ForceRestart", "", bmcsim.On},
		{"ForceOff", bmcsim.IgnoreSoftPower, bmcsim.Off},
	} {
		if err := m.ClearFault(); err != nil {
			t.Fatal(err)
		}
		if step.fault != "" {
			if err := m.SetFault(step.fault, ""); err != nil {
				t.Fatal(err)
			}
		}
		reset(t, m, step.kind)
		if m.Power() != step.want {
			t.Errorf("%s with %q: %s, want %s", step.kind, step.fault, m.Power(), step.want)
		}
	}
	if code := call(t, m, http.MethodPost, m.SystemID()+"/Actions/ComputerSystem.Reset", `{"ResetType":"Kick"}`, nil); code != http.StatusBadRequest {
		t.Errorf("unknown reset: %d", code)
	}
}

// TestPowerDelay checks that only the last of several power commands takes effect.
func TestPowerDelay(t *testing.T) {
	m := start(t, bmcsim.Options{Machines: 1, PowerDelay: 50 * time.Millisecond}).Machine(0)
	reset(t, m, "On")
	if m.Power() != bmcsim.Off {
		t.Error("the machine is on without a delay")
	}
	reset(t, m, "ForceOff")
	reset(t, m, "On")
	err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, 5*time.Minute, true, func(context.Context) (bool, error) { return m.Power() == bmcsim.On, nil })
	if err != nil {
		t.Fatal("the machine does not switch on")
	}
	if history := m.PowerHistory(); len(history) != 1 {
		t.Errorf("power history %v, want the last command only", history)
	}
}

// TestSecureBoot checks that a change of secure boot takes effect with the next boot.
func TestSecureBoot(t *testing.T) {
	m := start(t, bmcsim.Options{Machines: 1}).Machine(0)
	path := m.SystemID() + "/SecureBoot"
	for _, step := range []struct {
		patch, reset, says string
		on                 bool
	}{
		{"", "On", "Disabled", false},
		{`{"SecureBootEnable":true}`, "", "Disabled", false},
		{"", "ForceRestart", "Enabled", true},
		{`{"SecureBootEnable":false}`, "", "Enabled", true},
		{"", "ForceOff", "Enabled", true},
		{"", "On", "Disabled", false},
	} {
		if step.patch != "" {
			if code := call(t, m, http.MethodPatch, path, step.patch, nil); code != http.StatusNoContent {
				t.Fatalf("PATCH %s: %d", step.patch, code)
			}
		}
		if step.reset != "" {
			reset(t, m, step.reset)
		}
		var resource struct{ SecureBootCurrentBoot string }
		if code := call(t, m, http.MethodGet, path, "", &resource); code != http.StatusOK || resource.SecureBootCurrentBoot != step.says || m.SecureBoot() != step.on {
			t.Errorf("after %s%s: %d, %q, %t; want %q", step.patch, step.reset, code, resource.SecureBootCurrentBoot, m.SecureBoot(), step.says)
		}
	}
}

func TestStaleETag(t *testing.T) {
	m := start(t, bmcsim.Options{Machines: 1}).Machine(0)
	request, _ := http.NewRequestWithContext(t.Context(), http.MethodPatch, m.URL()+m.SystemID(), strings.NewReader(`{"Boot":{}}`))
	request.SetBasicAuth(m.Username(), m.Password())
	request.Header.Set("If-Match", `"old"`)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusPreconditionFailed {
		t.Errorf("PATCH of a resource that has changed: %d", response.StatusCode)
	}
}

func TestUnreachable(t *testing.T) {
	m := start(t, bmcsim.Options{Machines: 1}).Machine(0)
	client := &http.Client{Timeout: 300 * time.Millisecond, Transport: &http.Transport{DisableKeepAlives: true}}
	get := func() error {
		response, err := client.Get(m.URL() + "/redfish/v1/")
		if err == nil {
			response.Body.Close()
		}
		return err
	}
	for _, test := range []struct {
		fault bmcsim.Fault
		text  string
	}{
		{bmcsim.RefuseConnections, "connection refused"},
		{bmcsim.HangConnections, "Client.Timeout"},
	} {
		if err := m.SetFault(test.fault, ""); err != nil {
			t.Fatal(err)
		}
		if err := get(); err == nil || !strings.Contains(err.Error(), test.text) {
			t.Errorf("%s: %v", test.fault, err)
		}
		if err := m.ClearFault(test.fault); err != nil {
			t.Fatal(err)
		}
		if err := get(); err != nil {
			t.Errorf("%s cleared: %v", test.fault, err)
		}
	}
}

// TestRamdisk checks that a ramdisk calls Ironic until its node is found, and that its agent answers only
// while it is running.
func TestRamdisk(t *testing.T) {
	const token = "s3cret"
	beats, lookups := make(chan map[string]string, 100), 0
	ironic := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/v1/lookup" && strings.HasPrefix(r.URL.Query().Get("addresses"), "52:54:00:00:00:01"):
			if lookups++; lookups < 3 {
				http.NotFound(w, r)
				return
			}
			_, _ = io.WriteString(w, `{"node":{"uuid":"u1"},"config":{"agent_token":"`+token+`"}}`)
		case r.URL.Path == "/v1/heartbeat/u1":
			var beat map[string]string
			_ = json.NewDecoder(r.Body).Decode(&beat)
			select {
			case beats <- beat:
			default:
			}
		default:
			http.NotFound(w, r)
		}
	}))
	defer ironic.Close()
	sim := start(t, bmcsim.Options{Machines: 1, IronicURL: ironic.URL, Heartbeat: 20 * time.Millisecond})
	image := fmt.Sprintf(`{"urls":[%q],"os_hash_algo":"sha256","os_hash_value":%q}`, sim.FileURL(bmcsim.ImageFile), sim.FileChecksum(bmcsim.ImageFile))
	m := sim.Machine(0)
	call(t, m, http.MethodPatch, m.SystemID(), `{"Boot":{"BootSourceOverrideTarget":"Pxe","BootSourceOverrideEnabled":"Once"}}`, nil)
	reset(t, m, "On")
	var beat map[string]string
	select {
	case beat = <-beats:
	case <-time.After(5 * time.Minute):
		t.Fatal("no heartbeat")
	}
	if beat["agent_token"] != token || beat["agent_version"] == "" {
		t.Errorf("heartbeat %v", beat)
	}
	command := func(token, body string) (int, string, error) {
		response, err := http.Post(beat["callback_url"]+"/v1/commands/?wait=true&agent_token="+token, "application/json", bytes.NewReader([]byte(body)))
		if err != nil {
			return 0, "", err
		}
		defer response.Body.Close()
		content, _ := io.ReadAll(response.Body)
		return response.StatusCode, string(content), nil
	}
	before := m.Disks()
	if !bytes.Contains(before["/dev/sda"], []byte("EFI PART")) || !bytes.Contains(before["/dev/sda"], []byte("data on")) {
		t.Errorf("the initial content of a disk is %q", before["/dev/sda"])
	}
	same := func() string { return cmp.Diff(before, m.Disks()) }
	changed := func() string {
		if same() == "" {
			return "no change"
		}
		before = m.Disks()
		return ""
	}
	for _, step := range []struct {
		token, body string
		code        int
		text        string
		disks       func() (complaint string)
	}{
		{"wrong", `{"name":"standby.sync","params":{}}`, 401, "agent_token", same},
		{token, `{"name":"standby.dance","params":{}}`, 404, "standby.dance", same},
		{token, `{"name":"clean.get_clean_steps","params":{}}`, 200, "erase_devices_metadata", same},
		{token, `{"name":"clean.execute_clean_step","params":{"step":{"interface":"deploy","step":"burnin_cpu"}}}`, 200, "SUCCEEDED", same},
		{token, `{"name":"clean.execute_clean_step","params":{"step":{"interface":"deploy","step":"erase_devices_metadata"}}}`, 200, "SUCCEEDED", changed},
		{token, `{"name":"clean.execute_clean_step","params":{"step":{"interface":"deploy","step":"erase_devices"}}}`, 200, "SUCCEEDED", changed},
		{token, `{"name":"deploy.execute_deploy_step","params":{"step":{"interface":"deploy","step":"write_image","args":{}}}}`, 200, "no URL", same},
		{token, `{"name":"deploy.execute_deploy_step","params":{"step":{"interface":"deploy","step":"write_image","args":{"image_info":` + image + `}}}}`, 200, "SUCCEEDED", changed},
		{token, `{"name":"standby.power_off","params":{}}`, 200, "SUCCEEDED", same},
	} {
		if code, text, err := command(step.token, step.body); err != nil || code != step.code || !strings.Contains(text, step.text) {
			t.Errorf("%s: %d %s %v", step.body, code, text, err)
		}
		if complaint := step.disks(); complaint != "" {
			t.Errorf("after %s the disks: %s", step.body, complaint)
		}
	}
	var writes []string
	for _, w := range m.DiskWrites() {
		writes = append(writes, w.Step+" on "+w.Disk)
	}
	if diff := cmp.Diff([]string{
		"clean erase_devices_metadata on /dev/nvme0n1", "clean erase_devices_metadata on /dev/sda",
		"clean erase_devices on /dev/nvme0n1", "clean erase_devices on /dev/sda", "deploy write_image on /dev/nvme0n1",
	}, writes); diff != "" {
		t.Errorf("written to disks (-want +got):\n%s", diff)
	}
	if got := m.Disks()["/dev/nvme0n1"]; !bytes.HasPrefix(got, []byte("bmcsim "+bmcsim.ImageFile)) {
		t.Errorf("the disk with the image begins with %q", got[:32])
	}
	if m.Power() != bmcsim.Off {
		t.Errorf("%s after the ramdisk was told to power off", m.Power())
	}
	if code, _, err := command(token, `{"name":"standby.sync","params":{}}`); err == nil {
		t.Errorf("the agent of a machine that is off answers %d", code)
	}
}
