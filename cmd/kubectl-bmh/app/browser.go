// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// openBrowser opens a link with a secret in the user's browser. The browser gets a file that leads to
// the link, because everybody on this machine can see the arguments of programs. remove removes
// the file.
func (s *session) openBrowser(link string) (remove func(), err error) {
	remove = func() {}
	var command []string
	switch runtime.GOOS {
	case "darwin":
		command = []string{"open"}
	case "windows":
		command = []string{"rundll32", "url.dll,FileProtocolHandler"}
	default:
		if s.getenv("DISPLAY") == "" && s.getenv("WAYLAND_DISPLAY") == "" {
			return remove, errors.New("there is no display here")
		}
		command = []string{"xdg-open"}
	}
	dir, err := os.MkdirTemp("", "kubectl-bmh-") // only the user can read it
	if err != nil {
		return remove, err
	}
	remove = func() { _ = os.RemoveAll(dir) }
	file := filepath.Join(dir, "open.html")
	if err := os.WriteFile(file, redirect(link), 0o600); err != nil {
		return remove, err
	}
	cmd := exec.Command(command[0], append(command[1:], file)...)
	if err := cmd.Start(); err != nil {
		return remove, err
	}
	return remove, cmd.Process.Release() // it may be the browser itself, and last longer than the page
}

// redirect returns a document that leads to a link.
func redirect(link string) []byte {
	return fmt.Appendf(nil, "<!doctype html><meta charset=\"utf-8\"><meta name=\"referrer\" content=\"no-referrer\"><meta http-equiv=\"refresh\" content=\"0;url=%s\"><title>kubectl bmh ui</title>\n", html.EscapeString(link))
}
