// SPDX-License-Identifier: Apache-2.0

package bmcsim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

const updateServicePath = "/redfish/v1/UpdateService"

// The components with firmware, as Ironic names them.
const (
	firmwareBIOS = "bios"
	firmwareBMC  = "bmc"
	firmwareNIC  = "nic:" + nicID
)

// nicID is the ID of the network adapter.
const nicID = "NIC1"

// defaultBMCRestart is how long a BMC is away when it restarts itself.
const defaultBMCRestart = 3 * time.Second

// bmcAnswers is how long a BMC still answers before it restarts itself.
const bmcAnswers = 100 * time.Millisecond

func defaultFirmware() map[string]string {
	return map[string]string{firmwareBIOS: "2.17.1", firmwareBMC: "1.45.0", firmwareNIC: "22.5.7"}
}

// Firmware returns the versions of the firmware that are in effect: of bios, bmc, and nic:NIC1.
func (m *Machine) Firmware() map[string]string { return clonedMap(m, &m.firmware) }

// Updates returns the URLs of the images with which firmware updates were requested from the BMC.
func (m *Machine) Updates() []string { return cloned(m, &m.updates) }

// FirmwareURL returns the URL of an image with a version of a component's firmware. It exists for any
// version.
func (s *Sim) FirmwareURL(component, version string) string {
	return s.url + "/firmware/" + component + "/" + version
}

const firmwareFormat = "bmcsim firmware %s %s\n"

func firmwareImage(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, firmwareFormat, r.PathValue("component"), r.PathValue("version"))
}

func updateService() object {
	return resource(updateServicePath, "UpdateService", object{
		"ServiceEnabled": true, "Status": enabled, "FirmwareInventory": link(updateServicePath + "/FirmwareInventory"),
		"Actions": object{"#UpdateService.SimpleUpdate": object{
			"target": updateServicePath + "/Actions/UpdateService.SimpleUpdate", "TransferProtocol@Redfish.AllowableValues": []string{"HTTP", "HTTPS"},
		}},
	})
}

// inventoryIDs maps the IDs in the firmware inventory to the components.
var inventoryIDs = map[string]string{"BIOS": firmwareBIOS, "BMC": firmwareBMC, nicID: firmwareNIC}

func (m *Machine) firmwareInventory(id string) object {
	m.mu.Lock()
	defer m.mu.Unlock()
	return resource(updateServicePath+"/FirmwareInventory/"+id, id+" firmware", object{
		"Version": m.firmware[inventoryIDs[id]], "Updateable": true, "Status": enabled,
	})
}

// networkAdapter has the firmware version of the network adapter. Ironic 39 names the component by the
// serial number if there is one, and Ironic 32 by the ID; so that the name is the same, there is none.
func (m *Machine) networkAdapter() object {
	m.mu.Lock()
	defer m.mu.Unlock()
	return resource(chassisPath(m)+"/NetworkAdapters/"+nicID, "Network adapter", object{
		"Manufacturer": "Contoso", "Model": "10G dual port", "Status": enabled,
		"Controllers": []object{{"FirmwarePackageVersion": m.firmware[firmwareNIC]}},
	})
}

// simpleUpdate starts an update. The image says for which component it is. As with most hardware, firmware
// of the BMC takes effect at once, and other firmware with the next reset.
func (m *Machine) simpleUpdate(w http.ResponseWriter, r *http.Request) {
	var request struct {
		ImageURI, TransferProtocol string
		Targets                    []string
	}
	if !body(w, r, &request) {
		return
	}
	if request.ImageURI == "" {
		fail(w, http.StatusBadRequest, "Base.1.0.ActionParameterMissing", "SimpleUpdate needs ImageURI.")
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.updates = append(m.updates, request.ImageURI)
	t := m.addTask("Firmware update")
	boots := len(m.boots)
	m.sim.task(func() { m.update(t, request.ImageURI, boots) })
	t.accepted(w)
}

// update downloads an image and installs it. boots is the number of boots when the update was requested:
// Ironic 29.0 resets the machine at once, without waiting until the image is downloaded.
func (m *Machine) update(t *bmcTask, url string, boots int) {
	component, version, err := downloadFirmware(m.sim.ctx, url)
	if component == firmwareBMC && !sleep(m.sim.ctx, m.sim.options.BMCUpdate) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil && m.firmware[component] == "" {
		err = fmt.Errorf("there is no component %q", component)
	}
	if err != nil {
		t.end(err)
		return
	}
	install := func() error {
		if message, fails := m.faults[UpdateTaskFails]; fails {
			return errors.New(message)
		}
		m.firmware[component] = version
		return nil
	}
	switch {
	case component == firmwareBMC:
		err := install()
		if err == nil && m.faulty(BMCRestarts) {
			// Ironic 29.0 reads several resources to know how far the update is. It takes the update for
			// completed if the BMC is gone before the last one, the task.
			t.asked = m.restartBMC
			return
		}
		t.end(err)
	case len(m.boots) > boots:
		t.end(install())
	default:
		m.atReset(t, install)
	}
}

func downloadFirmware(ctx context.Context, url string) (component, version string, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	content, err := get(ctx, url, "")
	if err != nil {
		return "", "", fmt.Errorf("download of %s failed: %w", url, err)
	}
	defer content.Close()
	text, err := io.ReadAll(io.LimitReader(content, 1<<10))
	if err != nil {
		return "", "", fmt.Errorf("download of %s failed: %w", url, err)
	}
	if n, _ := fmt.Sscanf(string(text), firmwareFormat, &component, &version); n != 2 {
		return "", "", fmt.Errorf("%s is not an image for this machine: it begins with %.20q", url, strings.TrimSpace(string(text)))
	}
	return component, version, nil
}

// restartBMC makes the BMC unreachable for a while. It forgets its tasks and sessions. m.mu must be held.
func (m *Machine) restartBMC() {
	delay := m.sim.options.BMCRestart
	if delay <= 0 {
		delay = defaultBMCRestart
	}
	m.sim.task(func() {
		if !sleep(m.sim.ctx, bmcAnswers) {
			return
		}
		m.mu.Lock()
		m.bmcAway = true
		m.mu.Unlock()
		// An error means that the Sim is closed or that another process has taken the port. Then the BMC
		// stays away.
		_ = m.bmc.apply()
		if !sleep(m.sim.ctx, delay) {
			return
		}
		m.bmc.endSessions()
		m.mu.Lock()
		m.tasks, m.bmcAway = nil, false
		m.mu.Unlock()
		_ = m.bmc.apply()
		m.mu.Lock()
		m.bmcRestarts++
		m.mu.Unlock()
	})
}

// BMCRestarts returns how often the BMC has restarted itself.
func (m *Machine) BMCRestarts() int { return read(m, &m.bmcRestarts) }
