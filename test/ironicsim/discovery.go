// SPDX-License-Identifier: Apache-2.0

package ironicsim

import "net/http"

type link struct {
	Href string `json:"href"`
	Rel  string `json:"rel"`
}

func (c *call) links(resource string) []link {
	return []link{{c.base + "/v1/" + resource, "self"}, {c.base + "/" + resource, "bookmark"}}
}

func (c *call) version() map[string]any {
	return map[string]any{
		"id": "v1", "status": "CURRENT", "min_version": "1.1", "version": c.s.opts.MaxVersion,
		"links": []link{{c.base + "/v1/", "self"}},
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
	return c.json(http.StatusOK, map[string]any{"id": "v1", "links": c.version()["links"], "version": c.version()})
}

func (s *Sim) listDrivers(c *call) error {
	drivers := []any{}
	for _, name := range driverNames {
		drivers = append(drivers, map[string]any{"name": name, "hosts": []string{conductorName}, "type": "dynamic",
			"links": c.links("drivers/" + name), "properties": c.links("drivers/" + name + "/properties")})
	}
	return c.json(http.StatusOK, map[string]any{"drivers": drivers})
}

func (s *Sim) listConductors(c *call) error {
	s.mu.RLock()
	alive := s.conductor != nil
	s.mu.RUnlock()
	return c.json(http.StatusOK, map[string]any{"conductors": []any{map[string]any{
		"hostname": conductorName, "conductor_group": "", "alive": alive, "links": c.links("conductors/" + conductorName),
	}}})
}
