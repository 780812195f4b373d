// SPDX-License-Identifier: Apache-2.0

package bmcsim

import "net/http"

func managerPath(m *Machine) string { return "/redfish/v1/Managers/" + m.name }
func chassisPath(m *Machine) string { return "/redfish/v1/Chassis/" + m.name }

func (m *Machine) manager() object {
	m.mu.Lock()
	defer m.mu.Unlock()
	path := managerPath(m)
	return resource(path, "Manager", object{
		"ManagerType": "BMC", "Model": "bmcsim", "FirmwareVersion": m.firmware[firmwareBMC], "UUID": m.hardware.uuid, "Status": enabled,
		"VirtualMedia": link(path + "/VirtualMedia"),
		"Links":        object{"ManagerForServers": links(m.SystemID()), "ManagerForChassis": links(chassisPath(m))},
	})
}

func (m *Machine) chassis() object {
	m.mu.Lock()
	defer m.mu.Unlock()
	return resource(chassisPath(m), "Chassis", object{
		"ChassisType": "RackMount", "UUID": m.hardware.uuid, // without it, Ironic 29.0 cannot list the lights
		"Manufacturer": m.hardware.manufacturer, "SerialNumber": m.hardware.serial, "Status": enabled,
		"IndicatorLED": m.leds[chassisPath(m)], "NetworkAdapters": link(chassisPath(m) + "/NetworkAdapters"),
		"Links": object{"ComputerSystems": links(m.SystemID()), "ManagedBy": links(managerPath(m))},
	})
}

// media is a virtual drive. Without an image, it is empty.
type media struct{ image string }

// mediaNames are the names of the virtual drives. They belong to the Manager, where sushy looks for
// them if the ComputerSystem has none.
var mediaNames = []string{"Cd", "USBStick"}

func (m *Machine) virtualMedia(name string) object {
	m.mu.Lock()
	defer m.mu.Unlock()
	path, image := managerPath(m)+"/VirtualMedia/"+name, m.media[name].image
	types := []string{"CD", "DVD"}
	if name == "USBStick" {
		types = []string{"USBStick"}
	}
	connected := "NotConnected"
	if image != "" {
		connected = "URI"
	}
	return resource(path, "Virtual "+name, object{
		"MediaTypes": types, "Image": image, "ImageName": image, "Inserted": image != "", "WriteProtected": true,
		"ConnectedVia": connected,
		"Actions": object{
			"#VirtualMedia.InsertMedia": object{"target": path + "/Actions/VirtualMedia.InsertMedia"},
			"#VirtualMedia.EjectMedia":  object{"target": path + "/Actions/VirtualMedia.EjectMedia"},
		},
	})
}

func (m *Machine) insertMedia(w http.ResponseWriter, r *http.Request, name string) {
	var request struct{ Image string }
	if !body(w, r, &request) {
		return
	}
	if request.Image == "" {
		fail(w, http.StatusBadRequest, "Base.1.0.ActionParameterMissing", "InsertMedia needs Image.")
		return
	}
	if message, refuses := m.fault(RefuseMedia); refuses {
		fail(w, http.StatusBadRequest, "Base.1.0.ResourceInUse", message)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.media[name].image = request.Image
	w.WriteHeader(http.StatusNoContent)
}

func (m *Machine) ejectMedia(w http.ResponseWriter, name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.media[name].image = ""
	w.WriteHeader(http.StatusNoContent)
}

// VirtualMedia returns the URL of the image in the machine's virtual CD drive, or an empty string.
func (m *Machine) VirtualMedia() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.media["Cd"].image
}
