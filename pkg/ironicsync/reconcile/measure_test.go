// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
)

// before is a time some minutes before now.
func before(minutes int) metav1.Time {
	return metav1.NewTime(now.Truncate(time.Second).Add(-time.Duration(minutes) * time.Minute))
}

func inState(state metal3.ProvisioningState) func(*metal3.BareMetalHost) {
	return func(h *metal3.BareMetalHost) { h.Status.Provisioning.State = state }
}

// createdBefore is a host that was created some minutes before now.
func createdBefore(minutes int) func(*metal3.BareMetalHost) {
	return func(h *metal3.BareMetalHost) { h.CreationTimestamp = before(minutes) }
}

// came is a host that came into a state some minutes before now, and what follows from that for
// its conditions.
func came(state metal3.ProvisioningState, minutes int) func(*metal3.BareMetalHost) {
	return func(h *metal3.BareMetalHost) {
		h.Status.Provisioning.State = state
		lifecycle.Render(h, before(minutes).Time)
	}
}

func history(change func(*metal3.OperationHistory)) func(*metal3.BareMetalHost) {
	return func(h *metal3.BareMetalHost) { change(&h.Status.OperationHistory) }
}

func registeredFrom(start, end int) func(*metal3.BareMetalHost) {
	return history(func(o *metal3.OperationHistory) { o.Register = operation(start, end) })
}

func operation(start, end int) metal3.OperationMetric {
	return metal3.OperationMetric{Start: before(start), End: before(end)}
}

func TestEnteredState(t *testing.T) {
	deleted := func(minutes int) func(*metal3.BareMetalHost) {
		return func(h *metal3.BareMetalHost) { at := before(minutes); h.DeletionTimestamp = &at }
	}
	for name, tt := range map[string]struct {
		host []func(*metal3.BareMetalHost)
		want int // minutes before now
	}{
		"new":         {[]func(*metal3.BareMetalHost){inState("")}, 60},
		"registering": {[]func(*metal3.BareMetalHost){history(func(o *metal3.OperationHistory) { o.Register.Start = before(50) }), came(metal3.StateRegistering, 50)}, 50},
		"inspecting": {[]func(*metal3.BareMetalHost){registeredFrom(50, 49), came(metal3.StateRegistering, 50),
			history(func(o *metal3.OperationHistory) { o.Inspect.Start = before(48) }), came(metal3.StateInspecting, 48)}, 48},
		"preparing": {[]func(*metal3.BareMetalHost){registeredFrom(50, 49), came(metal3.StateRegistering, 50),
			history(func(o *metal3.OperationHistory) { o.Inspect = operation(48, 40) }), came(metal3.StatePreparing, 40)}, 40},
		"preparing again": {[]func(*metal3.BareMetalHost){registeredFrom(50, 49), came(metal3.StateAvailable, 40), came(metal3.StatePreparing, 10)}, 10},
		"available":       {[]func(*metal3.BareMetalHost){came(metal3.StatePreparing, 40), came(metal3.StateAvailable, 30)}, 30},
		"provisioned":     {[]func(*metal3.BareMetalHost){came(metal3.StateAvailable, 40), came(metal3.StateProvisioned, 20)}, 20},
		"deleting":        {[]func(*metal3.BareMetalHost){came(metal3.StateAvailable, 40), deleted(5), came(metal3.StateDeleting, 4)}, 4},
		"restored":        {[]func(*metal3.BareMetalHost){came(metal3.StateProvisioned, 500)}, 60},
		"unknown":         {[]func(*metal3.BareMetalHost){inState("asleep")}, 60},
	} {
		host := newHost(append([]func(*metal3.BareMetalHost){createdBefore(60)}, tt.host...)...)
		if got := before(0).Sub(enteredState(host)).Minutes(); got != float64(tt.want) {
			t.Errorf("%s: %v minutes ago, want %d", name, got, tt.want)
		}
	}
}

func TestCountHosts(t *testing.T) {
	hosts := []*metal3.BareMetalHost{
		newHost(createdBefore(60), came(metal3.StateAvailable, 30)),
		newHost(createdBefore(60), came(metal3.StateAvailable, 10)),
		newHost(createdBefore(60), came(metal3.StateAvailable, 10), func(h *metal3.BareMetalHost) { h.Status.Record.Ironic = "room-b" }),
		newHost(createdBefore(60), came(metal3.StateAvailable, 10), withError(metal3.PowerManagementError, "no", 1)),
		newHost(createdBefore(60), inState(""), func(h *metal3.BareMetalHost) { h.Status.OperationalStatus = "" }),
		newHost(createdBefore(60), inState("asleep"), withError("insomnia", "no", 1), func(h *metal3.BareMetalHost) { h.Status.OperationalStatus = "tired" }),
	}
	got := countHosts(hosts, []string{"", "room-c"}, now.Truncate(time.Second)) // conditions have whole seconds
	if n, is := got.hosts[fleetKey{"room-c", "available", "OK"}]; !is || n != 0 {
		t.Error("an Ironic without hosts has no 0")
	}
	for key, n := range got.hosts {
		if n == 0 {
			delete(got.hosts, key)
		}
	}
	if diff := cmp.Diff(map[fleetKey]int{{"", "available", "OK"}: 2, {"room-b", "available", "OK"}: 1, {"", "available", "error"}: 1, {"", "none", "none"}: 1, {"", "other", "other"}: 1}, got.hosts); diff != "" {
		t.Errorf("hosts (-want +got):\n%s", diff)
	}
	if got.inError["power management error"] != 1 || got.inError["other"] != 1 || got.inError["registration error"] != 0 {
		t.Errorf("in error: %v", got.inError)
	}
	if diff := cmp.Diff(map[string]float64{"available": 1800, "none": 3600, "other": 3600}, got.longest); diff != "" {
		t.Errorf("longest in state, in seconds (-want +got):\n%s", diff)
	}
}

// TestHeldHosts: hosts count as held for as long as they are.
func TestHeldHosts(t *testing.T) {
	held := func(reason string) *metal3.BareMetalHost {
		return newHost(func(h *metal3.BareMetalHost) { h.Status.Record.Hold = &metal3.Hold{Reason: reason, Message: "held"} })
	}
	got := countHosts([]*metal3.BareMetalHost{newHost(), held(metal3.AnotherBMCReason), held(metal3.AnotherBMCReason), held(metal3.RestoredReason), held("invented")}, nil, now).held
	want := map[string]int{"other": 1}
	for _, reason := range lifecycle.HoldReasons() {
		want[reason] = 0
	}
	want[metal3.AnotherBMCReason], want[metal3.RestoredReason] = 2, 1
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("held (-want +got):\n%s", diff)
	}
}

// TestLongestInState: a host that somebody has left alone, or that only waits for others, does not hide one that is stuck, nor pass for one.
func TestLongestInState(t *testing.T) {
	deleted := func(finalizers ...string) func(*metal3.BareMetalHost) {
		return func(h *metal3.BareMetalHost) {
			at := before(300)
			h.DeletionTimestamp, h.Finalizers = &at, finalizers
		}
	}
	maintenance := func(fault string) func(*metal3.BareMetalHost) {
		return func(h *metal3.BareMetalHost) {
			h.Status.Ironic = &metal3.IronicStatus{ProvisionState: string(ironic.InspectWait), Maintenance: true, MaintenanceReason: "a new fan", Fault: fault}
			lifecycle.Render(h, now)
		}
	}
	for name, tt := range map[string]struct {
		change func(*metal3.BareMetalHost)
		counts bool
	}{
		"as it is":                            {func(*metal3.BareMetalHost) {}, true},
		"paused":                              {func(h *metal3.BareMetalHost) { h.Annotations = map[string]string{metal3.PausedAnnotation: "mine"} }, false},
		"detached":                            {func(h *metal3.BareMetalHost) { h.Status.OperationalStatus = metal3.OperationalStatusDetached }, false},
		"waiting for room below the limit":    {func(h *metal3.BareMetalHost) { h.Status.OperationalStatus = metal3.OperationalStatusDelayed }, false},
		"to be detached":                      {func(h *metal3.BareMetalHost) { h.Annotations = map[string]string{metal3.DetachedAnnotation: ""} }, true},
		"maintenance that somebody asked for": {maintenance(""), false},
		"maintenance of Ironic itself":        {maintenance(ironic.FaultPowerFailure), true},
		"held": {func(h *metal3.BareMetalHost) {
			h.Status.Record.Hold = &metal3.Hold{Reason: metal3.AnotherBMCReason, Message: "held"}
		}, true},
		"deleted":                     {deleted(metal3.BareMetalHostFinalizer, "example.com/mine"), true},
		"deleted, and kept by others": {deleted("example.com/mine"), false},
	} {
		hosts := []*metal3.BareMetalHost{
			newHost(createdBefore(600), came(metal3.StateInspecting, 300), tt.change),
			newHost(createdBefore(600), came(metal3.StateInspecting, 200)),
		}
		want := 200 * 60.0
		if tt.counts {
			want = 300 * 60
		}
		if got := countHosts(hosts, nil, now.Truncate(time.Second)).longest["inspecting"]; got != want {
			t.Errorf("%s: %v seconds, want %v", name, got, want)
		}
	}
}

// TestUnreachableBMCs: that the network of the BMCs fails is told by what Ironic says of each of them, whatever Ironic or the server was
// about to do; and not by the type of an error, which a hold of the whole fleet and a missing Secret have, too.
func TestUnreachableBMCs(t *testing.T) {
	const silent = "During sync_power_state, max retries exceeded. Error: Redfish connection failed for node 7: Unable to connect"
	node := func(change func(*metal3.IronicStatus)) func(*metal3.BareMetalHost) {
		return func(h *metal3.BareMetalHost) {
			h.Status.Ironic = &metal3.IronicStatus{ProvisionState: string(ironic.Active), PowerState: string(ironic.PowerOn)}
			change(h.Status.Ironic)
		}
	}
	powerFailure := node(func(s *metal3.IronicStatus) {
		s.Maintenance, s.Fault, s.MaintenanceReason = true, ironic.FaultPowerFailure, "iLO get_power_status failed"
	})
	held := func(reason string) func(*metal3.BareMetalHost) {
		return func(h *metal3.BareMetalHost) {
			withError(metal3.RegistrationError, "held", 0)(h)
			h.Status.Record.Hold = &metal3.Hold{Reason: reason, Message: "held"}
		}
	}
	for name, tt := range map[string]struct {
		host []func(*metal3.BareMetalHost)
		want bool
	}{
		"none":                                {nil, false},
		"silent while it is registered":       {[]func(*metal3.BareMetalHost){withError(metal3.RegistrationError, silent, 1)}, true},
		"silent while it runs":                {[]func(*metal3.BareMetalHost){came(metal3.StateProvisioned, 60), withError(metal3.PowerManagementError, silent, 1)}, true},
		"refuses":                             {[]func(*metal3.BareMetalHost){withError(metal3.PowerManagementError, "Redfish authentication failed: HTTP GET https://192.0.2.1 returned code 401", 1)}, true},
		"silent or refuses":                   {[]func(*metal3.BareMetalHost){withError(metal3.RegistrationError, "Failed to get power state for node 7. Error: IPMI call failed: power status.", 1)}, true},
		"power failure in words of a driver":  {[]func(*metal3.BareMetalHost){powerFailure, withError(metal3.PowerManagementError, "iLO get_power_status failed", 1)}, true},
		"maintenance that somebody asked for": {[]func(*metal3.BareMetalHost){node(func(s *metal3.IronicStatus) { s.Maintenance, s.MaintenanceReason = true, "a new fan" })}, false},
		"held":                                {[]func(*metal3.BareMetalHost){held(metal3.RestoredReason)}, false},
		"held and silent":                     {[]func(*metal3.BareMetalHost){powerFailure, held(metal3.OperatorRunningReason)}, true},
		"no Secret":                           {[]func(*metal3.BareMetalHost){withError(metal3.RegistrationError, "Secret \"bmc\" does not exist", 1)}, false},
		"no right to Secrets": {[]func(*metal3.BareMetalHost){withError(metal3.RegistrationError,
			"metal3-apiserver has no right to get Secrets in namespace \"metal3\": bind the ClusterRole metal3-apiserver-secrets there", 1)}, false},
		"a deployment failed": {[]func(*metal3.BareMetalHost){withError(metal3.ProvisioningError, "Image server: connection refused", 1)}, false},
	} {
		host := newHost(append([]func(*metal3.BareMetalHost){func(h *metal3.BareMetalHost) { h.Status.Record.Ironic = "room-b" }}, tt.host...)...)
		got := countHosts([]*metal3.BareMetalHost{host}, []string{"", "room-b"}, now).unreachable
		want := map[string]int{"": 0, "room-b": 0}
		if tt.want {
			want["room-b"] = 1
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// measured is what a change adds to the histograms.
func measured(t *testing.T, old, new *metal3.BareMetalHost) map[string]float64 {
	t.Helper()
	registerMetrics()
	histograms := map[string]*metrics.Histogram{
		"register": registerDuration, "inspect": inspectDuration, "provision": provisionDuration, "deprovision": deprovisionDuration,
		"to available": timeToAvailable, "to provisioned": timeToProvisioned,
	}
	sum := func(h *metrics.Histogram) float64 {
		value, err := testutil.GetHistogramMetricValue(h.ObserverMetric)
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
	was := map[string]float64{}
	for name, h := range histograms {
		was[name] = sum(h)
	}
	measure(old, new, before(0).Time)
	added := map[string]float64{}
	for name, h := range histograms {
		if more := sum(h) - was[name]; more != 0 {
			added[name] = more
		}
	}
	return added
}

func TestMeasure(t *testing.T) {
	created := createdBefore(60)
	type change = []func(*metal3.BareMetalHost)
	for name, tt := range map[string]struct {
		was, then change
		want      map[string]float64
	}{
		"registered": {change{came(metal3.StateRegistering, 50)}, change{registeredFrom(50, 49), came(metal3.StateInspecting, 49)}, map[string]float64{"register": 60}},
		"inspected": {change{came(metal3.StateInspecting, 50)}, change{history(func(o *metal3.OperationHistory) { o.Inspect = operation(48, 38) }), came(metal3.StatePreparing, 38)},
			map[string]float64{"inspect": 600}},
		"available":          {change{came(metal3.StateRegistering, 50), came(metal3.StatePreparing, 40)}, change{came(metal3.StateAvailable, 0)}, map[string]float64{"to available": 3600}},
		"available again":    {change{came(metal3.StateRegistering, 50), came(metal3.StateAvailable, 40), came(metal3.StatePreparing, 30)}, change{came(metal3.StateAvailable, 0)}, map[string]float64{}},
		"available after it": {change{came(metal3.StateRegistering, 50), came(metal3.StateProvisioned, 40), came(metal3.StateDeprovisioning, 30)}, change{came(metal3.StateAvailable, 0)}, map[string]float64{}},
		"provisioned": {change{came(metal3.StateProvisioning, 20)}, change{history(func(o *metal3.OperationHistory) { o.Provision = operation(20, 0) }), came(metal3.StateProvisioned, 0)},
			map[string]float64{"provision": 1200, "to provisioned": 3600}},
		"provisioned again": {change{history(func(o *metal3.OperationHistory) { o.Deprovision = operation(40, 30) }), came(metal3.StateProvisioning, 20)}, change{came(metal3.StateProvisioned, 0)}, map[string]float64{}},
		"taken over":        {change{came(metal3.StateRegistering, 20)}, change{came(metal3.StateProvisioned, 0)}, map[string]float64{}},
		"nothing":           {change{came(metal3.StateAvailable, 20)}, nil, map[string]float64{}},
		"another clock": {change{came(metal3.StateDeprovisioning, 20)}, change{history(func(o *metal3.OperationHistory) { o.Deprovision = operation(1, 2) }), came(metal3.StateAvailable, 0)},
			map[string]float64{}},
	} {
		was := newHost(append(change{created}, tt.was...)...)
		is := was.DeepCopy()
		for _, then := range tt.then {
			then(is)
		}
		if diff := cmp.Diff(tt.want, measured(t, was, is)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// BenchmarkCountHosts is what a scrape costs.
func BenchmarkCountHosts(b *testing.B) {
	for _, n := range []int{1000, 10000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var hosts []*metal3.BareMetalHost
			for range n {
				hosts = append(hosts, newHost(createdBefore(60), came(metal3.StateAvailable, 30)))
			}
			for b.Loop() {
				countHosts(hosts, []string{""}, now)
			}
		})
	}
}
