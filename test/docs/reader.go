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

// ctrlC is the last line of a command that goes on until somebody presses Ctrl-C.
const ctrlC = "^C"

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
	// Replaces has texts of commands, each with what the reader writes in its place.
	Replaces []string
	// Skip is how commands begin that are left out; empty if there are none.
	Skip string
}

// Follow runs the commands of docs/PAGE in their order, and compares what they print with what the page shows. A command fails if
// the page shows a line that begins with Error, and only then.
func (r Reader) Follow(page string) {
	r.T.Helper()
	commands, err := Commands(page, 1)
	if err != nil {
		r.T.Fatal(err)
	}
	for _, command := range commands {
		if r.Skip == "" || !strings.HasPrefix(command.Text, r.Skip) {
			r.take(command)
		}
	}
}

// Run runs the command of docs/PAGE that begins so. Of an object in one line, pages show a part that begins with a quotation mark.
func (r Reader) Run(page, beginning string) {
	r.T.Helper()
	command, err := One(page, beginning)
	if err != nil {
		r.T.Fatal(err)
	}
	for i, line := range command.Output {
		if strings.HasPrefix(line, `"`) {
			command.Output[i] = "…" + line + "…"
		}
	}
	r.take(command)
}

func (r Reader) take(step Command) {
	r.T.Helper()
	if r.Before != nil {
		r.Before(step.Text)
	}
	step.Text = strings.NewReplacer(r.Replaces...).Replace(step.Text)
	cmd, shown := r.bash(step.Text), step.Output
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
		r.T.Fatalf("%s: %v\n%s", step.Text, err, printed)
	}
	r.T.Logf("%s\n%s", step.Text, printed)
	for _, line := range lacking(printed, shown) {
		r.T.Errorf("%s prints no line\n%s\nbut\n%s", step.Text, line, printed)
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
