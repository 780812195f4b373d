// SPDX-License-Identifier: Apache-2.0

package baremetalhost_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/baremetalhost"
	"github.com/metal3-io/metal3-apiserver/test/storetest"
)

// selectable has, for each field that a selector may name, one that selects
// worker-0 and not worker-1.
var selectable = map[string]string{
	"metadata.name":             "metadata.name=worker-0",
	"metadata.namespace":        "metadata.namespace=metal3,metadata.name!=worker-1",
	"status.provisioning.state": "status.provisioning.state=externally provisioned",
	"status.operationalStatus":  "status.operationalStatus=OK",
	"status.poweredOn":          "status.poweredOn=true",
	"status.ironic.instance":    "status.ironic.instance=room-b",
	"spec.online":               "spec.online=true",
	"spec.bmc.address":          "spec.bmc.address=redfish://192.168.111.2/redfish/v1/Systems/1",
	"spec.consumerRef.name":     "spec.consumerRef.name=master-0",
}

func TestFieldSelectors(t *testing.T) {
	eachCache(t, func(t *testing.T, store *genericregistry.Store) {
		script := newScripted(store)
		hosts := baremetalhost.NewREST(store, script, nil, nil)
		storetest.Create(t, store, newHost("worker-0", func(h *metal3.BareMetalHost) {
			h.Spec.Online = true
			h.Spec.BMC.Address = "redfish://192.168.111.2/redfish/v1/Systems/1"
			h.Spec.ConsumerRef = &corev1.ObjectReference{Name: "master-0"}
		}))
		record(t, store, "worker-0", func(s *metal3.BareMetalHostStatus) {
			s.Provisioning.State = metal3.StateExternallyProvisioned
			s.OperationalStatus = metal3.OperationalStatusOK
			s.PoweredOn = true
			s.Ironic = &metal3.IronicStatus{Instance: "room-b"}
		})
		storetest.Create(t, store, newHost("worker-1"))
		for _, label := range metal3.BareMetalHostFieldLabels {
			t.Run(label, func(t *testing.T) {
				text, ok := selectable[label]
				if !ok {
					t.Fatal("not tested")
				}
				selector, err := fields.ParseSelector(text)
				if err != nil {
					t.Fatal(err)
				}
				options := &metainternalversion.ListOptions{FieldSelector: selector}
				if diff := cmp.Diff([]string{"worker-0"}, names(list(t, hosts, options))); diff != "" {
					t.Errorf("list:\n%s", diff)
				}
				if e := storetest.NextEvent(t, openWatch(t, hosts, options)); hostIn(e).Name != "worker-0" {
					t.Errorf("watch: got %s %s", e.Type, hostIn(e).Name)
				}
			})
		}
		for what, selector := range map[string]string{"without consumer": "spec.consumerRef.name=", "in no IronicInstance": "status.ironic.instance="} {
			t.Run(what, func(t *testing.T) {
				options := &metainternalversion.ListOptions{FieldSelector: fields.ParseSelectorOrDie(selector)}
				if diff := cmp.Diff([]string{"worker-1"}, names(list(t, hosts, options))); diff != "" {
					t.Errorf("hosts %s:\n%s", what, diff)
				}
			})
		}
	})
}

// TestWatchBySelector: a host that begins or ceases to be what a watch selects
// comes and goes.
func TestWatchBySelector(t *testing.T) {
	eachCache(t, func(t *testing.T, store *genericregistry.Store) {
		hosts := baremetalhost.NewREST(store, newScripted(store), nil, nil)
		storetest.Create(t, store, newHost("worker-0", func(h *metal3.BareMetalHost) { h.Labels = map[string]string{"rack": "1"} }))
		last := storetest.Create(t, store, newHost("worker-1"))
		// Without a version, the watch may begin after all that follows.
		w := openWatch(t, hosts, &metainternalversion.ListOptions{
			ResourceVersion: last.ResourceVersion,
			FieldSelector:   fields.ParseSelectorOrDie("status.operationalStatus=error"),
			LabelSelector:   labels.SelectorFromSet(labels.Set{"rack": "1"}),
		})
		set := func(name string, status metal3.OperationalStatus, count int) {
			record(t, store, name, func(s *metal3.BareMetalHostStatus) { s.OperationalStatus, s.ErrorCount = status, count })
		}
		set("worker-1", metal3.OperationalStatusError, 1) // has no label
		set("worker-0", metal3.OperationalStatusError, 1)
		set("worker-0", metal3.OperationalStatusError, 2)
		set("worker-0", metal3.OperationalStatusOK, 0)
		for _, want := range []watch.EventType{watch.Added, watch.Modified, watch.Deleted} {
			e := storetest.NextEvent(t, w)
			if name := hostIn(e).Name; e.Type != want || name != "worker-0" {
				t.Errorf("got %s %s, want %s worker-0", e.Type, name, want)
			}
		}
	})
}

func TestLimitAndContinue(t *testing.T) {
	const total, page = 25, 10
	eachCache(t, func(t *testing.T, store *genericregistry.Store) {
		script := newScripted(store)
		hosts := baremetalhost.NewREST(store, script, nil, nil)
		var want []string
		for i := range total {
			want = append(want, storetest.Create(t, store, newHost(fmt.Sprintf("worker-%02d", i))).Name)
		}
		for _, version := range []string{"", "0"} {
			t.Run("from resourceVersion "+version, func(t *testing.T) {
				options := &metainternalversion.ListOptions{Limit: page, ResourceVersion: version}
				first := list(t, hosts, options)
				if left := first.RemainingItemCount; first.Continue == "" || left != nil && *left != total-page {
					t.Fatalf("first page: %d hosts, continue %q, remaining %v", len(first.Items), first.Continue, left)
				}
				asked := script.asked()
				got, after := names(first), first
				for after.Continue != "" {
					after = list(t, hosts, &metainternalversion.ListOptions{Limit: page, Continue: after.Continue})
					if after.ResourceVersion != first.ResourceVersion {
						t.Errorf("pages are of different times: %s and %s", first.ResourceVersion, after.ResourceVersion)
					}
					got = append(got, names(after)...)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("all pages (- want, + got):\n%s", diff)
				}
				if script.asked() != asked {
					t.Error("the continuation of a list was refreshed: its hosts are those of the first page's time")
				}
			})
		}
	})
}

func names(list *metal3.BareMetalHostList) []string {
	var all []string
	for _, host := range list.Items {
		all = append(all, host.Name)
	}
	return all
}
