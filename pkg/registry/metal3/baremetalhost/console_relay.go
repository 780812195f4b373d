// SPDX-License-Identifier: Apache-2.0

package baremetalhost

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gorilla/websocket"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/klog/v2"
)

// The channels of the WebSocket, as for pods/attach. The first byte of each message is its channel.
const (
	stdinChannel  = 0
	stdoutChannel = 1
	errorChannel  = 3
	// closeChannel ends the channel that the second byte names, in streamCloseProtocol only.
	closeChannel = 255
)

const streamCloseProtocol = "v5.channel.k8s.io"

// consoleProtocols are the protocols of pods/attach, in their binary form.
var consoleProtocols = []string{streamCloseProtocol, "v4.channel.k8s.io", "channel.k8s.io"}

// What a client may take, of memory and time.
const (
	// maxConsoleMessage is the size of a message of a client. kubectl sends at most 32 KiB in one.
	maxConsoleMessage = 64 << 10
	// messageTimeout bounds how long a message may take from its beginning to its end.
	messageTimeout = 20 * time.Second
	// pingInterval is how often a client is pinged, and silenceTimeout after what time a client is gone
	// that has neither answered nor sent anything else.
	pingInterval   = 30 * time.Second
	silenceTimeout = 75 * time.Second
	// sendTimeout bounds how long a client may take to receive a piece of output, and all that is left
	// of it when the console has ended.
	sendTimeout = 20 * time.Second
)

// consoleUser is the connection of a user to a console.
type consoleUser interface {
	io.Writer // types
	Output() <-chan []byte
	Ended() <-chan struct{}
	Err() error
	Close()
}

// checkIsConsoleProtocol returns an error for requests that cannot be upgraded to a console.
func checkIsConsoleProtocol(req *http.Request) error {
	if req.Method != http.MethodGet || !websocket.IsWebSocketUpgrade(req) {
		return errors.New("a console is a WebSocket: connect with GET and the headers of an upgrade, as kubectl bmh console does")
	}
	for _, offered := range websocket.Subprotocols(req) {
		if slices.Contains(consoleProtocols, offered) {
			return nil
		}
	}
	return errors.New("a console needs one of the subprotocols " + strings.Join(consoleProtocols, ", "))
}

// upgrade makes a WebSocket of a request. An error has been sent to the client.
func upgrade(w http.ResponseWriter, req *http.Request, responder rest.Responder) (*websocket.Conn, error) {
	upgrader := websocket.Upgrader{
		Subprotocols:     consoleProtocols,
		HandshakeTimeout: sendTimeout,
		// Credentials are in headers and certificates, and not in cookies, which a web site could use.
		CheckOrigin: func(*http.Request) bool { return true },
		Error: func(_ http.ResponseWriter, _ *http.Request, _ int, reason error) {
			responder.Error(apierrors.NewBadRequest(reason.Error()))
		},
	}
	return upgrader.Upgrade(w, req, nil)
}

// relay passes on what is typed and shown until one side ends. Then it closes the WebSocket.
func relay(ctx context.Context, socket *websocket.Conn, user consoleUser) {
	typing := make(chan struct{})
	defer func() { <-typing }()
	defer socket.Close() // ends the typing
	defer user.Close()
	go func() {
		defer close(typing)
		defer user.Close()
		if err := receive(socket, user); err != nil {
			klog.FromContext(ctx).V(2).Info("The connection of a user to a console has ended", "reason", err.Error())
		}
	}()
	show(socket, user)
}

// receive types what the client sends, until it ends the connection or does not keep to the limits.
func receive(socket *websocket.Conn, user consoleUser) error {
	// A longer message ends the connection with the status 1009 (message too big).
	socket.SetReadLimit(maxConsoleMessage)
	unfinished := false // whether a part of a message has been received
	isAlive := func() error {
		if unfinished { // pings between its fragments do not give it more time
			return nil
		}
		return socket.SetReadDeadline(time.Now().Add(silenceTimeout))
	}
	socket.SetPongHandler(func(string) error { return isAlive() })
	socket.SetPingHandler(func(data string) error {
		if err := socket.WriteControl(websocket.PongMessage, []byte(data), time.Now().Add(sendTimeout)); err != nil {
			return err
		}
		return isAlive()
	})
	for {
		if err := isAlive(); err != nil {
			return err
		}
		_, reader, err := socket.NextReader()
		if err != nil {
			return err
		}
		unfinished = true
		if err := socket.SetReadDeadline(time.Now().Add(messageTimeout)); err != nil {
			return err
		}
		message, err := io.ReadAll(reader)
		if err != nil {
			return err
		}
		unfinished = false
		switch {
		case len(message) == 0:
		case message[0] == stdinChannel:
			if _, err := user.Write(message[1:]); err != nil {
				return err
			}
		case message[0] == closeChannel && socket.Subprotocol() == streamCloseProtocol:
			if len(message) == 2 && message[1] == stdinChannel {
				return nil
			}
		}
	}
}

// show sends the client what the machine shows, until the console has ended or the client is gone.
func show(socket *websocket.Conn, user consoleUser) {
	ping := time.NewTicker(pingInterval)
	defer ping.Stop()
	for {
		select {
		case output := <-user.Output():
			if send(socket, stdoutChannel, output, time.Now().Add(sendTimeout)) != nil {
				return
			}
		case <-ping.C:
			if socket.WriteControl(websocket.PingMessage, nil, time.Now().Add(sendTimeout)) != nil {
				return
			}
		case <-user.Ended():
			deadline := time.Now().Add(sendTimeout)
			for len(user.Output()) > 0 { // what came before the end; nothing is added after it
				if send(socket, stdoutChannel, <-user.Output(), deadline) != nil {
					return
				}
			}
			status, err := json.Marshal(endOf(user.Err()))
			if err == nil && send(socket, errorChannel, status, deadline) == nil {
				_ = socket.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), deadline)
			}
			return
		}
	}
}

// send sends a message in one frame. After an error, nothing more can be sent.
func send(socket *websocket.Conn, channel byte, data []byte, deadline time.Time) error {
	if err := socket.SetWriteDeadline(deadline); err != nil {
		return err
	}
	return socket.WriteMessage(websocket.BinaryMessage, append([]byte{channel}, data...))
}

// endOf returns the Status with which a console ends.
func endOf(reason error) *metav1.Status {
	if reason == nil {
		return &metav1.Status{Status: metav1.StatusSuccess}
	}
	return &metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonUnknown, Message: reason.Error()}
}
