// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

const (
	mergePatch = "Content-Type: application/merge-patch+json"
	jsonPatch  = "Content-Type: application/json-patch+json"
	applyPatch = "Content-Type: application/apply-patch+yaml"
)

func TestWrite(t *testing.T) {
	s := startServer(t, true)
	t.Run("patch", func(t *testing.T) { testPatch(t, s) })
	t.Run("apply", func(t *testing.T) { testApply(t, s) })
	t.Run("apply conditions", func(t *testing.T) { testApplyConditions(t, s) })
	t.Run("put", func(t *testing.T) { testPut(t, s) })
	t.Run("dry run", func(t *testing.T) { testDryRun(t, s) })
	t.Run("without Ironic", func(t *testing.T) { testWritesWithoutIronic(t, s) })
}

func testPatch(t *testing.T, s *server) {
	before := s.create(t, "patched")
	tests := []struct {
		name, path, header, body string
		code                     int
		check                    func(*metal3.BareMetalHost) bool
		generation               int64
	}{
		{"merge patch of the spec", "", mergePatch, `{"spec":{"online":false}}`, 200,
			func(h *metal3.BareMetalHost) bool { return !h.Spec.Online && h.Spec.BMC.Address != "" }, 2},
		{"JSON patch of the spec", "", jsonPatch, `[{"op":"replace","path":"/spec/online","value":true}]`, 200,
			func(h *metal3.BareMetalHost) bool { return h.Spec.Online }, 3},
		{"JSON patch whose test fails", "", jsonPatch, `[{"op":"test","path":"/spec/online","value":false}]`, 422, nil, 3},
		{"merge patch against the rules", "", mergePatch, `{"spec":{"bootMode":"floppy"}}`, 422, nil, 3},
		{"status through the main resource", "", mergePatch, `{"status":{"errorMessage":"not so"}}`, 200,
			func(h *metal3.BareMetalHost) bool { return h.Status.ErrorMessage == "" }, 3},
		{"spec through /status", "/status", mergePatch, `{"spec":{"online":false},"metadata":{"labels":{"a":"b"}}}`, 200,
			func(h *metal3.BareMetalHost) bool { return h.Spec.Online && len(h.Labels) == 0 }, 3},
		{"status through /status", "/status", mergePatch, `{"status":{"provisioningFailCount":2}}`, 200,
			func(h *metal3.BareMetalHost) bool { return h.Status.ProvisioningFailCount == 2 }, 3},
		{"an old resourceVersion", "", mergePatch, `{"metadata":{"resourceVersion":"` + before.ResourceVersion + `"},"spec":{"online":false}}`, 409, nil, 3},
		{"the name", "", mergePatch, `{"metadata":{"name":"another"}}`, 400, nil, 3},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := s.do(t, "PATCH", hostsPath+"/patched"+test.path, test.body, test.header)
			if got.code != test.code {
				t.Fatalf("got HTTP %d: %s", got.code, got.body)
			}
			host := s.recorded(t, "patched")
			if test.check != nil && !test.check(host) {
				t.Errorf("the host is now %+v", host)
			}
			if host.Generation != test.generation {
				t.Errorf("generation is %d, want %d", host.Generation, test.generation)
			}
		})
	}
}

// apply applies fields of a host for a manager.
func (s *server) apply(t *testing.T, path, manager, fields, query string) answer {
	t.Helper()
	name, _, _ := strings.Cut(path, "/")
	body := fmt.Sprintf(`{"apiVersion":"metal3.io/v1alpha1","kind":"BareMetalHost","metadata":{"name":%q},%s}`, name, fields)
	return s.do(t, "PATCH", hostsPath+"/"+path+"?fieldManager="+manager+query, body, applyPatch)
}

func testApply(t *testing.T, s *server) {
	bmc := `"bmc":{"address":"ipmi://192.168.111.1:6233","credentialsName":"x"}`
	var host metal3.BareMetalHost
	s.apply(t, "applied", "gitops", `"spec":{"online":true,`+bmc+`}`, "").into(t, 201, &host)
	created := host.ResourceVersion
	if s.apply(t, "applied", "gitops", `"spec":{"online":true,`+bmc+`}`, "").into(t, 200, &host); host.ResourceVersion != created {
		t.Errorf("applying the same again has written: resourceVersion %s, then %s", created, host.ResourceVersion)
	}
	for _, entry := range host.ManagedFields {
		if entry.APIVersion != "metal3.io/v1alpha1" || entry.Manager != "gitops" {
			t.Errorf("fields are managed by %s in %s", entry.Manager, entry.APIVersion)
		}
	}
	// Another manager adds what the first one does not manage.
	s.apply(t, "applied", "capm3", `"spec":{"consumerRef":{"kind":"Metal3Machine","name":"worker-0"}}`, "").into(t, 200, &host)
	if !host.Spec.Online || host.Spec.ConsumerRef == nil {
		t.Errorf("after two managers the spec is %+v", host.Spec)
	}
	// Changing what the first manager manages is a conflict that names the field and the
	// manager, unless it is forced.
	got := s.apply(t, "applied", "capm3", `"spec":{"online":false,"consumerRef":{"kind":"Metal3Machine","name":"worker-0"}}`, "")
	if message := got.status(t).Message; got.code != 409 || !strings.Contains(message, `"gitops"`) || !strings.Contains(message, ".spec.online") {
		t.Errorf("a conflict: HTTP %d: %s", got.code, message)
	}
	s.apply(t, "applied", "capm3", `"spec":{"online":false,"consumerRef":{"kind":"Metal3Machine","name":"worker-0"}}`, "&force=true").into(t, 200, &host)
	if host.Spec.Online {
		t.Error("a forced conflict changed nothing")
	}
	// A manager that no longer applies a field gives it up.
	s.apply(t, "applied", "capm3", `"spec":{"online":false}`, "").into(t, 200, &host)
	if host.Spec.ConsumerRef != nil || host.Spec.BMC.Address == "" {
		t.Errorf("the spec is %+v", host.Spec)
	}
	// No manager owns the status through the main resource, or spec and metadata through /status.
	s.apply(t, "applied", "rogue", `"status":{"errorMessage":"not so"}`, "").into(t, 200, &host)
	const notStatus = `{"apiVersion":"metal3.io/v1alpha1","kind":"BareMetalHost","metadata":{"name":"applied","labels":{"not":"so"}},"spec":{"description":"not so"}}`
	s.do(t, "PATCH", hostsPath+"/applied/status?fieldManager=rogue", notStatus, applyPatch).into(t, 200, &host)
	for _, entry := range host.ManagedFields {
		if entry.Manager == "rogue" {
			t.Errorf("fields are managed by %s: %s", entry.Manager, entry.FieldsV1)
		}
	}
}

// testApplyConditions checks that managers can apply different conditions without conflicts.
func testApplyConditions(t *testing.T, s *server) {
	s.create(t, "conditions")
	for _, kind := range []string{"Rack", "Audit"} {
		fields := fmt.Sprintf(`"status":{"conditions":[{"type":"example.com/%s","status":"True","reason":"Done","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}`, kind)
		if got := s.apply(t, "conditions/status", strings.ToLower(kind), fields, ""); got.code != 200 {
			t.Fatalf("HTTP %d: %s", got.code, got.body)
		}
	}
	if got := s.recorded(t, "conditions").Status.Conditions; len(got) != 2 {
		t.Errorf("conditions are %v", got)
	}
}

func testPut(t *testing.T, s *server) {
	host := s.create(t, "put")
	put := func(path string, change func(*metal3.BareMetalHost)) answer {
		changed := s.recorded(t, "put")
		change(changed)
		body, err := json.Marshal(changed)
		if err != nil {
			t.Fatal(err)
		}
		return s.do(t, "PUT", hostsPath+"/"+path, string(body))
	}
	tests := []struct {
		name, path string
		change     func(*metal3.BareMetalHost)
		code       int
	}{
		{"spec", "put", func(h *metal3.BareMetalHost) { h.Spec.Online = false }, 200},
		{"old resourceVersion", "put", func(h *metal3.BareMetalHost) { h.ResourceVersion = host.ResourceVersion; h.Spec.Online = true }, 409},
		{"no resourceVersion", "put", func(h *metal3.BareMetalHost) { h.ResourceVersion = "" }, 422},
		{"a host that is not there", "no-such", func(h *metal3.BareMetalHost) { h.Name, h.ResourceVersion, h.UID = "no-such", "", "" }, 404},
		{"another name than the URL", "another", func(*metal3.BareMetalHost) {}, 400},
		{"status", "put/status", func(h *metal3.BareMetalHost) { h.Status.ProvisioningFailCount = 1 }, 200},
	}
	for _, test := range tests {
		if got := put(test.path, test.change); got.code != test.code {
			t.Errorf("%s: HTTP %d, want %d: %s", test.name, got.code, test.code, got.body)
		}
	}
	before := s.recorded(t, "put").ResourceVersion
	if got := s.do(t, "PUT", hostsPath+"/put", string(s.do(t, "GET", hostsPath+"/put", "").body)); got.code != 200 {
		t.Errorf("what GET has answered: HTTP %d: %s", got.code, got.body)
	}
	if after := s.recorded(t, "put").ResourceVersion; after != before {
		t.Errorf("a PUT of what GET has answered has written: resourceVersion %s, then %s", before, after)
	}
	if got := s.do(t, "POST", hostsPath, `{"apiVersion":"metal3.io/v1alpha1","kind":"BareMetalHost","metadata":{"name":"new","resourceVersion":"1"}}`); !strings.Contains(string(got.body), "resourceVersion should not be set") {
		t.Errorf("creation with a resourceVersion: HTTP %d: %s", got.code, got.body)
	}
	// Ironic would take this name for the UUID of another node.
	got := s.do(t, "POST", hostsPath, strings.ReplaceAll(hostJSON, "NAME", "1be26c0b-03f2-4d2e-ae87-c02d7f33c123"))
	if details := got.status(t).Details; got.code != 422 || details == nil || details.Causes[0].Field != "metadata.name" {
		t.Errorf("a UUID as name: HTTP %d: %s", got.code, got.body)
	}
}

func testDryRun(t *testing.T, s *server) {
	before := s.register(t, "dry", func(h *metal3.BareMetalHost, _ *ironic.Node) {
		h.Status.ErrorType, h.Status.ErrorCount = metal3.InspectionError, 3
	})
	tests := []struct {
		name, method, path, body, header string
		code                             int
	}{
		{"create", "POST", "", strings.ReplaceAll(hostJSON, "NAME", "never"), "", 201},
		{"update", "PUT", "/dry", "", "", 200},
		{"patch", "PATCH", "/dry", `{"spec":{"online":false}}`, mergePatch, 200},
		{"apply", "PATCH", "/dry", `{"apiVersion":"metal3.io/v1alpha1","kind":"BareMetalHost","spec":{"description":"x"}}`, applyPatch, 200},
		{"status", "PATCH", "/dry/status", `{"status":{"provisioningFailCount":5}}`, mergePatch, 200},
		{"delete", "DELETE", "/dry", "", "", 200},
		{"delete all", "DELETE", "", "", "", 200},
		{"power", "POST", "/dry/power", `{"spec":{"action":"off"}}`, "", 201},
		{"inspect", "POST", "/dry/inspect", `{"spec":{}}`, "", 201},
		{"retry", "POST", "/dry/retry", `{}`, "", 201},
	}
	s.ironic.reset(t)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if test.method == "PUT" {
				changed := before.DeepCopy()
				changed.Spec.Online = false
				changed.TypeMeta = metav1.TypeMeta{APIVersion: "metal3.io/v1alpha1", Kind: "BareMetalHost"}
				body, err := json.Marshal(changed)
				if err != nil {
					t.Fatal(err)
				}
				test.body = string(body)
			}
			got := s.do(t, test.method, hostsPath+test.path+"?dryRun=All&fieldManager=test", test.body, test.header)
			if got.code != test.code {
				t.Errorf("HTTP %d: %s", got.code, got.body)
			}
			if test.name == "power" {
				var power metal3.HostPower
				if got.into(t, test.code, &power); power.Status.Mode != metal3.PowerModeSoft {
					t.Errorf("mode is %q", power.Status.Mode)
				}
			}
			if diff := cmp.Diff(before, s.recorded(t, "dry")); diff != "" {
				t.Errorf("it was written:\n%s", diff)
			}
			if changes := s.ironic.requested(); len(changes) > 0 {
				t.Errorf("Ironic was asked for %v", changes)
			}
		})
	}
	if got := s.do(t, "GET", hostsPath+"/never", ""); got.code != http.StatusNotFound {
		t.Errorf("a dry run created a host: HTTP %d", got.code)
	}
}

// testWritesWithoutIronic checks that the spec can be written whether or not Ironic answers.
func testWritesWithoutIronic(t *testing.T, s *server) {
	s.live.leave("no answer within 2.5s")
	s.ironic.disconnect(t)
	defer s.live.leave("")
	s.create(t, "alone")
	for _, step := range []struct {
		method, body, header string
	}{
		{"PATCH", `{"spec":{"online":false},"metadata":{"finalizers":["example.com/x"]}}`, mergePatch},
		{"DELETE", "", ""},
		{"PATCH", `{"metadata":{"finalizers":null}}`, mergePatch},
	} {
		if got := s.do(t, step.method, hostsPath+"/alone", step.body, step.header); got.code != 200 {
			t.Errorf("%s: HTTP %d: %s", step.method, got.code, got.body)
		}
	}
	if got := s.do(t, "GET", hostsPath+"/alone", ""); got.code != 404 {
		t.Errorf("the host is still there: HTTP %d", got.code)
	}
}

// What a list shows of a host is what is stored, whatever was answered to anybody
// under the same resourceVersion, or to the same name.
func TestListsAfterWrites(t *testing.T) {
	s := startServer(t, true)
	s.create(t, "bystander")
	online := func(query string) map[string]bool {
		t.Helper()
		var list metal3.BareMetalHostList
		s.do(t, "GET", hostsPath+query, "").into(t, http.StatusOK, &list)
		states := map[string]bool{}
		for _, host := range list.Items {
			states[host.Name] = host.Spec.Online
		}
		return states
	}
	first := s.create(t, "written")
	check := func(after, query string, want bool) {
		t.Helper()
		if diff := cmp.Diff(map[string]bool{"bystander": true, "written": want}, online(query)); diff != "" {
			t.Errorf("after %s (- want, + got):\n%s", after, diff)
		}
	}
	patch := func(query, body string) {
		t.Helper()
		if got := s.do(t, "PATCH", hostsPath+"/written"+query, body, mergePatch); got.code != http.StatusOK {
			t.Fatalf("HTTP %d: %s", got.code, got.body)
		}
	}
	patch("?dryRun=All", `{"spec":{"online":false}}`)
	check("a dry run", "", true)
	patch("", `{"spec":{"online":false}}`)
	check("a write", "", false)
	patch("?dryRun=All", `{"spec":{"online":true}}`)
	check("another dry run", "", false)
	check("the write, of before", "?resourceVersionMatch=Exact&resourceVersion="+first.ResourceVersion, true)
	check("a look at the past", "", false)
	s.do(t, "DELETE", hostsPath+"/written", "")
	s.create(t, "written")
	check("it was made anew", "", true)
}
