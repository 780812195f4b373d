// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"net/http"

	"github.com/metal3-io/metal3-apiserver/test/ironicsim/fsm"
)

// provisionArgs are the parts of a PUT states/provision beside its target.
type provisionArgs struct {
	configdrive                           any
	cleanSteps, deploySteps, serviceSteps []any
	hasDisableRamdisk                     bool
}

// putProvision is PUT /v1/nodes/X/states/provision.
func (s *Sim) putProvision(c *call) error {
	target, args := c.required("target"), parseProvision(c)
	if c.refused != nil {
		return c.refused
	}
	e, n, err := s.nodeArg(c)
	if err != nil {
		return err
	}
	if err := s.machine.Check(&n.Node, target); err != nil {
		return err
	}
	if err := args.check(c, target); err != nil {
		return err
	}
	if err := s.provision(e, target, args); err != nil {
		return err
	}
	s.mu.Lock()
	s.targets[n.UUID] = append(s.targets[n.UUID], target)
	s.mu.Unlock()
	c.location("nodes/" + c.path["node"] + "/states")
	return c.accepted()
}

func parseProvision(c *call) *provisionArgs {
	a := &provisionArgs{configdrive: c.args["configdrive"], hasDisableRamdisk: c.boolArg("disable_ramdisk") != nil}
	switch a.configdrive.(type) {
	case nil, string, map[string]any:
	default:
		c.refuse("Expected types <class 'NoneType'>, <class 'dict'>, <class 'str'> for configdrive: %s", pyRepr(a.configdrive, false))
	}
	for name, p := range map[string]*[]any{"clean_steps": &a.cleanSteps, "deploy_steps": &a.deploySteps, "service_steps": &a.serviceSteps} {
		list, ok := c.args[name].([]any)
		if v := c.args[name]; v != nil && !ok {
			c.refuse("Expected types <class 'NoneType'>, <class 'list'> for %s: %s", name, pyRepr(v, false))
		}
		*p = list
	}
	return a
}

// check refuses arguments that do not go with the verb or the version.
func (a *provisionArgs) check(c *call, target string) error {
	only := func(name, verb string) error {
		return badRequest(`"%s" is only valid when setting target provision state to %s`, name, verb)
	}
	if a.configdrive != nil && a.configdrive != "" {
		if target != "active" && target != "rebuild" {
			return badRequest("Adding a config drive is only supported when setting provision state to active, rebuild")
		}
	}
	if a.hasDisableRamdisk && target != "clean" && target != "service" {
		return badRequest(`"disable_ramdisk" is only valid when setting target provision state to clean`)
	}
	if len(a.cleanSteps) > 0 && target != "clean" {
		return only("clean_steps", "clean")
	}
	if len(a.deploySteps) > 0 && target != "active" && target != "deploy" && target != "rebuild" {
		return badRequest(`"deploy_steps" is only valid when setting target provision state to active or rebuild`)
	}
	if target == "unhold" && c.minor < 85 {
		return errNotAcceptable()
	}
	if len(a.serviceSteps) > 0 && target != "service" {
		return only("service_steps", "service")
	}
	if target == "service" && c.minor < 87 {
		return errNotAcceptable()
	}
	switch {
	case target == "clean" && len(a.cleanSteps) == 0:
		return badRequest(`"clean_steps" is required when setting target provision state to clean`)
	case target == "service" && len(a.serviceSteps) == 0:
		return badRequest(`"service_steps" is required when setting target provision state to service`)
	}
	if err := checkSteps("clean", a.cleanSteps); err != nil {
		return err
	}
	return checkSteps("service", a.serviceSteps)
}

// checkSteps is the schema of clean and service steps, its messages cut short.
func checkSteps(kind string, steps []any) error {
	for _, step := range steps {
		m, ok := step.(map[string]any)
		if !ok {
			return badRequest("Invalid %s_steps: %s is not of type 'object'", kind, pyRepr(step, true))
		}
		for _, k := range []string{"interface", "step"} {
			if s, ok := m[k].(string); !ok || s == "" {
				return badRequest("Invalid %s_steps: '%s' is a required property", kind, k)
			}
		}
		for k := range m {
			switch k {
			case "interface", "step", "args", "order", "execute_on_child_nodes", "limit_child_node_execution":
			default:
				return badRequest("Invalid %s_steps: Additional properties are not allowed ('%s' was unexpected)", kind, k)
			}
		}
	}
	return nil
}

// provision is the conductor's side of the request: it takes the lock, checks
// once more and starts the work.
func (s *Sim) provision(e *entry, target string, a *provisionArgs) error {
	t, err := s.acquire(e, false)
	if err != nil {
		return err
	}
	n := t.node()
	if target == "rebuild" && !s.opts.WithoutDefects && n.instanceInfo.string("image_source") == "" {
		return t.reject(fault(http.StatusInternalServerError, "cannot access local variable 'auto_lessee' where it is not associated with a value"))
	}
	if err := s.machine.Admit(&n.Node, target); err != nil {
		return t.reject(err)
	}
	switch fsm.Event(target) {
	case "deploy", "rebuild":
		return t.startDeploy(target, a)
	case "delete":
		return t.startDelete()
	case "inspect":
		return t.startInspect()
	case "clean":
		return t.startManualClean(a.cleanSteps)
	case "service":
		return t.startService(a.serviceSteps)
	case "rescue", "unrescue": // nobody asks for them
		return t.reject(errUnsupported(n.driver, "rescue"))
	case "abort":
		return t.abort()
	case "adopt":
		return t.begin(target, t.adopt)
	case "provide":
		return t.begin(target, t.clean)
	case "manage":
		if n.ProvisionState == fsm.Enroll {
			return t.begin(target, t.verify)
		}
	}
	t.save(func(n *node) { s.machine.Start(&n.Node, target) })
	t.release()
	return nil
}
