// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"net/http"
	"slices"
	"strings"
)

// route is one method of one URL of the API.
type route struct {
	method, pattern string
	// minor is the version below which the framework knows no such URL.
	minor int
	// args are the arguments that it takes; others are refused.
	args []string
	// wholeBody routes take the body as one value, not as arguments.
	wholeBody bool
	public    bool
	handle    func(*Sim, *call) error

	segments []string
}

// routes is the part of the API that the server and its tests use. A path segment in braces matches anything.
var routes = func() []*route {
	const GET, POST, PUT, PATCH, DELETE = http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete
	rs := []*route{
		{method: GET, pattern: "", public: true, handle: (*Sim).getV1},

		{method: GET, pattern: "nodes", args: []string{"fields", "detail", "marker", "limit", "sort_key", "sort_dir",
			"include_children"}, handle: (*Sim).listNodes},
		{method: POST, pattern: "nodes", wholeBody: true, handle: (*Sim).postNode},
		{method: GET, pattern: "nodes/{node}", args: []string{"fields"}, handle: (*Sim).getNode},
		{method: PATCH, pattern: "nodes/{node}", args: []string{"reset_interfaces"}, wholeBody: true, handle: (*Sim).patchNode},
		{method: DELETE, pattern: "nodes/{node}", handle: (*Sim).deleteNode},
		{method: GET, pattern: "nodes/{node}/validate", handle: (*Sim).getValidate},
		{method: PUT, pattern: "nodes/{node}/states/power", args: []string{"target", "timeout"}, handle: (*Sim).putPower},
		{method: PUT, pattern: "nodes/{node}/states/provision", args: []string{"target", "configdrive", "clean_steps",
			"deploy_steps", "disable_ramdisk", "service_steps"}, handle: (*Sim).putProvision},
		{method: PUT, pattern: "nodes/{node}/states/raid", wholeBody: true, handle: (*Sim).putRAID},
		{method: PUT, pattern: "nodes/{node}/maintenance", args: []string{"reason"}, handle: (*Sim).putMaintenance},
		{method: DELETE, pattern: "nodes/{node}/maintenance", handle: (*Sim).deleteMaintenance},
		{method: GET, pattern: "nodes/{node}/management/boot_device", handle: (*Sim).getBootDevice},
		{method: PUT, pattern: "nodes/{node}/management/boot_device", args: []string{"boot_device", "persistent"}, handle: (*Sim).putBootDevice},
		{method: PUT, pattern: "nodes/{node}/management/inject_nmi", handle: (*Sim).putNMI},
		{method: GET, pattern: "nodes/{node}/management/indicators", handle: (*Sim).getIndicators},
		{method: GET, pattern: "nodes/{node}/management/indicators/{indicator}", handle: (*Sim).getIndicator},
		{method: PUT, pattern: "nodes/{node}/management/indicators/{indicator}", args: []string{"state"}, handle: (*Sim).putIndicator},
		{method: GET, pattern: "nodes/{node}/management/boot_device/supported", handle: (*Sim).getSupportedBootDevices},
		{method: GET, pattern: "nodes/{node}/history", args: []string{"detail", "marker", "limit", "sort_key", "sort_dir"}, handle: (*Sim).getHistory},
		{method: GET, pattern: "nodes/{node}/inventory", handle: (*Sim).getInventory},
		{method: GET, pattern: "nodes/{node}/bios", args: []string{"detail", "fields"}, handle: (*Sim).getBIOS},
		{method: GET, pattern: "nodes/{node}/firmware", minor: 86, args: []string{"detail", "fields"}, handle: (*Sim).getFirmware},
		{method: GET, pattern: "nodes/{node}/vmedia", minor: getVmediaMinor, handle: (*Sim).getVmedia},
		{method: POST, pattern: "nodes/{node}/vmedia", minor: vmediaMinor, wholeBody: true, handle: (*Sim).postVmedia},
		{method: DELETE, pattern: "nodes/{node}/vmedia", minor: vmediaMinor, args: []string{"device_types"}, handle: (*Sim).deleteVmedia},
		{method: GET, pattern: "nodes/{node}/vendor_passthru", args: []string{"method"}, wholeBody: true, handle: (*Sim).vendorPassthru},
		{method: POST, pattern: "nodes/{node}/vendor_passthru", args: []string{"method"}, wholeBody: true, handle: (*Sim).vendorPassthru},
		{method: DELETE, pattern: "nodes/{node}/vendor_passthru", args: []string{"method"}, wholeBody: true, handle: (*Sim).vendorPassthru},

		{method: GET, pattern: "ports", args: []string{"fields", "node", "node_uuid", "address", "marker", "limit"}, handle: (*Sim).listPorts},
		{method: POST, pattern: "ports", wholeBody: true, handle: (*Sim).postPort},
		{method: PATCH, pattern: "ports/{port}", wholeBody: true, handle: (*Sim).patchPort},

		{method: GET, pattern: "drivers", handle: (*Sim).listDrivers},
		{method: GET, pattern: "conductors", handle: (*Sim).listConductors},
		{method: POST, pattern: "continue_inspection", wholeBody: true, public: true, handle: (*Sim).postInspection},
	}
	for _, r := range rs {
		if r.pattern != "" {
			r.segments = strings.Split(r.pattern, "/")
		}
	}
	return rs
}()

// target is what a request is for. It has no route if there is none.
type target struct {
	*route
	vars map[string]string // the {variables} of the pattern
	root bool              // the URL is that of the root, above /v1
	// known tells a wrong method from an unknown path.
	known bool
}

// match finds the target of a request. /v1 may be left out. The first pattern that
// fits a path is the only one that counts.
func match(r *http.Request) target {
	path := strings.Trim(r.URL.Path, "/")
	if path == "" {
		return target{root: true}
	}
	var segments []string
	if path != "v1" {
		segments = strings.Split(strings.TrimPrefix(path, "v1/"), "/")
	}
	var found target
	for _, rt := range routes {
		if found.known && !slices.Equal(rt.segments, found.segments) {
			continue
		}
		if vars, ok := rt.fits(segments); ok && rt.method == r.Method {
			return target{route: rt, vars: vars, known: true}
		} else if ok {
			found = target{route: rt, known: true}
		}
	}
	return target{known: found.known}
}

func (r *route) fits(path []string) (vars map[string]string, ok bool) {
	if len(path) != len(r.segments) {
		return nil, false
	}
	vars = map[string]string{}
	for i, seg := range r.segments {
		if name, ok := strings.CutPrefix(seg, "{"); ok {
			vars[strings.TrimSuffix(name, "}")] = path[i]
		} else if seg != path[i] {
			return nil, false
		}
	}
	return vars, true
}
