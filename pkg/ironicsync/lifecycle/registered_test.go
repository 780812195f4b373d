package lifecycle

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// formerly is a host as the first releases recorded it: what its node was registered
// with is in the message of the condition.
func formerly(message string) hostOption {
	return func(h *metal3.BareMetalHost) {
		h.Status.RegisteredWith = nil
		withRegistered(metav1.ConditionTrue, metal3.RegisteredReason, message)(h)
	}
}

// Hosts that the first releases recorded go on without being registered anew, and have
// what they were registered with in its field after the first observation.
func TestHostsRecordedByFirstReleases(t *testing.T) {
	const digest = "0a1b2c3d"
	const settings = "with the settings " + digest + " of the ramdisk"
	network := func(s *Situation) { s.NetworkVersion = "12"; s.Host.Spec.PreprovisioningNetworkDataName = "network" }
	lockedByItself := func(n *ironic.Node) {
		n.ParentNode = n.UUID
		n.LastError = "Failed to change power state to 'power on': Node u parent_node u is presently locked"
	}
	for name, tt := range map[string]struct {
		message string
		node    *ironic.Node
		change  func(*Situation)
		with    metal3.RegisteredWith
		anew    bool
	}{
		"as it is":             {message: settings, with: metal3.RegisteredWith{SettingsDigest: digest}},
		"network":              {message: settings + ", and the network data 12", change: network, with: metal3.RegisteredWith{SettingsDigest: digest, NetworkDataVersion: "12"}},
		"network changed":      {message: settings + ", and the network data 11", change: network, with: metal3.RegisteredWith{SettingsDigest: digest, NetworkDataVersion: "11"}, anew: true},
		"network named since":  {message: settings, change: network, with: metal3.RegisteredWith{SettingsDigest: digest}, anew: true},
		"power supply":         {message: settings + ", and with a power supply", node: nodeIn(ironic.Available, lockedByItself), with: metal3.RegisteredWith{SettingsDigest: digest, PowerSupply: true}},
		"without power supply": {message: settings, node: nodeIn(ironic.Available, lockedByItself), with: metal3.RegisteredWith{SettingsDigest: digest}, anew: true},
		"due":                  {message: settings + "; what only an idle node can be told is due", with: metal3.RegisteredWith{SettingsDigest: digest, DueWhenIdle: true}, anew: true},
		"due, and at work":     {message: settings + "; what only an idle node can be told is due", node: nodeIn(ironic.Active), with: metal3.RegisteredWith{SettingsDigest: digest, DueWhenIdle: true}},
		"all of it": {
			message: settings + ", and with a power supply; what only an idle node can be told is due", node: nodeIn(ironic.Active),
			with: metal3.RegisteredWith{SettingsDigest: digest, PowerSupply: true, DueWhenIdle: true},
		},
		"other settings": {message: "with the settings ffffffff of the ramdisk", with: metal3.RegisteredWith{SettingsDigest: "ffffffff"}, anew: true},
	} {
		t.Run(name, func(t *testing.T) {
			node := tt.node
			if node == nil {
				node = nodeIn(ironic.Available)
			}
			expect := func(when string, host *metal3.BareMetalHost) {
				t.Helper()
				s := planned(host, node)
				s.SettingsDigest = digest
				if tt.change != nil {
					tt.change(&s)
				}
				if got := Next(s).Do == Register; got != tt.anew {
					t.Errorf("%s: registered anew is %v", when, got)
				}
			}
			host := newHost(withState(metal3.StateAvailable), prepared, withPower(true), formerly(tt.message))
			host.Status.Ironic = ironicStatus(node)
			expect("as recorded", host)
			host = observe(host, node)
			if diff := cmp.Diff(&tt.with, host.Status.RegisteredWith); diff != "" {
				t.Errorf("registeredWith (-want +got):\n%s", diff)
			}
			expect("observed", host)
		})
	}
}

// The message of the condition is for people: another wording registers nothing anew.
func TestMessageOfRegisteredIsNotReadBack(t *testing.T) {
	for _, message := range []string{"", "All is well", "with the settings ffffffff of the ramdisk"} {
		host := newHost(withState(metal3.StateAvailable), prepared, withPower(true))
		withRegistered(metav1.ConditionTrue, metal3.RegisteredReason, message)(host)
		if got := Next(planned(host, nodeIn(ironic.Available))); got.Do != Wait {
			t.Errorf("with the message %q: %s", message, got)
		}
	}
}
