// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

func TestWatch(t *testing.T) {
	for name, cache := range map[string]bool{"watch cache off": false, "watch cache on": true} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t, cache)
			t.Run("rows", func(t *testing.T) { testWatchedRows(t, s) })
			t.Run("warnings", func(t *testing.T) { testWarnings(t, s) })
			t.Run("Ironics away", func(t *testing.T) { testIronicsAway(t, s) })
		})
	}
}

// stream opens a watch and returns a reader of its events.
func (s *server) stream(t *testing.T, query string, headers map[string]string) (http.Header, func(object any) string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), "GET", s.url+hostsPath+"?watch=true&"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	response, err := s.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	if response.StatusCode != http.StatusOK {
		t.Fatalf("watch: %s", response.Status)
	}
	lines := bufio.NewReader(response.Body)
	return response.Header, func(object any) string {
		t.Helper()
		line, err := lines.ReadBytes('\n')
		if err != nil {
			t.Fatal(err)
		}
		event := struct {
			Type   string
			Object any
		}{Object: object}
		if err := json.Unmarshal(line, &event); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		return event.Type
	}
}

// testWatchedRows checks that `kubectl get -w` gets rows and a single header.
func testWatchedRows(t *testing.T, s *server) {
	s.create(t, "rows")
	asTable := map[string]string{"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
	_, next := s.stream(t, "fieldSelector=metadata.name%3Drows&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", asTable)
	var first, bookmark, second metav1.Table
	if kind := next(&first); kind != "ADDED" || len(first.ColumnDefinitions) != 15 || len(first.Rows) != 1 || first.Rows[0].Cells[0] != "rows" {
		t.Errorf("first event %s: %d columns, rows %v", kind, len(first.ColumnDefinitions), first.Rows)
	}
	if kind := next(&bookmark); kind != "BOOKMARK" {
		t.Errorf("the initial events end with %s", kind)
	}
	s.live.say("rows", "fan failed")
	if got := s.do(t, "GET", hostsPath+"/rows", ""); got.code != 200 {
		t.Fatalf("HTTP %d", got.code)
	}
	if kind := next(&second); kind != "MODIFIED" || len(second.ColumnDefinitions) != 0 || second.Rows[0].Cells[7] != "fan failed" {
		t.Errorf("next event %s: %d columns, rows %v", kind, len(second.ColumnDefinitions), second.Rows)
	}
}

// testWarnings checks that every kind of read warns if the status is not live.
func testWarnings(t *testing.T, s *server) {
	s.create(t, "stale")
	const why = "live status is not available, Ironic: connection refused; status is as of 2026-11-21T07:00:00Z"
	reads := map[string]func(t *testing.T) string{
		"get":        func(t *testing.T) string { return s.warningOf(t, "/stale") },
		"get status": func(t *testing.T) string { return s.warningOf(t, "/stale/status") },
		"list":       func(t *testing.T) string { return s.warningOf(t, "") },
		"list by name at any resourceVersion": func(t *testing.T) string {
			return s.warningOf(t, "?fieldSelector=metadata.name%3Dstale&resourceVersion=0")
		},
		"watch": func(t *testing.T) string {
			header, _ := s.stream(t, "", nil)
			return header.Get("Warning")
		},
	}
	for name, read := range reads {
		t.Run(name, func(t *testing.T) {
			if got := read(t); got != "" {
				t.Errorf("a fresh answer has the warning %q", got)
			}
			s.live.leave(why)
			defer s.live.leave("")
			if got := read(t); got != `299 - "`+why+`"` {
				t.Errorf("the warning is %q", got)
			}
		})
	}
}

// testIronicsAway checks that a list warns of each Ironic that is away on a line of its own, and once.
func testIronicsAway(t *testing.T, s *server) {
	s.create(t, "in-a-room")
	body := `{"apiVersion":"metal3.io/v1alpha1","kind":"HostFirmwareSettings","metadata":{"name":"in-a-room"},"spec":{"settings":{}}}`
	s.do(t, "POST", settingsPath, body).into(t, http.StatusCreated, &metal3.HostFirmwareSettings{})
	b, c := errors.New("IronicInstance b: no answer"), errors.New("IronicInstance c: refused")
	s.live.fail(errors.Join(b, c, b))
	defer s.live.leave("")
	for _, path := range []string{hostsPath, hostsPath + "?watch=true&timeoutSeconds=1", settingsPath} {
		got := s.do(t, "GET", path, "")
		want := []string{`299 - "` + b.Error() + `"`, `299 - "` + c.Error() + `"`}
		if diff := cmp.Diff(want, got.header.Values("Warning")); got.code != http.StatusOK || diff != "" {
			t.Errorf("%s: HTTP %d (-want +got):\n%s", path, got.code, diff)
		}
	}
}

func (s *server) warningOf(t *testing.T, path string) string {
	t.Helper()
	got := s.do(t, "GET", hostsPath+path, "")
	if got.code != http.StatusOK {
		t.Errorf("HTTP %d: %s", got.code, got.body)
	}
	return got.header.Get("Warning")
}
