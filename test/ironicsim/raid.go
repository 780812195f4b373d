// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"maps"
	"net/http"
	"slices"

	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
)

// putRAID is PUT states/raid. An empty object takes the target away.
func (s *Sim) putRAID(c *call) error {
	e, _, err := s.nodeArg(c)
	if err != nil {
		return err
	}
	config, ok := c.body.(map[string]any)
	if !ok {
		return badRequest("Expected type <class 'dict'> for target_raid_config: %s", pyRepr(c.body, false))
	}
	t, err := s.acquire(e, false)
	if err != nil {
		return err
	}
	defer t.release()
	if len(config) > 0 {
		if n := t.node(); n.raidInterface == "no-raid" {
			err := errUnsupported(n.driver, "raid")
			err.code = http.StatusNotFound
			return err
		}
		if err := checkRAID(config); err != nil {
			return err
		}
	}
	t.save(func(n *node) { n.targetRAIDConfig = newObject(config) })
	return c.noContent()
}

// raidProperties are the properties of a logical disk, as in Ironic's schema.
var raidProperties = []string{
	"raid_level", "size_gb", "volume_name", "is_root_volume", "share_physical_disks", "disk_type", "interface_type", "number_of_physical_disks",
	"controller", "physical_disks",
}

var raidLevels = []string{"JBOD", "0", "1", "2", "5", "6", "1+0", "5+0", "6+0"}

// checkRAID is Ironic's schema of a RAID configuration, as far as clients can be expected to meet it.
func checkRAID(config map[string]any) error {
	bad := func(format string, args ...any) error {
		return badRequest("RAID config validation error: "+format, args...)
	}
	for _, key := range slices.Sorted(maps.Keys(config)) {
		if key != "logical_disks" {
			return bad("Additional properties are not allowed ('%s' was unexpected)", key)
		}
	}
	value, given := config["logical_disks"]
	disks, ok := value.([]any)
	switch {
	case !given:
		return bad("'logical_disks' is a required property")
	case !ok:
		return bad("%s is not of type 'array'", pyRepr(value, true))
	case len(disks) == 0:
		return bad("[] is too short")
	}
	roots := 0
	for _, d := range disks {
		disk, ok := d.(map[string]any)
		if !ok {
			return bad("%s is not of type 'object'", pyRepr(d, true))
		}
		for _, key := range slices.Sorted(maps.Keys(disk)) {
			if !slices.Contains(raidProperties, key) {
				return bad("Additional properties are not allowed ('%s' was unexpected)", key)
			}
		}
		for _, key := range []string{"raid_level", "size_gb"} {
			if _, ok := disk[key]; !ok {
				return bad("'%s' is a required property", key)
			}
		}
		if level, _ := disk["raid_level"].(string); !slices.Contains(raidLevels, level) {
			return bad("%s is not one of %s", pyRepr(disk["raid_level"], true), pyRepr(raidLevels, true))
		}
		if size, ok := disk["size_gb"].(string); ok && size != "MAX" {
			return bad("%s is not one of ['MAX']", pyRepr(size, true))
		}
		if _, ok := disk["physical_disks"]; ok && disk["controller"] == nil {
			return bad("'controller' is a dependency of 'physical_disks'")
		}
		if disk["is_root_volume"] == true {
			roots++
		}
	}
	if roots > 1 {
		return badRequest("Raid config cannot have more than one root volume. %d root volumes were specified", roots)
	}
	return nil
}

// logicalDisk is an element of logical_disks.
type logicalDisk struct {
	level, name, controller string
	size                    any  // a number or MAX
	hasDisks, hasAnyDisk    bool // names disks; names one that the machine has
	raw                     map[string]any
}

func logicalDisks(config *object) []logicalDisk {
	list, _ := config.fields["logical_disks"].([]any)
	var all []logicalDisk
	for _, item := range list {
		raw, _ := item.(map[string]any) // checkRAID has seen to it
		d := logicalDisk{size: raw["size_gb"], raw: raw}
		d.level, _ = raw["raid_level"].(string)
		d.name, _ = raw["volume_name"].(string)
		d.controller, _ = raw["controller"].(string)
		var disks []any
		disks, d.hasDisks = raw["physical_disks"].([]any)
		d.hasAnyDisk = slices.ContainsFunc(disks, func(disk any) bool {
			id, _ := disk.(string)
			return bmcsim.IsRAIDDrive(id)
		})
		all = append(all, d)
	}
	return all
}

// raidStep executes a step of the raid interface and returns what went wrong.
func (t *task) raidStep(name string, args map[string]any) string {
	n := t.node()
	target := n.targetRAIDConfig
	if config, ok := args["raid_config"].(map[string]any); ok && name == "apply_configuration" {
		target = newObject(config)
		t.save(func(n *node) { n.targetRAIDConfig = target })
	}
	software := n.raidInterface == "agent"
	existing, given := args["delete_existing"].(bool)
	deletes := name == "delete_configuration" || existing || name == "apply_configuration" && !given && software
	disks := logicalDisks(target)
	if name == "delete_configuration" {
		disks = nil
	} else if text := checkBuild(n, software, disks); text != "" {
		return text
	}
	var built []any
	t.onMachine(func(m *machineSettings) {
		volumes := &m.volumes
		if software {
			volumes = &m.softwareRAID
		}
		if deletes {
			*volumes = nil
		}
		for _, d := range disks {
			*volumes = append(*volumes, m.createVolume(d))
		}
		for _, v := range *volumes { // what Ironic reads from the BMC afterwards
			built = append(built, map[string]any{"id": v.ID, "name": v.Name, "controller": "RAID", "size_gb": v.SizeGB, "raid_level": v.Level})
		}
	})
	t.save(func(n *node) {
		switch {
		case software && len(disks) == 0:
			n.raidConfig = emptyObject
			n.properties = newObject(n.properties.without("root_device"))
			return
		case software: // the ramdisk reports what it was asked for
			built = nil
			for _, d := range disks {
				built = append(built, d.raw)
			}
		case built == nil:
			built = []any{}
		}
		n.raidConfig = newObject(map[string]any{"logical_disks": built, "last_updated": t.s.now().UTC().Format("2006-01-02 15:04:05.000000")})
	})
	return ""
}

// checkBuild says why volumes cannot be built, in the words of the redfish interface or of the ramdisk.
func checkBuild(n *node, software bool, disks []logicalDisk) string {
	if software {
		switch {
		case len(disks) == 0:
			return "Agent ramdisk didn't return a proper command result while building RAID on " + n.UUID + "."
		case disks[0].level != "1":
			return "the first software RAID device must have the level 1"
		case slices.ContainsFunc(disks, func(d logicalDisk) bool { return d.controller != "software" }):
			return "the ramdisk can only create a software RAID, and controller is not software"
		}
		return ""
	}
	if len(disks) == 0 {
		return "'logical_disks'" // Python's KeyError
	}
	for _, d := range disks {
		if d.size == "MAX" && !d.hasDisks {
			return "create_configuration called with invalid target_raid_configuration for node " + n.UUID +
				". 'physical_disks' is missing from logical_disk while 'size_gb'='MAX' was requested: " + pyRepr(d.raw, true)
		}
	}
	if slices.ContainsFunc(disks, func(d logicalDisk) bool { return d.hasDisks && !d.hasAnyDisk }) {
		return "min() iterable argument is empty" // Python's ValueError
	}
	return ""
}
