// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

// registration is what Ironic knows of host 0.
func (w *world) registration() ironic.Registration {
	w.t.Helper()
	id := w.host().Status.Provisioning.ID
	if id == "" || w.sim.Node(id) == nil {
		return ironic.Registration{}
	}
	registration, err := w.sim.GetRegistration(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return *registration
}

func (w *world) becomes(state metal3.ProvisioningState) {
	w.t.Helper()
	w.after(5*time.Minute, string(state), func() bool { return w.host().Status.Provisioning.State == state })
}

// editSpec writes the spec as a user does.
func (w *world) editSpec(change func(*metal3.BareMetalHostSpec)) {
	w.t.Helper()
	w.after(5*time.Second, "the spec is written", func() bool {
		host := w.host()
		change(&host.Spec)
		_, err := w.hosts.Update(w.t.Context(), host)
		return err == nil
	})
}

// TestInspectionModeMended: Ironic refuses another inspect_interface for a node whose
// inspection failed, so that the node has to be made manageable before.
func TestInspectionModeMended(t *testing.T) {
	for _, test := range []struct {
		mode metal3.InspectionMode
		want string
	}{{metal3.InspectionModeAgent, "agent"}, {metal3.InspectionModeDisabled, "agent"}} {
		t.Run(string(test.mode), func(t *testing.T) {
			inSimulation(t, ironicsim.Options{}, func(t *testing.T, w *world) {
				w.failTimes(1, "inspect", failure)
				w.secret("secret")
				host := redfishHost()
				host.Spec.InspectionMode = metal3.InspectionModeFast
				w.hosts.Add(host)
				w.after(time.Minute, "the inspection failed", func() bool { return w.host().Status.ErrorType == metal3.InspectionError })
				if got := w.registration().InspectInterface; got != "redfish" {
					t.Fatalf("inspected by %q", got)
				}
				w.editSpec(func(s *metal3.BareMetalHostSpec) { s.InspectionMode = test.mode })
				w.becomes(metal3.StateAvailable)
				if got := w.registration().InspectInterface; got != test.want {
					t.Errorf("inspect_interface is %q", got)
				}
			})
		})
	}
}

// TestNetworkOfTheRamdisk: on a network without DHCP, the ramdisk never calls without
// its Secret. That comes late, changes, and is named no more.
func TestNetworkOfTheRamdisk(t *testing.T) {
	inSimulation(t, ironicsim.Options{}, func(t *testing.T, w *world) {
		put := func(key, network string) {
			data := map[string][]byte{key: []byte(network)}
			if err := w.secrets.put(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: enginetest.Namespace, Name: "network"}, Data: data}); err != nil {
				t.Fatal(err)
			}
		}
		network := func(address string) { put("networkData", `{"networks":[{"id":"a","ip_address":"`+address+`"}]}`) }
		has := func(address string) func() bool {
			return func() bool {
				text, err := json.Marshal(w.registration().NetworkData)
				return err == nil && strings.Contains(string(text), address)
			}
		}
		w.secret("secret")
		host := enrolled(0)
		host.Spec.PreprovisioningNetworkDataName = "network"
		w.hosts.Add(host)
		w.after(5*time.Second, "the missing Secret is shown", func() bool {
			return condition(w.host(), metal3.RegisteredCondition) == metal3.NetworkDataUnusableReason && strings.Contains(w.host().Status.ErrorMessage, "preprovisioningNetworkDataName")
		})
		if tries := w.sim.Count("CreateNode"); tries != 0 {
			t.Errorf("a node was made %d times", tries)
		}
		network("192.0.2.7")
		w.after(5*time.Second, "the network is known", has("192.0.2.7"))
		w.becomes(metal3.StateAvailable)
		if host := w.host(); host.Status.ErrorMessage != "" {
			t.Errorf("the error stays: %s", host.Status.ErrorMessage)
		}
		patches := w.sim.Count("UpdateNode")
		network("192.0.2.7")
		time.Sleep(10 * time.Second)
		if got := w.sim.Count("UpdateNode"); got != patches {
			t.Errorf("the same network was sent %d times more", got-patches)
		}
		network("192.0.2.8")
		w.after(5*time.Second, "the other network is known", has("192.0.2.8"))
		put("nmstate", "interfaces: []")
		w.after(5*time.Second, "it is told that the Secret has nothing for Ironic", func() bool {
			registered := meta.FindStatusCondition(w.host().Status.Conditions, metal3.RegisteredCondition)
			return registered.Status == metav1.ConditionTrue && strings.Contains(registered.Message, "nmstate") && len(w.registration().NetworkData) == 0
		})
		network("192.0.2.9")
		w.after(5*time.Second, "the network is known again", has("192.0.2.9"))
		w.editSpec(func(s *metal3.BareMetalHostSpec) { s.PreprovisioningNetworkDataName = "" })
		w.after(5*time.Second, "the network is gone", func() bool { return len(w.registration().NetworkData) == 0 })
	})
}

// TestRegisteredAgain: with other credentials, and after an error of its registration, a host is registered anew, which its history
// tells to who has rotated the password. Nothing else begins that.
func TestRegisteredAgain(t *testing.T) {
	inSimulation(t, ironicsim.Options{}, func(t *testing.T, w *world) {
		w.available()
		last := w.host().Status.OperationHistory.Register
		if last.End.IsZero() {
			t.Fatal("the registration has not ended")
		}
		isRenewed := func() bool {
			now := w.host().Status.OperationHistory.Register
			return now.Start.After(last.End.Time) && !now.End.Before(&now.Start)
		}
		time.Sleep(time.Minute)
		w.editSpec(func(s *metal3.BareMetalHostSpec) { s.AutomatedCleaningMode = metal3.CleaningModeDisabled })
		time.Sleep(time.Minute)
		if now := w.host().Status.OperationHistory.Register; now != last {
			t.Errorf("with another setting, it is %+v, and was %+v", now, last)
		}
		w.sim.Sim.AddBMC(enginetest.BMCAddress(0), enginetest.BMCUser, "other")
		w.secret("other")
		w.after(30*time.Second, "registered with the other password", isRenewed)
		if good := w.host().Status.GoodCredentials; good.Version != w.storedSecret().ResourceVersion {
			t.Errorf("then the good credentials are %+v", good)
		}
		last = w.host().Status.OperationHistory.Register
		time.Sleep(time.Minute)
		w.sim.Refuse("UpdateNode", 400, "no")
		w.editSpec(func(s *metal3.BareMetalHostSpec) { s.AutomatedCleaningMode = metal3.CleaningModeMetadata })
		w.after(30*time.Second, "refused", func() bool { return w.host().Status.ErrorType == metal3.RegistrationError })
		w.sim.Accept("UpdateNode")
		w.after(time.Minute, "registered after the error", isRenewed)
		if n := len(slices.DeleteFunc(w.events.told(), func(reason string) bool { return reason != "Registered" })); n != 1 {
			t.Errorf("told %d times that the host has a node", n)
		}
	})
}

// TestOperatorsFinalizerGoes: the Bare Metal Operator puts its finalizer on the Secret with the ramdisk's network, too. After a
// migration, the Secret can be deleted once its host is gone. What another host needs for its BMC stays.
func TestOperatorsFinalizerGoes(t *testing.T) {
	inSimulation(t, ironicsim.Options{}, func(t *testing.T, w *world) {
		network := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: enginetest.Namespace, Name: "network", Finalizers: []string{metal3.SecretFinalizer}},
			Data:       map[string][]byte{"networkData": []byte(`{"networks":[]}`)},
		}
		if err := w.secrets.put(network); err != nil {
			t.Fatal(err)
		}
		finalizersOf := func(name string) []string {
			secret, err := w.secrets.client.CoreV1().Secrets(enginetest.Namespace).Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return secret.Finalizers
		}
		host, other := enrolled(0), enrolled(1)
		host.Spec.PreprovisioningNetworkDataName = "network"
		w.hosts.Add(other)
		w.available(host)
		w.hosts.Remove(t, host.Name)
		w.after(time.Minute, "gone", w.gone)
		if left := finalizersOf("network"); len(left) > 0 {
			t.Errorf("the Secret with the network keeps %v", left)
		}
		if left := finalizersOf("bmc"); len(left) != 1 {
			t.Errorf("the Secret of the other host's BMC has the finalizers %v", left)
		}
	})
}

// TestSecretMadeAlongWithHost: the watch of the Secrets may tell later than that of the
// hosts. Nobody wants to hear of an error then.
func TestSecretMadeAlongWithHost(t *testing.T) {
	inSimulation(t, ironicsim.Options{}, func(t *testing.T, w *world) {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: enginetest.Namespace, Name: "bmc"}, Data: map[string][]byte{"username": []byte("admin"), "password": []byte("secret")}}
		if err := w.secrets.client.Tracker().Create(secretsResource, secret, enginetest.Namespace); err != nil {
			t.Fatal(err)
		}
		w.hosts.Add(enrolled(0))
		time.Sleep(10 * time.Second)
		if s := w.host().Status; s.ErrorMessage != "" || s.ErrorCount != 0 {
			t.Errorf("the host shows %q", s.ErrorMessage)
		}
		if err := w.secrets.client.Tracker().Delete(secretsResource, enginetest.Namespace, "bmc"); err != nil {
			t.Fatal(err)
		}
		w.secret("secret")
		w.after(5*time.Second, "registered", w.registered)
		if got := w.host().Status.ErrorCount; got != 0 {
			t.Errorf("%d errors", got)
		}
	})
}

// TestBootModeChangedWhileProvisioned: what a deployed node cannot be told, it is told
// before it is deployed anew.
func TestBootModeChangedWhileProvisioned(t *testing.T) {
	inSimulation(t, ironicsim.Options{}, func(t *testing.T, w *world) {
		w.secret("secret")
		host := enrolled(0)
		host.Spec.Image = &metal3.Image{URL: "http://images/a", Checksum: "http://images/sums"}
		w.hosts.Add(host)
		w.becomes(metal3.StateProvisioned)
		w.editSpec(func(s *metal3.BareMetalHostSpec) { s.BootMode, s.Architecture = metal3.Legacy, "aarch64" })
		w.after(5*time.Second, "registered anew", func() bool {
			for _, c := range w.host().Status.Conditions {
				if c.Type == metal3.RegisteredCondition {
					return c.ObservedGeneration == w.host().Generation
				}
			}
			return false
		})
		if got := w.registration().Properties["capabilities"]; got != "boot_mode:uefi" {
			t.Errorf("the deployed node has capabilities %v", got)
		}
		w.editSpec(func(s *metal3.BareMetalHostSpec) { s.Image.URL = "http://images/b" })
		w.after(5*time.Minute, "provisioned anew", func() bool {
			return w.host().Status.Provisioning.State == metal3.StateProvisioned && w.host().Status.Provisioning.Image.URL == "http://images/b"
		})
		if got := w.registration().Properties["capabilities"]; got != "boot_mode:bios" {
			t.Errorf("it was deployed with capabilities %v", got)
		}
		if got := w.host().Status.Provisioning.BootMode; got != metal3.Legacy {
			t.Errorf("the status says %s", got)
		}
	})
}

// TestArchitectureOfKubernetes: Ironic chooses boot loaders and ramdisks by the names of the kernel, also of what it is told later.
func TestArchitectureOfKubernetes(t *testing.T) {
	inSimulation(t, ironicsim.Options{}, func(t *testing.T, w *world) {
		w.secret("secret")
		host := enrolled(0)
		host.Spec.Architecture = "arm64"
		w.hosts.Add(host)
		w.after(time.Minute, "the node is made", func() bool { return w.registration().Properties["cpu_arch"] == "aarch64" })
		w.becomes(metal3.StateAvailable) // the inspection has found x86_64
		w.editSpec(func(s *metal3.BareMetalHostSpec) { s.BootMode = metal3.Legacy })
		w.after(5*time.Second, "told anew", func() bool { return w.registration().Properties["cpu_arch"] == "aarch64" })
	})
}

// TestNodeMadeItsOwnParent: by the PATCH of an operator, which Ironic 29.0.5 makes a
// node its own parent by. It could not be switched on any more.
func TestNodeMadeItsOwnParent(t *testing.T) {
	inSimulation(t, ironicsim.Options{}, func(t *testing.T, w *world) {
		w.secret("secret")
		w.hosts.Add(enrolled(0))
		w.becomes(metal3.StateAvailable)
		id := w.host().Status.Provisioning.ID
		_, err := w.sim.UpdateNode(t.Context(), ironic.NoFence, id, []ironic.Patch{{Op: ironic.PatchAdd, Path: "/extra/rack", Value: "7"}})
		if err != nil || !w.sim.Node(id).IsOwnParent() {
			t.Fatalf("the node is not its own parent: %v", err)
		}
		w.after(5*time.Second, "has a power supply of its own", func() bool { return w.registration().DriverInfo["has_dedicated_power_supply"] == true })
		time.Sleep(5 * time.Second)
		patches := w.sim.Count("UpdateNode")
		time.Sleep(time.Minute)
		if got := w.sim.Count("UpdateNode"); got != patches {
			t.Errorf("%d more PATCHes in a minute", got-patches)
		}
	})
}

// slowToVerify is an Ironic that takes long to ask a BMC for the first time.
func slowToVerify() ironicsim.Options {
	delays := ironicsim.All(time.Second)
	delays.Verify = 10 * time.Second
	return ironicsim.Options{Delays: delays}
}

// TestWayToBootCorrected: a node keeps its interfaces, so that one that was never
// verified is made again with others.
func TestWayToBootCorrected(t *testing.T) {
	inSimulation(t, ironicsim.Options{BMCTimeout: time.Second}, func(t *testing.T, w *world) {
		w.sim.BMC(0).SetDead(true)
		w.secret("secret")
		w.hosts.Add(redfishHost())
		w.after(5*time.Second, "the error is shown", func() bool { return w.host().Status.ErrorType == metal3.RegistrationError })
		w.sim.BMC(0).SetDead(false)
		w.editSpec(func(s *metal3.BareMetalHostSpec) {
			s.BMC.Address = "redfish-virtualmedia://192.168.111.1/redfish/v1/Systems/1"
		})
		w.becomes(metal3.StateAvailable)
		if got := w.registration().BootInterface; got != "redfish-virtual-media" {
			t.Errorf("boot_interface is %q", got)
		}
	})
}

// TestWayToBootCorrectedWhileVerified: the same, if Ironic has verified the BMC meanwhile.
func TestWayToBootCorrectedWhileVerified(t *testing.T) {
	inSimulation(t, slowToVerify(), func(t *testing.T, w *world) {
		w.secret("secret")
		w.hosts.Add(enrolled(0))
		w.after(5*time.Second, "the BMC is verified", func() bool {
			node := w.host().Status.Ironic
			return node != nil && node.ProvisionState == string(ironic.Verifying)
		})
		w.editSpec(func(s *metal3.BareMetalHostSpec) {
			s.BMC.Address = "redfish-virtualmedia://" + enginetest.BMCAddress(0) + "/redfish/v1/Systems/1"
		})
		w.becomes(metal3.StateAvailable)
		if got := w.registration().BootInterface; got != "redfish-virtual-media" {
			t.Errorf("boot_interface is %q", got)
		}
	})
}

// TestNodeMadeByHand: a node that somebody has made under the host's name, with another password, is given that of the Secret.
func TestNodeMadeByHand(t *testing.T) {
	inSimulation(t, ironicsim.Options{BMCTimeout: time.Second}, func(t *testing.T, w *world) {
		w.secret("secret")
		w.hosts.Add(enrolled(0))
		w.after(time.Minute, "available", func() bool { return w.host().Status.Provisioning.State == metal3.StateAvailable })
		host := w.host()
		if err := w.sim.Sim.LoseNode(host.Status.Provisioning.ID); err != nil {
			t.Fatal(err)
		}
		id, err := w.sim.Sim.CreateNode(map[string]any{"name": ironic.NodeName(host.Namespace, host.Name), "driver": "ipmi", "driver_info": map[string]any{
			"ipmi_address": enginetest.BMCAddress(0), "ipmi_username": "admin", "ipmi_password": "another",
		}})
		if err != nil {
			t.Fatal(err)
		}
		w.after(time.Hour, "the BMC of that node is verified", func() bool {
			node, _ := w.sim.Sim.Node(id)
			return node["provision_state"] == string(ironic.Manageable)
		})
		if tried := w.host().Status.TriedCredentials.Reference; tried == nil || w.host().Status.GoodCredentials.Reference == nil {
			t.Error("it is forgotten which Secret the host uses")
		}
	})
}

// TestPortsThatIronicDoesNotTake: cards for which Ironic has no ports keep no host from being registered, which tells of
// them; the address that the spec names does, until Ironic takes it.
func TestPortsThatIronicDoesNotTake(t *testing.T) {
	inSimulation(t, ironicsim.Options{BMCTimeout: time.Second}, func(t *testing.T, w *world) {
		const taken = "00:ab:4f:d8:9e:77"
		other, err := w.sim.Sim.CreateNode(map[string]any{"name": "rack-7", "driver": "fake-hardware"})
		if err == nil {
			err = w.sim.Sim.CreatePort(other, taken)
		}
		if err != nil {
			t.Fatal(err)
		}
		w.secret("secret")
		w.hosts.Add(enrolled(0))
		w.after(time.Minute, "available", func() bool { return w.host().Status.Provisioning.State == metal3.StateAvailable })
		host := w.host()
		host.Status.HardwareDetails = host.Status.HardwareDetails.DeepCopy()
		host.Status.HardwareDetails.NIC = []metal3.NIC{
			{Name: "eth0", MAC: host.Spec.BootMACAddress}, {Name: "usb0", MAC: taken}, {Name: "eth1", MAC: "00-AB-4F-D8-9E-66"},
			{Name: "fc0", MAC: "21:00:00:16:3e:aa:bb:01"}, {Name: "ib0", MAC: "a0:00:02:20:fe:80:00:00:00:00:00:00:00:16:3e:03:00:aa:bb:02"},
		}
		if _, err := w.hosts.Record(t.Context(), host); err != nil {
			t.Fatal(err)
		}
		refused := "Expected valid MAC address for address: " + host.Spec.BootMACAddress
		w.sim.Refuse("CreatePort", 400, refused)
		if err := w.sim.Sim.LoseNode(host.Status.Provisioning.ID); err != nil {
			t.Fatal(err)
		}
		want := "Ironic rejects spec.bootMACAddress " + host.Spec.BootMACAddress + " as that of a port: " + refused
		w.after(time.Minute, "the refusal is shown", func() bool { return strings.HasSuffix(w.host().Status.ErrorMessage, want) })
		w.sim.Accept("CreatePort")
		w.after(time.Minute, "registered again", w.registered)
		want = "Network cards without a port in Ironic, by their MAC addresses: " + taken + " belongs to a node in Ironic that no host has"
		if c := conditionOf(w.host(), metal3.RegisteredCondition); c.Status != metav1.ConditionTrue || c.Message != want || w.host().Status.ErrorMessage != "" {
			t.Errorf("registered: %s, %s; error: %s", c.Status, c.Message, w.host().Status.ErrorMessage)
		}
		ports, err := w.sim.ListPorts(t.Context(), ironic.PortFilter{Node: w.host().Status.Provisioning.ID})
		if err != nil || len(ports) != 2 {
			t.Errorf("%d ports: %v; %v", len(ports), ports, err)
		}
	})
}

// TestAddressOfAnotherBMC: who has had a BMC verified, and then writes the address of another one, has that one only when Ironic has
// verified it. Before, it would be kept from its owner.
func TestAddressOfAnotherBMC(t *testing.T) {
	inSimulation(t, slowToVerify(), func(t *testing.T, w *world) {
		w.secret("secret")
		w.hosts.Add(enrolled(0))
		nodeIs := func(state ironic.ProvisionState) func() bool {
			return func() bool {
				node := w.host().Status.Ironic
				return node != nil && node.ProvisionState == string(state)
			}
		}
		w.after(10*time.Second, "verifying", nodeIs(ironic.Verifying))
		w.update(func(h *metal3.BareMetalHost) {
			metav1.SetMetaDataAnnotation(&h.ObjectMeta, metal3.PausedAnnotation, "")
		})
		w.after(time.Minute, "verified, and paused", nodeIs(ironic.Manageable))
		const others = "ipmi://192.0.2.200"
		w.sim.Sim.AddBMC("192.0.2.200", enginetest.BMCUser, "that of the other one")
		w.update(func(h *metal3.BareMetalHost) {
			h.Spec.BMC.Address = others
			delete(h.Annotations, metal3.PausedAnnotation)
		})
		w.after(time.Minute, "Ironic is told the address, and the BMC refuses", func() bool {
			return w.registration().DriverInfo["ipmi_address"] == "192.0.2.200" && w.host().Status.ErrorType == metal3.RegistrationError
		})
		if host := w.host(); !nodeIs(ironic.Enroll)() || host.Status.Provisioning.State != metal3.StateRegistering {
			t.Errorf("the node is %s, and the host %s", host.Status.Ironic.ProvisionState, host.Status.Provisioning.State)
		}
	})
}

// TestNameOfBMCInCapitals: Ironic 33.0 and later do nothing any more with a node whose BMC has a name with capital letters, as older servers have
// told it. What runs on its machine goes on, and the node is told no more than the name in lower case.
func TestNameOfBMCInCapitals(t *testing.T) {
	const name, told = "ILOCZJ1234ABC.example.org", "iloczj1234abc.example.org"
	inSimulation(t, ironicsim.Options{}, func(t *testing.T, w *world) {
		w.sim.Sim.AddBMC(name, enginetest.BMCUser, enginetest.BMCPassword)
		host := enrolled(0)
		host.Spec.BMC.Address = "ipmi://" + name
		w.available(host)
		w.provision()
		address := func() any { return w.registration().DriverInfo["ipmi_address"] }
		if got := address(); got != told {
			t.Fatalf("a new node is told %v", got)
		}
		id := w.host().Status.Provisioning.ID
		node, _ := w.sim.Sim.Node(id)
		info := node["driver_info"].(map[string]any)
		info["ipmi_address"] = name
		w.setNode("driver_info", info)
		requests := func() (updates, others int) {
			updates = w.sim.Count("UpdateNode")
			return updates, w.sim.Sim.Stats().Writes() - updates
		}
		updates, _ := requests()
		w.editSpec(func(s *metal3.BareMetalHostSpec) { s.Description = "registered again" })
		time.Sleep(time.Minute)
		if now, _ := requests(); address() != name || now != updates {
			t.Errorf("an older Ironic is told %v in %d requests, though it does not mind", address(), now-updates)
		}

		w.stop()
		old := w.sim.Sim.Snapshot()
		w.sim = enginetest.NewIronic(t, ironicsim.Options{MaxVersion: ironic.NewestAPIVersion.String(), WithoutDefects: true})
		w.sim.Sim.AddBMC(name, enginetest.BMCUser, "kept").SetPower(string(ironic.PowerOn))
		w.sim.Sim.Restore(old)
		info["ipmi_password"] = "kept"
		w.setNode("driver_info", info)
		w.start(0)
		w.after(5*time.Second, "Ironic is told the name in lower case", func() bool { return address() == told })
		time.Sleep(time.Minute)
		nowUpdates, nowOthers := requests()
		password := func() any {
			node, _ := w.sim.Sim.Node(id)
			return node["driver_info"].(map[string]any)["ipmi_password"]
		}
		if now := w.host(); nowUpdates != 1 || nowOthers != 0 || now.Status.Provisioning.ID != id || !w.in(metal3.StateProvisioned)() || now.Status.Ironic.PowerState != string(ironic.PowerOn) || password() != "kept" {
			t.Errorf("%d updates and %d other requests; %s, %s", nowUpdates, nowOthers, now.Status.Provisioning.State, now.Status.ErrorMessage)
		}
	})
}

// TestNamesOfURLs: a host may have a name that Ironic reserves for other resources of its API. Its node's name has the namespace in front.
func TestNamesOfURLs(t *testing.T) {
	inSimulatedFleet(t, fleetSettings(), ironicsim.Options{}, func(t *testing.T, w *world) {
		var keys []types.NamespacedName
		for i, name := range []string{"detail", "maintenance", "management", "states", "validate"} {
			host := enrolledIn(enginetest.Namespace, name, i)
			w.addWithSecret(host)
			keys = append(keys, enginetest.KeyOf(host))
		}
		w.after(2*time.Minute, "available", w.all(keys, arrived(metal3.StateAvailable)))
	})
}
