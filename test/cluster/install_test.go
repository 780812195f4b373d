// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/metal3-io/metal3-apiserver/pkg/generated/clientset/versioned"
	"github.com/metal3-io/metal3-apiserver/test/docs"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

const (
	namespace = "metal3-system"
	server    = "metal3-apiserver"
)

// TestDefault installs two replicas with an external etcd and cert-manager: neither an update nor an eviction interrupts reads.
func TestDefault(t *testing.T) {
	i := newInstallation(t, "artifacts/apiservice", true)
	i.follow(func() {
		i.checkPods(2)
		i.checkConnections()
		i.checkLogs()
		i.checkRollout()
		i.checkEviction()
	})
}

// TestQuickStart installs one replica with the embedded etcd on a volume, and a certificate of make-certs.sh: its hosts outlive its
// pod, it is started again when it hangs, and it takes up a renewed certificate.
func TestQuickStart(t *testing.T) {
	i := newInstallation(t, "artifacts/apiservice/overlays/quick-start", false)
	i.createVolume()
	i.follow(func() {
		i.checkPods(1)
		i.checkConnections()
		i.checkLogs()
		i.checkVolume()
		i.checkLiveness()
		i.checkRenewal()
	})
}

// installation is a node and a user's folder, in which the user follows docs/install.md.
type installation struct {
	t           *testing.T
	ctx         context.Context
	dir         string
	certManager bool
	image       string // the digest of the server's

	node   *testbed.KubeNode
	ironic *testbed.SimulatedIronic
	core   kubernetes.Interface
	metal3 versioned.Interface
}

func newInstallation(t *testing.T, resource string, certManager bool) *installation {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("a node needs root")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 6*testbed.Patience)
	t.Cleanup(cancel)
	i := &installation{t: t, ctx: ctx, dir: t.TempDir(), certManager: certManager}
	i.startNode()
	var err error
	if i.core, err = kubernetes.NewForConfig(i.node.Admin.Config); err != nil {
		t.Fatal(err)
	}
	if i.metal3, err = versioned.NewForConfig(i.node.Admin.Config); err != nil {
		t.Fatal(err)
	}
	if i.ironic, err = testbed.StartSimulatedIronic(ironicsim.Options{AutoInspect: true, DefaultRamdisk: true}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(i.ironic.Close)
	site, err := i.node.StartSite(ctx, i.dir, i.ironic.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := site.Stop(); err != nil {
			t.Error(err)
		}
	})
	i.writeFiles(resource)
	for _, name := range []string{"metal3", "team-a", "monitoring"} {
		i.kubectl("", "create", "namespace", name)
	}
	i.kubectl(prometheusOperator, "apply", "-f", "-")
	if certManager {
		i.startCertManager()
	}
	return i
}

func (i *installation) startNode() {
	i.t.Helper()
	dir := i.t.TempDir()
	node, err := testbed.StartKubeNode(i.ctx, dir)
	if err != nil {
		i.t.Fatal(err)
	}
	i.node = node
	i.t.Cleanup(func() {
		if i.t.Failed() {
			i.t.Log(node.Logs())
			for _, args := range [][]string{
				{"describe", "pods"}, {"get", "endpointslices", "-o", "yaml", "--show-managed-fields"}, {"get", "events", "--sort-by=.metadata.creationTimestamp"},
				{"logs", "deployment/" + server, "--tail=50"}, {"logs", "deployment/" + server, "--previous", "--tail=50"},
			} {
				out, _, err := node.Admin.Kubectl(context.Background(), "", append([]string{"-n", namespace}, args...)...)
				i.t.Log(out, err)
			}
		}
		if err := node.Stop(); err != nil {
			i.t.Error(err)
		}
	})
	// The image of the node's pods is made like that of the server: it has one program.
	pause, _ := i.makeImage("pause.invalid/pause", "v1", "node/pause")
	i.load(pause, "ctr", "--namespace=k8s.io", "images", "import")
	load, err := docs.One("releases.md", "ctr ")
	if err != nil {
		i.t.Fatal(err)
	}
	archive, digest := i.makeImage(server, "v0.1.0", server)
	words := strings.Fields(load.Text)
	i.load(archive, words[:len(words)-1]...)
	i.image = digest
}

// makeImage makes an image of a program in bin/, as a release does, and returns its digest.
func (i *installation) makeImage(name, tag, program string) (archive, digest string) {
	i.t.Helper()
	root, err := testbed.RepoRoot()
	if err != nil {
		i.t.Fatal(err)
	}
	archive = filepath.Join(i.t.TempDir(), "image.tar")
	release := exec.CommandContext(i.ctx, "go", "run", "./hack/release", "image", archive, name, tag, "none",
		"amd64="+filepath.Join(root, "bin", program))
	release.Dir, release.Env = root, append(os.Environ(), "SOURCE_DATE_EPOCH=0")
	var stderr bytes.Buffer
	release.Stderr = &stderr
	printed, err := release.Output()
	if err != nil {
		i.t.Fatalf("the image of %s: %v: %s", program, err, &stderr)
	}
	return archive, strings.TrimSpace(string(printed))
}

func (i *installation) load(archive string, ctr ...string) {
	i.t.Helper()
	if err := i.node.Load(i.ctx, archive, ctr...); err != nil {
		i.t.Fatal(err)
	}
}

func (i *installation) startCertManager() {
	i.t.Helper()
	certManager, err := testbed.StartCertManager(i.ctx, i.t.TempDir(), i.node.Admin)
	if err != nil {
		i.t.Fatal(err)
	}
	i.t.Cleanup(func() {
		if i.t.Failed() {
			i.t.Logf("the end of the log of cert-manager:\n%s", certManager.Log())
		}
		if err := certManager.Stop(); err != nil {
			i.t.Error(err)
		}
	})
}

// writeFiles writes what a user has before the first command, beside the keys of etcd: a checkout, the kustomizations of
// docs/install.md, and credentials.
func (i *installation) writeFiles(resource string) {
	i.t.Helper()
	if err := os.CopyFS(filepath.Join(i.dir, "metal3-apiserver", "artifacts"), os.DirFS("../../artifacts")); err != nil {
		i.t.Fatal(err)
	}
	mine, err := docs.Kustomization(map[string]string{
		"artifacts/apiservice ": resource + " ", "REGISTRY/": "", "sha256:0123...": i.image,
		"ironic-basic-auth\n":                                             "ironic-basic-auth\n- ../metal3-apiserver/artifacts/apiservice/components/ironic-ca\n",
		"https://ironic.example.com:6385":                                 testbed.KubeNodeIronic,
		"https://etcd-0.example.com:2379,https://etcd-1.example.com:2379": testbed.KubeNodeEtcd,
	})
	if err != nil {
		i.t.Fatal(err)
	}
	if !i.certManager { // with the embedded etcd, there are no ETCD_SERVERS
		mine = regexp.MustCompile(`(?m)^.*ETCD_SERVERS.*$`).ReplaceAllString(mine, "")
	}
	team, err := docs.InstallFile("team-a/kustomization.yaml")
	if err != nil {
		i.t.Fatal(err)
	}
	for path, content := range map[string]string{
		"my-cluster/kustomization.yaml": mine, "team-a/kustomization.yaml": team,
		"username": "admin", "password": "password", "clouds.yaml": "clouds: {}",
	} {
		path = filepath.Join(i.dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			i.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			i.t.Fatal(err)
		}
	}
}

// follow runs the commands of docs/install.md in their order, and checks when the server is installed.
func (i *installation) follow(check func()) {
	i.t.Helper()
	installed := false
	for _, command := range i.commands() {
		i.execute(command.Text)
		if !installed && strings.HasPrefix(command.Text, "kubectl get baremetalhosts") {
			installed = true
			i.createHost()
			i.waitAvailable()
			check()
		}
	}
	if !installed {
		i.t.Error("no command of docs/install.md lists hosts")
	}
	i.checkRemoved()
}

// checkRemoved checks that the server is gone, and that what others use and what it has stored is left.
func (i *installation) checkRemoved() {
	i.t.Helper()
	if out := i.kubectl("", "get", "deployments", "-n", namespace, "-o", "name"); out != "" {
		i.t.Errorf("what is left: %s", out)
	}
	left, err := i.core.CoreV1().Namespaces().Get(i.ctx, namespace, metav1.GetOptions{})
	if err != nil || left.DeletionTimestamp != nil {
		i.t.Errorf("the namespace is removed with the server (%v)", err)
	}
	if i.certManager {
		return // there is no embedded etcd
	}
	claim, err := i.core.CoreV1().PersistentVolumeClaims(namespace).Get(i.ctx, server+"-data", metav1.GetOptions{})
	if err != nil || claim.DeletionTimestamp != nil {
		i.t.Errorf("the claim of the embedded etcd is removed with the server (%v)", err)
	}
}

// commands returns those of docs/install.md that this installation needs. Its image is made without a container engine, and loaded.
func (i *installation) commands() []docs.Command {
	i.t.Helper()
	commands, err := docs.InstallCommands()
	if err != nil {
		i.t.Fatal(err)
	}
	return slices.DeleteFunc(commands, func(command docs.Command) bool {
		return strings.HasPrefix(command.Text, "docker ") || i.certManager && strings.HasSuffix(command.Text, "make-certs.sh")
	})
}

// execute runs a command as the user would, in the user's folder, and returns what it prints. Nothing warns.
func (i *installation) execute(command string) (stdout string) {
	i.t.Helper()
	stdout, stderr := i.run(command)
	if strings.Contains(stderr, "Warning") {
		i.t.Errorf("%s warns: %s", command, stderr)
	}
	if strings.HasPrefix(command, "kubectl wait --for=condition=Available apiservice/") {
		i.waitServed()
	}
	return stdout
}

// waitServed waits until kube-apiserver passes on requests. It looks at a Service several times at once when the first pod of that gets
// ready, and a look that began before says after another one, for a moment, that nothing is there. A person takes longer to type.
func (i *installation) waitServed() {
	i.t.Helper()
	for i.ctx.Err() == nil {
		if _, _, err := i.node.Admin.Kubectl(i.ctx, "", "get", "--raw", "/apis/metal3.io/v1alpha1/baremetalhosts?limit=1"); err == nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	i.t.Fatal("nothing serves the API")
}

func (i *installation) run(command string) (stdout, stderr string) {
	i.t.Helper()
	cmd := i.node.Command(i.ctx, "bash", "-euc", command)
	var out, warnings bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = i.dir, &out, &warnings
	if err := cmd.Run(); err != nil {
		i.t.Fatalf("%s: %v\n%s%s", command, err, &out, &warnings)
	}
	i.t.Logf("%s\n%s%s", command, &out, &warnings)
	return out.String(), warnings.String()
}

func (i *installation) kubectl(stdin string, args ...string) string {
	i.t.Helper()
	out, _, err := i.node.Admin.Kubectl(i.ctx, stdin, args...)
	if err != nil {
		i.t.Fatal(err)
	}
	return out
}

// createHost creates a host.
func (i *installation) createHost() {
	i.t.Helper()
	const address = "ipmi://192.0.2.50" // the server lets Ironic connect to no local one
	i.ironic.AddBMC(address, "admin", "password")
	i.kubectl("", "create", "secret", "generic", "worker-0-bmc", "-n", "metal3", "--from-literal=username=admin", "--from-literal=password=password")
	i.kubectl(`{"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": {"name": "worker-0", "namespace": "metal3"},
		"spec": {"online": true, "bootMACAddress": "00:00:5e:00:53:01", "bmc": {"address": "`+address+`", "credentialsName": "worker-0-bmc"}}}`, "create", "-f", "-")
}

// waitAvailable waits until the host is registered, inspected and available.
func (i *installation) waitAvailable() {
	i.t.Helper()
	i.kubectl("", "wait", "-n", "metal3", "--for=condition=AvailableForProvisioning", "--timeout=5m", "baremetalhost/worker-0")
}

// readHost reads the host through kube-apiserver.
func (i *installation) readHost(ctx context.Context) error {
	_, err := i.metal3.Metal3V1alpha1().BareMetalHosts("metal3").Get(ctx, "worker-0", metav1.GetOptions{})
	return err
}

// prometheusOperator are the kinds of artifacts/monitoring, without their schemas.
const prometheusOperator = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: servicemonitors.monitoring.coreos.com}
spec: {group: monitoring.coreos.com, names: {kind: ServiceMonitor, plural: servicemonitors}, scope: Namespaced, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: prometheusrules.monitoring.coreos.com}
spec: {group: monitoring.coreos.com, names: {kind: PrometheusRule, plural: prometheusrules}, scope: Namespaced, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}
`
