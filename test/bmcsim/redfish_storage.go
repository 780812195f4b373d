// SPDX-License-Identifier: Apache-2.0

package bmcsim

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// A machine has two storage subsystems. The one with ID 1 has the disks that the operating system sees. The
// RAID controller has further drives, which the operating system sees only as volumes.
const (
	hbaID  = "1"
	raidID = "RAID"
)

// drive is a drive of the RAID controller.
type drive struct {
	id, media, protocol string
	bytes               int64
}

var raidDrives = []drive{
	{"Disk.Bay.0", "HDD", "SAS", 1200 << 30}, {"Disk.Bay.1", "HDD", "SAS", 1200 << 30},
	{"Disk.Bay.2", "HDD", "SAS", 1200 << 30}, {"Disk.Bay.3", "HDD", "SAS", 1200 << 30},
	{"Disk.Bay.4", "SSD", "SATA", 480 << 30}, {"Disk.Bay.5", "SSD", "SATA", 480 << 30},
}

// IsRAIDDrive reports whether the RAID controller of each machine has a drive with an ID.
func IsRAIDDrive(id string) bool {
	return slices.ContainsFunc(raidDrives, func(d drive) bool { return d.id == id })
}

// raidType is a RAID level: the least number of drives, and how many of them hold the parity or the copies.
type raidType struct {
	drives   int
	overhead func(drives int) int
}

func overheadOf(n int) func(int) int { return func(int) int { return n } }

var raidTypes = map[string]raidType{
	"RAID0": {1, overheadOf(0)}, "RAID1": {2, func(n int) int { return n - 1 }}, "RAID5": {3, overheadOf(1)}, "RAID6": {4, overheadOf(2)},
	"RAID10": {4, func(n int) int { return n / 2 }}, "RAID50": {6, overheadOf(2)}, "RAID60": {8, overheadOf(4)},
}

// Volume is a volume of the RAID controller.
type Volume struct {
	ID, Name string
	// RAIDType is RAID0, RAID1 and so on.
	RAIDType string
	Bytes    int64
	// Drives are the IDs of the drives, such as Disk.Bay.0.
	Drives []string
	// Disk is the name of the disk as which the operating system sees the volume, such as /dev/sdb.
	Disk string
}

// Volumes returns the volumes of the RAID controller.
func (m *Machine) Volumes() []Volume { return cloned(m, &m.volumes) }

func (m *Machine) storagePath(id string) string { return m.SystemID() + "/Storage/" + id }
func (m *Machine) volumesPath() string          { return m.storagePath(raidID) + "/Volumes" }

// storageRoutes adds the storage subsystems. get and handle are those of routes.
func (m *Machine) storageRoutes(get func(string, func() object), handle func(method, path string, h http.HandlerFunc)) {
	get(m.SystemID()+"/Storage", func() object {
		return collectionOf(m.SystemID()+"/Storage", []string{m.storagePath(hbaID), m.storagePath(raidID)})
	})
	drives := map[string][]string{}
	addDrive := func(storage, id string, fields object) {
		path := m.storagePath(storage) + "/Drives/" + id
		drives[storage] = append(drives[storage], path)
		name, _ := fields["Model"].(string)
		get(path, func() object { return resource(path, name, fields) })
	}
	for i, d := range m.hardware.disks {
		media, protocol := "SSD", "NVMe"
		if d.rotational {
			media, protocol = "HDD", "SATA"
		}
		addDrive(hbaID, strconv.Itoa(i), object{
			"Model": d.model, "SerialNumber": d.serial, "CapacityBytes": d.bytes, "BlockSizeBytes": 512, "MediaType": media, "Protocol": protocol, "Status": enabled,
		})
	}
	for _, d := range raidDrives {
		addDrive(raidID, d.id, object{
			"Model": d.media + " " + d.protocol, "SerialNumber": m.hardware.serial + "-" + d.id, "CapacityBytes": d.bytes, "BlockSizeBytes": 512,
			"MediaType": d.media, "Protocol": d.protocol, "Status": enabled,
		})
	}
	// Ironic leaves a storage subsystem alone if its controller supports no RAID type.
	levels := map[string][]string{hbaID: {}, raidID: {"RAID0", "RAID1", "RAID5", "RAID6", "RAID10", "RAID50", "RAID60"}}
	for _, id := range []string{hbaID, raidID} {
		path := m.storagePath(id)
		get(path, func() object {
			return resource(path, "Storage", object{
				"Drives": links(drives[id]...), "Volumes": link(path + "/Volumes"), "Controllers": link(path + "/Controllers"), "Status": enabled,
			})
		})
		get(path+"/Controllers", func() object { return collectionOf(path+"/Controllers", []string{path + "/Controllers/0"}) })
		get(path+"/Controllers/0", func() object {
			return resource(path+"/Controllers/0", "Storage controller", object{"SupportedRAIDTypes": levels[id], "Status": enabled})
		})
	}
	get(m.storagePath(hbaID)+"/Volumes", func() object { return collectionOf(m.storagePath(hbaID)+"/Volumes", nil) })
	get(m.volumesPath(), m.volumeCollection)
	handle(http.MethodPost, m.volumesPath(), m.postVolume)
	handle(http.MethodGet, m.volumesPath()+"/{id}", m.getVolume)
	handle(http.MethodDelete, m.volumesPath()+"/{id}", m.deleteVolume)
}

func (m *Machine) volumeCollection() object {
	m.mu.Lock()
	defer m.mu.Unlock()
	var paths []string
	for _, v := range m.volumes {
		paths = append(paths, m.volumesPath()+"/"+v.ID)
	}
	apply := "Immediate"
	if m.faulty(VolumeTaskFails) {
		apply = "OnReset"
	}
	all := collectionOf(m.volumesPath(), paths)
	all["@Redfish.OperationApplyTimeSupport"] = object{"@odata.type": "#Settings.v1_3_0.OperationApplyTimeSupport", "SupportedValues": []string{apply}}
	return all
}

func (m *Machine) getVolume(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := m.volumeIndex(r.PathValue("id"))
	if i < 0 {
		fail(w, http.StatusNotFound, "Base.1.0.ResourceMissingAtURI", "There is no volume at "+r.URL.Path+".")
		return
	}
	v := m.volumes[i]
	respond(w, http.StatusOK, m.volumeResource(v))
}

func (m *Machine) volumeResource(v Volume) object {
	var paths []string
	for _, d := range v.Drives {
		paths = append(paths, m.storagePath(raidID)+"/Drives/"+d)
	}
	return resource(m.volumesPath()+"/"+v.ID, v.Name, object{
		"RAIDType": v.RAIDType, "CapacityBytes": v.Bytes, "Links": object{"Drives": links(paths...)}, "Status": enabled,
	})
}

// volumeIndex returns -1 if there is no volume with an ID. m.mu must be held.
func (m *Machine) volumeIndex(id string) int {
	return slices.IndexFunc(m.volumes, func(v Volume) bool { return v.ID == id })
}

func (m *Machine) postVolume(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Name, RAIDType string
		CapacityBytes  *int64
		Links          struct {
			Drives []struct {
				ID string `json:"@odata.id"`
			}
		}
	}
	if !body(w, r, &request) {
		return
	}
	v := Volume{Name: request.Name, RAIDType: request.RAIDType}
	for _, d := range request.Links.Drives {
		v.Drives = append(v.Drives, strings.TrimPrefix(d.ID, m.storagePath(raidID)+"/Drives/"))
	}
	if request.CapacityBytes != nil {
		v.Bytes = *request.CapacityBytes
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.fitVolume(&v); err != nil {
		fail(w, http.StatusBadRequest, "Base.1.0.GeneralError", err.Error())
		return
	}
	m.volumesMade++
	v.ID = strconv.Itoa(m.volumesMade)
	if v.Name == "" {
		v.Name = "Virtual disk " + v.ID
	}
	if message, fails := m.faults[VolumeTaskFails]; fails {
		t := m.addTask("Volume creation")
		m.atReset(t, func() error { return errors.New(message) })
		t.accepted(w)
		return
	}
	m.createVolume(v)
	w.Header().Set("Location", m.volumesPath()+"/"+v.ID)
	respond(w, http.StatusCreated, m.volumeResource(v))
}

// fitVolume checks whether a volume is possible. If it has no size, it gets the largest one. m.mu must be
// held.
func (m *Machine) fitVolume(v *Volume) error {
	level, ok := raidTypes[v.RAIDType]
	if !ok {
		return fmt.Errorf("RAIDType %q is not supported", v.RAIDType)
	}
	if len(v.Drives) < level.drives {
		return fmt.Errorf("%s needs at least %d drives, not %d", v.RAIDType, level.drives, len(v.Drives))
	}
	free := map[string]int64{}
	for _, d := range raidDrives {
		free[d.id] = d.bytes
	}
	for _, other := range m.volumes {
		for _, d := range other.Drives {
			free[d] -= other.bytesOfDrive()
		}
	}
	least := int64(-1)
	for i, d := range v.Drives {
		bytes, ok := free[d]
		switch {
		case !ok:
			return fmt.Errorf("there is no drive %s", d)
		case slices.Contains(v.Drives[:i], d):
			return fmt.Errorf("drive %s is listed twice", d)
		}
		if least < 0 || bytes < least {
			least = bytes
		}
	}
	if v.Bytes <= 0 {
		v.Bytes = least * int64(len(v.Drives)-level.overhead(len(v.Drives)))
	}
	if v.Bytes <= 0 || v.bytesOfDrive() > least {
		return fmt.Errorf("the drives have %d bytes left, and a volume of %d bytes needs %d", least, v.Bytes, v.bytesOfDrive())
	}
	return nil
}

// bytesOfDrive returns how much of each of its drives the volume occupies.
func (v Volume) bytesOfDrive() int64 {
	data := int64(len(v.Drives) - raidTypes[v.RAIDType].overhead(len(v.Drives)))
	return (v.Bytes + data - 1) / data
}

func (m *Machine) deleteVolume(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := m.volumeIndex(r.PathValue("id"))
	if i < 0 {
		fail(w, http.StatusNotFound, "Base.1.0.ResourceMissingAtURI", "There is no volume at "+r.URL.Path+".")
		return
	}
	delete(m.disks, m.volumes[i].Disk) // with its content
	m.volumes = slices.Delete(m.volumes, i, i+1)
	w.WriteHeader(http.StatusNoContent)
}

// createVolume adds a volume, which the operating system sees as an empty disk. m.mu must be held.
func (m *Machine) createVolume(v Volume) {
	letter := 'b'
	for m.disks["/dev/sd"+string(letter)] != nil {
		letter++
	}
	v.Disk = "/dev/sd" + string(letter)
	m.volumes = append(m.volumes, v)
	m.disks[v.Disk] = make([]byte, diskSize)
}
