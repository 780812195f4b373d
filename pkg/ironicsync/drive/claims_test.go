package drive

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live"
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
			h.Status.RegisteredWith = &metal3.RegisteredWith{BMC: lifecycle.BMCKey(&moved).String()}
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
		"both are registered":                  {a: host("ns", "a", 0, registered), b: host("other", "b", 1, registered), bIsRefused: true},
	} {
		t.Run(name, func(t *testing.T) {
			c := NewController(Parts{Refresher: live.NewRefresher(t.Context(), nil, nil, nil, 0)}, Settings{})
			for _, h := range []*metal3.BareMetalHost{test.a, test.b} {
				if err := c.informer.GetIndexer().Add(h); err != nil {
					t.Fatal(err)
				}
			}
			if message := c.sameBMC(test.a); (message != "") != test.aIsRefused {
				t.Errorf("the older one: %q", message)
			}
			if message := c.sameBMC(test.b); (message != "") != test.bIsRefused {
				t.Errorf("the younger one: %q", message)
			}
		})
	}
}
