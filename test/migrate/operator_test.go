// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// nodesOf are all fields of the nodes of a fleet, by the names of the hosts.
func nodesOf(t *testing.T, fleet []*member) map[string]any {
	t.Helper()
	nodes := map[string]any{}
	for _, m := range fleet {
		fields, ok := s.ironic.Node(m.node)
		if !ok {
			t.Fatalf("Ironic has no node of host %s any more", m.name)
		}
		nodes[m.name] = fields
	}
	return nodes
}

// The move touches no machine: with our server at work on hosts as the operator leaves
// them, no node changes its provision state, its power or anything else, not even
// updated_at, and no disk is written to. An available host whose node was never further
// than manageable is cleaned when it is given an image, and not before.
func TestOperatorsFleetIsLeftAlone(t *testing.T) {
	fleet := newFleetFrom(t, specials, 20)
	ns := fleet[0].ns
	hosts := s.Metal3.Metal3V1alpha1().BareMetalHosts(ns)
	if created, err := hosts.List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	} else {
		for i := range created.Items {
			if status := created.Items[i].Status; status.Ironic != nil || len(status.Conditions) > 0 {
				t.Fatalf("the operator knows nothing of these: %+v, %+v", status.Ironic, status.Conditions)
			}
		}
	}
	// One of them has an object of each other kind, too.
	owner := fleet[1]
	others := createOthers(t, owner)
	if len(others) != 12 {
		t.Fatalf("there are %d other kinds", len(others))
	}
	wantUIDs, wantFinalizers := identities(t, owner, others)
	before := nodesOf(t, fleet)

	server := install(t, s.Kube.EtcdEndpoint)
	expectText(t, server.run(t, "import"), "all UIDs and contents are the same: 20 baremetalhosts, 1 baremetalswitches, 1 bmceventsubscriptions")
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.ironic.ResetStats()
	expectText(t, server.run(t, "import", "--switch"), "served with the UIDs that they had, 20 baremetalhosts, 1 baremetalswitches, 1 bmceventsubscriptions")
	eventually(t, func(ctx context.Context) error {
		list, err := hosts.List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range list.Items {
			host := &list.Items[i]
			if host.Status.Ironic == nil || !meta.IsStatusConditionTrue(host.Status.Conditions, metal3.RegisteredCondition) {
				return fmt.Errorf("host %s is not registered: %+v", host.Name, host.Status)
			}
			if meta.IsStatusConditionTrue(host.Status.Conditions, metal3.HeldCondition) {
				return fmt.Errorf("host %s is held: %s", host.Name, host.Status.ErrorMessage)
			}
		}
		return nil
	})
	// The leader goes on looking at Ironic, and finds nothing to do.
	looked := looksAtNodes()
	eventually(t, func(context.Context) error {
		if n := looksAtNodes() - looked; n < 10 {
			return fmt.Errorf("the leader has looked at Ironic %d times", n)
		}
		return nil
	})
	if diff := cmp.Diff(before, nodesOf(t, fleet)); diff != "" {
		t.Errorf("nodes were changed (-before the move +after it):\n%s", diff)
	}
	if writes := writesIn(s.ironic.Stats().Requests); len(writes) > 0 {
		t.Errorf("Ironic was asked for %v", writes)
	}
	expectOnlyLookedAt(t, server, "")
	list, err := hosts.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var unused *member
	for i, m := range fleet {
		if before[m.name].(object)["provision_state"] == "manageable" {
			unused = m
		}
		if touched := s.ironic.DiskWrites(m.node); len(touched) > 0 {
			t.Errorf("the disks of host %s were written to: %v", m.name, touched)
		}
		host := list.Items[i]
		if was := m.host.Status; host.Status.Provisioning.State != was.Provisioning.State || host.Status.OperationalStatus != was.OperationalStatus || host.Status.ErrorMessage != "" {
			t.Errorf("host %s was %s %q and is %s %q: %q", m.name, was.Provisioning.State, was.OperationalStatus,
				host.Status.Provisioning.State, host.Status.OperationalStatus, host.Status.ErrorMessage)
		}
	}

	uids, finalizers := identities(t, owner, others)
	if diff := cmp.Diff(wantUIDs, uids); diff != "" {
		t.Errorf("UIDs (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(wantFinalizers, finalizers); diff != "" {
		t.Errorf("finalizers (-want +got):\n%s", diff)
	}

	patch := []byte(`{"spec":{"image":{"url":"http://192.0.2.1/image.qcow2","checksum":"http://192.0.2.1/image.qcow2.sha256","checksumType":"sha256"}}}`)
	if _, err := hosts.Patch(t.Context(), unused.name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(ctx context.Context) error {
		host, err := hosts.Get(ctx, unused.name, metav1.GetOptions{})
		if err == nil && host.Status.Provisioning.State != metal3.StateProvisioned {
			err = fmt.Errorf("host %s is %s: %q, %+v", host.Name, host.Status.Provisioning.State, host.Status.ErrorMessage, host.Status.Ironic)
		}
		return err
	})
	var steps []string
	for _, write := range s.ironic.DiskWrites(unused.node) {
		steps = append(steps, write.Step)
	}
	if want := []string{"deploy.erase_devices_metadata", "deploy.write_image"}; !cmp.Equal(steps, want) {
		t.Errorf("the disks of a host that was given an image went through %q, want %q", steps, want)
	}

	if _, err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	server.run(t, "export")
	uids, finalizers = identities(t, owner, others)
	if diff := cmp.Diff(wantUIDs, uids); diff != "" {
		t.Errorf("UIDs after the way back (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(wantFinalizers, finalizers); diff != "" {
		t.Errorf("finalizers after the way back (-want +got):\n%s", diff)
	}
	unlock(t, ns)
}

// looksAtNodes counts the requests for lists of nodes.
func looksAtNodes() int {
	n := 0
	for kind, count := range s.ironic.Stats().Requests {
		if strings.HasPrefix(kind, "GET /v1/nodes?") {
			n += count
		}
	}
	return n
}
