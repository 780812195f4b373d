// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clienttesting "k8s.io/client-go/testing"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// answerPower makes the fake server answer POSTs to power. It refuses those for hosts called "bad".
func (c *cluster) answerPower() {
	c.metal3.PrependReactor("create", "baremetalhosts", func(action clienttesting.Action) (bool, runtime.Object, error) {
		create := action.(clienttesting.CreateActionImpl)
		if create.GetSubresource() != "power" {
			return false, nil, nil
		}
		if strings.HasPrefix(create.Name, "bad") {
			return true, nil, apierrors.NewConflict(metal3.Resource("baremetalhosts"), create.Name, errors.New("it is to be off"))
		}
		power := create.Object.(*metal3.HostPower).DeepCopy()
		power.Status.Message = "well done"
		return true, power, nil
	})
}

// posted returns the hosts to whose subresources was posted, sorted.
func (c *cluster) posted() []string {
	var names []string
	for _, action := range c.metal3.Actions() {
		if create, ok := action.(clienttesting.CreateActionImpl); ok {
			names = append(names, create.GetSubresource()+" "+create.Name)
		}
	}
	slices.Sort(names)
	return names
}

func TestPower(t *testing.T) {
	c := newCluster(host("w-0", metal3.StateProvisioned), host("bad", metal3.StateProvisioned), host("w-1", metal3.StateProvisioned))
	c.answerPower()
	if code := c.run(t, "power", "reboot", "w-0", "bad", "w-1", "w-0"); code != exitError {
		t.Errorf("exit code %d", code)
	}
	if want := "baremetalhost.metal3.io/w-0 power reboot requested: well done\nbaremetalhost.metal3.io/w-1 power reboot requested: well done\n"; c.out != want {
		t.Errorf("stdout is %q, want %q", c.out, want)
	}
	if want := "bad: Error from server (Conflict): "; !strings.HasPrefix(c.errOut, want) || strings.Count(c.errOut, "\n") != 1 {
		t.Errorf("stderr is %q, want %q", c.errOut, want)
	}
	if got := strings.Join(c.posted(), ", "); got != "power bad, power w-0, power w-1" {
		t.Errorf("posted to %s", got)
	}
}

// TestRebootFailed: a machine that hangs is on all the same, and a script must not go on.
func TestRebootFailed(t *testing.T) {
	hangs := func(h *metal3.BareMetalHost) {
		h.Status.Ironic.LastError = "Failed to change power state to 'power on' by 'soft rebooting': it took too long"
	}
	c := newCluster(host("w-0", metal3.StateProvisioned, hangs), host("w-1", metal3.StateProvisioned))
	c.answerPower()
	if code := c.run(t, "power", "reboot", "w-0", "w-1", "--wait"); code != exitHopeless {
		t.Errorf("exit code %d", code)
	}
	expect(t, "stdout", c.out, "baremetalhost.metal3.io/w-1 is rebooted\n")
	expect(t, "stderr", c.errOut, "w-0: the machine was not rebooted", "it took too long", "--mode hard", "1 of 2 hosts cannot be rebooted")
}

// TestRetryWaitsForTheAttempt: that it has begun is not yet that it has gone well.
func TestRetryWaitsForTheAttempt(t *testing.T) {
	c := newCluster(host("w-0", metal3.StateInspecting))
	c.metal3.PrependReactor("create", "baremetalhosts", func(action clienttesting.Action) (bool, runtime.Object, error) {
		return true, action.(clienttesting.CreateAction).GetObject(), nil
	})
	if code := c.run(t, "retry", "w-0", "--wait", "--timeout", "50ms"); code != exitTimeout {
		t.Errorf("exit code %d: %s", code, c.errOut)
	}
	expect(t, "stderr", c.errOut, "w-0 is not ok and idle")
}

func TestPowerPrintsAnswers(t *testing.T) {
	c := newCluster(host("w-0", metal3.StateProvisioned))
	c.answerPower()
	if code := c.run(t, "power", "off", "w-0", "-o", "yaml", "--mode", "hard"); code != exitOK {
		t.Fatalf("exit code %d: %s", code, c.errOut)
	}
	expect(t, "the answer", c.out, "kind: HostPower", `action: "off"`, "mode: hard")
}

// TestConfirmation: nobody reboots a fleet by a wrong label, and scripts have to say that they mean it.
func TestConfirmation(t *testing.T) {
	var objects []runtime.Object
	for i := range 8 {
		objects = append(objects, host(fmt.Sprintf("w-%d", i), metal3.StateProvisioned, withLabel("rack", "7")))
	}
	for name, c := range map[string]struct {
		args   []string
		stdin  string
		canAsk bool
		code   int
		posts  int
	}{
		"yes":         {[]string{"power", "off", "-l", "rack=7"}, "y\n", true, exitOK, 8},
		"no":          {[]string{"power", "off", "-l", "rack=7"}, "\n", true, exitError, 0},
		"end":         {[]string{"power", "off", "--all"}, "", true, exitError, 0},
		"no terminal": {[]string{"power", "off", "--all"}, "y\n", false, exitError, 0},
		"--yes":       {[]string{"power", "off", "--all", "--yes"}, "", false, exitOK, 8},
		"dry run":     {[]string{"power", "off", "--all", "--dry-run=server"}, "", false, exitOK, 8},
		"harmless":    {[]string{"power", "on", "--all"}, "", false, exitOK, 8},
		"named":       {[]string{"power", "off", "w-0"}, "", false, exitOK, 1},
	} {
		t.Run(name, func(t *testing.T) {
			cl := newCluster(objects...)
			cl.answerPower()
			cl.stdin, cl.canAsk = c.stdin, c.canAsk
			if code := cl.run(t, c.args...); code != c.code {
				t.Errorf("exit code %d, want %d: %s", code, c.code, cl.errOut)
			}
			if got := len(cl.posted()); got != c.posts {
				t.Errorf("%d POSTs, want %d", got, c.posts)
			}
			if c.code == exitError {
				expect(t, "stderr", cl.errOut, "This switches off 8 hosts in namespace metal3: w-0, w-1, w-2, w-3, w-4 and 3 more.")
			}
		})
	}
}

func TestActionFlags(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"power", "w-0"}, `the first argument must be one of on, off, reboot, not "w-0"`},
		{[]string{"power", "off"}, "name the hosts"},
		{[]string{"power", "off", "w-0", "--mode", "gently"}, "--mode must be one of"},
		{[]string{"power", "off", "w-0", "--wait", "--dry-run=server"}, "contradict"},
		{[]string{"power", "off", "-l", " ", "--yes"}, "selects all hosts"}, // of variables that are not set
		{[]string{"retry", "-l", " , "}, "--selector"},
		{[]string{"retry", "w-0", "--dry-run=client"}, "--dry-run must be one of none, server"},
	} {
		cl := newCluster(host("w-0", metal3.StateProvisioned))
		if code := cl.run(t, c.args...); code != exitError || !strings.Contains(cl.errOut, c.want) {
			t.Errorf("%q: exit code %d, %q, want %q", c.args, code, cl.errOut, c.want)
		}
		if len(cl.posted()) > 0 {
			t.Errorf("%q: posted to %q", c.args, cl.posted())
		}
	}
}

func TestWhy(t *testing.T) {
	c := newCluster(host("w-0", metal3.StateRegistering, withError("IPMI call failed\x1b[2J")))
	if code := c.run(t, "why", "w-0"); code != exitOK {
		t.Fatalf("exit code %d: %s", code, c.errOut)
	}
	expect(t, "the explanation", c.out, "w-0 is being registered", "It has had a registration error: An IPMI command to the BMC has failed. IPMI call failed^[[2J.", "kubectl bmh retry w-0", "The last error in Ironic's history of the node, 60m ago: no answer from the ramdisk.")
	if c.errOut != "" {
		t.Errorf("a server without the subresource validate is worth a note: %q", c.errOut)
	}
	if code := c.run(t, "why", "nobody"); code != exitError {
		t.Errorf("exit code %d", code)
	}
}

func TestHistory(t *testing.T) {
	c := newCluster(host("w-0", metal3.StateProvisioned))
	if code := c.run(t, "history", "w-0"); code != exitOK {
		t.Fatalf("exit code %d: %s", code, c.errOut)
	}
	expect(t, "the history", c.out, "2026-11-22T11:00:00Z   60m   ERROR      deploying   no answer from the ramdisk")
}

func TestMaintenanceNeedsAReason(t *testing.T) {
	for _, args := range [][]string{{"maintenance", "on", "w-0"}, {"maintenance", "off", "w-0", "--reason", "x"}} {
		c := newCluster(host("w-0", metal3.StateProvisioned))
		if code := c.run(t, args...); code != exitError || !strings.Contains(c.errOut, "--reason belongs to on") || len(c.posted()) > 0 {
			t.Errorf("%q: exit code %d, %q, posted %q", args, code, c.errOut, c.posted())
		}
	}
}

// TestInterruptedQuestion: Ctrl-C at a question ends the command, though nothing was typed.
func TestInterruptedQuestion(t *testing.T) {
	asked, typed := io.Pipe()
	defer typed.Close()
	s := newSession(genericiooptions.IOStreams{In: asked, Out: io.Discard, ErrOut: io.Discard})
	s.canAsk = func() bool { return true }
	ctx, interrupt := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.ask(ctx, "This switches off 1 host.") }()
	interrupt()
	if err := <-ended; s.exitCode(err) != exitInterrupted {
		t.Errorf("%v", err)
	}
}

// TestInterruptedAction: what was not sent when the user pressed Ctrl-C is told from what may have been carried out.
func TestInterruptedAction(t *testing.T) {
	var hosts []runtime.Object
	var names []string
	for i := range atOnce + 2 {
		names = append(names, fmt.Sprintf("w-%02d", i))
		hosts = append(hosts, host(names[i], metal3.StateProvisioned))
	}
	c := newCluster(hosts...)
	ctx, cancel := context.WithCancel(t.Context())
	c.metal3.PrependReactor("create", "baremetalhosts", func(clienttesting.Action) (bool, runtime.Object, error) {
		cancel()
		return true, nil, posting(context.Canceled)
	})
	if code := c.runWith(ctx, t, append([]string{"power", "off"}, names...)...); code != exitInterrupted {
		t.Errorf("exit code %d", code)
	}
	if sent, not := strings.Count(c.errOut, "may have been carried out"), strings.Count(c.errOut, ": not sent\n"); sent == 0 || not < 2 || sent+not != len(names) {
		t.Errorf("%d may have been carried out, %d were not sent:\n%s", sent, not, c.errOut)
	}
}

// TestWaitAndPrint: what a program reads is objects alone.
func TestWaitAndPrint(t *testing.T) {
	c := newCluster(host("w-0", metal3.StateProvisioned, func(h *metal3.BareMetalHost) { h.Status.Ironic.PowerState = "power off" }))
	c.answerPower()
	if code := c.run(t, "power", "off", "w-0", "--wait", "-o", "json"); code != exitOK || !json.Valid([]byte(c.out)) || !strings.Contains(c.errOut, "w-0 is off") {
		t.Errorf("exit code %d, stdout %s, stderr %s", code, c.out, c.errOut)
	}
}
