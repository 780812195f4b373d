// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// openTerminal returns both ends of a terminal of its own.
func openTerminal(t *testing.T) (user, program *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("there are no terminals here:", err)
	}
	t.Cleanup(func() { _ = user.Close() })
	if err := unix.IoctlSetPointerInt(int(user.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(user.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = program.Close() })
	return user, program
}

func echoes(t *testing.T, f *os.File) bool {
	t.Helper()
	state, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return state.Lflag&unix.ECHO != 0
}

// awaitEcho waits until the terminal shows what is typed, or does not.
func awaitEcho(t *testing.T, f *os.File, want bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for echoes(t, f) != want {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal("the terminal has not changed")
		}
	}
}

// TestReadPassword: a password is not shown, and Ctrl-C at the prompt leaves a terminal that shows again what is typed.
func TestReadPassword(t *testing.T) {
	user, program := openTerminal(t)
	type answer struct {
		password string
		err      error
	}
	ask := func(ctx context.Context) <-chan answer {
		answers := make(chan answer, 1)
		go func() {
			password, err := ReadPassword(ctx, program, &bytes.Buffer{}, "Password: ")
			answers <- answer{password, err}
		}()
		awaitEcho(t, program, false)
		return answers
	}
	answers := ask(t.Context())
	if _, err := user.WriteString("s3cret\n"); err != nil {
		t.Fatal(err)
	}
	if got := <-answers; got.password != "s3cret" || got.err != nil {
		t.Errorf("typed: %+v", got)
	}
	awaitEcho(t, program, true)

	ctx, interrupt := context.WithCancel(t.Context())
	answers = ask(ctx)
	interrupt()
	if got := <-answers; !errors.Is(got.err, context.Canceled) || got.password != "" {
		t.Errorf("interrupted: %+v", got)
	}
	if !echoes(t, program) {
		t.Error("after Ctrl-C, the terminal does not show what is typed")
	}
}
