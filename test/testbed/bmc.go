// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// BMC is a simulated IPMI controller (OpenIPMI's ipmi_sim) together with the power button of its
// machine. It uses IPMI over UDP like a real one.
type BMC struct {
	// Address is the value for spec.bmc.address of a BareMetalHost: ipmi://127.0.0.1:PORT.
	Address string
	// Port is its UDP port on 127.0.0.1.
	Port int

	ironic *DebianIronic
	dir    string
	env    []string
	run    *process
}

// StartBMC starts a BMC of a machine that is switched off. Ironic's Close stops it.
func (i *DebianIronic) StartBMC(ctx context.Context, user, password string) (*BMC, error) {
	return i.startBMC(ctx, user, password)
}

// StartBMCWithSerial starts a BMC that connects the machine's serial line to a TCP port on
// 127.0.0.1, where somebody must be listening.
func (i *DebianIronic) StartBMCWithSerial(ctx context.Context, user, password string, port int) (*BMC, error) {
	return i.startBMC(ctx, user, password, "BMC_SERIAL="+strconv.Itoa(port))
}

func (i *DebianIronic) startBMC(ctx context.Context, user, password string, env ...string) (*BMC, error) {
	port, err := freeUDPPort()
	if err != nil {
		return nil, err
	}
	name := stateName("bmc", port)
	b := &BMC{
		Address: "ipmi://127.0.0.1:" + strconv.Itoa(port),
		Port:    port,
		ironic:  i,
		dir:     filepath.Join(i.root, "state", name),
		env:     append(env, "BMC_NAME="+name, "BMC_USER="+user, "BMC_PASSWORD="+password),
	}
	if err := os.MkdirAll(b.dir, 0o700); err != nil {
		return nil, err
	}
	i.bmcs = append(i.bmcs, b) // even if it does not start, Close must remove its folder
	if err := b.Start(ctx); err != nil {
		return nil, errors.Join(err, b.Stop())
	}
	return b, nil
}

// Start makes the BMC answer again after Stop. The machine keeps its power state.
func (b *BMC) Start(ctx context.Context) error {
	port := strconv.Itoa(b.Port)
	var err error
	b.run, err = command{
		name: "bmc-" + port, log: filepath.Join(b.ironic.options.Dir, "bmc-"+port+".log"),
		path: filepath.Join(b.ironic.scripts, "bmc-run.sh"), args: []string{b.ironic.options.Release, port}, env: b.env,
	}.start()
	if err != nil {
		return err
	}
	return b.run.waitReady(ctx, func(ctx context.Context) error { return rmcpPing(ctx, b.Port) })
}

// Stop disconnects the BMC from the network: it no longer answers.
func (b *BMC) Stop() error { return b.run.kill() }

// SetPower switches the machine as its power button would, without Ironic.
func (b *BMC) SetPower(on bool) error {
	value := "0\n"
	if on {
		value = "1\n"
	}
	// The file is replaced by renaming, so that the BMC never reads an empty file.
	next := filepath.Join(b.dir, "power.button")
	if err := os.WriteFile(next, []byte(value), 0o600); err != nil {
		return err
	}
	return os.Rename(next, filepath.Join(b.dir, "power"))
}

// Power reports whether the machine is on.
func (b *BMC) Power() (bool, error) {
	value, err := readFile(filepath.Join(b.dir, "power"))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil // never switched
	}
	return strings.TrimSpace(value) == "1", err
}

// rmcpPing sends the presence ping of ASF, which an IPMI controller answers without a login.
func rmcpPing(ctx context.Context, port int) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "udp", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
		return err
	}
	// RMCP version 6, no sequence, class ASF; enterprise 4542, message type 0x80 (ping), tag 1.
	if _, err := conn.Write([]byte{6, 0, 0xff, 6, 0, 0, 0x11, 0xbe, 0x80, 1, 0, 0}); err != nil {
		return err
	}
	answer := make([]byte, 64)
	n, err := conn.Read(answer)
	if err != nil {
		return err
	}
	if pong := []byte{6, 0, 0xff, 6, 0, 0, 0x11, 0xbe, 0x40}; !bytes.HasPrefix(answer[:n], pong) {
		return fmt.Errorf("UDP port %d answers an RMCP ping with %x", port, answer[:n])
	}
	return nil
}

func freeUDPPort() (int, error) {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	return conn.LocalAddr().(*net.UDPAddr).Port, nil
}
