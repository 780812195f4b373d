// SPDX-License-Identifier: Apache-2.0

package client

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

func TestFieldsFollowTheVersion(t *testing.T) {
	want := &ironic.Node{
		UUID: "11111111-0000-4000-8000-000000000001", Name: "metal3~host-0", Driver: "ipmi",
		TargetPowerState: ironic.TargetPowerOn, ProvisionState: ironic.CleanWait, TargetProvisionState: "available",
		ProvisionUpdatedAt: at("2026-11-21T06:34:30.047626Z"), InspectionFinishedAt: at("2026-11-21T06:20:00Z"),
		LastError:   "During sync_power_state, max retries exceeded for node 11111111-0000-4000-8000-000000000001, node state None does not match expected state 'power on'. Updating DB state to 'None' Switching node to maintenance mode. Error: IPMI call failed: power status.",
		Maintenance: true, MaintenanceReason: "During sync_power_state, max retries exceeded", Fault: ironic.FaultPowerFailure,
		Reservation: "conductor-0", CleanStep: ironic.Step{Interface: "deploy", Step: "erase_devices_metadata"},
	}
	newest := *want
	newest.Health = "Warning"
	for name, test := range map[string]struct {
		offered int
		version string
		added   string
		body    string
		want    *ironic.Node
	}{
		"oldest":                  {82, "1.82", "", "node-1.82.json", want},
		"with service steps":      {96, "1.96", ",parent_node,service_step", "node-1.82.json", want},
		"newest":                  {115, "1.115", ",parent_node,service_step,health", "node-1.115.json", &newest},
		"newer than we know here": {140, "1.115", ",parent_node,service_step,health", "node-1.115.json", &newest},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, test.offered, answer(200, testdata(t, test.body)))
			got, err := f.client().GetNode(t.Context(), "metal3~host-0")
			if err != nil {
				t.Fatal(err)
			}
			if got.AnsweredAt.IsZero() {
				t.Error("when Ironic answered is not known")
			}
			got.AnsweredAt = time.Time{}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			asked := f.last()
			query, err := url.ParseQuery(asked.Query)
			if err != nil {
				t.Fatal(err)
			}
			if fields := query.Get("fields"); fields != statusFields+test.added {
				t.Errorf("asked for %q", fields)
			}
			if asked.Version != test.version || asked.Path != "/v1/nodes/metal3~host-0" {
				t.Errorf("asked %+v, want version %s", asked, test.version)
			}
		})
	}
}

// What is in Node is also asked for, and apart from that only what Ironic's policy needs.
func TestFieldListIsNode(t *testing.T) {
	asked := map[string]bool{"updated_at": true, "-": true} // cannot be asked for
	for _, field := range strings.Split(queryOfStatus(ironic.FeaturesOf(ironic.NewestAPIVersion)).Get("fields"), ",") {
		asked[field] = true
	}
	decoded := map[string]bool{"owner": true, "lessee": true}
	for i := range reflect.TypeFor[ironic.Node]().NumField() {
		decoded[reflect.TypeFor[ironic.Node]().Field(i).Tag.Get("json")] = true
	}
	if diff := cmp.Diff(decoded, asked); diff != "" {
		t.Errorf("-decoded +asked for\n%s", diff)
	}
}

func TestTooOld(t *testing.T) {
	f := newFake(t, 81, answer(200, "{}"))
	_, err := f.client().GetNode(t.Context(), "a")
	if !ironic.IsUnavailable(err) {
		t.Fatalf("got %v, want unavailable", err)
	}
	for _, words := range []string{"offers API 1.81", "1.82", "is needed"} {
		if !strings.Contains(err.Error(), words) {
			t.Errorf("the error %q lacks %q", err, words)
		}
	}
	if len(f.requests()) > 0 {
		t.Errorf("asked all the same: %v", f.requests())
	}
}

func TestNotIronic(t *testing.T) {
	other := httptest.NewServer(answer(200, `{"kind":"Status"}`))
	defer other.Close()
	_, err := newClient(t, Config{Endpoint: other.URL}).GetNode(t.Context(), "a")
	if !ironic.IsUnavailable(err) || !strings.Contains(ironic.ReasonOf(err), "is not Ironic's") {
		t.Errorf("got %v", err)
	}
}

func TestFeatures(t *testing.T) {
	f := newFake(t, 96, answer(200, "{}"))
	c := f.client()
	for range 3 {
		got, err := c.Features(t.Context())
		if want := ironic.FeaturesOf(ironic.APIVersion{Major: 1, Minor: 96}); err != nil || got != want {
			t.Errorf("got %+v, %v; want %+v", got, err, want)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.seen) != 1 {
		t.Errorf("asked %d times for the version, want once", len(f.seen))
	}
}

// Ironic is replaced by another release while this process runs.
func TestNegotiatesAgain(t *testing.T) {
	f := newFake(t, 115, answer(200, testdata(t, "node-1.115.json")))
	c := f.client()
	ctx := within(t, time.Minute)
	if _, err := c.GetNode(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	f.setMaxMinor(96)
	if _, err := c.GetNode(ctx, "a"); err != nil {
		t.Fatalf("after the downgrade: %v", err)
	}
	if got := f.last(); got.Version != "1.96" || strings.Contains(got.Query, "health") {
		t.Errorf("after the downgrade: asked %+v", got)
	}
	if err := c.setPowerState(ctx, ironic.NoFence, "a", ironic.TargetPowerOn, 0); err != nil {
		t.Fatal(err)
	}
	f.setMaxMinor(82)
	if err := c.setPowerState(ctx, ironic.NoFence, "a", ironic.TargetPowerOn, 0); err != nil {
		t.Fatalf("write after the downgrade: %v", err)
	}
}

func TestNegotiatesAgainAfterOutage(t *testing.T) {
	var broken atomic.Bool
	f := newFake(t, 96, func(w http.ResponseWriter, _ *http.Request) {
		if broken.Load() {
			panic(http.ErrAbortHandler) // closes the connection
		}
		w.Write([]byte("{}")) //nolint:errcheck // The client notices.
	})
	c := f.client()
	ctx := within(t, time.Minute)
	if _, err := c.GetNode(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	broken.Store(true)
	if _, err := c.GetNode(ctx, "a"); !ironic.IsUnavailable(err) {
		t.Fatalf("got %v", err)
	}
	broken.Store(false)
	f.setMaxMinor(115)
	if _, err := c.GetNode(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	if got := f.last().Version; got != "1.115" {
		t.Errorf("after the upgrade: asked in version %s, want 1.115", got)
	}
}

// TestNegotiatesAgainAfterUpgrade: where Ironic is upgraded without an outage, its answers tell; but one server of several does not have
// each read ask for the version twice.
func TestNegotiatesAgainAfterUpgrade(t *testing.T) {
	f := newFake(t, 96, answer(200, "{}"))
	now := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	c := f.client(func(cfg *Config) { cfg.Clock = now })
	asked := func() (version string) {
		if _, err := c.GetNode(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		return f.last().Version
	}
	asked()
	f.setMaxMinor(109)
	for range 3 {
		if got := asked(); got != "1.96" {
			t.Errorf("just after the upgrade: asked in version %s", got)
		}
	}
	now.Step(2 * upgradePause)
	asked() // the answer tells
	if got := asked(); got != "1.109" {
		t.Errorf("after a while: asked in version %s", got)
	}
}

// TestFailureForgetsNothing: while Ironic's database fails, each read takes one request, and not two.
func TestFailureForgetsNothing(t *testing.T) {
	f := newFake(t, newestMinor, answer(http.StatusInternalServerError, fault("database is locked")))
	c := f.client()
	for range 3 {
		if _, err := c.GetNode(t.Context(), "a"); !ironic.IsUnavailable(err) {
			t.Fatalf("got %v", err)
		}
	}
	if n := f.versionRequests(); n != 1 {
		t.Errorf("asked %d times for the version", n)
	}
}

// TestTimeoutForgetsNothing: after a read that an Ironic was too busy for, the next one takes one request, and not two.
func TestTimeoutForgetsNothing(t *testing.T) {
	released := make(chan struct{})
	f := newFake(t, newestMinor, func(w http.ResponseWriter, _ *http.Request) {
		<-released
		w.Write([]byte("{}")) //nolint:errcheck // The client notices.
	})
	c := f.client()
	if _, err := c.Features(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.GetNode(within(t, 50*time.Millisecond), "a"); !ironic.IsTimeout(err) {
		t.Fatalf("got %v", err)
	}
	close(released)
	if _, err := c.GetNode(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if asked := f.versionRequests(); asked != 1 {
		t.Errorf("asked for the version %d times", asked)
	}
}

func at(s string) *time.Time {
	parsed, err := time.Parse(time.RFC3339, s)
	if err != nil {
		panic(err)
	}
	parsed = parsed.In(time.FixedZone("", 0))
	return &parsed
}
