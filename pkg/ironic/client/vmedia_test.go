// SPDX-License-Identifier: Apache-2.0

package client

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// nodeRequests has each request about a node in the form METHOD PATH?QUERY BODY.
func (f *fakeIronic) nodeRequests() (requests []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.seen {
		if strings.Contains(r.Path, "/nodes/") {
			requests = append(requests, strings.TrimSpace(fmt.Sprintf("%s %s?%s %s", r.Method, r.Path, r.Query, r.Body)))
		}
	}
	return requests
}

func TestVirtualMedia(t *testing.T) {
	f := newFake(t, 96, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		_, _ = w.Write([]byte(`[{"media_types":["CD","DVD"],"inserted":true,"image":"http://h/x.iso"},{"media_types":["USBStick"],"inserted":false,"image":""}]`))
	})
	c := f.client()
	drives, err := c.GetVirtualMedia(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]ironic.VirtualMedia{{MediaTypes: []string{"CD", "DVD"}, Inserted: true, Image: "http://h/x.iso"}, {MediaTypes: []string{"USBStick"}}}, drives); diff != "" {
		t.Errorf("drives (-want +got):\n%s", diff)
	}
	if err := c.AttachVirtualMedia(t.Context(), ironic.NoFence, "a", "http://h/x.iso"); err != nil {
		t.Error(err)
	}
	if err := c.DetachVirtualMedia(t.Context(), ironic.NoFence, "a"); err != nil {
		t.Error(err)
	}
	want := []string{
		"GET /v1/nodes/a/vmedia?",
		`POST /v1/nodes/a/vmedia? {"device_type":"cdrom","image_url":"http://h/x.iso"}`,
		"DELETE /v1/nodes/a/vmedia?device_types=cdrom",
	}
	if diff := cmp.Diff(want, f.nodeRequests()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// The values of headers are not in errors, in which Ironic repeats them.
func TestSubscriptions(t *testing.T) {
	fails := false
	f := newFake(t, 96, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case fails:
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = w.Write([]byte(`{"error_message":"{\"faultstring\":\"Failed. Subscription payload: {'HttpHeaders': [{'Authorization': 'Bearer topsecret'}]}\"}"}`))
		case r.Method == http.MethodPost:
			_, _ = w.Write([]byte(`{"Id":"7","Protocol":"Redfish"}`))
		case r.URL.Query().Get("method") == "get_subscription": // some BMCs know no text of that kind
			_, _ = w.Write([]byte(`{"Id":"7","Protocol":"Redfish","Destination":"https://h/","Context":7,"EventTypes":["Alert"]}`))
		case r.Method == http.MethodGet:
			_, _ = w.Write([]byte(`{"Members":[{"@odata.id":"/redfish/v1/EventService/Subscriptions/7/"},{"@odata.id":"/redfish/v1/EventService/Subscriptions/8"}]}`))
		}
	})
	c := f.client()
	subscription := ironic.Subscription{Destination: "https://h/", Headers: []map[string]string{{"Authorization": "Bearer topsecret"}}}
	if id, err := c.CreateSubscription(t.Context(), ironic.NoFence, "a", subscription); id != "7" || err != nil {
		t.Errorf("created %q, %v", id, err)
	}
	ids, err := c.ListSubscriptions(t.Context(), "a")
	if diff := cmp.Diff([]string{"7", "8"}, ids); diff != "" || err != nil {
		t.Errorf("IDs (-want +got):\n%s%v", diff, err)
	}
	if is, err := c.GetSubscription(t.Context(), "a", "7"); is.Destination != "https://h/" || is.Context != "7" || err != nil {
		t.Errorf("read %+v, %v", is, err)
	}
	if err := c.DeleteSubscription(t.Context(), ironic.NoFence, "a", "7"); err != nil {
		t.Error(err)
	}
	if err := c.DeleteSubscription(t.Context(), ironic.NoFence, "a", ""); err == nil {
		t.Error("a subscription without an ID was deleted")
	}
	want := []string{
		`POST /v1/nodes/a/vendor_passthru?method=create_subscription {"Destination":"https://h/","HttpHeaders":[{"Authorization":"Bearer topsecret"}]}`,
		"GET /v1/nodes/a/vendor_passthru?method=get_all_subscriptions",
		`GET /v1/nodes/a/vendor_passthru?method=get_subscription {"id":"7"}`,
		`DELETE /v1/nodes/a/vendor_passthru?method=delete_subscription {"id":"7"}`,
	}
	if diff := cmp.Diff(want, f.nodeRequests()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	fails = true
	if _, err := c.CreateSubscription(t.Context(), ironic.NoFence, "a", subscription); err == nil || strings.Contains(err.Error(), "topsecret") || !strings.Contains(err.Error(), "HttpHeaders") {
		t.Errorf("the error is %v", err)
	}
}
