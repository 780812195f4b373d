// SPDX-License-Identifier: Apache-2.0

package failure

import (
	_ "embed"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// golden has errors as Ironic 21.4 to 39, sushy, ipmitool and the ramdisk word them, with invented values. Below each is what it means
// and what helps. A line break in an error is written as \n.
//
//go:embed testdata/errors.txt
var golden string

var about = About{Address: "redfish://192.0.2.1/redfish/v1/Systems/1", Secret: "the Secret metal3/bmc", Host: "worker-0 -n metal3"}

// texts returns the errors of golden with what is said of each there.
func texts(t *testing.T) (errors, says []string) {
	t.Helper()
	for line := range strings.Lines(golden) {
		line = strings.TrimRight(line, "\n")
		switch said, isSaid := strings.CutPrefix(line, "\t"); {
		case strings.HasPrefix(line, "#"):
		case !isSaid:
			errors, says = append(errors, strings.ReplaceAll(line, `\n`, "\n")), append(says, "")
		default:
			says[len(says)-1] += said + "\n"
		}
	}
	if len(errors) < 80 {
		t.Fatalf("%d errors only", len(errors))
	}
	return errors, says
}

// describe returns what golden says of an error.
func describe(text string) string {
	m, known := Of(text)
	switch help := m.Help(about); {
	case !known:
		return "not known: no hint\n"
	case help == "":
		return fmt.Sprintf("%s: %s\nno hint\n", m.Kind, m.What)
	default:
		return fmt.Sprintf("%s: %s\n%s\n", m.Kind, m.What, help)
	}
}

func TestGolden(t *testing.T) {
	errors, says := texts(t)
	for i, text := range errors {
		if diff := cmp.Diff(says[i], describe(text)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

// TestLead: each error begins with a short sentence, and has all of its own words. The sentence means what the error means, so nothing is put
// in front of it a second time.
func TestLead(t *testing.T) {
	errors, _ := texts(t)
	for _, text := range append(errors, strings.Repeat("long ", 100), strings.Repeat("é", 200)+". More.", "short. "+strings.Repeat("long ", 100), "") {
		lead := Lead(text, "Something has failed.")
		if first := firstOf(lead); utf8.RuneCountInString(first) > MaxSentence || First(lead) != first {
			t.Errorf("begins with %q", first)
		}
		if !strings.HasSuffix(lead, text) {
			t.Errorf("lost words: %q of %q", lead, text)
		}
		if again := Lead(lead, "Something has failed."); again != lead {
			t.Errorf("twice: %q", again)
		}
		of, ofKnown := Of(text)
		if of2, known := Of(lead); of2 != of || known != ofKnown {
			t.Errorf("%q means %s, with its lead %s", text, of.Kind, of2.Kind)
		}
	}
}

func TestFirst(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  "",
		"One thing.":                        "One thing.",
		"One thing. Another.":               "One thing.",
		" One thing \n another":             "One thing",
		"At 192.0.2.1: deploy.write. Then.": "At 192.0.2.1: deploy.write.",
		strings.Repeat("é", 101):            strings.Repeat("é", 99) + "…",
	} {
		if got := First(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestMeanings: a kind has one meaning, whose sentence is one and short.
func TestMeanings(t *testing.T) {
	kinds := map[Kind]Meaning{}
	for _, group := range groups {
		for _, r := range group.rules {
			if was, has := kinds[r.Kind]; has && was != r.Meaning {
				t.Errorf("%s has two meanings", r.Kind)
			}
			kinds[r.Kind] = r.Meaning
			if firstOf(r.What) != r.What || !strings.HasSuffix(r.What, ".") || utf8.RuneCountInString(r.What) > MaxSentence {
				t.Errorf("%s: %q", r.Kind, r.What)
			}
			if help := r.Help(About{}); strings.ContainsAny(help, "{}") && r.Kind != "" {
				t.Errorf("%s: not filled in: %q", r.Kind, help)
			}
			for _, phrase := range append(r.says, group.about...) {
				if phrase == "" || phrase != strings.ToLower(phrase) {
					t.Errorf("%s: the phrase %q matches nothing", r.Kind, phrase)
				}
			}
		}
	}
	errors, _ := texts(t)
	for _, text := range errors {
		m, _ := Of(text)
		delete(kinds, m.Kind)
	}
	for kind := range kinds {
		t.Errorf("no error in the table is %s", kind)
	}
}

func TestWholeWords(t *testing.T) {
	for _, c := range []struct {
		text, phrase string
		want         bool
	}{
		{"code 401", "401", true}, {"401", "401", true}, {"(401)", "401", true},
		{"a9401-b", "401", false}, {"4011", "401", false}, {"port=4010 code 401", "401", true}, {"x_401", "401", false},
		{"one and two", "one * two", true}, {"two and one", "one * two", false}, {"", "x", false},
	} {
		if got := has(c.text, c.phrase); got != c.want {
			t.Errorf("%q in %q: %t", c.phrase, c.text, got)
		}
	}
}

// FuzzOf: no text makes it panic, and what it makes of one begins with a short sentence.
func FuzzOf(f *testing.F) {
	f.Add("Failed to get power state for node x. Error: IPMI call failed: power status.")
	f.Fuzz(func(t *testing.T, text string) {
		if first := First(Lead(text, "It has failed.")); utf8.RuneCountInString(first) > MaxSentence {
			t.Errorf("%q", first)
		}
	})
}
