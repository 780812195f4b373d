// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/view"
)

func TestDecodeKeys(t *testing.T) {
	for input, want := range map[string][]view.Key{
		"q":                 {"q"},
		"é/":                {"é", "/"},
		"\x03":              {view.KeyInterrupt},
		"\x1b":              {view.KeyEscape},
		"\x1b[A\x1bOB":      {view.KeyUp, view.KeyDown},
		"\x1b[5~\x1b[6~x":   {view.KeyPageUp, view.KeyPageDown, "x"},
		"\x1b[1;5C":         nil, // Ctrl-right
		"\x1b[":             nil,
		"\r\x7f\b":          {view.KeyEnter, view.KeyBackspace, view.KeyBackspace},
		"\x00\x01\xff":      nil,
		"\x1b[H\x1b[F\x1bq": {view.KeyHome, view.KeyEnd, view.KeyEscape, "q"},
	} {
		if diff := cmp.Diff(want, decodeKeys([]byte(input))); diff != "" {
			t.Errorf("%q: %s", input, diff)
		}
	}
}

// TestScreenWritesChangesOnly: what has not changed is not written again, so nothing flickers, and
// each frame is one write.
func TestScreenWritesChangesOnly(t *testing.T) {
	out := &writes{}
	s, err := NewScreen(out)
	if err != nil {
		t.Fatal(err)
	}
	draw := func(width int, lines ...string) string {
		t.Helper()
		out.all = nil
		if err := s.Draw(lines, width, 10); err != nil {
			t.Fatal(err)
		}
		if len(out.all) > 1 {
			t.Errorf("%d writes for a frame", len(out.all))
		}
		return strings.Join(out.all, "")
	}
	if got := draw(80, "one", "two", "three"); !strings.Contains(got, "one") || !strings.Contains(got, "three") {
		t.Errorf("the first frame is %q", got)
	}
	if got := draw(80, "one", "TWO", "three"); !strings.Contains(got, "\x1b[2;1HTWO\x1b[K") || strings.Contains(got, "one") || strings.Contains(got, "three") {
		t.Errorf("the second frame is %q", got)
	}
	if got := draw(80, "one", "TWO", "three"); got != "" {
		t.Errorf("a frame without a change is %q", got)
	}
	if got := draw(80, "one"); !strings.Contains(got, "\x1b[2;1H\x1b[K") || !strings.Contains(got, "\x1b[3;1H\x1b[K") {
		t.Errorf("lines that have gone are not cleared: %q", got)
	}
	if got := draw(60, "one"); !strings.Contains(got, clearScreen) || !strings.Contains(got, "one") {
		t.Errorf("after a resize: %q", got)
	}
	out.all = nil
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(out.all, ""); got != showCursor+usualScreen {
		t.Errorf("the terminal is not restored: %q", got)
	}
}

type writes struct{ all []string }

func (w *writes) Write(p []byte) (int, error) {
	w.all = append(w.all, string(p))
	return len(p), nil
}

func TestBlockDrawsInPlace(t *testing.T) {
	var out bytes.Buffer
	b, err := NewBlock(&out)
	if err != nil {
		t.Fatal(err)
	}
	for _, lines := range [][]string{{"a", "b"}, {"c"}} {
		if err := b.Draw(lines); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	want := hideCursor + beginFrame + "a\x1b[K\nb\x1b[K\n\x1b[J" + endFrame + beginFrame + "\r\x1b[2Ac\x1b[K\n\x1b[J" + endFrame + showCursor
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

func TestAllowsUTF8(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		want bool
	}{
		{map[string]string{}, false},
		{map[string]string{"LANG": "en_GB.UTF-8"}, true},
		{map[string]string{"LANG": "en_GB.UTF-8", "LC_ALL": "C"}, false},
		{map[string]string{"LC_CTYPE": "C.utf8"}, true},
	} {
		if got := AllowsUTF8(func(name string) string { return c.env[name] }); got != c.want {
			t.Errorf("%v: %t", c.env, got)
		}
	}
}

func TestNoTerminal(t *testing.T) {
	var out bytes.Buffer
	if IsTerminal(&out) || AllowsColor(&out) {
		t.Error("a buffer is no terminal")
	}
	if width, height := Size(&out); width != 80 || height != 24 {
		t.Errorf("the size is %d x %d", width, height)
	}
}
