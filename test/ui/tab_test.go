// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	plugin "github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/app"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// startPage runs kubectl bmh ui in a namespace until the test ends, and returns its link.
func startPage(t *testing.T, ctx context.Context, ns string, args ...string) (link string) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	out, printed := io.Pipe()
	var errOut bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		args = append([]string{"--kubeconfig=" + s.Kube.Admin.Kubeconfig, "--namespace=" + ns, "ui"}, args...)
		ended <- plugin.Run(ctx, args, genericiooptions.IOStreams{In: strings.NewReader(""), Out: printed, ErrOut: &errOut})
		_ = printed.Close()
	}()
	t.Cleanup(func() {
		cancel()
		if code := <-ended; code != 0 {
			t.Errorf("kubectl bmh ui: exit code %d: %s", code, errOut.String())
		}
	})
	line := make([]byte, 1000)
	n, err := out.Read(line)
	if err != nil {
		t.Fatalf("kubectl bmh ui: %v, exit code %d: %s", err, <-ended, errOut.String())
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return strings.TrimSpace(string(line[:n]))
}

// tab is a tab of the browser.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu sync.Mutex
	// complaints are what the browser has logged as errors, for example what the page's policy forbids.
	complaints []string
}

// openTab opens a tab, which closes with the test. If the test fails, it leaves a picture.
func openTab(t *testing.T, options ...chromedp.ContextOption) *tab {
	t.Helper()
	tabCtx, closeTab := chromedp.NewContext(s.browser, options...)
	b := &tab{t: t, ctx: tabCtx}
	if err := chromedp.Listen(tabCtx, b.listen); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() && tabCtx.Err() == nil {
			picture, _ := chromedp.Run(tabCtx, chromedp.CaptureScreenshot())
			text, _ := chromedp.Run(tabCtx, chromedp.Evaluate[string](`document.body.innerText`))
			path := filepath.Join(os.TempDir(), "ui-"+strings.ReplaceAll(t.Name(), "/", "-")+".png")
			_ = os.WriteFile(path, picture, 0o600)
			t.Logf("the page shows (%s):\n%s", path, text)
		}
		closeTab()
	})
	// Chromium would take the height of a window's tabs and address bar away from the page.
	b.do(chromedp.EmulateViewport(windowWidth, windowHeight))
	return b
}

func (b *tab) listen(event any) {
	var text string
	switch e := event.(type) {
	case *log.EventEntryAdded:
		if e.Entry.Level != log.EntryLevelError {
			return
		}
		text = e.Entry.Text + " " + e.Entry.URL
	case *runtime.EventExceptionThrown:
		text = e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			text += " " + e.ExceptionDetails.Exception.Description
		}
	default:
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.complaints = append(b.complaints, text)
}

// noComplaints asserts that no script has failed, and that nothing was refused by the page's policy.
func (b *tab) noComplaints() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.complaints {
		// Requests that the cluster refuses are logged as errors, too, and are what some tests are about.
		if !strings.Contains(c, "Failed to load resource") {
			b.t.Errorf("the browser complains: %s", c)
		}
	}
}

func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, testbed.Patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// open opens an address. Only the fragment may change.
func (b *tab) open(address string) { b.t.Helper(); b.do(chromedp.Navigate(address)) }

// eval evaluates JavaScript.
func eval[T any](b *tab, script string, options ...chromedp.EvaluateOption) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, testbed.Patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](script, options...))
	if err != nil {
		b.t.Fatal(err)
	}
	return value
}

// text returns what a user reads in an element, or what its absence is called.
func (b *tab) text(selector string) string {
	b.t.Helper()
	return eval[string](b, fmt.Sprintf(`document.querySelector(%s)?.innerText ?? "(no element)"`, quote(selector)))
}

func quote(text string) string {
	encoded, _ := json.Marshal(text)
	return string(encoded)
}

// wait waits until a user can read a text in an element.
func (b *tab) wait(selector, text string) {
	b.t.Helper()
	b.waitFor(selector+" to show "+text, func() string {
		if got := b.text(selector); !strings.Contains(got, text) {
			return quote(got)
		}
		return ""
	})
}

func (b *tab) waitFor(what string, check func() string) {
	b.t.Helper()
	testbed.EventuallyEvery(b.t, b.ctx, 50*time.Millisecond, func() string {
		if complaint := check(); complaint != "" {
			return fmt.Sprintf("waiting for %s: %s", what, complaint)
		}
		return ""
	})
}

// click clicks with the mouse on the element that a selector matches.
func (b *tab) click(selector string) { b.t.Helper(); b.do(chromedp.Click(chromedp.CSS(selector))) }

// press clicks on the button or the link with a text.
func (b *tab) press(within, text string) {
	b.t.Helper()
	b.do(chromedp.Click(chromedp.Search(fmt.Sprintf(`//%s//*[self::button or self::a][normalize-space()=%s]`, within, quote(text)))))
}

// pressSlowly clicks on a button as people do, who need a tenth of a second for it: the cluster answers the
// page between the press and the release. Whatever the page then shows, it has to be a click.
func (b *tab) pressSlowly(within, text string) {
	b.t.Helper()
	type point struct{ X, Y float64 }
	at := eval[point](b, fmt.Sprintf(`(() => {
		const button = [...document.querySelectorAll(%s)].find((e) => e.textContent === %s);
		button.scrollIntoView({ block: "center" });
		const box = button.getBoundingClientRect();
		return { X: box.x + box.width / 2, Y: box.y + box.height / 2 };
	})()`, quote(within+" button"), quote(text)))
	mouse := func(event input.DispatchMouseEventType) {
		b.do(chromedp.MouseEvent(event, at.X, at.Y, chromedp.ButtonLeft, chromedp.ClickCount(1)))
	}
	mouse(chromedp.MousePressed)
	eval[bool](b, `import("/assets/api.js").then(async (api) => {
		const path = api.hostsPath(document.querySelector("[name=namespace]").value) + "?fieldValidation=Strict&dryRun=All";
		const host = { apiVersion: "metal3.io/v1alpha1", kind: "BareMetalHost", metadata: { name: "another" }, spec: { online: true } };
		for (let i = 0; i < 3; i++) await api.send("POST", path, host);
		return true;
	})`, chromedp.EvalAwaitPromise)
	mouse(chromedp.MouseReleased)
}

// fill types into the field with a label.
func (b *tab) fill(label, value string) {
	b.t.Helper()
	b.do(chromedp.SendKeys(chromedp.Search(fmt.Sprintf(`//input[@id=//label[normalize-space()=%s]/@for]`, quote(label))), value))
}

// refill replaces what is in the field with a label.
func (b *tab) refill(label, value string) {
	b.t.Helper()
	eval[bool](b, fmt.Sprintf(`[...document.querySelectorAll("label")].find((l) => l.textContent === %s).control.value = "", true`, quote(label)))
	b.fill(label, value)
}

// keepPicture writes a picture of the window for the docs, if it was asked for.
func (b *tab) keepPicture(name string) {
	b.t.Helper()
	if !*update {
		return
	}
	picture, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.t.Fatal(err)
	}
	dir := filepath.Join("..", "..", "docs", "images")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), picture, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// setScheme has the browser prefer light or dark.
func (b *tab) setScheme(scheme string) {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	}); err != nil {
		b.t.Fatal(err)
	}
}
