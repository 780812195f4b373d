// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// update writes the pictures of docs/ui.md. They are made by the tests, so that they show what there is.
var update = flag.Bool("update", false, "write docs/images")

// suite is what all tests share. A test keeps to a namespace of its own.
type suite struct {
	testbed.Suite
	// ironic is the simulator. It is nil if Ironic is a real one, which then has machines.
	ironic   *testbed.SimulatedIronic
	machines *bmcsim.Sim
	// browser is the context of the browser. Tests open tabs in it.
	browser context.Context
}

var s suite

func TestMain(m *testing.M) {
	flag.Parse()
	s.ControllersLater = true // nothing here needs them
	if testing.Short() {
		s.Main(m, "ui", nil) // starts nothing
		return
	}
	// Nothing is started where there can be no browser.
	chromium, err := exec.Command("./chromium.sh").Output()
	if err != nil {
		reason := err.Error()
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			reason = strings.TrimSpace(string(exit.Stderr))
		}
		fmt.Fprintln(os.Stderr, "ui:", reason)
		os.Exit(1)
	}
	s.Main(m, "ui", func(ctx context.Context) error { return s.start(ctx, strings.TrimSpace(string(chromium))) })
}

func (s *suite) start(ctx context.Context, chromium string) error {
	if err := s.startBrowser(chromium); err != nil {
		return err
	}
	options, err := s.startIronic(ctx)
	if err != nil {
		return err
	}
	options.Args = append([]string{"--v=2"}, options.Args...)
	return s.StartServer(ctx, options)
}

// The size of the page in pixels.
const windowWidth, windowHeight = 1100, 620

func (s *suite) startBrowser(chromium string) error {
	dir, err := s.Dir("chromium")
	if err != nil {
		return err
	}
	// Only chromium-headless-shell is headless by itself: Chromium would open a window. In containers /dev/shm is small.
	allocator, stop := chromedp.NewExecAllocator(context.Background(),
		chromedp.ExecPath(chromium), chromedp.UserDataDir(filepath.Join(dir, "profile")), chromedp.WindowSize(windowWidth, windowHeight),
		chromedp.Flag("headless", "new"), chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck, chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.Flag("host-resolver-rules", "MAP "+otherName+" 127.0.0.1"),
		chromedp.Flag("hide-scrollbars", true), chromedp.Flag("lang", "en-GB"), chromedp.Flag("force-color-profile", "srgb"))
	browser, closeBrowser := chromedp.NewContext(allocator)
	s.OnStop(func() error { closeBrowser(); stop(); return nil })
	s.browser = browser
	return chromedp.Do(browser)
}
