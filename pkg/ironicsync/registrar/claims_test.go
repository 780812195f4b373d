package registrar

import (
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/enginetest"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/hostindex"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live"
)

// claimsOf returns the claims of hosts, of which Ironic has no nodes. In the index, the UID of the first one is
// uid-1, that of the second uid-2, and so on.
func claimsOf(t *testing.T, all ...*metal3.BareMetalHost) *Claims {
	t.Helper()
	hosts := enginetest.NewHosts()
	for _, h := range all {
		hosts.Add(h)
	}
	index := hostindex.New(hosts, nil)
	go index.Run(t.Context())
	if !cache.WaitForCacheSync(t.Context().Done(), index.HasSynced) {
		t.Fatal("the index has not synced")
	}
	return NewClaims(index, live.NewRefresher(t.Context(), live.Deps{}), func(bmc.Key) Elsewhere { return Elsewhere{} })
}

// TestWhoHasTheBMC: of two hosts with one BMC, the one that is registered with it has it,
// and only within a namespace the one that was created first.
func TestWhoHasTheBMC(t *testing.T) {
	created := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	host := func(namespace, name string, minute int, change ...func(*metal3.BareMetalHost)) *metal3.BareMetalHost {
		h := &metal3.BareMetalHost{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(created.Add(time.Duration(minute) * time.Minute))},
			Spec:       metal3.BareMetalHostSpec{BMC: metal3.BMCDetails{Address: "ipmi://192.0.2.1", CredentialsName: "bmc"}},
		}
		for _, c := range change {
			c(h)
		}
		return h
	}
	at := func(address, provisionState string) func(*metal3.BareMetalHost) {
		return func(h *metal3.BareMetalHost) {
			moved := *h
			moved.Spec.BMC.Address = address
			h.Status.Record.RegisteredWith = &metal3.RegisteredWith{BMC: lifecycle.BMCKey(&moved).String()}
			h.Status.Provisioning = metal3.ProvisionStatus{State: metal3.StateAvailable, ID: h.Name}
			h.Status.Ironic = &metal3.IronicStatus{NodeUUID: h.Name, ProvisionState: provisionState}
		}
	}
	registered := at("ipmi://192.0.2.1", "manageable")
	detached := func(h *metal3.BareMetalHost) {
		registered(h)
		h.Status.Ironic, h.Status.OperationalStatus = nil, metal3.OperationalStatusDetached
		h.Status.GoodCredentials.Reference = &corev1.SecretReference{Name: "bmc"}
	}
	onItsWay := func(h *metal3.BareMetalHost) { // to another Ironic
		detached(h)
		h.Status.OperationalStatus, h.Status.Provisioning.State = metal3.OperationalStatusOK, metal3.StateProvisioned
	}
	lost := func(h *metal3.BareMetalHost) { // with Ironic's database, and created again
		onItsWay(h)
		h.Status.Ironic = &metal3.IronicStatus{NodeUUID: h.Name, ProvisionState: "enroll"}
	}
	lostAvailable := func(h *metal3.BareMetalHost) {
		lost(h)
		h.Status.Provisioning.State = metal3.StateAvailable
	}
	claimed := func(h *metal3.BareMetalHost) { // by the annotation with a status
		h.Status.Provisioning = metal3.ProvisionStatus{State: metal3.StateProvisioned, ID: "x"}
	}
	for name, test := range map[string]struct {
		a, b                   *metal3.BareMetalHost
		aIsRefused, bIsRefused bool
	}{
		"both new, one namespace":              {a: host("ns", "a", 0), b: host("ns", "b", 1), bIsRefused: true},
		"both new, two namespaces":             {a: host("ns", "a", 0), b: host("other", "b", 1)},
		"the younger one is registered":        {a: host("ns", "a", 0), b: host("other", "b", 1, registered), aIsRefused: true},
		"the older one is registered":          {a: host("ns", "a", 0, registered), b: host("other", "b", 1), bIsRefused: true},
		"the older one was given its address":  {a: host("ns", "a", 0, at("ipmi://192.0.2.9", "manageable")), b: host("other", "b", 1, registered), aIsRefused: true},
		"the older one is not verified":        {a: host("ns", "a", 0, at("ipmi://192.0.2.1", "enroll")), b: host("other", "b", 1, registered), aIsRefused: true},
		"the older one claims to be":           {a: host("ns", "a", 0, claimed), b: host("other", "b", 1, registered), aIsRefused: true},
		"the older one claims to be, both new": {a: host("ns", "a", 0, claimed), b: host("other", "b", 1)},
		"the older one is detached":            {a: host("ns", "a", 0, detached), b: host("other", "b", 1), bIsRefused: true},
		"the younger one is on its way":        {a: host("ns", "a", 0), b: host("ns", "b", 1, onItsWay), aIsRefused: true},
		"the younger one runs, node lost":      {a: host("ns", "a", 0), b: host("ns", "b", 1, lost), aIsRefused: true},
		"the same in another namespace":        {a: host("ns", "a", 0), b: host("other", "b", 1, lost), aIsRefused: true},
		"the younger one runs not, node lost":  {a: host("ns", "a", 0), b: host("other", "b", 1, lostAvailable)},
		"both are registered":                  {a: host("ns", "a", 0, registered), b: host("other", "b", 1, registered), bIsRefused: true},
	} {
		t.Run(name, func(t *testing.T) {
			c := claimsOf(t, test.a, test.b)
			if message := c.DescribeBMCConflict(test.a); (message != "") != test.aIsRefused {
				t.Errorf("the older one: %q", message)
			}
			if message := c.DescribeBMCConflict(test.b); (message != "") != test.bIsRefused {
				t.Errorf("the younger one: %q", message)
			}
		})
	}
}

// TestWhoHasTheMachine: of two hosts of one machine at two addresses, one alone has what runs on it.
func TestWhoHasTheMachine(t *testing.T) {
	created := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	host := func(namespace, name string, minute int, state metal3.ProvisioningState, change ...func(*metal3.BareMetalHost)) *metal3.BareMetalHost {
		h := &metal3.BareMetalHost{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(created.Add(time.Duration(minute) * time.Minute))},
			Spec:       metal3.BareMetalHostSpec{BMC: metal3.BMCDetails{Address: "ipmi://192.0.2." + strconv.Itoa(minute+1), CredentialsName: "bmc"}},
		}
		h.Status.Provisioning = metal3.ProvisionStatus{State: state, ID: name}
		finished := metav1.NewMicroTime(created)
		h.Status.Ironic = &metal3.IronicStatus{NodeUUID: name, ProvisionState: "manageable", InspectionFinishedAt: &finished}
		h.Status.Record.RegisteredWith = &metal3.RegisteredWith{BMC: lifecycle.BMCKey(h).String()}
		h.UID = types.UID("uid-" + strconv.Itoa(minute+1)) // as the fake API server gives them
		h.Status.HardwareDetails = &metal3.HardwareDetails{
			SystemVendor: metal3.HardwareSystemVendor{Manufacturer: "Contoso", SerialNumber: "CZ1234567"}, NIC: []metal3.NIC{{MAC: "00:25:90:00:00:01"}},
		}
		for _, c := range change {
			c(h)
		}
		return h
	}
	given := func(h *metal3.BareMetalHost) { h.Spec.InspectionMode = metal3.InspectionModeDisabled }
	unregistered := func(h *metal3.BareMetalHost) { h.Status.Record.RegisteredWith = nil }
	sled := func(h *metal3.BareMetalHost) { h.Status.HardwareDetails.NIC[0].MAC = "00:25:90:00:00:02" }
	another := func(h *metal3.BareMetalHost) {
		sled(h)
		h.Status.HardwareDetails.SystemVendor.SerialNumber = "CZ7654321"
	}
	confirmed := func(h *metal3.BareMetalHost) { h.Status.Record.OtherMachines = []types.UID{"uid-2"} }
	for name, test := range map[string]struct {
		a, b             *metal3.BareMetalHost
		aIsHeld, bIsHeld bool
		resemble         bool
	}{
		"nothing runs":                     {a: host("ns", "a", 0, metal3.StateAvailable), b: host("ns", "b", 1, metal3.StateAvailable), bIsHeld: true},
		"the older one runs something":     {a: host("ns", "a", 0, metal3.StateProvisioned), b: host("ns", "b", 1, metal3.StateAvailable), bIsHeld: true},
		"the younger one runs something":   {a: host("ns", "a", 0, metal3.StateAvailable), b: host("ns", "b", 1, metal3.StateExternallyProvisioned), aIsHeld: true},
		"both run something":               {a: host("ns", "a", 0, metal3.StateProvisioned), b: host("ns", "b", 1, metal3.StateProvisioned), aIsHeld: true, bIsHeld: true},
		"both run, in two namespaces":      {a: host("ns", "a", 0, metal3.StateProvisioned), b: host("other", "b", 1, metal3.StateExternallyProvisioned), bIsHeld: true},
		"the younger one, in another":      {a: host("ns", "a", 0, metal3.StateAvailable), b: host("other", "b", 1, metal3.StateProvisioned), aIsHeld: true},
		"in another namespace":             {a: host("ns", "a", 0, metal3.StateAvailable), b: host("other", "b", 1, metal3.StateAvailable), bIsHeld: true},
		"in another namespace, a claim":    {a: host("ns", "a", 0, metal3.StateProvisioned, given), b: host("other", "b", 1, metal3.StateAvailable)},
		"in another namespace, of a claim": {a: host("ns", "a", 0, metal3.StateProvisioned), b: host("other", "b", 1, metal3.StateProvisioned, given)},
		"in this namespace, as was given":  {a: host("ns", "a", 0, metal3.StateProvisioned, given), b: host("ns", "b", 1, metal3.StateAvailable), bIsHeld: true},
		"the older one is not registered":  {a: host("ns", "a", 0, metal3.StateRegistering, unregistered), b: host("ns", "b", 1, metal3.StateAvailable)},
		"two machines":                     {a: host("ns", "a", 0, metal3.StateProvisioned, another), b: host("ns", "b", 1, metal3.StateAvailable)},
		"two sleds of a chassis":           {a: host("ns", "a", 0, metal3.StateProvisioned, sled), b: host("ns", "b", 1, metal3.StateAvailable), resemble: true},
		"one in another namespace":         {a: host("ns", "a", 0, metal3.StateAvailable, sled), b: host("other", "b", 1, metal3.StateProvisioned), resemble: true},
		"two with one BMC":                 {a: host("ns", "a", 0, metal3.StateProvisioned), b: host("ns", "b", 0, metal3.StateRegistering, unregistered, sled)},
		"confirmed to be two":              {a: host("ns", "a", 0, metal3.StateProvisioned, confirmed), b: host("ns", "b", 1, metal3.StateProvisioned)},
		"two sleds, confirmed to be two":   {a: host("ns", "a", 0, metal3.StateProvisioned, sled, confirmed), b: host("ns", "b", 1, metal3.StateProvisioned)},
	} {
		t.Run(name, func(t *testing.T) {
			c := claimsOf(t, test.a, test.b)
			of := map[*metal3.BareMetalHost]*metal3.BareMetalHost{test.a: test.b, test.b: test.a}
			for host, isHeld := range map[*metal3.BareMetalHost]bool{test.a: test.aIsHeld, test.b: test.bIsHeld} {
				found, other := c.SameMachine(host), of[host]
				if (found.Message != "") != isHeld || (found.Host == other.UID) != isHeld || (found.Resembles != "") != test.resemble {
					t.Errorf("%s: %+v", host.Name, found)
				}
				if other.Namespace != host.Namespace && strings.Contains(found.Message+found.Resembles, strconv.Quote(other.Name)) {
					t.Errorf("a host of another namespace is named: %+v", found)
				}
			}
		})
	}
}

// TestManyOfOneMachine: what many hosts have in common tells no machines apart.
func TestManyOfOneMachine(t *testing.T) {
	var all []*metal3.BareMetalHost
	for i := range 9 {
		h := &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "host-" + strconv.Itoa(i), CreationTimestamp: metav1.NewTime(time.Unix(int64(i), 0))}}
		h.Spec.BMC.Address = "ipmi://192.0.2." + strconv.Itoa(i)
		h.Status.Ironic = &metal3.IronicStatus{NodeUUID: h.Name, ProvisionState: "manageable"}
		h.Status.Record.RegisteredWith = &metal3.RegisteredWith{BMC: lifecycle.BMCKey(h).String()}
		h.Status.HardwareDetails = &metal3.HardwareDetails{SystemVendor: metal3.HardwareSystemVendor{SerialNumber: "CZ1234567"}, NIC: []metal3.NIC{{MAC: "00:25:90:00:00:01"}}}
		all = append(all, h)
	}
	for n, want := range map[int]bool{8: true, 9: false} {
		c := claimsOf(t, all[:n]...)
		if found := c.SameMachine(all[n-1]); (found.Message != "") != want {
			t.Errorf("one of %d: %+v", n, found)
		}
	}
}

// TestWhoseNode: a node that another host has, or that reaches another BMC, is not taken.
func TestWhoseNode(t *testing.T) {
	const this, others = "uid-1", "uid-2" // as claimsOf gives them
	host := &metal3.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: "metal3", Name: "host-0", UID: this},
		Spec:       metal3.BareMetalHostSpec{BMC: metal3.BMCDetails{Address: "ipmi://192.0.2.1", CredentialsName: "bmc"}},
	}
	other := host.DeepCopy()
	other.Namespace, other.Name, other.UID, other.Status.Provisioning.ID = "rack", "other", others, "theirs"
	c := claimsOf(t, host, other)
	own := ironic.Address{IPMIAddress: "192.0.2.1"}
	for name, test := range map[string]struct {
		node               ironic.Node
		anothers, canAdopt bool
	}{
		"a new one":                          {node: ironic.Node{UUID: "x", Address: own}, canAdopt: true},
		"one without an address":             {node: ironic.Node{UUID: "x"}},
		"another BMC":                        {node: ironic.Node{UUID: "x", Address: ironic.Address{IPMIAddress: "192.0.2.9"}}},
		"this host's name and another BMC":   {node: ironic.Node{UUID: "x", Name: "host-0", Address: ironic.Address{IPMIAddress: "192.0.2.9"}}},
		"the full name of another host":      {node: ironic.Node{UUID: "x", Name: "rack~other", Address: own}, anothers: true},
		"the mark of another host":           {node: ironic.Node{UUID: "x", Address: own, Marks: ironic.Marks{Host: others}}, anothers: true},
		"the mark of a host that is gone":    {node: ironic.Node{UUID: "x", Address: own, Marks: ironic.Marks{Host: "gone"}}, canAdopt: true},
		"the mark of this host":              {node: ironic.Node{UUID: "theirs", Address: own, Marks: ironic.Marks{Host: this}}, canAdopt: true},
		"what another host has recorded":     {node: ironic.Node{UUID: "theirs", Address: own}, anothers: true},
		"this host's name, another's record": {node: ironic.Node{UUID: "theirs", Name: "metal3~host-0", Address: own}, canAdopt: true},
	} {
		if got := c.IsNodeOfAnother(host, lifecycle.RecordOf(&test.node)); got != test.anothers {
			t.Errorf("%s: another host's: %t", name, got)
		}
		if got := c.canAdopt(host, &test.node); got != test.canAdopt {
			t.Errorf("%s: may be taken: %t", name, got)
		}
	}
}
