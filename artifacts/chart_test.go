// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"bytes"
	"errors"
	"fmt"
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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/metal3-io/metal3-apiserver/test/docs"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// configName is the name of the ConfigMap. kustomize and the chart compute its end in different ways.
var configName = regexp.MustCompile(`(metal3-apiserver-config)-[a-z0-9]{10}\b`)

// helm runs Helm in a folder, with the charts of releases and nothing of the user's.
type helm struct {
	t   *testing.T
	dir string
	env []string
}

func newHelm(t *testing.T) *helm {
	t.Helper()
	bin, err := filepath.Abs("../bin")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), filepath.Join(bin, "helm"), "version").CombinedOutput(); err != nil {
		skipWithout(t, "%v: build it with hack/tools/build.sh helm\n%s", err, out)
	}
	h := &helm{t: t, dir: t.TempDir()}
	h.env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "KUBECONFIG=/dev/null")
	for _, kind := range []string{"CACHE", "CONFIG", "DATA"} {
		h.env = append(h.env, "HELM_"+kind+"_HOME="+filepath.Join(h.dir, kind))
	}
	return h
}

// run runs a command of a shell and returns what it prints. A warning fails the test.
func (h *helm) run(command string) []byte {
	h.t.Helper()
	cmd := exec.CommandContext(h.t.Context(), "bash", "-euc", command)
	var stdout, stderr bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = h.dir, h.env, &stdout, &stderr
	if err := cmd.Run(); err != nil {
		h.t.Fatalf("%s: %v\n%s%s", command, err, &stdout, &stderr)
	}
	if stderr.Len() > 0 {
		h.t.Errorf("%s warns: %s", command, &stderr)
	}
	return stdout.Bytes()
}

// write writes a file into the folder.
func (h *helm) write(path string, content []byte) {
	h.t.Helper()
	if err := os.WriteFile(filepath.Join(h.dir, path), content, 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// release makes the chart of a release as hack/release.sh does: the folder chart, and its archive.
func (h *helm) release(version, digest string) {
	h.t.Helper()
	h.write("manifest.yaml", rendered(h.t)["default"])
	charts := filepath.Join(h.dir, "charts-"+version)
	makeRelease(h.t, "chart", filepath.Join(charts, "metal3-apiserver"), "v"+version, "images.example.com/metal3-apiserver", digest, filepath.Join(h.dir, "manifest.yaml"))
	makeRelease(h.t, "pack", filepath.Join(h.dir, "metal3-apiserver-"+version+".tgz"), charts)
}

// render returns what the chart renders with values.
func (h *helm) render(values string) []byte {
	h.t.Helper()
	h.write("values.yaml", []byte(values))
	return h.run("helm template metal3-apiserver metal3-apiserver-0.1.0.tgz -f values.yaml")
}

// TestChart has Helm check, render and install the chart that hack/release makes of the default installation: without values, it is
// that installation.
func TestChart(t *testing.T) {
	h := newHelm(t)
	h.release("0.1.0", siteDigest)
	pinned := bytes.ReplaceAll(rendered(t)["default"], []byte("image: metal3-apiserver:latest"), []byte("image: "+siteImage))
	plain := func(manifest []byte) objects {
		objs := parse(t, configName.ReplaceAll(manifest, []byte("$1")))
		slices.SortFunc(objs, func(a, b metav1.Object) int { // Helm installs in an order of its own
			return strings.Compare(fmt.Sprintf("%T %s/%s", a, a.GetNamespace(), a.GetName()), fmt.Sprintf("%T %s/%s", b, b.GetNamespace(), b.GetName()))
		})
		return objs
	}
	if diff := cmp.Diff(plain(pinned), plain(h.render(""))); diff != "" {
		t.Errorf("the chart is not the default installation (-kustomize +chart):\n%s", diff)
	}

	t.Run("lint", func(t *testing.T) { h.with(t).testLint() })
	t.Run("documented", func(t *testing.T) { h.with(t).testDocumented() })
	t.Run("values", func(t *testing.T) { testChartValues(t, h.with(t).render) })
	t.Run("cluster", func(t *testing.T) { h.with(t).testInCluster(pinned) })
}

// with returns a Helm that fails another test.
func (h *helm) with(t *testing.T) *helm { return &helm{t, h.dir, h.env} }

// accepted are the remarks of helm lint that the chart is left with, and why.
var accepted = map[string]string{
	"[INFO] Chart.yaml: icon is recommended": "catalogs show icons, and this project has none",
}

// testLint has Helm look for mistakes, without values and with all of them.
func (h *helm) testLint() {
	h.write("all.yaml", []byte(allValues))
	for _, values := range []string{"", " -f all.yaml"} {
		for line := range strings.Lines(string(h.run("helm lint --strict charts-0.1.0/metal3-apiserver" + values))) {
			if line = strings.TrimSpace(line); strings.HasPrefix(line, "[") && accepted[line] == "" {
				h.t.Errorf("helm lint%s: %s", values, line)
			}
		}
	}
}

// documented returns a command of docs/releases.md that begins so.
func (h *helm) documented(beginning string) string {
	h.t.Helper()
	command, err := docs.One("releases.md", beginning)
	if err != nil {
		h.t.Fatal(err)
	}
	return command.Text
}

// testDocumented checks that the command of docs/releases.md sets only values that there are: Helm takes others, too.
func (h *helm) testDocumented() {
	var known map[string]any
	if err := yaml.Unmarshal(h.run("helm show values metal3-apiserver-0.1.0.tgz"), &known); err != nil {
		h.t.Fatal(err)
	}
	for _, set := range regexp.MustCompile(`--set ([^=\s]+)=`).FindAllStringSubmatch(h.documented("helm install"), -1) {
		if _, is, err := unstructured.NestedFieldNoCopy(known, strings.Split(set[1], ".")...); err != nil || !is {
			h.t.Errorf("the chart has no value %s (%v)", set[1], err)
		}
	}
}

// testInCluster runs the commands of docs/releases.md with a real kube-apiserver: it installs the chart, goes to the next release,
// and removes it. No node is there to run the pods.
func (h *helm) testInCluster(pinned []byte) {
	t := h.t
	kube := startKube(t)
	if err := testbed.CreateCertManagerCRDs(t.Context(), kube.Admin); errors.Is(err, os.ErrNotExist) {
		skipWithout(t, "%v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	h.env = append(h.env, "KUBECONFIG="+kube.Admin.Kubeconfig, "KUBECACHEDIR="+filepath.Join(h.dir, "cache"), "KUBERC=off")
	h.release("0.2.0", releaseDigest)
	h.run("kubectl create namespace metal3-system")
	h.run("kubectl create secret generic metal3-apiserver-etcd-client -n metal3-system --from-literal=tls.key=key")
	h.write("install.yaml", pinned)
	// check looks at what the cluster has, of which nothing may lack.
	check := func(command, image string, replicas int32) (config corev1.ConfigMap) {
		t.Helper()
		h.run("helm get manifest metal3-apiserver >installed.yaml")
		h.run("kubectl get -f installed.yaml")
		var deployment appsv1.Deployment
		h.get(&deployment, "deployment", "metal3-apiserver")
		container := deployment.Spec.Template.Spec.Containers[0]
		if container.Image != image || *deployment.Spec.Replicas != replicas {
			t.Errorf("after %s, there are %d replicas of %s, want %d of %s", command, *deployment.Spec.Replicas, container.Image, replicas, image)
		}
		h.get(&config, "configmap", configName.FindString(string(h.run("cat installed.yaml"))))
		return config
	}

	install, upgrade := h.documented("helm install"), h.documented("helm upgrade")
	h.run(install)
	config := check(install, "REGISTRY/metal3-apiserver@"+siteDigest, 2)
	if got := config.Data["IRONIC_ENDPOINT"] + " " + config.Data["ETCD_SERVERS"]; got != "https://ironic.example.com:6385 https://etcd.example.com:2379" {
		t.Errorf("after %s, the server is configured with %s", install, got)
	}
	if !bytes.Contains(h.run(strings.Replace(upgrade, "--reset-then-reuse-values", "--reuse-values --dry-run=server", 1)), []byte(siteDigest)) {
		t.Error("--reuse-values does not keep the former image, as docs/releases.md says")
	}
	h.run(upgrade)
	if kept := check(upgrade, "REGISTRY/metal3-apiserver@"+releaseDigest, 2); kept.Name != config.Name {
		t.Errorf("%s changes the configuration:\n%s", upgrade, cmp.Diff(config.Data, kept.Data))
	}
	upgrade += " --set replicas=3 --set config.IRONIC_ENDPOINT=https://other.example.com:6385"
	h.run(upgrade)
	if changed := check(upgrade, "REGISTRY/metal3-apiserver@"+releaseDigest, 3); changed.Name == config.Name {
		t.Errorf("%s does not restart the pods: the ConfigMap has the same name", upgrade)
	}
	if former := h.run("kubectl get configmap -n metal3-system --ignore-not-found " + config.Name); len(former) > 0 {
		t.Errorf("the former configuration stays: %s", former)
	}
	back := "helm upgrade metal3-apiserver metal3-apiserver-0.1.0.tgz --reset-values"
	h.run(back)
	check(back, siteImage, 2)
	byHelm := live(t, h.run("kubectl get -f installed.yaml -o json"))
	if want := len(parse(t, pinned)); len(byHelm) != want {
		t.Errorf("the chart has %d objects, install.yaml %d", len(byHelm), want)
	}

	h.run(h.documented("helm uninstall"))
	testbed.Eventually(t, t.Context(), func() string {
		return string(h.run("kubectl get -f installed.yaml --ignore-not-found"))
	})
	h.run("kubectl get namespace metal3-system -o jsonpath={.status.phase} | grep -x Active")
	h.run("kubectl get secret -n metal3-system metal3-apiserver-etcd-client")

	h.run("kubectl create -f install.yaml")
	if diff := cmp.Diff(live(t, h.run("kubectl get -f install.yaml -o json")), byHelm); diff != "" {
		t.Errorf("the objects are not those of install.yaml (-install.yaml +Helm):\n%s", diff)
	}
}

// get decodes an object of the server's namespace.
func (h *helm) get(object any, kind, name string) {
	h.t.Helper()
	if err := yaml.Unmarshal(h.run("kubectl get -n metal3-system -o json "+kind+" "+name), object); err != nil {
		h.t.Fatal(err)
	}
}

// live decodes what kubectl prints of objects in a cluster, without what differs each time that one is created, and what Helm adds to
// know its own.
func live(t *testing.T, printed []byte) map[string]any {
	t.Helper()
	var list unstructured.UnstructuredList
	if err := list.UnmarshalJSON(configName.ReplaceAll(printed, []byte("$1"))); err != nil {
		t.Fatal(err)
	}
	objs := map[string]any{}
	for _, obj := range list.Items {
		for _, field := range []string{
			"status", "spec.clusterIP", "spec.clusterIPs", "metadata.uid", "metadata.resourceVersion", "metadata.creationTimestamp", "metadata.generation",
			"metadata.managedFields",
		} {
			unstructured.RemoveNestedField(obj.Object, strings.Split(field, ".")...)
		}
		labels, annotations := obj.GetLabels(), obj.GetAnnotations()
		delete(labels, "app.kubernetes.io/managed-by")
		delete(annotations, "meta.helm.sh/release-name")
		delete(annotations, "meta.helm.sh/release-namespace")
		obj.SetLabels(orNil(labels))
		obj.SetAnnotations(orNil(annotations))
		objs[obj.GetKind()+" "+obj.GetNamespace()+"/"+obj.GetName()] = obj.Object
	}
	return objs
}

// orNil returns a map that is not empty, or nil, which removes a field.
func orNil(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	return m
}

// allValues sets all values of the chart.
const allValues = `
namespace: elsewhere
image: {repository: metal3-apiserver, digest: "", tag: v0.2.0}
replicas: 3
imagePullSecrets: [{name: registry}]
config: {IRONIC_ENDPOINT: "https://ironic.example.com", ETCD_SERVERS: "https://etcd.example.com:2379"}
flags: ["--ironic-username-file=/etc/ironic/username", "--v=2"]
volumes: [{name: ironic, secret: {secretName: ironic}}]
volumeMounts: [{name: ironic, mountPath: /etc/ironic}]
`

// testChartValues changes all values.
func testChartValues(t *testing.T, render func(values string) []byte) {
	manifest := render(allValues)
	if bytes.Contains(manifest, []byte("metal3-system")) {
		t.Error("the former namespace is there still")
	}
	deployment := only[*appsv1.Deployment](t, parse(t, manifest))
	pod := deployment.Spec.Template.Spec
	container := pod.Containers[0]
	if *deployment.Spec.Replicas != 3 || container.Image != "metal3-apiserver:v0.2.0" || deployment.Namespace != "elsewhere" {
		t.Errorf("%d replicas of %s in %s", *deployment.Spec.Replicas, container.Image, deployment.Namespace)
	}
	account := only[*corev1.ServiceAccount](t, parse(t, manifest))
	if len(account.ImagePullSecrets) != 1 || account.ImagePullSecrets[0].Name != "registry" || pod.ServiceAccountName != account.Name {
		t.Errorf("the Secrets for the registry are %v, of %s", account.ImagePullSecrets, account.Name)
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
