// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// TestCAPM3Program has a real Cluster API Provider Metal3, of which CAPM3 is the path, give a machine to a cluster, reboot it because
// it is not healthy, pause it, and take it back. CAPM3_CRDS is a file with all CustomResourceDefinitions that it needs: its own,
// those of Cluster API's core and of its control plane, and those of the IP address manager.
func TestCAPM3Program(t *testing.T) {
	program, crds := os.Getenv("CAPM3"), os.Getenv("CAPM3_CRDS")
	if program == "" || crds == "" {
		t.Skip("CAPM3 and CAPM3_CRDS are not set")
	}
	ctx, ns := s.Begin(t)
	c := &capm3Program{t: t, ctx: ctx, ns: ns}
	c.kubectl("", "apply", "--server-side", "-f", crds)
	c.kubectl("", "wait", "--for=condition=Established", "--timeout=5m", "-f", crds)
	c.start(program)
	for _, name := range []string{"worker-0", "worker-1"} {
		managedHost(t, ctx, ns, name, func(h *metal3.BareMetalHost) { h.Spec.Online = false }, asByDefault)
	}
	for _, name := range []string{"worker-0", "worker-1"} {
		hostIs(t, ctx, ns, name, "available", isAvailable)
	}
	c.createCluster()
	c.createMachine("machine-0")

	host := c.hostOf("machine-0")
	hostIs(t, ctx, ns, host, "provisioned", isProvisioned)
	c.createNode("machine-0", host)
	c.machineHas("machine-0", "true", "status", "initialization", "provisioned")
	if id := c.machine("machine-0", "spec", "providerID"); !strings.HasPrefix(id, "metal3://"+ns+"/"+host+"/") {
		t.Errorf("the provider ID is %q", id)
	}

	t.Run("remediation", func(t *testing.T) { c.remediate("machine-0", host) })
	t.Run("pause", func(t *testing.T) { c.pause(host) })
	t.Run("deletion", func(t *testing.T) {
		c.kubectl("", "delete", "-n", ns, "metal3machine/machine-0", "--timeout=5m")
		h := hostIs(t, ctx, ns, host, "available again", func(h *metal3.BareMetalHost) bool {
			return h.Status.Provisioning.State == metal3.StateAvailable && h.Spec.ConsumerRef == nil
		})
		if h.Spec.Image != nil || h.Spec.Online || h.Status.ErrorMessage != "" {
			t.Errorf("the host afterwards: %+v, error %q", h.Spec, h.Status.ErrorMessage)
		}
	})
}

// capm3Program is a namespace with a Cluster that a real CAPM3 watches.
type capm3Program struct {
	t   *testing.T
	ctx context.Context
	ns  string
}

// start starts CAPM3 for the namespace. Its webhooks are not registered.
func (c *capm3Program) start(program string) {
	c.t.Helper()
	certs := c.t.TempDir()
	writePair(c.t, certs)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		c.t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	if err := listener.Close(); err != nil {
		c.t.Fatal(err)
	}
	var log bytes.Buffer
	cmd := exec.CommandContext(c.ctx, program, "--namespace="+c.ns, "--v=2", "--health-addr=127.0.0.1:0", "--diagnostics-address=127.0.0.1:0",
		fmt.Sprintf("--webhook-port=%d", port), "--webhook-cert-dir="+certs)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+s.Kube.Admin.Kubeconfig)
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
		if c.t.Failed() {
			c.t.Logf("the log of CAPM3:\n%s", &log)
		}
	})
}

// writePair writes a key and its certificate, which nobody looks at, as tls.key and tls.crt.
func writePair(t *testing.T, dir string) {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	server.Close()
	pair := server.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		"tls.crt": {Type: "CERTIFICATE", Bytes: pair.Certificate[0]}, "tls.key": {Type: "PRIVATE KEY", Bytes: key},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func (c *capm3Program) kubectl(stdin string, args ...string) string {
	c.t.Helper()
	out, _, err := s.Kube.Kubectl(c.ctx, stdin, args...)
	if err != nil {
		c.t.Fatal(err)
	}
	return out
}

const clusterGroup, infrastructureGroup = "cluster.x-k8s.io", "infrastructure.cluster.x-k8s.io"

// create creates an object, which labels and owner connect with the cluster, and returns it.
func (c *capm3Program) create(group, plural, kind, name string, owner *unstructured.Unstructured, spec string) *unstructured.Unstructured {
	c.t.Helper()
	object := &unstructured.Unstructured{}
	text := fmt.Sprintf(`{"apiVersion": "%s/v1beta2", "kind": %q, "metadata": {"name": %q, "labels": {"cluster.x-k8s.io/cluster-name": "cluster-0"}}, "spec": %s}`, group, kind, name, spec)
	if err := object.UnmarshalJSON([]byte(text)); err != nil {
		c.t.Fatal(err)
	}
	if owner != nil {
		object.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(owner, owner.GroupVersionKind())})
	}
	created, err := c.objects(group, plural).Create(c.ctx, object, metav1.CreateOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return created
}

func (c *capm3Program) objects(group, plural string) dynamic.ResourceInterface {
	return s.Dynamic.Resource(schema.GroupVersionResource{Group: group, Version: "v1beta2", Resource: plural}).Namespace(c.ns)
}

// createCluster creates a Cluster, whose Nodes are in the same cluster, and does what Cluster API's own controllers do.
func (c *capm3Program) createCluster() {
	c.t.Helper()
	kubeconfig, err := os.ReadFile(s.Kube.Admin.Kubeconfig)
	if err != nil {
		c.t.Fatal(err)
	}
	for name, secret := range map[string]*corev1.Secret{
		"cluster-0-kubeconfig": {Type: "cluster.x-k8s.io/secret", Data: map[string][]byte{"value": kubeconfig}},
		"bootstrap":            {Type: "cluster.x-k8s.io/secret", Data: map[string][]byte{"value": []byte("#cloud-config"), "format": []byte("cloud-config")}},
	} {
		secret.Name, secret.Labels = name, map[string]string{clusterNameLabel: "cluster-0"}
		if _, err := s.Core.CoreV1().Secrets(c.ns).Create(c.ctx, secret, metav1.CreateOptions{}); err != nil {
			c.t.Fatal(err)
		}
	}
	const endpoint = `"controlPlaneEndpoint": {"host": "192.0.2.10", "port": 6443}`
	cluster := c.create(clusterGroup, "clusters", "Cluster", "cluster-0", nil,
		`{`+endpoint+`, "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "Metal3Cluster", "name": "cluster-0"}}`)
	c.kubectl("", "patch", "-n", c.ns, "clusters.cluster.x-k8s.io/cluster-0", "--subresource=status", "--type=merge", "-p",
		`{"status": {"initialization": {"infrastructureProvisioned": true, "controlPlaneInitialized": true},
		"deprecated": {"v1beta1": {"conditions": [{"type": "InfrastructureReady", "status": "True", "lastTransitionTime": "`+time.Now().UTC().Format(time.RFC3339)+`"}]}}}}`)
	c.create(infrastructureGroup, "metal3clusters", "Metal3Cluster", "cluster-0", cluster, `{`+endpoint+`}`)
}

func (c *capm3Program) createMachine(name string) {
	c.t.Helper()
	cluster, err := c.objects(clusterGroup, "clusters").Get(c.ctx, "cluster-0", metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	machine := c.create(clusterGroup, "machines", "Machine", name, cluster, fmt.Sprintf(`{"clusterName": "cluster-0", "version": "v1.37.0",
		"bootstrap": {"dataSecretName": "bootstrap"},
		"infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "Metal3Machine", "name": %q}}`, name))
	c.create(infrastructureGroup, "metal3machines", "Metal3Machine", name, machine,
		`{"image": {"url": "http://192.0.2.1/image.qcow2", "checksum": "http://192.0.2.1/image.sha256", "checksumType": "sha256", "diskFormat": "qcow2"}}`)
}

// machine returns a field of a Metal3Machine as text; empty if it is not set.
func (c *capm3Program) machine(name string, field ...string) string {
	c.t.Helper()
	object, err := c.objects(infrastructureGroup, "metal3machines").Get(c.ctx, name, metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	value, found, err := unstructured.NestedFieldNoCopy(object.Object, field...)
	if err != nil || !found {
		return ""
	}
	return fmt.Sprint(value)
}

func (c *capm3Program) machineHas(name, want string, field ...string) {
	c.t.Helper()
	comes(c.t, c.ctx, func() string {
		if got := c.machine(name, field...); got != want {
			return fmt.Sprintf("%s of Metal3Machine %s is %q; %s", strings.Join(field, "."), name, got, c.machine(name, "status"))
		}
		return ""
	})
}

// hostOf waits until CAPM3 has chosen a host for a Metal3Machine, and returns its name.
func (c *capm3Program) hostOf(machine string) (name string) {
	c.t.Helper()
	comes(c.t, c.ctx, func() string {
		hosts, err := s.Hosts(c.ns).List(c.ctx, metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		for _, host := range hosts.Items {
			if host.Spec.ConsumerRef != nil && host.Spec.ConsumerRef.Name == machine {
				name = host.Name
				return ""
			}
		}
		return "no host has been chosen: " + c.machine(machine, "status")
	})
	return name
}

// createNode creates the Node that joins from a host, and does what Cluster API's own controllers do. The image labels the Node with
// the UID of the host.
func (c *capm3Program) createNode(machine, host string) {
	c.t.Helper()
	uid := string(s.GetHost(c.t, c.ctx, c.ns, host).UID)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: c.ns, Labels: map[string]string{"metal3.io/uuid": uid}}}
	if _, err := s.Core.CoreV1().Nodes().Create(c.ctx, node, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	c.kubectl("", "patch", "-n", c.ns, "machines.cluster.x-k8s.io/"+machine, "--subresource=status", "--type=merge", "-p", `{"status": {"nodeRef": {"name": "`+c.ns+`"}}}`)
}

// remediate has CAPM3 reboot a machine: it switches it off, has its pods removed from the Node, and switches it on.
func (c *capm3Program) remediate(machine, host string) {
	owner, err := c.objects(clusterGroup, "machines").Get(c.ctx, machine, metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	before := s.GetHost(c.t, c.ctx, c.ns, host)
	c.create(infrastructureGroup, "metal3remediations", "Metal3Remediation", machine, owner, `{"strategy": {"type": "Reboot", "retryLimit": 1, "timeoutSeconds": 100}}`)
	hostIs(c.t, c.ctx, c.ns, host, "off", func(h *metal3.BareMetalHost) bool { return !h.Status.PoweredOn })
	after := hostIs(c.t, c.ctx, c.ns, host, "on", isProvisioned)
	if after.Status.Provisioning.ID != before.Status.Provisioning.ID || after.Status.ErrorMessage != "" {
		c.t.Errorf("after the reboot: node %s, which was %s, error %q", after.Status.Provisioning.ID, before.Status.Provisioning.ID, after.Status.ErrorMessage)
	}
	c.kubectl("", "delete", "-n", c.ns, "metal3remediations/"+machine, "--timeout=5m")
}

// pause pauses the Cluster, and ends that. CAPM3 passes it on to the host, with a copy of its status.
func (c *capm3Program) pause(host string) {
	set := func(paused bool) {
		c.kubectl("", "patch", "-n", c.ns, "clusters.cluster.x-k8s.io/cluster-0", "--type=merge", "-p", fmt.Sprintf(`{"spec": {"paused": %t}}`, paused))
	}
	set(true)
	hostIs(c.t, c.ctx, c.ns, host, "paused", func(h *metal3.BareMetalHost) bool {
		return h.Annotations[metal3.PausedAnnotation] != "" && h.Annotations[metal3.StatusAnnotation] != ""
	})
	set(false)
	after := hostIs(c.t, c.ctx, c.ns, host, "not paused", func(h *metal3.BareMetalHost) bool { return h.Annotations[metal3.PausedAnnotation] == "" })
	if !isProvisioned(after) || after.Status.ErrorMessage != "" {
		c.t.Errorf("after the pause: %s, error %q", after.Status.Provisioning.State, after.Status.ErrorMessage)
	}
}
