// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// TestNodesThatAreNotProven: no subresource that is about a node shows or does anything while that is not proven to be the
// host's, whatever is recorded of it. A new one is tried by itself.
func TestNodesThatAreNotProven(t *testing.T) {
	s := startServer(t, true)
	const why = "it is not proven, and this helps"
	specs := map[string]string{
		"power": `{"action":"off","mode":"hard"}`, "maintenance": `{"action":"on","reason":"mine"}`, "bootdevice": `{"device":"pxe"}`,
		"indicator": `{"state":"on"}`, "clean": `{"steps":[{"interface":"deploy","step":"erase_devices"}]}`, "takeover": `{"nodeUUID":"NODE"}`, "transfer": `{"ironic":"room-b"}`,
	}
	var resources metav1.APIResourceList
	s.do(t, "GET", "/apis/metal3.io/v1alpha1", "").into(t, 200, &resources)
	for _, paused := range []bool{false, true} {
		name := fmt.Sprintf("host-%t", paused)
		before := s.register(t, name, func(h *metal3.BareMetalHost, n *ironic.Node) {
			if paused {
				h.Annotations = map[string]string{metal3.PausedAnnotation: ""}
			}
			n.LastError, n.InstanceUUID = "their error", "their-instance"
		})
		tried := 0
		try := func(what, method, subresource, spec string) {
			t.Helper()
			body := ""
			if method == "POST" {
				body = `{"spec":` + strings.ReplaceAll(spec, "NODE", before.Status.Provisioning.ID) + `}`
			}
			s.ironic.reset(t)
			got := s.do(t, method, hostsPath+"/"+name+"/"+subresource, body)
			if got.code != 409 || !strings.Contains(string(got.body), why) || strings.Contains(string(got.body), "their") {
				t.Errorf("%s %s, paused %t: HTTP %d: %s", what, subresource, paused, got.code, got.body)
			}
			if requested := s.ironic.requested(); len(requested) > 0 {
				t.Errorf("%s %s, paused %t: Ironic was asked for %v", what, subresource, paused, requested)
			}
			tried++
		}
		for _, r := range resources.APIResources {
			resource, subresource, _ := strings.Cut(r.Name, "/")
			switch {
			case resource != "baremetalhosts", subresource == "", subresource == "status":
				continue
			case subresource == "retry": // which is not about the node
				continue
			case subresource == "console": // see TestConsoleOfUnprovenNode of package baremetalhost
				continue
			}
			s.live.prove(why, "")
			if subresource == "takeover" {
				s.live.prove("", why)
			}
			spec := specs[subresource]
			if spec == "" {
				spec = "{}"
			}
			for _, verb := range r.Verbs {
				try(verb, map[string]string{"get": "GET", "create": "POST"}[verb], subresource, spec)
			}
		}
		if tried < 14 {
			t.Errorf("only %d requests were tried", tried)
		}
		after := s.recorded(t, name)
		if after.ResourceVersion != before.ResourceVersion {
			t.Errorf("paused %t: something was written", paused)
		}
	}
}

// TestTakeoverOfUnprovenNode: a person can confirm what is not proven.
func TestTakeoverOfUnprovenNode(t *testing.T) {
	s := startServer(t, true)
	host := s.register(t, "host", nil)
	s.live.prove("it is not proven", "")
	got := s.do(t, "POST", hostsPath+"/host/takeover", `{"spec":{"nodeUUID":"`+host.Status.Provisioning.ID+`"}}`)
	if got.code != 201 {
		t.Errorf("HTTP %d: %s", got.code, got.body)
	}
}
