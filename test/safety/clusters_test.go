// SPDX-License-Identifier: Apache-2.0

package safety

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/generated/clientset/versioned"
	typed "github.com/metal3-io/metal3-apiserver/pkg/generated/clientset/versioned/typed/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

type object = map[string]any

// What clusterctl and Cluster API Provider Metal3 write.
const (
	clusterctlLabel     = "clusterctl.cluster.x-k8s.io"
	blockMoveAnnotation = "clusterctl.cluster.x-k8s.io/block-move"
	clusterNameLabel    = "cluster.x-k8s.io/cluster-name"
	capm3Pause          = "metal3.io/capm3"

	capi           = "cluster.x-k8s.io"
	infrastructure = "infrastructure.cluster.x-k8s.io"
	workload       = "workload" // the name of the one Cluster
)

var (
	capiClusters   = schema.GroupVersionResource{Group: capi, Version: "v1beta2", Resource: "clusters"}
	capiMachines   = schema.GroupVersionResource{Group: capi, Version: "v1beta2", Resource: "machines"}
	metal3Clusters = schema.GroupVersionResource{Group: infrastructure, Version: "v1beta2", Resource: "metal3clusters"}
	metal3Machines = schema.GroupVersionResource{Group: infrastructure, Version: "v1beta2", Resource: "metal3machines"}
)

// cluster is a management cluster of its own, with Cluster API's kinds and those that tell clusterctl of ours.
type cluster struct {
	t       *testing.T
	ctx     context.Context
	name    string
	kube    *testbed.Kube
	core    kubernetes.Interface
	dynamic dynamic.Interface
	metal3  versioned.Interface
}

// newCluster prepares a control plane.
func newCluster(t *testing.T, ctx context.Context, name string, kube *testbed.Kube) *cluster {
	t.Helper()
	c := &cluster{t: t, ctx: ctx, name: name, kube: kube}
	config := rest.CopyConfig(kube.Admin.Config)
	config.WarningHandler = rest.NoWarnings{}
	var err error
	if c.core, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	if c.dynamic, err = dynamic.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	if c.metal3, err = versioned.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	c.kubectl("", "create", "-k", c.repo("artifacts", "crds"))
	c.kubectl("", "apply", "--server-side", "-f", c.repo("bin", "clusterctl-crds"))
	c.kubectl(infrastructureCRD("Metal3Cluster")+"---\n"+infrastructureCRD("Metal3Machine"), "create", "-f", "-")
	crds := []string{"crd/clusters." + capi, "crd/machines." + capi, "crd/metal3clusters." + infrastructure, "crd/metal3machines." + infrastructure}
	// clusterctl init labels whatever it installs.
	c.kubectl("", "label", crds[0], crds[1], clusterctlLabel+"=")
	c.kubectl("", append([]string{"wait", "--for=condition=Established", "--timeout=5m"}, crds...)...)
	return c
}

// infrastructureCRD is of a kind of Cluster API Provider Metal3, as far as clusterctl needs it: it copies what it finds.
func infrastructureCRD(kind string) string {
	singular := strings.ToLower(kind)
	return fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: %[1]ss.%[2]s
  labels: {%[3]s: "", cluster.x-k8s.io/provider: infrastructure-metal3, cluster.x-k8s.io/v1beta2: v1beta2}
spec:
  group: %[2]s
  scope: Namespaced
  names: {kind: %[4]s, listKind: %[4]sList, plural: %[1]ss, singular: %[1]s}
  versions:
  - name: v1beta2
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`, singular, infrastructure, clusterctlLabel, kind)
}

func (c *cluster) repo(path ...string) string {
	c.t.Helper()
	root, err := testbed.RepoRoot()
	if err != nil {
		c.t.Fatal(err)
	}
	return filepath.Join(append([]string{root}, path...)...)
}

// kubectlAfter is for the end of a test, when its context has ended.
func (c *cluster) kubectlAfter(args ...string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), testbed.Patience)
	defer cancel()
	if _, _, err := c.kube.Kubectl(ctx, "", args...); err != nil {
		c.t.Errorf("%s: %v", c.name, err)
	}
}

func (c *cluster) kubectl(stdin string, args ...string) {
	c.t.Helper()
	if _, _, err := c.kube.Kubectl(c.ctx, stdin, args...); err != nil {
		c.t.Fatalf("%s: %v", c.name, err)
	}
}

// room is the label of the hosts that are in another Ironic than that of the flags.
const room = "room"

// serve starts a server behind the cluster's APIServices, which ends with the test t, as the use of the cluster does. The first
// Ironic is that of the server's flags. There is an IronicInstance for each of the others, whose hosts have its number in a label.
func (c *cluster) serve(t *testing.T, ironic ironicUnderTest, others ...ironicUnderTest) {
	t.Helper()
	c.t = t
	server, err := testbed.StartServer(c.ctx, testbed.ServerOptions{
		Kube: c.kube, Dir: t.TempDir(), IronicEndpoint: ironic.Operator().Endpoint, Args: append([]string{"--v=2"}, ironic.RamdiskArgs()...),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := server.Stop(); err != nil {
			t.Error(err)
		}
		// The next one has an etcd of its own: with this Lease, that would be taken for one that was restored.
		c.kubectlAfter("delete", "lease", "-n", testbed.Namespace, testbed.ServiceName)
		if log, err := server.Logs(); err == nil && t.Failed() {
			const most = 60_000
			t.Logf("log of the server in %s:\n%s", c.name, log[max(0, len(log)-most):])
		}
	})
	c.openRooms(others)
}

// waitReachable waits until the server knows an IronicInstance, and its Ironic has answered. kubectl wait would watch, and an
// IronicInstance has no events for what is found at each read.
func waitReachable(t *testing.T, ctx context.Context, admin *testbed.Client, instance string) {
	t.Helper()
	testbed.Eventually(t, ctx, func() string {
		out, _, err := admin.Kubectl(ctx, "", "get", "ironicinstance", instance, "-o", `jsonpath={.status.conditions[?(@.type=="Reachable")].status}`)
		if err != nil || out != "True" {
			return fmt.Sprintf("IronicInstance %s is reachable: %q %v", instance, out, err)
		}
		return ""
	})
}

func (c *cluster) openRooms(ironics []ironicUnderTest) {
	c.t.Helper()
	for i, ironic := range ironics {
		name := fmt.Sprint(room, "-", i+1)
		instance := fmt.Sprintf(`
apiVersion: ironic.metal3-apiserver.io/v1alpha1
kind: IronicInstance
metadata: {name: %s}
spec:
  endpoint: %s
  selector: {matchLabels: {%s: "%d"}}
`, name, ironic.Operator().Endpoint, room, i+1)
		testbed.Eventually(c.t, c.ctx, func() string { // kube-apiserver may not have found yet that the server answers for this group, too
			if _, stderr, err := c.kube.Kubectl(c.ctx, instance, "apply", "--server-side", "-f", "-"); err != nil {
				return fmt.Sprintf("IronicInstance %s: %v %s", name, err, stderr)
			}
			return ""
		})
		waitReachable(c.t, c.ctx, c.kube.Admin, name)
	}
}

func (c *cluster) hosts(ns string) typed.BareMetalHostInterface {
	return c.metal3.Metal3V1alpha1().BareMetalHosts(ns)
}

// createCluster makes a Cluster with its Metal3Cluster.
func (c *cluster) createCluster(ns string) {
	c.t.Helper()
	owner := c.create(capiClusters, ns, "Cluster", workload, nil, object{
		"infrastructureRef": object{"apiGroup": infrastructure, "kind": "Metal3Cluster", "name": workload},
	})
	c.create(metal3Clusters, ns, "Metal3Cluster", workload, owner, object{})
}

// claim has a Machine and its Metal3Machine own what a host runs.
func (c *cluster) claim(ns, host string) {
	c.t.Helper()
	owner := c.create(capiMachines, ns, "Machine", host, c.get(capiClusters, ns, workload), object{
		"clusterName": workload, "bootstrap": object{"dataSecretName": host},
		"infrastructureRef": object{"apiGroup": infrastructure, "kind": "Metal3Machine", "name": host},
	})
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: host, Labels: map[string]string{clusterNameLabel: workload}, OwnerReferences: []metav1.OwnerReference{referenceTo(owner)}},
		Type:       "cluster.x-k8s.io/secret", StringData: map[string]string{"value": "#cloud-config\n"},
	}
	if _, err := c.core.CoreV1().Secrets(ns).Create(c.ctx, secret, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	machine := c.create(metal3Machines, ns, "Metal3Machine", host, owner, object{})
	patch := object{"metadata": object{"labels": object{clusterNameLabel: workload}}, "spec": object{
		"consumerRef": object{"apiVersion": machine.GetAPIVersion(), "kind": machine.GetKind(), "name": host, "namespace": ns},
		"userData":    object{"name": host, "namespace": ns},
	}}
	c.patchHost(ns, host, patch)
}

func (c *cluster) patchHost(ns, name string, patch object) {
	c.t.Helper()
	text, err := json.Marshal(patch)
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.hosts(ns).Patch(c.ctx, name, types.MergePatchType, text, metav1.PatchOptions{}); err != nil {
		c.t.Fatalf("%s: %v", name, err)
	}
}

func (c *cluster) get(resource schema.GroupVersionResource, ns, name string) *unstructured.Unstructured {
	c.t.Helper()
	obj, err := c.dynamic.Resource(resource).Namespace(ns).Get(c.ctx, name, metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return obj
}

// reportRunning does what Cluster API's controllers do with a workload cluster that runs, also after it was moved: clusterctl
// does not copy the status, and moves nothing that does not run.
func (c *cluster) reportRunning(ns string) {
	c.t.Helper()
	report := func(resource schema.GroupVersionResource, status func(name string) object) {
		c.t.Helper()
		list, err := c.dynamic.Resource(resource).Namespace(ns).List(c.ctx, metav1.ListOptions{})
		if err != nil {
			c.t.Fatal(err)
		}
		for _, item := range list.Items {
			item.Object["status"] = status(item.GetName())
			if _, err := c.dynamic.Resource(resource).Namespace(ns).UpdateStatus(c.ctx, &item, metav1.UpdateOptions{}); err != nil {
				c.t.Fatal(err)
			}
		}
	}
	report(capiClusters, func(string) object {
		return object{
			"initialization": object{"infrastructureProvisioned": true, "controlPlaneInitialized": true},
			"conditions": []any{object{
				"type": "ControlPlaneInitialized", "status": "True", "reason": "Initialized", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
			}},
		}
	})
	report(capiMachines, func(name string) object { return object{"nodeRef": object{"name": name}} })
}

// create makes an object of the workload cluster.
func (c *cluster) create(resource schema.GroupVersionResource, ns, kind, name string, owner *unstructured.Unstructured, spec object) *unstructured.Unstructured {
	c.t.Helper()
	obj := &unstructured.Unstructured{Object: object{
		"apiVersion": resource.GroupVersion().String(), "kind": kind,
		"metadata": object{"name": name, "labels": object{clusterNameLabel: workload}}, "spec": spec,
	}}
	if owner != nil {
		obj.SetOwnerReferences([]metav1.OwnerReference{referenceTo(owner)})
	}
	created, err := c.dynamic.Resource(resource).Namespace(ns).Create(c.ctx, obj, metav1.CreateOptions{})
	if err != nil {
		c.t.Fatalf("creating %s %s: %v", kind, name, err)
	}
	return created
}

func referenceTo(owner *unstructured.Unstructured) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: owner.GetAPIVersion(), Kind: owner.GetKind(), Name: owner.GetName(), UID: owner.GetUID()}
}

// move has the real clusterctl move all of a namespace to another cluster.
func (c *cluster) move(to *cluster, ns string) {
	c.t.Helper()
	began := time.Now()
	cmd := exec.CommandContext(c.ctx, c.repo("bin", "clusterctl"), "move", "--namespace="+ns,
		"--kubeconfig="+c.kube.Admin.Kubeconfig, "--to-kubeconfig="+to.kube.Admin.Kubeconfig, "-v=1")
	// Without a look at its releases, and with a configuration of nobody.
	cmd.Env = append(os.Environ(), "CLUSTERCTL_DISABLE_VERSIONCHECK=true", "XDG_CONFIG_HOME="+c.t.TempDir())
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		c.t.Fatalf("clusterctl move from %s to %s: %v\n%s", c.name, to.name, err, out.String())
	}
	c.t.Logf("clusterctl moved all from %s to %s within %s:\n%s", c.name, to.name, time.Since(began).Round(time.Millisecond), out.String())
}

// capm3 does, in a namespace of a cluster, what Cluster API Provider Metal3 does with claimed hosts before and after a move, until
// the context ends: it blocks the move until its hosts are paused and carry their status, and lets them go on when the Cluster does.
func (c *cluster) capm3(ctx context.Context, ns string) error {
	clusters, err := c.dynamic.Resource(capiClusters).Namespace(ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	hosts, err := c.hosts(ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, owner := range clusters.Items {
		paused, _, _ := unstructured.NestedBool(owner.Object, "spec", "paused")
		for i := range hosts.Items {
			host := &hosts.Items[i]
			if ref := host.Spec.ConsumerRef; ref == nil || ref.Kind != "Metal3Machine" || metal3.IsDeletedForMove(host) {
				continue
			}
			annotations := object{}
			_, blocked := host.Annotations[blockMoveAnnotation]
			switch isPaused := host.Annotations[metal3.PausedAnnotation] == capm3Pause; {
			case paused && !isPaused:
				status, err := statusForMove(host)
				if err != nil {
					return err
				}
				annotations = object{metal3.PausedAnnotation: capm3Pause, metal3.StatusAnnotation: status, blockMoveAnnotation: nil}
			case !paused && isPaused:
				annotations = object{metal3.PausedAnnotation: nil}
			case !paused && !blocked:
				annotations = object{blockMoveAnnotation: ""}
			}
			if len(annotations) == 0 {
				continue
			}
			patch, err := json.Marshal(object{"metadata": object{"annotations": annotations}})
			if err != nil {
				return err
			}
			if _, err := c.hosts(ns).Patch(ctx, host.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
				return err
			}
		}
	}
	return nil
}

// statusForMove is the status as Cluster API Provider Metal3 writes it into an annotation: through types that lack our fields, and
// without the hardware, which the HardwareData has.
func statusForMove(host *metal3.BareMetalHost) (string, error) {
	text, err := json.Marshal(host.Status)
	if err != nil {
		return "", err
	}
	status := object{}
	if err := json.Unmarshal(text, &status); err != nil {
		return "", err
	}
	for _, field := range []string{"hardware", "ironic", "record"} {
		delete(status, field)
	}
	text, err = json.Marshal(status)
	return string(text), err
}
