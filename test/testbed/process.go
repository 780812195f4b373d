// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// process is a program that runs in its own process group and writes to a log file.
type process struct {
	name string
	log  string
	cmd  *exec.Cmd
	// exited is closed when the program has ended. After that, err is the error of Wait.
	exited chan struct{}
	err    error
	// swept is set when the whole process group has ended. Its ID may have been reused since.
	swept bool
}

// command describes how to start a process.
type command struct {
	// name is used in errors.
	name string
	// log is the file to which stdout and stderr are appended.
	log  string
	path string
	args []string
	// env is added to the environment of this program.
	env []string
	// onParentDeath is the signal that the program gets when this process dies without having
	// stopped it. The default is SIGKILL. A program with worker processes must get SIGTERM, because
	// nothing else would end its workers.
	onParentDeath syscall.Signal
}

// within returns the command as it runs after the beginning of another one, such as nsenter, unless that is empty.
func (c command) within(enter []string) command {
	if len(enter) > 0 {
		c.args = slices.Concat(enter[1:], []string{c.path}, c.args)
		c.path = enter[0]
	}
	return c
}

func (c command) start() (*process, error) {
	logFile, err := os.OpenFile(c.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	// The child has its own copy of the file descriptor.
	defer logFile.Close()
	if c.onParentDeath == 0 {
		c.onParentDeath = syscall.SIGKILL
	}
	cmd := exec.Command(c.path, c.args...)
	cmd.Stdout, cmd.Stderr = logFile, logFile
	cmd.Env = append(os.Environ(), c.env...)
	// Linux sends Pdeathsig when the *thread* that forked ends. Go ends a thread only if a
	// goroutine has locked it and returned, which does not happen here.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: c.onParentDeath}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", c.name, err)
	}
	p := &process{name: c.name, log: c.log, cmd: cmd, exited: make(chan struct{})}
	go func() { // ends with the program
		p.err = cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

func (p *process) alive() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// waitReady calls check until it returns nil. It fails if the program ends, and after Patience or when
// ctx ends, with the last error of check and the end of the log.
func (p *process) waitReady(ctx context.Context, check func(context.Context) error) error {
	err := poll(ctx, func(ctx context.Context) error {
		if !p.alive() {
			return errEnded
		}
		return check(ctx)
	})
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errEnded):
		return fmt.Errorf("%s ended (%v) before it was ready:\n%s", p.name, p.err, tail(p.log))
	default:
		return fmt.Errorf("%s is not ready: %w; the end of %s:\n%s", p.name, err, p.log, tail(p.log))
	}
}

// signal sends a signal to the whole process group.
func (p *process) signal(sig syscall.Signal) error {
	if p == nil || p.swept {
		return nil
	}
	err := syscall.Kill(-p.cmd.Process.Pid, sig)
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}

// stop sends SIGTERM to the program. If it has not ended after Patience, stop kills it and returns an
// error. In both cases, it then kills the rest of the process group.
func (p *process) stop() error {
	if p == nil {
		return nil
	}
	err := errors.Join(p.signal(syscall.SIGTERM), p.signal(syscall.SIGCONT))
	if p.alive() {
		timer := time.NewTimer(Patience)
		defer timer.Stop()
		select {
		case <-p.exited:
		case <-timer.C:
			err = errors.Join(err, fmt.Errorf("%s did not end within %v of SIGTERM and was killed; the end of %s:\n%s", p.name, Patience, p.log, tail(p.log)))
		}
	}
	return errors.Join(err, p.kill())
}

// kill kills the whole process group, like a power failure.
func (p *process) kill() error {
	if p == nil {
		return nil
	}
	err := p.signal(syscall.SIGKILL)
	<-p.exited
	p.swept = true
	return err
}

var errEnded = errors.New("the program has ended")

// poll calls check every 50 ms until it returns nil, for at most Patience. Its error includes the last
// error of check.
func poll(ctx context.Context, check func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, Patience, true, func(ctx context.Context) (bool, error) {
		// A single call that hangs must not use up the whole time.
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		err := check(ctx)
		if err == nil || errors.Is(err, errEnded) {
			return err == nil, err
		}
		// An error due to the time limit is less informative than an earlier error.
		if last == nil || ctx.Err() == nil {
			last = err
		}
		return false, nil
	})
	if err != nil && last != nil && !errors.Is(err, errEnded) {
		return fmt.Errorf("%w (%w)", last, err)
	}
	return err
}

// tail returns the end of a log, for error messages.
func tail(path string) string {
	const maxBytes = 4096
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	if len(content) > maxBytes {
		content = content[len(content)-maxBytes:]
		if i := bytes.IndexByte(content, '\n'); i >= 0 {
			content = content[i+1:]
		}
	}
	return string(content)
}

// ports are those from which freePort chooses. They are below the ones that Linux gives to outgoing connections, any of
// which could otherwise take the port of a program before it has started, or while it is stopped. Ironic's consoles have
// those from 27000 on.
const firstPort, lastPort = 12000, 26999

// freePorts are the ports that this process has chosen.
var freePorts sync.Map

// freePort returns a TCP port of 127.0.0.1 on which nothing listens, and that it has not returned before.
func freePort() (int, error) {
	var err error
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		if _, chosen := freePorts.LoadOrStore(port, true); chosen {
			continue
		}
		var l net.Listener
		if l, err = net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port)); err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("no free port: %w", err)
}

// cpuTime is the sum over the process group, of those that have not ended.
func (p *process) cpuTime() (time.Duration, error) {
	paths, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	const ticks = 100 // a second, on all that Linux runs on
	sum := time.Duration(0)
	for _, path := range paths {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended meanwhile
		}
		// After the name, which may have anything in it: state ppid pgrp ..., and as the
		// 12th and 13th of these utime and stime.
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(fields) < 13 || fields[2] != strconv.Itoa(p.cmd.Process.Pid) {
			continue
		}
		for _, field := range fields[11:13] {
			n, err := strconv.ParseInt(field, 10, 64)
			if err != nil {
				return 0, fmt.Errorf("%s: %w", path, err)
			}
			sum += time.Duration(n) * time.Second / ticks
		}
	}
	return sum, nil
}
