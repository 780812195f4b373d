// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// content returns a page.
func content(t *testing.T, page string) string {
	t.Helper()
	t.Chdir("../..")
	text, err := pages[page]()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestPages: the pages have what users look up. A row is one that the page has to have as it is.
func TestPages(t *testing.T) {
	for page, rows := range map[string][]string{
		"api":   {"## BareMetalHost\n", "| `bootMACAddress` | string | "},
		"words": {"| `BMCInUse` | ", "| `baremetalhost.metal3.io/detached` | "},
		"metrics": {
			"| `metal3_hosts` | gauge | `ironic`, `state`, `operational_status` | ALPHA | Hosts by IronicInstance, ",
			"| `metal3_host_steps_total` | counter | `ironic`, `action`, `result` | ALPHA | ",
			"| `metal3_host_time_to_available_seconds` | histogram | none | ALPHA | ",
			"| `metal3_etcd_full` | gauge | none | ALPHA | 1 while etcd refuses writes ",
		},
		"events": {
			"## BareMetalHost\n",
			"| `Registered` | Normal | Registered in Ironic as node … |\n",
			"| `BMCAccessValidated` | Normal | Ironic has access to the BMC at … with the credentials of Secret \"…\" |\n",
			"| `PreparationStarted` | Normal | Preparation started: … |\n", // whose reason is put together
			"| `ServicingComplete` | Normal | ",
			"| `PowerOff` | Normal | The host is powered …",            // of a variable
			"| `PowerManagementError` | Warning | ",                    // of a map
			"| `BootDeviceRequested` | Normal | … has requested … |\n", // of the keys of one
			"## BMCEventSubscription\n", "| `SubscriptionLost` | Warning | The BMC has lost subscription …, which is created again |\n",
			"## DataImage\n", "| `DataImageDetached` | Normal | Image … is detached |\n",
			"## HostClaim\n", "| `BareMetalHostAssociated` | Normal | Host …/… is the claim's |\n", "| `MissingBareMetalHost` | Warning | ",
			"## HostDeployPolicy\n", "| `InvalidPolicy` | Warning | The policy lets nobody claim hosts: … |\n",
			"## HostFirmwareComponents\n", "## HostFirmwareSettings\n", "| `ValidationFailed` | ",
		},
		"errors": {
			"| The BMC refuses the credentials. | Correct the user name or the password in its Secret. ",
			"| The disk has no room for the image. | Choose a larger disk with spec.rootDeviceHints: kubectl get hardwaredata NAME -o yaml ",
			"| Ironic is too busy to begin. | ",
		},
	} {
		t.Run(page, func(t *testing.T) {
			text := content(t, page)
			for _, row := range rows {
				if !strings.Contains(text, "\n"+row) {
					t.Errorf("there is no %q", row)
				}
			}
			columns := 0
			for line := range strings.Lines(text) {
				if !strings.HasPrefix(line, "|") {
					columns = 0
					continue
				}
				cells := regexp.MustCompile(`[^\\]\|`).Split(strings.TrimSpace(line), -1)
				if columns == 0 {
					columns = len(cells)
				}
				// The last one is what follows the row.
				isEmpty := func(cell string) bool { return strings.Trim(cell, " |") == "" }
				if len(cells) != columns || page != "api" && slices.ContainsFunc(cells[:len(cells)-1], isEmpty) {
					t.Errorf("a row is broken, or has an empty cell: %s", line)
				}
			}
		})
	}
}

// TestReference: the pages in docs/reference are those of this code.
func TestReference(t *testing.T) {
	for _, page := range []string{"metrics", "events", "errors"} {
		t.Run(page, func(t *testing.T) {
			want := content(t, page)
			if got, err := os.ReadFile(filepath.Join("docs/reference", page+".md")); err != nil || string(got) != want {
				t.Errorf("docs/reference/%s.md is out of date (%v): run make generate", page, err)
			}
		})
	}
}

// TestEventsOfMaps: the events whose reasons are keys of a map are all there. The map itself could lack one.
func TestEventsOfMaps(t *testing.T) {
	text := content(t, "events")
	for _, tt := range []struct {
		files, names, suffix string
		untold               []string
	}{
		{"pkg/registry/metal3/baremetalhost/*.go", `kind: +"Host(\w+)"`, "Requested", []string{"Validation", "History"}},
		{"pkg/ironicsync/kinds/hostclaim/status.go", `Reason += "(\w+)"`, "", []string{"InfoReported", "IssuesReported"}},
	} {
		files, err := filepath.Glob(tt.files)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, name := range files {
			source, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range regexp.MustCompile(tt.names).FindAllStringSubmatch(string(source), -1) {
				found++
				if !slices.Contains(tt.untold, match[1]) && !strings.Contains(text, "| `"+match[1]+tt.suffix+"` |") {
					t.Errorf("%s: there is no event %s%s: the map lacks it", name, match[1], tt.suffix)
				}
			}
		}
		if found < 10 {
			t.Errorf("%s: %d names only", tt.files, found)
		}
	}
}

// server is the source of a server that makes events.
func server(t *testing.T, source string) *program {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"pkg/ironicsync/events/event.go": "package events\n\ntype Event struct{ Type, Reason, Message string }\n",
		"cmd/metal3-apiserver/main.go":   "package main\n\nimport \"" + module + "/pkg/ironicsync/events\"\n\n" + source,
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p, err := parseServer()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestUnreadableEvents: an event whose reason cannot be read is an error, and is not left out.
func TestUnreadableEvents(t *testing.T) {
	recorded := func(fields string) string {
		return "sink.RecordObject(kinds.ReferenceTo(\"Host\", h), events.Event{" + fields + "})"
	}
	for name, tt := range map[string]struct{ source, says string }{
		"readable":                 {"func f() { " + recorded(`Type: v1.EventTypeNormal, Reason: "Done", Message: "Done: " + what`) + " }", ""},
		"of another object":        {"func f() { " + recorded(`Type: v1.EventTypeNormal, Reason: object.Reason, Message: "Done"`) + " }", "object.Reason is not known"},
		"of a call":                {"func f() { " + recorded(`Type: v1.EventTypeNormal, Reason: reason(1), Message: "Done"`) + " }", "reason(1) is not known"},
		"without a reason":         {"func f() { " + recorded(`Type: v1.EventTypeNormal, Message: "Done"`) + " }", "is not written"},
		"of a caller":              {"func f(r string) { " + recorded(`Type: v1.EventTypeNormal, Reason: r, Message: "Done"`) + " }\nfunc g() { f(h.Reason) }", "h.Reason is not known"},
		"of nobody":                {"func f(r string) { " + recorded(`Type: v1.EventTypeNormal, Reason: r, Message: "Done"`) + " }", "nobody calls"},
		"added to":                 {"func f() { r := \"A\"; r += b; " + recorded(`Type: v1.EventTypeNormal, Reason: r, Message: "Done"`) + " }", "is not known"},
		"not where it is recorded": {"func f() events.Event { return events.Event{Type: v1.EventTypeNormal, Reason: \"Done\", Message: \"Done\"} }", "is not written"},
		"in a list":                {"var all = []events.Event{{Type: v1.EventTypeNormal, Reason: \"Done\", Message: \"Done\"}}", "is not written"},
		"past the recorder":        {"func f() { recorder.Eventf(object, nil, \"Normal\", \"Done\", \"Done\", \"done\") }", "is not written"},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := server(t, tt.source).events()
			switch {
			case tt.says == "" && (err != nil || !slices.Equal(found, []event{{"Host", "Done", "Normal", "Done: …"}})):
				t.Errorf("%v, %v", found, err)
			case tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)):
				t.Errorf("%v", err)
			}
		})
	}
}

// TestUnreadableMetrics: the same of metrics.
func TestUnreadableMetrics(t *testing.T) {
	for _, call := range []string{
		`NewCounter(&metrics.CounterOpts{Name: name, Help: "Help", StabilityLevel: metrics.ALPHA})`,
		`NewCounter(&metrics.CounterOpts{Name: "name", Help: help, StabilityLevel: metrics.ALPHA})`,
		`NewCounter(&metrics.CounterOpts{Name: "name", Help: "Help"})`,
		`NewCounter(options)`,
		`NewCounterVec(&metrics.CounterOpts{Name: "name", Help: "Help", StabilityLevel: metrics.ALPHA}, labels)`,
		`NewSummary(&metrics.SummaryOpts{Name: "name", Help: "Help", StabilityLevel: metrics.ALPHA})`,
		`NewLazyConstMetric(desc, metrics.CounterValue, 1)`,
	} {
		server(t, "import \"k8s.io/component-base/metrics\"\n\nvar metric = metrics."+call+"\n")
		if text, err := metrics(); err == nil {
			t.Errorf("%s: %s", call, text)
		}
	}
}

func TestCell(t *testing.T) {
	for text, want := range map[string]string{
		"a\n b":             "a b",
		"a|b":               `a\|b`,
		"a_b <c> *d*":       `a\_b &lt;c> \*d\*`,
		"`a_b` c_d `e_f` `": "`a_b` c\\_d `e_f` `",
		"`a_b":              "`a\\_b",
	} {
		if got := cell(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
