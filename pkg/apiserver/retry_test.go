// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

func TestRetry(t *testing.T) {
	s := startServer(t, true)
	failed := func(h *metal3.BareMetalHost, _ *ironic.Node) {
		h.Status.OperationalStatus = metal3.OperationalStatusError
		h.Status.ErrorType, h.Status.ErrorMessage = metal3.ProvisioningError, "the image is not there"
		h.Status.ErrorCount, h.Status.ProvisioningFailCount, h.Status.Record.MachineErrors = 4, 5, 2
	}
	and := func(change func(*metal3.BareMetalHost)) func(*metal3.BareMetalHost, *ironic.Node) {
		return func(h *metal3.BareMetalHost, n *ironic.Node) {
			failed(h, n)
			change(h)
		}
	}
	was := metal3.HostRetryStatus{
		Message:   "the host is tried again now, and its errors are counted from 0",
		ErrorType: metal3.ProvisioningError, ErrorMessage: "the image is not there", ErrorCount: 4,
	}
	atOnce, ordered := was, was
	atOnce.ErrorCount = 0
	ordered.ErrorCount, ordered.Message = 0, "the host was already due to be tried again"
	held := was
	held.Message = "the host is held, see its condition Held; what is tried all the same is tried again in about 20 minutes at the latest"
	tests := []struct {
		name   string
		body   string // {} by default
		before func(*metal3.BareMetalHost, *ironic.Node)
		code   int
		says   string // part of the error
		status metal3.HostRetryStatus
	}{
		{name: "failed", before: failed, code: 201, status: was},
		{name: "with kind, name and spec", before: failed, code: 201, status: was,
			body: `{"apiVersion":"metal3.io/v1alpha1","kind":"HostRetry","metadata":{"name":"NAME","namespace":"metal3"},"spec":{}}`},
		{name: "a status in the request", body: `{"status":{"message":"not so","errorCount":9}}`, before: failed, code: 201, status: was},
		{name: "not registered", before: and(func(h *metal3.BareMetalHost) { h.Status.Provisioning.ID = "" }), code: 201, status: was},
		{name: "failed to provision alone", before: and(func(h *metal3.BareMetalHost) { h.Status.ErrorCount = 0 }), code: 201, status: atOnce},
		{name: "again", before: and(func(h *metal3.BareMetalHost) {
			h.Status.ErrorCount, h.Status.ProvisioningFailCount, h.Status.Record.MachineErrors = 0, 0, 0
		}), code: 201, status: ordered},
		{name: "held", before: and(func(h *metal3.BareMetalHost) { h.Status.Record.Hold = &metal3.Hold{Reason: metal3.BMCInUseReason} }), code: 201, status: held},
		{name: "refused by the BMC", before: and(func(h *metal3.BareMetalHost) {
			h.Status.TriedCredentials.Version = "7"
			h.Status.Record.Error = &metal3.HostError{Type: metal3.ProvisioningError, Cause: metal3.BMCRefuses}
		}), code: 201, status: was},
		{name: "refused by the BMC, again", before: func(h *metal3.BareMetalHost, n *ironic.Node) {
			failed(h, n)
			h.Status.ErrorCount, h.Status.ProvisioningFailCount, h.Status.Record.MachineErrors = 0, 0, 0
			h.Status.TriedCredentials.Version = "7"
			h.Status.Record.Error = &metal3.HostError{Type: metal3.ProvisioningError, Cause: metal3.BMCRefuses}
		}, code: 201, status: ordered},
		{name: "no error", code: 201, status: metal3.HostRetryStatus{Message: "there was nothing to retry: the host has no error"}},
		{name: "no error any more", before: func(h *metal3.BareMetalHost, _ *ironic.Node) {
			h.Status.ErrorCount, h.Status.ProvisioningFailCount = 2, 1
		},
			code: 201, status: metal3.HostRetryStatus{Message: "there was nothing to retry: the host has no error", ErrorCount: 2}},

		{name: "paused", before: and(func(h *metal3.BareMetalHost) { h.Annotations = map[string]string{metal3.PausedAnnotation: ""} }), code: 409,
			says: "remove the annotation baremetalhost.metal3.io/paused first"},
		{name: "another name", body: `{"metadata":{"name":"another"}}`, before: failed, code: 400, says: "another"},
		{name: "another kind", body: `{"apiVersion":"metal3.io/v1alpha1","kind":"HostPower"}`, before: failed, code: 400},
	}
	// A retry does not involve Ironic.
	s.ironic.disconnect(t)
	s.live.leave("no answer within 2.5s")
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			name := fmt.Sprintf("retry-%d", i)
			before := s.register(t, name, test.before)
			if test.body == "" {
				test.body = "{}"
			}
			got := s.do(t, "POST", hostsPath+"/"+name+"/retry", strings.ReplaceAll(test.body, "NAME", name))
			if got.code != test.code {
				t.Fatalf("HTTP %d: %s", got.code, got.body)
			}
			after := s.recorded(t, name)
			if test.code != 201 {
				checkError(t, got, name, test.says)
				if diff := cmp.Diff(before, after); diff != "" {
					t.Errorf("something was written:\n%s", diff)
				}
				return
			}
			var retry metal3.HostRetry
			got.into(t, 201, &retry)
			if retry.Kind != "HostRetry" || retry.APIVersion != "metal3.io/v1alpha1" || retry.Name != name || retry.Namespace != namespace {
				t.Errorf("the answer is %+v", retry)
			}
			if diff := cmp.Diff(test.status, retry.Status); diff != "" {
				t.Errorf("status (- want, + got):\n%s", diff)
			}
			want := before.DeepCopy()
			want.Status.ErrorCount, want.Status.ProvisioningFailCount = 0, 0
			if before.Status.Record.Error != nil {
				want.Status.TriedCredentials.Version = "" // Ironic is told the password again
			}
			if before.Status.ErrorCount+before.Status.ProvisioningFailCount > 0 || before.Status.Record.Error != nil {
				want.Status.Record.MachineErrors = 0
				want.ResourceVersion, want.Status.LastUpdated = after.ResourceVersion, after.Status.LastUpdated
				if after.Status.LastUpdated.IsZero() {
					t.Error("the status changed, but lastUpdated did not")
				}
			}
			if diff := cmp.Diff(want, after); diff != "" {
				t.Errorf("recorded is (- want, + got):\n%s", diff)
			}
		})
	}
	if calls := s.ironic.requested(); len(calls) > 0 {
		t.Errorf("Ironic was asked for %v", calls)
	}
	t.Run("being deleted", func(t *testing.T) {
		s.register(t, "stuck", and(func(h *metal3.BareMetalHost) { h.Finalizers = []string{metal3.BareMetalHostFinalizer} }))
		s.do(t, "DELETE", hostsPath+"/stuck", "")
		if got := s.do(t, "POST", hostsPath+"/stuck/retry", "{}"); got.code != 201 {
			t.Errorf("HTTP %d: %s", got.code, got.body)
		}
		if host := s.recorded(t, "stuck"); host.DeletionTimestamp.IsZero() || host.Status.ErrorCount != 0 {
			t.Errorf("the host is %+v", host)
		}
	})
	t.Run("invalid requests", func(t *testing.T) {
		if got := s.do(t, "POST", hostsPath+"/no-such/retry", "{}"); got.code != 404 {
			t.Errorf("no host: HTTP %d", got.code)
		}
		if got := s.do(t, "POST", hostsPath+"/retry-0/retry", ""); got.code != 400 {
			t.Errorf("no body: HTTP %d", got.code)
		}
		for _, method := range []string{"GET", "PUT", "DELETE", "PATCH"} {
			if got := s.do(t, method, hostsPath+"/retry-0/retry", "{}"); got.code != 405 {
				t.Errorf("%s: HTTP %d", method, got.code)
			}
		}
	})
	t.Run("table", func(t *testing.T) {
		got := s.do(t, "POST", hostsPath+"/retry-0/retry", "{}", "Accept: application/json;as=Table;v=v1;g=meta.k8s.io")
		if got.code != 201 || !strings.Contains(string(got.body), `"retry-0"`) {
			t.Errorf("HTTP %d: %s", got.code, got.body)
		}
	})
}

// TestRetryRace records a status while the host is retried. Neither write is lost, and no
// request fails with a conflict.
func TestRetryRace(t *testing.T) {
	const rounds = 50
	s := startServer(t, true)
	s.register(t, "raced", nil)
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := range rounds {
			err := record(t.Context(), s.hosts, namespace, "raced", func(status *metal3.BareMetalHostStatus) {
				status.ErrorType, status.ErrorMessage = metal3.InspectionError, fmt.Sprint(i)
				status.ErrorCount++
			})
			if err != nil {
				t.Error(err)
			}
		}
	})
	counted := 0 // the errors in the answers; each is reported once
	retry := func() {
		got := s.do(t, "POST", hostsPath+"/raced/retry", "{}")
		var answer metal3.HostRetry
		got.into(t, 201, &answer)
		counted += answer.Status.ErrorCount
	}
	for range rounds {
		retry()
	}
	writer.Wait()
	retry()
	host := s.recorded(t, "raced")
	if counted != rounds || host.Status.ErrorCount != 0 || host.Status.ErrorMessage != fmt.Sprint(rounds-1) {
		t.Errorf("of %d errors, %d were retried; the host is %+v", rounds, counted, host.Status)
	}
}
