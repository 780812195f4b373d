// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"encoding/base64"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// manyTexts are texts of which a Secret can have 90,000. Each has hundreds of spellings.
func manyTexts(n int) []string {
	texts := make([]string, n)
	for i := range texts {
		texts[i] = fmt.Sprintf(`'<&%%/%05d`, i)
	}
	return texts
}

// Users decide how many texts are sent. What is done about them has a bound, beyond which nothing of the message is shown.
func TestManyTexts(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got := Words(t.Context(), "no image for '<&%/00001", manyTexts(10_000)...)
	runtime.ReadMemStats(&after)
	if got != Withheld+errTooMuch.Error() {
		t.Errorf("not withheld: %s", got)
	}
	if bytes := after.TotalAlloc - before.TotalAlloc; bytes > 400<<20 { // all spellings are 240 MiB, and take 1,360 MiB to make
		t.Errorf("%d MiB were allocated", bytes>>20)
	}

	// The bound is one for all messages.
	secrets := newSpeller(manyTexts(30))
	for i := range 1_000 {
		got = hideSecrets("no image for '<&%/00001", secrets, nil)
		if i < 10 && got != "no image for "+redacted {
			t.Errorf("message %d: %s", i, got)
		}
	}
	if got != Withheld+errTooMuch.Error() {
		t.Errorf("not withheld: %s", got)
	}
	if secrets.keptBytes > maxKept || secrets.spelled != secrets.keptBytes {
		t.Errorf("%d bytes were spelled, of which %d are kept", secrets.spelled, secrets.keptBytes)
	}
}

// A text of a megabyte is spelled in pieces, until the bound is reached.
func TestLongText(t *testing.T) {
	var long strings.Builder
	for i := range 1 << 17 {
		fmt.Fprintf(&long, "é\"'<%03x", i%4093)
	}
	secrets := newSpeller([]string{long.String()})
	if got := hideSecrets("no image", secrets, nil); got != Withheld+errTooMuch.Error() {
		t.Errorf("not withheld: %s", got)
	}
	longest := 0
	for piece := range pieces(long.String()) {
		longest = max(longest, len(strings.Join(spellings(piece.text), "")))
	}
	if most := maxCost/spellingCost + longest; secrets.spelled > most || secrets.spelled < maxCost/spellingCost/2 {
		t.Errorf("%d bytes were spelled, and the bound is %d", secrets.spelled, most)
	}
	if longest > 40*longestPiece {
		t.Errorf("the forms of a piece have %d bytes", longest)
	}
}

// What is compared with what is in a message has a bound, too: both are chosen by who wants to keep this server busy.
func TestManyComparisons(t *testing.T) {
	secrets := newSpeller([]string{strings.Repeat("a", 1<<20) + "'"})
	if got := hideSecrets(strings.Repeat("a", longestAnswer), secrets, nil); got != Withheld+errTooMuch.Error() {
		t.Errorf("not withheld: %.100s", got)
	}
	if most := longestAnswer * (1 + longestPiece/32); secrets.left < -most {
		t.Errorf("%d bytes were compared more than may be", -secrets.left)
	}
}

// What ordinary users send is looked for.
func TestOrdinaryDrives(t *testing.T) {
	var network []any
	for i := range 500 {
		mac := fmt.Sprintf("52:54:00:aa:%02x:%02x", i/256, i%256)
		network = append(network, map[string]any{
			"id": fmt.Sprintf("enp%ds0f%dnp1", i/8, i%8), "type": "phy", "ethernet_mac_address": mac, "mtu": 1500, "ip_address": fmt.Sprintf("10.11.%d.%d", i/256, i%256),
			"netmask": "255.255.255.0", "gateway": fmt.Sprintf("10.11.%d.1", i/256), "network_id": fmt.Sprintf("network-%d", i), "link": fmt.Sprintf("enp%ds0f%dnp1", i/8, i%8),
		})
	}
	for name, test := range map[string]struct{ message, want string }{
		"network data": {"no link 52:54:00:aa:01:07", "no link " + redacted},
		"user data":    {`cannot parse "- path: /etc/file-0777`, `cannot parse "` + redacted},
	} {
		drive := map[string]any{"network_data": network}
		if name == "user data" {
			var files strings.Builder
			for i := range 4000 {
				fmt.Fprintf(&files, "- path: /etc/file-%04d\n  content: aGVsbG8gd29ybGQ=\n", i)
			}
			drive = map[string]any{"user_data": files.String()}
		}
		if got := Words(t.Context(), test.message, TextsOf(drive)...); !strings.HasPrefix(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// Each run of a long text is found, also where one piece ends and the next one begins.
func TestPieces(t *testing.T) {
	var long strings.Builder
	for i := 0; long.Len() < 3*longestPiece; i++ {
		fmt.Fprintf(&long, "é\"%x漢\n😀", i*i)
	}
	text := long.String()
	parts, runs := slices.Collect(pieces(text)), map[string]bool{}
	if len(parts) != 4 || !parts[0].begin || parts[1].begin || parts[2].end || !parts[3].end {
		t.Errorf("%d pieces", len(parts))
	}
	for _, part := range parts {
		for _, form := range spellings(part.text) {
			for from := 0; from+shortestRun <= len(form); from++ {
				runs[form[from:from+shortestRun]] = true
			}
		}
	}
	for name, spelled := range map[string]string{
		"as it is": text, "Go": strings.Trim(strconv.QuoteToASCII(text), `"`), "JSON": inJSON(text, false), "URL": inURL(text, "/"),
		"base64": base64.StdEncoding.EncodeToString([]byte(text)),
	} {
		for from := 0; from+shortestRun <= len(spelled); from++ {
			if run := spelled[from : from+shortestRun]; !runs[run] {
				t.Fatalf("%s: %q at %d is in no form of a piece", name, run, from)
			}
		}
	}
}

// The texts of values within values are collected in one list.
func TestTextsOfNestedValues(t *testing.T) {
	texts := make([]any, 1_000)
	for i := range texts {
		texts[i] = fmt.Sprintf("text %04d", i)
	}
	var nested any = texts
	for range 5_000 { // JSON may have twice that
		nested = []any{nested}
	}
	var found []string
	if allocations := testing.AllocsPerRun(1, func() { found = TextsOf(nested) }); allocations > 100 || len(found) != len(texts) {
		t.Errorf("%d texts were found, with %v allocations", len(found), allocations)
	}
}

func TestIndexes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		letters := rapid.StringOfN(rapid.RuneFrom([]rune("ab")), 0, 40, -1)
		message, text := letters.Draw(t, "message"), letters.Draw(t, "text")
		text = text[:len(text)%6]
		var want []int
		for i := range message {
			if text != "" && strings.HasPrefix(message[i:], text) {
				want = append(want, i)
			}
		}
		if got := slices.Collect(indexes(message, text)); !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	})
}
