// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

func TestActions(t *testing.T) {
	s := startServer(t, true)
	t.Run("get power", func(t *testing.T) { testGetPower(t, s) })
	t.Run("concurrent change of the spec", func(t *testing.T) { testConcurrentSpec(t, s) })
	t.Run("admission", func(t *testing.T) { testAdmission(t, s) })
	t.Run("admission of what actions write", func(t *testing.T) { testUpdateAdmission(t, s) })
	t.Run("host missing or being deleted", func(t *testing.T) { testNoHost(t, s) })
	t.Run("strict", func(t *testing.T) { testStrictActions(t, s) })
	t.Run("client", func(t *testing.T) { testTypedActions(t, s) })
}

func testGetPower(t *testing.T, s *server) {
	s.register(t, "power", func(_ *metal3.BareMetalHost, n *ironic.Node) {
		n.PowerState, n.TargetPowerState, n.LastError = ironic.PowerOff, ironic.TargetPowerOn, "IPMI call failed"
	})
	s.create(t, "unregistered")
	read := func(name string) answer { return s.do(t, "GET", hostsPath+"/"+name+"/power", "") }
	var power metal3.HostPower
	read("power").into(t, 200, &power)
	want := metal3.HostPowerStatus{PowerState: "power off", TargetPowerState: "power on", LastError: "IPMI call failed"}
	if power.Kind != "HostPower" || power.Name != "power" || power.Status != want {
		t.Errorf("got %+v", power)
	}
	// It is read live from Ironic, not from the recorded status.
	s.ironic.edit(t, s.ironic.nodeOf(t, "power"), func(n *ironic.Node) { n.PowerState = ironic.PowerOn })
	if read("power").into(t, 200, &power); power.Status.PowerState != "power on" {
		t.Errorf("got %+v", power.Status)
	}
	if got := read("unregistered"); got.code != 409 {
		t.Errorf("not registered: HTTP %d: %s", got.code, got.body)
	}
	s.ironic.disconnect(t)
	if got := read("power"); got.code != 503 || got.header.Get("Retry-After") == "" {
		t.Errorf("Ironic away: HTTP %d: %s", got.code, got.body)
	}
}

// testConcurrentSpec checks that what another client writes to the host during an action is not
// lost, whatever Ironic answers.
func testConcurrentSpec(t *testing.T, s *server) {
	for name, happens := range map[string]interference{"accepted": none, "refused": setState(ironic.Cleaning), "unanswered": breakConnection} {
		t.Run(name, func(t *testing.T) {
			s.register(t, name, nil)
			s.ironic.interfere(t, func(i *simulatedIronic, node string) error {
				got := s.do(t, "PATCH", hostsPath+"/"+name, `{"spec":{"online":false,"description":"mine"},"metadata":{"labels":{"rack":"1"}}}`, mergePatch)
				if got.code != 200 {
					t.Errorf("HTTP %d: %s", got.code, got.body)
				}
				return happens(i, node)
			})
			s.do(t, "POST", hostsPath+"/"+name+"/power", `{"spec":{"action":"off","mode":"hard"}}`)
			host := s.recorded(t, name)
			if host.Spec.Online || host.Spec.Description != "mine" || host.Labels["rack"] != "1" {
				t.Errorf("the write of another client is lost: %+v %v", host.Spec, host.Labels)
			}
		})
	}
}

// testAdmission checks that an action that admission refuses changes neither the spec nor
// anything in Ironic.
func testAdmission(t *testing.T, s *server) {
	s.register(t, "policy", nil)
	defer s.admit.set("")
	for _, path := range []string{"power", "inspect", "retry"} {
		s.ironic.reset(t)
		s.admit.set("baremetalhosts/" + path)
		got := s.do(t, "POST", hostsPath+"/policy/"+path, `{"spec":{"action":"off"}}`)
		if got.code != 403 || !strings.Contains(got.status(t).Message, "not on a Friday") {
			t.Errorf("%s: HTTP %d: %s", path, got.code, got.body)
		}
		if calls := s.ironic.requested(); len(calls) > 0 || !s.recorded(t, "policy").Spec.Online {
			t.Errorf("%s: refused, but Ironic was asked for %v", path, calls)
		}
		s.admit.mu.Lock()
		if seen := s.admit.seen; len(seen) != 1 || seen[0].GetName() != "policy" || seen[0].GetObject() == nil || seen[0].GetOperation() != "CREATE" {
			t.Errorf("%s: admission saw %+v", path, seen)
		}
		s.admit.mu.Unlock()
	}
	s.admit.set("baremetalhosts/")
	if got := s.do(t, "POST", hostsPath, strings.ReplaceAll(hostJSON, "NAME", "never")); got.code != 403 {
		t.Errorf("create: HTTP %d: %s", got.code, got.body)
	}
}

// testUpdateAdmission checks that admission sees what an action writes into its host, as an
// update by the user, and can refuse it: then neither the host nor anything in Ironic is changed.
func testUpdateAdmission(t *testing.T, s *server) {
	s.register(t, "updated", func(h *metal3.BareMetalHost, n *ironic.Node) {
		h.Status.ErrorType, h.Status.ErrorMessage, h.Status.ErrorCount = metal3.PowerManagementError, "oops", 3
		n.ProvisionState = ironic.Available
	})
	defer s.admit.set("")
	for path, action := range map[string]struct {
		body, subresource string
		written           func(obj, old *metal3.BareMetalHost) bool
	}{
		"power":   {`{"spec":{"action":"off"}}`, "", func(obj, old *metal3.BareMetalHost) bool { return !obj.Spec.Online && old.Spec.Online }},
		"inspect": {`{"spec":{}}`, "", func(obj, old *metal3.BareMetalHost) bool { return len(obj.Annotations) == len(old.Annotations)+1 }},
		"retry": {`{"spec":{}}`, "status", func(obj, old *metal3.BareMetalHost) bool {
			return obj.Status.ErrorCount == 0 && old.Status.ErrorCount == 3
		}},
	} {
		for _, dry := range []string{"", "?dryRun=All"} {
			s.ironic.reset(t)
			s.admit.set("baremetalhosts/" + action.subresource)
			before := s.recorded(t, "updated")
			got := s.do(t, "POST", hostsPath+"/updated/"+path+dry, action.body)
			if got.code != 403 || !strings.Contains(got.status(t).Message, "not on a Friday") {
				t.Errorf("%s%s: HTTP %d: %s", path, dry, got.code, got.body)
			}
			if after := s.recorded(t, "updated"); after.ResourceVersion != before.ResourceVersion {
				t.Errorf("%s%s: refused, but the host was written: %+v", path, dry, after)
			}
			if calls := s.ironic.requested(); len(calls) > 0 {
				t.Errorf("%s%s: refused, but Ironic was asked for %v", path, dry, calls)
			}
			s.admit.mu.Lock()
			seen := s.admit.seen
			s.admit.mu.Unlock()
			// An update that is refused for the host as the watch cache has it is tried again with
			// the host in etcd, if that is newer.
			if len(seen) < 2 || len(seen) > 3 {
				t.Errorf("%s%s: admission ran %d times: %+v", path, dry, len(seen), seen)
				continue
			}
			update := seen[len(seen)-1]
			if update.GetOperation() != admission.Update || update.GetKind().Kind != "BareMetalHost" || update.IsDryRun() != (dry != "") {
				t.Errorf("%s%s: admission saw %+v", path, dry, seen)
				continue
			}
			obj, old := update.GetObject().(*metal3.BareMetalHost), update.GetOldObject().(*metal3.BareMetalHost)
			if !action.written(obj, old) {
				t.Errorf("%s%s: admission saw %+v instead of %+v", path, dry, obj, old)
			}
		}
	}
}

func testNoHost(t *testing.T, s *server) {
	s.register(t, "going", func(h *metal3.BareMetalHost, _ *ironic.Node) { h.Finalizers = []string{metal3.BareMetalHostFinalizer} })
	if got := s.do(t, "DELETE", hostsPath+"/going", ""); got.code != 200 {
		t.Fatalf("HTTP %d: %s", got.code, got.body)
	}
	s.ironic.reset(t)
	for path, body := range map[string]string{"power": `{"spec":{"action":"off"}}`, "inspect": `{"spec":{}}`} {
		if got := s.do(t, "POST", hostsPath+"/going/"+path, body); got.code != 409 || !strings.Contains(got.status(t).Message, "being deleted") {
			t.Errorf("%s of a host that is being deleted: HTTP %d: %s", path, got.code, got.body)
		}
		for _, method := range []string{"POST", "GET"} {
			if got := s.do(t, method, hostsPath+"/no-such/"+path, body); got.code != 404 {
				t.Errorf("%s %s of no host: HTTP %d: %s", method, path, got.code, got.body)
			}
		}
		for _, method := range []string{"PUT", "DELETE", "PATCH"} {
			if got := s.do(t, method, hostsPath+"/going/"+path, body); got.code != 405 {
				t.Errorf("%s %s: HTTP %d", method, path, got.code)
			}
		}
	}
	if calls := s.ironic.requested(); len(calls) > 0 {
		t.Errorf("Ironic was asked for %v", calls)
	}
}

func testStrictActions(t *testing.T, s *server) {
	s.register(t, "strict", nil)
	for path, body := range map[string]string{"power": `{"spec":{"action":"off","force":true}}`, "inspect": `{"spec":{"force":true}}`, "retry": `{"spec":{"force":true}}`} {
		s.ironic.reset(t)
		got := s.do(t, "POST", hostsPath+"/strict/"+path+"?fieldValidation=Strict", body)
		if got.code != 400 || !strings.Contains(got.status(t).Message, `unknown field "spec.force"`) {
			t.Errorf("%s: HTTP %d: %s", path, got.code, got.body)
		}
		if calls := s.ironic.requested(); len(calls) > 0 {
			t.Errorf("%s: Ironic was asked for %v", path, calls)
		}
	}
}

// testTypedActions uses the generated client, as other controllers do.
func testTypedActions(t *testing.T, s *server) {
	s.register(t, "typed", nil)
	s.ironic.reset(t)
	hosts := s.clientset().Metal3V1alpha1().BareMetalHosts(namespace)
	if _, err := hosts.Inspect(t.Context(), "typed", &metal3.HostInspection{}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Errorf("inspect: %v", err)
	}
	if inspection, err := hosts.GetInspect(t.Context(), "typed", metav1.GetOptions{}); err != nil || inspection.Status.State != "available" {
		t.Errorf("get inspect: %+v, %v", inspection, err)
	}
	if retry, err := hosts.Retry(t.Context(), "typed", &metal3.HostRetry{}, metav1.CreateOptions{}); err != nil || retry.Status.Message == "" {
		t.Errorf("retry: %+v, %v", retry, err)
	}
	// The node is locked by this one.
	power, err := hosts.Power(t.Context(), "typed", &metal3.HostPower{Spec: metal3.HostPowerSpec{Action: metal3.PowerActionOff}}, metav1.CreateOptions{})
	if err != nil || power.Status.PowerState != "power on" {
		t.Errorf("power: %+v, %v", power, err)
	}
	if power, err = hosts.GetPower(t.Context(), "typed", metav1.GetOptions{}); err != nil || power.Status.PowerState != "power on" {
		t.Errorf("get power: %+v, %v", power, err)
	}
}
