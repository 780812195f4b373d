// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

// newTestLines returns the lines to members that accept connections, and never answer anything.
func newTestLines(t *testing.T, members int) *etcdLines {
	t.Helper()
	l := &etcdLines{}
	for range members {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = listener.Close() })
		l.members = append(l.members, &etcdMemberLine{address: listener.Addr().String(), open: map[*lineConn]struct{}{}})
	}
	return l
}

// dialAll connects to each member, and returns nil for those to which it cannot.
func (l *etcdLines) dialAll(t *testing.T) (conns []net.Conn) {
	t.Helper()
	for _, member := range l.members {
		conn, err := l.dial(t.Context(), "tcp", member.address)
		if err != nil {
			conn = nil
		} else {
			t.Cleanup(func() { _ = conn.Close() })
		}
		conns = append(conns, conn)
	}
	return conns
}

func isOpen(conn net.Conn) bool {
	_ = conn.SetReadDeadline(time.Now()) // the members say nothing
	_, err := conn.Read(make([]byte, 1))
	return !errors.Is(err, net.ErrClosed) && !errors.Is(err, io.EOF)
}

// TestSilentMemberGetsNoRequests checks that the connections to a member are closed if it has not answered twice,
// the second time while another one has, and only then.
func TestSilentMemberGetsNoRequests(t *testing.T) {
	const first = 0
	ok, no := error(nil), errors.New("no answer")
	for name, test := range map[string]struct {
		rounds [][]error // the answers of the three members
		cut    bool      // the first one
	}{
		"all answer":                        {[][]error{{ok, ok, ok}, {ok, ok, ok}}, false},
		"one round missed":                  {[][]error{{no, ok, ok}}, false},
		"two rounds missed":                 {[][]error{{no, ok, ok}, {no, ok, ok}}, true},
		"two rounds missed, not in a row":   {[][]error{{no, ok, ok}, {ok, ok, ok}, {no, ok, ok}}, false},
		"nobody answers":                    {[][]error{{no, no, no}, {no, no, no}, {no, no, no}}, false},
		"nobody answers, and then another":  {[][]error{{no, no, no}, {no, ok, ok}}, true},
		"nobody answers, and then all":      {[][]error{{no, no, no}, {no, no, no}, {ok, ok, ok}}, false},
		"two rounds missed, and then there": {[][]error{{no, ok, ok}, {no, ok, ok}, {ok, ok, ok}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := newTestLines(t, 3)
			before := l.dialAll(t)
			wasCut := false
			for _, answers := range test.rounds {
				l.judge(answers)
				wasCut = wasCut || !isOpen(before[first])
				if isOpen(before[first]) == l.members[first].silent && !wasCut {
					t.Error("a member that gets no requests keeps its connections")
				}
			}
			if got := l.dialAll(t)[first] == nil; got != test.cut {
				t.Errorf("no connection to the member: %t, want %t", got, test.cut)
			}
			if test.cut && isOpen(before[first]) {
				t.Error("the connection is still open")
			}
			if last := test.rounds[len(test.rounds)-1]; last[2] == nil && !isOpen(before[2]) {
				t.Error("the connection to a member that answers was closed")
			}
		})
	}
}

// TestConnectionsAreForgotten checks that connections that were closed are not kept.
func TestConnectionsAreForgotten(t *testing.T) {
	l := newTestLines(t, 1)
	for _, conn := range l.dialAll(t) {
		_ = conn.Close()
	}
	if n := len(l.members[0].open); n > 0 {
		t.Errorf("%d connections are kept", n)
	}
}
