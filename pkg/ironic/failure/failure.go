// SPDX-License-Identifier: Apache-2.0

package failure

import (
	"cmp"
	"slices"
	"strings"
)

// Meaning is what an error means.
type Meaning struct {
	// Kind names the meaning. No two meanings have the same.
	Kind Kind
	// What says what has happened, in one sentence of at most MaxSentence characters.
	What string
	// help says what helps; {address}, {secret} and {host} stand for what About has. It is empty if there is nothing to be done, or if
	// it is not known what.
	help string
}

// Kind names the meaning of an error.
type Kind string

// About is the host that has the error, as far as it is named in what helps.
type About struct {
	// Address is that of the BMC, without credentials.
	Address string
	// Secret has the credentials of the BMC, for example "the Secret metal3/worker-0-bmc".
	Secret string
	// Host is the name of the host in commands, for example "worker-0 -n metal3".
	Host string
}

// Help says what helps against an error, or returns an empty text.
func (m Meaning) Help(a About) string {
	return strings.NewReplacer("{address}", cmp.Or(a.Address, "its address"), "{secret}", cmp.Or(a.Secret, "its Secret"), "{host}", a.Host).Replace(m.help)
}

// Of returns what the text of an error means, and whether that is known.
func Of(text string) (m Meaning, known bool) {
	text = strings.ToLower(text)
	if isNoSystem(text) {
		return bmcNoSystem, true
	}
	for _, group := range groups {
		if len(group.about) > 0 && !hasAny(text, group.about) {
			continue
		}
		for _, rule := range group.rules {
			if hasAny(text, rule.says) {
				return rule.Meaning, true
			}
		}
	}
	return Meaning{}, false
}

// IsOfIronic reports whether the text of an error says something of Ironic, or of what people have told it, and nothing of the machine
// and its BMC.
func IsOfIronic(text string) bool {
	m, known := Of(text)
	isKind := func(r rule) bool { return r.Kind == m.Kind }
	return known && (m.Kind == conductorDiskFull.Kind || slices.ContainsFunc(conductorRules, isKind))
}

// All returns all meanings, each once.
func All() []Meaning {
	var all []Meaning
	for _, group := range groups {
		for _, rule := range group.rules {
			if !slices.Contains(all, rule.Meaning) {
				all = append(all, rule.Meaning)
			}
		}
	}
	return all
}

// group is the rules about one thing, such as images: "connection refused" means something else of a BMC than of the server
// of an image.
type group struct {
	// about are the phrases of which one shows that an error is about that. Empty: the rules name the thing themselves.
	about []string
	rules []rule
}

// groups are in the order in which they are tried: an error about an image may have a URL in which there is "redfish", and the
// causes of an error are looked at before what failed because of them.
var groups = []group{
	{rules: conductorRules},
	{rules: checksumRules},
	{about: imagePhrases, rules: imageRules},
	{rules: diskRules},
	{about: agentPhrases, rules: agentRules},
	{rules: ramdiskRules},
	{rules: bmcAnswerRules},
	{about: bmcPhrases, rules: bmcConnectionRules},
	{rules: bmcOutcomeRules},
	{rules: settingsRules},
}

// rule has the texts that have a meaning.
type rule struct {
	Meaning
	// says are the phrases of which an error has one, in lower case. A phrase with " * " in it is of parts of which
	// each has to be there, one after the other.
	says []string
}

func hasAny(text string, phrases []string) bool {
	for _, phrase := range phrases {
		if has(text, phrase) {
			return true
		}
	}
	return false
}

// has reports whether a text has the parts of a phrase, one after the other.
func has(text, phrase string) bool {
	for part := range strings.SplitSeq(phrase, " * ") {
		i := indexWords(text, part)
		if i < 0 {
			return false
		}
		text = text[i+len(part):]
	}
	return true
}

// indexWords is strings.Index for whole words: the 401 in a UUID, a port or an address is not that of an answer.
func indexWords(text, words string) int {
	from := 0
	for {
		i := strings.Index(text[from:], words)
		if i < 0 {
			return -1
		}
		i += from
		end := i + len(words)
		startsWord := i == 0 || !isWord(text[i-1]) || !isWord(words[0])
		endsWord := end == len(text) || !isWord(text[end]) || !isWord(words[len(words)-1])
		if startsWord && endsWord {
			return i
		}
		from = i + 1
	}
}

func isWord(c byte) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_' }
