// SPDX-License-Identifier: Apache-2.0

package page

import (
	"context"
	"errors"
	"log"
	"net"
	"net/http"
	"strconv"
	"time"

	"k8s.io/client-go/rest"
)

// Options are what a Server needs. All fields but ReadOnly and LinkReused are required.
type Options struct {
	// Config is how to connect to the cluster, as the user.
	Config *rest.Config
	// Scope is which hosts the page is about.
	Scope Scope
	// ReadOnly refuses everything that changes something, and consoles.
	ReadOnly bool
	// Detail returns what is known of a host. It is called with the context of a request.
	Detail func(ctx context.Context, namespace, name string) (*Detail, error)
	// Rights returns what the user may do in a namespace.
	Rights func(ctx context.Context, namespace string) map[Right]bool
	// LinkReused is called when the link with which a browser gets access is used a second
	// time, which is refused.
	LinkReused func()
}

// Scope is which hosts a page shows, for people to see that it is the right cluster.
type Scope struct {
	// Context is the name of the context in the kubeconfig.
	Context string `json:"context"`
	// Server is the URL of the cluster's API.
	Server string `json:"server"`
	// Namespace is where new hosts are added, and the only one that the page shows unless
	// AllNamespaces is set.
	Namespace     string `json:"namespace"`
	AllNamespaces bool   `json:"allNamespaces"`
	// Selector describes which hosts were selected, empty for all of them.
	Selector string `json:"selector,omitempty"`
	ReadOnly bool   `json:"readOnly"`
}

// permits reports whether the page is about a namespace.
func (s Scope) permits(namespace string) bool { return s.AllNamespaces || namespace == s.Namespace }

// Server is the page on a port of 127.0.0.1.
type Server struct {
	options  Options
	listener net.Listener
	hosts    []string
	session  *session
	live     *live
	handler  http.Handler
}

// Listen prepares a page on a port of 127.0.0.1, or on a free one if port is 0. The caller must
// call Serve, which closes the port.
func Listen(ctx context.Context, port int, options Options) (*Server, error) {
	options.Scope.ReadOnly = options.ReadOnly
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, err
	}
	s := &Server{options: options, listener: listener, session: newSession(), live: newLive(options.Scope)}
	_, number, err := net.SplitHostPort(listener.Addr().String())
	if err == nil {
		s.hosts = []string{"127.0.0.1:" + number, "localhost:" + number}
		if number == "80" { // browsers leave it out
			s.hosts = append(s.hosts, "127.0.0.1", "localhost")
		}
		s.handler, err = s.newHandler()
	}
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return s, nil
}

// Link returns the URL that gives the first browser that opens it access to the page. The secret is
// in its fragment, which browsers do not send, so that it is in no log, and opening the link
// without running the page's script does not use it up.
func (s *Server) Link() string { return "http://" + s.hosts[0] + "/#link=" + s.session.token }

// Serve serves the page until ctx ends, and then closes all connections. Call Show first: without a
// picture, the page would say that there are no hosts.
func (s *Server) Serve(ctx context.Context) error {
	server := &http.Server{
		Handler:           s.handler,
		ReadHeaderTimeout: 10 * time.Second,
		MaxHeaderBytes:    32 << 10,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ErrorLog:          log.New(discard{}, "", 0), // what strangers on this machine send is not for the terminal
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(s.listener); ctx.Err() == nil {
		return err
	}
	return nil
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

func (s *Server) newHandler() (http.Handler, error) {
	mux := http.NewServeMux()
	assets, err := newAssets()
	if err != nil {
		return nil, err
	}
	mux.Handle("GET /{$}", assets)
	mux.Handle("GET /assets/", assets)
	mux.HandleFunc("POST /session", s.openSession)
	mux.Handle("GET /live", s.needSession(s.live))
	mux.Handle("GET /hosts/{namespace}/{name}", s.needSession(http.HandlerFunc(s.serveDetail)))
	mux.Handle("GET /rights/{namespace}", s.needSession(http.HandlerFunc(s.serveRights)))
	if !s.options.ReadOnly {
		forwarder, err := newForwarder(s.options.Config, s.options.Scope)
		if err != nil {
			return nil, err
		}
		for _, route := range routes {
			mux.Handle(route.pattern, s.needSession(forwarder.handler(route)))
		}
	}
	return s.guard(mux), nil
}

// serveDetail answers what is known of a host.
func (s *Server) serveDetail(w http.ResponseWriter, r *http.Request) {
	namespace, name, ok := s.options.Scope.target(w, r)
	if !ok {
		return
	}
	detail, err := s.options.Detail(r.Context(), namespace, name)
	if err != nil {
		refuseWithError(w, err)
		return
	}
	answer(w, http.StatusOK, detail)
}

// serveRights answers what the user may do in a namespace.
func (s *Server) serveRights(w http.ResponseWriter, r *http.Request) {
	namespace, _, ok := s.options.Scope.target(w, r)
	if !ok {
		return
	}
	rights := map[Right]bool{}
	if !s.options.ReadOnly {
		rights = s.options.Rights(r.Context(), namespace)
	}
	answer(w, http.StatusOK, rights)
}

// target returns the namespace and the name in the path of a request, or refuses it.
func (s Scope) target(w http.ResponseWriter, r *http.Request) (namespace, name string, ok bool) {
	namespace, name = r.PathValue("namespace"), r.PathValue("name")
	if !isName(namespace) || name != "" && !isName(name) {
		refuse(w, http.StatusBadRequest, "this is no name of a namespace or of a host")
		return "", "", false
	}
	if !s.permits(namespace) {
		refuse(w, http.StatusForbidden, "this page is about the namespace "+s.Namespace+" only")
		return "", "", false
	}
	return namespace, name, true
}
