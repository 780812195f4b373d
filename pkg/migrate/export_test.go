// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// newServed has a cluster of which metal3-apiserver serves the group, and nothing was given back yet.
func newServed(t *testing.T) *handedBack {
	t.Helper()
	h := newHandedBack(t)
	h.export.Target = Target{Namespace: "metal3-system", Name: "metal3-apiserver", Port: 443}
	h.register(apiServiceName, "metal3-apiserver")
	return h
}

// register creates an APIService of a Service in metal3-system.
func (h *handedBack) register(name, service string) {
	h.t.Helper()
	apiService := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"service": map[string]any{"namespace": "metal3-system", "name": service},
	}}}
	apiService.SetGroupVersionKind(apiServiceResource.GroupVersion().WithKind("APIService"))
	apiService.SetName(name)
	if _, err := h.export.Cluster.dynamic.Resource(apiServiceResource).Create(h.t.Context(), apiService, metav1.CreateOptions{}); err != nil {
		h.t.Fatal(err)
	}
}

// expectRefused runs the export, and looks whether it is refused with these words before anything is done.
func (h *handedBack) expectRefused(words ...string) {
	h.t.Helper()
	err := h.export.Run(h.t.Context())
	for _, text := range words {
		if err == nil || !strings.Contains(err.Error(), text) {
			h.t.Errorf("export: %v, want %q", err, text)
		}
	}
	// Without the Lease, the server that was stopped would do nothing of what the user corrects.
	if _, err := h.export.Cluster.kube.CoordinationV1().Leases("metal3-system").Get(h.t.Context(), "metal3-apiserver", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		h.t.Errorf("the Lease of metal3-apiserver: %v, want that it is not held", err)
	}
	h.expect()
}

// Hosts of which the operator would harm the machines are not given back unless that is accepted.
func TestExportRefusesHarm(t *testing.T) {
	h := newServed(t)
	h.put("deployed-by-others", "u-1", "")
	h.put("available", "u-2", "")
	h.export.Foresee = func(_ context.Context, hosts []*v1alpha1.BareMetalHost) (harms []string, err error) {
		for _, host := range hosts {
			if host.Name == "deployed-by-others" {
				harms = append(harms, host.Name+" would be erased")
			}
		}
		return harms, nil
	}
	for _, dryRun := range []bool{true, false} {
		h.export.DryRun = dryRun
		h.expectRefused("--risk-machines:\n - deployed-by-others would be erased")
	}
	h.export.DryRun, h.export.RiskMachines = true, true
	if err := h.export.Run(t.Context()); err != nil {
		t.Error(err)
	}
	if !strings.Contains(h.out.String(), "warning: deployed-by-others would be erased") {
		t.Errorf("nobody is told:\n%s", &h.out)
	}
}

// What was so when a backup was saved is not given back, unless that is accepted.
func TestExportRefusesBackup(t *testing.T) {
	h := newServed(t)
	h.put("worker-0", "u-1", "")
	h.export.Restored = func(context.Context) (string, error) { return "its count is 3, that of the Lease 500", nil }
	for _, dryRun := range []bool{true, false} {
		h.export.DryRun = dryRun
		h.expectRefused("its count is 3, that of the Lease 500", "docs/restore.md", "--risk-machines")
	}
	h.export.DryRun, h.export.RiskMachines = true, true
	if err := h.export.Run(t.Context()); err != nil || !strings.Contains(h.out.String(), "warning: the objects in the store may not be those of now: its count is 3") {
		t.Errorf("%v\n%s", err, &h.out)
	}
	h.export.RiskMachines, h.export.Restored = false, func(context.Context) (string, error) { return "", errors.New("no answer") }
	h.expectRefused("whether the store was restored from a backup: no answer")
}

// Objects for which the cluster has no CRD are not forgotten.
func TestExportRefusesLoss(t *testing.T) {
	h := newServed(t)
	h.put("worker-0", "u-1", "")
	for _, kind := range kindsForTest(t) {
		if kind.Kind != "HostClaim" {
			continue
		}
		for _, name := range []string{"b", "a"} {
			claim := &v1alpha1.HostClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
			obj, err := newObject(kind, claim)
			if err == nil {
				err = h.store.Put(t.Context(), obj)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, dryRun := range []bool{true, false} {
		h.export.DryRun = dryRun
		h.expectRefused("would be lost", ":\n - 2 hostclaims, of which the first is ns/a: there is no CRD hostclaims.metal3.io")
	}
}

// Once the group is given back, no APIService of a server that has been stopped blocks the deletion of namespaces, also if an
// earlier run was killed before it had deleted that.
func TestExportLeavesNoAPIService(t *testing.T) {
	for service, kept := range map[string]bool{"metal3-apiserver": false, "another": true} {
		h := newHandedBack(t)
		h.export.Target = Target{Namespace: "metal3-system", Name: "metal3-apiserver", Port: 443}
		h.register(ironicAPIServiceName, service)
		if err := h.export.Run(t.Context()); err != nil {
			t.Error(err)
		}
		_, err := h.export.Cluster.dynamic.Resource(apiServiceResource).Get(t.Context(), ironicAPIServiceName, metav1.GetOptions{})
		if kept && err != nil || !kept && !apierrors.IsNotFound(err) {
			t.Errorf("the APIService of the Service %s: %v, want that it is kept: %v", service, err, kept)
		}
	}
}

// The user learns at once of all objects that the CRDs refuse, and the group is not given back without them.
func TestExportListsWhatIsRefused(t *testing.T) {
	h := newServed(t)
	for _, name := range []string{"invalid", "fine", "forbidden", "dying"} {
		h.put(name, "u-"+name, "")
	}
	// A host that lives has the name of an earlier one, whose custom resource the operator would take for it.
	dying := resourceOf("dying", "12")
	dying.SetUID("earlier")
	dying.SetDeletionTimestamp(&metav1.Time{Time: metav1.Now().Time})
	dying.SetFinalizers([]string{"x"})
	if _, err := h.export.Cluster.dynamic.Resource(h.export.kinds[0].resource(migrationVersion)).Namespace("ns").Create(t.Context(), dying, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	h.export.Cluster.dynamic.(*fake.FakeDynamicClient).PrependReactor("create", "baremetalhosts", func(action clienttesting.Action) (bool, runtime.Object, error) {
		item := action.(clienttesting.CreateAction).GetObject().(*unstructured.Unstructured)
		switch item.GetName() {
		case "invalid":
			return true, nil, apierrors.NewInvalid(schema.GroupKind{}, "invalid", nil)
		case "forbidden":
			return true, nil, apierrors.NewForbidden(schema.GroupResource{}, "forbidden", nil)
		}
		return false, nil, nil
	})
	err := h.export.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "\n - BareMetalHost ns/forbidden: ") || !strings.Contains(err.Error(), "\n - BareMetalHost ns/invalid: ") ||
		!strings.Contains(err.Error(), "\n - BareMetalHost ns/dying: its custom resource is being deleted, and it is not: kubectl patch baremetalhosts.migration.metal3.io -n ns dying") {
		t.Errorf("export: %v, want all that are refused", err)
	}
	if by, _, err := h.export.Cluster.servedBy(t.Context(), h.export.Target); err != nil || by != servedByServer {
		t.Errorf("the group is served by %s (%v)", by, err)
	}
	items, err := h.export.Cluster.list(t.Context(), h.export.kinds[0], migrationVersion)
	if err != nil || len(items) != 2 || items[0].GetName() != "dying" || items[0].GetUID() != "earlier" || items[1].GetName() != "fine" {
		t.Errorf("the custom resources: %v (%v), want the others to be there", items, err)
	}
}

// The user learns at once of all objects that cannot be imported as they are.
func TestImportListsWhatCannotBeRead(t *testing.T) {
	h := newHandedBack(t)
	h.create(h.object("fine", "u-1", ""))
	for _, name := range []string{"a", "b"} {
		item := h.object(name, "u-"+name, "")
		_ = unstructured.SetNestedField(item.Object, "yes", "spec", "online")
		h.create(item)
	}
	i := &Import{Cluster: h.export.Cluster, Report: h.export.Report, kinds: h.export.kinds}
	_, _, err := i.compareAll(t.Context(), i.kinds, h.store)
	if err == nil || !strings.Contains(err.Error(), "\n - BareMetalHost ns/a cannot be read") || !strings.Contains(err.Error(), "\n - BareMetalHost ns/b cannot be read") {
		t.Errorf("import: %v, want both that cannot be read", err)
	}
}
