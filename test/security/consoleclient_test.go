// SPDX-License-Identifier: Apache-2.0

package security

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"k8s.io/client-go/rest"

	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// withConsoles gives the simulated Ironic consoles: they are enabled at once, and all are the serial
// line at the given address.
func withConsoles(sim *testbed.SimulatedIronic, line net.Addr) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", sim.Handler())
	mux.HandleFunc("PUT /v1/nodes/{node}/states/console", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if err := sim.SetNode(r.PathValue("node"), map[string]any{"console_enabled": strings.Contains(string(body), "true")}); err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		w.WriteHeader(http.StatusAccepted)
	})
	mux.HandleFunc("GET /v1/nodes/{node}/states/console", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"console_enabled":true,"console_info":{"type":"socat","url":"tcp://%s"}}`, line)
	})
	return mux
}

// startSerialLine serves a serial line that shows what is typed.
func startSerialLine() (net.Listener, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	return listener, nil
}

// makeConsole creates a host, and waits until it is available and has a console.
func makeConsole(t *testing.T, ctx context.Context, ns, name string) (path string) {
	t.Helper()
	secret := "bmc-of-" + name
	s.CreateSecret(t, ctx, ns, secret, map[string]string{"username": "admin", "password": "theirs"})
	createHost(t, ctx, ns, name, simulator(t).NewBMC("admin", "theirs"), secret)
	host := waitHost(t, ctx, ns, name, "available", isAvailable)
	if err := simulator(t).SetNode(host.Status.Provisioning.ID, map[string]any{"console_interface": "ipmitool-socat"}); err != nil {
		t.Fatal(err)
	}
	return groupVersion + "/namespaces/" + ns + "/baremetalhosts/" + name + "/console"
}

// joined is a connection to a console, or the refusal of one. Its frames are made by hand.
type joined struct {
	net.Conn
	reader *bufio.Reader
	code   int
	header http.Header
	body   string
}

// join asks for a console.
func join(ctx context.Context, server string, certificate tls.Certificate, path string) (*joined, error) {
	address, err := url.Parse(server)
	if err != nil {
		return nil, err
	}
	dialer := tls.Dialer{Config: &tls.Config{
		InsecureSkipVerify: true, NextProtos: []string{"http/1.1"},
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &certificate, nil },
	}}
	conn, err := dialer.DialContext(ctx, "tcp", address.Host)
	if err != nil {
		return nil, err
	}
	j := &joined{Conn: conn, reader: bufio.NewReader(conn)}
	if err := j.handshake(path, address.Host); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return j, nil
}

func (j *joined) handshake(path, host string) error {
	if err := j.SetDeadline(time.Now().Add(testbed.Patience)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(j, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"+
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\n\r\n", path, host); err != nil {
		return err
	}
	response, err := http.ReadResponse(j.reader, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
	if err != nil {
		return err
	}
	j.code, j.header = response.StatusCode, response.Header
	if j.code == http.StatusSwitchingProtocols {
		return nil
	}
	body, err := io.ReadAll(response.Body)
	j.body = string(body)
	return err
}

// frameOf begins a frame of length bytes for stdin, masked with zeros.
func frameOf(length int) []byte {
	header := binary.BigEndian.AppendUint64([]byte{0x80 | websocket.BinaryMessage, 0x80 | 127}, uint64(length))
	return append(header, 0, 0, 0, 0)
}

// end waits until the server ends the connection, and returns the code of its close frame, or 0.
func (j *joined) end() (code int, err error) {
	for {
		header := make([]byte, 2)
		if _, err := io.ReadFull(j.reader, header); err != nil {
			return code, err
		}
		length := int(header[1])
		if length == 126 {
			extended := make([]byte, 2)
			if _, err := io.ReadFull(j.reader, extended); err != nil {
				return code, err
			}
			length = int(binary.BigEndian.Uint16(extended))
		}
		payload := make([]byte, length)
		if _, err := io.ReadFull(j.reader, payload); err != nil {
			return code, err
		}
		if header[0]&0x0f == websocket.CloseMessage && length >= 2 {
			code = int(binary.BigEndian.Uint16(payload))
		}
	}
}

// mustJoin joins as soon as there is a place.
func mustJoin(t *testing.T, ctx context.Context, server *rest.Config, certificate tls.Certificate, path string) (j *joined) {
	t.Helper()
	eventually(t, ctx, func() string {
		var err error
		if j, err = join(ctx, server.Host, certificate, path); err != nil {
			return err.Error()
		}
		if j.code != http.StatusSwitchingProtocols {
			_ = j.Close()
			return fmt.Sprintf("%d %s", j.code, j.body)
		}
		return ""
	})
	return j
}
