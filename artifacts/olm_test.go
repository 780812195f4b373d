// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	ironic "github.com/metal3-io/metal3-apiserver/pkg/apis/ironic/v1alpha1"
	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

type (
	// clusterServiceVersion has what is compared with the manifests. The types of OLM, which bin/olm checks all of it with, are in
	// a module that nothing else in this project needs.
	clusterServiceVersion struct {
		Metadata struct {
			Name        string            `json:"name"`
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
		Spec struct {
			Version       string         `json:"version"`
			RelatedImages []relatedImage `json:"relatedImages"`
			InstallModes  []struct {
				Type      string `json:"type"`
				Supported bool   `json:"supported"`
			} `json:"installModes"`
			APIServiceDefinitions struct {
				Owned []ownedAPI `json:"owned"`
			} `json:"apiservicedefinitions"`
			Install struct {
				Spec struct {
					Deployments []struct {
						Name string                `json:"name"`
						Spec appsv1.DeploymentSpec `json:"spec"`
					} `json:"deployments"`
					Permissions        []permissions `json:"permissions"`
					ClusterPermissions []permissions `json:"clusterPermissions"`
				} `json:"spec"`
			} `json:"install"`
		} `json:"spec"`
	}
	relatedImage struct{ Name, Image string }
	permissions  struct {
		ServiceAccountName string              `json:"serviceAccountName"`
		Rules              []rbacv1.PolicyRule `json:"rules"`
	}
	ownedAPI struct {
		Group          string `json:"group"`
		Version        string `json:"version"`
		Kind           string `json:"kind"`
		Name           string `json:"name"`
		DeploymentName string `json:"deploymentName"`
		ContainerPort  int32  `json:"containerPort"`
	}
)

// TestOLM makes the bundle of the default installation, has the Operator Framework validate it, and compares what OLM and an
// administrator install of it with that installation.
func TestOLM(t *testing.T) {
	olm, err := filepath.Abs("../bin/olm")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(olm); err != nil {
		skipWithout(t, "%v: build it with hack/tools/build.sh olm", err)
	}
	pinned := bytes.ReplaceAll(rendered(t)["default"], []byte("image: metal3-apiserver:latest"), []byte("image: "+siteImage))
	folder := t.TempDir()
	manifest := filepath.Join(folder, "manifest.yaml")
	if err := os.WriteFile(manifest, pinned, 0o600); err != nil {
		t.Fatal(err)
	}
	makeRelease(t, "olm", folder, "v0.1.0", manifest)

	t.Run("valid", func(t *testing.T) {
		out, err := exec.CommandContext(t.Context(), olm, filepath.Join(folder, "bundle")).CombinedOutput()
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		for line := range strings.Lines(string(out)) {
			// There is nothing that one would create of the two kinds of the bundle. The server records Events of events.k8s.io/v1:
			// a rule has no version, and the validator assumes one that is gone.
			if !strings.Contains(line, "example annotations not found") && !strings.Contains(line, "csv.Spec.Icon not specified") &&
				!strings.Contains(line, "Migrate the API(s) for events") {
				t.Error(line)
			}
		}
	})

	var csv clusterServiceVersion
	content, err := os.ReadFile(filepath.Join(folder, "bundle/manifests/metal3-apiserver.clusterserviceversion.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(content, &csv); err != nil {
		t.Fatal(err)
	}
	parts := func(pattern string) (objs objects) {
		paths, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %v, %v", pattern, paths, err)
		}
		for _, path := range paths {
			if content, err := os.ReadFile(path); err != nil {
				t.Fatal(err)
			} else if !strings.Contains(path, "clusterserviceversion") {
				objs = append(objs, parse(t, content)...)
			}
		}
		return objs
	}
	t.Run("deployment", func(t *testing.T) { testOLMDeployment(t, csv, parse(t, pinned)) })
	t.Run("permissions", func(t *testing.T) { testOLMPermissions(t, csv, parse(t, pinned)) })
	t.Run("APIs", func(t *testing.T) { testOLMAPIs(t, csv, parse(t, pinned)) })
	t.Run("others", func(t *testing.T) {
		testOLMOthers(t, parts("bundle/manifests/*"), parts("before.yaml"), parse(t, pinned))
	})
	t.Run("metadata", func(t *testing.T) { testOLMMetadata(t, csv, folder) })
}

// testOLMDeployment compares the pods. They differ in where the serving certificate comes from, and in where the environment does.
func testOLMDeployment(t *testing.T, csv clusterServiceVersion, objs objects) {
	deployments := csv.Spec.Install.Spec.Deployments
	want := only[*appsv1.Deployment](t, objs)
	if len(deployments) != 1 || deployments[0].Name != want.Name {
		t.Fatalf("the deployments are %v", deployments)
	}
	got := deployments[0].Spec.Template.Spec.Containers[0]

	pod := &want.Spec.Template.Spec
	container := container(t, objs)
	for i := range container.Env {
		container.Env[i].ValueFrom = nil
	}
	for i := range container.Args {
		container.Args[i] = strings.ReplaceAll(container.Args[i], "/etc/metal3-apiserver/serving/tls.", "/apiserver.local.config/certificates/apiserver.")
	}
	container.VolumeMounts = slices.DeleteFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "serving" })
	pod.Containers[0] = container
	pod.Volumes = slices.DeleteFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == "serving" })
	if diff := cmp.Diff(want.Spec, deployments[0].Spec); diff != "" {
		t.Errorf("the deployment (-kustomize +bundle):\n%s", diff)
	}

	o := options(t, got)
	if err := o.Validate(); err != nil {
		t.Error(err)
	}
	// OLM makes these two files, and mounts them there.
	files := o.Recommended.SecureServing.ServerCert.CertKey
	if files.CertFile != "/apiserver.local.config/certificates/apiserver.crt" || files.KeyFile != "/apiserver.local.config/certificates/apiserver.key" {
		t.Errorf("the server looks for its certificate in %v", files)
	}
	if o.Ironic.Endpoint == "" || got.Image != siteImage {
		t.Errorf("Ironic is %q, the image %s", o.Ironic.Endpoint, got.Image)
	}
	if diff := cmp.Diff([]relatedImage{{name, siteImage}}, csv.Spec.RelatedImages); diff != "" {
		t.Error("related images:", diff)
	}
}

// testOLMPermissions compares the rules that are bound to the server, in its namespace and in the cluster.
func testOLMPermissions(t *testing.T, csv clusterServiceVersion, objs objects) {
	of := func(rules []rbacv1.PolicyRule) permissions { return permissions{name, rules} }
	var namespaced, cluster []permissions
	for _, binding := range all[*rbacv1.RoleBinding](objs) {
		if binding.Namespace == namespace { // OLM makes the other one, in kube-system
			namespaced = append(namespaced, of(named[*rbacv1.Role](objs, binding.RoleRef.Name).Rules))
		}
	}
	for _, binding := range all[*rbacv1.ClusterRoleBinding](objs) {
		if binding.RoleRef.Name != "system:auth-delegator" { // OLM binds it
			cluster = append(cluster, of(named[*rbacv1.ClusterRole](objs, binding.RoleRef.Name).Rules))
		}
	}
	if len(namespaced) != 2 || len(cluster) != 2 {
		t.Errorf("%d and %d bindings: the test is broken", len(namespaced), len(cluster))
	}
	if diff := cmp.Diff(namespaced, csv.Spec.Install.Spec.Permissions); diff != "" {
		t.Errorf("permissions in the namespace (-kustomize +bundle):\n%s", diff)
	}
	if diff := cmp.Diff(cluster, csv.Spec.Install.Spec.ClusterPermissions); diff != "" {
		t.Errorf("permissions in the cluster (-kustomize +bundle):\n%s", diff)
	}
}

// testOLMAPIs compares the APIServices, and checks that OLM gives nobody anything unasked: on each kind that a bundle lists, it
// adds permissions to the cluster's roles view, edit and admin. To those who have one of these in a namespace, a kind that is in
// none is nothing.
func testOLMAPIs(t *testing.T, csv clusterServiceVersion, objs objects) {
	port := container(t, objs).Ports[0].ContainerPort
	want := []ownedAPI{
		{"metal3.io", "v1alpha1", "Provisioning", "provisionings", name, port},
		{"ironic.metal3-apiserver.io", "v1alpha1", "Candidate", "candidates", name, port},
	}
	if diff := cmp.Diff(want, csv.Spec.APIServiceDefinitions.Owned); diff != "" {
		t.Errorf("APIs (-want +bundle):\n%s", diff)
	}
	// OLM waits for these kinds.
	scheme := runtime.NewScheme()
	if err := errors.Join(metal3.AddToScheme(scheme), ironic.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	for _, api := range csv.Spec.APIServiceDefinitions.Owned {
		if kind := (schema.GroupVersionKind{Group: api.Group, Version: api.Version, Kind: api.Kind}); !scheme.Recognizes(kind) {
			t.Errorf("there is no %s", kind)
		}
	}
	var services, owned []string
	for _, service := range all[*apiService](objs) {
		services = append(services, service.Name)
	}
	for _, api := range csv.Spec.APIServiceDefinitions.Owned {
		owned = append(owned, api.Version+"."+api.Group)
	}
	slices.Sort(services)
	slices.Sort(owned)
	if diff := cmp.Diff(services, owned); diff != "" {
		t.Errorf("APIServices (-kustomize +bundle):\n%s", diff)
	}
}

// testOLMOthers compares all other objects: those that stand beside the ClusterServiceVersion, those that an administrator applies,
// and those that are nowhere, because OLM makes them, or what is instead of them.
func testOLMOthers(t *testing.T, bundle, before, objs objects) {
	key := func(obj metav1.Object) string {
		return strings.TrimPrefix(fmt.Sprintf("%T %s", obj, obj.GetName()), "*")
	}
	want := map[string]metav1.Object{}
	for _, obj := range objs {
		want[key(obj)] = obj
	}
	compare := func(objs objects, kinds ...string) {
		t.Helper()
		for _, obj := range objs {
			original := want[key(obj)]
			if original == nil {
				t.Errorf("the default installation has no %s", key(obj))
				continue
			}
			if kind, _, _ := strings.Cut(key(obj), " "); !slices.Contains(kinds, kind) {
				t.Errorf("there is a %s", kind)
			}
			obj.SetNamespace(original.GetNamespace()) // in a bundle, it has none: OLM sets that of the installation
			if diff := cmp.Diff(original, obj); diff != "" {
				t.Errorf("%s (-kustomize +bundle):\n%s", key(obj), diff)
			}
			delete(want, key(obj))
		}
	}
	// Of our kinds, these are those that OLM accepts in a bundle (pkg/lib/bundle/supported_resources.go of operator-registry) and
	// that it does not make itself.
	compare(bundle, "v1.ClusterRole", "v1.PodDisruptionBudget", "v1.NetworkPolicy")
	compare(before, "v1.ResourceQuota", "v1.FlowSchema", "v1.PriorityLevelConfiguration")
	var rest []string
	for key := range want {
		rest = append(rest, configName.ReplaceAllString(key, "$1"))
	}
	slices.Sort(rest)
	if diff := cmp.Diff([]string{
		"artifacts.apiService v1alpha1.ironic.metal3-apiserver.io",
		"artifacts.apiService v1alpha1.metal3.io",
		"artifacts.certificate metal3-apiserver-ca",
		"artifacts.certificate metal3-apiserver-serving",
		"artifacts.issuer metal3-apiserver-ca",
		"artifacts.issuer metal3-apiserver-selfsigned",
		"v1.ClusterRole metal3-apiserver",
		"v1.ClusterRole metal3-apiserver-secrets",
		"v1.ClusterRoleBinding metal3-apiserver",
		"v1.ClusterRoleBinding metal3-apiserver-secrets",
		"v1.ClusterRoleBinding metal3-apiserver:system:auth-delegator",
		"v1.ConfigMap metal3-apiserver-config",
		"v1.Deployment metal3-apiserver",
		"v1.Role metal3-apiserver-ironic-objects",
		"v1.Role metal3-apiserver-leader-election",
		"v1.RoleBinding metal3-apiserver-auth-reader",
		"v1.RoleBinding metal3-apiserver-ironic-objects",
		"v1.RoleBinding metal3-apiserver-leader-election",
		"v1.Service metal3-apiserver",
		"v1.ServiceAccount metal3-apiserver",
	}, rest); diff != "" {
		t.Errorf("objects that neither OLM nor an administrator gets (-want +got):\n%s", diff)
	}
}

// testOLMMetadata checks versions and names, and that the labels of an image that is made of the bundle are its annotations.
func testOLMMetadata(t *testing.T, csv clusterServiceVersion, folder string) {
	if csv.Metadata.Name != "metal3-apiserver.v0.1.0" || csv.Spec.Version != "0.1.0" {
		t.Errorf("the name is %s, the version %s", csv.Metadata.Name, csv.Spec.Version)
	}
	// The server's Lease is in this namespace.
	if suggested := csv.Metadata.Annotations["operatorframework.io/suggested-namespace"]; suggested != namespace {
		t.Errorf("the namespace is %s", suggested)
	}
	for _, mode := range csv.Spec.InstallModes {
		if mode.Supported != (mode.Type == "AllNamespaces") {
			t.Errorf("install mode %v", mode)
		}
	}
	var metadata struct{ Annotations map[string]string }
	if err := yaml.Unmarshal([]byte(readDoc(t, filepath.Join(folder, "bundle/metadata/annotations.yaml"))), &metadata); err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{}
	for line := range strings.Lines(readDoc(t, filepath.Join(folder, "bundle/Dockerfile"))) {
		if label, is := strings.CutPrefix(strings.TrimSpace(line), "LABEL "); is {
			key, value, _ := strings.Cut(label, "=")
			labels[key] = value
		}
	}
	if diff := cmp.Diff(metadata.Annotations, labels); diff != "" || labels["operators.operatorframework.io.bundle.mediatype.v1"] != "registry+v1" {
		t.Errorf("labels (-annotations +labels):\n%s", diff)
	}
}
