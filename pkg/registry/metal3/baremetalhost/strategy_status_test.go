// SPDX-License-Identifier: Apache-2.0

package baremetalhost

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"sigs.k8s.io/randfill"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/bmo"
)

// statusFields says of each field of a status whether clients that may write statuses can change it. What a lie in one of
// them does is what TestLiesInAStatus of package lifecycle is about.
var statusFields = map[string]bool{
	"OperationalStatus":     true,  // what is shown; whether the host is detached cannot be changed
	"ErrorType":             true,  // what is shown
	"ErrorMessage":          true,  // what is shown
	"Conditions":            true,  // what is shown; others have conditions of their own
	"LastUpdated":           false, // for how long a locked host counts in the fair shares
	"ErrorCount":            true,  // when it is tried again
	"ProvisioningFailCount": true,  // whether it is tried again
	"HardwareProfile":       false, // which disk is the root device
	"HardwareDetails":       false, // which machine it is, and which disks RAID volumes are made of
	"Provisioning":          false, // what the machine runs, which is undeployed where the spec wants something else
	"GoodCredentials":       false, // which of two hosts has the BMC
	"TriedCredentials":      false, // whether Ironic has the password of now, and which Secret is released
	"PoweredOn":             false, // fencing relies on it
	"OperationHistory":      false, // whether the server itself deploys or undeploys
	"LastAttemptedImage":    false, // what a deployment that ends has deployed
	"Ironic":                false, // what Ironic says
	"Record":                false, // what the server has done and may do
}

// TestStatusThatDecides: of all fields of a status, only those can be written of which nothing depends that is done to a
// machine.
func TestStatusThatDecides(t *testing.T) {
	filled := func(n int) *metal3.BareMetalHost {
		host := &metal3.BareMetalHost{}
		randfill.NewWithSeed(int64(n)).NilChance(0).NumElements(1, 2).Funcs(
			func(v *metal3.CleanStep, c randfill.Continue) { v.Step = c.String(0) },
			func(v *metav1.Time, c randfill.Continue) { *v = metav1.Unix(c.Int63n(1<<32), 0) },
			func(v *metav1.MicroTime, c randfill.Continue) {
				*v = metav1.NewMicroTime(time.Unix(c.Int63n(1<<32), 0))
			},
			func(v *bool, _ randfill.Continue) { *v = n == 1 },
		).Fill(&host.Status)
		host.Status.OperationalStatus = []metal3.OperationalStatus{metal3.OperationalStatusOK, metal3.OperationalStatusError}[n-1]
		return host
	}
	stored, written := filled(1), filled(2)
	wanted, after := written.DeepCopy(), written.DeepCopy()
	keepWhatDecides(&after.Status, stored.Status.DeepCopy())
	fields := reflect.TypeFor[metal3.BareMetalHostStatus]()
	of := func(host *metal3.BareMetalHost, i int) any { return reflect.ValueOf(host.Status).Field(i).Interface() }
	for i := range fields.NumField() {
		name := fields.Field(i).Name
		writable, known := statusFields[name]
		if !known {
			t.Errorf("%s: say whether it can be written, and what a lie does", name)
		}
		if equality.Semantic.DeepEqual(of(stored, i), of(wanted, i)) {
			t.Fatalf("%s does not differ", name)
		}
		want := stored
		if writable {
			want = wanted
		}
		if diff := cmp.Diff(of(want, i), of(after, i)); diff != "" {
			t.Errorf("%s, which can be written: %t (-want +got):\n%s", name, writable, diff)
		}
	}
	for name, test := range map[string]struct{ stored, written, want metal3.BareMetalHostStatus }{
		"detached": {
			stored:  metal3.BareMetalHostStatus{OperationalStatus: metal3.OperationalStatusOK},
			written: metal3.BareMetalHostStatus{OperationalStatus: metal3.OperationalStatusDetached},
			want:    metal3.BareMetalHostStatus{OperationalStatus: metal3.OperationalStatusOK},
		},
		"attached": {
			stored: metal3.BareMetalHostStatus{OperationalStatus: metal3.OperationalStatusDetached},
			want:   metal3.BareMetalHostStatus{OperationalStatus: metal3.OperationalStatusDetached},
		},
		"never updated": {
			stored: metal3.BareMetalHostStatus{LastUpdated: &metav1.Time{Time: time.Unix(1, 0)}},
			want:   metal3.BareMetalHostStatus{LastUpdated: &metav1.Time{Time: time.Unix(1, 0)}},
		},
		"a node, which it has not": {
			stored:  metal3.BareMetalHostStatus{},
			written: metal3.BareMetalHostStatus{Provisioning: metal3.ProvisionStatus{ID: "a", State: metal3.StateDeprovisioning}},
			want:    metal3.BareMetalHostStatus{Provisioning: metal3.ProvisionStatus{ID: "a"}},
		},
		"another node": {
			stored:  metal3.BareMetalHostStatus{Provisioning: metal3.ProvisionStatus{ID: "a"}},
			written: metal3.BareMetalHostStatus{Provisioning: metal3.ProvisionStatus{ID: "b"}},
			want:    metal3.BareMetalHostStatus{Provisioning: metal3.ProvisionStatus{ID: "a"}},
		},
		"what a GET shows of a silent Ironic": {
			stored:  metal3.BareMetalHostStatus{Conditions: []metav1.Condition{{Type: metal3.IronicReachableCondition, Status: metav1.ConditionTrue}}},
			written: metal3.BareMetalHostStatus{Conditions: []metav1.Condition{{Type: "Mine"}, {Type: metal3.IronicReachableCondition, Status: metav1.ConditionFalse}}},
			want:    metal3.BareMetalHostStatus{Conditions: []metav1.Condition{{Type: "Mine"}, {Type: metal3.IronicReachableCondition, Status: metav1.ConditionTrue}}},
		},
		"what was read": {
			stored:  metal3.BareMetalHostStatus{Conditions: []metav1.Condition{{Type: metal3.IronicReachableCondition, Status: metav1.ConditionTrue}, {Type: "Later"}}},
			written: metal3.BareMetalHostStatus{Conditions: []metav1.Condition{{Type: metal3.IronicReachableCondition, Status: metav1.ConditionTrue}, {Type: "Later"}}},
			want:    metal3.BareMetalHostStatus{Conditions: []metav1.Condition{{Type: metal3.IronicReachableCondition, Status: metav1.ConditionTrue}, {Type: "Later"}}},
		},
		"no condition of Ironic": {
			stored:  metal3.BareMetalHostStatus{Conditions: []metav1.Condition{{Type: metal3.IronicReachableCondition, Status: metav1.ConditionTrue}}},
			written: metal3.BareMetalHostStatus{Conditions: []metav1.Condition{{Type: "Mine"}}},
			want:    metal3.BareMetalHostStatus{Conditions: []metav1.Condition{{Type: "Mine"}, {Type: metal3.IronicReachableCondition, Status: metav1.ConditionTrue}}},
		},
		"what a GET shows of an Ironic that was not silent before": {
			written: metal3.BareMetalHostStatus{Conditions: []metav1.Condition{{Type: metal3.IronicReachableCondition, Status: metav1.ConditionFalse}}},
			want:    metal3.BareMetalHostStatus{Conditions: []metav1.Condition{}},
		},
		"hardware, which it has not": {
			written: metal3.BareMetalHostStatus{HardwareDetails: &metal3.HardwareDetails{Hostname: "a"}},
			want:    metal3.BareMetalHostStatus{HardwareDetails: &metal3.HardwareDetails{Hostname: "a"}},
		},
	} {
		host := &metal3.BareMetalHost{Status: test.written}
		keepWhatDecides(&host.Status, test.stored.DeepCopy())
		if diff := cmp.Diff(test.want, host.Status); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestLastUpdated: whoever writes a status, the server says when that was.
func TestLastUpdated(t *testing.T) {
	old, now := metav1.NewTime(time.Now().Add(-time.Hour)), metav1.NewTime(time.Now().Truncate(time.Second))
	for name, test := range map[string]struct {
		stored *metav1.Time
		write  func(*metal3.BareMetalHostStatus)
		isNow  bool
	}{
		"nothing":                       {stored: &old, write: func(*metal3.BareMetalHostStatus) {}},
		"set back":                      {stored: &old, write: func(s *metal3.BareMetalHostStatus) { s.LastUpdated = new(metav1.Unix(1, 0)) }},
		"set forward":                   {stored: &old, write: func(s *metal3.BareMetalHostStatus) { s.LastUpdated = new(metav1.NewTime(now.AddDate(1, 0, 0))) }},
		"removed":                       {stored: &old, write: func(s *metal3.BareMetalHostStatus) { s.LastUpdated = nil }},
		"invented":                      {write: func(s *metal3.BareMetalHostStatus) { s.LastUpdated = new(metav1.Unix(1, 0)) }},
		"the error":                     {stored: &old, write: func(s *metal3.BareMetalHostStatus) { s.ErrorMessage = "x" }, isNow: true},
		"the error, and it is set back": {stored: &old, write: func(s *metal3.BareMetalHostStatus) { s.ErrorMessage, s.LastUpdated = "x", new(metav1.Unix(1, 0)) }, isNow: true},
		"a field that is ignored":       {stored: &old, write: func(s *metal3.BareMetalHostStatus) { s.PoweredOn = true }},
	} {
		host := &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: "mine", Name: "x", ResourceVersion: "1"}, Status: metal3.BareMetalHostStatus{LastUpdated: test.stored}}
		written := host.DeepCopy()
		test.write(&written.Status)
		if refused := (statusStrategy{}).ValidateUpdate(t.Context(), written, host); len(refused) > 0 {
			t.Fatal(refused)
		}
		statusStrategy{}.PrepareForUpdate(t.Context(), written, host)
		got := written.Status.LastUpdated
		if test.isNow && (got == nil || got.Before(&now)) || !test.isNow && !got.Equal(test.stored) {
			t.Errorf("%s: last updated %v", name, got)
		}
	}
}

// TestWhoWritesTheStatus: who may write hosts, and not their statuses, cannot feign that the Bare Metal Operator writes them, which
// has all hosts held, nor conceal it.
func TestWhoWritesTheStatus(t *testing.T) {
	entry := func(manager, subresource string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, Subresource: subresource}
	}
	entries := func(e ...metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry { return e }
	capm3, kubectl, operator := entry("capm3", "status"), entry("kubectl", ""), entry("baremetal-operator", "status")
	for name, test := range map[string]struct{ stored, written, want []metav1.ManagedFieldsEntry }{
		"feigned":   {stored: entries(capm3), written: entries(capm3, kubectl, operator), want: entries(kubectl, capm3)},
		"concealed": {stored: entries(operator, kubectl), written: entries(kubectl), want: entries(kubectl, operator)},
		"all reset": {stored: entries(operator, kubectl), want: entries(operator)},
		"left":      {stored: entries(capm3), written: entries(capm3, kubectl), want: entries(capm3, kubectl)}, // in their order, so that a write of nothing remains one
	} {
		stored, written := &metal3.BareMetalHost{}, &metal3.BareMetalHost{}
		stored.ManagedFields, written.ManagedFields = test.stored, test.written
		strategy{}.PrepareForUpdate(t.Context(), written, stored)
		if diff := cmp.Diff(test.want, written.ManagedFields); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestWhoMayBeTheOperator: who may write the statuses of some namespaces cannot feign by the name that the Bare Metal Operator
// writes them, which has the hosts of all namespaces held. The operator, which may write all, is noticed.
func TestWhoMayBeTheOperator(t *testing.T) {
	rights := authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		if a.GetVerb() != "update" || a.GetAPIGroup() != "metal3.io" || a.GetResource() != "baremetalhosts" || a.GetSubresource() != "status" || a.GetName() != "" {
			t.Errorf("asked about %+v", a)
		}
		switch {
		case a.GetUser().GetName() == "operator", a.GetUser().GetName() == "tenant" && a.GetNamespace() == "mine":
			return authorizer.DecisionAllow, "", nil
		case a.GetUser().GetName() == "unknown":
			return authorizer.DecisionNoOpinion, "", errors.New("kube-apiserver is away")
		}
		return authorizer.DecisionNoOpinion, "", nil
	})
	entry := func(manager string, minute int) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, Subresource: "status", Time: new(metav1.Unix(int64(60*minute), 0))}
	}
	entries := func(e ...metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry { return e }
	before, now, own := entry(bmo.Name, 1), entry(bmo.Name, 2), entry("capm3", 2)
	lost := before // another manager has taken fields over
	lost.FieldsV1 = metav1.NewFieldsV1(`{}`)
	for name, test := range map[string]struct {
		user                  string
		stored, written, want []metav1.ManagedFieldsEntry
	}{
		"first status of the operator's": {user: "operator", written: entries(now), want: entries(now)},
		"another one":                    {user: "operator", stored: entries(before), written: entries(now), want: entries(now)},
		"feigned":                        {user: "tenant", written: entries(own, now), want: entries(own)},
		"feigned where the operator was": {user: "tenant", stored: entries(before), written: entries(own, now), want: entries(own, before)},
		"it cannot be told":              {user: "unknown", written: entries(now), want: entries()},
		"nobody":                         {written: entries(now), want: entries()},
		"under another name":             {user: "tenant", stored: entries(before), written: entries(lost, own), want: entries(lost, own)},
	} {
		host := func(managed []metav1.ManagedFieldsEntry) *metal3.BareMetalHost {
			return &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: "mine", Name: "x", ManagedFields: managed}}
		}
		ctx, written := t.Context(), host(test.written)
		if test.user != "" {
			ctx = genericapirequest.WithUser(ctx, &user.DefaultInfo{Name: test.user})
		}
		statusStrategy{authorizer: rights}.PrepareForUpdate(ctx, written, host(test.stored))
		if diff := cmp.Diff(test.want, written.ManagedFields, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
