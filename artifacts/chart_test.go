// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// configName is the name of the ConfigMap. kustomize and the chart compute its end in different ways.
var configName = regexp.MustCompile(`(metal3-apiserver-config)-[a-z0-9]{10}\b`)

// TestChart renders the chart that hack/release makes of the default installation: without values, it is that installation.
func TestChart(t *testing.T) {
	helm, err := filepath.Abs("../bin/helm")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(helm); err != nil {
		skipWithout(t, "%v: build it with hack/tools/build.sh helm", err)
	}
	folder := t.TempDir()
	chart, manifest := filepath.Join(folder, "chart"), filepath.Join(folder, "manifest.yaml")
	if err := os.WriteFile(manifest, rendered(t)["default"], 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "run", "../hack/release", "chart", chart, "v0.1.0", "images.example.com/metal3-apiserver", siteDigest, manifest)
	cmd.Env = append(cmd.Environ(), "SOURCE_DATE_EPOCH=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	render := func(values string) []byte {
		t.Helper()
		path := filepath.Join(folder, "values.yaml")
		if err := os.WriteFile(path, []byte(values), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), helm, chart, path).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return out
	}
	pinned := bytes.ReplaceAll(rendered(t)["default"], []byte("image: metal3-apiserver:latest"), []byte("image: "+siteImage))
	plain := func(manifest []byte) objects { return parse(t, configName.ReplaceAll(manifest, []byte("$1"))) }
	if diff := cmp.Diff(plain(pinned), plain(render(""))); diff != "" {
		t.Errorf("the chart is not the default installation (-kustomize +chart):\n%s", diff)
	}

	t.Run("documented", func(t *testing.T) { testDocumentedChart(t, chart, render) })
	t.Run("values", func(t *testing.T) { testChartValues(t, render) })
}

// testDocumentedChart uses the command of docs/releases.md: it sets only values that there are, and the image is that of a registry.
func testDocumentedChart(t *testing.T, chart string, render func(values string) []byte) {
	command := regexp.MustCompile(`(?m)^    (helm install (?:.*\\\n)*.*)$`).FindString(readDoc(t, "../docs/releases.md"))
	var known map[string]any
	values := map[string]any{}
	if err := yaml.Unmarshal([]byte(readDoc(t, filepath.Join(chart, "values.yaml"))), &known); err != nil {
		t.Fatal(err)
	}
	for _, set := range regexp.MustCompile(`--set ([^=\s]+)=(\S+)`).FindAllStringSubmatch(command, -1) {
		path := strings.Split(set[1], ".")
		if _, is, err := unstructured.NestedFieldNoCopy(known, path...); err != nil || !is {
			t.Errorf("the chart has no value %s (%v)", set[1], err)
		}
		if err := unstructured.SetNestedField(values, set[2], path...); err != nil {
			t.Fatal(err)
		}
	}
	content, err := yaml.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	if image := container(t, parse(t, render(string(content)))).Image; image != "REGISTRY/metal3-apiserver@"+siteDigest {
		t.Errorf("with %s, the image is %s", command, image)
	}
}

// testChartValues changes all values.
func testChartValues(t *testing.T, render func(values string) []byte) {
	manifest := render(`
namespace: elsewhere
image: {repository: metal3-apiserver, digest: "", tag: v0.2.0}
replicas: 3
config: {IRONIC_ENDPOINT: "https://ironic.example.com", ETCD_SERVERS: "https://etcd.example.com:2379"}
flags: ["--ironic-username-file=/etc/ironic/username", "--v=2"]
volumes: [{name: ironic, secret: {secretName: ironic}}]
volumeMounts: [{name: ironic, mountPath: /etc/ironic}]
`)
	if bytes.Contains(manifest, []byte("metal3-system")) {
		t.Error("the former namespace is there still")
	}
	deployment := only[*appsv1.Deployment](t, parse(t, manifest))
	pod := deployment.Spec.Template.Spec
	container := pod.Containers[0]
	if *deployment.Spec.Replicas != 3 || container.Image != "metal3-apiserver:v0.2.0" || deployment.Namespace != "elsewhere" {
		t.Errorf("%d replicas of %s in %s", *deployment.Spec.Replicas, container.Image, deployment.Namespace)
	}
	want := []string{"--leader-elect-resource-namespace=elsewhere", "--ironic-username-file=/etc/ironic/username", "--v=2"}
	if got := container.Args[len(container.Args)-3:]; !slices.Equal(got, want) {
		t.Errorf("the last arguments are %q, want %q", got, want)
	}
	config := only[*corev1.ConfigMap](t, parse(t, manifest))
	if config.Data["IRONIC_ENDPOINT"] != "https://ironic.example.com" || !strings.Contains(string(manifest), "              name: "+config.Name+"\n") {
		t.Errorf("the ConfigMap is %v", config)
	}
	if pod.Volumes[0].Name != "ironic" || container.VolumeMounts[0].MountPath != "/etc/ironic" {
		t.Errorf("the volumes are %v, mounted at %v", pod.Volumes, container.VolumeMounts)
	}
	if former := configName.FindString(string(render(""))); former == "" || former == config.Name {
		t.Errorf("the ConfigMap's name is %s before and after a change", config.Name)
	}
}
