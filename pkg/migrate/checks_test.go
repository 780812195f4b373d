// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// TestIsOperator: the operator is told from Ironic, which its manifests give a similar name, and which must not be stopped.
func TestIsOperator(t *testing.T) {
	for name, test := range map[string]struct {
		containers []corev1.Container
		want       bool
	}{
		"baremetal-operator-controller-manager": {[]corev1.Container{
			{Name: "manager", Image: "quay.io/metal3-io/baremetal-operator:release-0.11", Command: []string{"/baremetal-operator"}},
		}, true},
		"baremetal-operator-ironic": {[]corev1.Container{
			{Name: "ironic", Image: "quay.io/metal3-io/ironic", Command: []string{"/bin/runironic"}}, {Name: "ironic-httpd", Image: "quay.io/metal3-io/ironic"},
		}, false},
		"mirrored": {[]corev1.Container{
			{Name: "manager", Image: "mirror.example.com:5000/baremetal-operator@sha256:0123"},
		}, true},
		"of-a-mirror-by-project": {[]corev1.Container{
			{Name: "dnsmasq", Image: "mirror.example.com/baremetal-operator/dnsmasq:v1"},
		}, false},
		"renamed": {[]corev1.Container{
			{Name: "kube-rbac-proxy", Image: "proxy"}, {Name: "manager", Image: "mirror.example.com/bmo", Command: []string{"/baremetal-operator"}},
		}, true},
		"metal3-baremetal-operator": {[]corev1.Container{ // OpenShift's
			{Name: "metal3-baremetal-operator", Image: "quay.io/openshift-release-dev/ocp-v4.0-art-dev@sha256:0123", Command: []string{"/baremetal-operator"}},
		}, true},
		"cluster-baremetal-operator": {[]corev1.Container{
			{Name: "cluster-baremetal-operator", Image: "quay.io/openshift-release-dev/ocp-v4.0-art-dev@sha256:0123", Command: []string{"/usr/bin/cluster-baremetal-operator"}},
		}, true},
		"metal3": {[]corev1.Container{ // OpenShift's Ironic, in early releases with the operator
			{Name: "metal3-ironic", Image: "quay.io/openshift-release-dev/ocp-v4.0-art-dev@sha256:0123"}, {Name: "metal3-baremetal-operator", Image: "quay.io/openshift-release-dev/ocp-v4.0-art-dev@sha256:4567"},
		}, true},
		"my-baremetal-operator": {[]corev1.Container{{Name: "manager", Image: "mine"}}, true},
		"ironic":                {[]corev1.Container{{Name: "api", Image: "ironic"}}, false},
		"something":             {nil, false},
	} {
		d := &appsv1.Deployment{}
		d.Name, d.Spec.Template.Spec.Containers = name, test.containers
		if got := isOperator(d); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
