// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/metal3-io/metal3-apiserver/test/ironicsim/fsm"
)

// textOf is a driver_info value that may be a number.
func textOf(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case int:
		return strconv.Itoa(v)
	}
	return ""
}

// validatePower is the validate() of the node's power interface. It never
// touches the BMC.
func validatePower(n *node) error {
	return validateDriverInfo(n, n.powerInterface)
}

func validateDriverInfo(n *node, iface string) error {
	switch iface {
	case "ipmitool":
		return validateIPMI(n)
	case "redfish":
		return validateRedfish(n)
	}
	return nil
}

func validateIPMI(n *node) error {
	if n.driverInfo.string("ipmi_address") == "" {
		return badRequest("Missing the following IPMI credentials in node's driver_info: ['ipmi_address'].")
	}
	if v := n.driverInfo.fields["ipmi_port"]; v != nil {
		if port, err := strconv.Atoi(textOf(v)); err != nil || port < 1 || port > 65535 {
			return badRequest(`ipmi_port "%s" is not a valid port.`, pyRepr(v, false))
		}
	}
	level := n.driverInfo.string("ipmi_priv_level")
	switch level {
	case "", "ADMINISTRATOR", "CALLBACK", "OPERATOR", "USER":
		return nil
	}
	return badRequest("Invalid privilege level value:%s, the valid value can be one of ADMINISTRATOR, CALLBACK, OPERATOR, USER", level)
}

func validateRedfish(n *node) error {
	address := n.driverInfo.string("redfish_address")
	if address == "" {
		return badRequest("Missing the following Redfish properties in node %s driver_info: ['redfish_address']", n.UUID)
	}
	if u, err := url.Parse(redfishRoot(n)); err != nil || u.Hostname() == "" {
		if !strings.Contains(address, "://") {
			address = "https://" + address
		}
		return badRequest("Invalid Redfish address %s set in driver_info/redfish_address on node %s", address, n.UUID)
	}
	if id, ok := n.driverInfo.fields["redfish_system_id"]; ok && id != nil {
		if _, ok := id.(string); !ok {
			return badRequest("Invalid value \"%v\" set in driver_info/redfish_system_id on node %s. The value should be a path (string) to the resource that the driver will interact with. For example: /redfish/v1/Systems/1", id, n.UUID)
		}
	}
	switch ca := n.driverInfo.fields["redfish_verify_ca"].(type) {
	case nil, bool:
	case string:
		if _, ok := parseBool(ca); !ok && !strings.HasPrefix(ca, "/") {
			return badRequest("Invalid value type set in driver_info/redfish_verify_ca on node %s. The value should be a Boolean or the path to a file/directory, not \"%s\"", n.UUID, ca)
		}
	default:
		return badRequest("Invalid value type set in driver_info/redfish_verify_ca on node %s. The value should be a Boolean or the path to a file/directory, not \"%v\"", n.UUID, ca)
	}
	switch auth := n.driverInfo.string("redfish_auth_type"); auth {
	case "", "basic", "session", "auto":
		return nil
	default:
		return badRequest("Invalid value \"%s\" set in driver_info/redfish_auth_type on node %s. The value should be one of \"basic\", \"session\" or \"auto\".", auth, n.UUID)
	}
}

// validateRamdisk reports whether the node's boot interface knows a ramdisk to boot.
func (s *Sim) validateRamdisk(n *node) error {
	if s.opts.DefaultRamdisk || n.driverInfo.string("deploy_iso") != "" && n.bootInterface == "redfish-virtual-media" {
		return nil
	}
	var missing []string
	for _, k := range []string{"deploy_kernel", "deploy_ramdisk"} {
		if n.driverInfo.string(k) == "" {
			missing = append(missing, k)
		}
	}
	switch {
	case len(missing) == 0:
	case n.bootInterface == "pxe" || n.bootInterface == "ipxe":
		return badRequest("Cannot validate PXE bootloader. Some parameters were missing in node's driver_info and configuration. Missing are: %s", pyRepr(missing, true))
	case n.bootInterface == "redfish-virtual-media":
		return badRequest("Error validating Redfish virtual media. Some parameters were missing in node's driver_info. Missing are: %s", pyRepr(missing, true))
	}
	return nil
}

// hasPort reports whether a node has a port. s.mu must not be held.
func (s *Sim) hasPort(n *node) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.ContainsFunc(s.portIDs, func(p *port) bool { return p.nodeUUID == n.UUID })
}

// validateBoot is the validate() of the boot interface.
func (s *Sim) validateBoot(n *node) error {
	if n.bootInterface == "fake" {
		return nil
	}
	if n.bootInterface != "redfish-virtual-media" && !s.hasPort(n) {
		return badRequest("Node %s does not have any port associated with it", n.UUID)
	}
	if err := s.validateRamdisk(n); err != nil {
		return err
	}
	if bootsISO(n) && n.instanceInfo.string("boot_iso") == "" {
		var missing []string
		for _, k := range []string{"kernel", "ramdisk"} {
			if n.instanceInfo.string(k) == "" {
				missing = append(missing, k)
			}
		}
		if len(missing) > 0 {
			return badRequest("Cannot validate image information for node %s because one or more parameters are missing from its instance_info and insufficient information is present to boot from a remote volume. Missing are: %s",
				n.UUID, pyRepr(missing, true))
		}
	}
	return nil
}

// bootsISO reports whether the node is deployed by booting an ISO, or a kernel,
// each time: what Ironic calls its ramdisk deploy interface.
func bootsISO(n *node) bool { return n.deployInterface == "ramdisk" }

// errBMC is the error of a command that the BMC did not answer, or refused.
func errBMC(n *node, command string, refused bool) error {
	if n.powerInterface != "redfish" {
		// ipmitool does not tell a wrong password from silence.
		return pythonError("IPMI call failed: %s.", command)
	}
	root := redfishRoot(n)
	if refused {
		system := n.driverInfo.string("redfish_system_id")
		if system == "" {
			system = "/redfish/v1/Systems"
		}
		return pythonError("Redfish exception occurred. Error: HTTP GET %s%s returned code 401. Base.1.0.GeneralError: Invalid username or password Extended information: None", root, system)
	}
	scheme, hostport, _ := strings.Cut(root, "://")
	pool, port := "HTTPConnectionPool", "80"
	if scheme == "https" {
		pool, port = "HTTPSConnectionPool", "443"
	}
	host := hostport
	if h, p, err := net.SplitHostPort(hostport); err == nil {
		host, port = h, p
	}
	return pythonError("Redfish connection failed for node %s: Unable to connect to %s/redfish/v1/. Error: %s(host='%s', port=%s): Max retries exceeded with url: /redfish/v1/ (Caused by NewConnectionError('<urllib3.connection.HTTPConnection object at 0x7f79ab86ac40>: Failed to establish a new connection: [Errno 111] ECONNREFUSED'))",
		n.UUID, root, pool, host, port)
}

var errKilled = errors.New("the conductor was stopped")

// command sends one command to the node's BMC and runs act there, under s.mu. A
// dead BMC costs a time-out, which blocks as long as ctx lives.
func (s *Sim) command(ctx context.Context, n *node, command string, act func(b *BMC)) error {
	s.mu.Lock()
	b, accepted := s.bmcOf(n)
	dead := b == nil || b.dead
	url := ""
	if b != nil {
		url = b.url
	}
	s.mu.Unlock()
	if url != "" {
		if err := ask(ctx, http.MethodGet, url, silentBMCTimeout); err != nil {
			if ctx.Err() != nil {
				return errKilled
			}
			return errBMC(n, command, false)
		}
	}
	wait := s.opts.BMCDelay
	if dead {
		wait = s.opts.BMCTimeout
	}
	if !sleep(ctx, wait) {
		return errKilled
	}
	if dead || !accepted {
		return errBMC(n, command, !dead)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	act(b)
	return nil
}

// readPower is get_power_state of the node's power interface.
func (s *Sim) readPower(ctx context.Context, n *node) (string, error) {
	if n.powerInterface != "ipmitool" && n.powerInterface != "redfish" {
		return n.PowerState, nil // FakePower returns what is in the database
	}
	if err := validatePower(n); err != nil {
		return "", err
	}
	state := ""
	err := s.command(ctx, n, "power status", func(b *BMC) { state = b.power })
	return state, err
}

// switchPower sends a power command and waits for its effect.
func (s *Sim) switchPower(ctx context.Context, n *node, target string, timeout time.Duration) error {
	if n.powerInterface != "ipmitool" && n.powerInterface != "redfish" {
		if !sleep(ctx, s.opts.Delays.Power) {
			return errKilled
		}
		return nil
	}
	soft := target == fsm.SoftPowerOff
	want := fsm.PowerOn
	if target == fsm.PowerOff || soft {
		want = fsm.PowerOff
	}
	effective := false
	name := map[string]string{fsm.PowerOn: "power on", fsm.PowerOff: "power off", fsm.SoftPowerOff: "power soft"}[target]
	if err := s.command(ctx, n, name, func(b *BMC) { effective = !soft || !b.noSoftPower }); err != nil {
		return err
	}
	if !effective || s.opts.Delays.Power > timeout {
		if !sleep(ctx, timeout) {
			return errKilled
		}
		return pythonError("Failed to set node power state to %s.", want)
	}
	if !sleep(ctx, s.opts.Delays.Power) {
		return errKilled
	}
	return s.command(ctx, n, "power status", func(b *BMC) {
		if b.power == fsm.PowerOn && want == fsm.PowerOff {
			b.powerCuts++
			s.tell(Event{Machine: &MachineTouch{BMC: b.address, State: n.ProvisionState, PowerCut: true}})
		}
		b.power = want
	})
}
