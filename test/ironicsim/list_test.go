// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/metal3-io/metal3-apiserver/test/ironicsim/fsm"
)

// page asks for one page and returns the UUIDs and the next link's query.
func (a *api) page(query string) (uuids []string, next string) {
	a.t.Helper()
	r := a.must(200, "GET", "/v1/nodes?"+query, nil)
	for _, n := range r.json["nodes"].([]any) {
		uuids = append(uuids, n.(map[string]any)["uuid"].(string))
	}
	link, _ := r.json["next"].(string)
	_, next, _ = strings.Cut(link, "?")
	return uuids, next
}

func TestPaging(t *testing.T) {
	a := start(t, quick())
	var all []string
	for i := range 6 {
		id, err := a.sim.CreateNode(doc{"driver": "fake-hardware", "name": fmt.Sprintf("n%d", i)})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, id)
	}
	for _, query := range []string{"fields=uuid&limit=2", "detail=True&limit=2", "limit=2", "limit=2&sort_key=updated_at"} {
		var got []string
		pages := 0
		for next := query; next != ""; pages++ {
			var uuids []string
			uuids, next = a.page(next)
			got = append(got, uuids...)
		}
		// The last page is exactly full, so it has a next link, to an empty page.
		if !slices.Equal(got, all) || pages != 4 {
			t.Errorf("%s: %d pages, %v", query, pages, got)
		}
	}
	got, _ := a.page("limit=2&sort_key=updated_at&sort_dir=desc&marker=" + all[4])
	if want := []string{all[3], all[2]}; !slices.Equal(got, want) {
		t.Errorf("after a marker, descending: got %v, want %v", got, want)
	}
	_, next := a.page("limit=1&fields=uuid,name&sort_key=updated_at")
	q, err := url.ParseQuery(next)
	if err != nil || q.Get("fields") != "uuid,name" || q.Get("sort_key") != "updated_at" || q.Get("limit") != "1" || q.Get("marker") != all[0] {
		t.Errorf("next is %q: %v", next, err)
	}
}

func TestChildren(t *testing.T) {
	a := start(t, noSync())
	parent := strings.TrimPrefix(a.node(nil), "/v1/nodes/")
	child := strings.TrimPrefix(a.node(doc{"parent_node": parent}), "/v1/nodes/")
	for query, want := range map[string][]string{"": {parent}, "include_children=true": {parent, child}} {
		if got, _ := a.page(query); !slices.Equal(got, want) {
			t.Errorf("%q: got %v, want %v", query, got, want)
		}
	}
}

// The change feed: newest updated_at first, nodes that never changed last.
func TestNewestFirst(t *testing.T) {
	a := start(t, quick())
	first, untouched, second := a.node(nil), a.node(nil), a.node(nil)
	a.power(second, fsm.PowerOn)
	a.power(first, fsm.PowerOn)
	got, _ := a.page("detail=True&sort_key=updated_at&sort_dir=desc&limit=50")
	for i, want := range []string{first, second, untouched} {
		if "/v1/nodes/"+got[i] != want {
			t.Errorf("position %d: got %s, want %s", i, got[i], want)
		}
	}
}

func TestPorts(t *testing.T) {
	a := reference(t)
	a.fresh(u1, "conf-1", nil)
	const p1, mac2 = "c0000000-0000-4000-8000-00000000a001", "52:54:00:c0:00:02"
	const schema = "Schema error for port: "
	post := func(body doc, code int, fault string) exchange {
		return exchange{"POST", "/v1/ports", "", body, code, fault}
	}
	get := func(query string, code int, fault string) exchange {
		return exchange{"GET", "/v1/ports?" + query, "", nil, code, fault}
	}
	a.run([]exchange{
		post(doc{}, 400, schema+"'address' is a required property"),
		post(doc{"address": mac}, 400, schema+"{'address': '"+mac+"'} is not valid under any of the given schemas. Possible root cause: 'node_ident' is a required property"),
		post(doc{"address": mac, "node_uuid": "x"}, 400, "Expected UUID for node_uuid: x"),
		post(doc{"address": mac, "node_uuid": absent}, 400, "Node "+absent+" could not be found."),
		post(doc{"address": "zz", "node_uuid": u1}, 400, "Expected valid MAC address for address: zz"),
		post(doc{"address": "52-54-00-C0-00-01", "node_uuid": u1}, 400, "Expected valid MAC address for address: 52-54-00-C0-00-01"),
		post(doc{"address": mac, "node_uuid": u1, "bogus": 1}, 400, schema+"Additional properties are not allowed ('bogus' was unexpected)"),
		post(doc{"address": strings.ToUpper(mac), "node_uuid": u1, "uuid": p1}, 201, ""),
		post(doc{"address": mac, "node_uuid": u1}, 409, "A port with MAC address "+mac+" already exists."),
		post(doc{"address": mac2, "node_uuid": u1, "uuid": p1}, 409, "A port with UUID "+p1+" already exists."),
		get("address=AA-BB", 400, "Expected valid MAC address for address: AA-BB"),
		get("node=nosuch", 404, "Node nosuch could not be found."),
		get("node="+u1+"&fields=bogus", 400, `Field(s) "bogus" are not valid`),
		get("bogus=1", 400, "Unexpected arguments: bogus"),
	})
	for _, query := range []string{"address=" + strings.ToUpper(mac), "node=conf-1"} {
		ports := a.must(200, "GET", "/v1/ports?fields=address,node_uuid&"+query, nil).json["ports"].([]any)
		if len(ports) != 1 || ports[0].(map[string]any)["address"] != mac || ports[0].(map[string]any)["node_uuid"] != u1 {
			t.Errorf("%s: %v; want the one port, its MAC address in lower case", query, ports)
		}
	}
}

// A node takes its ports with it.
func TestDeletedNodeLosesPorts(t *testing.T) {
	a := reference(t)
	a.fresh(u1, "conf-1", nil)
	a.must(201, "POST", "/v1/ports", doc{"node_uuid": u1, "address": mac})
	a.must(204, "DELETE", n1, nil)
	if ports := a.must(200, "GET", "/v1/ports?address="+mac, nil).json["ports"].([]any); len(ports) != 0 {
		t.Errorf("ports of a deleted node: %v", ports)
	}
}
