// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"bytes"
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	plugin "github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/app"
	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// TestTerminal shows the hosts that the pictures of terminals in docs/images have: what a list, why and the live view
// look like, with their colours.
func TestTerminal(t *testing.T) {
	needsSimulator(t)
	ctx, ns := s.Begin(t)
	// What the plugin finds in the environment of a user. (So this test cannot be parallel.)
	for name, value := range map[string]string{"TERM": "xterm-256color", "LC_ALL": "C.UTF-8", "NO_COLOR": ""} {
		t.Setenv(name, value)
	}
	if err := os.Unsetenv("NO_COLOR"); err != nil { // an empty one counts, too
		t.Fatal(err)
	}
	createFleet(t, ctx, ns)

	const width, height = 112, 30
	list := newScreen(width, height)
	for _, command := range []string{"kubectl bmh", "kubectl bmh why openshift-master-0"} {
		fmt.Fprintf(list, "\x1b[2m$\x1b[0m \x1b[1m%s\x1b[0m\r\n", command)
		terminal := runInTerminal(t, ctx, ns, width, height, strings.Fields(command)[2:]...)
		if _, err := list.Write(terminal.end()); err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(list, "\r\n")
	}
	shows(t, list, "NAME", "openshift-worker-0  provisioned", "openshift-worker-1  provisioning  █", "deploy 2/6 write_image", "is being registered", "An IPMI command to the BMC has failed")
	keepScreen(t, list, "terminal.svg", "kubectl bmh lists hosts and says what is wrong with one of them")

	terminal := runInTerminal(t, ctx, ns, width, 9, "watch")
	var live *screen
	testbed.EventuallyEvery(t, ctx, 50*time.Millisecond, func() string {
		live = newScreen(width, 9)
		if _, err := live.Write(terminal.written()); err != nil {
			return err.Error() // it may be cut within a sequence
		}
		if text := live.text(); !strings.Contains(text, "5 hosts · 1 with a problem") || !strings.Contains(text, "q quit") {
			return text
		}
		return ""
	})
	shows(t, live, "openshift-worker-0  provisioned", "openshift-worker-1  provisioning  █")
	keepScreen(t, live, "terminal-watch.svg", "kubectl bmh watch follows hosts live")
	terminal.quit()
}

// createFleet creates a host of each kind that looks different, and waits until it does.
func createFleet(t *testing.T, ctx context.Context, ns string) {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "bmc"}, StringData: map[string]string{"username": "admin", "password": "password"}}
	if _, err := s.Core.CoreV1().Secrets(ns).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	create := func(name, address string, change func(*metal3.BareMetalHost)) {
		createHost(t, ctx, ns, name, change, func(h *metal3.BareMetalHost) {
			h.Spec.BMC = metal3.BMCDetails{Address: address, CredentialsName: "bmc"}
			h.Spec.BootMACAddress = testbed.NewMAC()
		})
	}
	dead := s.ironic.NewBMC("admin", "password")
	s.ironic.BMC(dead).SetDead(true)
	create("openshift-master-0", dead, func(h *metal3.BareMetalHost) { h.Spec.Online = true })
	for i := range 4 {
		create(fmt.Sprintf("openshift-worker-%d", i), s.ironic.NewBMC("admin", "password"), func(h *metal3.BareMetalHost) {
			h.Spec.Online = i != 3
			if i < 2 {
				h.Spec.ConsumerRef = &corev1.ObjectReference{APIVersion: "infrastructure.cluster.x-k8s.io/v1beta2", Kind: "Metal3Machine", Namespace: ns, Name: fmt.Sprintf("workers-x7k2%d", i)}
			}
		})
	}
	for i := range 4 {
		waitState(t, ctx, ns, fmt.Sprintf("openshift-worker-%d", i), metal3.StateAvailable, "")
	}
	waitState(t, ctx, ns, "openshift-master-0", metal3.StateRegistering, "Failed to get power state")

	// The second one stays where Ironic writes the image.
	node := ns + "~openshift-worker-1"
	if err := s.ironic.HoldRamdisk(node); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		image := `{"spec":{"image":{"url":"http://192.0.2.1/debian.qcow2","checksum":"http://192.0.2.1/SHA256SUMS"}}}`
		name := fmt.Sprintf("openshift-worker-%d", i)
		if _, err := s.Hosts(ns).Patch(ctx, name, types.MergePatchType, []byte(image), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	waitState(t, ctx, ns, "openshift-worker-0", metal3.StateProvisioned, "")
	waitIronic(t, ctx, node, "clean wait")
	if err := s.ironic.CallBack(node); err != nil {
		t.Fatal(err)
	}
	waitIronic(t, ctx, node, "wait call-back")
	// The simulator has only one step of a deployment. These are those of Ironic with its agent.
	steps := []map[string]any{{"step": "deploy"}, {"step": "write_image"}, {"step": "prepare_instance_boot"}, {"step": "tear_down_agent"}, {"step": "switch_to_tenant_network"}, {"step": "boot_instance"}}
	for i := range steps {
		steps[i]["interface"] = "deploy"
	}
	internal := map[string]any{"deploy_steps": steps, "deploy_step_index": 1, "steps_validated": true}
	if err := s.ironic.SetNode(node, map[string]any{"deploy_step": steps[1], "driver_internal_info": internal}); err != nil {
		t.Fatal(err)
	}
}

func waitState(t *testing.T, ctx context.Context, ns, name string, state metal3.ProvisioningState, message string) {
	t.Helper()
	testbed.Eventually(t, ctx, func() string {
		host, err := s.Hosts(ns).Get(ctx, name, metav1.GetOptions{})
		switch {
		case err != nil:
			return err.Error()
		case host.Status.Provisioning.State != state || !strings.Contains(host.Status.ErrorMessage, message):
			return fmt.Sprintf("%s is %s with the error %q", name, host.Status.Provisioning.State, host.Status.ErrorMessage)
		}
		return ""
	})
}

func waitIronic(t *testing.T, ctx context.Context, node, state string) {
	t.Helper()
	testbed.EventuallyEvery(t, ctx, 50*time.Millisecond, func() string {
		fields, _ := s.ironic.Node(node)
		if got := fields["provision_state"]; got != state {
			return fmt.Sprintf("%s is %v, want %s", node, got, state)
		}
		return ""
	})
}

// terminal is a terminal in which the plugin runs.
type terminal struct {
	t    *testing.T
	user *os.File // where a user reads and types
	// exited is closed when the plugin has ended, and read when all that it has written was read.
	exited, read chan struct{}

	mu     sync.Mutex
	output []byte
}

// runInTerminal runs kubectl bmh.
func runInTerminal(t *testing.T, ctx context.Context, ns string, width, height uint16, args ...string) *terminal {
	t.Helper()
	user, program := openTerminal(t, width, height)
	term := &terminal{t: t, user: user, exited: make(chan struct{}), read: make(chan struct{})}
	go func() {
		defer close(term.exited)
		args = append([]string{"--kubeconfig=" + s.Kube.Admin.Kubeconfig, "--namespace=" + ns}, args...)
		if code := plugin.Run(ctx, args, genericiooptions.IOStreams{In: program, Out: program, ErrOut: program}); code != 0 {
			t.Errorf("kubectl bmh %q: exit code %d", args, code)
		}
		_ = program.Close()
	}()
	go func() { // ends when the plugin has closed its end
		defer close(term.read)
		buffer := make([]byte, 4096)
		for {
			n, err := user.Read(buffer)
			term.mu.Lock()
			term.output = append(term.output, buffer[:n]...)
			term.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { _ = user.Close() })
	return term
}

// openTerminal returns both ends of a new pseudo-terminal.
func openTerminal(t *testing.T, width, height uint16) (user, program *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	connection, err := user.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var number int
	if controlErr := connection.Control(func(fd uintptr) {
		if err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); err != nil {
			return
		}
		if err = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: height, Col: width}); err != nil {
			return
		}
		number, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
	}); err != nil || controlErr != nil {
		t.Fatal(err, controlErr)
	}
	if program, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	return user, program
}

// written returns what the plugin has written so far.
func (term *terminal) written() []byte {
	term.mu.Lock()
	defer term.mu.Unlock()
	return bytes.Clone(term.output)
}

// end waits for the end of the plugin, and returns all that it has written.
func (term *terminal) end() []byte {
	term.t.Helper()
	term.wait(term.exited)
	term.wait(term.read)
	return term.written()
}

// quit presses the key that ends a live view. What reads the keys keeps the plugin's end open until there is no
// terminal anymore, so nobody can tell when everything was read.
func (term *terminal) quit() {
	term.t.Helper()
	if _, err := io.WriteString(term.user, "q"); err != nil {
		term.t.Fatal(err)
	}
	term.wait(term.exited)
}

func (term *terminal) wait(ended <-chan struct{}) {
	term.t.Helper()
	select {
	case <-ended:
	case <-time.After(testbed.Patience):
		term.t.Fatalf("kubectl bmh does not end; it has written\n%s", term.written())
	}
}

// shows asserts that texts can be read on a screen.
func shows(t *testing.T, s *screen, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(s.text(), text) {
			t.Errorf("the terminal does not show %q:\n%s", text, s.text())
		}
	}
}

// keepScreen draws a picture of a terminal for the docs, and writes it if it was asked for.
func keepScreen(t *testing.T, s *screen, name, title string) {
	t.Helper()
	picture := s.svg(title)
	if err := xml.Unmarshal([]byte(picture), &struct{}{}); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	if *update {
		if err := os.WriteFile(filepath.Join("..", "..", "docs", "images", name), []byte(picture), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTerminalColors checks that texts on the pictures of terminals have WCAG's contrast of 4.5:1.
func TestTerminalColors(t *testing.T) {
	luminance := func(color string) float64 {
		var rgb [3]uint8
		if _, err := fmt.Sscanf(color, "#%02x%02x%02x", &rgb[0], &rgb[1], &rgb[2]); err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for i, weight := range []float64{.2126, .7152, .0722} {
			v := float64(rgb[i]) / 255
			if v <= .04045 {
				v /= 12.92
			} else {
				v = math.Pow((v+.055)/1.055, 2.4)
			}
			sum += weight * v
		}
		return sum
	}
	colors := []string{dimmed}
	for _, color := range palette {
		colors = append(colors, color)
	}
	for _, color := range colors {
		if contrast := (luminance(color) + .05) / (luminance(background) + .05); contrast < 4.5 {
			t.Errorf("%s on %s has a contrast of %.1f", color, background, contrast)
		}
	}
}
