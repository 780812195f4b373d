// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

// ReadPassword prints a prompt to out and reads a line from in, which must be a terminal, without
// showing what is typed.
func ReadPassword(in io.Reader, out io.Writer, prompt string) (string, error) {
	f, ok := in.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return "", errors.New("there is no terminal to ask on")
	}
	fmt.Fprint(out, prompt)
	password, err := term.ReadPassword(int(f.Fd()))
	fmt.Fprintln(out)
	return string(password), err
}
