// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"bufio"
	"context"
	"io"
	"slices"
	"strings"
	"testing"
)

// TestKubectlWait: each way to wait ends when what it waits for happens after it
// has begun.
func TestKubectlWait(t *testing.T) {
	for name, c := range map[string]struct {
		begun string
		args  []string
		// then is what happens to the host h
		then []string
		says string
	}{
		"condition":          {established, []string{"wait", "bmh/h", "--for=condition=example.com/Racked"}, []string{"patch", "bmh", "h", "--subresource=status", "--type=json", "-p", racked("True")}, "baremetalhost.metal3.io/h condition met"},
		"condition is false": {established, []string{"wait", "bmh/h", "--for=condition=example.com/Racked=False"}, []string{"patch", "bmh", "h", "--subresource=status", "--type=json", "-p", racked("False")}, "baremetalhost.metal3.io/h condition met"},
		"jsonpath has value": {established, []string{"wait", "bmh/h", "--for=jsonpath={.spec.online}=false"}, []string{"patch", "bmh", "h", "--type=merge", "-p", `{"spec":{"online":false}}`}, "baremetalhost.metal3.io/h condition met"},
		"jsonpath is there":  {established, []string{"wait", "bmh", "--all", "--for=jsonpath={.spec.description}"}, []string{"patch", "bmh", "h", "--type=merge", "-p", `{"spec":{"description":"rack 7"}}`}, "baremetalhost.metal3.io/h condition met"},
		"delete":             {established, []string{"wait", "bmh/h", "--for=delete"}, []string{"delete", "bmh", "h", "--wait=false"}, "baremetalhost.metal3.io/h condition met"},
		"create":             {`/baremetalhosts/new" status="404`, []string{"wait", "bmh/new", "--for=create"}, []string{"create", "-f", "-"}, "baremetalhost.metal3.io/new condition met"},
	} {
		t.Run(name, func(t *testing.T) {
			k := newShell(t)
			k.create("h")
			waiting := k.start(c.begun, append(c.args, "--timeout=5m")...)
			k.ok(hostYAML("new", "online: true"), c.then...)
			if got := waiting.succeeds(); got != c.says {
				t.Errorf("kubectl wait prints %q, want %q", got, c.says)
			}
		})
	}
	t.Run("in vain", func(t *testing.T) {
		k := newShell(t)
		k.create("h")
		k.refused("", []string{"wait", "bmh/h", "--for=condition=Provisioned", "--timeout=1s"}, "error: timed out waiting for the condition on baremetalhosts/h")
	})
}

func racked(status string) string {
	return `[{"op":"add","path":"/status/conditions/-","value":{"type":"example.com/Racked","status":"` + status + `","reason":"Tested","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}}]`
}

// TestKubectlGetWatch: what happens to hosts is printed as it happens.
func TestKubectlGetWatch(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		// wants are the lines before and after the change
		wants []string
	}{
		"one":     {[]string{"bmh", "h", "-o", "custom-columns=:.metadata.name,:.spec.online"}, []string{"h true", "h false"}},
		"all":     {[]string{"bmh", "--no-headers", "-o", "custom-columns=:.metadata.name,:.spec.online"}, []string{"h true", "h false"}},
		"events":  {[]string{"bmh", "--output-watch-events", "-o", "custom-columns=:.type,:.object.metadata.name,:.object.spec.online"}, []string{"ADDED h true", "MODIFIED h false", "DELETED h false"}},
		"chosen":  {[]string{"bmh", "-l", "watched", "-o", "custom-columns=:.metadata.name,:.spec.online"}, []string{"h true", "h false"}},
		"by name": {[]string{"bmh", "--field-selector=metadata.name=h", "-o", "name"}, []string{"baremetalhost.metal3.io/h", "baremetalhost.metal3.io/h"}},
		"table":   {[]string{"bmh", "--output-watch-events", "--no-headers"}, []string{"ADDED h", "MODIFIED h", "DELETED h"}},
		// Nothing is printed of the host as it is.
		"only": {[]string{"bmh", "--watch-only", "-o", "custom-columns=:.metadata.name,:.spec.online"}, []string{"h false"}},
	} {
		t.Run(name, func(t *testing.T) {
			k := newShell(t)
			k.create("h")
			k.ok("", "label", "bmh", "h", "watched=")
			ctx, cancel := context.WithCancel(k.ctx)
			defer cancel()
			cmd := s.Kube.Admin.KubectlCommand(ctx, append([]string{"-n", k.ns, "-v=6", "get", "-w"}, c.args...)...)
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			stderr, err := cmd.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { cancel(); _ = cmd.Wait() }()
			for begun := bufio.NewScanner(stderr); begun.Scan(); {
				if strings.Contains(begun.Text(), "watch=true") {
					break
				}
			}
			go func() { _, _ = io.Copy(io.Discard, stderr) }()
			k.ok("", "patch", "bmh", "h", "--type=merge", "-p", `{"spec":{"online":false}}`)
			k.ok("", "delete", "bmh", "h")
			var lines []string
			for scanner := bufio.NewScanner(stdout); len(lines) < len(c.wants) && scanner.Scan(); {
				columns := strings.Fields(scanner.Text())
				if len(columns) == 0 { // a header without titles
					continue
				}
				if name == "table" {
					columns = columns[:2]
				}
				lines = append(lines, strings.Join(columns, " "))
			}
			if !slices.Equal(lines, c.wants) {
				t.Errorf("lines are %q, want %q", lines, c.wants)
			}
		})
	}
}
