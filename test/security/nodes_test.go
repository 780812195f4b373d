// SPDX-License-Identifier: Apache-2.0

package security

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// TestNodesOfOthers: who may write hosts in one namespace, and knows the machine of
// another one, can neither see nor switch nor erase it. A new host may bring a
// status along, and a status may be written: both say which node is the host's.
func TestNodesOfOthers(t *testing.T) {
	attack(t, "write hosts and their status in one namespace", "see, switch or erase the machine of another")
	t.Parallel()
	ctx, ns := s.Begin(t)
	victim := makeNamespace(t, ctx, "victim-")
	s.CreateSecret(t, ctx, victim, "bmc", map[string]string{"username": "admin", "password": "theirs"})
	their := newMachine(t, "theirs")
	createHost(t, ctx, victim, "x", their.address, "bmc", their.deploys)
	provisioned := func(h *metal3.BareMetalHost) bool { return h.Status.Provisioning.State == metal3.StateProvisioned }
	theirs := waitHost(t, ctx, victim, "x", "provisioned", provisioned)
	node := theirs.Status.Provisioning.ID
	done := their.history(node)

	grant(t, ctx, ns, person{name: "thief", role: "admin"})
	thief := throughKube(t, user(t, "thief"))
	collection := groupVersion + "/namespaces/" + ns + "/baremetalhosts"
	s.CreateSecret(t, ctx, ns, "bmc", map[string]string{"username": "admin", "password": "mine"})
	status, err := json.Marshal(theirs.Status)
	if err != nil {
		t.Fatal(err)
	}
	own := newMachine(t, "mine")
	// A host with their status, that is to be deprovisioned, and switched off.
	stolen := object{
		"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
		"metadata": object{"name": "stolen", "annotations": object{metal3.StatusAnnotation: string(status)}},
		"spec":     object{"online": false, "bmc": object{"address": own.address, "credentialsName": "bmc"}, "bootMACAddress": own.mac},
	}
	if got := thief.mustDo(t, ctx, http.MethodPost, collection, "application/json", body(t, stolen)); got.code != http.StatusCreated {
		t.Fatalf("%d %s", got.code, got.body)
	}
	power := `{"apiVersion":"metal3.io/v1alpha1","kind":"HostPower","spec":{"action":"off","mode":"hard"}}`
	thief.mustDo(t, ctx, http.MethodPost, collection+"/stolen/power", "application/json", power)
	waitHost(t, ctx, ns, "stolen", "given a node of its own", func(h *metal3.BareMetalHost) bool {
		if h.Status.Provisioning.ID == node && h.Status.Ironic != nil {
			t.Errorf("the thief reads the node of another one: %+v", h.Status.Ironic)
		}
		return h.Status.Provisioning.ID != "" && h.Status.Provisioning.ID != node && h.Annotations[metal3.StatusAnnotation] == ""
	})
	// A reporter, who may write statuses, can do no more.
	s.CreateSecret(t, ctx, ns, "other", map[string]string{"username": "admin", "password": "mine"})
	another := newMachine(t, "mine")
	createHost(t, ctx, ns, "reported", another.address, "other", another.boots)
	waitHost(t, ctx, ns, "reported", "available", isAvailable)
	writeStatus(t, ctx, ns, node)
	thief.mustDo(t, ctx, http.MethodPost, collection+"/reported/power", "application/json", power)
	deleteHost(t, ctx, ns, "stolen")
	deleteHost(t, ctx, ns, "reported")

	after := waitHost(t, ctx, victim, "x", "as before", provisioned)
	if after.Status.Provisioning.ID != node || !after.Status.PoweredOn {
		t.Errorf("their host was touched: %+v", after.Status)
	}
	if now := their.history(node); now != done {
		t.Errorf("their node has the history %q, before it was %q", now, done)
	}
}

func writeStatus(t *testing.T, ctx context.Context, ns, node string) {
	t.Helper()
	eventually(t, ctx, func() string {
		hosts := s.Hosts(ns)
		host, err := hosts.Get(ctx, "reported", metav1.GetOptions{})
		if err == nil {
			host.Status.Provisioning.ID = node
			_, err = hosts.UpdateStatus(ctx, host, metav1.UpdateOptions{})
		}
		if err != nil {
			return err.Error() // it was observed meanwhile
		}
		return ""
	})
}
