// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"context"
	"io"
	"os"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/view"
)

// sequences are what terminals send for keys that are no characters. Some keys have several.
var sequences = map[string]view.Key{
	"\x1b[A": view.KeyUp, "\x1bOA": view.KeyUp,
	"\x1b[B": view.KeyDown, "\x1bOB": view.KeyDown,
	"\x1b[5~": view.KeyPageUp, "\x1b[6~": view.KeyPageDown,
	"\x1b[H": view.KeyHome, "\x1bOH": view.KeyHome, "\x1b[1~": view.KeyHome,
	"\x1b[F": view.KeyEnd, "\x1bOF": view.KeyEnd, "\x1b[4~": view.KeyEnd,
}

// decodeKeys returns the keys that the bytes of one read stand for. Unknown sequences are
// skipped.
func decodeKeys(input []byte) []view.Key {
	var keys []view.Key
	for len(input) > 0 {
		if input[0] == '\x1b' {
			n := sequenceLength(input)
			if key, known := sequences[string(input[:n])]; known {
				keys = append(keys, key)
			} else if n == 1 {
				keys = append(keys, view.KeyEscape)
			}
			input = input[n:]
			continue
		}
		r, n := utf8.DecodeRune(input)
		switch {
		case r == '\r' || r == '\n':
			keys = append(keys, view.KeyEnter)
		case r == '\x7f' || r == '\b':
			keys = append(keys, view.KeyBackspace)
		case r == '\x03':
			keys = append(keys, view.KeyInterrupt)
		case r != utf8.RuneError && unicode.IsPrint(r):
			keys = append(keys, view.Key(string(r)))
		}
		input = input[n:]
	}
	return keys
}

// sequenceLength returns the length of the escape sequence that the input begins with. It is 1
// for the key Esc.
func sequenceLength(input []byte) int {
	if len(input) < 2 || input[1] != '[' && input[1] != 'O' {
		return 1
	}
	for i, c := range input[2:] {
		if c >= '@' && c <= '~' {
			return i + 3
		}
	}
	return len(input)
}

// Keyboard reads keys from a terminal without waiting for Enter.
type Keyboard struct {
	fd    int
	state *term.State
	// Keys receives what is pressed. It is closed at the end of the input.
	Keys <-chan view.Key
}

// OpenKeyboard puts the terminal into raw mode until Close. Ctrl-C is then a key. The goroutine
// that reads from the terminal cannot be interrupted: it ends after the next key once ctx is
// done, or with the program.
func OpenKeyboard(ctx context.Context, in *os.File) (*Keyboard, error) {
	state, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, err
	}
	keys := make(chan view.Key)
	go readKeys(ctx, in, keys)
	return &Keyboard{fd: int(in.Fd()), state: state, Keys: keys}, nil
}

func readKeys(ctx context.Context, in io.Reader, keys chan<- view.Key) {
	defer close(keys)
	buffer := make([]byte, 256)
	for {
		n, err := in.Read(buffer)
		if err != nil {
			return
		}
		for _, key := range decodeKeys(buffer[:n]) {
			select {
			case keys <- key:
			case <-ctx.Done():
				return
			}
		}
	}
}

// Close restores the mode of the terminal.
func (k *Keyboard) Close() error { return term.Restore(k.fd, k.state) }

// MakeRaw puts a terminal into raw mode and returns what restores it.
func MakeRaw(in *os.File) (restore func() error, err error) {
	state, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, err
	}
	return func() error { return term.Restore(int(in.Fd()), state) }, nil
}
