// SPDX-License-Identifier: Apache-2.0

package ironic

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	api "github.com/metal3-io/metal3-apiserver/pkg/apis/ironic/v1alpha1"
	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// fakeInstance is what a fake Instances knows of one of them, and its Ironic.
type fakeInstance struct {
	why   error // why it is not accepted
	known Known

	takes      time.Duration // until each answer; negative means that it never answers
	version    ironic.APIVersion
	conductors []ironic.Conductor
	err        error // of ListConductors
}

func (f *fakeInstance) answer(ctx context.Context) error {
	if f.takes < 0 {
		<-ctx.Done()
		return ironic.NewUnavailableError("ask", ctx.Err(), 2*time.Second)
	}
	time.Sleep(f.takes) // in the time of a synctest bubble
	return nil
}

func (f *fakeInstance) Features(ctx context.Context) (ironic.Features, error) {
	return ironic.FeaturesOf(f.version), f.answer(ctx)
}

func (f *fakeInstance) ListConductors(ctx context.Context) ([]ironic.Conductor, error) {
	if err := f.answer(ctx); err != nil {
		return nil, err
	}
	return f.conductors, f.err
}

type fakeInstances map[string]*fakeInstance

func (f fakeInstances) Of(name string) (Ironic, Known, error) {
	one := f[name]
	if one == nil {
		return nil, Known{}, errors.New("there is no such instance")
	}
	if one.why != nil {
		return nil, one.known, one.why
	}
	return one, one.known, nil
}

func instanceNamed(name string) *api.IronicInstance {
	return &api.IronicInstance{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Generation: 3},
		Spec:       api.IronicInstanceSpec{Endpoint: "https://" + name + ".example:6385", Selector: &metav1.LabelSelector{}},
	}
}

// nodeIn returns a host with a node in an Ironic.
func nodeIn(instance, name string, state metal3.ProvisioningState) metal3.BareMetalHost {
	host := metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: "metal3", Name: name}}
	host.Status.Record.Ironic, host.Status.Provisioning.ID, host.Status.Provisioning.State = instance, "node-of-"+name, state
	return host
}

func TestStatus(t *testing.T) {
	observed := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	condition := func(name string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return metav1.Condition{Type: name, Status: status, Reason: reason, Message: message, ObservedGeneration: 3}
	}
	accepted := condition("Accepted", "True", "Accepted", "The server can use it")
	notAsked := condition("Reachable", "Unknown", "NotAccepted", "Ironic is not asked, because the IronicInstance is not accepted")
	const v = 100 * time.Millisecond
	up := []ironic.Conductor{{Hostname: "a", Alive: true}, {Hostname: "b"}, {Hostname: "c", Alive: true}}
	for name, test := range map[string]struct {
		instance *fakeInstance
		want     api.IronicInstanceStatus
	}{
		"answers": {
			&fakeInstance{takes: v, version: ironic.APIVersion{Major: 1, Minor: 96}, conductors: up, known: Known{Nodes: ptr.To[int32](7), ObservedAt: observed}},
			api.IronicInstanceStatus{
				Conditions: []metav1.Condition{accepted, condition("Reachable", "True", "Answers", "Ironic answered within 100ms")},
				APIVersion: "1.96", Conductors: ptr.To[int32](2), Nodes: ptr.To[int32](7), ObservedAt: &metav1.Time{Time: observed}, LatencyMilliseconds: ptr.To[int64](100),
			},
		},
		"does not let see its conductors": {
			&fakeInstance{takes: v, version: ironic.APIVersion{Major: 1, Minor: 96}, err: &ironic.APIError{Status: 403}},
			api.IronicInstanceStatus{
				Conditions: []metav1.Condition{accepted, condition("Reachable", "True", "Answers", "Ironic answered within 100ms")},
				APIVersion: "1.96", LatencyMilliseconds: ptr.To[int64](100),
			},
		},
		"refuses the credentials": {
			&fakeInstance{version: ironic.APIVersion{Major: 1, Minor: 96}, err: &ironic.APIError{Status: 401}},
			api.IronicInstanceStatus{
				Conditions: []metav1.Condition{accepted, condition("Reachable", "False", "Refused", "credentials refused (HTTP 401)")}, APIVersion: "1.96",
			},
		},
		"hangs": {
			&fakeInstance{takes: -1, known: Known{Nodes: ptr.To[int32](7), ObservedAt: observed}},
			api.IronicInstanceStatus{
				Conditions: []metav1.Condition{accepted, condition("Reachable", "False", "Unreachable", "no answer within 2s")},
				Nodes:      ptr.To[int32](7), ObservedAt: &metav1.Time{Time: observed},
			},
		},
		"of an Ironic object": {
			&fakeInstance{takes: v, version: ironic.APIVersion{Major: 1, Minor: 96}, known: Known{
				Endpoint: "https://ironic.metal3-system.svc", IronicReady: ptr.To(condition("IronicReady", "False", "DeploymentInProgress", "not yet")),
			}},
			api.IronicInstanceStatus{
				Conditions: []metav1.Condition{accepted, condition("Reachable", "True", "Answers", "Ironic answered within 100ms"), condition("IronicReady", "False", "DeploymentInProgress", "not yet")},
				Endpoint:   "https://ironic.metal3-system.svc", APIVersion: "1.96", Conductors: ptr.To[int32](0), LatencyMilliseconds: ptr.To[int64](100),
			},
		},
		"not known yet": {
			&fakeInstance{why: &NotAcceptedError{api.NotKnownYetReason, "is new"}},
			api.IronicInstanceStatus{Conditions: []metav1.Condition{condition("Accepted", "Unknown", "NotKnownYet", "is new"), notAsked}},
		},
		"not accepted": {
			&fakeInstance{why: fmt.Errorf("wrapped: %w", &NotAcceptedError{api.SecretNotFoundReason, "no Secret"})},
			api.IronicInstanceStatus{Conditions: []metav1.Condition{condition("Accepted", "False", "SecretNotFound", "wrapped: no Secret"), notAsked}},
		},
		"not accepted for another reason": {
			&fakeInstance{why: errors.New("no")},
			api.IronicInstanceStatus{Conditions: []metav1.Condition{condition("Accepted", "False", "Unusable", "no"), notAsked}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &statuses{instances: fakeInstances{"a": test.instance}, hosts: fakeHosts{}}
				instance := instanceNamed("a")
				if err := s.fill(t.Context(), []*api.IronicInstance{instance}); err != nil {
					t.Fatal(err)
				}
				for i := range instance.Status.Conditions {
					c := &instance.Status.Conditions[i]
					if c.LastTransitionTime.IsZero() {
						t.Errorf("%s has no time", c.Type)
					}
					c.LastTransitionTime = metav1.Time{}
				}
				if diff := cmp.Diff(test.want, instance.Status); diff != "" {
					t.Errorf("- want, + got:\n%s", diff)
				}
			})
		})
	}
}

// One of ten Ironics that does not answer delays the answer by less than 3 s, and the others are reported.
func TestOneOfTenHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		known := fakeInstances{}
		var all []*api.IronicInstance
		for i := range 10 {
			name := fmt.Sprintf("room-%d", i)
			known[name] = &fakeInstance{takes: time.Second, version: ironic.APIVersion{Major: 1, Minor: 96}}
			all = append(all, instanceNamed(name))
		}
		known["room-4"].takes = -1
		start := time.Now()
		if err := (&statuses{instances: known, hosts: fakeHosts{}}).fill(t.Context(), all); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took != askTimeout || took >= 3*time.Second {
			t.Errorf("it took %v", took)
		}
		for _, instance := range all {
			if got := meta.IsStatusConditionTrue(instance.Status.Conditions, api.IronicInstanceReachable); got != (instance.Name != "room-4") {
				t.Errorf("%s is reachable: %t", instance.Name, got)
			}
		}
	})
}

// A client that gives up has not found out anything about an Ironic.
func TestClientGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		known := fakeInstances{"a": {takes: -1}}
		s := &statuses{instances: known, hosts: fakeHosts{}}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if err := s.fill(ctx, []*api.IronicInstance{instanceNamed("a")}); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if s.seen.seen != nil {
			t.Error("a condition was recorded")
		}
	})
}

func TestLastTransitionTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		known := fakeInstances{"a": {}}
		s := &statuses{instances: known, hosts: fakeHosts{}}
		since := func(uid types.UID) time.Duration {
			t.Helper()
			time.Sleep(time.Hour)
			instance := instanceNamed("a")
			instance.UID = uid
			if err := s.fill(t.Context(), []*api.IronicInstance{instance}); err != nil {
				t.Fatal(err)
			}
			return time.Since(meta.FindStatusCondition(instance.Status.Conditions, api.IronicInstanceReachable).LastTransitionTime.Time)
		}
		if got := since("1"); got != 0 {
			t.Errorf("seen first %v ago", got)
		}
		if got := since("1"); got != time.Hour {
			t.Errorf("unchanged since %v", got)
		}
		known["a"].err = errors.New("away")
		if got := since("1"); got != 0 {
			t.Errorf("changed %v ago", got)
		}
		if got := since("1"); got != time.Hour {
			t.Errorf("unchanged since %v", got)
		}
		if got := since("2"); got != 0 {
			t.Errorf("another object of the same name: changed %v ago", got)
		}
	})
}

func TestHostsOfAnInstance(t *testing.T) {
	without := nodeIn("a", "without", metal3.StateRegistering)
	without.Status.Provisioning.ID = ""
	hosts := fakeHosts{
		nodeIn("a", "h-0", metal3.StateProvisioned), nodeIn("a", "h-1", metal3.StateProvisioned), nodeIn("a", "h-2", metal3.StateAvailable), nodeIn("a", "h-3", ""),
		nodeIn("b", "h-4", metal3.StateAvailable), nodeIn("", "of-the-flags", metal3.StateAvailable), without,
	}
	a, c := instanceNamed("a"), instanceNamed("c")
	if err := (&statuses{instances: fakeInstances{"a": {}, "c": {why: errors.New("no")}}, hosts: hosts}).fill(t.Context(), []*api.IronicInstance{a, c}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]int32{"provisioned": 2, "available": 1}, a.Status.HostsByState); diff != "" || a.Status.Hosts != 4 || c.Status.Hosts != 0 {
		t.Errorf("a has %d hosts, c %d; by state: %s", a.Status.Hosts, c.Status.Hosts, diff)
	}
}
