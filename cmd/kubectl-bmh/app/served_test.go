// SPDX-License-Identifier: Apache-2.0

package app

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// serves makes the fake server one that has these resources of the group.
func (c *cluster) serves(resources ...string) {
	list := &metav1.APIResourceList{GroupVersion: metal3.SchemeGroupVersion.String()}
	for _, r := range resources {
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: r})
	}
	c.metal3.Resources = []*metav1.APIResourceList{list}
}

// TestServedByDefinition: a cluster that serves the hosts by their CRD has hosts of the same kind. What is read there is not live, and
// what only the server has is refused, instead of being waited for in vain.
func TestServedByDefinition(t *testing.T) {
	for _, test := range []struct {
		args string
		says string
		code int
	}{
		{"", "Warning: this cluster serves BareMetalHosts by their CustomResourceDefinition", exitOK},
		{"why w-0", "Warning: this cluster serves", exitOK},
		{"wait w-0 --for provisioned", "Warning: this cluster serves", exitOK},
		{"wait w-0 --for off", "error: --for off needs metal3-apiserver", exitError},
		{"wait w-0 --for registered", "error: --for registered needs metal3-apiserver", exitError},
		{"power off w-0", "error: this action needs metal3-apiserver", exitError},
		{"takeover --all --yes", "error: this action needs metal3-apiserver", exitError},
		{"history w-0", "error: Ironic's history of a host needs metal3-apiserver", exitError},
		{"console w-0", "error: the console of a host needs metal3-apiserver", exitError},
	} {
		c := newCluster(host("w-0", metal3.StateProvisioned))
		c.serves("baremetalhosts", "baremetalhosts/status")
		if code := c.run(t, strings.Fields(test.args)...); code != test.code {
			t.Errorf("%q: exit code %d, want %d", test.args, code, test.code)
		}
		expect(t, test.args, c.errOut, test.says)
		if posted := c.posted(); len(posted) != 0 {
			t.Errorf("%q: posted to %q", test.args, posted)
		}
	}
}

// TestServedByServer: where the server serves the hosts, and where nobody knows, nothing is said.
func TestServedByServer(t *testing.T) {
	for _, resources := range [][]string{nil, {"baremetalhosts", "baremetalhosts/status", "baremetalhosts/power"}} {
		c := newCluster(host("w-0", metal3.StateProvisioned))
		c.answerPower()
		if resources != nil {
			c.serves(resources...)
		}
		for _, args := range [][]string{{}, {"wait", "w-0", "--for", "on", "--progress=none"}, {"power", "on", "w-0"}} {
			if code := c.run(t, args...); code != exitOK || c.errOut != "" {
				t.Errorf("%q with %q: exit code %d, %s", args, resources, code, c.errOut)
			}
		}
	}
}

// TestPageIsNotLive: the page does not claim that Ironic was asked where an operator has written the states.
func TestPageIsNotLive(t *testing.T) {
	c := newCluster(host("w-0", metal3.StateProvisioned))
	s := newSession(genericiooptions.NewTestIOStreamsDiscard())
	s.connectWith = func(*rest.Config) (*clients, error) { return &clients{c.metal3, c.core, c.dynamic}, nil }
	p, err := (&uiCommand{session: s}).newProbe(&rest.Config{}, "metal3")
	if err != nil {
		t.Fatal(err)
	}
	p.ask(t.Context())
	if got := p.freshness(""); !got.Live {
		t.Errorf("served by the server: %+v", got)
	}
	c.serves("baremetalhosts", "baremetalhosts/status")
	p.ask(t.Context())
	if got := p.freshness(""); got.Live || got.Reason != recordedOnly {
		t.Errorf("served by a definition: %+v", got)
	}
}
