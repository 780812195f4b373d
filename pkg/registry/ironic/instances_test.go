// SPDX-License-Identifier: Apache-2.0

package ironic

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/utils/ptr"

	api "github.com/metal3-io/metal3-apiserver/pkg/apis/ironic/v1alpha1"
	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/kind"
	"github.com/metal3-io/metal3-apiserver/pkg/store"
	"github.com/metal3-io/metal3-apiserver/test/storetest"
)

// served is the storage of IronicInstances in a real etcd, with fake Ironics and hosts.
type served struct {
	*instances
	stored *store.Objects[*api.IronicInstance]
	known  fakeInstances
	// mayGet are the Secrets that the user of the tests may get, with their namespaces.
	mayGet []string
}

func serve(t *testing.T, hosts ...metal3.BareMetalHost) *served {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := api.Install(scheme); err != nil {
		t.Fatal(err)
	}
	stored, err := NewInstances(scheme, storetest.New(t, serializer.NewCodecFactory(scheme).LegacyCodec(api.SchemeGroupVersion)), "metal3-system")
	if err != nil {
		t.Fatal(err)
	}
	storetest.Use(t, stored.Store)
	s := &served{stored: kind.Objects[*api.IronicInstance](stored), known: fakeInstances{}, mayGet: []string{"metal3-system/room-b"}}
	s.instances = Storage(t.Context(), func() []NamedNodes { return nil }, fakeHosts(hosts), stored, s.known, "metal3-system", authorizer.AuthorizerFunc(s.authorize))["ironicinstances"].(*instances)
	return s
}

func (s *served) authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if a.GetVerb() == "get" && a.GetResource() == "secrets" && slices.Contains(s.mayGet, a.GetNamespace()+"/"+a.GetName()) {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

func asUser(ctx context.Context) context.Context {
	return genericapirequest.WithUser(genericapirequest.WithNamespace(ctx, ""), &user.DefaultInfo{Name: "admin"})
}

func (s *served) create(t *testing.T, instance *api.IronicInstance) (*api.IronicInstance, error) {
	t.Helper()
	made := instance.DeepCopy()
	made.UID = ""
	obj, err := s.Create(asUser(t.Context()), made, rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	return obj.(*api.IronicInstance), nil
}

func (s *served) mustCreate(t *testing.T, name string, change ...func(*api.IronicInstance)) *api.IronicInstance {
	t.Helper()
	instance := instanceNamed(name)
	for _, c := range change {
		c(instance)
	}
	created, err := s.create(t, instance)
	if err != nil {
		t.Fatal(err)
	}
	return created
}

func (s *served) put(t *testing.T, instance *api.IronicInstance) (*api.IronicInstance, error) {
	t.Helper()
	obj, _, err := s.Update(asUser(t.Context()), instance.Name, rest.DefaultUpdatedObjectInfo(instance), rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
	if err != nil {
		return nil, err
	}
	return obj.(*api.IronicInstance), nil
}

func (s *served) remove(t *testing.T, name string) error {
	t.Helper()
	_, _, err := s.Delete(asUser(t.Context()), name, rest.ValidateAllObjectFunc, &metav1.DeleteOptions{})
	return err
}

func (s *served) get(t *testing.T, name string) *api.IronicInstance {
	t.Helper()
	obj, err := s.Get(t.Context(), name, &metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return obj.(*api.IronicInstance)
}

// The status is filled in on reading, whatever a client has written, and never stored.
func TestStatusIsNotStored(t *testing.T) {
	s := serve(t, nodeIn("room-b", "h-0", metal3.StateAvailable))
	s.known["room-b"] = &fakeInstance{version: ironic.APIVersion{Major: 1, Minor: 96}}
	claimed := api.IronicInstanceStatus{APIVersion: "9.99", Hosts: 77}
	created := s.mustCreate(t, "room-b", func(i *api.IronicInstance) { i.Status, i.Generation = claimed, 9 })
	if created.Generation != 1 {
		t.Errorf("created %+v", created)
	}
	read := s.get(t, "room-b")
	if read.Status.APIVersion != "1.96" || read.Status.Hosts != 1 || !meta.IsStatusConditionTrue(read.Status.Conditions, api.IronicInstanceReachable) {
		t.Errorf("read %+v", read.Status)
	}
	read.Status = claimed
	if same, err := s.put(t, read); err != nil || same.Generation != 1 || same.ResourceVersion != created.ResourceVersion {
		t.Errorf("a write of the status alone: %+v, %v", same, err)
	}
	read.Spec.ProvisioningLimit = ptr.To[int32](3)
	if updated, err := s.put(t, read); err != nil || updated.Generation != 2 {
		t.Errorf("a write of the spec: %+v, %v", updated, err)
	}
	stored, err := s.stored.Get(t.Context(), "", "room-b")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(api.IronicInstanceStatus{}, stored.Status); diff != "" {
		t.Errorf("stored is a status: %s", diff)
	}
	list, err := s.List(t.Context(), &metainternalversion.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if items := list.(*api.IronicInstanceList).Items; len(items) != 1 || items[0].Status.APIVersion != "1.96" || *items[0].Spec.ProvisioningLimit != 3 {
		t.Errorf("listed %+v", items)
	}
}

func TestInstancesAreFound(t *testing.T) {
	s := serve(t)
	if s.NamespaceScoped() || s.GetSingularName() != "ironicinstance" || !slices.Equal(s.ShortNames(), []string{"ironics"}) {
		t.Errorf("singular %s, short names %v, in namespaces: %t", s.GetSingularName(), s.ShortNames(), s.NamespaceScoped())
	}
	if _, err := s.Get(t.Context(), "none", &metav1.GetOptions{}); !apierrors.IsNotFound(err) || !strings.Contains(err.Error(), "ironicinstances.ironic.metal3-apiserver.io") {
		t.Errorf("got %v", err)
	}
	for version := range s.GetResetFields() {
		if version != "ironic.metal3-apiserver.io/v1alpha1" {
			t.Errorf("server-side apply drops fields of %s", version)
		}
	}
}

func TestValidationOfInstances(t *testing.T) {
	s := serve(t)
	instance := instanceNamed("room-b")
	instance.Spec.Endpoint = "https://admin:s3cret@ironic"
	if _, err := s.create(t, instance); !apierrors.IsInvalid(err) || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("got %v", err)
	}
	recorded := &warnings{}
	instance = instanceNamed("room-b")
	instance.Spec.Selector = nil
	if _, err := s.Create(warning.WithWarningRecorder(asUser(t.Context()), recorded), instance, rest.ValidateAllObjectFunc, &metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if len(*recorded) != 1 || !strings.Contains((*recorded)[0], "selects no host") {
		t.Errorf("warned of %v", *recorded)
	}
}

// The server logs in with the Secret at the endpoint in the spec, so whoever writes it must be able to get it.
func TestSecretsOfInstances(t *testing.T) {
	s := serve(t)
	s.mustCreate(t, "room-b", func(i *api.IronicInstance) { i.Spec.CredentialsName = "room-b" })
	foreign := instanceNamed("room-c")
	foreign.Spec.CredentialsName = "room-c"
	if _, err := s.create(t, foreign); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `Secret "room-c" in namespace "metal3-system"`) {
		t.Errorf("with the Secret of others: %v", err)
	}
}

func TestTwins(t *testing.T) {
	s := serve(t)
	s.mustCreate(t, "room-a", func(i *api.IronicInstance) { i.Spec.Default = true })
	b := s.mustCreate(t, "room-b")
	for name, change := range map[string]func(*api.IronicInstance){
		`spec.default: Forbidden: IronicInstance "room-a" is the default`: func(i *api.IronicInstance) { i.Spec.Default = true },
		`IronicInstance "room-a" is of the same Ironic`:                   func(i *api.IronicInstance) { i.Spec.Endpoint = "https://ROOM-A.example:6385/v1/" },
	} {
		created := instanceNamed("room-c")
		change(created)
		if _, err := s.create(t, created); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), name) {
			t.Errorf("create: %v, want %s", err, name)
		}
		updated := s.get(t, "room-b")
		change(updated)
		if _, err := s.put(t, updated); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), name) {
			t.Errorf("update: %v, want %s", err, name)
		}
	}
	// The namespace of an Ironic object is that of the server by default.
	ofObject := func(namespace string) func(*api.IronicInstance) {
		return func(i *api.IronicInstance) {
			i.Spec.Endpoint, i.Spec.IronicRef = "", &api.IronicReference{Namespace: namespace, Name: "ironic"}
		}
	}
	s.mustCreate(t, "object", ofObject(""))
	s.mustCreate(t, "of-another-namespace", ofObject("room-d"))
	same := instanceNamed("room-d")
	ofObject("metal3-system")(same)
	if _, err := s.create(t, same); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), `spec.ironicRef.name: Invalid value: "ironic": IronicInstance "object" is of the same Ironic`) {
		t.Errorf("a second one of an Ironic object: %v", err)
	}
	// Without a default, another can be it; and an Ironic can move.
	a := s.get(t, "room-a")
	a.Spec.Default = false
	if _, err := s.put(t, a); err != nil {
		t.Fatal(err)
	}
	b.Spec.Default, b.Spec.Endpoint = true, "https://elsewhere.example"
	if _, err := s.put(t, b); err != nil {
		t.Error(err)
	}
	// Two that were written at the same moment can be changed, and one can cease to be the default.
	twin := instanceNamed("twin")
	twin.UID, twin.Spec = "", *b.Spec.DeepCopy()
	if _, err := s.stored.Create(t.Context(), twin); err != nil {
		t.Fatal(err)
	}
	for _, change := range []func(*api.IronicInstance){
		func(i *api.IronicInstance) { i.Labels = map[string]string{"a": "b"} },
		func(i *api.IronicInstance) { i.Spec.ProvisioningLimit = ptr.To[int32](1) },
		func(i *api.IronicInstance) { i.Spec.Default = false },
	} {
		twin = s.get(t, "twin")
		change(twin)
		if _, err := s.put(t, twin); err != nil {
			t.Error(err)
		}
	}
}

func TestDeletionOfInstances(t *testing.T) {
	moving := nodeIn("", "h-3", metal3.StateAvailable)
	moving.Status.Record.Transfer = &metal3.Transfer{To: "room-c"}
	s := serve(t, nodeIn("room-b", "h-0", metal3.StateAvailable), nodeIn("room-b", "h-1", metal3.StateProvisioned), nodeIn("", "h-2", metal3.StateAvailable), moving)
	s.mustCreate(t, "room-a")
	s.mustCreate(t, "room-b")
	s.mustCreate(t, "room-c")
	if err := s.remove(t, "room-c"); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "the nodes of 1 hosts are in this Ironic, or on their way to it, for example that of metal3/h-3") {
		t.Errorf("with a host on its way: %v", err)
	}
	want := "the nodes of 2 hosts are in this Ironic, or on their way to it, for example that of metal3/h-1; move these hosts to another one (subresource transfer) or delete them first"
	if err := s.remove(t, "room-b"); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("with hosts: %v", err)
	}
	_, err := s.DeleteCollection(asUser(t.Context()), rest.ValidateAllObjectFunc, &metav1.DeleteOptions{},
		&metainternalversion.ListOptions{})
	if !apierrors.IsConflict(err) {
		t.Errorf("deletecollection: %v", err)
	}
	s.get(t, "room-b")
	if err := s.remove(t, "room-a"); err != nil && !apierrors.IsNotFound(err) { // the collection may have begun with it
		t.Errorf("without hosts: %v", err)
	}
	if _, err := s.Get(t.Context(), "room-a", &metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after its deletion: %v", err)
	}
}

func TestTableOfInstances(t *testing.T) {
	cellsOf := func(instance *api.IronicInstance) []any {
		t.Helper()
		table, err := (&instances{}).ConvertToTable(t.Context(), instance, nil)
		if err != nil || len(table.Rows) != 1 || len(table.Rows[0].Cells) != len(table.ColumnDefinitions) {
			t.Fatalf("the table is %+v, %v", table, err)
		}
		_ = table.Rows[0].DeepCopy() // panics on a cell that JSON does not have
		return table.Rows[0].Cells
	}
	instance := instanceNamed("room-b")
	// A watch has no status.
	if diff := cmp.Diff([]any{"room-b", nil, "", nil, nil, nil, nil, nil, "https://room-b.example:6385", "", false}, cellsOf(instance)); diff != "" {
		t.Error(diff)
	}
	ago := metav1.NewTime(time.Now().Add(-5*24*time.Hour - time.Minute))
	instance.CreationTimestamp = ago
	instance.Spec.Default, instance.Spec.Cloud = true, "metal"
	instance.Status = api.IronicInstanceStatus{
		Conditions: []metav1.Condition{{Type: "Reachable", Status: "True"}}, APIVersion: "1.96", Conductors: ptr.To[int32](2), Nodes: ptr.To[int32](7), Hosts: 5, ObservedAt: &ago,
	}
	if diff := cmp.Diff([]any{"room-b", "True", "1.96", int64(2), int64(7), int64(5), "5d", "5d", "https://room-b.example:6385", "metal", true}, cellsOf(instance)); diff != "" {
		t.Error(diff)
	}
}
