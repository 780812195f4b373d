// SPDX-License-Identifier: Apache-2.0

package page

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/json"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// route is a kind of request that is forwarded to the cluster. There are no others.
type route struct {
	// pattern is what the page requests. The wildcards are namespace, name and action.
	pattern string
	// contentType is the type that a body must have. Kubernetes takes a body without a type for
	// JSON, and a web site can send that without asking first.
	contentType string
	// core is set for resources of Kubernetes itself.
	core bool
	// actions are what the wildcard action may be.
	actions []string
	// check refuses bodies that the page does not send.
	check func(body []byte) error
	// query are the parameters that are forwarded.
	query []string
	// isConsole is set for a WebSocket.
	isConsole bool
}

const hostsPattern = " /api/namespaces/{namespace}/baremetalhosts"

var routes = []route{
	{pattern: "POST /api/namespaces/{namespace}/secrets", core: true, contentType: jsonType, check: checkSecret, query: []string{"dryRun", "fieldValidation"}},
	{pattern: "POST" + hostsPattern, contentType: jsonType, query: []string{"dryRun", "fieldValidation"}},
	{pattern: "PATCH" + hostsPattern + "/{name}", contentType: mergePatchType, check: checkPatch, query: []string{"dryRun", "fieldValidation"}},
	{pattern: "DELETE" + hostsPattern + "/{name}", contentType: jsonType, check: checkDelete, query: []string{"dryRun"}},
	{pattern: "POST" + hostsPattern + "/{name}/{action}", contentType: jsonType, query: []string{"dryRun"},
		actions: []string{"power", "inspect", "retry", "rebuild", "maintenance", "indicator", "nmi"}},
	{pattern: "GET" + hostsPattern + "/{name}/console", isConsole: true, query: []string{"force", "share"}},
}

const (
	// maxBody is more than any request of the page.
	maxBody = 64 << 10
	// forwardTimeout is for requests that are not consoles. The server gives actions 34 s.
	forwardTimeout = time.Minute
	fieldManager   = "kubectl-bmh"
)

// forwarder forwards requests of the page with the user's credentials.
type forwarder struct {
	scope  Scope
	target *url.URL
	// transport has the user's credentials.
	transport http.RoundTripper
}

func newForwarder(config *rest.Config, scope Scope) (*forwarder, error) {
	config = rest.CopyConfig(config)
	config.NextProtos = []string{"http/1.1"} // HTTP/2 of Go has no WebSockets
	config.Timeout = 0                       // it would end consoles
	target, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	return &forwarder{scope: scope, target: target, transport: transport}, nil
}

func (f *forwarder) handler(route route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, ok := f.path(w, r, route)
		if !ok {
			return
		}
		if !route.isConsole {
			if r.Header.Get("Upgrade") != "" || !isContentType(r, route.contentType) {
				refuse(w, http.StatusUnsupportedMediaType, "the body must be "+route.contentType)
				return
			}
			body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
			if err == nil && route.check != nil {
				err = route.check(body)
			}
			if err != nil {
				refuse(w, http.StatusBadRequest, err.Error())
				return
			}
			ctx, cancel := context.WithTimeout(r.Context(), forwardTimeout)
			defer cancel()
			r = r.WithContext(ctx)
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		}
		proxy := httputil.ReverseProxy{
			Transport:      f.transport,
			ErrorLog:       log.New(discard{}, "", 0),
			Rewrite:        func(pr *httputil.ProxyRequest) { f.rewrite(pr, route, path) },
			ModifyResponse: keepHarmlessHeaders,
			ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
				refuse(w, http.StatusBadGateway, "the cluster does not answer: "+err.Error())
			},
		}
		proxy.ServeHTTP(w, r)
	})
}

// path returns the path in the cluster's API, made of parts that were checked.
func (f *forwarder) path(w http.ResponseWriter, r *http.Request, route route) (string, bool) {
	namespace, name, ok := f.scope.target(w, r)
	if !ok {
		return "", false
	}
	path := "/apis/" + metal3.SchemeGroupVersion.String() + "/namespaces/" + namespace + "/baremetalhosts"
	if route.core {
		path = "/api/v1/namespaces/" + namespace + "/secrets"
	}
	if name != "" {
		path += "/" + name
	}
	if route.isConsole {
		path += "/console"
	}
	if route.actions != nil {
		action := r.PathValue("action")
		if !slices.Contains(route.actions, action) {
			refuse(w, http.StatusNotFound, "this page has no such action")
			return "", false
		}
		path += "/" + action
	}
	return path, true
}

// rewrite makes the request to the cluster. It takes nothing from the browser's that is not listed
// here: no cookie, no Authorization, no Impersonate-User, no X-Remote-User.
func (f *forwarder) rewrite(pr *httputil.ProxyRequest, route route, path string) {
	header := http.Header{}
	header.Set("Accept", jsonType)
	target := *f.target
	target.Path = strings.TrimSuffix(target.Path, "/") + path
	query := url.Values{}
	for _, key := range route.query {
		if value := pr.In.URL.Query().Get(key); value != "" {
			query.Set(key, value)
		}
	}
	if route.isConsole {
		// The key among the subprotocols stays here.
		for _, key := range []string{"Connection", "Upgrade", "Sec-Websocket-Key", "Sec-Websocket-Version"} {
			header[key] = pr.Out.Header.Values(key)
		}
		header.Set("Sec-Websocket-Protocol", "v5.channel.k8s.io")
		header.Set("Origin", target.Scheme+"://"+target.Host)
	} else {
		header.Set("Content-Type", route.contentType)
		if pr.In.Method != http.MethodDelete {
			query.Set("fieldManager", fieldManager)
		}
	}
	target.RawQuery = query.Encode()
	pr.Out.URL, pr.Out.Host, pr.Out.Header = &target, target.Host, header
}

// keepHarmlessHeaders leaves out what the cluster, or something before it, could do to the page:
// cookies, redirects, permissions for other origins.
func keepHarmlessHeaders(response *http.Response) error {
	if response.StatusCode >= 300 && response.StatusCode < 400 {
		return errors.New("it answers with a redirect")
	}
	keep := []string{"Content-Type", "Content-Length", "Retry-After", "Warning"}
	if response.StatusCode == http.StatusSwitchingProtocols {
		keep = []string{"Connection", "Upgrade", "Sec-Websocket-Accept", "Sec-Websocket-Protocol"}
	} else if mediaType, _, _ := strings.Cut(response.Header.Get("Content-Type"), ";"); mediaType != jsonType {
		response.Header.Set("Content-Type", "text/plain; charset=utf-8")
	}
	maps.DeleteFunc(response.Header, func(key string, _ []string) bool { return !slices.Contains(keep, key) })
	return nil
}

// nameForm is what names of namespaces and hosts look like. It has neither slashes nor "..", and
// nothing that has to be escaped.
var nameForm = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9._-]*[a-zA-Z0-9])?$`)

func isName(name string) bool {
	return len(name) <= 253 && nameForm.MatchString(name) && !strings.Contains(name, "..")
}

// checkSecret permits Secrets with credentials of a BMC only. Others can be powerful: one of the type
// service-account-token gets a token.
func checkSecret(body []byte) error {
	var secret struct {
		metav1.TypeMeta
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
		Type       corev1.SecretType `json:"type"`
		StringData struct {
			Username string `json:"username"`
			Password string `json:"password"`
		} `json:"stringData"`
	}
	if err := decodeStrictly(body, &secret); err != nil {
		return err
	}
	if secret.GroupVersionKind() != (schema.GroupVersionKind{Version: "v1", Kind: "Secret"}) || secret.Type != corev1.SecretTypeOpaque {
		return errors.New("only Secrets with credentials of BMCs can be created here")
	}
	return nil
}

// checkPatch permits changes of the image, and of the annotation that detaches a host.
func checkPatch(body []byte) error {
	var patch struct {
		Metadata struct {
			UID             string `json:"uid"`
			ResourceVersion string `json:"resourceVersion"`
			Annotations     struct {
				Detached *string `json:"baremetalhost.metal3.io/detached"`
			} `json:"annotations"`
		} `json:"metadata"`
		Spec struct {
			Online *bool         `json:"online"`
			Image  *metal3.Image `json:"image"`
		} `json:"spec"`
	}
	if err := decodeStrictly(body, &patch); err != nil {
		return err
	}
	if patch.Metadata.UID == "" {
		return errors.New("a change must name the UID of the host")
	}
	return nil
}

// checkDelete demands the UID, so that a host which was made anew under the same name is not deleted.
func checkDelete(body []byte) error {
	var options struct {
		metav1.TypeMeta
		Preconditions struct {
			UID string `json:"uid"`
		} `json:"preconditions"`
	}
	if err := decodeStrictly(body, &options); err != nil {
		return err
	}
	if options.Preconditions.UID == "" {
		return errors.New("a deletion must name the UID of the host")
	}
	return nil
}

// decodeStrictly decodes JSON as the cluster does, with regard to case, and refuses fields that are not
// there or that occur twice: what was checked must be what the cluster reads.
func decodeStrictly(body []byte, into any) error {
	mistakes, err := json.UnmarshalStrict(body, into, json.DisallowUnknownFields, json.DisallowDuplicateFields)
	if err == nil && len(mistakes) > 0 {
		err = mistakes[0]
	}
	if err != nil {
		return errors.New("this page does not make such requests: " + err.Error())
	}
	return nil
}
