// SPDX-License-Identifier: Apache-2.0

package line

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// short is how long a test waits for something that must not come.
const short = 50 * time.Millisecond

// long is how long one waits for what comes, in the end.
const long = 5 * time.Minute

// start returns a Line to a server that repeats each line of text, and how many lines it was told.
func start(t *testing.T) (l *Line, told <-chan string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	lines := make(chan string, 100)
	go func() { // ends with the listener, and what it starts with the Line
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for text := bufio.NewReader(conn); ; {
					line, err := text.ReadString('\n')
					if err != nil {
						return
					}
					lines <- line
					_, _ = io.WriteString(conn, line)
				}
			}()
		}
	}()
	if l, err = New(listener.Addr().String(), nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l, lines
}

// mustHold waits until what was said, or its answer, has come to a trouble.
func mustHold(t *testing.T, l *Line) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		l.mu.Lock()
		waiting := l.waiting
		l.mu.Unlock()
		if waiting > 0 {
			return
		}
		if time.Since(began) > long {
			t.Fatal("nothing is held up")
		}
	}
}

type talk struct {
	t *testing.T
	net.Conn
	text *bufio.Reader
}

func dial(t *testing.T, l *Line) talk {
	t.Helper()
	conn, err := net.Dial("tcp", l.Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return talk{t, conn, bufio.NewReader(conn)}
}

func (c talk) say(what string) {
	c.t.Helper()
	if _, err := io.WriteString(c, what+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

// hear returns the next line, or the error when there is none within a time.
func (c talk) hear(within time.Duration) (string, error) {
	c.t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(within)); err != nil {
		c.t.Fatal(err)
	}
	line, err := c.text.ReadString('\n')
	return line, err
}

func (c talk) mustHear(what string) {
	c.t.Helper()
	if line, err := c.hear(long); err != nil || line != what+"\n" {
		c.t.Fatalf("%q, %v instead of %q", line, err, what)
	}
}

func (c talk) mustHearNothing() {
	c.t.Helper()
	if line, err := c.hear(short); !errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatalf("%q, %v instead of nothing", line, err)
	}
}

func (c talk) mustBreak() {
	c.t.Helper()
	if line, err := c.hear(long); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatalf("%q, %v, and the connection is not broken", line, err)
	}
}

func TestHeldBytesArriveLate(t *testing.T) {
	for _, c := range []struct {
		name        string
		there, back Trouble
		arrives     bool
	}{{"there", Trouble{Hold: true}, Trouble{}, false}, {"back", Trouble{}, Trouble{Hold: true}, true}} {
		t.Run(c.name, func(t *testing.T) {
			l, told := start(t)
			client := dial(t, l)
			client.say("first")
			client.mustHear("first")
			<-told
			l.Set(c.there, c.back)
			client.say("second")
			mustHold(t, l)
			client.mustHearNothing()
			if arrived := len(told) == 1; arrived != c.arrives {
				t.Errorf("the server has heard it: %t instead of %t", arrived, c.arrives)
			}
			l.Set(Trouble{}, Trouble{})
			client.mustHear("second")
		})
	}
}

func TestLostAnswersBreakTheConnection(t *testing.T) {
	l, told := start(t)
	client := dial(t, l)
	l.Set(Trouble{}, Trouble{Lose: true})
	client.say("first")
	<-told
	mustHold(t, l)
	client.mustHearNothing()
	l.Set(Trouble{}, Trouble{})
	client.mustBreak()
}

func TestDelay(t *testing.T) {
	l, _ := start(t)
	client := dial(t, l)
	l.Set(Trouble{Delay: short}, Trouble{})
	began := time.Now()
	client.say("first")
	client.mustHear("first")
	if took := time.Since(began); took < short {
		t.Errorf("it took %s, less than %s", took, short)
	}
}

func TestRefuse(t *testing.T) {
	l, _ := start(t)
	client := dial(t, l)
	client.say("first")
	client.mustHear("first")
	l.Refuse(true)
	client.mustBreak()
	dial(t, l).mustBreak()
	l.Refuse(false)
	again := dial(t, l)
	again.say("second")
	again.mustHear("second")
}

func TestBrokenWhileHeld(t *testing.T) {
	l, told := start(t)
	client := dial(t, l)
	client.say("first")
	client.mustHear("first")
	<-told
	l.Set(Trouble{Hold: true}, Trouble{})
	client.say("second")
	l.Break()
	client.mustBreak()
	l.Set(Trouble{}, Trouble{})
	again := dial(t, l)
	again.say("third")
	again.mustHear("third")
}
