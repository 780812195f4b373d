// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"io"
	"net"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// serialLine is the machine's end of its serial line. It answers each line in upper case.
type serialLine struct {
	port int
	mu   sync.Mutex
	got  bytes.Buffer
}

func startSerialLine(t *testing.T) *serialLine {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	line := &serialLine{port: listener.Addr().(*net.TCPAddr).Port}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go line.serve(conn)
		}
	}()
	return line
}

func (l *serialLine) serve(conn net.Conn) {
	defer conn.Close()
	buffer := make([]byte, 1000)
	for {
		n, err := conn.Read(buffer)
		if err != nil {
			return
		}
		text := bytes.ToUpper(buffer[:n])
		if text[0] == 0xff { // ipmi_sim begins with the options of telnet
			continue
		}
		l.mu.Lock()
		l.got.Write(buffer[:n])
		l.mu.Unlock()
		if _, err := conn.Write(text); err != nil {
			return
		}
	}
}

func (l *serialLine) typed() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.got.String()
}

// terminal is a user at a console.
type terminal struct {
	keys  io.WriteCloser
	ended chan error // receives why the console has ended
	mu    sync.Mutex
	shown bytes.Buffer
}

func (c *terminal) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shown.Write(p)
}

func (c *terminal) screen() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shown.String()
}

// connect opens a console as an administrator of the given name, by the protocol of kubectl attach.
func connect(t *testing.T, ctx context.Context, config *rest.Config, user, ns, host, query string) *terminal {
	t.Helper()
	config = rest.CopyConfig(config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:masters"}}
	executor, err := remotecommand.NewWebSocketExecutor(config, "GET",
		config.Host+"/apis/metal3.io/v1alpha1/namespaces/"+ns+"/baremetalhosts/"+host+"/console?"+query)
	if err != nil {
		t.Fatal(err)
	}
	stdin, keys := io.Pipe()
	c := &terminal{keys: keys, ended: make(chan error, 1)}
	streamCtx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.ended <- executor.StreamWithContext(streamCtx, remotecommand.StreamOptions{Stdin: stdin, Stdout: c, Tty: true})
	}()
	t.Cleanup(func() {
		cancel()
		_ = keys.Close()
		<-done
	})
	return c
}

func (c *terminal) wait(t *testing.T, ctx context.Context, text string) {
	t.Helper()
	testbed.Eventually(t, ctx, func() string {
		select {
		case err := <-c.ended:
			t.Fatalf("the console has ended: %v; it has shown %q", err, c.screen())
		default:
		}
		if strings.Contains(c.screen(), text) {
			return ""
		}
		return "the console shows " + c.screen() + ", want " + text
	})
}

// waitEnd waits until the console has ended, and returns why.
func (c *terminal) waitEnd(t *testing.T, ctx context.Context) string {
	t.Helper()
	select {
	case err := <-c.ended:
		if err == nil {
			return ""
		}
		return err.Error()
	case <-time.After(testbed.Patience):
		t.Fatalf("the console does not end; it shows %q", c.screen())
	case <-ctx.Done():
		t.Fatal(ctx.Err())
	}
	return ""
}

// startMachineWithConsole starts a BMC that has the serial line of its machine.
func startMachineWithConsole(t *testing.T, ctx context.Context) (*serialLine, bmc) {
	t.Helper()
	ironic, ok := bed(ctx).ironic.(debianIronic)
	if !ok {
		t.Skip("the simulated Ironic has no consoles")
	}
	if err := exec.Command("unshare", "--mount", "true").Run(); err != nil {
		t.Skip("test/ironic/run.sh cannot mount /proc and /dev for Ironic's consoles here: " + err.Error())
	}
	line := startSerialLine(t)
	b, err := ironic.StartBMCWithSerial(ctx, "admin", "password", line.port)
	if err != nil {
		t.Fatal(err)
	}
	return line, debianBMC{b}
}

// TestConsole types into the serial line of a machine, through kube-apiserver, the server, Ironic's
// console and the BMC.
func TestConsole(t *testing.T) {
	ctx, ns := s.Begin(t)
	line, b := startMachineWithConsole(t, ctx)
	host := runningHost(t, ctx, ns, "worker-0", b)
	node := host.Status.Provisioning.ID
	if consoleEnabled(t, ctx, node) {
		t.Error("the console is enabled before anybody has used it")
	}

	alice := connect(t, ctx, s.Kube.Admin.Config, "alice", ns, "worker-0", "")
	alice.wait(t, ctx, "SOL Session operational")
	if _, err := io.WriteString(alice.keys, "root\r"); err != nil {
		t.Fatal(err)
	}
	alice.wait(t, ctx, "ROOT")
	if got := line.typed(); !strings.Contains(got, "root\r") {
		t.Errorf("the machine has received %q", got)
	}

	for _, query := range []string{"", "share=true"} {
		if got := connect(t, ctx, s.Kube.Admin.Config, "bob", ns, "worker-0", query).waitEnd(t, ctx); !strings.Contains(got, "in use by alice") || !strings.Contains(got, "force=true") {
			t.Errorf("a second user (%s) is told %q", query, got)
		}
	}
	bob := connect(t, ctx, s.Kube.Admin.Config, "bob", ns, "worker-0", "force=true&share=true")
	if got := alice.waitEnd(t, ctx); !strings.Contains(got, "bob has taken over the console") {
		t.Errorf("alice is told %q", got)
	}
	bob.wait(t, ctx, "SOL Session operational")
	alice = connect(t, ctx, s.Kube.Admin.Config, "alice", ns, "worker-0", "share=true")
	// The connection is made when the other one's text is seen, which may be typed too early.
	testbed.Eventually(t, ctx, func() string {
		if _, err := io.WriteString(bob.keys, "both\r"); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(alice.screen(), "BOTH") && strings.Contains(bob.screen(), "BOTH") {
			return ""
		}
		return "alice sees " + alice.screen() + ", bob sees " + bob.screen()
	})
	_ = bob.keys.Close()
	if got := bob.waitEnd(t, ctx); got != "" {
		t.Errorf("bob has left, and is told %q", got)
	}
	if !consoleEnabled(t, ctx, node) {
		t.Error("the console is disabled while somebody uses it")
	}
	_ = alice.keys.Close()
	waitConsoleDisabled(t, ctx, node)

	// The host is served as before, and what is not a WebSocket is refused in words.
	err := bed(ctx).Metal3.Metal3V1alpha1().RESTClient().Post().Namespace(ns).Resource("baremetalhosts").Name("worker-0").SubResource("console").Do(ctx).Error()
	if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "WebSocket") {
		t.Errorf("POST without an upgrade: %v", err)
	}
}

// TestConsoleOfKilledServer has the server killed while a console is open: nobody is left with the
// port of the console open at Ironic.
func TestConsoleOfKilledServer(t *testing.T) {
	ctx, ns := s.Begin(t)
	_, b := startMachineWithConsole(t, ctx)
	ctx = onServerOfItsOwn(t, ctx, ns)
	host := runningHost(t, ctx, ns, "worker-0", b)
	user := connect(t, ctx, bed(ctx).Server.Direct.Config, "alice", ns, "worker-0", "")
	user.wait(t, ctx, "SOL Session operational")
	if !consoleEnabled(t, ctx, host.Status.Provisioning.ID) {
		t.Fatal("the console is not enabled in Ironic while it is used")
	}
	if err := bed(ctx).Server.Kill(); err != nil {
		t.Fatal(err)
	}
	user.waitEnd(t, ctx)
	if err := bed(ctx).Server.Start(ctx); err != nil {
		t.Fatal(err)
	}
	waitConsoleDisabled(t, ctx, host.Status.Provisioning.ID)
}

func consoleEnabled(t *testing.T, ctx context.Context, node string) bool {
	t.Helper()
	var answer struct {
		Enabled bool `json:"console_enabled"`
	}
	if err := bed(ctx).ironic.Operator().Do(ctx, "GET", "/v1/nodes/"+node, nil, &answer); err != nil {
		t.Fatal(err)
	}
	return answer.Enabled
}

func waitConsoleDisabled(t *testing.T, ctx context.Context, node string) {
	t.Helper()
	testbed.Eventually(t, ctx, func() string {
		if consoleEnabled(t, ctx, node) {
			return "the console is still enabled in Ironic"
		}
		return ""
	})
}
