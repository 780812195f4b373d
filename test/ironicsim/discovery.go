package ironicsim

import (
	"net/http"
	"slices"
	"strings"
)

type link struct {
	Href string `json:"href"`
	Rel  string `json:"rel"`
	Type string `json:"type,omitempty"`
}

func (c *call) links(resource string) []link {
	return []link{{c.base + "/v1/" + resource, "self", ""}, {c.base + "/" + resource, "bookmark", ""}}
}

func (c *call) version() map[string]any {
	return map[string]any{
		"id": "v1", "status": "CURRENT", "min_version": "1.1", "version": c.s.opts.MaxVersion,
		"links": []link{{c.base + "/v1/", "self", ""}},
	}
}

func (s *Sim) getRoot(c *call) error {
	return c.json(http.StatusOK, map[string]any{
		"name":            "OpenStack Ironic API",
		"description":     "Ironic is an OpenStack project which enables the provision and management of baremetal machines.",
		"default_version": c.version(), "versions": []any{c.version()},
	})
}

func (s *Sim) getV1(c *call) error {
	v1 := map[string]any{
		"id": "v1",
		"links": []link{{c.base + "/v1/", "self", ""},
			{"https://docs.openstack.org//ironic/latest/contributor//webapi.html", "describedby", "text/html"}},
		"media_types": map[string]string{"base": "application/json", "type": "application/vnd.openstack.ironic.v1+json"},
		"version":     c.version(),
	}
	for name, minor := range map[string]int{
		"chassis": 0, "nodes": 0, "ports": 0, "drivers": 0, "portgroups": 0, "volume": 0, "lookup": 0, "heartbeat": 0,
		"conductors": 0, "allocations": 0, "events": 0, "deploy_templates": 0, "shards": 0,
		"continue_inspection": 84, "runbooks": 92, "inspection_rules": 96,
	} {
		if c.minor >= minor {
			v1[name] = c.links(name + "/")
		}
	}
	return c.json(http.StatusOK, v1)
}

// only keeps the asked fields, and links, of an answer that is a small object.
func only(m map[string]any, fields []string) (map[string]any, error) {
	if fields == nil {
		return m, nil
	}
	var invalid []string
	for _, f := range fields {
		if _, ok := m[f]; !ok {
			invalid = append(invalid, f)
		}
	}
	if len(invalid) > 0 {
		return nil, badRequest(`Field(s) "%s" are not valid`, strings.Join(invalid, ", "))
	}
	for k := range m {
		if k != "links" && !slices.Contains(fields, k) {
			delete(m, k)
		}
	}
	return m, nil
}

// hosts are the conductors that serve drivers.
func (s *Sim) hosts() []string { return []string{conductorName} }

func (s *Sim) driverJSON(c *call, name string, detail bool) map[string]any {
	d := map[string]any{"name": name, "hosts": s.hosts(), "type": "dynamic", "links": c.links("drivers/" + name),
		"properties": c.links("drivers/" + name + "/properties")}
	if !detail {
		return d
	}
	for kind, enabled := range hardwareTypes[name].interfaces {
		if kind == "firmware" && c.minor < 86 {
			continue
		}
		d["default_"+kind+"_interface"] = enabled[0]
		d["enabled_"+kind+"_interfaces"] = enabled
	}
	return d
}

func (s *Sim) listDrivers(c *call) error {
	detail, err := c.boolArg("detail")
	if err != nil {
		return err
	}
	fields, err := c.listArg("fields")
	if err != nil {
		return err
	}
	kind, _, err := c.stringArg("type")
	if err != nil {
		return err
	}
	isDetail := detail != nil && *detail
	if len(fields) > 0 && isDetail {
		return badRequest("Can not specify ?detail=True and fields in the same request.")
	}
	if kind != "" && kind != "classic" && kind != "dynamic" {
		return badRequest(`"type" filter must be one of "classic" or "dynamic", if specified.`)
	}
	drivers := []any{}
	for _, name := range driverNames {
		if kind == "classic" {
			break
		}
		d, err := only(s.driverJSON(c, name, isDetail), fields)
		if err != nil {
			return err
		}
		drivers = append(drivers, d)
	}
	return c.json(http.StatusOK, map[string]any{"drivers": drivers})
}

func (s *Sim) getDriver(c *call) error {
	fields, err := c.listArg("fields")
	if err != nil {
		return err
	}
	name := c.path["driver"]
	if hardwareTypes[name] == nil {
		return fault(http.StatusNotFound, "Could not find the following driver(s) or hardware type(s): %s.", name)
	}
	d, err := only(s.driverJSON(c, name, true), fields)
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, d)
}

func (s *Sim) conductorJSON(c *call, detail bool) map[string]any {
	s.mu.RLock()
	alive, now := s.conductor != nil, s.now()
	s.mu.RUnlock()
	m := map[string]any{
		"hostname": conductorName, "conductor_group": "", "alive": alive,
		"links": c.links("conductors/" + conductorName),
	}
	if detail {
		m["created_at"], m["updated_at"], m["drivers"] = formatTime(s.startedAt), formatTime(now), driverNames
	}
	return m
}

func (s *Sim) listConductors(c *call) error {
	detail, err := c.boolArg("detail")
	if err != nil {
		return err
	}
	fields, err := c.listArg("fields")
	if err != nil {
		return err
	}
	isDetail := detail != nil && *detail
	if fields != nil && isDetail {
		return badRequest("Can not specify ?detail=True and fields in the same request.")
	}
	one, err := only(s.conductorJSON(c, isDetail || fields != nil), fields)
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, map[string]any{"conductors": []any{one}})
}
