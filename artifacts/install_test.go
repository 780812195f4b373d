// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/metal3-io/metal3-apiserver/test/docs"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// TestInstall runs the commands of docs/install.md, from the first to the last, with the kustomization that it
// shows: once with a certificate of cert-manager and an external etcd, and once with what make-certs.sh creates and
// an embedded one.
func TestInstall(t *testing.T) {
	skipShort(t)
	for name, test := range map[string]struct {
		resource    string
		certManager bool
	}{
		"default":     {"artifacts/apiservice", true},
		"quick-start": {"artifacts/apiservice/overlays/quick-start", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath("openssl"); err != nil {
				skipWithout(t, "make-certs.sh needs openssl: %v", err)
			}
			i := newInstallation(t, test.resource, test.certManager)
			commands, err := docs.InstallCommands()
			if err != nil {
				t.Fatal(err)
			}
			installed := true
			for _, command := range commands {
				if command.Section == "Remove" && installed {
					installed = false
					i.readOn()
				}
				i.execute(command.Text)
			}
			i.checkRemoved()
		})
	}
}

// notRun are the commands that TestInstall does not run, and why.
var notRun = map[string]string{
	"docker build": "TestImage builds the image with buildah",
	"docker push":  "there is no registry",
}

// installation is a cluster and a user's folder, in which the user follows docs/install.md.
type installation struct {
	t           *testing.T
	ctx         context.Context
	dir         string
	kube        *testbed.Kube
	client      kubernetes.Interface
	server      *testbed.Server
	ironic      *testbed.SimulatedIronic
	certManager bool
}

func newInstallation(t *testing.T, resource string, certManager bool) *installation {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	i := &installation{t: t, ctx: ctx, dir: t.TempDir(), kube: startKube(t), certManager: certManager}
	var err error
	if i.client, err = kubernetes.NewForConfig(i.kube.Admin.Config); err != nil {
		t.Fatal(err)
	}
	if certManager {
		startCertManager(t, i.kube)
	}
	i.mustKubectl(prometheusOperator, "apply", "-f", "-")
	for _, namespace := range []string{"metal3", "team-a", "monitoring"} {
		i.mustKubectl("", "create", "namespace", namespace)
	}
	i.writeFiles(resource, certManager)
	if i.ironic, err = testbed.StartSimulatedIronic(ironicsim.Options{AutoInspect: true}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(i.ironic.Close)
	return i
}

// writeFiles writes the files that a user has before the first command: the kustomizations of a release instead of a checkout, those
// of docs/install.md, and credentials.
func (i *installation) writeFiles(resource string, certManager bool) {
	i.t.Helper()
	unpackRelease(i.t, filepath.Join(i.dir, "metal3-apiserver", "artifacts"))
	mine, err := docs.Kustomization(map[string]string{
		"artifacts/apiservice ": resource + " ", "REGISTRY": "registry.example.com", "sha256:0123...": siteDigest,
	})
	if err != nil {
		i.t.Fatal(err)
	}
	team, err := docs.InstallFile("team-a/kustomization.yaml")
	if err != nil {
		i.t.Fatal(err)
	}
	if !certManager { // with the embedded etcd, there are no ETCD_SERVERS
		mine = regexp.MustCompile(`(?m)^.*ETCD_SERVERS.*$`).ReplaceAllString(mine, "")
	}
	for path, content := range map[string]string{
		"my-cluster/kustomization.yaml": mine, "team-a/kustomization.yaml": team,
		"ca.crt": "a certificate", "tls.crt": "a certificate", "tls.key": "a key", "username": "admin", "password": "password", "clouds.yaml": "clouds: {}",
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

// readOn runs commands of other pages for a cluster on which the server is installed.
func (i *installation) readOn() {
	i.t.Helper()
	i.mustKubectl("", "create", "namespace", "argocd")
	i.mustKubectl("", "create", "configmap", "argocd-cm", "-n", "argocd")
	i.mustKubectl("", "create", "namespace", "stuck")
	i.mustKubectl("", "delete", "namespace", "stuck", "--wait=false")
	for _, other := range []struct{ page, beginning string }{
		{"monitoring.md", "kubectl create rolebinding metal3-apiserver-discovery-prometheus"},
		{"monitoring.md", "kubectl create clusterrolebinding metal3-apiserver-metrics-prometheus"},
		{"gitops.md", "kubectl patch configmap argocd-cm"},
		{"several-ironics.md", "kubectl create role metal3-apiserver-ironics"},
		{"several-ironics.md", "kubectl create rolebinding metal3-apiserver-ironics"},
		{"several-ironics.md", "kubectl get ironics"},
		{"troubleshooting.md", "kubectl get apiservice v1alpha1.metal3.io -o yaml"},
		{"troubleshooting.md", "kubectl -n metal3-system get pods"},
		{"troubleshooting.md", "kubectl create clusterrolebinding metal3-apiserver-secrets-once"},
		{"troubleshooting.md", "kubectl wait --for=delete namespace/NAME"},
		{"troubleshooting.md", "kubectl delete clusterrolebinding metal3-apiserver-secrets-once"},
	} {
		command, err := docs.One(other.page, other.beginning)
		if err != nil {
			i.t.Fatal(err)
		}
		i.run(strings.Replace(command.Text, "NAME", "stuck", 1))
	}
	if _, _, err := i.kube.Kubectl(i.ctx, "", "auth", "can-i", "list", "pods", "-n", namespace, "--as=system:serviceaccount:monitoring:prometheus-k8s"); err != nil {
		i.t.Errorf("Prometheus may not find the pods: %v", err)
	}
}

// execute runs a command of the documentation, and what happens in a cluster because of it.
func (i *installation) execute(command string) {
	i.t.Helper()
	for prefix := range notRun {
		if strings.HasPrefix(command, prefix) {
			return
		}
	}
	if i.certManager && strings.HasSuffix(command, "make-certs.sh") {
		return
	}
	stdout := i.run(command)
	switch {
	case strings.HasPrefix(command, "kubectl get crd"), strings.HasPrefix(command, "kubectl get apiservice"):
		if stdout != "" {
			i.t.Errorf("%s prints %s", command, stdout)
		}
	case strings.HasPrefix(command, "kubectl apply -k my-cluster"):
		i.startPods()
	case strings.HasPrefix(command, "kubectl get baremetalhosts"):
		i.createHost()
	}
}

// run runs a command in the user's folder, and returns what it prints.
func (i *installation) run(command string) string {
	i.t.Helper()
	cmd := exec.CommandContext(i.ctx, "bash", "-euc", command)
	bin, err := filepath.Abs("../bin")
	if err != nil {
		i.t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = i.dir, &stdout, &stderr
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "KUBECONFIG="+i.kube.Admin.Kubeconfig, "KUBECACHEDIR="+filepath.Join(i.dir, "cache"))
	began := time.Now()
	if err := cmd.Run(); err != nil {
		i.t.Fatalf("%s: %v\n%s%s", command, err, &stdout, &stderr)
	}
	i.t.Logf("%s (%s)\n%s%s", command, time.Since(began).Round(time.Millisecond), head(stdout.String()), &stderr)
	if strings.Contains(stderr.String(), "Warning") {
		i.t.Errorf("%s warns: %s", command, &stderr)
	}
	return stdout.String()
}

// startPods does what the nodes of a cluster do: it starts the server, of which one replica is enough here, gives it the
// certificate of the Secret, and routes the Service to it.
func (i *installation) startPods() {
	i.t.Helper()
	if i.server == nil {
		options := testbed.ServerOptions{Kube: i.kube, Dir: i.t.TempDir(), IronicEndpoint: i.ironic.URL(), Args: testbed.UnusedRamdiskArgs}
		if i.certManager {
			options.EtcdServers = i.kube.EtcdEndpoint
		}
		var err error
		if i.server, err = testbed.NewServer(options); err != nil {
			i.t.Fatal(err)
		}
		i.t.Cleanup(func() {
			if _, err := i.server.Stop(); err != nil {
				i.t.Error(err)
			}
		})
		// It has the permissions of the manifests that were applied, and no others.
		if err := i.server.Start(i.ctx); err != nil {
			i.t.Fatal(err)
		}
	}
	var secret *corev1.Secret
	testbed.Eventually(i.t, i.ctx, func() string {
		var err error
		secret, err = i.client.CoreV1().Secrets(namespace).Get(i.ctx, name+"-serving", metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		return ""
	})
	if err := i.server.SetCertificate(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey]); err != nil {
		i.t.Fatal(err)
	}
	if err := i.server.Route(i.ctx); err != nil {
		i.t.Fatal(err)
	}
}

// createHost creates a host, which the user deletes in the end.
func (i *installation) createHost() {
	i.t.Helper()
	_, err := i.client.CoreV1().Secrets("metal3").Get(i.ctx, "worker-0-bmc", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return // there is one already
	}
	i.mustKubectl("", "create", "secret", "generic", "worker-0-bmc", "-n", "metal3", "--from-literal=username=admin", "--from-literal=password=password")
	i.mustKubectl(fmt.Sprintf(`{"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": {"name": "worker-0", "namespace": "metal3"},
		"spec": {"online": true, "bootMACAddress": "00:00:5e:00:53:01", "bmc": {"address": %q, "credentialsName": "worker-0-bmc"}}}`, i.ironic.NewBMC("admin", "password")), "create", "-f", "-")
	i.mustKubectl("", "wait", "-n", "metal3", "--for=condition=AvailableForProvisioning", "--timeout=1m", "baremetalhost/worker-0")
}

// checkRemoved checks that the server is gone, and that what others use and what it has stored is left.
func (i *installation) checkRemoved() {
	i.t.Helper()
	i.execute("kubectl get apiservice v1alpha1.metal3.io --ignore-not-found")
	left, err := i.client.CoreV1().Namespaces().Get(i.ctx, namespace, metav1.GetOptions{})
	if err != nil || left.DeletionTimestamp != nil {
		i.t.Errorf("the namespace is removed with the server (%v)", err)
	}
	if i.certManager {
		return // there is no embedded etcd
	}
	claim, err := i.client.CoreV1().PersistentVolumeClaims(namespace).Get(i.ctx, name+"-data", metav1.GetOptions{})
	if err != nil || claim.DeletionTimestamp != nil {
		i.t.Errorf("the claim of the embedded etcd is removed with the server (%v)", err)
	}
}

func (i *installation) mustKubectl(stdin string, args ...string) {
	i.t.Helper()
	if _, _, err := i.kube.Kubectl(i.ctx, stdin, args...); err != nil {
		i.t.Fatal(err)
	}
}

func startCertManager(t *testing.T, kube *testbed.Kube) {
	t.Helper()
	certManager, err := testbed.StartCertManager(t.Context(), t.TempDir(), kube.Admin)
	if errors.Is(err, os.ErrNotExist) {
		skipWithout(t, "%v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the log of cert-manager:\n%s", certManager.Log())
		}
		if err := certManager.Stop(); err != nil {
			t.Error(err)
		}
	})
}

// head returns the beginning of an output.
func head(output string) string {
	const maxBytes = 500
	if len(output) > maxBytes {
		return output[:maxBytes] + "...\n"
	}
	return output
}
