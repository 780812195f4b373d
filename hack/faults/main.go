// SPDX-License-Identifier: Apache-2.0

// Command faults plants faults in the code, one at a time, and reports which of them the unit tests
// notice; see hack/faults.sh.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
)

const (
	dataFile = "hack/faults/faults.txt"
	results  = ".cache/faults"
	// testTimeout is that of the tests of one package. It ends only those that a fault has made endless: on a slow machine, others
	// would pass for such.
	testTimeout = "30m"
)

// What becomes of a fault. The rest of a result says where.
const (
	caught = "caught"
	missed = "missed"
	// missedNearby means that only the quick tests of the package itself have run.
	missedNearby = "missed-nearby"
	broken       = "broken" // it cannot be planted, or does not compile
	notRun       = "not-run"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, ids []string) error {
	text, err := os.ReadFile(dataFile)
	if err != nil {
		return err
	}
	all, err := parseFaults(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", dataFile, err)
	}
	if len(ids) == 3 && ids[0] == "--build" {
		return build(ctx, all, ids[1], ids[2])
	}
	nearby := len(ids) > 0 && ids[0] == "--nearby"
	if nearby {
		ids = ids[1:]
	}
	for _, id := range ids {
		if id != "--check" && !slices.ContainsFunc(all, func(f *fault) bool { return f.id == id }) {
			return fmt.Errorf("there is no fault %s", id)
		}
	}
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	pkgs, err := listPackages()
	if err != nil {
		return err
	}
	if len(ids) == 1 && ids[0] == "--check" {
		return check(all, root)
	}
	if err := os.MkdirAll(results, 0o755); err != nil {
		return err
	}
	for _, f := range all {
		known, isKnown := readResult(f)
		if len(ids) > 0 && !slices.Contains(ids, f.id) || len(ids) == 0 && isKnown && (nearby || known != missedNearby) {
			continue
		}
		result := try(ctx, f, root, pkgs, nearby)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		fmt.Printf("%-28s %s\n", f.id, result)
		if err := os.WriteFile(resultFile(f), []byte(result+"\n"), 0o644); err != nil {
			return err
		}
	}
	return summarize(all)
}

// check only reports whether all faults can be planted.
func check(all []*fault, root string) error {
	var errs []error
	for _, f := range all {
		if _, _, err := f.plant(root); err != nil {
			errs = append(errs, fmt.Errorf("%s in %s: %w", f.id, f.pkg, err))
		}
	}
	return errors.Join(errs...)
}

// build builds metal3-apiserver with a fault into a file, for example for make robustness.
func build(ctx context.Context, all []*fault, id, file string) error {
	i := slices.IndexFunc(all, func(f *fault) bool { return f.id == id })
	if i < 0 {
		return fmt.Errorf("there is no fault %s", id)
	}
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	path, content, err := all[i].plant(root)
	if err != nil {
		return fmt.Errorf("%s: %w", id, err)
	}
	dir, err := os.MkdirTemp("", "faults")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	overlay, err := writeOverlay(dir, path, content)
	if err != nil {
		return err
	}
	command := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-overlay", overlay, "-o", file, "./cmd/metal3-apiserver")
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	return command.Run()
}

func resultFile(f *fault) string { return filepath.Join(results, f.id) }

func readResult(f *fault) (result string, known bool) {
	text, err := os.ReadFile(resultFile(f))
	return strings.TrimSpace(string(text)), err == nil
}

// try plants a fault and runs the tests that may notice it.
func try(ctx context.Context, f *fault, root string, pkgs *packages, nearby bool) (result string) {
	path, content, err := f.plant(root)
	if err != nil {
		return broken + " " + err.Error()
	}
	dir, err := os.MkdirTemp("", "faults")
	if err != nil {
		return broken + " " + err.Error()
	}
	defer func() { _ = os.RemoveAll(dir) }()
	overlay, err := writeOverlay(dir, path, content)
	if err != nil {
		return broken + " " + err.Error()
	}
	for n, level := range pkgs.thatMayNotice(f.pkg) {
		// The quick tests go first, because most faults are noticed by one of them.
		result := runTests(ctx, f, pkgs.module, overlay, level, "-skip", slowTests)
		if result == missed && nearby {
			return missedNearby
		}
		if result == missed && n == 0 {
			result = runTests(ctx, f, pkgs.module, overlay, level, "-run", slowTests)
		}
		if result != missed {
			return result
		}
	}
	return missed
}

// slowTests are those that search for faults by themselves, for tens of seconds.
const slowTests = "^(TestPromises|TestNeighbours|TestKilledAnywhere)$"

// runTests runs tests of packages with a fault.
func runTests(ctx context.Context, f *fault, module, overlay string, pkgs []string, choice ...string) (result string) {
	args := append([]string{"test", "-p", "1", "-vet", "off", "-failfast", "-timeout", testTimeout, "-overlay", overlay}, choice...)
	if f.needsRace() {
		args = append(args, "-race")
	}
	output, err := exec.CommandContext(ctx, "go", append(args, pkgs...)...).CombinedOutput()
	var exit *exec.ExitError
	hasRun := errors.As(err, &exit) && !strings.Contains(string(output), "[build failed]") && !strings.Contains(string(output), "[setup failed]")
	switch {
	case err == nil:
		return missed
	case hasRun:
		return caught + " " + whoNoticed(string(output), module)
	}
	return broken + " " + err.Error() + ": " + strings.ReplaceAll(strings.TrimSpace(string(output)), "\n", "; ")
}

func writeOverlay(dir, path string, content []byte) (overlay string, err error) {
	planted := filepath.Join(dir, filepath.Base(path))
	if err := os.WriteFile(planted, content, 0o600); err != nil {
		return "", err
	}
	text, err := json.Marshal(map[string]map[string]string{"Replace": {path: planted}})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o600)
}

var (
	failedTest    = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)
	timedOutTest  = regexp.MustCompile(`(?m)^\s*(Test\S+) \(.*\)$`)
	panickedTest  = regexp.MustCompile(`(?m)^.*\.(Test[A-Za-z0-9_]+)(?:\.func[0-9.]+)?\(`)
	failedPackage = regexp.MustCompile(`(?m)^FAIL[ \t]+(\S+)`)
)

// whoNoticed returns the package and the test that have failed, and how if it was not an
// assertion.
func whoNoticed(output, module string) string {
	pkg, test, how := "", "", ""
	if found := failedPackage.FindStringSubmatch(output); found != nil {
		pkg = strings.TrimPrefix(found[1], module+"/")
	}
	pattern := failedTest
	switch {
	case strings.Contains(output, "panic: test timed out"):
		pattern, how = timedOutTest, " (timeout)"
	case strings.Contains(output, "WARNING: DATA RACE"):
		how = " (race)"
	case !failedTest.MatchString(output):
		pattern, how = panickedTest, " (panic)"
	}
	if found := pattern.FindStringSubmatch(output); found != nil {
		test = found[1]
	}
	return pkg + " " + test + how
}

// summarize prints all results that are known, and how many there are of each kind.
func summarize(all []*fault) error {
	fmt.Println()
	counts := map[string]int{}
	byTag := map[string]int{}
	for _, f := range all {
		result, known := readResult(f)
		if !known {
			result = notRun
		}
		outcome, _, _ := strings.Cut(result, " ")
		counts[outcome]++
		for _, tag := range f.tags {
			byTag[tag]++
		}
		if known && outcome != caught {
			fmt.Printf("%s: %s\n    %s\n", f.id, result, f.harm)
		}
	}
	fmt.Printf("%d faults (%d of safety, %d of concurrency, %d of secrets): %d caught, %d missed (%d of them only tried nearby), %d broken, %d not run\n",
		len(all), byTag["safety"], byTag["concurrency"], byTag["secret"], counts[caught], counts[missed]+counts[missedNearby], counts[missedNearby], counts[broken], counts[notRun])
	if counts[caught] != len(all) {
		return errors.New("not all faults are caught")
	}
	return nil
}
