// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// kindSample is an object of a kind as its users write them, in JSON.
type kindSample struct {
	spec string
	// other is another spec; empty where the spec cannot be changed.
	other string
	// status is of those who write the status; empty where there is nothing to write.
	status string
}

var kindSamples = map[string]kindSample{
	"BareMetalHost": {`{"online":true}`, `{"online":false,"description":"other"}`, `{"errorMessage":"told","errorCount":3}`},
	"BareMetalSwitch": {
		`{"address":"192.0.2.7","macAddress":"52:54:00:00:00:01","deviceType":"netmiko_cisco_ios"}`,
		`{"address":"192.0.2.8","macAddress":"52:54:00:00:00:01","deviceType":"netmiko_cisco_ios"}`,
		`{"conditions":[{"type":"Valid","status":"True","reason":"Configured","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}`,
	},
	"BMCEventSubscription":   {`{"hostName":"worker-0","destination":"https://192.0.2.1/events","context":"c"}`, "", `{"subscriptionID":"7"}`},
	"DataImage":              {`{"url":"http://192.0.2.1/a.iso"}`, `{"url":"http://192.0.2.1/b.iso"}`, `{"attachedImage":{"url":"http://192.0.2.1/a.iso"}}`},
	"FirmwareSchema":         {`{"hardwareVendor":"Contoso","schema":{"Boot":{"attribute_type":"Enumeration","allowable_values":["a","b"]}}}`, `{"hardwareVendor":"Contoso","schema":{"Boot":{"attribute_type":"String"}}}`, ""},
	"HardwareData":           {`{"hardware":{"hostname":"a","ramMebibytes":1024}}`, `{"hardware":{"hostname":"b","ramMebibytes":2048}}`, ""},
	"HostClaim":              {`{"poweredOn":true,"hostSelector":{"matchLabels":{"rack":"1"}}}`, `{"poweredOn":false}`, `{"poweredOn":true,"bareMetalHost":{"namespace":"metal3","name":"worker-0"}}`},
	"HostDeployPolicy":       {`{"hostClaimNamespaces":{"names":["a"]}}`, `{"hostClaimNamespaces":{"names":["a","b"]}}`, ""},
	"HostFirmwareComponents": {`{"updates":[{"component":"bios","url":"http://192.0.2.1/bios"}]}`, `{"updates":[]}`, `{"components":[{"component":"bios","initialVersion":"1","updatedAt":"2026-01-01T00:00:00Z"}]}`},
	"HostFirmwareSettings":   {`{"settings":{"Boot":"a"}}`, `{"settings":{"Boot":"b","Delay":5}}`, `{"settings":{"Boot":"a"},"schema":{"namespace":"metal3","name":"schema-1"}}`},
	"HostNetworkAttachment":  {`{"mode":"access","nativeVLAN":10}`, `{"mode":"trunk","nativeVLAN":10,"allowedVLANs":["11-20"]}`, ""},
	"HostUpdatePolicy":       {`{"firmwareSettings":"onPreparing"}`, `{"firmwareSettings":"onReboot"}`, ""},
	"Provisioning":           {`{"provisioningNetwork":"Managed"}`, `{"provisioningNetwork":"Disabled"}`, `{"readyReplicas":1}`},
	"PreprovisioningImage":   {`{"architecture":"x86_64","acceptFormats":["iso"]}`, `{"architecture":"aarch64","acceptFormats":["iso"]}`, `{"imageUrl":"http://192.0.2.1/ipa.iso","format":"iso"}`},
}

// TestClientGoKinds: each kind that discovery names can be used in all ways, by
// clients that know none of them.
func TestClientGoKinds(t *testing.T) {
	served, err := s.Core.Discovery().ServerResourcesForGroupVersion(metal3.SchemeGroupVersion.String())
	if err != nil {
		t.Fatal(err)
	}
	hasStatus := map[string]bool{}
	for _, r := range served.APIResources {
		if resource, sub, _ := strings.Cut(r.Name, "/"); sub == "status" {
			hasStatus[resource] = true
		}
	}
	found := map[string]bool{}
	for _, r := range served.APIResources {
		if strings.Contains(r.Name, "/") {
			continue
		}
		found[r.Kind] = true
		sample, ok := kindSamples[r.Kind]
		if !ok {
			t.Errorf("there is no sample of kind %s", r.Kind)
			continue
		}
		if sample.status != "" && !hasStatus[r.Name] {
			t.Errorf("%s has no status subresource", r.Name)
		}
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			ctx, ns := s.Begin(t)
			all := s.Dynamic.Resource(metal3.SchemeGroupVersion.WithResource(r.Name))
			k := &kindTest{t, ctx, ns, r, sample, all}
			if r.Namespaced {
				k.client = all.Namespace(ns)
			} else {
				k.ns = ""
				t.Cleanup(k.deleteAll)
			}
			k.testLife(hasStatus[r.Name])
			k.testCollection()
		})
	}
	for kind := range kindSamples {
		if !found[kind] {
			t.Errorf("kind %s is not served", kind)
		}
	}
}

// kindTest is the test of one kind.
type kindTest struct {
	t        *testing.T
	ctx      context.Context
	ns       string
	resource metav1.APIResource
	sample   kindSample
	client   dynamic.ResourceInterface
}

// deleteAll deletes the objects of a kind that do not go with the namespace of the test.
func (k *kindTest) deleteAll() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(k.ctx), testbed.Patience)
	defer cancel()
	if err := k.client.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "pool"}); err != nil {
		k.t.Error(err)
	}
}

func (k *kindTest) must(obj *unstructured.Unstructured, err error) *unstructured.Unstructured {
	k.t.Helper()
	if err != nil {
		k.t.Fatal(err)
	}
	return obj
}

func (k *kindTest) json(text string) (value map[string]any) {
	k.t.Helper()
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		k.t.Fatalf("%s: %v", text, err)
	}
	return value
}

// object is a new one of the kind, which no controller touches.
func (k *kindTest) object(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": metal3.SchemeGroupVersion.String(), "kind": k.resource.Kind,
		"metadata": map[string]any{"name": name, "labels": map[string]any{"test": "kinds"}, "annotations": map[string]any{metal3.PausedAnnotation: "contract"}},
		"spec":     k.json(k.sample.spec),
	}}
}

// contains complains where want has what got has not. Defaults may be added.
func (k *kindTest) contains(what string, got, want any) {
	k.t.Helper()
	wanted, ok := want.(map[string]any)
	if !ok {
		if a, b := mustJSON(k.t, got), mustJSON(k.t, want); a != b {
			k.t.Errorf("%s is %s, want %s", what, a, b)
		}
		return
	}
	has, _ := got.(map[string]any)
	for name, value := range wanted {
		k.contains(what+"."+name, has[name], value)
	}
}

func mustJSON(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func (k *kindTest) testLife(hasStatus bool) {
	t, ctx := k.t, k.ctx
	t.Helper()
	want := []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
	if got := slices.Sorted(slices.Values(k.resource.Verbs)); !slices.Equal(got, want) {
		t.Errorf("verbs %v, want %v", got, want)
	}
	watched := metav1.ListOptions{}
	if !k.resource.Namespaced {
		watched.FieldSelector = "metadata.name=a" // other tests have objects, too
	}
	w, err := k.client.Watch(ctx, watched)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()

	if _, err := k.client.Create(ctx, k.object("dry"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Errorf("dry run: %v", err)
	}
	if _, err := k.client.Get(ctx, "dry", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after a dry run: %v", err)
	}
	misspelt := k.object("misspelt")
	misspelt.Object["spec"].(map[string]any)["misspelt"] = "x"
	if k.resource.Kind == "Provisioning" {
		// Its fields are not known here: they are its operator's.
	} else if _, err := k.client.Create(ctx, misspelt, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}); !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "spec.misspelt") {
		t.Errorf("a misspelt field: %v", err)
	}
	created := k.must(k.client.Create(ctx, k.object("a"), metav1.CreateOptions{}))
	k.contains("spec", created.Object["spec"], k.json(k.sample.spec))
	if created.GetGeneration() != 1 || created.GetUID() == "" {
		t.Errorf("created as %v", created.Object["metadata"])
	}
	last, generation := created, int64(1)
	wrote := []string{"ADDED " + created.GetResourceVersion()}
	// step is a write that must leave the spec as given, and raise the generation if
	// and only if it changed.
	step := func(what string, changesSpec bool, spec string, do func(obj *unstructured.Unstructured) (*unstructured.Unstructured, error)) {
		t.Helper()
		stale := last.DeepCopy()
		last = k.must(do(k.must(k.client.Get(ctx, "a", metav1.GetOptions{}))))
		if changesSpec {
			generation++
		}
		if last.GetGeneration() != generation {
			t.Errorf("%s: generation %d, want %d", what, last.GetGeneration(), generation)
		}
		k.contains(what+": spec", last.Object["spec"], k.json(spec))
		wrote = append(wrote, "MODIFIED "+last.GetResourceVersion())
		stale.SetLabels(map[string]string{"stale": "yes"})
		if _, err := k.client.Update(ctx, stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			t.Errorf("after %s, a PUT of what was before: %v, want 409", what, err)
		}
	}
	spec := k.sample.spec
	step("merge patch of a label", false, spec, func(*unstructured.Unstructured) (*unstructured.Unstructured, error) {
		return k.client.Patch(ctx, "a", types.MergePatchType, []byte(`{"metadata":{"labels":{"by":"merge"}}}`), metav1.PatchOptions{})
	})
	step("JSON patch of a label", false, spec, func(*unstructured.Unstructured) (*unstructured.Unstructured, error) {
		return k.client.Patch(ctx, "a", types.JSONPatchType, []byte(`[{"op":"replace","path":"/metadata/labels/by","value":"json"}]`), metav1.PatchOptions{})
	})
	step("apply of a label", false, spec, func(*unstructured.Unstructured) (*unstructured.Unstructured, error) {
		applied := k.object("a")
		delete(applied.Object, "spec")
		applied.SetLabels(map[string]string{"applied": "yes"})
		return k.client.Apply(ctx, "a", applied, metav1.ApplyOptions{FieldManager: "contract", Force: true})
	})
	if hasStatus && k.sample.status != "" {
		step("PUT of /status", false, spec, func(obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
			obj.Object["status"] = k.json(k.sample.status)
			obj.Object["spec"] = k.json(`{}`)
			obj.SetLabels(nil)
			return k.client.UpdateStatus(ctx, obj, metav1.UpdateOptions{})
		})
		if last.GetLabels()["by"] != "json" {
			t.Errorf("a PUT of /status changed the labels: %v", last.GetLabels())
		}
	}
	if k.sample.other != "" {
		spec = k.sample.other
		step("PUT of another spec", true, spec, func(obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
			obj.Object["spec"] = k.json(spec)
			if hasStatus {
				delete(obj.Object, "status")
			}
			return k.client.Update(ctx, obj, metav1.UpdateOptions{})
		})
	}
	if k.sample.status != "" {
		k.contains("status", last.Object["status"], k.json(k.sample.status))
	}
	byUID := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions("another")}
	if err := k.client.Delete(ctx, "a", byUID); !apierrors.IsConflict(err) {
		t.Errorf("deletion of another UID: %v, want 409", err)
	}
	if err := k.client.Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	var told []string
	for len(told) == 0 || !strings.HasPrefix(told[len(told)-1], string(watch.Deleted)) {
		event := nextEvent(t, ctx, w)
		told = append(told, string(event.Type)+" "+versionOf(event.Object))
	}
	if diff := cmp.Diff(wrote, told[:len(told)-1]); diff != "" {
		t.Errorf("what was written, and what a watch told of it (-want +got):\n%s", diff)
	}
}

func (k *kindTest) testCollection() {
	t, ctx := k.t, k.ctx
	t.Helper()
	for _, name := range []string{"x-0", "x-1", "x-2", "y-0"} {
		obj := k.object(name)
		obj.SetLabels(map[string]string{"pool": name[:1]})
		k.must(k.client.Create(ctx, obj, metav1.CreateOptions{}))
	}
	list, err := k.client.List(ctx, metav1.ListOptions{LabelSelector: "pool=x", Limit: 2})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 2 || list.GetContinue() == "" || list.GetKind() != k.resource.Kind+"List" {
		t.Errorf("first page: %d of kind %s", len(list.Items), list.GetKind())
	}
	client, err := metadata.NewForConfig(s.Config)
	if err != nil {
		t.Fatal(err)
	}
	var partial metadata.ResourceInterface = client.Resource(metal3.SchemeGroupVersion.WithResource(k.resource.Name))
	if k.resource.Namespaced {
		partial = client.Resource(metal3.SchemeGroupVersion.WithResource(k.resource.Name)).Namespace(k.ns)
	}
	if one, err := partial.Get(ctx, "y-0", metav1.GetOptions{}); err != nil || one.UID == "" || one.Labels["pool"] != "y" {
		t.Errorf("metadata: %v %+v", err, one)
	}
	if err := partial.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "pool=x", FieldSelector: "metadata.name!=x-1"}); err != nil {
		t.Fatal(err)
	}
	left, err := partial.List(ctx, metav1.ListOptions{LabelSelector: "pool"})
	if err != nil {
		t.Fatal(err)
	}
	if len(left.Items) != 2 || left.Items[0].Name != "x-1" || left.Items[1].Name != "y-0" || left.Items[1].Labels["pool"] != "y" {
		t.Errorf("left are %+v", left.Items)
	}
}
