// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
// the server has all objects afterwards, and that the pods are admitted. What users and the server may do then,
// test/security asks.
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
		{"", "apply", "-f", "apiservice/namespace.yaml"},
		// All pods comply with what it only warns of.
		{"", "label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted"},
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
			// No pod with its priority class is admitted before the ResourceQuota has a status.
			if _, _, err := kube.Kubectl(ctx, "", "wait", "-n", namespace, "resourcequota/metal3-apiserver", "--for=jsonpath={.status.hard.pods}=1G", "--timeout=2m"); err != nil {
				t.Fatal(err)
			}
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
