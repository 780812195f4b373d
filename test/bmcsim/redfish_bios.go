package bmcsim

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
)

// biosAttribute is a BIOS attribute together with its entry in the attribute registry.
type biosAttribute struct {
	name     string
	value    any
	kind     string // Redfish: Enumeration, Integer, String, Boolean, Password
	values   []string
	min, max int // of an Integer, or of the length of a String
	readOnly bool
	unique   bool // of this machine
}

var biosAttributes = []biosAttribute{
	{name: "AssetTag", value: "", kind: "String", max: 16, unique: true},
	{name: "BootMode", value: "Uefi", kind: "Enumeration", values: []string{"Uefi", "Bios"}},
	{name: "LogicalProc", value: "Enabled", kind: "Enumeration", values: []string{"Enabled", "Disabled"}},
	{name: "NumCores", value: 16, kind: "Integer", min: 1, max: 64},
	{name: "ProcVirtualization", value: "Disabled", kind: "Enumeration", values: []string{"Enabled", "Disabled"}},
	{name: "QuietBoot", value: true, kind: "Boolean"},
	{name: "SerialNumber", value: "QPX12345", kind: "String", max: 32, readOnly: true, unique: true},
	{name: "SetupPassword", value: nil, kind: "Password", max: 32},
	{name: "SriovGlobalEnable", value: "Disabled", kind: "Enumeration", values: []string{"Enabled", "Disabled"}},
}

func defaultBIOS() map[string]any {
	all := map[string]any{}
	for _, a := range biosAttributes {
		all[a.name] = a.value
	}
	return all
}

func (m *Machine) biosResource() object {
	m.mu.Lock()
	defer m.mu.Unlock()
	path := m.SystemID() + "/Bios"
	return resource(path, "BIOS", object{
		"Attributes": maps.Clone(m.bios), "AttributeRegistry": biosRegistryID,
		"@Redfish.Settings": object{
			"SettingsObject": link(path + "/Settings"), "SupportedApplyTimes": []string{"OnReset"},
		},
		"Actions": object{"#Bios.ResetBios": object{"target": path + "/Actions/Bios.ResetBios"}},
	})
}

// biosSettings returns the attributes that take effect with the next boot.
func (m *Machine) biosSettings() object {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := maps.Clone(m.bios)
	maps.Copy(next, m.biosNext)
	return resource(m.SystemID()+"/Bios/Settings", "BIOS settings", object{"Attributes": next, "AttributeRegistry": biosRegistryID})
}

func (m *Machine) patchBIOS(w http.ResponseWriter, r *http.Request) {
	var request struct{ Attributes map[string]any }
	if !body(w, r, &request) {
		return
	}
	for name, value := range request.Attributes {
		i := slices.IndexFunc(biosAttributes, func(a biosAttribute) bool { return a.name == name })
		if i < 0 || !biosAttributes[i].accepts(value) {
			fail(w, http.StatusBadRequest, "Base.1.0.PropertyValueNotInList", fmt.Sprintf("BIOS attribute %s cannot be %#v.", name, value))
			return
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.biosNext == nil {
		m.biosNext = map[string]any{}
	}
	maps.Copy(m.biosNext, request.Attributes)
	w.WriteHeader(http.StatusNoContent)
}

func (m *Machine) resetBIOS(w http.ResponseWriter, _ *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.biosNext = defaultBIOS()
	w.WriteHeader(http.StatusNoContent)
}

// accepts reports whether the attribute can be set to a value.
func (a biosAttribute) accepts(value any) bool {
	if a.readOnly {
		return false
	}
	switch v := value.(type) {
	case string:
		return a.kind == "String" && len(v) >= a.min && len(v) <= a.max || slices.Contains(a.values, v)
	case bool:
		return a.kind == "Boolean"
	case float64: // any JSON number
		return a.kind == "Integer" && v == float64(int(v)) && int(v) >= a.min && int(v) <= a.max
	default:
		return false
	}
}

const (
	biosRegistryID   = "BiosAttributeRegistry.v1_0_0"
	registryFilePath = "/redfish/v1/Registries/" + biosRegistryID
)

// biosRegistryFile returns the resource that has the location of the attribute registry.
func biosRegistryFile() object {
	return resource(registryFilePath, "BIOS attribute registry file", object{
		"@odata.type": "#MessageRegistryFile.v1_1_0.MessageRegistryFile",
		"Registry":    biosRegistryID, "Languages": []string{"en"},
		"Location": []object{{"Language": "en", "Uri": registryFilePath + ".json"}},
	})
}

// biosRegistry returns the attribute registry, from which Ironic reads the type and the limits of each
// setting.
func biosRegistry() object {
	var entries []object
	for _, a := range biosAttributes {
		e := object{"AttributeName": a.name, "Type": a.kind, "ReadOnly": a.readOnly, "ResetRequired": true, "IsSystemUniqueProperty": a.unique}
		switch a.kind {
		case "Enumeration":
			var values []object
			for _, v := range a.values {
				values = append(values, object{"ValueName": v, "ValueDisplayName": v})
			}
			e["Value"] = values
		case "Integer":
			e["LowerBound"], e["UpperBound"] = a.min, a.max
		case "String", "Password":
			e["MinLength"], e["MaxLength"] = a.min, a.max
		}
		entries = append(entries, e)
	}
	return object{
		"@odata.type": "#AttributeRegistry.v1_3_0.AttributeRegistry",
		"Id":          biosRegistryID, "Name": "BIOS attribute registry", "Language": "en", "OwningEntity": "bmcsim",
		"RegistryVersion": "1.0.0", "RegistryEntries": object{"Attributes": entries},
	}
}
