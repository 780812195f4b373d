// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// childEnv, if it is set, makes this test binary start everything, with logs in the folder that it
// names, and then wait to be killed.
const childEnv = "TESTBED_TEST_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		groups, err := startEverything(context.Background(), dir)
		if err == nil {
			err = json.NewEncoder(os.Stdout).Encode(groups)
		}
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		select {} // until it is killed
	}
	os.Exit(m.Run())
}

// startEverything starts all programs, and returns the IDs of their process groups.
func startEverything(ctx context.Context, dir string) (groups []int, err error) {
	k, err := StartKube(ctx, KubeOptions{Dir: dir})
	if err != nil {
		return nil, err
	}
	groups = []int{k.etcd.run.cmd.Process.Pid, k.apiserver.cmd.Process.Pid}
	if release := os.Getenv("IRONIC_RELEASE"); release != "" && DebianIronicMissing() == nil {
		ironic, err := StartDebianIronic(ctx, IronicOptions{Release: release, Dir: dir})
		if err != nil {
			return nil, err
		}
		bmc, err := ironic.StartBMC(ctx, "root", "calvin")
		if err != nil {
			return nil, err
		}
		groups = append(groups, ironic.run.cmd.Process.Pid, bmc.run.cmd.Process.Pid)
	}
	return groups, nil
}

func TestKilledTestLeavesNothing(t *testing.T) {
	skipShort(t)
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childEnv+"="+t.TempDir())
	child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	line, readErr := bufio.NewReader(out).ReadString('\n')
	var groups []int
	if err := json.Unmarshal([]byte(line), &groups); err != nil || len(members(t, groups)) < len(groups) {
		t.Errorf("the child said %q (%v), not the numbers of process groups that exist", line, readErr)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// The error of Wait only says that the child was killed.
	_ = child.Wait()
	err = poll(t.Context(), func(context.Context) error {
		if left := members(t, groups); len(left) > 0 {
			return fmt.Errorf("still running: %q", left)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// members returns the processes of process groups, except for zombies.
func members(t *testing.T, groups []int) []string {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // the process has just ended
		}
		// The format is PID (NAME) STATE PARENT GROUP ..., where NAME can contain blanks and
		// parentheses.
		fields := string(stat)
		var state string
		var parent, group int
		if _, err := fmt.Sscan(fields[strings.LastIndex(fields, ")")+1:], &state, &parent, &group); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for _, wanted := range groups {
			if group == wanted && state != "Z" {
				found = append(found, fields[:strings.LastIndex(fields, ")")+1])
			}
		}
	}
	return found
}
