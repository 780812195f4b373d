// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ironicv1alpha1 "github.com/metal3-io/metal3-apiserver/pkg/apis/ironic/v1alpha1"
	ironicregistry "github.com/metal3-io/metal3-apiserver/pkg/registry/ironic"
)

const instancesPath = "/apis/ironic.metal3-apiserver.io/v1alpha1/ironicinstances"

// oneIronic has the same Ironic for each IronicInstance.
type oneIronic struct{ ironicregistry.Ironic }

// Of implements ironicregistry.Instances.
func (o oneIronic) Of(string) (ironicregistry.Ironic, ironicregistry.Known, error) {
	return o.Ironic, ironicregistry.Known{ObservedAt: time.Now()}, nil
}

// TestIronicInstances follows an IronicInstance through the API, from its creation to its deletion, as kubectl
// and clients use it. Its status comes from the simulated Ironic.
func TestIronicInstances(t *testing.T) {
	s := startServer(t, true)
	var resources metav1.APIResourceList
	s.do(t, "GET", "/apis/ironic.metal3-apiserver.io/v1alpha1", "").into(t, http.StatusOK, &resources)
	var names []string
	for _, r := range resources.APIResources {
		names = append(names, r.Name+"="+r.Kind+" "+strings.Join(r.ShortNames, ","))
	}
	if got := strings.Join(names, "; "); got != "candidates=Candidate ; ironicinstances=IronicInstance ironics" {
		t.Errorf("served are %s", got)
	}
	var instance ironicv1alpha1.IronicInstance
	created := s.do(t, "POST", instancesPath, `{"apiVersion":"ironic.metal3-apiserver.io/v1alpha1","kind":"IronicInstance","metadata":{"name":"room-b"},
		"spec":{"endpoint":"https://ironic.room-b.example:6385"},"status":{"apiVersion":"9.99"}}`)
	created.into(t, http.StatusCreated, &instance)
	if warning := created.header.Get("Warning"); !strings.Contains(warning, "selects no host") {
		t.Errorf("the warning is %q", warning)
	}
	// Server-side apply, which needs the schema, and does not own the status.
	s.do(t, "PATCH", instancesPath+"/room-b?fieldManager=test&force=true", `{"apiVersion":"ironic.metal3-apiserver.io/v1alpha1","kind":"IronicInstance",
		"metadata":{"name":"room-b"},"spec":{"endpoint":"https://ironic.room-b.example:6385","namespaceSelector":{"matchLabels":{"room":"b"}}},"status":{"apiVersion":"9.99"}}`,
		"Content-Type: application/apply-patch+yaml").into(t, http.StatusOK, &instance)
	if instance.Generation != 2 || instance.Status.APIVersion != "" {
		t.Errorf("applied: %+v", instance)
	}
	for _, managed := range instance.ManagedFields {
		if strings.Contains(managed.FieldsV1.GetRawString(), "f:status") {
			t.Errorf("%s owns the status", managed.Manager)
		}
	}
	s.do(t, "GET", instancesPath+"/room-b", "").into(t, http.StatusOK, &instance)
	if instance.Status.APIVersion != "1.96" || instance.Status.Conductors == nil || *instance.Status.Conductors != 1 || len(instance.Status.Conditions) != 2 {
		t.Errorf("the status is %+v", instance.Status)
	}
	if got := s.do(t, "PATCH", instancesPath+"/room-b/status", `{"status":{"apiVersion":"9.99"}}`, "Content-Type: application/merge-patch+json"); got.code != http.StatusNotFound {
		t.Errorf("a write of the status: %d %s", got.code, got.body)
	}
	var table metav1.Table
	s.do(t, "GET", instancesPath, "", "Accept: application/json;as=Table;v=v1;g=meta.k8s.io").into(t, http.StatusOK, &table)
	if len(table.Rows) != 1 || table.Rows[0].Cells[0] != "room-b" || table.Rows[0].Cells[1] != "True" || table.Rows[0].Cells[2] != "1.96" {
		t.Errorf("the table is %+v", table.Rows)
	}
	if got := s.do(t, "DELETE", instancesPath+"/room-b", ""); got.code != http.StatusOK {
		t.Errorf("the deletion: %d %s", got.code, got.body)
	}
}
