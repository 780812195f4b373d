package testbed

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

// startIronic starts the Ironic of $IRONIC_RELEASE.
func startIronic(t *testing.T, options IronicOptions) *DebianIronic {
	t.Helper()
	options.Release = os.Getenv("IRONIC_RELEASE")
	if options.Release == "" {
		t.Skip("left out: set IRONIC_RELEASE to bookworm, trixie or sid to test with a real Ironic")
	}
	if err := DebianIronicMissing(); err != nil {
		t.Skip("left out: ", err)
	}
	options.Dir = t.TempDir()
	started := time.Now()
	i, err := StartDebianIronic(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := i.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Logf("Ironic of %s was ready after %v", options.Release, time.Since(started).Round(time.Millisecond))
	return i
}

// enrol creates a node for a BMC like metal3-apiserver does, without a cipher suite.
func enrol(t *testing.T, o *Operator, b *BMC, user, password string) string {
	t.Helper()
	node, err := o.CreateNode(t.Context(), map[string]any{
		"name": "testbed~host", "driver": "ipmi",
		"driver_info": map[string]any{"ipmi_address": "127.0.0.1", "ipmi_port": b.Port, "ipmi_username": user, "ipmi_password": password},
	})
	if err != nil {
		t.Fatal(err)
	}
	return node.UUID
}

func TestIronicControlsBMC(t *testing.T) {
	ironic := startIronic(t, IronicOptions{User: "operator", Password: "letmein"})
	ctx, operator := t.Context(), ironic.Operator()
	bmc, err := ironic.StartBMC(ctx, "root", "calvin")
	if err != nil {
		t.Fatal(err)
	}
	id := enrol(t, operator, bmc, "root", "calvin")

	// step runs act, waits for the node, and logs how long Ironic took.
	step := func(what string, act func() error, wanted func(Node) bool) Node {
		t.Helper()
		started := time.Now()
		if err := act(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		node, err := operator.WaitNode(ctx, id, func(n Node) bool { return n.Reservation == "" && wanted(n) })
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		t.Logf("%s: %v", what, time.Since(started).Round(10*time.Millisecond))
		return node
	}
	power := func(state string) func(Node) bool { return func(n Node) bool { return n.PowerState == state } }

	step("verify", func() error { return operator.Provision(ctx, id, "manage") },
		func(n Node) bool { return n.ProvisionState == "manageable" && n.PowerState == "power off" })
	step("power on", func() error { return operator.Power(ctx, id, "power on") }, power("power on"))
	if on, err := bmc.Power(); err != nil || !on {
		t.Errorf("Ironic says that the machine is on, its BMC that on is %v (%v)", on, err)
	}
	step("the power button off", func() error { return bmc.SetPower(false) }, power("power off"))
	node := step("the BMC dies", bmc.Stop, func(n Node) bool { return n.Fault == "power failure" })
	if want := "IPMI call failed: power status."; !node.Maintenance || !strings.Contains(node.LastError, want) {
		t.Errorf("a node without BMC has maintenance %v and the error %q, want true and %q", node.Maintenance, node.LastError, want)
	}
	step("the BMC comes back", func() error { return bmc.Start(ctx) },
		func(n Node) bool { return n.Fault == "" && !n.Maintenance && n.PowerState == "power off" })
}

func TestVerifyFailsWithoutBMC(t *testing.T) {
	ironic := startIronic(t, IronicOptions{})
	ctx, operator := t.Context(), ironic.Operator()
	bmc, err := ironic.StartBMC(ctx, "root", "calvin")
	if err != nil {
		t.Fatal(err)
	}
	id := enrol(t, operator, bmc, "root", "wrong")
	for _, test := range []struct {
		name    string
		prepare func() error
	}{
		{"wrong password", func() error { return nil }},
		{"no BMC", bmc.Stop},
	} {
		if err := errors.Join(test.prepare(), operator.Provision(ctx, id, "manage")); err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		started := time.Now()
		node, err := operator.WaitNode(ctx, id, func(n Node) bool {
			return n.ProvisionState == "enroll" && n.LastError != "" && n.Reservation == ""
		})
		if err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		t.Logf("%s: %q after %v", test.name, node.LastError, time.Since(started).Round(10*time.Millisecond))
		if want := "Failed to get power state for node " + id + ". Error: IPMI call failed: power status."; node.LastError != want {
			t.Errorf("%s: error %q, want %q", test.name, node.LastError, want)
		}
	}
}

func TestIronicRestart(t *testing.T) {
	ironic := startIronic(t, IronicOptions{ExtraConf: "[conductor]\nautomated_clean = false\n"})
	ctx, operator := t.Context(), ironic.Operator()
	node, err := operator.CreateNode(ctx, map[string]any{"name": "kept", "driver": "fake-hardware"})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(
		operator.PatchNode(ctx, node.UUID, Patch{Op: "add", Path: "/extra/rack", Value: "r1"}),
		operator.SetMaintenance(ctx, node.UUID, true, "a new fan"),
	); err != nil {
		t.Fatal(err)
	}

	if err := ironic.Pause(); err != nil {
		t.Fatal(err)
	}
	hanging, cancel := context.WithTimeout(ctx, time.Second)
	_, err = operator.Node(hanging, "kept")
	cancel()
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a paused Ironic answers: %v", err)
	}
	if err := ironic.Resume(); err != nil {
		t.Fatal(err)
	}
	for _, end := range []func() error{ironic.Stop, ironic.Kill} {
		if _, err := operator.WaitNode(ctx, "kept", func(n Node) bool {
			return n.Extra["rack"] == "r1" && n.Maintenance && n.MaintenanceReason == "a new fan"
		}); err != nil {
			t.Fatal(err)
		}
		started := time.Now()
		if err := end(); err != nil {
			t.Fatal(err)
		}
		t.Logf("Ironic ended after %v", time.Since(started).Round(10*time.Millisecond))
		if _, err := operator.Node(ctx, "kept"); err == nil {
			t.Error("Ironic answers after it was stopped")
		}
		started = time.Now()
		if err := ironic.Start(ctx); err != nil {
			t.Fatal(err)
		}
		t.Logf("Ironic started again in %v", time.Since(started).Round(10*time.Millisecond))
	}
	if err := operator.DeleteNode(ctx, "kept"); err != nil {
		t.Fatal(err)
	}
	if _, err := operator.Node(ctx, "kept"); !IsNotFound(err) {
		t.Errorf("a deleted node: %v, want not found", err)
	}
}
