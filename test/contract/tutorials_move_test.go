// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/apiserver"
	"github.com/metal3-io/metal3-apiserver/pkg/generated/clientset/versioned"
	"github.com/metal3-io/metal3-apiserver/pkg/migrate"
	"github.com/metal3-io/metal3-apiserver/test/crds"
	"github.com/metal3-io/metal3-apiserver/test/docs"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// TestMoveTutorial follows docs/tutorials/move.md in a cluster whose host the Bare Metal Operator has provisioned. The Jobs have the
// rights of their ServiceAccounts. Nothing is done to the machine.
func TestMoveTutorial(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 6*testbed.Patience)
	t.Cleanup(cancel)
	c := newCluster(t, ctx, "")
	client, err := dynamic.NewForConfig(c.kube.Admin.Config)
	if err != nil {
		t.Fatal(err)
	}
	kinds, err := migrate.Kinds(apiserver.Scheme)
	if err := errors.Join(err, crds.Create(ctx, client, kinds)); err != nil {
		t.Fatal(err)
	}
	for _, object := range []string{operatorsNamespace, operatorsDeployment, operatorsWebhooks} {
		if _, stderr, err := c.kube.Kubectl(ctx, object, "create", "-f", "-"); err != nil {
			t.Fatalf("%v: %s", err, stderr)
		}
	}
	c.provisionedByOperator("fleet", "worker-0", "192.0.2.80")
	c.follow("move", docs.BuildPlugin(t))
}

// provisionedByOperator creates a host, its Secret and its node as the Bare Metal Operator leaves them.
func (c *cluster) provisionedByOperator(namespace, name, address string) {
	c.t.Helper()
	bmc := "ipmi://" + address
	machine := c.ironic.AddBMC(bmc, "admin", "s3cret")
	machine.SetPower("power on")
	c.machines = append(c.machines, machine)
	c.kubectl("create", "namespace", namespace)
	c.kubectl("create", "secret", "generic", name+"-bmc", "-n", namespace, "--from-literal=username=admin", "--from-literal=password=s3cret")
	client, err := versioned.NewForConfig(c.kube.Admin.Config)
	if err != nil {
		c.t.Fatal(err)
	}
	image := metal3.Image{URL: "http://192.0.2.1/image.qcow2", Checksum: "http://192.0.2.1/image.qcow2.sha256", ChecksumType: metal3.SHA256}
	host, err := client.Metal3V1alpha1().BareMetalHosts(namespace).Create(c.ctx, &metal3.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{metal3.BareMetalHostFinalizer}},
		Spec: metal3.BareMetalHostSpec{
			Online: true, BootMACAddress: "00:00:5e:00:53:80", AutomatedCleaningMode: metal3.CleaningModeMetadata, Image: &image,
			BMC: metal3.BMCDetails{Address: bmc, CredentialsName: name + "-bmc"},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	node, err := c.ironic.CreateNode(map[string]any{
		"name": namespace + "~" + name, "driver": "ipmi", "inspect_interface": "agent", "automated_clean": true, "instance_uuid": string(host.UID),
		"driver_info": map[string]any{
			"ipmi_address": address, "ipmi_username": "admin", "ipmi_password": "s3cret", "ipmi_verify_ca": false, "ipmi_port": "623",
			"deploy_kernel": testbed.UnusedKernelURL, "deploy_ramdisk": testbed.UnusedRamdiskURL, "force_persistent_boot_device": "Default",
		},
	})
	err = errors.Join(err, c.ironic.CreatePort(node, host.Spec.BootMACAddress),
		c.ironic.SetNode(node, map[string]any{"provision_state": "active", "power_state": "power on"}))
	if err != nil {
		c.t.Fatal(err)
	}
	now := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
	past := metal3.OperationMetric{Start: now, End: now}
	host.Status = metal3.BareMetalHostStatus{
		OperationalStatus: metal3.OperationalStatusOK, PoweredOn: true, LastUpdated: &now,
		OperationHistory: metal3.OperationHistory{Register: past, Inspect: past, Provision: past},
		GoodCredentials:  metal3.CredentialsStatus{Reference: &corev1.SecretReference{Name: name + "-bmc", Namespace: namespace}, Version: "1"},
		Provisioning:     metal3.ProvisionStatus{ID: node, State: metal3.StateProvisioned, BootMode: metal3.UEFI, Image: image},
	}
	if _, err := client.Metal3V1alpha1().BareMetalHosts(namespace).UpdateStatus(c.ctx, host, metav1.UpdateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// What the tutorial stops. No such program runs.
const (
	operatorsNamespace  = `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "baremetal-operator-system"}}`
	operatorsDeployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: baremetal-operator-controller-manager, namespace: baremetal-operator-system}
spec:
  replicas: 1
  selector: {matchLabels: {app: manager}}
  template:
    metadata: {labels: {app: manager}}
    spec: {containers: [{name: manager, image: "manager.invalid/manager:v1"}]}
`
	operatorsWebhooks = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: baremetal-operator-validating-webhook-configuration}
webhooks:
- name: baremetalhost.metal3.io
  clientConfig: {service: {name: baremetal-operator-webhook-service, namespace: baremetal-operator-system, path: /validate}}
  rules: [{apiGroups: [metal3.io], apiVersions: [v1alpha1], operations: [DELETE], resources: [baremetalhosts]}]
  failurePolicy: Ignore
  sideEffects: None
  admissionReviewVersions: [v1]
`
)
