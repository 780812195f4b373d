// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/gorilla/websocket"
)

const pastedBytes = 100_000

// serveConsole is the serial console of a machine, by the protocol of pods/attach. It answers in upper case, and
// a second line ends it with a reason. Of long texts it counts the bytes.
func serveConsole(t *testing.T) http.HandlerFunc {
	upgrader := websocket.Upgrader{Subprotocols: []string{"v5.channel.k8s.io"}}
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/apis/metal3.io/v1alpha1/namespaces/metal3/baremetalhosts/rack1-u01/console" {
			http.NotFound(w, r)
			return
		}
		if protocols := websocket.Subprotocols(r); len(protocols) != 1 || r.Header.Get("Cookie") != "" || r.Header.Get("Origin") != "http://"+r.Host {
			t.Errorf("the cluster receives the subprotocols %q and the headers %v", protocols, r.Header)
		}
		connection, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer connection.Close()
		connection.SetReadLimit(64 << 10) // as the server does
		send := func(channel byte, text string) {
			if err := connection.WriteMessage(websocket.BinaryMessage, append([]byte{channel}, text...)); err != nil {
				t.Error(err)
			}
		}
		send(1, "\x1b[2J<b>login</b>: \x1b]0;title\x07")
		pasted := 0
		for lines := 0; ; {
			_, message, err := connection.ReadMessage()
			if err != nil {
				return // the user has left
			}
			if len(message) == 0 || message[0] != 0 {
				t.Errorf("the cluster receives %q", message)
				return
			}
			if len(message) > 1000 {
				if pasted += len(message) - 1; pasted == pastedBytes {
					send(1, "all of it")
				}
				continue
			}
			text := bytes.ReplaceAll(bytes.ToUpper(message[1:]), []byte("\r"), []byte("\r\n# "))
			send(1, string(text))
			if lines += bytes.Count(message, []byte("\r")); lines == 2 {
				send(3, `{"status":"Failure","message":"its console is in use by bob since noon"}`)
				return
			}
		}
	}
}

// TestConsole types into a console by keyboard, leaves it by keyboard, and is told why one has ended.
func TestConsole(t *testing.T) {
	t.Parallel()
	server, _ := newPage(t, serveConsole(t))
	show(t, server, fleetOf(1))
	b := openTab(t)
	b.open(server.Link())
	b.wait("main", "rack1-u01")
	eval[bool](b, `location.hash = "#/console/metal3/rack1-u01", true`)
	b.press("main", "Connect")
	b.wait("pre", "<b>login</b>: ")
	eval[bool](b, fmt.Sprintf(`(() => {
		const clipboardData = new DataTransfer();
		clipboardData.setData("text", "x".repeat(%d));
		return document.querySelector("pre").dispatchEvent(new ClipboardEvent("paste", { clipboardData }));
	})()`, pastedBytes))
	b.wait("pre", "all of it")
	b.do(chromedp.KeyEvent("root\r"))
	b.wait("pre", "<b>login</b>: all of itROOT\n# ")
	b.do(chromedp.KeyEvent("]", chromedp.KeyModifiers(chromedp.ModifierCtrl)))
	b.wait("main", "Not connected")
	if focused := eval[string](b, "document.activeElement.innerText"); focused != "Connect" && focused != "rack1-u01" {
		t.Errorf("after the console was left, the focus is on %q", focused)
	}
	b.waitFor("the button to be back", func() string {
		if eval[bool](b, `document.querySelector("button.primary").hidden`) {
			return "it is hidden"
		}
		return ""
	})
	b.press("main", "Connect")
	b.wait("main", "Connected")
	b.do(chromedp.KeyEvent("a" + kb.Enter + "b" + kb.Enter))
	b.wait("main", "in use by bob")
	// What the user goes on typing presses no button.
	if focused := eval[string](b, "document.activeElement.role"); focused != "status" {
		t.Errorf("when a console has ended, the focus is on the role %q, want status", focused)
	}
	b.press("main", "Take it over")
	b.wait("main", "Connected")
	b.noComplaints()
}
