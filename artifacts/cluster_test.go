// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// prometheusOperator defines the kinds of the Prometheus Operator that artifacts/monitoring uses, without their schemas.
var prometheusOperator = crdWithoutSchema("monitoring.coreos.com", "ServiceMonitor", "servicemonitors") +
	crdWithoutSchema("monitoring.coreos.com", "PrometheusRule", "prometheusrules")

func crdWithoutSchema(group, kind, plural string) string {
	return fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[3]s.%[1]s}
spec:
  group: %[1]s
  names: {kind: %[2]s, plural: %[3]s}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---`, group, kind, plural)
}

// startKube starts a cluster that stops with the test. With -short, it skips the test.
func startKube(t *testing.T) *testbed.Kube {
	t.Helper()
	skipShort(t)
	for _, program := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kubectl"} {
		if _, err := os.Stat("../bin/" + program); err != nil {
			skipWithout(t, "%v: build it with hack/tools/build.sh", err)
		}
	}
	kube, err := testbed.StartKube(t.Context(), testbed.KubeOptions{Dir: t.TempDir(), ControllerManager: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := kube.Stop(); err != nil {
			t.Error(err)
		}
	})
	return kube
}

// TestManifestsInCluster applies all kustomizations to a real kube-apiserver, as docs/install.md says. It checks that
// the server has all objects afterwards, that the pods are admitted, and that users and the server get the permissions
// that they need and no others.
func TestManifestsInCluster(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		skipWithout(t, "make-certs.sh needs openssl: %v", err)
	}
	kube, ctx := startKube(t), t.Context()
	client, err := kubernetes.NewForConfig(kube.Admin.Config)
	if err != nil {
		t.Fatal(err)
	}
	if err := testbed.CreateCertManagerCRDs(ctx, kube.Admin); errors.Is(err, os.ErrNotExist) {
		skipWithout(t, "%v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	for _, step := range [][]string{
		{prometheusOperator, "apply", "-f", "-"},
		{"", "wait", "--for=condition=Established", "crd", "--all"},
		{"", "create", "namespace", "team-a"},
	} {
		if _, _, err := kube.Kubectl(ctx, step[0], step[1:]...); err != nil {
			t.Fatal(err)
		}
	}
	folders, err := folders(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, folder := range folders {
		t.Run(name, func(t *testing.T) {
			applyFolder(t, kube, folder)
			// The namespace enforces the restricted Pod Security Standard.
			for owner, template := range podTemplates(parse(t, rendered(t)[name])) {
				pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
				pod.Name = "from-template"
				dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict}
				if _, err := client.CoreV1().Pods(namespace).Create(ctx, pod, dryRun); err != nil {
					t.Errorf("the pod of %s is refused: %v", owner, err)
				}
			}
		})
	}
	for _, folder := range []string{"monitoring", "crds"} {
		t.Run(folder, func(t *testing.T) { applyFolder(t, kube, folder) })
	}
	// Last, those with the component aggregated-roles.
	applyFolder(t, kube, folders["site-basic-auth"])
	t.Run("permissions", func(t *testing.T) { testPermissions(t, client) })
}

// podTemplates returns the templates of all pods, by the names of their owners.
func podTemplates(objs objects) map[string]corev1.PodTemplateSpec {
	templates := map[string]corev1.PodTemplateSpec{}
	for _, d := range all[*appsv1.Deployment](objs) {
		templates["Deployment "+d.Name] = d.Spec.Template
	}
	for _, set := range all[*appsv1.StatefulSet](objs) {
		template := *set.Spec.Template.DeepCopy()
		for _, claim := range set.Spec.VolumeClaimTemplates { // whose volumes the controller adds
			template.Spec.Volumes = append(template.Spec.Volumes, corev1.Volume{Name: claim.Name})
		}
		templates["StatefulSet "+set.Name] = template
	}
	for _, cron := range all[*batchv1.CronJob](objs) {
		templates["CronJob "+cron.Name] = cron.Spec.JobTemplate.Spec.Template
	}
	return templates
}

// applyFolder applies a kustomization. It fails the test if kube-apiserver refuses or warns about anything, such as a
// field that it does not know, or does not have all objects afterwards.
func applyFolder(t *testing.T, kube *testbed.Kube, folder string) {
	t.Helper()
	_, stderr, err := kube.Kubectl(t.Context(), "", "apply", "-k", folder, "--validate=strict")
	if err != nil {
		t.Fatal(err)
	}
	if stderr != "" {
		t.Errorf("kubectl apply -k %s warns: %s", folder, stderr)
	}
	if _, _, err := kube.Kubectl(t.Context(), "", "get", "-k", folder); err != nil {
		t.Error(err)
	}
}

func testPermissions(t *testing.T, client kubernetes.Interface) {
	ctx := t.Context()
	const team = "default"
	for _, role := range []string{"view", "edit", "admin"} {
		binding := &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: role}},
		}
		if _, err := client.RbacV1().RoleBindings(team).Create(ctx, binding, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	const server = "system:serviceaccount:" + namespace + ":" + name
	for _, test := range []struct {
		users    string // who may, separated by blanks
		not      string // who may not, separated by blanks
		verb     string
		group    string
		resource string // with subresource
		ns, name string
	}{
		{"view edit admin", "", "list", "metal3.io", "baremetalhosts", team, ""},
		{"view edit admin", "", "get", "metal3.io", "baremetalhosts/power", team, "host"},
		{"edit admin", "view", "create", "metal3.io", "baremetalhosts", team, ""},
		{"edit admin", "view", "patch", "metal3.io", "baremetalhosts", team, "host"},
		{"edit admin", "view", "delete", "metal3.io", "baremetalhosts", team, "host"},
		{"admin", "view edit", "create", "metal3.io", "baremetalhosts/power", team, "host"},
		{"admin", "view edit", "create", "metal3.io", "baremetalhosts/inspect", team, "host"},
		{"admin", "view edit", "create", "metal3.io", "baremetalhosts/retry", team, "host"},
		{"", "view edit admin", "update", "metal3.io", "baremetalhosts/status", team, "host"},
		{"view edit admin", "", "watch", "metal3.io", "hardwaredata", team, ""},
		{"edit admin", "view", "create", "metal3.io", "hardwaredata", team, ""},
		{"edit admin", "view", "deletecollection", "metal3.io", "hardwaredata", team, ""},
		{"view edit admin", "", "watch", "metal3.io", "hostdeploypolicies", team, ""},
		{"edit admin", "view", "create", "metal3.io", "hostclaims", team, ""},
		{"edit admin", "view", "patch", "metal3.io", "hostfirmwaresettings", team, "host"},
		{"admin", "view edit", "create", "metal3.io", "hostdeploypolicies", team, ""},
		{"admin", "view edit", "patch", "metal3.io", "hostupdatepolicies", team, "host"},
		{"", "view edit admin", "patch", "metal3.io", "hostclaims/status", team, "claim"},

		{server, "", "get", "", "secrets", team, "bmc"},
		{server, "", "patch", "", "secrets", team, "bmc"},
		{"", server, "update", "", "secrets", team, "bmc"},
		{server, "", "watch", "", "secrets", "", ""},
		{"", server, "create", "", "secrets", team, ""},
		{"", server, "delete", "", "secrets", team, "bmc"},
		{server, "", "create", "", "events", team, ""},
		{server, "", "patch", "", "events", team, "host.1"},
		{server, "", "create", "events.k8s.io", "events", team, ""},
		{server, "", "update", "events.k8s.io", "events", team, "host.1"},
		{"", server, "list", "", "events", team, ""},
		{"", server, "list", "", "configmaps", team, ""},
		{"", server, "list", "", "pods", namespace, ""},
		{server, "", "get", "", "configmaps", metav1.NamespaceSystem, "extension-apiserver-authentication"},
		{"", server, "get", "", "configmaps", metav1.NamespaceSystem, "other"},
		{server, "", "create", "coordination.k8s.io", "leases", namespace, ""},
		{server, "", "update", "coordination.k8s.io", "leases", namespace, name},
		{"", server, "update", "coordination.k8s.io", "leases", namespace, "other"},
		{server, "", "create", "authentication.k8s.io", "tokenreviews", "", ""},
		{server, "", "create", "authorization.k8s.io", "subjectaccessreviews", "", ""},
		{server, "", "watch", "admissionregistration.k8s.io", "mutatingadmissionpolicybindings", "", ""},
		{server, "", "watch", "admissionregistration.k8s.io", "validatingwebhookconfigurations", "", ""},
		{server, "", "watch", "flowcontrol.apiserver.k8s.io", "flowschemas", "", ""},
	} {
		resource, subresource, _ := strings.Cut(test.resource, "/")
		may := func(user string) bool {
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User: user,
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Verb: test.verb, Group: test.group, Resource: resource, Subresource: subresource, Namespace: test.ns, Name: test.name,
				},
			}}
			answer, err := client.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return answer.Status.Allowed
		}
		for _, user := range strings.Fields(test.users) {
			eventually(t, func() bool { return may(user) }, user+" may not "+test.verb+" "+test.resource)
		}
		for _, user := range strings.Fields(test.not) {
			if may(user) {
				t.Errorf("%s may %s %s", user, test.verb, test.resource)
			}
		}
	}
}

// eventually waits until condition holds. It gives kube-controller-manager time to
// aggregate roles into view, edit and admin.
func eventually(t *testing.T, condition func() bool, failure string) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, 20*time.Second, true, func(context.Context) (bool, error) {
		return condition(), nil
	})
	if err != nil {
		t.Errorf("%s (%v)", failure, err)
	}
}
