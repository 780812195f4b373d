// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/metal3-io/metal3-apiserver/test/ironicsim/fsm"
)

// BMC is a simulated baseboard management controller with the one machine
// behind it. Nodes reach it when their driver_info has its address; an address
// at which there is no BMC is as good as a dead one.
type BMC struct {
	s       *Sim
	address string

	// guarded by s.mu
	user, password string
	power          string
	bootDevice     string
	persistent     bool
	dead           bool
	noSoftPower    bool
	powerCuts      int
	diskWrites     []DiskWrite
	macs           []string // of its network cards; nil until it was inspected
	serial         string   // that its inventories have; empty for one of its own
	light          string
	nmis           int
	vmedia         string // the image in the virtual drive
	url            string // what each command has to wait for

	subscriptions    []map[string]any // as the BMC shows them
	lastSubscription int
	settings         machineSettings
}

// AddBMC adds a BMC, its machine switched off, or gives the one that is already
// at this address new credentials. The address is HOST:PORT, where the default
// port (623 for IPMI, 443 and 80 for Redfish) may be left out; a URL may also be
// given, and with the path of a Redfish System it is one of several machines.
func (s *Sim) AddBMC(address, user, password string) *BMC {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := bmcKey(address)
	b := s.bmcs[key]
	if b == nil {
		b = &BMC{s: s, address: key, power: fsm.PowerOff, bootDevice: "pxe", light: "off"}
		s.bmcs[key] = b
	}
	b.user, b.password = user, password
	return b
}

// BMC returns the BMC at an address, or nil.
func (s *Sim) BMC(address string) *BMC {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.bmcs[bmcKey(address)]
}

// bmcKey is HOST:PORT[/PATH] without a scheme and without a default port.
func bmcKey(address string) string {
	rest, port := address, ""
	if u, err := url.Parse(address); err == nil && u.Scheme != "" && u.Host != "" {
		rest = u.Host + strings.TrimSuffix(u.Path, "/")
		port = map[string]string{"http": "80", "https": "443", "redfish": "443", "ipmi": "623"}[u.Scheme]
	}
	host, path, _ := strings.Cut(rest, "/")
	if h, p, err := net.SplitHostPort(host); err == nil && (p == port || port == "" && (p == "623" || p == "443" || p == "80")) {
		host = h
	}
	if path == "" || strings.TrimSuffix(path, "/") == "redfish/v1" {
		return strings.ToLower(host)
	}
	return strings.ToLower(host) + "/" + path
}

func (b *BMC) set(change func()) {
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	change()
}

// read returns a field of a BMC, and cloned a copy of one.
func read[T any](b *BMC, field *T) T {
	b.s.mu.RLock()
	defer b.s.mu.RUnlock()
	return *field
}

func cloned[T any](b *BMC, field *[]T) []T {
	b.s.mu.RLock()
	defer b.s.mu.RUnlock()
	return slices.Clone(*field)
}

// Address is the address that the BMC was added with, without a default port.
func (b *BMC) Address() string { return b.address }

// SetDead makes the BMC stop answering, or answer again.
func (b *BMC) SetDead(dead bool) { b.set(func() { b.dead = dead }) }

// SetURL has each command wait for an answer from a URL, for up to a minute: of a listener, for example, that
// accepts connections and never answers. Empty: the commands are carried out at once. The sync of power states does not wait.
func (b *BMC) SetURL(url string) { b.set(func() { b.url = url }) }

// SetSerial has the machine report a serial number, as a chassis gives its own to each of its sleds.
func (b *BMC) SetSerial(serial string) { b.set(func() { b.serial = serial }) }

// SetNoSoftPower makes the machine ignore soft power commands, as one without a
// running operating system does. Ironic waits until the time-out for it.
func (b *BMC) SetNoSoftPower(ignore bool) { b.set(func() { b.noSoftPower = ignore }) }

// SetPower switches the machine behind Ironic's back: "power on" or "power off".
func (b *BMC) SetPower(state string) { b.set(func() { b.power = state }) }

// Power is the machine's real power state, which Ironic may not know yet.
func (b *BMC) Power() string { return read(b, &b.power) }

// PowerCuts counts how often Ironic has switched the machine off while it was on, softly or
// not, also in the course of a reboot.
func (b *BMC) PowerCuts() int { return read(b, &b.powerCuts) }

// DiskWrites returns what was done to the disks of the machine, in order, whichever node in
// Ironic it was done for.
func (b *BMC) DiskWrites() []DiskWrite { return cloned(b, &b.diskWrites) }

// bmcOf finds the BMC that a node's driver_info leads to, or nil, and whether it
// accepts the credentials there. s.mu must be held.
func (s *Sim) bmcOf(n *node) (b *BMC, accepted bool) {
	var user, password string
	switch n.powerInterface {
	case "ipmitool":
		address := n.driverInfo.string("ipmi_address")
		if port := textOf(n.driverInfo.fields["ipmi_port"]); port != "" {
			address = net.JoinHostPort(strings.Trim(address, "[]"), port)
		}
		b = s.bmcs[bmcKey(address)]
		user, password = n.driverInfo.string("ipmi_username"), textOf(n.driverInfo.fields["ipmi_password"])
	case "redfish":
		root := redfishRoot(n)
		if b = s.bmcs[bmcKey(root+n.driverInfo.string("redfish_system_id"))]; b == nil {
			b = s.bmcs[bmcKey(root)]
		}
		user, password = n.driverInfo.string("redfish_username"), n.driverInfo.string("redfish_password")
	}
	return b, b != nil && b.user == user && b.password == password
}

// redfishRoot is scheme://host:port of redfish_address; https where none is given.
func redfishRoot(n *node) string {
	address := n.driverInfo.string("redfish_address")
	if !strings.Contains(address, "://") {
		address = "https://" + address
	}
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	return u.Scheme + "://" + u.Host
}
