// SPDX-License-Identifier: Apache-2.0

package page

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// guard refuses what does not come from the page itself, and sets the headers that confine the page.
//
//   - The Host must be that of this server. A name of an attacker that resolves to 127.0.0.1 (DNS
//     rebinding) is another one.
//   - Other web sites cannot make requests: browsers add the Origin to all that change something and
//     to all WebSockets, and Sec-Fetch-Site to all. A navigation to the page itself is permitted from
//     everywhere, so that links to it work.
func (s *Server) guard(next http.Handler) http.Handler {
	csp := "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'"
	for _, host := range s.hosts {
		csp += " ws://" + host // not every browser takes 'self' for WebSockets
	}
	csp += "; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", csp)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("X-Frame-Options", "DENY")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cross-Origin-Opener-Policy", "same-origin")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		header.Set("Cache-Control", "no-store")
		if !slices.Contains(s.hosts, r.Host) {
			refuse(w, http.StatusMisdirectedRequest, "this server is not "+r.Host)
			return
		}
		if !isSameOrigin(r) {
			refuse(w, http.StatusForbidden, "requests from other sites are refused")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isSameOrigin reports whether a request comes from the page, or from a program that is no browser.
func isSameOrigin(r *http.Request) bool {
	origins := r.Header.Values("Origin")
	isRead := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch {
	case len(origins) > 1, len(origins) == 1 && origins[0] != "http://"+r.Host:
		return false
	case len(origins) == 0 && (!isRead || r.Header.Get("Upgrade") != ""):
		return false
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none": // older browsers do not send it; none is what the user has typed
		return true
	}
	return isRead && r.URL.Path == "/" && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

// session is what identifies the one browser that may use the page. It must present both secrets: a
// cookie, which scripts cannot read, and a key, which the page's script sends in a header. The cookie
// alone would not do, because browsers send the cookies of 127.0.0.1 to all of its ports, and so
// to servers of other users of this machine.
type session struct {
	cookieName, cookie, key string
	token                   string

	mu     sync.Mutex
	isUsed bool
}

const (
	keyHeader = "X-Bmh-Key"
	// keyProtocol precedes the key among the subprotocols of a WebSocket, for which scripts cannot
	// set headers.
	keyProtocol = "key.bmh."
)

func newSession() *session {
	// The name keeps several pages from replacing each other's cookies, which have no port.
	return &session{cookieName: "bmh-" + rand.Text()[:8], cookie: rand.Text(), key: rand.Text(), token: rand.Text()}
}

// openSession exchanges the secret of the link for the session, once.
func (s *Server) openSession(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Link string `json:"link"`
	}
	if !isContentType(r, jsonType) || json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<10)).Decode(&request) != nil {
		refuse(w, http.StatusBadRequest, "this is no link")
		return
	}
	if !isEqual(request.Link, s.session.token) {
		refuse(w, http.StatusForbidden, "this link is from another run of kubectl bmh ui")
		return
	}
	s.session.mu.Lock()
	isUsed := s.session.isUsed
	s.session.isUsed = true
	s.session.mu.Unlock()
	if isUsed {
		if s.options.LinkReused != nil {
			s.options.LinkReused()
		}
		refuse(w, http.StatusForbidden, "this link was used already, and can be used once")
		return
	}
	http.SetCookie(w, &http.Cookie{Name: s.session.cookieName, Value: s.session.cookie, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
	answer(w, http.StatusOK, map[string]string{"key": s.session.key})
}

// needSession refuses requests that do not belong to the session.
func (s *Server) needSession(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cookie, err := r.Cookie(s.session.cookieName)
		if err != nil || !isEqual(cookie.Value, s.session.cookie) || !isEqual(keyOf(r), s.session.key) {
			refuse(w, http.StatusUnauthorized, "open the page by the link that kubectl bmh ui has printed")
			return
		}
		next.ServeHTTP(w, r)
	})
}

func keyOf(r *http.Request) string {
	if r.Header.Get("Upgrade") == "" {
		return r.Header.Get(keyHeader)
	}
	for protocol := range strings.SplitSeq(r.Header.Get("Sec-Websocket-Protocol"), ",") {
		if key, ok := strings.CutPrefix(strings.TrimSpace(protocol), keyProtocol); ok {
			return key
		}
	}
	return ""
}

func isEqual(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

const (
	jsonType       = "application/json"
	mergePatchType = "application/merge-patch+json"
)

func isContentType(r *http.Request, want string) bool {
	mediaType, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	return strings.TrimSpace(mediaType) == want
}

func answer(w http.ResponseWriter, code int, value any) {
	w.Header().Set("Content-Type", jsonType)
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(value) // the browser has gone
}

// refuse answers in the form of the Kubernetes API, so that the page knows only one.
func refuse(w http.ResponseWriter, code int, message string) {
	answer(w, code, metav1.Status{Status: metav1.StatusFailure, Message: message, Code: int32(code)})
}

// refuseWithError answers with an error, which may be one of the cluster's API.
func refuseWithError(w http.ResponseWriter, err error) {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) && status.Status().Code >= http.StatusBadRequest {
		s := status.Status()
		answer(w, int(s.Code), s)
		return
	}
	refuse(w, http.StatusBadGateway, err.Error())
}
