// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// TestNameServersCanBeReached checks that all pods that may look up names may do so where the name servers' pods listen on another
// port than their Service: network plugins compare one or the other.
func TestNameServersCanBeReached(t *testing.T) {
	check := func(t *testing.T, objs objects) {
		for _, policy := range all[*networkingv1.NetworkPolicy](objs) {
			for _, rule := range policy.Spec.Egress {
				ports := sets.New[string]()
				for _, port := range rule.Ports {
					ports.Insert(fmt.Sprintf("%s %s", *port.Protocol, port.Port))
				}
				want := sets.New("UDP 53", "TCP 53", "UDP 5353", "TCP 5353")
				if ports.HasAny(want.UnsortedList()...) && (!ports.Equal(want) || len(rule.To) > 0) {
					t.Errorf("%s allows %v to %v, want %v to everything", policy.Name, sets.List(ports), rule.To, sets.List(want))
				}
			}
		}
	}
	forEach(t, check)
	t.Run("migration", func(t *testing.T) { check(t, migrationObjects(t, ".", "migration-external-etcd")) })
}

// TestOpenShift checks that the component allows all service accounts of pods, and no others, to run them as the user that they name.
func TestOpenShift(t *testing.T) {
	binding := only[*rbacv1.RoleBinding](t, parse(t, []byte(readDoc(t, "apiservice/components/openshift/rolebinding.yaml"))))
	if binding.Namespace != namespace || binding.RoleRef.Kind != "ClusterRole" || binding.RoleRef.Name != "system:openshift:scc:nonroot-v2" {
		t.Errorf("in %s, %v is bound", binding.Namespace, binding.RoleRef)
	}
	allowed, accounts := sets.New[string](), sets.New[string]()
	for _, subject := range binding.Subjects {
		if allowed.Insert(subject.Name); subject.Kind != rbacv1.ServiceAccountKind || subject.Namespace != namespace {
			t.Errorf("it is bound to %v", subject)
		}
	}
	for _, objs := range []objects{highlyAvailable(t), migrationObjects(t, ".", "migration-external-etcd")} {
		for _, template := range podTemplates(objs) {
			accounts.Insert(template.Spec.ServiceAccountName)
		}
	}
	if diff := cmp.Diff(sets.List(accounts), sets.List(allowed)); diff != "" {
		t.Errorf("service accounts (-of pods +in the binding):\n%s", diff)
	}
}
