// Package ui uses the page of kubectl bmh ui in a real browser: Debian's Chromium, without a window. The
// page goes through a real kube-apiserver and our server to a simulated Ironic.
package ui

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// update writes the pictures of docs/ui.md. They are made by the tests, so that they show what there is.
var update = flag.Bool("update", false, "write docs/images")

// suite is what all tests share. A test keeps to a namespace of its own.
type suite struct {
	testbed.Suite
	ironic *testbed.SimulatedIronic
	// browser is the context of the browser. Tests open tabs in it.
	browser context.Context
}

var s suite

func TestMain(m *testing.M) {
	flag.Parse()
	// Nothing is started where there can be no browser.
	chromium, err := exec.Command("./chromium.sh").Output()
	if err != nil && !testing.Short() {
		reason := err.Error()
		if exit := (*exec.ExitError)(nil); asExit(err, &exit) {
			reason = strings.TrimSpace(string(exit.Stderr))
		}
		if required := os.Getenv("REQUIRE_CHROMIUM"); required != "" && required != "0" {
			fmt.Fprintf(os.Stderr, "ui: %s, and REQUIRE_CHROMIUM is set\n", reason)
			os.Exit(1)
		}
		fmt.Printf("ui: skipped: %s\n", reason)
		return
	}
	s.ControllersLater = true // nothing here needs them
	s.Main(m, "ui", func(ctx context.Context) error { return s.start(ctx, strings.TrimSpace(string(chromium))) })
}

func asExit(err error, exit **exec.ExitError) (ok bool) {
	*exit, ok = err.(*exec.ExitError)
	return ok
}

func (s *suite) start(ctx context.Context, chromium string) (err error) {
	if err := s.startBrowser(chromium); err != nil {
		return err
	}
	if s.ironic, err = s.StartSimulatedIronic(ironicsim.Options{AutoInspect: true, AutoDeploy: true}); err != nil {
		return err
	}
	return s.StartServer(ctx, testbed.ServerOptions{
		IronicEndpoint: s.ironic.URL(), Args: append([]string{"--v=2"}, testbed.UnusedRamdiskArgs...),
	})
}

func (s *suite) startBrowser(chromium string) error {
	dir, err := s.Dir("chromium")
	if err != nil {
		return err
	}
	allocator, stop := chromedp.NewExecAllocator(context.Background(),
		chromedp.ExecPath(chromium), chromedp.UserDataDir(filepath.Join(dir, "profile")), chromedp.WindowSize(1100, 620),
		chromedp.Flag("lang", "en-GB"), chromedp.Flag("force-color-profile", "srgb"))
	browser, closeBrowser := chromedp.NewContext(allocator)
	s.OnStop(func() error { closeBrowser(); stop(); return nil })
	s.browser = browser
	return chromedp.Do(browser)
}
