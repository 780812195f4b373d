// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/chromedp/chromedp"
)

// accessible asserts that all that can be used has a name, and that texts can be read, in both schemes.
func (b *tab) accessible() {
	b.t.Helper()
	const nameless = `[...document.querySelectorAll("button, a, input, select, table, dialog, [tabindex='0']")].filter((e) => e.checkVisibility()
		&& !(e.getAttribute("aria-label") || e.labels?.[0]?.textContent || e.querySelector?.("caption")?.textContent || e.textContent.trim())).map((e) => e.outerHTML.slice(0, 100))`
	if found := eval[[]string](b, nameless); len(found) != 0 {
		b.t.Errorf("elements without a name: %q", found)
	}
	for _, scheme := range []string{"light", "dark"} {
		b.setScheme(scheme)
		if found := eval[[]string](b, lowContrast); len(found) != 0 {
			b.t.Errorf("%s: texts that are hard to read: %q", scheme, found[:min(len(found), 5)])
		}
	}
	b.setScheme("light")
}

// conforms asserts that axe finds nothing against WCAG 2.2 AA in a page of a few hosts, in both schemes.
func (b *tab) conforms() {
	b.t.Helper()
	found, err := filepath.Glob(filepath.Join("..", "..", "bin", "axe-*.min.js"))
	if err != nil {
		b.t.Fatal(err)
	}
	if len(found) == 0 {
		b.t.Log("without axe, which hack/tools/axe.sh gets with npm")
		return
	}
	script, err := os.ReadFile(found[len(found)-1])
	if err != nil {
		b.t.Fatal(err)
	}
	eval[bool](b, string(script)+"; true")
	const run = `axe.run(document, { runOnly: { type: "tag", values: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] } })
		.then((r) => r.violations.map((v) => v.id + ": " + v.nodes.map((n) => n.target + " " + n.failureSummary).slice(0, 3).join("; ")))`
	for _, scheme := range []string{"light", "dark"} {
		b.setScheme(scheme)
		if violations := eval[[]string](b, run, chromedp.EvalAwaitPromise); len(violations) != 0 {
			b.t.Errorf("%s: %s", scheme, strings.Join(violations, "\n"))
		}
	}
	b.setScheme("light")
}

// lowContrast returns texts with less contrast than WCAG's 4.5:1.
const lowContrast = `(() => {
	const parse = (c) => c.match(/[\d.]+/g).map(Number);
	const channel = (v) => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
	const luminance = ([r, g, b]) => .2126 * channel(r) + .7152 * channel(g) + .0722 * channel(b);
	const back = (e) => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0) return c; } return [255, 255, 255]; };
	const found = new Map();
	for (const e of [...document.querySelectorAll("body *")].slice(0, 3000)) {
		if (!e.checkVisibility() || ![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) continue;
		const [x, y] = [luminance(parse(getComputedStyle(e).color)), luminance(back(e))].sort((a, b) => b - a);
		const ratio = (x + .05) / (y + .05);
		if (ratio < 4.5) found.set(e.tagName + "." + e.className, e.textContent.slice(0, 30) + " " + ratio.toFixed(1));
	}
	return [...found].map((f) => f.join(": "));
})()`
