// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	ironicv1alpha1 "github.com/metal3-io/metal3-apiserver/pkg/apis/ironic/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/install"
)

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	utilruntime.Must(ironicv1alpha1.Install(scheme))
	return scheme
}

func kindsForTest(t *testing.T) []*Kind {
	t.Helper()
	kinds, err := Kinds(newScheme())
	if err != nil {
		t.Fatal(err)
	}
	return kinds
}

// host reads a BareMetalHost from the YAML of a custom resource.
func host(t *testing.T, text string) (*Object, error) {
	t.Helper()
	return object(t, "BareMetalHost", text)
}

// object reads an object of a kind from the YAML of a custom resource.
func object(t *testing.T, kind, text string) (*Object, error) {
	t.Helper()
	item := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &item.Object); err != nil {
		t.Fatal(err)
	}
	item.SetKind(kind)
	kinds := kindsForTest(t)
	return fromCustomResource(newScheme(), kinds[slices.IndexFunc(kinds, func(k *Kind) bool { return k.Kind == kind })], item)
}

func TestHostsComeFirst(t *testing.T) {
	kinds := kindsForTest(t)
	if kinds[0].Kind != "BareMetalHost" || !kinds[0].HasStatus || kinds[0].CRD() != "baremetalhosts.metal3.io" {
		t.Errorf("the first kind is %+v, want BareMetalHost, because the objects that hosts own need the hosts' UIDs", kinds[0])
	}
	if len(kinds) != 14 {
		t.Errorf("got %d kinds, want the 14 of the group", len(kinds))
	}
}

// TestMigrationPermissions checks that the ClusterRoles of the migration grant what the
// migration does with each kind.
func TestMigrationPermissions(t *testing.T) {
	var role rbacv1.ClusterRole
	for _, name := range []string{"read", "export", "switch"} {
		text, err := os.ReadFile("../../artifacts/apiservice/components/migration/clusterrole-" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		var part rbacv1.ClusterRole
		if err := yaml.UnmarshalStrict(text, &part); err != nil {
			t.Fatal(err)
		}
		role.Rules = append(role.Rules, part.Rules...)
	}
	may := func(verb, group, resource string) bool {
		return slices.ContainsFunc(role.Rules, func(rule rbacv1.PolicyRule) bool {
			return slices.Contains(rule.Verbs, verb) && slices.Contains(rule.APIGroups, group) && slices.Contains(rule.Resources, resource)
		})
	}
	for _, kind := range kindsForTest(t) {
		for _, verb := range []string{"list", "create", "update", "patch", "delete"} {
			if !may(verb, "metal3.io", kind.Resource) {
				t.Errorf("the role does not grant %s on %s", verb, kind.Resource)
			}
		}
		if kind.HasStatus && !may("update", "metal3.io", kind.Resource+"/status") {
			t.Errorf("the role does not grant update on the status of %s", kind.Resource)
		}
	}
	for _, verb := range []string{"get", "delete"} {
		if !slices.ContainsFunc(role.Rules, func(rule rbacv1.PolicyRule) bool {
			return slices.Contains(rule.Verbs, verb) && slices.Contains(rule.ResourceNames, ironicAPIServiceName)
		}) {
			t.Errorf("the role does not grant %s on APIService %s", verb, ironicAPIServiceName)
		}
	}
	if may("get", "", "secrets") {
		t.Error("the role grants reading Secrets, which is not needed")
	}
}

func TestReadsCustomResources(t *testing.T) {
	obj, err := host(t, `{metadata: {namespace: ns, name: a, uid: u-1, resourceVersion: "7"}, spec: {online: true, bmc: {address: ipmi://x, credentialsName: s}, flavour: sweet}, status: {provisioning: {state: available, ID: node-1, colour: red}}}`)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"spec.flavour", "status.provisioning.colour"}, obj.Unknown); diff != "" {
		t.Error("unknown fields:", diff)
	}
	if obj.Key != (types.NamespacedName{Namespace: "ns", Name: "a"}) || obj.UID != "u-1" || obj.ResourceVersion != "7" {
		t.Errorf("%+v", obj)
	}
	if mode, _, _ := unstructured.NestedString(obj.fields, "spec", "automatedCleaningMode"); mode != "metadata" {
		t.Errorf("the default of spec.automatedCleaningMode is %q", mode)
	}
	if _, err := host(t, `{metadata: {namespace: ns, name: a}, spec: {online: "yes"}}`); err == nil || !strings.Contains(err.Error(), "BareMetalHost ns/a cannot be read") {
		t.Errorf("an object of another type: %v", err)
	}
}

func TestDifference(t *testing.T) {
	const base = `{metadata: {namespace: ns, name: a, uid: u, labels: {rack: "1"}}, spec: {online: true, bmc: {address: ipmi://x, credentialsName: s}}}`
	for _, test := range []struct{ from, to, path string }{
		{"rack", "rack", ""},
		{`"1"`, `"2"`, "metadata.labels.rack"},
		{`, labels: {rack: "1"}`, "", "metadata.labels"},
		{"ipmi://x", "ipmi://y", "spec.bmc.address"},
		{"online: true", "online: false", "spec.online"},
	} {
		a, err := host(t, base)
		if err != nil {
			t.Fatal(err)
		}
		b, err := host(t, strings.Replace(base, test.from, test.to, 1))
		if err != nil {
			t.Fatal(err)
		}
		if path := firstDifference(a, b); path != test.path {
			t.Errorf("%s -> %s differs in %q, want %q", test.from, test.to, path, test.path)
		}
	}
	if path := firstDifferenceAt("status", map[string]any{"n": int64(2), "l": []any{map[string]any{"n": 1.0}}}, map[string]any{"n": 2.0, "l": []any{map[string]any{"n": int64(1)}}}); path != "" {
		t.Errorf("equal numbers differ in %q", path)
	}
	if path := firstDifferenceAt("status", nil, map[string]any{"n": 1}); path != "status" {
		t.Errorf("a missing status differs in %q, want status", path)
	}
}

func TestCompare(t *testing.T) {
	const text = `{metadata: {namespace: ns, name: NAME, uid: UID}, spec: {online: true, bmc: {address: ADDRESS, credentialsName: s}}}`
	set := func(objects ...string) Objects { // NAME UID ADDRESS
		all := Objects{}
		for _, object := range objects {
			words := strings.Fields(object)
			obj, err := host(t, strings.NewReplacer("NAME", words[0], "UID", words[1], "ADDRESS", words[2]).Replace(text))
			if err != nil {
				t.Fatal(err)
			}
			all[obj.Key] = obj
		}
		return all
	}
	c := compare(kindsForTest(t)[0], set("same u1 x", "changed u2 x", "other u3 x", "new u4 x"), set("same u1 x", "changed u2 z", "other u9 x", "gone u5 x"))
	var refuse refusals
	c.refuseDifferences(&refuse)
	want := refusals{
		"BareMetalHost ns/new is not in the store",
		"BareMetalHost ns/changed differs in spec.bmc.address",
		"BareMetalHost ns/other has another UID in the store",
		"BareMetalHost ns/gone is in the store but not in the CRDs",
	}
	if diff := cmp.Diff(want, refuse); diff != "" {
		t.Error(diff)
	}
	if c.equal != 1 || len(c.toWrite()) != 3 {
		t.Errorf("got %d equal and %d to write, want 1 and 3", c.equal, len(c.toWrite()))
	}
}

func TestFieldsDroppedByCRD(t *testing.T) {
	obj, err := host(t, `{metadata: {namespace: ns, name: a, ownerReferences: [{apiVersion: metal3.io/v1alpha1, kind: BareMetalHost, name: b, uid: old}]}, spec: {online: true, bmc: {address: x, credentialsName: s}, description: d}, status: {ironic: {nodeUUID: node-1, provisionState: active}}}`)
	if err != nil {
		t.Fatal(err)
	}
	w := &writer{obj: obj, uids: UIDs{"old": "new"}, version: migrationVersion}
	wanted := w.wanted()
	if owners := wanted.GetOwnerReferences(); owners[0].UID != "new" || wanted.GetAPIVersion() != "metal3.io/migration" {
		t.Errorf("%s is owned by %+v", wanted.GetAPIVersion(), owners)
	}
	if never, err := host(t, `{metadata: {namespace: ns, name: b}, spec: {online: true, bmc: {address: x, credentialsName: s}}}`); err != nil {
		t.Fatal(err)
	} else if _, has := (&writer{obj: never, version: storedVersion}).wanted().Object["status"]; has {
		t.Error("a status that was never set would be written")
	}
	is := wanted.DeepCopy()
	unstructured.RemoveNestedField(is.Object, "spec", "description")
	unstructured.RemoveNestedField(is.Object, "status", "ironic")
	if diff := cmp.Diff([]string{"spec.description"}, w.droppedPaths(is)); diff != "" {
		t.Error(diff)
	}
}

// pruning are the custom resources of a kind whose CRD has none of some fields of the status.
type pruning struct {
	dynamic.ResourceInterface
	unknown []string
	writes  int
}

func (p *pruning) UpdateStatus(_ context.Context, written *unstructured.Unstructured, _ metav1.UpdateOptions) (*unstructured.Unstructured, error) {
	p.writes++
	return p.prune(written), nil
}

func (p *pruning) prune(item *unstructured.Unstructured) *unstructured.Unstructured {
	item = item.DeepCopy()
	for _, field := range p.unknown {
		unstructured.RemoveNestedField(item.Object, "status", field)
	}
	return item
}

// TestFieldsUnknownToCRD: a custom resource is the same without the fields of this server that the operator's CRDs prune, and their loss
// is nothing to tell of. The fields are those of statuses in which our types differ from config/base/crds of the Bare Metal Operator
// v0.13.2 and v0.14.0-rc.0.
func TestFieldsUnknownToCRD(t *testing.T) {
	const source = `{nodeUUID: node-1, stateChangedAt: "2026-01-01T00:00:00.000000Z"}`
	const hostText = `{metadata: {namespace: ns, name: a}, spec: {online: true}, status: {poweredOn: true, provisioningFailCount: 1, lastAttemptedImage: {url: "http://a"}, ironic: {nodeUUID: node-1, provisionState: active}, record: {epoch: 7, state: {name: provisioned, since: "2026-01-01T00:00:00Z"}}}}`
	for name, test := range map[string]struct {
		kind, text string
		unknown    []string
		writes     int // of the status each time
	}{
		"hosts":         {"BareMetalHost", hostText, []string{"ironic", "record"}, 0},
		"hosts of 0.13": {"BareMetalHost", hostText, []string{"ironic", "record", "lastAttemptedImage", "provisioningFailCount"}, 1}, // else 0.14 would not get them
		"components": {
			"HostFirmwareComponents", `{metadata: {namespace: ns, name: a}, spec: {updates: []}, status: {components: [{component: bios, initialVersion: "1"}], preparedAt: "2026-01-01T00:00:00.000000Z", source: ` + source + `}}`,
			[]string{"preparedAt", "source"}, 0,
		},
		"settings": {
			"HostFirmwareSettings", `{metadata: {namespace: ns, name: a}, spec: {settings: {}}, status: {settings: {SecureBoot: Enabled}, source: ` + source + `}}`,
			[]string{"source"}, 0,
		},
	} {
		obj, err := object(t, test.kind, test.text)
		if err != nil {
			t.Fatal(err)
		}
		client := &pruning{unknown: test.unknown}
		w := &writer{client: client, obj: obj, version: storedVersion}
		for _, field := range test.unknown {
			if _, has, _ := unstructured.NestedFieldNoCopy(w.wanted().Object, "status", field); !has {
				t.Errorf("%s: there is no status.%s to be pruned", name, field)
			}
		}
		is, did, err := w.apply(t.Context(), client.prune(w.wanted()))
		if err != nil || did != outcomeUnchanged || client.writes != test.writes {
			t.Errorf("%s: outcome %d, %d writes, %v", name, did, client.writes, err)
		}
		if lost := w.droppedPaths(is); lost != nil {
			t.Errorf("%s: these count as dropped: %v", name, lost)
		}
	}
}

func TestRefusalsNameTheFirst(t *testing.T) {
	var refuse refusals
	if refuse.err("x") != nil {
		t.Error("without reasons to refuse, there is an error")
	}
	for range maxNamed + 2 {
		refuse.add("%s", "something")
	}
	if text := refuse.err("not now").Error(); strings.Count(text, "something") != maxNamed || !strings.HasSuffix(text, "and 2 more") {
		t.Error(text)
	}
}
