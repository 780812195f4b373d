// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"regexp"
	"strings"
)

// Command is one that a page shows.
type Command struct {
	Line    int    // of the page, from 1
	Section string // the heading above it
	Text    string
	Output  []string // the lines that the page shows of what the command prints
}

var (
	heading = regexp.MustCompile(`^#+ (.*)$`)
	// program is how a command begins that has no $ before it. What begins otherwise is the output of the one before, or a file.
	program = regexp.MustCompile(`^(?:(?:buildah|cp|ctr|curl|diff|docker|for|git|go|helm|kubectl|make|metal3-apiserver|mkdir|podman|sha256sum|skopeo|ssh|tar|until) |run\b|[A-Za-z]+=|\S+\.sh$)`)
	heredoc = regexp.MustCompile(`<<-?\s*'?(\w+)'?`)
)

// indent is that of a block of code in Markdown.
const indent = "    "

// commandsOf returns the commands of a page: lines of indented blocks, in lists, too. In a block that has $ before commands, they go on in
// lines with >, and in others until they are whole.
func commandsOf(page string) (commands []Command) {
	var section string
	var fenced, prompted bool
	var open *Command // it goes on
	for i, line := range strings.Split(page, "\n") {
		text := strings.TrimSpace(line)
		if strings.HasPrefix(text, "```") {
			fenced = !fenced
			continue
		}
		if match := heading.FindStringSubmatch(line); match != nil && !fenced {
			section = match[1]
		}
		if text == "" {
			continue
		}
		line, isIndented := strings.CutPrefix(line, indent)
		if fenced || !isIndented {
			prompted, open = false, nil
			continue
		}
		first, hasPrompt := strings.CutPrefix(text, "$ ")
		more, hasMore := strings.CutPrefix(text, "> ")
		switch {
		case hasPrompt:
			prompted = true
		case prompted && hasMore:
			commands[len(commands)-1].Text += "\n" + more
			continue
		case prompted:
			last := &commands[len(commands)-1]
			last.Output = append(last.Output, line)
			continue
		case open != nil:
			open.Text += "\n" + line
			if isWhole(open.Text) {
				open = nil
			}
			continue
		case !program.MatchString(text):
			continue
		}
		commands = append(commands, Command{Line: i + 1, Section: section, Text: first})
		if open = &commands[len(commands)-1]; prompted || isWhole(first) {
			open = nil
		}
	}
	return commands
}

// isWhole reports whether a command does not go on in the next line.
func isWhole(command string) bool {
	if end := heredoc.FindStringSubmatch(command); end != nil {
		return strings.HasSuffix(command, "\n"+end[1])
	}
	loops := strings.HasPrefix(command, "for ") && !strings.HasSuffix(command, "\ndone")
	function := strings.HasPrefix(command, "run() {") && !strings.HasSuffix(command, "}")
	return !loops && !function && !strings.HasSuffix(command, `\`) && strings.Count(command, "'")%2 == 0
}
