// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// testdata holds nodes as real Ironics gave them: RELEASE-what.json in the field
// list that the client asks for, RELEASE-what-detail.json in the detailed form,
// both without their links. The releases are those of Debian: bookworm is Ironic
// 21.4 (API 1.82), trixie 29.0 (1.96), sid 39.0 (1.115). RELEASE-inventory.json
// is the answer to GET inventory after a ramdisk had reported, with the hook
// parse-lldp on; bookworm's is written by hand, in ironic-inspector's format.
var releases = []string{"bookworm", "trixie", "sid"}

func readTestdata(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// recorded is the recorded node of that name, without .json.
func recorded(t testing.TB, name string) *ironic.Node {
	t.Helper()
	node := &ironic.Node{Address: ownBMC}
	if err := json.Unmarshal(readTestdata(t, name+".json"), node); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	// It was recorded of another host, with the BMC of a machine of that time.
	node.Address, node.Driver = ownBMC, "ipmi"
	if node.Name != "" {
		node.Name = "metal3~host-0"
	}
	return node
}

// ownBMC is what Ironic was told of the BMC that newHost has.
var ownBMC = ironic.Address{IPMIAddress: "192.0.2.1"}

// recordings are the names of the recorded nodes that match a pattern.
func recordings(t testing.TB, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", pattern+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".json")
		if !strings.HasSuffix(name, "-inventory") {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		t.Fatalf("nothing recorded matches %q", pattern)
	}
	return names
}

// inEachRelease names the recording RELEASE-what of each release that has it.
func inEachRelease(t testing.TB, what string) []string {
	t.Helper()
	var names []string
	for _, release := range releases {
		if _, err := os.Stat(filepath.Join("testdata", release+"-"+what+".json")); err == nil {
			names = append(names, release+"-"+what)
		}
	}
	if len(names) < 2 {
		t.Fatalf("%q is recorded of %d releases", what, len(names))
	}
	return names
}

var (
	created = metav1.NewTime(time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC))
	// now is later than all that is recorded.
	now = time.Date(2026, 11, 21, 8, 0, 0, 123456789, time.UTC)
)

type hostOption func(*metal3.BareMetalHost)

// newHost is a host that the controller has registered in Ironic.
func newHost(options ...hostOption) *metal3.BareMetalHost {
	h := &metal3.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "metal3", Name: "host-0", UID: "0a5ea4e9-7c8a-4a5b-8f1a-4d4d2b6e7a10", Generation: 2,
			Finalizers: []string{metal3.BareMetalHostFinalizer}, CreationTimestamp: created,
		},
		Spec: metal3.BareMetalHostSpec{
			Online:         true,
			BMC:            metal3.BMCDetails{Address: "ipmi://192.0.2.1", CredentialsName: "host-0-bmc"},
			BootMACAddress: "52:54:00:11:22:33",
		},
		Status: metal3.BareMetalHostStatus{
			OperationalStatus: metal3.OperationalStatusOK,
			Provisioning:      metal3.ProvisionStatus{State: metal3.StateRegistering, ID: "00000000-0000-4000-8000-000000000001"},
			OperationHistory:  metal3.OperationHistory{Register: metal3.OperationMetric{Start: created}},
			LastUpdated:       &created,
		},
	}
	SetTriedCredentials(h, "7", now)
	registeredAs()(h)
	for _, o := range options {
		o(h)
	}
	return h
}

// withState is a host in a state that it was led to by us.
func withState(s metal3.ProvisioningState) hostOption {
	return func(h *metal3.BareMetalHost) {
		h.Status.Provisioning.State = s
		if s == metal3.StateDeprovisioning {
			h.Status.OperationHistory.Deprovision.Start = metav1.NewTime(created.Add(-time.Hour))
		}
	}
}

func withRegistration(reason, message string) hostOption {
	return func(h *metal3.BareMetalHost) {
		h.Status.Record.Registration = newRegistration(h, reason, message)
	}
}

// registeredAs is a host whose node was registered with the server's settings of now,
// which have no digest in these tests, and what change makes of it.
func registeredAs(change ...func(*metal3.RegisteredWith)) hostOption {
	return func(h *metal3.BareMetalHost) {
		with := metal3.RegisteredWith{BMC: BMCKey(h).String()}
		for _, c := range change {
			c(&with)
		}
		SetRegistered(h, with, "")
	}
}

func dueWhenIdle(with *metal3.RegisteredWith) { with.DueWhenIdle = true }

func withError(kind metal3.ErrorType, message string, count int) hostOption {
	return func(h *metal3.BareMetalHost) {
		h.Status.OperationalStatus = metal3.OperationalStatusError
		h.Status.ErrorType, h.Status.ErrorMessage, h.Status.ErrorCount = kind, message, count
		h.Status.Record.MachineErrors = count
		h.Status.Record.Error = nil
		if kind != "" {
			h.Status.Record.Error = &newError(kind, message).HostError
		}
	}
}

func withPower(on bool) hostOption { return func(h *metal3.BareMetalHost) { h.Status.PoweredOn = on } }

func externallyProvisioned(h *metal3.BareMetalHost) { h.Spec.ExternallyProvisioned = true }

func deleted(h *metal3.BareMetalHost) { h.DeletionTimestamp = &created }

func annotated(key, value string) hostOption {
	return func(h *metal3.BareMetalHost) { metav1.SetMetaDataAnnotation(&h.ObjectMeta, key, value) }
}

// observe is host after an observation of node.
func observe(host *metal3.BareMetalHost, node *ironic.Node) *metal3.BareMetalHost {
	h := host.DeepCopy()
	h.Status, _ = Observe(host, Observation{Node: node}, now)
	return h
}

// stored is host after a stay in etcd.
func stored(t testing.TB, host *metal3.BareMetalHost) *metal3.BareMetalHost {
	t.Helper()
	b, err := json.Marshal(host)
	if err != nil {
		t.Fatal(err)
	}
	h := &metal3.BareMetalHost{}
	if err := json.Unmarshal(b, h); err != nil {
		t.Fatal(err)
	}
	return h
}

// TestGoodForOneBMC: that a BMC has accepted the credentials says nothing of another one, which the host would otherwise keep from its
// owner while it runs something.
func TestGoodForOneBMC(t *testing.T) {
	for address, isGood := range map[string]bool{"ipmi://192.0.2.1": true, "redfish://192.0.2.1/redfish/v1/Systems/1": true, "ipmi://192.0.2.2": false} {
		host := newHost(func(h *metal3.BareMetalHost) { h.Spec.BMC.Address = "ipmi://192.0.2.1" }, registeredAs())
		host.Status.GoodCredentials.Version = "1"
		host.Spec.BMC.Address = address
		registeredAs()(host)
		if got := host.Status.GoodCredentials.Version != ""; got != isGood {
			t.Errorf("%s: the credentials count as good: %t", address, got)
		}
	}
}
