// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/docs"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// TestClusterAPITutorial follows docs/tutorials/cluster-api.md. Cluster API and its provider do not run: what they do with hosts is done
// between the commands.
func TestClusterAPITutorial(t *testing.T) {
	t.Parallel()
	ctx, _ := s.Begin(t)
	for _, crd := range []string{crdOfTutorial("cluster.x-k8s.io", "MachineDeployment"), crdOfTutorial("infrastructure.cluster.x-k8s.io", "Metal3MachineTemplate")} {
		if _, stderr, err := s.Kube.Kubectl(ctx, crd, "apply", "-f", "-"); err != nil {
			t.Fatalf("%v: %s", err, stderr)
		}
	}
	for _, address := range []string{"192.0.2.20", "192.0.2.21"} {
		s.ironic.AddBMC("ipmi://"+address, "admin", "s3cret")
	}
	client, err := dynamic.NewForConfig(s.Config)
	if err != nil {
		t.Fatal(err)
	}
	config, requests := logRequests(s.Config)
	capi := &tutorialCAPI{
		capm3:       &capm3{t: t, ctx: ctx, ns: "workload", client: runtimeClient(t, config), requests: requests},
		deployments: client.Resource(schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta1", Resource: "machinedeployments"}).Namespace("workload"),
	}
	reader := docs.Reader{T: t, Ctx: ctx, Path: docs.BuildPlugin(t), Dir: t.TempDir(), Kubeconfig: s.Kube.Admin.Kubeconfig, Before: capi.reconcile}
	reader.Follow("tutorials/cluster-api.md")
	if capi.taken != "" {
		t.Errorf("host %s was not given back", capi.taken)
	}
}

// tutorialCAPI does for a MachineDeployment of at most one replica what Cluster API and its provider do.
type tutorialCAPI struct {
	*capm3
	deployments dynamic.ResourceInterface
	// taken is the host that has a machine.
	taken string
}

// reconcile takes a host, or gives it back, before the next command.
func (c *tutorialCAPI) reconcile(string) {
	c.t.Helper()
	deployment, err := c.deployments.Get(c.ctx, "workers", metav1.GetOptions{})
	if err != nil {
		return // it is not there yet, or any more
	}
	replicas, _, err := unstructured.NestedInt64(deployment.Object, "spec", "replicas")
	if err != nil {
		c.t.Fatal(err)
	}
	switch {
	case replicas > 0 && c.taken == "":
		host := c.choose("pool=workers", "")
		if host == nil {
			c.t.Fatal("no host is free")
		}
		c.taken = host.Name
		c.dataOfMachine()
		c.claim(host, "workers-0")
		c.provision(host.Name)
	case replicas == 0 && c.taken != "":
		testbed.Eventually(c.t, c.ctx, func() string {
			if c.deprovision(c.taken, "") {
				return ""
			}
			return string(c.get(c.taken).Status.Provisioning.State)
		})
		if host := c.get(c.taken); host.Status.Provisioning.State != metal3.StateAvailable {
			c.t.Errorf("host %s was given back as %s", host.Name, host.Status.Provisioning.State)
		}
		c.taken = ""
	}
}

// crdOfTutorial is a CustomResourceDefinition of any objects, which can be scaled.
func crdOfTutorial(group, kind string) string {
	plural := strings.ToLower(kind) + "s"
	return `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ` + plural + `.` + group + `}
spec:
  group: ` + group + `
  scope: Namespaced
  names: {plural: ` + plural + `, singular: ` + strings.ToLower(kind) + `, kind: ` + kind + `}
  versions:
  - name: v1beta1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
    subresources: {scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
`
}
