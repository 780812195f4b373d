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
