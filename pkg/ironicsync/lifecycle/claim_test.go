// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

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
			h.Status.Record.RegisteredWith = &metal3.RegisteredWith{BMC: BMCKey(&moved).String()}
			h.Status.Provisioning = metal3.ProvisionStatus{State: metal3.StateAvailable, ID: h.Name}
			h.Status.Ironic = &metal3.IronicStatus{NodeUUID: h.Name, ProvisionState: provisionState}
		}
	}
	registered := at("ipmi://192.0.2.1", "manageable")
	enrolling := func(h *metal3.BareMetalHost) { // and verified
		registered(h)
		h.Status.Provisioning.State = metal3.StateRegistering
	}
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
	readdressed := func(h *metal3.BareMetalHost) { // while it was detached
		detached(h)
		h.Spec.BMC.Address = "ipmi://192.0.2.9"
	}
	readdressedRunning := func(h *metal3.BareMetalHost) { // while Ironic had lost its node
		onItsWay(h)
		h.Spec.BMC.Address = "ipmi://192.0.2.9"
	}
	swapped := func(h *metal3.BareMetalHost) { // with readdressedRunning
		onItsWay(h)
		h.Status.Record.RegisteredWith.BMC, h.Spec.BMC.Address = "ipmi 192.0.2.9:623", "ipmi://192.0.2.1"
	}
	rotated := func(h *metal3.BareMetalHost) {
		swapped(h)
		h.Status.Record.RegisteredWith.BMC = "ipmi 192.0.2.7:623"
	}
	claimed := func(h *metal3.BareMetalHost) { // by the annotation with a status
		h.Status.Provisioning = metal3.ProvisionStatus{State: metal3.StateProvisioned, ID: "x"}
	}
	brings := func(status string) func(*metal3.BareMetalHost) { // and is not begun, for example because it is paused
		return func(h *metal3.BareMetalHost) {
			h.Annotations = map[string]string{metal3.StatusAnnotation: status, metal3.PausedAnnotation: ""}
		}
	}
	for name, test := range map[string]struct {
		a, b                   *metal3.BareMetalHost
		aIsRefused, bIsRefused bool
	}{
		"both new, one namespace":                             {a: host("ns", "a", 0), b: host("ns", "b", 1), bIsRefused: true},
		"both new, two namespaces":                            {a: host("ns", "a", 0), b: host("other", "b", 1)},
		"the younger one is registered":                       {a: host("ns", "a", 0), b: host("other", "b", 1, registered), aIsRefused: true},
		"the older one is registered":                         {a: host("ns", "a", 0, registered), b: host("other", "b", 1), bIsRefused: true},
		"the older one was given its address":                 {a: host("ns", "a", 0, at("ipmi://192.0.2.9", "manageable")), b: host("other", "b", 1, registered), aIsRefused: true},
		"the older one is not verified":                       {a: host("ns", "a", 0, at("ipmi://192.0.2.1", "enroll")), b: host("other", "b", 1, registered), aIsRefused: true},
		"the older one claims to be":                          {a: host("ns", "a", 0, claimed), b: host("other", "b", 1, registered), aIsRefused: true},
		"the older one claims to be, both new":                {a: host("ns", "a", 0, claimed), b: host("other", "b", 1)},
		"the younger one brings that it runs":                 {a: host("ns", "a", 0), b: host("ns", "b", 1, brings(`{"provisioning":{"state":"provisioned","ID":"x"}}`)), aIsRefused: true},
		"the younger one brings that it is being provisioned": {a: host("ns", "a", 0), b: host("ns", "b", 1, brings(`{"provisioning":{"state":"provisioning","ID":"x"}}`)), aIsRefused: true},
		"the younger one brings what cannot be read":          {a: host("ns", "a", 0), b: host("ns", "b", 1, brings(`{`)), aIsRefused: true},
		"the younger one brings that it is available":         {a: host("ns", "a", 0), b: host("ns", "b", 1, brings(`{"provisioning":{"state":"available","ID":"x"}}`)), bIsRefused: true},
		"the younger one has brought that it runs":            {a: host("ns", "a", 0), b: host("ns", "b", 1, claimed), aIsRefused: true},
		"it brings that it runs, the other one is enrolling":  {a: host("ns", "a", 0, enrolling), b: host("ns", "b", 1, brings(`{"provisioning":{"state":"provisioned","ID":"x"}}`)), aIsRefused: true},
		"it brings that it runs, enrolling in another one":    {a: host("ns", "a", 0, enrolling), b: host("other", "b", 1, brings(`{"provisioning":{"state":"provisioned","ID":"x"}}`)), bIsRefused: true},
		"given the address of one that is enrolling":          {a: host("ns", "a", 0, swapped), b: host("ns", "b", 1, enrolling), aIsRefused: true},
		"given the address of one that is new":                {a: host("ns", "a", 1, swapped), b: host("ns", "b", 0), aIsRefused: true},
		"it brings that it runs, two namespaces":              {a: host("ns", "a", 0), b: host("other", "b", 1, brings(`{"provisioning":{"state":"provisioned","ID":"x"}}`))},
		"it brings that it runs, the other one is registered": {a: host("ns", "a", 0, registered), b: host("ns", "b", 1, brings(`{"provisioning":{"state":"provisioned","ID":"x"}}`)), bIsRefused: true},
		"the older one is detached":                           {a: host("ns", "a", 0, detached), b: host("other", "b", 1), bIsRefused: true},
		"the older one keeps it":                              {a: host("ns", "a", 0, readdressed), b: host("other", "b", 1), bIsRefused: true},
		"the younger one keeps it":                            {a: host("ns", "a", 0), b: host("ns", "b", 1, readdressedRunning), aIsRefused: true},
		"each has the other's address":                        {a: host("ns", "a", 0, swapped), b: host("ns", "b", 1, readdressedRunning)},
		"it runs on a third one":                              {a: host("ns", "a", 0, rotated), b: host("other", "b", 1, readdressedRunning), aIsRefused: true},
		"the older one kept it until":                         {a: host("ns", "a", 0, readdressed), b: host("other", "b", 1, registered)},
		"the younger one is on its way":                       {a: host("ns", "a", 0), b: host("ns", "b", 1, onItsWay), aIsRefused: true},
		"the younger one runs, node lost":                     {a: host("ns", "a", 0), b: host("ns", "b", 1, lost), aIsRefused: true},
		"the same in another namespace":                       {a: host("ns", "a", 0), b: host("other", "b", 1, lost), aIsRefused: true},
		"the younger one runs not, node lost":                 {a: host("ns", "a", 0), b: host("other", "b", 1, lostAvailable)},
		"both are registered":                                 {a: host("ns", "a", 0, registered), b: host("other", "b", 1, registered), bIsRefused: true},
	} {
		t.Run(name, func(t *testing.T) {
			if message := ClaimOf(test.a, Rivals{SameBMC: []*metal3.BareMetalHost{test.b}}).SameBMC; (message != "") != test.aIsRefused || message != "" && !strings.Contains(message, "detach a host before that") {
				t.Errorf("the older one: %q", message)
			}
			if message := ClaimOf(test.b, Rivals{SameBMC: []*metal3.BareMetalHost{test.a}}).SameBMC; (message != "") != test.bIsRefused {
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
		h.Status.Ironic = &metal3.IronicStatus{NodeUUID: name, ProvisionState: "manageable"}
		h.Status.Record.Inspected = true
		h.Status.Record.RegisteredWith = &metal3.RegisteredWith{BMC: BMCKey(h).String()}
		h.UID = types.UID("uid-" + strconv.Itoa(minute+1))
		h.Status.HardwareDetails = &metal3.HardwareDetails{
			SystemVendor: metal3.HardwareSystemVendor{Manufacturer: "Contoso", SerialNumber: "CZ1234567"}, NIC: []metal3.NIC{{MAC: "00:25:90:00:00:01"}},
		}
		for _, c := range change {
			c(h)
		}
		return h
	}
	given := func(h *metal3.BareMetalHost) { h.Status.Record.Inspected = false }
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
			both := func(string) []*metal3.BareMetalHost { return []*metal3.BareMetalHost{test.a, test.b} }
			of := map[*metal3.BareMetalHost]*metal3.BareMetalHost{test.a: test.b, test.b: test.a}
			for host, isHeld := range map[*metal3.BareMetalHost]bool{test.a: test.aIsHeld, test.b: test.bIsHeld} {
				other := of[host]
				found := ClaimOf(host, Rivals{Alike: []Alike{{other, LikenessOf(host, other, both)}}}).SameMachine
				if (found.Message != "") != isHeld || (found.Host == other.UID) != isHeld || (found.Resembles != "") != test.resemble {
					t.Errorf("%s: %+v", host.Name, found)
				}
				if found.Resembles != "" && !strings.Contains(found.Resembles, "detach one of the hosts, and delete it then") {
					t.Errorf("who deletes the host has its disks erased: %s", found.Resembles)
				}
				if other.Namespace != host.Namespace && strings.Contains(found.Message+found.Resembles, strconv.Quote(other.Name)) {
					t.Errorf("a host of another namespace is named: %+v", found)
				}
			}
		})
	}
}

// TestNodesWithOneBMC: a BMC that Ironic has verified for another node is in use, and what is not known of other Ironics is told with
// how long it may be waited for.
func TestNodesWithOneBMC(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	node := func(uuid, name string, state ironic.ProvisionState) ironic.Node {
		return ironic.Node{UUID: uuid, Name: name, ProvisionState: state}
	}
	own, others := node("own", "metal3~a", ironic.Active), node("x", "x", ironic.Available)
	registered := &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: "metal3", Name: "a"}, Spec: metal3.BareMetalHostSpec{BMC: metal3.BMCDetails{Address: "ipmi://192.0.2.1"}}}
	registered.Status.Provisioning = metal3.ProvisionStatus{State: metal3.StateProvisioned, ID: "own"}
	registered.Status.Ironic = &metal3.IronicStatus{NodeUUID: "own", ProvisionState: "active"}
	blank := registered.DeepCopy()
	blank.Status = metal3.BareMetalHostStatus{}
	for name, test := range map[string]struct {
		known        NodesWithBMC
		ofNode       OtherNodes
		refusesBlank bool
	}{
		"nobody":                  {known: NodesWithBMC{AsOf: now}, ofNode: OtherNodes{AsOf: now}},
		"the host's own":          {known: NodesWithBMC{AsOf: now, Nodes: []ironic.Node{own}}, ofNode: OtherNodes{AsOf: now}},
		"another":                 {known: NodesWithBMC{AsOf: now, Nodes: []ironic.Node{own, others}}, ofNode: OtherNodes{AsOf: now, Exist: true}, refusesBlank: true},
		"one that is not known":   {known: NodesWithBMC{AsOf: now, Nodes: []ironic.Node{node("x", "x", ironic.Enroll)}}, ofNode: OtherNodes{AsOf: now}},
		"one without a name":      {known: NodesWithBMC{AsOf: now, Nodes: []ironic.Node{node("x", "", ironic.Available)}}, ofNode: OtherNodes{AsOf: now, Exist: true}},
		"in another Ironic":       {known: NodesWithBMC{AsOf: now, Elsewhere: Elsewhere{Nodes: []ironic.Node{others}}}, ofNode: OtherNodes{AsOf: now, ExistElsewhere: true}, refusesBlank: true},
		"not known yet":           {known: NodesWithBMC{}, ofNode: OtherNodes{}},
		"one Ironic is away":      {known: NodesWithBMC{AsOf: now, Elsewhere: Elsewhere{Unread: true}}, ofNode: OtherNodes{AsOf: now, MayExistElsewhere: true}},
		"one is read in a moment": {known: NodesWithBMC{AsOf: now, Elsewhere: Elsewhere{Unread: true, Awaited: true}}, ofNode: OtherNodes{MayExistElsewhere: true}},
	} {
		claim := ClaimOf(registered, Rivals{OfNode: test.known, OfSpec: test.known})
		if claim.OtherNodes != test.ofNode || claim.SameBMC != "" {
			t.Errorf("%s: %+v", name, claim)
		}
		if claim := ClaimOf(blank, Rivals{OfSpec: test.known}); (claim.SameBMC != "") != test.refusesBlank || claim.BMCRegistered {
			t.Errorf("%s, for a new host: %+v", name, claim)
		}
	}
}

// TestRefusedForANodeElsewhere: a host that was refused because another Ironic has a node with its BMC stays refused while that Ironic
// cannot be read, and no host is refused for what nobody knows.
func TestRefusedForANodeElsewhere(t *testing.T) {
	host := &metal3.BareMetalHost{Spec: metal3.BareMetalHostSpec{BMC: metal3.BMCDetails{Address: "ipmi://192.0.2.1"}}}
	claim := func(elsewhere Elsewhere) string {
		claim := ClaimOf(host, Rivals{OfSpec: NodesWithBMC{Elsewhere: elsewhere}})
		if claim.SameBMCElsewhere != (claim.SameBMC != "") {
			t.Errorf("elsewhere: %v, for %q", claim.SameBMCElsewhere, claim.SameBMC)
		}
		return claim.SameBMC
	}
	away, expected := Elsewhere{Unread: true}, Elsewhere{Unread: true, Awaited: true}
	has := claim(Elsewhere{Nodes: []ironic.Node{{ProvisionState: ironic.Active}}})
	if has == "" || claim(away) != "" || claim(expected) != "" {
		t.Fatalf("refused with %q; without a node there: %q, %q", has, claim(away), claim(expected))
	}
	host.Status.Record.Registration = &metal3.Registration{Message: has, Elsewhere: true}
	had := claim(away)
	if had == "" || had == has || claim(expected) != has || claim(Elsewhere{}) != "" {
		t.Errorf("refused before, and now, while it is away: %q; before it is read: %q; when it has no such node: %q", had, claim(expected), claim(Elsewhere{}))
	}
	host.Status.Record.Registration.Message = "in the words of another version"
	if claim(away) != had {
		t.Errorf("with another leader: %q", claim(away))
	}
	host.Status.Record.Registration = &metal3.Registration{Message: has}
	if claim(away) != "" {
		t.Errorf("refused for another reason: %q", claim(away))
	}
}
