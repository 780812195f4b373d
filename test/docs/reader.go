// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// step is a command, and the lines that the page shows of its output.
type step struct {
	command string
	output  []string
}

// ctrlC is the last line of a command that goes on until somebody presses Ctrl-C.
const ctrlC = "^C"

// stepsOf returns the steps of a page: an indented line that begins with $ is a command, which goes on in those with >, and other
// indented lines are its output.
func stepsOf(page string) (steps []step) {
	for line := range strings.Lines(page) {
		text, indented := strings.CutPrefix(strings.TrimRight(line, "\n"), "    ")
		if !indented {
			continue
		}
		last := len(steps) - 1
		if command, is := strings.CutPrefix(text, "$ "); is {
			steps = append(steps, step{command: command})
		} else if more, is := strings.CutPrefix(text, "> "); is {
			steps[last].command += "\n" + more
		} else {
			steps[last].output = append(steps[last].output, text)
		}
	}
	return steps
}

// BuildPlugin builds kubectl bmh, and returns its folder.
func BuildPlugin(t *testing.T) (bin string) {
	t.Helper()
	bin = t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return bin
}

// Reader is somebody who follows a page, in a folder of their own.
type Reader struct {
	T   *testing.T
	Ctx context.Context
	// Path are the folders of programs that come before those in bin/, as in PATH.
	Path, Dir  string
	Kubeconfig string
	// Variables are commands that set variables of the shell.
	Variables string
	// Before is called before each command, unless it is nil.
	Before func(command string)
	// Skip is how commands begin that are left out; empty if there are none.
	Skip string
}

// Follow runs the commands of docs/PAGE in their order, and compares what they print with what the page shows. A command fails if
// the page shows a line that begins with Error, and only then.
func (r Reader) Follow(page string) {
	r.T.Helper()
	content, err := read(page)
	if err != nil {
		r.T.Fatal(err)
	}
	for _, step := range stepsOf(content) {
		if r.Skip == "" || !strings.HasPrefix(step.command, r.Skip) {
			r.take(step)
		}
	}
}

func (r Reader) take(step step) {
	r.T.Helper()
	if r.Before != nil {
		r.Before(step.command)
	}
	cmd, shown := r.bash(step.command), step.output
	var printed string
	var err error
	if n := len(shown) - 1; n >= 0 && shown[n] == ctrlC {
		shown = shown[:n]
		printed, err = interrupt(cmd, shown)
	} else {
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		err = cmd.Run()
		printed = stdout.String() + stderr.String() // a terminal shows both
	}
	fails := slices.ContainsFunc(shown, func(line string) bool { return strings.HasPrefix(line, "Error") })
	if (err != nil) != fails {
		r.T.Fatalf("%s: %v\n%s", step.command, err, printed)
	}
	r.T.Logf("%s\n%s", step.command, printed)
	for _, line := range lacking(printed, shown) {
		r.T.Errorf("%s prints no line\n%s\nbut\n%s", step.command, line, printed)
	}
}

func (r Reader) bash(command string) *exec.Cmd {
	r.T.Helper()
	root, err := testbed.RepoRoot()
	if err != nil {
		r.T.Fatal(err)
	}
	cmd := exec.CommandContext(r.Ctx, "bash", "-euc", r.Variables+command)
	cmd.Dir = r.Dir
	cmd.Env = append(os.Environ(), "PATH="+r.Path+":"+filepath.Join(root, "bin")+":"+os.Getenv("PATH"), "KUBECONFIG="+r.Kubeconfig,
		"KUBECACHEDIR="+filepath.Join(r.Dir, "cache"), "KUBERC=off", "DISPLAY=", "WAYLAND_DISPLAY=")
	return cmd
}

// interrupt runs a command, and presses Ctrl-C when it has printed some lines.
func interrupt(cmd *exec.Cmd, lines []string) (printed string, err error) {
	// As a terminal does, for a signal to reach bash and what that runs.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	signal := func(s syscall.Signal) error { return syscall.Kill(-cmd.Process.Pid, s) }
	cmd.Cancel = func() error { return signal(syscall.SIGKILL) }
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	for output := bufio.NewReader(stdout); len(lacking(printed, lines)) > 0; {
		line, err := output.ReadString('\n')
		printed += line
		if err != nil {
			break // it has ended, and Wait says how
		}
	}
	_ = signal(syscall.SIGINT)
	_, _ = io.Copy(io.Discard, stdout)
	return printed, cmd.Wait()
}

var blanks = regexp.MustCompile(`\s+`)

// lacking returns the lines that an output does not have. In a line, … stands for anything, and blanks for any number of them.
func lacking(output string, lines []string) (missing []string) {
	for _, line := range lines {
		var parts []string
		for part := range strings.SplitSeq(blanks.ReplaceAllString(strings.TrimSpace(line), " "), "…") {
			parts = append(parts, regexp.QuoteMeta(part))
		}
		pattern := regexp.MustCompile("^" + strings.ReplaceAll(strings.Join(parts, ".*"), " ", `\s*`) + "$")
		if !slices.ContainsFunc(strings.Split(output, "\n"), func(got string) bool { return pattern.MatchString(strings.TrimSpace(got)) }) {
			missing = append(missing, line)
		}
	}
	return missing
}
