// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
)

// biosSetting is a row of Ironic's table of BIOS settings, which is what it last read from the BMC.
type biosSetting struct {
	name                 string
	value                any // text or nil
	attribute            *bmcsim.BIOSAttribute
	createdAt, updatedAt time.Time
}

// firmwareComponent is a row of Ironic's table of firmware components.
type firmwareComponent struct {
	name, initial, current, flashed string
	createdAt, updatedAt            time.Time
}

// onMachine calls f with the settings of the machine that the node's BMC belongs to, under s.mu. It reports false,
// and does not call f, if there is no such BMC, or if it does not answer the node.
func (t *task) onMachine(f func(m *machineSettings)) bool {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	b, accepted := t.s.bmcOf(t.e.n)
	if !accepted || b.dead {
		return false
	}
	f(&b.settings)
	return true
}

// updateCache is node_update_cache: it reads BIOS settings and firmware versions from the BMC of a node with the
// redfish interfaces. A BMC that does not answer is only logged by Ironic.
func (t *task) updateCache() {
	n := t.node()
	readsBIOS, readsFirmware := n.biosInterface == "redfish", n.firmwareInterface == "redfish"
	if !readsBIOS && !readsFirmware {
		return
	}
	bios, firmware := map[string]any{}, map[string]string{}
	if !t.onMachine(func(m *machineSettings) {
		for _, a := range bmcsim.BIOSAttributes {
			bios[a.Name] = m.biosValue(a)
		}
		firmware = m.versions()
	}) {
		return
	}
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	if !t.alive() || t.e.gone {
		return
	}
	if readsBIOS {
		t.storeBIOS(bios)
	}
	if readsFirmware {
		t.storeFirmware(firmware)
	}
}

// storeBIOS makes the rows those of values. Rows that stay the same keep their times. s.mu must be held.
func (t *task) storeBIOS(values map[string]any) {
	old := map[string]biosSetting{}
	for _, row := range t.e.bios {
		old[row.name] = row
	}
	rows := make([]biosSetting, 0, len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		row, known := old[name]
		value := biosText(values[name])
		switch {
		case !known:
			row = biosSetting{name: name, createdAt: t.s.now()}
			if t.e.n.biosInterface == "redfish" {
				row.attribute = bmcsim.BIOSAttributeOf(name)
			}
		case row.value != value:
			row.updatedAt = t.s.now()
		}
		row.value = value
		rows = append(rows, row)
	}
	t.e.bios = rows
}

// biosText is a value as Ironic's database, and with it the API, has it: a Boolean becomes 0 or 1.
func biosText(value any) any {
	switch v := value.(type) {
	case nil:
		return nil
	case bool:
		if v {
			return "1"
		}
		return "0"
	case string:
		return v
	}
	return textOf(value)
}

// storeFirmware is storeBIOS for firmware versions.
func (t *task) storeFirmware(versions map[string]string) {
	rows := make([]firmwareComponent, 0, len(versions))
	for _, name := range slices.Sorted(maps.Keys(versions)) {
		version := versions[name]
		row := firmwareComponent{name: name, initial: version, current: version, createdAt: t.s.now()}
		if i := slices.IndexFunc(t.e.firmware, func(f firmwareComponent) bool { return f.name == name }); i >= 0 {
			if row = t.e.firmware[i]; row.current != version {
				row.current, row.flashed, row.updatedAt = version, version, t.s.now()
			}
		}
		rows = append(rows, row)
	}
	t.e.firmware = rows
}

// The fields of BIOS settings and firmware components beside their times and links.
var (
	biosFields         = []string{"name", "value"}
	biosRegistryFields = []string{
		"name", "value", "attribute_type", "allowable_values", "lower_bound", "max_length", "min_length", "read_only", "reset_required", "unique", "upper_bound",
	}
	firmwareFields = []string{"component", "initial_version", "current_version", "last_version_flashed"}
)

// returnFields are those that a list of BIOS settings or firmware components has.
func (c *call) returnFields(usual, all []string) []string {
	isDetail, fields := c.isSet("detail"), c.listArg("fields")
	switch {
	case isDetail && fields != nil:
		c.refused = errFieldsAndDetail()
	case isDetail:
		return all
	case fields != nil:
		return fields
	}
	return usual
}

func (s *Sim) getBIOS(c *call) error {
	e, _, err := s.nodeArg(c)
	if err != nil {
		return err
	}
	fields := c.returnFields(biosFields, biosRegistryFields)
	if c.refused != nil {
		return c.refused
	}
	s.mu.RLock()
	rows := e.bios // replaced, never changed
	s.mu.RUnlock()
	list := []any{}
	for _, row := range rows {
		list = append(list, row.view(c, c.path["node"], fields))
	}
	return c.json(http.StatusOK, map[string]any{"bios": list})
}

// view is a row as the API shows it. Its links have the node as it was named.
func (b *biosSetting) view(c *call, node string, fields []string) map[string]any {
	all := map[string]any{"name": b.name, "value": b.value}
	for _, f := range biosRegistryFields[2:] {
		all[f] = nil
	}
	all["allowable_values"] = []string{}
	if a := b.attribute; a != nil {
		all["attribute_type"], all["read_only"], all["reset_required"], all["unique"] = a.Kind, a.ReadOnly, true, a.Unique
		switch a.Kind {
		case "Enumeration":
			all["allowable_values"] = a.Values
		case "Integer":
			all["lower_bound"], all["upper_bound"] = a.Min, a.Max
		case "String", "Password":
			all["min_length"], all["max_length"] = a.Min, a.Max
		}
	}
	out := map[string]any{
		"created_at": formatTime(b.createdAt), "updated_at": formatTime(b.updatedAt), "links": c.links("nodes/" + node + "/bios/" + b.name),
	}
	for _, f := range fields {
		if value, ok := all[f]; ok {
			out[f] = value
		}
	}
	return out
}

func (s *Sim) getFirmware(c *call) error {
	e, _, err := s.nodeArg(c)
	if err != nil {
		return err
	}
	fields := c.returnFields(firmwareFields, nil)
	if c.refused != nil {
		return c.refused
	}
	s.mu.RLock()
	rows := e.firmware // replaced, never changed
	s.mu.RUnlock()
	list := []any{}
	for _, row := range rows {
		all := map[string]any{
			"component": row.name, "initial_version": row.initial, "current_version": row.current, "last_version_flashed": orNull(row.flashed),
		}
		out := map[string]any{"created_at": formatTime(row.createdAt), "updated_at": formatTime(row.updatedAt)}
		for _, f := range fields {
			if value, ok := all[f]; ok {
				out[f] = value
			}
		}
		list = append(list, out)
	}
	return c.json(http.StatusOK, map[string]any{"firmware": list})
}

func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// biosStep executes a step of the bios interface and returns what went wrong. The fake interface has no machine, so
// that its settings are those of the last step.
func (t *task) biosStep(name string, args map[string]any) string {
	wanted := map[string]any{}
	settings, _ := args["settings"].([]any)
	for _, s := range settings {
		m, _ := s.(map[string]any)
		setting, ok := m["name"].(string)
		if !ok {
			return "'name'" // Python's KeyError
		}
		wanted[setting] = m["value"]
		if number, ok := m["value"].(json.Number); ok {
			wanted[setting], _ = number.Float64() // a number, as there is one
		}
	}
	if t.node().biosInterface == "fake" {
		t.s.mu.Lock()
		t.storeBIOS(wanted)
		t.s.mu.Unlock()
		return ""
	}
	text := ""
	reached := t.onMachine(func(m *machineSettings) {
		if name == "factory_reset" {
			m.bios = nil
			return
		}
		for setting, value := range wanted {
			a := bmcsim.BIOSAttributeOf(setting)
			if !a.Accepts(value) {
				text = "Redfish exception occurred. Error: Redfish BIOS apply configuration failed for node " + t.e.n.UUID + ". Error: BIOS attribute " + setting + " cannot be " + pyRepr(value, true) + "."
				return
			}
		}
		for setting, value := range wanted {
			m.setBIOS(setting, value)
		}
	})
	if !reached {
		return errBMC(t.node(), "", false).Error()
	}
	return text
}

// firmwareStep executes firmware.update. The version is the last part of the URL's path, because nothing is downloaded.
func (t *task) firmwareStep(args map[string]any) string {
	if t.node().firmwareInterface == "fake" {
		return ""
	}
	settings, _ := args["settings"].([]any)
	if len(settings) == 0 {
		return "Invalid firmware update " + pyRepr(args["settings"], true) + ". Errors: [] is too short"
	}
	for _, s := range settings {
		m, _ := s.(map[string]any)
		component, _ := m["component"].(string)
		url, _ := m["url"].(string)
		if _, known := defaultFirmware[component]; !known || url == "" {
			return "Invalid firmware update " + pyRepr(settings, true) + "."
		}
		if !t.onMachine(func(machine *machineSettings) { machine.setFirmware(component, lastPart(url)) }) {
			return errBMC(t.node(), "", false).Error()
		}
	}
	return ""
}

func lastPart(url string) string {
	for i := len(url) - 1; i >= 0; i-- {
		if url[i] == '/' {
			return url[i+1:]
		}
	}
	return cmp.Or(url, "unknown")
}
