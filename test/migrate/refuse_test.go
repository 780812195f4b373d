// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/crds"
)

func TestRefusesWhileTheOperatorRuns(t *testing.T) {
	server := install(t, "")
	ctx, ns := t.Context(), newNamespace(t)
	labels := map[string]string{"app": "bmo"}
	deployment, err := s.Core.AppsV1().Deployments(ns).Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "baremetal-operator-controller-manager"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "manager", Image: "quay.io/metal3-io/baremetal-operator"}}}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	server.refused(t, "kubectl scale deployment -n "+ns+" baremetal-operator-controller-manager --replicas=0", "import")
	deployment.Spec.Replicas = ptr.To[int32](0)
	if _, err := s.Core.AppsV1().Deployments(ns).Update(ctx, deployment, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}

	// An operator that somebody runs elsewhere, seen by its Lease alone.
	renewing, stop := context.WithCancel(ctx)
	stopped := make(chan struct{})
	lease, err := s.Core.CoordinationV1().Leases(ns).Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "baremetal-operator"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To("laptop"), LeaseDurationSeconds: ptr.To[int32](20), RenewTime: &metav1.MicroTime{Time: time.Now()}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(stopped)
		for {
			select {
			case <-renewing.Done():
				return
			case <-time.After(500 * time.Millisecond):
			}
			patch := fmt.Sprintf(`{"spec":{"renewTime":%q}}`, time.Now().UTC().Format(metav1.RFC3339Micro))
			_, _ = s.Core.CoordinationV1().Leases(ns).Patch(renewing, lease.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		}
	}()
	server.refused(t, "Lease "+ns+"/baremetal-operator is being renewed by laptop", "import")
	stop()
	<-stopped

	webhook, err := s.Core.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx, &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "baremetal-operator-validating-webhook-configuration"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "baremetalhost.metal3.io", AdmissionReviewVersions: []string{"v1"}, SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone),
			ClientConfig:  admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: ns, Name: "bmo-webhook", Path: ptr.To("/validate-metal3-io-v1alpha1-baremetalhost")}},
			FailurePolicy: ptr.To(admissionregistrationv1.Ignore),
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	server.refused(t, "webhook baremetalhost.metal3.io", "import")
	if err := s.Core.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(ctx, webhook.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	server.run(t, "import", "--dry-run") // the Lease is that of an operator that has ended
	if err := s.Core.CoordinationV1().Leases(ns).Delete(ctx, lease.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestRefusesWhatWouldBeLost(t *testing.T) {
	server := install(t, "")
	ctx, fleet := t.Context(), newFleet(t, 2)
	ns := fleet[0].ns
	hosts := s.Dynamic.Resource(metal3.SchemeGroupVersion.WithResource("baremetalhosts")).Namespace(ns)

	// A field of an operator that is newer than we are.
	crd, err := s.Dynamic.Resource(crds.Resource).Get(ctx, "baremetalhosts.metal3.io", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	_ = unstructured.SetNestedField(versions[0].(object), object{"type": "string"}, "schema", "openAPIV3Schema", "properties", "spec", "properties", "flavour")
	_ = unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions")
	if _, err := s.Dynamic.Resource(crds.Resource).Update(ctx, crd, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(ctx context.Context) error {
		host, err := hosts.Patch(ctx, fleet[0].name, types.MergePatchType, []byte(`{"spec":{"flavour":"sweet"}}`), metav1.PatchOptions{})
		if err == nil {
			if flavour, _, _ := unstructured.NestedString(host.Object, "spec", "flavour"); flavour == "" {
				err = fmt.Errorf("the CRD does not yet have the field")
			}
		}
		return err
	})
	server.refused(t, "BareMetalHost "+ns+"/"+fleet[0].name+": spec.flavour", "import")

	// What our validation would refuse goes along.
	if _, err := hosts.Patch(ctx, fleet[1].name, types.MergePatchType, []byte(`{"metadata":{"annotations":{"reboot.metal3.io":"now!"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	out := server.run(t, "import", "--drop-unknown-fields")
	expectText(t, out, "spec.flavour is dropped", fleet[1].name+" is imported as it is, though it would not be accepted now", "all UIDs and contents are the same: 2 baremetalhosts, 2 hardwaredata")

	// The objects of another cluster are in our store.
	if err := hosts.Delete(ctx, fleet[1].name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := hosts.Patch(ctx, fleet[1].name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	server.refused(t, fleet[1].name+" is stored, but is not in the CRDs", "import", "--drop-unknown-fields")
	server.refused(t, "is in the store but not in the CRDs", "import", "--switch", "--drop-unknown-fields")
	expectText(t, server.run(t, "import", "--drop-unknown-fields", "--replace"), fleet[1].name+" is removed from the store")

	// An APIService that is neither.
	patchAPIService(t, `{"metadata":{"labels":{"kube-aggregator.kubernetes.io/automanaged":null}},"spec":{"service":{"namespace":"elsewhere","name":"other","port":443}}}`)
	server.refused(t, "names the Service elsewhere/other", "import")
	// Changed back in place, kube-apiserver would go on telling what that Service told it.
	if err := s.Dynamic.Resource(apiServices).Delete(ctx, "v1alpha1.metal3.io", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(ctx context.Context) error {
		_, err := s.Dynamic.Resource(apiServices).Get(ctx, "v1alpha1.metal3.io", metav1.GetOptions{})
		return err
	})

	// A backup has all of it.
	expectText(t, server.run(t, "export", "--to=-"), "name: "+fleet[0].name, "kind: HardwareData", "uid: "+string(fleet[0].host.UID))
	server.refused(t, "nothing to give back", "export")
	unlock(t, ns)
}

func patchAPIService(t *testing.T, patch string) {
	t.Helper()
	if !json.Valid([]byte(patch)) {
		t.Fatal(patch)
	}
	if _, err := s.Dynamic.Resource(apiServices).Patch(t.Context(), "v1alpha1.metal3.io", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestRefusesWhileOurServerLeads(t *testing.T) {
	server := install(t, s.Kube.EtcdEndpoint)
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(ctx context.Context) error {
		lease, err := s.Core.CoordinationV1().Leases("metal3-system").Get(ctx, "metal3-apiserver", metav1.GetOptions{})
		if err == nil && ptr.Deref(lease.Spec.HolderIdentity, "") == "" {
			err = fmt.Errorf("nobody leads")
		}
		return err
	})
	server.refused(t, "stop it with kubectl scale deployment -n metal3-system metal3-apiserver --replicas=0", "import")
}

// TestForesees: before anything is switched, import says of which hosts the server will have to complain, and what it will
// do to machines at once; and what it could not find out.
func TestForesees(t *testing.T) {
	server := install(t, "")
	ctx, ns := t.Context(), newNamespace(t)
	hosts := s.Metal3.Metal3V1alpha1().BareMetalHosts(ns)
	for name, address := range map[string]string{"a": "ipmi://192.0.2.1", "b": "redfish://192.0.2.1/redfish/v1/Systems/1", "elsewhere": "ipmi://198.51.100.1", "drac": "idrac-virtualmedia://192.0.2.2/redfish/v1/Systems/1"} {
		host := &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: metal3.BareMetalHostSpec{BMC: metal3.BMCDetails{Address: address, CredentialsName: name + "-bmc"}}}
		created, err := hosts.Create(ctx, host, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := hosts.Delete(context.WithoutCancel(ctx), name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		})
		created.Status.OperationalStatus, created.Status.Provisioning.State = metal3.OperationalStatusOK, metal3.StateProvisioned
		created.Status.Provisioning.Image.URL = "http://images/was"
		if _, err := hosts.UpdateStatus(ctx, created, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	host := func(name string) string { return "BareMetalHost " + ns + "/" + name }
	out := server.run(t, "import", "--dry-run", "--bmc-hosts=192.0.2.0/24")
	expectText(t, out,
		"warning: "+host("a")+" has the same BMC as "+host("b"),
		"warning: "+host("b")+" has the same BMC as "+host("a"),
		"warning: "+host("elsewhere")+" will not be registered: spec.bmc.address",
		"at first: "+host("drac")+" will be deprovisioned, and its disks are cleaned",
		"not checked: whether the Secrets", "not checked: whether Ironic has the drivers")
	server.kubeconfigs["import"] = s.Kube.Admin.Kubeconfig
	out = server.run(t, "import", "--dry-run", "--ironic-endpoint="+s.ironic.URL())
	expectText(t, out,
		"warning: "+host("drac")+" will not be registered: Ironic has not enabled the driver idrac",
		"warning: "+host("drac")+" will not be registered: Secret drac-bmc")
	if strings.Contains(out, "not checked") {
		t.Errorf("what can be found out is not checked:\n%s", out)
	}
}
