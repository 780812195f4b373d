// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// usersPages are the tutorials for a cluster on which the server is installed, with the BMCs of the machines.
var usersPages = map[string][]string{
	"first-host": {"192.0.2.31"}, "rack": {"192.0.2.70", "192.0.2.71", "192.0.2.72"}, "tenants": {"192.0.2.90"},
}

// TestTutorials runs the commands of docs/tutorials in their order, and compares what they print with what the pages show.
func TestTutorials(t *testing.T) {
	t.Parallel()
	bin := buildPlugin(t)
	for name, bmcs := range usersPages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, _ := s.Begin(t)
			for _, address := range bmcs {
				s.ironic.AddBMC("ipmi://"+address, "admin", "s3cret")
			}
			reader := tutorial{t: t, ctx: ctx, path: bin, dir: t.TempDir(), kubeconfig: s.Kube.Admin.Kubeconfig}
			reader.follow(name)
		})
	}
	pages, err := filepath.Glob("../../docs/tutorials/*.md")
	if err != nil || len(pages) != len(usersPages)+len(operatorsPages)+3 { // TestMoveTutorial and TestClusterAPITutorial have one each
		t.Errorf("there are %q: each page but the README has to be in a test (%v)", pages, err)
	}
}

// buildPlugin builds kubectl bmh, and returns its folder.
func buildPlugin(t *testing.T) (bin string) {
	t.Helper()
	bin = t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "../../cmd/kubectl-bmh")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return bin
}

// tutorialStep is a command, and the lines that the page shows of its output.
type tutorialStep struct {
	command string
	output  []string
}

// stepsOf returns the steps of a page: an indented line that begins with $ is a command, which goes on in those with >, and other
// indented lines are its output.
func stepsOf(page string) (steps []tutorialStep) {
	for line := range strings.Lines(page) {
		text, indented := strings.CutPrefix(strings.TrimRight(line, "\n"), "    ")
		if !indented {
			continue
		}
		last := len(steps) - 1
		if command, is := strings.CutPrefix(text, "$ "); is {
			steps = append(steps, tutorialStep{command: command})
		} else if more, is := strings.CutPrefix(text, "> "); is {
			steps[last].command += "\n" + more
		} else {
			steps[last].output = append(steps[last].output, text)
		}
	}
	return steps
}

// tutorial is somebody who follows a page, in a folder of their own.
type tutorial struct {
	t   *testing.T
	ctx context.Context
	// path are the folders of programs that come before those in bin/, as in PATH.
	path, dir  string
	kubeconfig string
	// before is called before each command, unless it is nil.
	before func(command string)
}

// follow runs the commands of a page.
func (u tutorial) follow(name string) {
	u.t.Helper()
	page, err := os.ReadFile("../../docs/tutorials/" + name + ".md")
	if err != nil {
		u.t.Fatal(err)
	}
	for _, step := range stepsOf(string(page)) {
		u.take(step)
	}
}

func (u tutorial) take(step tutorialStep) {
	u.t.Helper()
	if u.before != nil {
		u.before(step.command)
	}
	cmd := exec.CommandContext(u.ctx, "bash", "-euc", step.command)
	programs, err := filepath.Abs("../../bin")
	if err != nil {
		u.t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = u.dir, &stdout, &stderr
	cmd.Env = append(os.Environ(), "PATH="+u.path+":"+programs+":"+os.Getenv("PATH"), "KUBECONFIG="+u.kubeconfig,
		"KUBECACHEDIR="+filepath.Join(u.dir, "cache"), "KUBERC=off")
	if err := cmd.Run(); err != nil {
		u.t.Fatalf("%s: %v\n%s%s", step.command, err, &stdout, &stderr)
	}
	printed := stdout.String() + stderr.String() // a terminal shows both
	u.t.Logf("%s\n%s", step.command, printed)
	for _, line := range step.output {
		if !shows(printed, line) {
			u.t.Errorf("%s prints no line\n%s\nbut\n%s", step.command, line, printed)
		}
	}
}

var blanks = regexp.MustCompile(`\s+`)

// shows reports whether an output has a line. In that, … stands for anything, and blanks for any number of them.
func shows(output, line string) bool {
	var parts []string
	for part := range strings.SplitSeq(blanks.ReplaceAllString(strings.TrimSpace(line), " "), "…") {
		parts = append(parts, regexp.QuoteMeta(part))
	}
	pattern := regexp.MustCompile("^" + strings.ReplaceAll(strings.Join(parts, ".*"), " ", `\s*`) + "$")
	for got := range strings.Lines(output) {
		if pattern.MatchString(strings.TrimSpace(got)) {
			return true
		}
	}
	return false
}
