// SPDX-License-Identifier: Apache-2.0

package app

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	ironic "github.com/metal3-io/metal3-apiserver/pkg/apis/ironic/v1alpha1"
)

func TestCandidatesTellTheirIronic(t *testing.T) {
	c := newCluster(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": ironic.SchemeGroupVersion.String(), "kind": "Candidate", "metadata": map[string]any{"name": "u"},
		"status": map[string]any{"nodeName": "rack7-u12", "ironic": "room-b", "bmcAddress": "ipmi://192.0.2.12"},
	}})
	if code := c.run(t, "candidates"); code != 0 || !strings.Contains(c.out, "IRONIC") || !strings.Contains(c.out, "room-b") {
		t.Errorf("exit code %d: %s%s", code, c.out, c.errOut)
	}
}

func TestFindCandidate(t *testing.T) {
	of := func(uuid, name, instance string) ironic.Candidate {
		return ironic.Candidate{ObjectMeta: metav1.ObjectMeta{Name: uuid}, Status: ironic.CandidateStatus{NodeName: name, Ironic: instance}}
	}
	candidates := []ironic.Candidate{of("a", "one", ""), of("b", "two", ""), of("c", "two", "room-b"), of("d", "", ""), of("d", "", "room-b")}
	for node, want := range map[string]struct{ uuid, says string }{
		"a": {uuid: "a"}, "one": {uuid: "a"}, "c": {uuid: "c"},
		"two": {says: "use the UUID"}, "d": {says: "several Ironics have a node d"}, "e": {says: "has no node"},
	} {
		found, err := findCandidate(candidates, node)
		if want.uuid != "" && (err != nil || found.Name != want.uuid) || want.uuid == "" && (err == nil || !strings.Contains(err.Error(), want.says)) {
			t.Errorf("%s: found %+v, %v", node, found, err)
		}
	}
}
