// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"k8s.io/client-go/rest"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// webPage makes requests as the scripts of a web page do, of which each is one that Headlamp's plugin
// for Metal3 0.1 or the Bare Metal Hosts pages of the OpenShift console send.
type webPage struct {
	t      *testing.T
	ctx    context.Context
	client *http.Client
}

func newWebPage(t *testing.T, ctx context.Context) *webPage {
	t.Helper()
	client, err := rest.HTTPClientFor(s.Config)
	if err != nil {
		t.Fatal(err)
	}
	return &webPage{t, ctx, client}
}

// send makes a request and decodes the answer into an object.
func (p *webPage) send(want int, method, path, contentType, body string) (answer map[string]any) {
	p.t.Helper()
	request, err := http.NewRequestWithContext(p.ctx, method, s.Config.Host+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	request.Header.Set("Accept", "application/json")
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	response, err := p.client.Do(request)
	if err != nil {
		p.t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	if response.StatusCode != want {
		p.t.Fatalf("%s %s: %d, want %d: %s", method, path, response.StatusCode, want, content)
	}
	if err := json.Unmarshal(content, &answer); err != nil {
		p.t.Fatalf("%s %s: %v: %s", method, path, err, content)
	}
	return answer
}

func (p *webPage) get(path string) map[string]any {
	p.t.Helper()
	return p.send(http.StatusOK, "GET", path, "", "")
}

// frame is a frame of a watch over WebSocket.
type frame struct {
	Type   string
	Object metal3.BareMetalHost
}

// watch watches over WebSocket, as browsers do, which cannot set headers but subprotocols.
func (p *webPage) watch(path string, protocols ...string) (next func() frame) {
	p.t.Helper()
	tls, err := rest.TLSConfigFor(s.Config)
	if err != nil {
		p.t.Fatal(err)
	}
	tls.NextProtos = []string{"http/1.1"}
	dialer := websocket.Dialer{TLSClientConfig: tls, HandshakeTimeout: testbed.Patience, Subprotocols: protocols}
	connection, response, err := dialer.DialContext(p.ctx, strings.Replace(s.Config.Host, "https:", "wss:", 1)+path, http.Header{"Origin": {"http://localhost:4466"}})
	if err != nil {
		status := ""
		if response != nil {
			body, _ := io.ReadAll(response.Body)
			status = response.Status + ": " + string(body)
		}
		p.t.Fatalf("watch %s: %v %s", path, err, status)
	}
	p.t.Cleanup(func() { _ = connection.Close() })
	return func() (f frame) {
		p.t.Helper()
		if err := connection.SetReadDeadline(time.Now().Add(testbed.Patience)); err != nil {
			p.t.Fatal(err)
		}
		kind, content, err := connection.ReadMessage()
		if err != nil {
			p.t.Fatalf("watch %s: %v", path, err)
		}
		if err := json.Unmarshal(content, &f); err != nil || kind != websocket.TextMessage {
			p.t.Fatalf("watch %s: a frame of kind %d: %v: %s", path, kind, err, content)
		}
		return f
	}
}

func field(object map[string]any, path ...string) any {
	var value any = object
	for _, name := range path {
		object, _ := value.(map[string]any)
		value = object[name]
	}
	return value
}

const (
	hostsOfAll     = "/apis/metal3.io/v1alpha1/baremetalhosts"
	crdOfHosts     = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/baremetalhosts.metal3.io"
	mergePatchType = "application/merge-patch+json"
	jsonPatchType  = "application/json-patch+json"
	jsonType       = "application/json"
)

// TestHeadlamp makes the requests of Headlamp's plugin for Metal3, and of Headlamp for its resources.
func TestHeadlamp(t *testing.T) {
	ctx, ns := s.Begin(t)
	p := newWebPage(t, ctx)
	hosts := "/apis/metal3.io/v1alpha1/namespaces/" + ns + "/baremetalhosts"

	// Before each view, it asks for the CRD, and any error means that Metal3 is not there.
	if p.send(http.StatusNotFound, "GET", crdOfHosts, "", "")["reason"] != "NotFound" {
		t.Error("there is a CRD, although it was not applied")
	}
	if _, _, err := s.Kube.Kubectl(ctx, "", "create", "-k", "../../artifacts/crds"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, _, err := s.Kube.Kubectl(context.WithoutCancel(ctx), "", "delete", "-k", "../../artifacts/crds"); err != nil {
			t.Error(err)
		}
	})
	crd := p.get(crdOfHosts)
	if field(crd, "spec", "names", "kind") != "BareMetalHost" || field(crd, "spec", "group") != "metal3.io" {
		t.Errorf("the CRD is %v", crd["spec"])
	}
	p.watch("/apis/apiextensions.k8s.io/v1/customresourcedefinitions?watch=1&fieldSelector=metadata.name%3Dbaremetalhosts.metal3.io", "base64.binary.k8s.io")

	// The list goes on being ours, and says what its items are.
	list := p.get(hostsOfAll)
	if list["kind"] != "BareMetalHostList" || list["apiVersion"] != "metal3.io/v1alpha1" {
		t.Errorf("the list is a %v %v", list["apiVersion"], list["kind"])
	}
	version, _ := field(list, "metadata", "resourceVersion").(string)
	next := p.watch(hostsOfAll+"?watch=1&resourceVersion="+version, "base64.binary.k8s.io")

	host := `{"apiVersion":"metal3.io/v1alpha1","kind":"BareMetalHost","metadata":{"name":"worker-0"},"spec":{"online":true}}`
	p.send(http.StatusCreated, "POST", hosts, jsonType, host)
	if got := next(); got.Type != "ADDED" || got.Object.Name != "worker-0" || got.Object.Namespace != ns {
		t.Errorf("the watch begins with %+v", got)
	}

	// The view of a host.
	if got := p.get(hosts + "/worker-0"); got["kind"] != "BareMetalHost" {
		t.Errorf("the host is %v", got)
	}
	one := p.watch(hosts + "?watch=1&fieldSelector=metadata.name%3Dworker-0")
	if got := one(); got.Type != "ADDED" {
		t.Errorf("the watch of one host begins with %+v", got)
	}
	for _, action := range []struct {
		name, body string
		isDone     func(*metal3.BareMetalHost) bool
	}{
		{"power off", `{"spec":{"online":false}}`, func(h *metal3.BareMetalHost) bool { return !h.Spec.Online }},
		{"reboot", `{"metadata":{"annotations":{"reboot.metal3.io":"{\"mode\":\"soft\"}"}}}`, func(h *metal3.BareMetalHost) bool { return h.Annotations["reboot.metal3.io"] != "" }},
		{"detach", `{"metadata":{"annotations":{"baremetalhost.metal3.io/detached":""}}}`, func(h *metal3.BareMetalHost) bool { _, ok := h.Annotations[metal3.DetachedAnnotation]; return ok }},
		{"attach", `{"metadata":{"annotations":{"baremetalhost.metal3.io/detached":null}}}`, func(h *metal3.BareMetalHost) bool { _, ok := h.Annotations[metal3.DetachedAnnotation]; return !ok }},
		{"reprovision", `{"spec":{"image":{"url":"http://192.0.2.1/i.qcow2","checksum":"http://192.0.2.1/sums","format":"qcow2"}}}`, func(h *metal3.BareMetalHost) bool { return h.Spec.Image != nil }},
		{"deprovision", `{"spec":{"image":null}}`, func(h *metal3.BareMetalHost) bool { return h.Spec.Image == nil }},
	} {
		p.send(http.StatusOK, "PATCH", hosts+"/worker-0", mergePatchType, action.body)
		for f := one(); !action.isDone(&f.Object); f = one() {
			if f.Type != "MODIFIED" {
				t.Fatalf("%s: the watch brings %+v", action.name, f)
			}
		}
	}
	events := p.get("/api/v1/namespaces/" + ns + "/events?limit=2000&fieldSelector=" + url.QueryEscape("involvedObject.kind=BareMetalHost,involvedObject.name=worker-0,involvedObject.namespace="+ns))
	if events["kind"] != "EventList" {
		t.Errorf("the events are %v", events)
	}
	review := p.send(http.StatusCreated, "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", jsonType,
		fmt.Sprintf(`{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","spec":{"resourceAttributes":{"namespace":%q,"verb":"patch","group":"metal3.io","resource":"baremetalhosts","name":"worker-0"}}}`, ns))
	if field(review, "status", "allowed") != true {
		t.Errorf("the review is %v", review)
	}
	p.send(http.StatusOK, "PATCH", hosts+"/worker-0", jsonPatchType, `[{"op":"add","path":"/metadata/labels","value":{"rack":"7"}}]`)
	p.send(http.StatusOK, "DELETE", hosts+"/worker-0", "", "")
	for f := one(); f.Type != "DELETED"; f = one() {
		if f.Type != "MODIFIED" {
			t.Fatalf("delete: the watch brings %+v", f)
		}
	}
}

// TestOpenShiftConsole makes the requests of the Bare Metal Hosts pages of the OpenShift console.
func TestOpenShiftConsole(t *testing.T) {
	ctx, ns := s.Begin(t)
	p := newWebPage(t, ctx)
	hosts := "/apis/metal3.io/v1alpha1/namespaces/" + ns + "/baremetalhosts"

	// Whether there are hosts at all is asked of discovery.
	resources, _ := p.get("/apis/metal3.io/v1alpha1")["resources"].([]any)
	isThere := false
	for _, r := range resources {
		resource, _ := r.(map[string]any)
		isThere = isThere || resource["kind"] == "BareMetalHost" && resource["name"] == "baremetalhosts"
	}
	if !isThere {
		t.Errorf("the resources are %v", resources)
	}

	// The form writes a Secret, and then the host.
	credentials := fmt.Sprintf(`{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":%q,"name":"worker-0-bmc-secret"},"data":{"username":"YWRtaW4=","password":"cGFzc3dvcmQ="}}`, ns)
	p.send(http.StatusCreated, "POST", "/api/v1/namespaces/"+ns+"/secrets", jsonType, credentials)
	for _, name := range []string{"worker-0", "worker-1"} {
		p.send(http.StatusCreated, "POST", hosts, jsonType, fmt.Sprintf(`{"apiVersion":"metal3.io/v1alpha1","kind":"BareMetalHost","metadata":{"namespace":%q,"name":%q},
			"spec":{"bootMode":"UEFI","online":true,"description":"","hardwareProfile":"","bootMACAddress":"00:ab:4f:d8:9e:fa"}}`, ns, name))
	}

	// Lists come in pages, and the watch goes on from the last one.
	first := p.get(hosts + "?limit=1")
	next, _ := field(first, "metadata", "continue").(string)
	second := p.get(hosts + "?limit=1&continue=" + url.QueryEscape(next))
	if next == "" || len(first["items"].([]any)) != 1 || len(second["items"].([]any)) != 1 {
		t.Errorf("the pages are %v and %v", first["metadata"], second["metadata"])
	}
	version, _ := field(second, "metadata", "resourceVersion").(string)
	watch := p.watch(hosts + "?watch=true&resourceVersion=" + version)

	until := func(what string, isDone func(*metal3.BareMetalHost) bool) {
		t.Helper()
		for f := watch(); f.Object.Name != "worker-0" || !isDone(&f.Object); f = watch() {
			if f.Type == "ERROR" {
				t.Fatalf("%s: the watch brings %+v", what, f)
			}
		}
	}
	p.send(http.StatusOK, "PATCH", hosts+"/worker-0", jsonPatchType, `[{"op":"replace","path":"/spec/online","value":false}]`)
	until("power off", func(h *metal3.BareMetalHost) bool { return !h.Spec.Online })
	p.send(http.StatusOK, "PATCH", hosts+"/worker-0", jsonPatchType, `[{"op":"add","path":"/metadata/annotations","value":{"reboot.metal3.io":""}}]`)
	until("restart", func(h *metal3.BareMetalHost) bool { _, ok := h.Annotations["reboot.metal3.io"]; return ok })
	p.send(http.StatusOK, "PATCH", hosts+"/worker-0", jsonPatchType, `[{"op":"replace","path":"/spec/online","value":true},{"op":"add","path":"/metadata/labels","value":{"rack":"7"}}]`)
	until("edit", func(h *metal3.BareMetalHost) bool { return h.Spec.Online && h.Labels["rack"] == "7" })

	// Power management is switched off: the Secret goes, and so does spec.bmc.
	p.send(http.StatusOK, "DELETE", "/api/v1/namespaces/"+ns+"/secrets/worker-0-bmc-secret", "", "")
	p.send(http.StatusOK, "PATCH", hosts+"/worker-0", jsonPatchType, `[{"op":"remove","path":"/spec/bmc"}]`)
	p.send(http.StatusOK, "DELETE", hosts+"/worker-0", "", `{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Foreground"}`)
	for f := watch(); f.Type != "DELETED"; f = watch() {
		if f.Type == "ERROR" {
			t.Fatalf("delete: the watch brings %+v", f)
		}
	}
}
