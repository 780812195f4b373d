// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"regexp/syntax"
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParseNameMatches(t *testing.T) {
	teams := make([]string, 60)
	for i := range teams {
		teams[i] = "team-" + string(rune('a'+i%26)) + "-production"
	}
	for expression, want := range map[string]string{
		"":                                     "",
		"^prod$":                               "",
		`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`: "",
		`^(?:team|squad)-[a-z]{1,20}(-(dev|stage|prod)){1,3}\d*$`: "",
		`(?i)^\p{Ll}[[:alnum:]]{1,63}-\w+$`:                       "",
		"^(" + strings.Join(teams[:50], "|") + ")$":               "", // 903 bytes
		"(":                                    "must be a regular expression: error parsing regexp: missing closing )",
		"a{1001}":                              "must be a regular expression: error parsing regexp: invalid repeat count",
		"(a{100}){100}":                        "must be a regular expression: error parsing regexp: invalid repeat count",
		"^(" + strings.Join(teams, "|") + ")$": "may have at most 1024 bytes, and has 1083: use names or hasLabels",
		"^(" + strings.Repeat("a?", 200) + "){1000}$":       "may have at most 1000 steps, and has",
		"^(((a{0,9}b?){9}c?){9}|d){1,}$":                    "may have at most 1000 steps, and has",
		"[a-z]{1000}":                                       "may have at most 1000 steps, and has",
		strings.Repeat(`\pL`, 341):                          "may have at most 1000 steps, and has",
		"(?i)[" + strings.Repeat("b-\U0001e942", 100) + "]": `may have only ASCII characters and no \x{...}`,
		"(?i)[" + strings.Repeat(`b-\x{1e942}`, 50) + "]":   `may have only ASCII characters and no \x{...}`,
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		compiled, err := (&HostClaimNamespaces{NameMatches: expression}).ParseNameMatches()
		runtime.ReadMemStats(&after)
		if bytes := after.TotalAlloc - before.TotalAlloc; bytes > 16<<20 {
			t.Errorf("%.50s...: %d MiB were allocated", expression, bytes>>20)
		}
		switch {
		case want == "" && (err != nil || compiled == nil):
			t.Errorf("%.50s...: %v", expression, err)
		case want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)):
			t.Errorf("%.50s...: %v, want %s", expression, err, want)
		}
	}
}

// What is counted before an expression is compiled is not less than what it is compiled to.
func TestStepsOf(t *testing.T) {

	expressions := rapid.Custom(func(t *rapid.T) string {
		var nested func(depth int) string
		nested = func(depth int) string {
			var b strings.Builder
			for range rapid.IntRange(1, 3).Draw(t, "parts") {
				part := rapid.SampledFrom([]string{"a", "bcd", "[a-z]", "[^x]", ".", `\d`, "^", "$", `\b`, "(?i)k", `\pL`, "|", "()"}).Draw(t, "part")
				if depth > 0 && rapid.Bool().Draw(t, "nested") {
					part = rapid.SampledFrom([]string{"(", "(?:"}).Draw(t, "group") + nested(depth-1) + ")"
				}
				if part == "|" {
					b.WriteString(part)
					continue
				}
				b.WriteString(part + rapid.SampledFrom([]string{"", "", "*", "+", "?", "{0}", "{3}", "{2,}", "{0,}", "{0,4}", "{1,2}?"}).Draw(t, "times"))
			}
			return b.String()
		}
		return nested(3)
	})
	rapid.Check(t, func(t *rapid.T) {
		expression := expressions.Draw(t, "expression")
		parsed, err := syntax.Parse(expression, syntax.Perl)
		if err != nil {
			t.Skip(err)
		}
		steps := stepsOf(parsed)
		program, err := syntax.Compile(parsed.Simplify())
		if err != nil {
			t.Fatal(err)
		}
		if len(program.Inst) > steps+2 { // one that fails, and one that succeeds
			t.Errorf("%s: %d instructions, counted %d", expression, len(program.Inst), steps)
		}
	})
}
