// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

// Await returns what read returns, or the error of ctx when that ends: a read of a terminal does not end with Ctrl-C. Such a read then
// goes on until the process ends, so nothing else may be read from there.
func Await[T any](ctx context.Context, read func() (T, error)) (value T, err error) {
	if ctx.Err() != nil {
		return value, ctx.Err()
	}
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := read()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		return value, ctx.Err()
	}
}

// ReadPassword prints a prompt to out and reads a line from in, which must be a terminal, without
// showing what is typed. When ctx ends, the terminal shows again what is typed.
func ReadPassword(ctx context.Context, in io.Reader, out io.Writer, prompt string) (string, error) {
	f, ok := in.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return "", errors.New("there is no terminal to ask on")
	}
	fd := int(f.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return "", err
	}
	fmt.Fprint(out, prompt)
	password, err := Await(ctx, func() ([]byte, error) { return term.ReadPassword(fd) })
	if ctx.Err() != nil {
		err = errors.Join(err, term.Restore(fd, before))
	}
	fmt.Fprintln(out)
	return string(password), err
}
