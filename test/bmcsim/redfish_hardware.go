// SPDX-License-Identifier: Apache-2.0

package bmcsim

import "strconv"

// resources returns the resources below a ComputerSystem that never change, by path. Out-of-band
// inspection reads them.
func (h hardware) resources(system string) map[string]object {
	all := map[string]object{}
	// list adds a collection of n members.
	list := func(path string, n int, member func(i int) (id string, fields object)) {
		var members []string
		for i := range n {
			id, fields := member(i)
			name, _ := fields["Name"].(string)
			members = append(members, path+"/"+id)
			all[path+"/"+id] = resource(path+"/"+id, name, fields)
		}
		all[path] = collectionOf(path, members)
	}
	list(system+"/Processors", 2, func(i int) (string, object) {
		return "CPU" + strconv.Itoa(i), object{
			"Name": "Processor", "Socket": "CPU " + strconv.Itoa(i), "ProcessorType": "CPU", "ProcessorArchitecture": "x86", "InstructionSet": "x86-64",
			"Manufacturer": h.manufacturer, "Model": h.cpuModel, "MaxSpeedMHz": h.cpuMHz,
			"TotalCores": h.cpus / 4, "TotalThreads": h.cpus / 2, "Status": enabled,
		}
	})
	list(system+"/Memory", 8, func(i int) (string, object) {
		return "DIMM" + strconv.Itoa(i), object{
			"Name": "DIMM", "CapacityMiB": h.memoryMiB / 8, "MemoryDeviceType": "DDR4", "OperatingSpeedMhz": 2933, "Status": enabled,
		}
	})
	list(system+"/EthernetInterfaces", len(h.nics), func(i int) (string, object) {
		n := h.nics[i]
		link := "LinkDown"
		if n.carrier {
			link = "LinkUp"
		}
		return n.name, object{
			"Name": "Ethernet interface", "MACAddress": n.mac, "PermanentMACAddress": n.mac, "SpeedMbps": n.speedMbps, "LinkStatus": link, "Status": enabled,
		}
	})

	var devices []object
	for _, d := range h.disks {
		devices = append(devices, object{"Name": d.model, "CapacityBytes": d.bytes, "Status": enabled})
	}
	list(system+"/SimpleStorage", 1, func(int) (string, object) {
		return "1", object{"Name": "Simple storage", "Devices": devices, "Status": enabled}
	})
	return all
}
