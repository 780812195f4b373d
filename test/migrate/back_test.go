// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// Hosts of more than one page of a list move to our server, whose embedded etcd counts its
// resourceVersions from the beginning, and back.
func TestThereAndBack(t *testing.T) {
	fleet := newFleet(t, 260)
	ns := fleet[0].ns
	hosts := s.Metal3.Metal3V1alpha1().BareMetalHosts(ns)
	policies := s.Metal3.Metal3V1alpha1().HostUpdatePolicies(ns)
	for _, name := range []string{policyDeleted, policyReplaced} {
		if _, err := policies.Create(t.Context(), &metal3.HostUpdatePolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	before := uidsIn(t, ns)
	server := install(t, "")
	expectText(t, server.run(t, "import", "--dry-run"), "would copy: 260 baremetalhosts, 260 hardwaredata")
	expectText(t, server.run(t, "import"), "all UIDs and contents are the same: 260 baremetalhosts, 260 hardwaredata")
	expectText(t, server.run(t, "import"), "copied: none")
	server.refused(t, "has not been switched", "import", "--verify")
	server.refused(t, "run import --verify", "import", "--switch", "--wait=1s")
	server.refused(t, "switched already", "import")
	server.refused(t, "does not answer yet", "import", "--verify", "--wait=1s")
	expectOtherIronicNoticed(t, server)
	s.ironic.ResetStats()
	if err := server.Restart(t.Context(), serverArgs()...); err != nil {
		t.Fatal(err)
	}
	if writes := writesIn(s.ironic.Stats().Requests); len(writes) > 0 {
		t.Errorf("before the switch was verified, Ironic was asked for %v", writes)
	}
	// As soon as the API is served, clients use it. That does not keep the switch from being completed.
	eventually(t, func(ctx context.Context) error {
		_, err := policies.List(ctx, metav1.ListOptions{})
		return err
	})
	for _, name := range []string{policyDeleted, policyReplaced} {
		if err := policies.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	replaced, err := policies.Create(t.Context(), &metal3.HostUpdatePolicy{ObjectMeta: metav1.ObjectMeta{Name: policyReplaced}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	delete(before, "hostupdatepolicies/"+policyDeleted)
	before["hostupdatepolicies/"+policyReplaced] = replaced.UID
	expectText(t, server.run(t, "import", "--verify"),
		ns+"/"+policyDeleted+" is not served: it was deleted after the switch", ns+"/"+policyReplaced+" is served with UID",
		"served with the UIDs that they had, 260 baremetalhosts, 260 hardwaredata")

	// Our leader looks at all of them, and finds them as they are to be. The one that
	// was being deleted goes.
	leaving := fleet[deletedOne].name
	eventually(t, func(ctx context.Context) error {
		list, err := hosts.List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		waiting := 0
		for i := range list.Items {
			if !meta.IsStatusConditionTrue(list.Items[i].Status.Conditions, metal3.RegisteredCondition) {
				waiting++
			}
		}
		if want := 3; waiting > want { // paused, detached, deleted while paused
			return fmt.Errorf("%d hosts are not registered, want %d", waiting, want)
		}
		if _, err := hosts.Get(ctx, leaving, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the host that was being deleted is still there (%v)", err)
		}
		return nil
	})
	gone(t, ns, leaving)
	for _, name := range []string{"baremetalhosts/" + leaving, "hardwaredata/" + leaving, "secrets/" + leaving + "-bmc"} {
		delete(before, name)
	}
	expectUIDs(t, ns, before)
	if writes := writesIn(s.ironic.Stats().Requests); writes["PUT /v1/nodes/{node}/states/power"] > 1 || writes["DELETE /v1/nodes/{node}"] != 1 || len(writes) > 2 {
		t.Errorf("but for switching off and deleting one node, Ironic was asked for %v", writes)
	}
	expectOnlyLookedAt(t, server, leaving)
	expectLive(t, fleet[1])
	// The resourceVersion that a client got from the CRDs is in the future here.
	if _, err := hosts.Watch(t.Context(), metav1.ListOptions{ResourceVersion: "1000000000"}); !apierrors.IsResourceExpired(err) {
		t.Errorf("a watch from another etcd's resourceVersion: %v, want 410", err)
	}

	expectText(t, server.run(t, "import", "--switch"), "nothing is left to do")
	expectText(t, server.run(t, "import", "--verify"), "nothing is left to do")

	// What happens from now on has to be on the way back too.
	deleted, changed, added := fleet[20].name, fleet[21].name, "added"
	if err := hosts.Delete(t.Context(), deleted, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	gone(t, ns, deleted)
	if _, err := hosts.Patch(t.Context(), changed, types.MergePatchType, []byte(`{"metadata":{"labels":{"rack":"moved"}},"spec":{"description":"repaired"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	addHost(t, ns, added)
	addOwned(t, ns)
	after := uidsIn(t, ns)
	if _, err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	out, err := server.try(t, "export")
	if err == nil || !strings.Contains(err.Error(), "do not start the operator yet") || !strings.Contains(err.Error(), "BareMetalHost "+ns+"/"+deleted) {
		t.Errorf("export with hosts that were deleted: %v", err)
	}
	expectText(t, out, "updated, 1 created", "objects without an owner for now, because their owners get new UIDs: 1", "objects that have their owners again: 1")
	// From now on, what clients write to the CRDs counts.
	written, createdThere := fleet[22].name, "created-there"
	if _, err := hosts.Patch(t.Context(), written, types.MergePatchType, []byte(`{"spec":{"description":"written there"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := hosts.Create(t.Context(), &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Name: createdThere}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	expectText(t, server.run(t, "export", "--prune"), "BareMetalHost "+ns+"/"+deleted+" is deleted", written+" differs from metal3-apiserver in spec.description", "start it")

	back := uidsIn(t, ns)
	if host, err := hosts.Get(t.Context(), written, metav1.GetOptions{}); err != nil || host.Spec.Description != "written there" || back["baremetalhosts/"+createdThere] == "" {
		t.Errorf("what was written to the CRDs after they had got the group back is lost: %v, %+v, %s has the UID %q", err, host.Spec, createdThere, back["baremetalhosts/"+createdThere])
	}
	delete(back, "baremetalhosts/"+createdThere)
	if err := hosts.Delete(t.Context(), createdThere, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"baremetalhosts/" + added, "hostfirmwaresettings/" + newSettings, "firmwareschemas/schema-new", "hostupdatepolicies/" + policyReplaced} {
		if back[name] == "" || back[name] == after[name] {
			t.Errorf("%s has UID %q; it was %q, which the CRDs cannot keep", name, back[name], after[name])
		}
		after[name] = back[name]
	}
	expectUIDs(t, ns, after)
	secret, err := s.Core.CoreV1().Secrets(ns).Get(t.Context(), added+"-bmc", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(secret.OwnerReferences) != 1 || secret.OwnerReferences[0].UID != back["baremetalhosts/"+added] || len(secret.Annotations) > 0 {
		t.Errorf("the Secret of a host with a new UID has the owners %+v and the annotations %v", secret.OwnerReferences, secret.Annotations)
	}
	host, err := hosts.Get(t.Context(), changed, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if host.Labels["rack"] != "moved" || host.Spec.Description != "repaired" || host.Status.Provisioning.State != metal3.StateProvisioned || host.Status.Provisioning.ID != fleet[21].node {
		t.Errorf("what was changed after the switch is not in the CRDs: %+v", host)
	}
	unlock(t, ns)
}

// writesIn are the requests that change something in Ironic.
func writesIn(requests map[string]int) map[string]int {
	writes := maps.Clone(requests)
	maps.DeleteFunc(writes, func(kind string, _ int) bool { return strings.HasPrefix(kind, "GET ") })
	return writes
}

// step is what the server's log says of a step towards Ironic.
var step = regexp.MustCompile(`"Next step" .*host="[^"/]*/([^"]*)" do="([^"]*)"`)

// expectOnlyLookedAt looks whether our leader did anything with the hosts, apart from
// one, but compare what Ironic has with what is wanted, which is the step Register.
func expectOnlyLookedAt(t *testing.T, server *installation, but string) {
	t.Helper()
	log, err := server.Logs()
	if err != nil {
		t.Fatal(err)
	}
	did := map[string]int{}
	for _, match := range step.FindAllStringSubmatch(log, -1) {
		if match[1] != but && match[2] != "Register" {
			did[match[2]]++
		}
	}
	if len(did) > 0 {
		t.Errorf("hosts that were as they are to be were taken through these steps: %v", did)
	}
}

// expectLive looks whether a read shows what has just happened in Ironic.
func expectLive(t *testing.T, m *member) {
	t.Helper()
	if err := s.ironic.SetNode(m.node, object{"maintenance": true, "maintenance_reason": "a fan is broken"}); err != nil {
		t.Fatal(err)
	}
	host, err := s.Metal3.Metal3V1alpha1().BareMetalHosts(m.ns).Get(t.Context(), m.name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if host.Status.Ironic == nil || host.Status.Ironic.MaintenanceReason != "a fan is broken" {
		t.Errorf("the status is not live: %+v", host.Status.Ironic)
	}
	if err := s.ironic.SetNode(m.node, object{"maintenance": false, "maintenance_reason": nil}); err != nil {
		t.Fatal(err)
	}
}

// The names of policies that clients delete and replace before the switch is verified.
const policyDeleted, policyReplaced = "deleted", "replaced"

// newSettings is the name of HostFirmwareSettings that a user makes.
const newSettings = "new"

// addOwned creates two objects of which the owner is of the kind that comes later.
func addOwned(t *testing.T, ns string) {
	t.Helper()
	settings, err := s.Metal3.Metal3V1alpha1().HostFirmwareSettings(ns).Create(t.Context(), &metal3.HostFirmwareSettings{
		ObjectMeta: metav1.ObjectMeta{Name: newSettings}, Spec: metal3.HostFirmwareSettingsSpec{Settings: metal3.DesiredSettingsMap{}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Metal3.Metal3V1alpha1().FirmwareSchemas(ns).Create(t.Context(), &metal3.FirmwareSchema{
		ObjectMeta: metav1.ObjectMeta{Name: "schema-new", OwnerReferences: []metav1.OwnerReference{{
			APIVersion: metal3.SchemeGroupVersion.String(), Kind: "HostFirmwareSettings", Name: settings.Name, UID: settings.UID,
		}}},
		Spec: metal3.FirmwareSchemaSpec{Schema: map[string]metal3.SettingSchema{}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// addHost creates a host as a user does, and waits until it owns its Secret.
func addHost(t *testing.T, ns, name string) {
	t.Helper()
	address := s.ironic.NewBMC("root", "calvin")
	secrets := s.Core.CoreV1().Secrets(ns)
	if _, err := secrets.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name + "-bmc"}, StringData: map[string]string{"username": "root", "password": "calvin"},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	host := &metal3.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: metal3.BareMetalHostSpec{
			BootMACAddress: "52:54:00:ff:ff:01",
			BMC:            metal3.BMCDetails{Address: address, CredentialsName: name + "-bmc"},
			InspectionMode: metal3.InspectionModeDisabled, AutomatedCleaningMode: metal3.CleaningModeDisabled,
		},
	}
	if _, err := s.Metal3.Metal3V1alpha1().BareMetalHosts(ns).Create(t.Context(), host, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(ctx context.Context) error {
		secret, err := secrets.Get(ctx, name+"-bmc", metav1.GetOptions{})
		if err == nil && len(secret.OwnerReferences) == 0 {
			err = fmt.Errorf("the host does not yet own its Secret")
		}
		return err
	})
}

// expectOtherIronicNoticed starts the server with another Ironic than the hosts have their nodes in. Nothing is registered there.
func expectOtherIronicNoticed(t *testing.T, server *installation) {
	t.Helper()
	other, err := testbed.StartSimulatedIronic(ironicsim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := server.Restart(t.Context(), append(serverArgs(), "--ironic-endpoint="+other.URL())...); err != nil {
		t.Fatal(err)
	}
	server.refused(t, "finds the nodes of none of the 257 hosts", "import", "--verify", "--wait=1s")
	if writes := writesIn(other.Stats().Requests); len(writes) > 0 {
		t.Errorf("another Ironic was asked for %v", writes)
	}
}
