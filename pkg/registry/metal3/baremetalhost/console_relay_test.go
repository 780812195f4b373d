// SPDX-License-Identifier: Apache-2.0

package baremetalhost

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fakeConsole is the connection of a user to a console that keeps what is typed.
type fakeConsole struct {
	output chan []byte
	ended  chan struct{}

	mu     sync.Mutex
	left   bool
	reason error
	typed  strings.Builder
}

func (f *fakeConsole) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.typed.Write(p)
}

func (f *fakeConsole) Output() <-chan []byte  { return f.output }
func (f *fakeConsole) Ended() <-chan struct{} { return f.ended }
func (f *fakeConsole) Err() error             { return f.reason }
func (f *fakeConsole) Close()                 { f.end(nil) }

func (f *fakeConsole) end(reason error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.left {
		f.left, f.reason = true, reason
		close(f.ended)
	}
}

func (f *fakeConsole) hasTyped() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.typed.String()
}

// hijacked is a response whose connection is one end of a pipe.
type hijacked struct {
	http.ResponseWriter
	conn net.Conn
}

func (h hijacked) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return h.conn, bufio.NewReadWriter(bufio.NewReader(h.conn), bufio.NewWriter(h.conn)), nil
}

// relayClient is a client of a console that sends frames by hand.
type relayClient struct {
	t       *testing.T
	conn    net.Conn
	console *fakeConsole
	done    chan struct{} // closed when relay has returned
}

// startRelay starts a relay in the bubble of a synctest.
func startRelay(t *testing.T, protocol string) *relayClient {
	t.Helper()
	client, server := net.Pipe()
	c := &relayClient{t: t, conn: client, console: &fakeConsole{output: make(chan []byte, 64), ended: make(chan struct{})}, done: make(chan struct{})}
	request := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	for key, value := range map[string]string{
		"Connection": "Upgrade", "Upgrade": "websocket", "Sec-Websocket-Version": "13",
		"Sec-Websocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-Websocket-Protocol": protocol,
	} {
		request.Header.Set(key, value)
	}
	if err := checkIsConsoleProtocol(request); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.done)
		socket, err := upgrade(hijacked{httptest.NewRecorder(), server}, request, nil)
		if err != nil {
			t.Error(err)
			return
		}
		relay(t.Context(), socket, c.console)
	}()
	reader := bufio.NewReader(c.conn)
	response, err := http.ReadResponse(reader, request)
	if err != nil || response.StatusCode != http.StatusSwitchingProtocols || response.Header.Get("Sec-Websocket-Protocol") != protocol || reader.Buffered() > 0 {
		t.Fatal(response, err)
	}
	return c
}

// write sends bytes as they are.
func (c *relayClient) write(bytes ...byte) {
	c.t.Helper()
	if _, err := c.conn.Write(bytes); err != nil {
		c.t.Fatal(err)
	}
}

// frame returns a masked frame, whose mask is zero, that announces length bytes and has these.
func frame(first byte, length int, payload ...byte) []byte {
	header := []byte{first, 0x80 | byte(length)}
	if length > 125 {
		header = binary.BigEndian.AppendUint64([]byte{first, 0x80 | 127}, uint64(length))
	}
	return append(append(header, 0, 0, 0, 0), payload...)
}

const (
	final    = 0x80
	binaryOp = websocket.BinaryMessage
	pongOp   = websocket.PongMessage
)

// read returns the next frame of the server.
func (c *relayClient) read() (op byte, payload []byte, err error) {
	header := make([]byte, 2)
	if _, err := io.ReadFull(c.conn, header); err != nil {
		return 0, nil, err
	}
	length := uint64(header[1])
	if length == 126 {
		extended := make([]byte, 2)
		if _, err := io.ReadFull(c.conn, extended); err != nil {
			return 0, nil, err
		}
		length = uint64(binary.BigEndian.Uint16(extended))
	}
	payload = make([]byte, length)
	_, err = io.ReadFull(c.conn, payload)
	return header[0] & 0x0f, payload, err
}

// discard receives everything that the server sends until it hangs up.
func (c *relayClient) discard() { go func() { _, _ = io.Copy(io.Discard, c.conn) }() }

// waitEnd waits until the relay has returned, and returns how long that took.
func (c *relayClient) waitEnd(since time.Time) time.Duration {
	<-c.done
	if !c.console.left {
		c.t.Error("the relay has ended, and the user is still at the console")
	}
	return time.Since(since)
}

func TestRelayPassesOn(t *testing.T) {
	for _, protocol := range consoleProtocols {
		synctest.Test(t, func(t *testing.T) {
			c := startRelay(t, protocol)
			c.write(frame(final|binaryOp, 6, 0, 'h', 'e', 'l', 'l', 'o')...)
			c.write(frame(binaryOp, 3, 0, ',', ' ')...) // in two fragments
			c.write(frame(final, 5, 'w', 'o', 'r', 'l', 'd')...)
			c.write(frame(final|binaryOp, 0)...)
			c.write(frame(final|binaryOp, 3, 4, '{', '}')...) // the size of the terminal
			c.write(frame(final|websocket.PingMessage, 1, 'p')...)
			if op, payload, err := c.read(); op != pongOp || string(payload) != "p" || err != nil {
				t.Errorf("a ping is answered by %d %q %v", op, payload, err)
			}
			if typed := c.console.hasTyped(); typed != "hello, world" {
				t.Errorf("typed %q", typed)
			}
			long := strings.Repeat("x", 10_000)
			c.console.output <- []byte(long)
			if op, payload, err := c.read(); op != binaryOp || string(payload) != "\x01"+long || err != nil {
				t.Errorf("shown: %d, %d bytes, %v", op, len(payload), err)
			}
			c.console.output <- []byte("last words")
			if protocol == streamCloseProtocol {
				c.write(frame(final|binaryOp, 2, closeChannel, stdinChannel)...)
			} else {
				c.console.end(nil)
			}
			for _, want := range []string{"\x01last words", "\x03" + `{"metadata":{},"status":"Success"}`, "\x03\xe8"} {
				if _, payload, err := c.read(); string(payload) != want || err != nil {
					t.Errorf("at the end: %q %v, want %q", payload, err, want)
				}
			}
			c.waitEnd(time.Now())
		})
	}
}

func TestRelaySaysWhyAConsoleHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startRelay(t, streamCloseProtocol)
		c.console.end(errors.New("bob has taken over"))
		_, payload, err := c.read()
		var status metav1.Status
		if err != nil || payload[0] != errorChannel || json.Unmarshal(payload[1:], &status) != nil || status.Status != metav1.StatusFailure || status.Message != "bob has taken over" {
			t.Errorf("told %q %v", payload, err)
		}
		c.discard()
		c.waitEnd(time.Now())
	})
}

// TestRelayBoundsMessages: a message that is too large ends the connection before it is received.
func TestRelayBoundsMessages(t *testing.T) {
	for name, attack := range map[string][]byte{
		"one frame":       frame(final|binaryOp, 32<<20),
		"a byte too many": frame(final|binaryOp, maxConsoleMessage+1),
		"fragments":       append(frame(binaryOp, 2, 0, 'x'), frame(final, maxConsoleMessage)...),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := startRelay(t, streamCloseProtocol)
				began := time.Now()
				c.write(attack...)
				if op, payload, err := c.read(); op != websocket.CloseMessage || len(payload) < 2 || binary.BigEndian.Uint16(payload) != websocket.CloseMessageTooBig || err != nil {
					t.Errorf("answered %d %q %v", op, payload, err)
				}
				c.discard()
				if took := c.waitEnd(began); took > 0 {
					t.Errorf("it took %s", took)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		c := startRelay(t, streamCloseProtocol)
		c.write(frame(final|binaryOp, maxConsoleMessage, make([]byte, maxConsoleMessage)...)...)
		synctest.Wait()
		if typed := len(c.console.hasTyped()); typed != maxConsoleMessage-1 {
			t.Errorf("of the largest message, %d bytes are typed", typed)
		}
		_ = c.conn.Close()
		c.waitEnd(time.Now())
	})
}

// TestRelayBoundsTime: the server waits neither for the rest of a message, nor for a silent client, nor
// for one that does not receive.
func TestRelayBoundsTime(t *testing.T) {
	tests := map[string]struct {
		attack func(c *relayClient)
		want   time.Duration
	}{
		"silence":            {func(c *relayClient) { c.discard() }, silenceTimeout},
		"a part of a header": {func(c *relayClient) { c.discard(); c.write(final | binaryOp) }, silenceTimeout},
		"an unfinished frame": {func(c *relayClient) {
			c.discard()
			c.write(frame(final|binaryOp, maxConsoleMessage, 0, 'x')...)
		}, messageTimeout},
		"a frame that comes byte by byte": {func(c *relayClient) {
			c.discard()
			c.write(frame(final|binaryOp, maxConsoleMessage)...)
			c.writeEach(0)
		}, messageTimeout},
		"an unfinished message with pongs between": {func(c *relayClient) {
			c.discard()
			c.write(frame(binaryOp, 2, 0, 'x')...)
			c.writeEach(frame(final|pongOp, 0)...)
		}, messageTimeout},
		"a client that does not receive": {func(c *relayClient) { c.console.output <- []byte("x") }, 2 * sendTimeout},
		"a client that receives no pong": {func(c *relayClient) { c.write(frame(final|websocket.PingMessage, 0)...) }, 2 * sendTimeout},
		"a client that does not receive the end": {func(c *relayClient) {
			for range 60 {
				c.console.output <- []byte("x")
			}
			c.console.end(nil)
		}, 2 * sendTimeout},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := startRelay(t, streamCloseProtocol)
				began := time.Now()
				test.attack(c)
				if took := c.waitEnd(began); took > test.want {
					t.Errorf("it took %s, want %s at most", took, test.want)
				}
				_ = c.conn.Close()
			})
		})
	}
}

// writeEach writes the same again and again, until the server hangs up, or should have.
func (c *relayClient) writeEach(bytes ...byte) {
	go func() {
		defer c.conn.Close()
		for range 1000 {
			if _, err := c.conn.Write(bytes); err != nil {
				return
			}
			select {
			case <-time.After(time.Second):
			case <-c.done:
				return
			}
		}
	}()
}

// TestRelayKeepsWhoIsThere: who answers pings stays connected, however long nothing is typed.
func TestRelayKeepsWhoIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startRelay(t, streamCloseProtocol)
		for began := time.Now(); time.Since(began) < time.Hour; {
			op, payload, err := c.read()
			if op != websocket.PingMessage || err != nil {
				t.Fatalf("after %s: %d %q %v", time.Since(began), op, payload, err)
			}
			c.write(frame(final|pongOp, 0)...)
		}
		c.write(frame(final|websocket.CloseMessage, 0)...)
		c.discard()
		c.waitEnd(time.Now())
	})
}

func TestWhatIsNoConsole(t *testing.T) {
	good := map[string]string{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-Websocket-Protocol": "base64.channel.k8s.io, channel.k8s.io"}
	for name, test := range map[string]struct {
		method, header, value, says string
	}{
		"a console":         {method: http.MethodGet},
		"a POST":            {method: http.MethodPost, says: "WebSocket"},
		"no upgrade":        {method: http.MethodGet, header: "Upgrade", says: "WebSocket"},
		"another protocol":  {method: http.MethodGet, header: "Sec-Websocket-Protocol", value: "base64.channel.k8s.io", says: "v5.channel.k8s.io"},
		"without protocols": {method: http.MethodGet, header: "Sec-Websocket-Protocol", says: "v5.channel.k8s.io"},
	} {
		request := httptest.NewRequest(test.method, "/", http.NoBody)
		for key, value := range good {
			request.Header.Set(key, value)
		}
		if test.header != "" {
			request.Header.Set(test.header, test.value)
		}
		err := checkIsConsoleProtocol(request)
		if (err != nil) != (test.says != "") || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
