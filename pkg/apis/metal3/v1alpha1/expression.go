// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// What a regular expression for names of namespaces may have at most. Repetitions of repetitions would let a few bytes take hundreds of
// megabytes when they are compiled, and seconds for each name. Both limits are far beyond what a name of 63 letters needs.
const (
	maxExpressionBytes = 1024
	maxExpressionSteps = 1000
)

// ParseNameMatches compiles the regular expression. An empty one matches all names. One that takes much time or memory to be compiled
// or matched is not valid.
func (n *HostClaimNamespaces) ParseNameMatches() (*regexp.Regexp, error) {
	expression := n.NameMatches
	switch {
	case len(expression) > maxExpressionBytes:
		return nil, fmt.Errorf("may have at most %d bytes, and has %d: use names or hasLabels", maxExpressionBytes, len(expression))
	case strings.ContainsFunc(expression, func(r rune) bool { return r >= utf8.RuneSelf }), strings.Contains(expression, `\x{`):
		// The parser takes long for ranges of these that are to match regardless of case.
		return nil, fmt.Errorf(`may have only ASCII characters and no \x{...}, as no other character is in the name of a namespace`)
	}
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("must be a regular expression: %.100s", err) // it repeats the expression
	}
	if steps := stepsOf(parsed); steps > maxExpressionSteps {
		return nil, fmt.Errorf("may have at most %d steps, and has %d with its repetitions written out: make these fewer, or use names or hasLabels", maxExpressionSteps, steps)
	}
	return regexp.Compile(expression)
}

// stepsOf returns at least as many instructions as the program of an expression has. The parser limits how often something is repeated, to
// 1,000 times also if one repetition is within another, and how deep expressions are within one another.
func stepsOf(re *syntax.Regexp) int {
	steps := 0
	for _, sub := range re.Sub {
		steps += stepsOf(sub)
	}
	switch re.Op {
	case syntax.OpConcat:
	case syntax.OpLiteral:
		steps = len(re.Rune)
	case syntax.OpCharClass:
		steps = 1 + len(re.Rune)/32 // those of Unicode have hundreds of ranges
	case syntax.OpRepeat:
		steps = 1 + (steps+1)*max(re.Max, re.Min+1)
	default:
		steps += 1 + len(re.Sub)
	}
	return max(steps, 1)
}
