// SPDX-License-Identifier: Apache-2.0

package safety

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// machine is what a machine itself can tell: what was done to it, whoever asked for it.
type machine interface {
	Address() string
	MAC() string
	// Press switches it by its power button.
	Press(on bool)
	IsOn() bool
	// Images are the URLs of what was written to its disks, in order.
	Images() []string
	// Erasures counts how often cleaning has erased its disks.
	Erasures() int
	// PowerCuts counts how often its BMC was told to switch it off while it was on.
	PowerCuts() int
	// Updates are the URLs of the firmware updates that its BMC was asked for, in order.
	Updates() []string
}

// ironicUnderTest is an Ironic of a test's own.
type ironicUnderTest interface {
	Operator() *testbed.Operator
	RamdiskArgs() []string
	NewMachine(t *testing.T) machine
	// Image returns the URL of an image and its SHA-256 checksum.
	Image(name string) (url, checksum string)
	// FirmwareURL returns the URL of a version of the BMC's firmware; empty if this Ironic cannot update any.
	FirmwareURL(version string) string
	// BackUp copies the database. What it returns puts the copy back.
	BackUp(t *testing.T) (restore func())
}

func startIronic(t *testing.T, ctx context.Context) ironicUnderTest {
	t.Helper()
	if testbed.IsSimulated() {
		sim, err := testbed.StartSimulatedIronic(ironicsim.Options{
			AutoInspect: true, AutoDeploy: true, RamdiskDelay: 300 * time.Millisecond, CallbackTimeout: 10 * time.Second,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(sim.Close)
		return simulatedIronic{sim}
	}
	dir := t.TempDir()
	// Its own logs are kept by t only when it fails.
	ironic, err := testbed.StartDebianIronic(ctx, testbed.IronicOptions{Release: os.Getenv("IRONIC"), Dir: dir, ExtraConf: "[DEFAULT]\nwebserver_verify_ca = false\n"})
	if err != nil {
		t.Fatal(err)
	}
	machines, err := bmcsim.Start(bmcsim.Options{IronicURL: ironic.Endpoint})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ironic.Close(); err != nil { // first: without BMCs it takes longer to end
			t.Error(err)
		}
		if err := machines.Close(); err != nil {
			t.Error(err)
		}
	})
	return debianIronic{ironic, machines}
}

type simulatedIronic struct{ *testbed.SimulatedIronic }

func (i simulatedIronic) Operator() *testbed.Operator { return &testbed.Operator{Endpoint: i.URL()} }
func (i simulatedIronic) RamdiskArgs() []string       { return testbed.UnusedRamdiskArgs }

func (i simulatedIronic) NewMachine(*testing.T) machine {
	address := i.NewBMC("admin", "password")
	return simulatedMachine{i.BMC(address), address, testbed.NewMAC()}
}

func (i simulatedIronic) Image(name string) (url, checksum string) {
	return "http://images/" + name, strings.Repeat("a", 64)
}

func (i simulatedIronic) FirmwareURL(string) string { return "" }

func (i simulatedIronic) BackUp(*testing.T) (restore func()) {
	snapshot := i.Snapshot()
	return func() { i.Restore(snapshot) }
}

type simulatedMachine struct {
	bmc          *ironicsim.BMC
	address, mac string
}

func (m simulatedMachine) Address() string   { return m.address }
func (m simulatedMachine) MAC() string       { return m.mac }
func (m simulatedMachine) IsOn() bool        { return m.bmc.Power() == "power on" }
func (m simulatedMachine) PowerCuts() int    { return m.bmc.PowerCuts() }
func (m simulatedMachine) Updates() []string { return nil }
func (m simulatedMachine) Press(on bool) {
	m.bmc.SetPower(map[bool]string{true: "power on", false: "power off"}[on])
}

func (m simulatedMachine) Images() (urls []string) {
	for _, write := range m.bmc.DiskWrites() {
		if write.Image != "" {
			urls = append(urls, write.Image)
		}
	}
	return urls
}

func (m simulatedMachine) Erasures() int { return len(m.bmc.DiskWrites()) - len(m.Images()) }

type debianIronic struct {
	*testbed.DebianIronic
	machines *bmcsim.Sim
}

func (i debianIronic) RamdiskArgs() []string {
	return []string{
		"--deploy-kernel-url=" + i.machines.FileURL(bmcsim.KernelFile),
		"--deploy-ramdisk-url=" + i.machines.FileURL(bmcsim.RamdiskFile),
		"--deploy-iso-url=" + i.machines.FileURL(bmcsim.AgentISO),
	}
}

func (i debianIronic) NewMachine(t *testing.T) machine {
	t.Helper()
	m, err := i.machines.AddMachine()
	if err != nil {
		t.Fatal(err)
	}
	return debianMachine{m}
}

func (i debianIronic) Image(name string) (url, checksum string) {
	if checksum = i.machines.FileChecksum(name); checksum != "" {
		return i.machines.FileURL(name), checksum
	}
	return i.machines.AddFile(name, []byte("the image "+name))
}

func (i debianIronic) FirmwareURL(version string) string {
	if os.Getenv("IRONIC") == "bookworm" {
		return ""
	}
	return i.machines.FirmwareURL("bmc", version)
}

func (i debianIronic) BackUp(t *testing.T) (restore func()) {
	t.Helper()
	database, err := i.ReadDatabase()
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := i.RestoreDatabase(t.Context(), database); err != nil {
			t.Fatal(err)
		}
	}
}

type debianMachine struct{ *bmcsim.Machine }

func (m debianMachine) Press(on bool) {
	m.SetPower(map[bool]bmcsim.Power{true: bmcsim.On, false: bmcsim.Off}[on])
}
func (m debianMachine) IsOn() bool { return m.Power() == bmcsim.On }

func (m debianMachine) Images() (urls []string) {
	for _, image := range m.Machine.Images() {
		urls = append(urls, image.URL)
	}
	return urls
}

func (m debianMachine) Erasures() (n int) {
	for _, step := range m.Steps() {
		if step == "clean erase_devices_metadata" { // which each cleaning begins with
			n++
		}
	}
	return n
}

// allNodes returns the nodes that an Ironic has.
func allNodes(ctx context.Context, ironic ironicUnderTest) ([]testbed.Node, error) {
	operator := ironic.Operator()
	path := "/v1/nodes?fields=uuid,name,provision_state,driver_info&limit=1000"
	if os.Getenv("IRONIC") != "bookworm" {
		// A LIST leaves out nodes that Ironic 29.0 has made their own parents, unless told not to.
		operator.Microversion = "1.96"
		path += "&include_children=True"
	}
	var answer struct{ Nodes []testbed.Node }
	err := operator.Do(ctx, http.MethodGet, path, nil, &answer)
	return answer.Nodes, err
}

// nodesOf returns the nodes in Ironic that have the BMC of a machine.
func (b *bed) nodesOf(m machine) ([]testbed.Node, error) {
	nodes, err := allNodes(b.ctx, b)
	if err != nil {
		return nil, err
	}
	var found []testbed.Node
	for _, node := range nodes {
		told := fmt.Sprint(node.DriverInfo["redfish_address"], node.DriverInfo["redfish_system_id"])
		if port, ipmi := node.DriverInfo["ipmi_port"]; ipmi {
			told = fmt.Sprintf("%v:%v", node.DriverInfo["ipmi_address"], port)
		}
		if strings.HasSuffix(m.Address(), told) || strings.HasSuffix(m.Address(), strings.TrimPrefix(told, "http://")) {
			found = append(found, node)
		}
	}
	return found, nil
}
