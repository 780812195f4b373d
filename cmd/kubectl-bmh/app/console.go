// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/terminal"
	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/view"
)

// leaveKey is Ctrl-], as in telnet and virtctl: no shell and no boot loader uses it.
const leaveKey = 0x1d

// quietTime is how long the machine must have shown nothing after the end of the input, where the
// input is no terminal.
const quietTime = 3 * time.Second

func newConsoleCommand(s *session) *cobra.Command {
	var force, share bool
	cmd := &cobra.Command{
		Use:     "console NAME",
		GroupID: groupAct,
		Short:   "Use the serial console of a host",
		Long: `Connects the terminal with the serial console of a machine, by serial over LAN. Ctrl-] leaves it.

If the input is no terminal, it is typed, and the session ends when the machine has shown nothing for
three seconds after that. The exit code is 1 if the session was ended by anything but the user.`,
		Example: `  kubectl bmh console worker-0
  kubectl bmh console worker-0 --force
  printf 'root\r' | kubectl bmh console worker-0`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: s.completeOneHost,
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.console(cmd.Context(), args[0], force, share)
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "Take the console over from whoever uses it")
	cmd.Flags().BoolVar(&share, "share", false, "Let others join, or join a shared session")
	return cmd
}

func (s *session) console(ctx context.Context, name string, force, share bool) (err error) {
	clients, namespace, err := s.connect()
	if err != nil {
		return err
	}
	config, err := s.config()
	if err != nil {
		return err
	}
	if err := clients.needServer(ctx, "the console of a host"); err != nil {
		return err
	}
	config.Timeout = 0 // --request-timeout would end the session
	request := clients.metal3.Metal3V1alpha1().RESTClient().Get().Namespace(namespace).Resource("baremetalhosts").Name(name).SubResource("console")
	if force {
		request.Param("force", "true")
	}
	if share {
		request.Param("share", "true")
	}
	executor, err := remotecommand.NewWebSocketExecutor(config, "GET", request.URL().String())
	if err != nil {
		return err
	}
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	in := &consoleInput{ctx: ctx, in: s.In, leave: leave}
	out := &consoleOutput{out: s.Out, shown: make(chan struct{}, 1)}
	fmt.Fprintf(s.ErrOut, "connecting to the console of %s; Ctrl-] leaves it\n", view.Clean(name))
	if f, ok := s.In.(*os.File); ok && terminal.IsTerminal(f) {
		in.isTerminal = true
		restore, err := terminal.MakeRaw(f)
		if err != nil {
			return err
		}
		defer func() { err = cmp.Or(err, restore()) }()
	}
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer leave()
	if !in.isTerminal {
		in.ended = make(chan struct{})
		waiting.Go(func() { endWhenQuiet(ctx, in.ended, out.shown, leave) })
	}
	err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: in, Stdout: out, Tty: true})
	out.close()
	if in.left.Load() || !in.isTerminal && ctx.Err() != nil && in.hasEnded.Load() {
		fmt.Fprint(s.ErrOut, "\r\nleft the console\r\n")
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil {
		err = errors.New("the console has ended")
	}
	return fmt.Errorf("%s", strings.TrimSpace(view.Clean(err.Error())))
}

// consoleInput is what is typed. It never ends, because the end of what is typed would end the
// console before the machine has answered.
type consoleInput struct {
	ctx        context.Context
	in         io.Reader
	leave      func()
	isTerminal bool
	// left is set when the user has pressed Ctrl-].
	left atomic.Bool
	// ended is closed at the end of an input that is no terminal, and hasEnded is set.
	ended    chan struct{}
	hasEnded atomic.Bool
}

// Read implements io.Reader. Ctrl-] ends the session wherever it is in what was read.
func (c *consoleInput) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	if i := bytes.IndexByte(p[:n], leaveKey); i >= 0 && c.isTerminal {
		c.left.Store(true)
		c.leave()
		return i, nil
	}
	if err == nil || n > 0 {
		return n, nil
	}
	if c.isTerminal { // it has gone
		c.left.Store(true)
		c.leave()
	} else if !c.hasEnded.Swap(true) {
		close(c.ended)
	}
	<-c.ctx.Done()
	return 0, io.EOF
}

// consoleOutput is what the machine shows. Nothing is cleaned from it: it is a terminal.
type consoleOutput struct {
	// shown receives a value after each piece.
	shown chan struct{}

	mu  sync.Mutex
	out io.Writer // nil when the session has ended
}

// close drops what is still received: the client of a WebSocket returns before it has stopped
// copying.
func (c *consoleOutput) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out = nil
}

func (c *consoleOutput) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.out == nil {
		return 0, io.ErrClosedPipe
	}
	select {
	case c.shown <- struct{}{}:
	default:
	}
	return c.out.Write(p)
}

// endWhenQuiet ends the session when nothing was shown for a while after the end of the input.
func endWhenQuiet(ctx context.Context, ended, shown <-chan struct{}, leave func()) {
	select {
	case <-ended:
	case <-ctx.Done():
		return
	}
	quiet := time.NewTimer(quietTime)
	defer quiet.Stop()
	for {
		select {
		case <-quiet.C:
			leave()
			return
		case <-shown:
			quiet.Reset(quietTime)
		case <-ctx.Done():
			return
		}
	}
}
