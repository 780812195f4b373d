// SPDX-License-Identifier: Apache-2.0

package client

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

func TestListConductors(t *testing.T) {
	f := newFake(t, newestMinor, answer(200, `{"conductors":[
		{"hostname":"c-1","conductor_group":"","alive":true,"links":[]},
		{"hostname":"c-2","conductor_group":"room-b","alive":false,"links":[]}]}`))
	got, err := f.client().ListConductors(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]ironic.Conductor{{Hostname: "c-1", Alive: true}, {Hostname: "c-2", Group: "room-b"}}, got); diff != "" {
		t.Error(diff)
	}
	if last := f.last(); last.Method != "GET" || last.Path != "/v1/conductors" || last.Query != "" {
		t.Errorf("asked for %+v", last)
	}
}

// A user of Keystone may be permitted to use nodes, but not to see conductors.
func TestListConductorsIsNotPermitted(t *testing.T) {
	f := newFake(t, newestMinor, answer(403, fault("Access was denied to the following resource: baremetal:conductor:get")))
	if _, err := f.client().ListConductors(t.Context()); !ironic.IsRefused(err) {
		t.Errorf("got %v", err)
	}
}
