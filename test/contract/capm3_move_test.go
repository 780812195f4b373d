// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// mover takes objects out of one cluster and into another, as `clusterctl move`
// does by way of a folder. The namespace has the same name in both; here one cluster
// stands for both, so the first host goes before the second one comes.
type mover struct {
	*capm3
	uid types.UID // of the new host
}

func (m *mover) read(kind schema.GroupVersionKind, name string) *unstructured.Unstructured {
	m.t.Helper()
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(kind)
	if err := m.client.Get(m.ctx, client.ObjectKey{Namespace: m.ns, Name: name}, obj); err != nil {
		m.t.Fatal(err)
	}
	return obj
}

// create makes a copy. All but the resourceVersion and the owners is sent as it was
// read, with a UID and a status, which the server has to leave out.
func (m *mover) create(obj *unstructured.Unstructured) {
	m.t.Helper()
	obj.SetResourceVersion("")
	obj.SetOwnerReferences(nil)
	if m.uid != "" {
		obj.SetOwnerReferences([]metav1.OwnerReference{{
			APIVersion: metal3.SchemeGroupVersion.String(), Kind: "BareMetalHost", Name: "worker-0", UID: m.uid,
			Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
		}})
	}
	if err := m.client.Create(m.ctx, obj); err != nil {
		m.t.Fatalf("creating %s %s: %v", obj.GetKind(), obj.GetName(), err)
	}
	if obj.GetKind() == "BareMetalHost" {
		m.uid = obj.GetUID()
	}
}

// remove deletes the first one without anybody acting on it.
func (m *mover) remove(kind schema.GroupVersionKind, name string, order clusterctlOrder) {
	m.t.Helper()
	obj := m.read(kind, name)
	patch := func(patchType types.PatchType, patch string) error {
		return m.client.Patch(m.ctx, obj, client.RawPatch(patchType, []byte(patch)))
	}
	annotate := func() error { // in place of all others
		return patch(types.JSONPatchType, `[{"op":"add","path":"/metadata/annotations","value":{"clusterctl.cluster.x-k8s.io/delete-for-move":""}}]`)
	}
	removeFinalizers := func() error { return patch(types.MergePatchType, `{"metadata":{"finalizers":[]}}`) }
	deleteIt := func() error { return m.client.Delete(m.ctx, obj) }
	requests := []func() error{annotate, deleteIt, removeFinalizers}
	if order == finalizersFirst {
		requests = []func() error{annotate, removeFinalizers, deleteIt}
	}
	for _, request := range requests {
		if err := request(); err != nil {
			m.t.Fatal(err)
		}
	}
}

// clusterctlOrder is the order in which clusterctl removes an object.
type clusterctlOrder string

const (
	finalizersFirst clusterctlOrder = "finalizers first"
	// deletionFirst is the order of clusterctl 1.10 and later.
	deletionFirst clusterctlOrder = "deletion first"
)

// marksOf is what the extra of a node says of whose it is.
func marksOf(node map[string]any) map[string]any {
	marks, _ := node["extra"].(map[string]any)
	maps.DeleteFunc(marks, func(key string, _ any) bool { return !strings.HasPrefix(key, "metal3_apiserver_") })
	return marks
}

// TestCAPM3Move: a provisioned host is moved with its HardwareData and its Secret. It
// goes on where it was: it is not registered, inspected or deployed again.
func TestCAPM3Move(t *testing.T) {
	t.Parallel()
	for _, order := range []clusterctlOrder{finalizersFirst, deletionFirst} {
		t.Run(string(order), func(t *testing.T) {
			t.Parallel()
			moveProvisioned(t, order)
		})
	}
}

func moveProvisioned(t *testing.T, order clusterctlOrder) {
	ctx, ns := s.Begin(t)
	c := newCAPM3(t, ctx, ns)
	managedHost(t, ctx, ns, "worker-0", asByDefault)
	c.until("worker-0", "available", isAvailable)
	c.dataOfMachine()
	c.claim(c.get("worker-0"), "machine-0")
	c.provision("worker-0")
	before := c.until("worker-0", "provisioned", isProvisioned)
	id := before.Status.Provisioning.ID
	targets := s.ironic.ProvisionTargets(id)

	c.pause("worker-0")
	m := &mover{capm3: c}
	objects := []struct {
		kind schema.GroupVersionKind
		name string
	}{
		{metal3.SchemeGroupVersion.WithKind("BareMetalHost"), "worker-0"},
		{metal3.SchemeGroupVersion.WithKind("HardwareData"), "worker-0"},
		{corev1.SchemeGroupVersion.WithKind("Secret"), "worker-0-bmc"},
	}
	c.took()
	var saved []*unstructured.Unstructured
	for _, o := range objects {
		saved = append(saved, m.read(o.kind, o.name))
	}
	c.sent("save", "GET baremetalhosts/worker-0", "GET hardwaredata/worker-0", "GET secrets/worker-0-bmc")
	for _, o := range slices.Backward(objects) { // what is owned goes first
		m.remove(o.kind, o.name, order)
	}
	isGone(t, ctx, ns, "worker-0")
	if node, there := s.ironic.Node(id); !there || len(marksOf(node)) != 0 {
		t.Fatalf("Ironic has the node of the moved host: %t, with the marks %v", there, marksOf(node))
	}
	c.took()
	for _, obj := range saved {
		m.create(obj)
	}
	c.sent("restore", "POST baremetalhosts", "POST hardwaredata", "POST secrets")

	host := c.get("worker-0")
	if host.UID == before.UID || host.UID != m.uid || host.Annotations[metal3.PausedAnnotation] != capm3Pause || host.Status.Provisioning.ID != "" {
		t.Errorf("the copy is %+v %+v", host.ObjectMeta, host.Status.Provisioning)
	}
	w, err := s.Hosts(ns).Watch(ctx, metav1.ListOptions{ResourceVersion: host.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	c.took()
	c.resume("worker-0")
	c.sent("resume", "GET baremetalhosts/worker-0", mergePatchOf("worker-0", `{"metadata":{"annotations":{"baremetalhost.metal3.io/paused":null}}}`))
	after := c.until("worker-0", "provisioned again", func(h *metal3.BareMetalHost) bool {
		return isProvisioned(h) && h.Annotations[metal3.StatusAnnotation] == "" && h.Status.HardwareDetails != nil && h.Status.Ironic != nil && h.Status.ErrorMessage == "" &&
			h.Status.GoodCredentials.Version != "" && h.Status.GoodCredentials.Version == h.Status.TriedCredentials.Version
	})
	if diff := cmp.Diff(before.Status.Provisioning, after.Status.Provisioning); diff != "" {
		t.Errorf("status.provisioning (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(before.Status.HardwareDetails, after.Status.HardwareDetails); diff != "" {
		t.Errorf("hardware (-before +after):\n%s", diff)
	}
	if !after.Status.OperationHistory.Provision.End.Equal(&before.Status.OperationHistory.Provision.End) {
		t.Errorf("history %+v, was %+v", after.Status.OperationHistory.Provision, before.Status.OperationHistory.Provision)
	}
	if consumer := after.Spec.ConsumerRef; consumer == nil || consumer.Name != "machine-0" || consumer.Namespace != ns {
		t.Errorf("the consumer is %+v", consumer)
	}
	if diff := cmp.Diff(targets, s.ironic.ProvisionTargets(id)); diff != "" {
		t.Errorf("what Ironic was asked for, before the move and now (-before +after):\n%s", diff)
	}
	if node, _ := s.ironic.Node(id); marksOf(node)["metal3_apiserver_host"] != string(after.UID) {
		t.Errorf("the node has the marks %v", marksOf(node))
	}
	for done := false; !done; { // no other state in between
		event := nextEvent(t, ctx, w)
		host, ok := event.Object.(*metal3.BareMetalHost)
		if !ok || event.Type != watch.Modified {
			t.Fatalf("%s %+v", event.Type, event.Object)
		}
		if state := host.Status.Provisioning.State; state != metal3.StateNone && state != metal3.StateProvisioned {
			t.Errorf("the moved host was %s", state)
		}
		done = host.ResourceVersion == after.ResourceVersion
	}
	// It is in hand there.
	s.PatchHost(t, ctx, ns, "worker-0", `{"spec":{"image":null,"userData":null,"metaData":null,"networkData":null}}`)
	c.until("worker-0", "deprovisioned", isAvailable)
}
