// SPDX-License-Identifier: Apache-2.0

package store

import (
	"encoding/json"
	"fmt"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	testingclock "k8s.io/utils/clock/testing"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

const (
	mib = 1 << 20
	// defaultBudget is that of the manifests, a quarter of 1800 MiB.
	defaultBudget = 450 * mib
)

func newBudget(limit int64) (*Budget, *testingclock.FakePassiveClock) {
	clock := testingclock.NewFakePassiveClock(time.Unix(1_000_000, 0))
	return NewBudget(clock, limit), clock
}

func pass(clock *testingclock.FakePassiveClock, d time.Duration) { clock.SetTime(clock.Now().Add(d)) }

// takeAll has each of the namespaces replace versions of this size in turn, until the budget refuses all of them, and returns what
// each has then.
func takeAll(t *testing.T, b *Budget, size int64, namespaces ...string) map[string]int64 {
	t.Helper()
	has := map[string]int64{}
	for more := true; more; {
		more = false
		for _, namespace := range namespaces {
			if _, ok := b.take(namespace, size, false); ok {
				has[namespace] += size
				more = true
			}
		}
		if b.total.sum > 2*b.limit {
			t.Fatalf("%d bytes are taken of %d", b.total.sum, b.limit)
		}
	}
	return has
}

// TestBudgetIsShared: whoever writes all that they can leaves room for others, however many they are.
func TestBudgetIsShared(t *testing.T) {
	for attackers := 1; attackers <= 20; attackers++ {
		b, _ := newBudget(defaultBudget)
		var names []string
		for i := range attackers {
			names = append(names, fmt.Sprint("attacker-", i))
		}
		const size = 256 << 10
		for name, has := range takeAll(t, b, size, names...) {
			if share := int64(defaultBudget / (attackers + 1)); has > share+size || has < share-2*size {
				t.Errorf("%d attackers: %s has %d bytes, not about %d", attackers, name, has, share)
			}
		}
		if b.total.sum >= defaultBudget {
			t.Errorf("%d attackers have all of it", attackers)
		}
		if has := takeAll(t, b, 16<<10, "victim")["victim"]; has < mib {
			t.Errorf("%d attackers leave %d bytes to others", attackers, has)
		}
	}
}

// TestBudgetForgets: a version counts as long as the watch cache keeps it for certain, and then nothing of its namespace is left.
func TestBudgetForgets(t *testing.T) {
	b, clock := newBudget(mib)
	for i := range 1000 {
		b.take(fmt.Sprint(i), 64, false)
	}
	takeAll(t, b, 64<<10, "greedy")
	pass(clock, 75*time.Second)
	if _, ok := b.take("greedy", 64<<10, false); ok {
		t.Error("after 75 s, the watch cache still has what no longer counts")
	}
	pass(clock, budgetSlot)
	if _, ok := b.take("greedy", 64<<10, false); !ok || len(b.namespaces) != 1 || b.total.sum != 64<<10 {
		t.Errorf("80 s later: accepted %v, %d namespaces are known, %d bytes count", ok, len(b.namespaces), b.total.sum)
	}
	// What is given back later than that does not count any more.
	slot, _ := b.take("greedy", 1, false)
	pass(clock, time.Hour)
	b.take("greedy", 2, false)
	b.giveBack("greedy", 1, slot)
	if b.total.sum != 2 {
		t.Errorf("%d bytes count, not 2", b.total.sum)
	}
}

// TestBudgetOfServer: the server is never refused, and what it does with large objects is at the expense of their namespace.
func TestBudgetOfServer(t *testing.T) {
	b, _ := newBudget(mib)
	takeAll(t, b, 64<<10, "tenant")
	if _, ok := b.take("tenant", 10*mib, true); !ok {
		t.Error("the server was refused")
	}
	if _, ok := b.take("tenant", 1, false); ok {
		t.Error("what the server replaced does not count")
	}
	if _, ok := b.take("other", 16<<10, false); !ok {
		t.Error("another namespace has nothing left")
	}
}

// provisionedHost is a host as a fleet has them: with labels, an image, conditions, and three writers.
func provisionedHost() *metal3.BareMetalHost {
	host := &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{
		Name: "rack-17-worker-1", Namespace: "metal3", UID: "0b1f6f4e-7b1e-4c0e-8f7e-2f6f5c1d3b2a",
		Finalizers: []string{metal3.BareMetalHostFinalizer},
		Labels: map[string]string{
			"rack": "17", "row": "3", "site": "frankfurt", "cluster.x-k8s.io/cluster-name": "production", "infrastructure.cluster.x-k8s.io/role": "worker",
		},
	}}
	host.Spec.BMC = metal3.BMCDetails{Address: "redfish-virtualmedia+https://192.168.111.1:8000/redfish/v1/Systems/1", CredentialsName: "rack-17-worker-1-bmc"}
	host.Spec.BootMACAddress = "52:54:00:8b:0d:5b"
	image := "https://images.example.com/ubuntu-24.04-amd64.qcow2"
	host.Spec.Image = &metal3.Image{URL: image, Checksum: image + ".sha256sum"}
	host.Status.Provisioning.Image = *host.Spec.Image
	host.Status.HardwareDetails = &metal3.HardwareDetails{NIC: make([]metal3.NIC, 16), Storage: make([]metal3.Storage, 24)}
	for i := range 8 {
		host.Status.Conditions = append(host.Status.Conditions, metav1.Condition{
			Type: fmt.Sprint("Condition", i), Status: metav1.ConditionTrue, Reason: "ProvisioningSucceeded", Message: "The machine runs what the spec asks for.",
		})
	}
	for i := range 3 {
		fields := fmt.Sprintf(`{"f:spec":{"f:field":{}%s}}`, strings.Repeat(fmt.Sprintf(`,"f:field%d":{}`, i), 70))
		host.ManagedFields = append(host.ManagedFields, metav1.ManagedFieldsEntry{Manager: "kubectl", Operation: "Update", FieldsV1: metav1.NewFieldsV1(fields)})
	}
	return host
}

// TestOrdinaryFleetMeetsNoBudget: 10,000 hosts in one namespace can be labelled three times within 75 s. What the server replaces
// meanwhile does not count, and new hosts do not count either.
func TestOrdinaryFleetMeetsNoBudget(t *testing.T) {
	b, clock := newBudget(defaultBudget)
	host := weigh(provisionedHost())
	t.Logf("a host takes %d bytes", host)
	if host < 4<<10 || host > ordinaryVersion/4 {
		t.Errorf("an ordinary host takes %d bytes", host)
	}
	for n := range 3 {
		for i := range 10_000 {
			if _, ok := b.take("metal3", host, false); !ok {
				t.Fatalf("the change of host %d is refused in pass %d", i, n+1)
			}
		}
		pass(clock, 24*time.Second)
	}
}

// TestWeigh: the size is about what the heap grows by, also of objects whose JSON is much smaller.
func TestWeigh(t *testing.T) {
	many := func(format string, n int) string {
		texts := make([]string, n)
		for i := range texts {
			texts[i] = fmt.Sprintf(format, i)
		}
		return strings.Join(texts, ",")
	}
	data := func() runtime.Object { return &metal3.HardwareData{} }
	for _, test := range []struct {
		name, json string
		empty      func() runtime.Object
	}{
		{"annotations", `{"metadata":{"annotations":{` + many(`"%d":""`, 30_000) + `}}}`, data},
		{"one text", `{"metadata":{"annotations":{"a":"` + strings.Repeat("a", 300_000) + `"}}}`, data},
		{"network interfaces", `{"spec":{"hardware":{"nics":[` + many(`{"speedGbps":%d}`, 15_000) + `]}}}`, data},
		{"settings", `{"spec":{"settings":{` + many(`"%d":0`, 20_000) + `}}}`, func() runtime.Object { return &metal3.HostFirmwareSettings{} }},
		{"volumes", `{"spec":{"raid":{"hardwareRAIDVolumes":[` + many(`{"level":"%d"}`, 4000) + `]}}}`, func() runtime.Object { return &metal3.BareMetalHost{} }},
	} {
		t.Run(test.name, func(t *testing.T) {
			const versions = 8
			var kept [versions]runtime.Object
			before := heap()
			for i := range kept {
				kept[i] = test.empty()
				if err := json.Unmarshal([]byte(test.json), kept[i]); err != nil {
					t.Fatal(err)
				}
			}
			grown := (heap() - before) / versions
			got := weigh(kept[0])
			goruntime.KeepAlive(&kept)
			t.Logf("%d bytes of JSON take %d, and weigh returns %d", len(test.json), grown, got)
			if got < grown/2 || got > grown*2 {
				t.Errorf("weigh returns %d, but the heap has grown by %d", got, grown)
			}
		})
	}
}

func heap() int64 {
	var stats goruntime.MemStats
	goruntime.GC()
	goruntime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// TestSizeOfVersions: users may not write what has little JSON and takes much memory, but make it smaller. What the server writes, and the
// largest schema of a BMC, are none of that.
func TestSizeOfVersions(t *testing.T) {
	few := int64(maxVersion / 2)
	for _, test := range []struct {
		size, former int64
		byServer     bool
		refused      bool
	}{
		{few, 0, false, false},
		{maxVersion + 1, 0, false, true},
		{maxVersion + 1, few, false, true},
		{2 * maxVersion, 2 * maxVersion, false, false},
		{2*maxVersion + 1, 2 * maxVersion, false, true},
		{2 * maxVersion, few, true, false},
	} {
		r := replacement{byServer: test.byServer}
		if err := r.checkSize(test.size, test.former); apierrors.IsRequestEntityTooLargeError(err) != test.refused || err != nil != test.refused {
			t.Errorf("%+v: %v", test, err)
		}
	}
	schema := &metal3.FirmwareSchema{Spec: metal3.FirmwareSchemaSpec{Schema: map[string]metal3.SettingSchema{}}}
	for i := range 5000 { // 150 bytes each in JSON
		least, most, no := 0, 100, false
		schema.Spec.Schema[fmt.Sprint("SettingOfTheBIOS", i)] = metal3.SettingSchema{
			AttributeType: "Enumeration", AllowableValues: []string{"Enabled", "Disabled"}, LowerBound: &least, UpperBound: &most, ReadOnly: &no, Unique: &no,
		}
	}
	inventory := &metal3.HardwareData{Spec: metal3.HardwareDataSpec{HardwareDetails: &metal3.HardwareDetails{NIC: make([]metal3.NIC, 1000), Storage: make([]metal3.Storage, 2000)}}}
	for name, obj := range map[string]runtime.Object{"schema": schema, "inventory": inventory} {
		if size := weigh(obj); size > maxVersion {
			t.Errorf("a large %s takes %d bytes, and would be refused", name, size)
		}
	}
	inventory.Spec.HardwareDetails.Storage = make([]metal3.Storage, 384<<10/3)
	if size := weigh(inventory); size < maxVersion {
		t.Errorf("an inventory of empty disks takes %d bytes, and would be accepted", size)
	}
}
