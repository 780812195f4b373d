// SPDX-License-Identifier: Apache-2.0

package page

import (
	"bufio"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"

	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/consumers"
	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/why"
)

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func newHost(name string, state metal3.ProvisioningState) *metal3.BareMetalHost {
	return &metal3.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: "metal3", Name: name, UID: types.UID("uid-" + name), ResourceVersion: "7"},
		Spec:       metal3.BareMetalHostSpec{Online: true, BMC: metal3.BMCDetails{Address: "ipmi://192.0.2.1"}},
		Status: metal3.BareMetalHostStatus{
			OperationalStatus: metal3.OperationalStatusOK, Provisioning: metal3.ProvisionStatus{State: state},
			Ironic: &metal3.IronicStatus{PowerState: "power on"},
		},
	}
}

// received is a message as the page reads it.
type received struct {
	Scope     *Scope
	Rows      []Row
	Gone      []string
	Freshness Freshness
}

// TestLive: a browser receives all hosts, and then only what changes.
func TestLive(t *testing.T) {
	f := newFixture(t)
	f.live.mu.Lock()
	f.live.now = func() time.Time { return now }
	f.live.mu.Unlock()
	a, b := newHost("a", metal3.StateAvailable), newHost("b", metal3.StateProvisioned)
	b.Status.Ironic.Instance = "room-b"
	show := func(freshness Freshness, all ...*metal3.BareMetalHost) {
		t.Helper()
		if err := f.Show(all, map[string]consumers.Consumer{"uid-b": {Machine: "m-1"}}, freshness); err != nil {
			t.Fatal(err)
		}
	}
	show(Freshness{Live: true, Confirmed: &now}, a, b)
	lines := bufio.NewScanner(f.request(t, "GET", "/live", "").Body)
	lines.Buffer(nil, 1<<20)
	next := func() (m received) {
		t.Helper()
		if !lines.Scan() {
			t.Fatal("the stream has ended: ", lines.Err())
		}
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			t.Fatal(err)
		}
		return m
	}
	first := next()
	slices.SortFunc(first.Rows, func(x, y Row) int { return map[bool]int{true: -1, false: 1}[x.Name < y.Name] })
	want := received{
		Scope: &Scope{Context: "lab", Namespace: "metal3"}, Freshness: Freshness{Live: true, Confirmed: &now},
		Rows: []Row{
			{ID: "uid-a", Namespace: "metal3", Name: "a", State: "available", Tone: ToneIdle, Power: "on", Online: true, BMC: "ipmi://192.0.2.1", Version: "7"},
			{ID: "uid-b", Namespace: "metal3", Name: "b", State: "provisioned", Tone: ToneRunning, Power: "on", Online: true, Machine: "m-1", BMC: "ipmi://192.0.2.1", Ironic: "room-b", Version: "7"},
		},
	}
	if diff := cmp.Diff(want, first); diff != "" {
		t.Errorf("the first message (-want +got):\n%s", diff)
	}
	later := now.Add(-time.Hour)
	show(Freshness{Live: true, Confirmed: &later}, a, b)
	if got := next().Freshness; got.Live || !strings.Contains(got.Reason, "suspended") {
		t.Errorf("after an hour of sleep: %+v", got)
	}
	show(Freshness{Reason: "the connection was lost"}, a)
	if diff := cmp.Diff(received{Gone: []string{"uid-b"}, Freshness: Freshness{Reason: "the connection was lost"}}, next()); diff != "" {
		t.Errorf("the next message (-want +got):\n%s", diff)
	}
	a = a.DeepCopy()
	a.Status.Conditions = []metav1.Condition{{Type: metal3.IronicReachableCondition, Status: metav1.ConditionFalse, Message: "since noon"}}
	show(Freshness{Live: true}, a)
	last := next()
	if len(last.Rows) != 1 || !last.Rows[0].IsLast || last.Rows[0].Tone != ToneProblem || last.Rows[0].Problem != "since noon" || last.Scope != nil {
		t.Errorf("a host that Ironic does not answer about: %+v", last)
	}
}

// TestDetail: events and Ironic's history are one timeline, and no password of an image is shown.
func TestDetail(t *testing.T) {
	host := newHost("a", metal3.StateProvisioning)
	host.Spec.Image = &metal3.Image{URL: "http://user:s3cret@images/x.qcow2"}
	host.Status.Conditions = []metav1.Condition{
		{Type: metal3.ReadyCondition, Status: metav1.ConditionFalse},
		{Type: metal3.StepFailedCondition, Status: metav1.ConditionTrue, Message: "no answer"},
		{Type: "Custom", Status: metav1.ConditionUnknown},
	}
	at := func(minutes int) time.Time { return now.Add(-time.Duration(minutes) * time.Minute) }
	detail := NewDetail(why.Facts{
		Host: host,
		Events: []corev1.Event{
			{Reason: "Registered", Message: "one", Type: corev1.EventTypeNormal, LastTimestamp: metav1.NewTime(at(9)), Count: 2},
			{Reason: "ProvisioningError", Message: "three", Type: corev1.EventTypeWarning, LastTimestamp: metav1.NewTime(at(1))},
		},
		History: []metal3.HistoryEvent{{Time: metav1.NewTime(at(5)), Severity: "ERROR", Type: "deploying", Message: "two"}},
	}, consumers.Consumer{}, nil, now)
	if detail.Image != "http://user:xxxxx@images/x.qcow2" {
		t.Errorf("the image is %s", detail.Image)
	}
	if diff := cmp.Diff([]Entry{
		{Time: at(1), Source: "event", IsWarning: true, Title: "ProvisioningError", Message: "three"},
		{Time: at(5), Source: "Ironic", IsWarning: true, Title: "deploying", Message: "two"},
		{Time: at(9), Source: "event", Title: "Registered", Message: "one", Count: 2},
	}, detail.Timeline); diff != "" {
		t.Errorf("the timeline (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Condition{
		{Type: "StepFailed", Text: "The last step failed", IsBad: true, Message: "no answer"},
		{Type: "Custom", Text: "Custom: unknown"},
		{Type: "Ready", Text: "It is not ready for use"},
	}, detail.Conditions); diff != "" {
		t.Errorf("the conditions (-want +got):\n%s", diff)
	}
}
