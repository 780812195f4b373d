// SPDX-License-Identifier: Apache-2.0

package bmcsim

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
)

// BIOSAttribute is a BIOS attribute together with its entry in the attribute registry.
type BIOSAttribute struct {
	Name  string
	Value any
	// Kind is Redfish's: Enumeration, Integer, String, Boolean or Password.
	Kind   string
	Values []string
	// Min and Max are of an Integer, or of the length of a String.
	Min, Max int
	ReadOnly bool
	// Unique says that the value is that of this machine.
	Unique bool
}

// BIOSAttributes are those of each machine, with their defaults.
var BIOSAttributes = []BIOSAttribute{
	{Name: "AssetTag", Value: "", Kind: "String", Max: 16, Unique: true},
	{Name: "BootMode", Value: "Uefi", Kind: "Enumeration", Values: []string{"Uefi", "Bios"}},
	{Name: "LogicalProc", Value: "Enabled", Kind: "Enumeration", Values: []string{"Enabled", "Disabled"}},
	{Name: "NumCores", Value: 16, Kind: "Integer", Min: 1, Max: 64},
	{Name: "ProcVirtualization", Value: "Disabled", Kind: "Enumeration", Values: []string{"Enabled", "Disabled"}},
	{Name: "QuietBoot", Value: true, Kind: "Boolean"},
	{Name: "SerialNumber", Value: "QPX12345", Kind: "String", Max: 32, ReadOnly: true, Unique: true},
	{Name: "SetupPassword", Value: nil, Kind: "Password", Max: 32},
	{Name: "SriovGlobalEnable", Value: "Disabled", Kind: "Enumeration", Values: []string{"Enabled", "Disabled"}},
}

// BIOSAttributeOf returns the attribute of a name, or nil.
func BIOSAttributeOf(name string) *BIOSAttribute {
	i := slices.IndexFunc(BIOSAttributes, func(a BIOSAttribute) bool { return a.Name == name })
	if i < 0 {
		return nil
	}
	return &BIOSAttributes[i]
}

func defaultBIOS() map[string]any {
	all := map[string]any{}
	for _, a := range BIOSAttributes {
		all[a.Name] = a.Value
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
		if !BIOSAttributeOf(name).Accepts(value) {
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

// Accepts reports whether there is such an attribute, and whether it can be set to a value that was decoded from JSON.
func (a *BIOSAttribute) Accepts(value any) bool {
	if a == nil || a.ReadOnly {
		return false
	}
	switch v := value.(type) {
	case string:
		return a.Kind == "String" && len(v) >= a.Min && len(v) <= a.Max || slices.Contains(a.Values, v)
	case bool:
		return a.Kind == "Boolean"
	case float64: // any JSON number
		return a.Kind == "Integer" && v == float64(int(v)) && int(v) >= a.Min && int(v) <= a.Max
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
	for _, a := range BIOSAttributes {
		e := object{"AttributeName": a.Name, "Type": a.Kind, "ReadOnly": a.ReadOnly, "ResetRequired": true, "IsSystemUniqueProperty": a.Unique}
		switch a.Kind {
		case "Enumeration":
			var values []object
			for _, v := range a.Values {
				values = append(values, object{"ValueName": v, "ValueDisplayName": v})
			}
			e["Value"] = values
		case "Integer":
			e["LowerBound"], e["UpperBound"] = a.Min, a.Max
		case "String", "Password":
			e["MinLength"], e["MaxLength"] = a.Min, a.Max
		}
		entries = append(entries, e)
	}
	return object{
		"@odata.type": "#AttributeRegistry.v1_3_0.AttributeRegistry",
		"Id":          biosRegistryID, "Name": "BIOS attribute registry", "Language": "en", "OwningEntity": "bmcsim",
		"RegistryVersion": "1.0.0", "RegistryEntries": object{"Attributes": entries},
	}
}
