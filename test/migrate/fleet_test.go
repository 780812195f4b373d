// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// member is a host of a fleet as the operator leaves it: with a node in Ironic under
// its name, a Secret and a HardwareData that it owns, and a status.
type member struct {
	ns, name string
	host     *metal3.BareMetalHost
	node     string // UUID in Ironic
}

// what becomes of the member with a number.
const (
	provisionedShare = 3 // of 4 are provisioned, one is available
	// Every second one of the available was never used: the operator then leaves its
	// node manageable. The others were deprovisioned, which ends in available.
	unusedShare   = 2
	pausedOne     = 5
	detachedOne   = 6
	deletedPaused = 7
	deletedOne    = 8
	specials      = 10
)

// newFleet makes n hosts in a namespace of their own, many at a time.
func newFleet(t *testing.T, n int) []*member {
	t.Helper()
	return newFleetFrom(t, 0, n)
}

// newFleetFrom makes the members with the numbers from first on.
func newFleetFrom(t *testing.T, first, n int) []*member {
	t.Helper()
	began := time.Now()
	ns := newNamespace(t)
	members := make([]*member, n)
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(16)
	for i := range members {
		members[i] = &member{ns: ns, name: fmt.Sprintf("host-%03d", first+i)}
		group.Go(func() error { return members[i].make(ctx, first+i) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d hosts in %s", n, time.Since(began).Round(time.Millisecond))
	return members
}

func newNamespace(t *testing.T) string {
	t.Helper()
	ns, err := s.Core.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "fleet-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return ns.Name
}

func (m *member) make(ctx context.Context, i int) error {
	const user, password = "root", "calvin"
	address, mac := s.ironic.NewBMC(user, password), testbed.NewMAC()
	machine := s.ironic.BMC(address)
	machine.SetPower("power on")
	image := &metal3.Image{URL: "http://192.0.2.1/image.qcow2", Checksum: "http://192.0.2.1/image.qcow2.sha256", ChecksumType: metal3.SHA256}
	provisioned := i%(provisionedShare+1) != 0

	host := &metal3.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{
			Name: m.name, Namespace: m.ns, Finalizers: []string{metal3.BareMetalHostFinalizer},
			Labels: map[string]string{"rack": fmt.Sprint(i % 7)}, Annotations: map[string]string{},
		},
		Spec: metal3.BareMetalHostSpec{
			Online: true, BootMACAddress: mac, AutomatedCleaningMode: metal3.CleaningModeMetadata,
			BMC: metal3.BMCDetails{Address: address, CredentialsName: m.name + "-bmc"},
		},
	}
	if provisioned {
		host.Spec.Image = image
	}
	switch i {
	case pausedOne:
		host.Annotations[metal3.PausedAnnotation] = "metal3.io/capm3"
	case detachedOne:
		host.Annotations[metal3.DetachedAnnotation] = ""
	}
	created, err := s.Metal3.Metal3V1alpha1().BareMetalHosts(m.ns).Create(ctx, host, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	owner := metav1.OwnerReference{APIVersion: metal3.SchemeGroupVersion.String(), Kind: "BareMetalHost", Name: m.name, UID: created.UID}
	secret, err := s.Core.CoreV1().Secrets(m.ns).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: m.name + "-bmc", Labels: map[string]string{"environment.metal3.io": "baremetal"},
			Finalizers: []string{metal3.SecretFinalizer}, OwnerReferences: []metav1.OwnerReference{owner},
		},
		StringData: map[string]string{"username": user, "password": password},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	hardware := &metal3.HardwareDetails{
		RAMMebibytes: 65536, Hostname: m.name,
		CPU: metal3.CPU{Arch: "x86_64", Count: 8, ClockMegahertz: 2400},
		NIC: []metal3.NIC{{Name: "eth0", MAC: mac, PXE: true}},
	}
	owner.BlockOwnerDeletion = nil
	if _, err = s.Metal3.Metal3V1alpha1().HardwareData(m.ns).Create(ctx, &metal3.HardwareData{
		ObjectMeta: metav1.ObjectMeta{Name: m.name, Finalizers: []string{metal3.HardwareDataFinalizer}, OwnerReferences: []metav1.OwnerReference{owner}},
		Spec:       metal3.HardwareDataSpec{HardwareDetails: hardware},
	}, metav1.CreateOptions{}); err != nil {
		return err
	}
	state := "active"
	switch {
	case !provisioned && i%(unusedShare*(provisionedShare+1)) == 0:
		state = "manageable"
	case !provisioned:
		state = "available"
	}
	if m.node, err = newNode(created, state, i != detachedOne); err != nil {
		return err
	}
	now := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
	past := metal3.OperationMetric{Start: now, End: now}
	credentials := metal3.CredentialsStatus{Reference: &corev1.SecretReference{Name: secret.Name, Namespace: m.ns}, Version: secret.ResourceVersion}
	created.Status = metal3.BareMetalHostStatus{
		OperationalStatus: metal3.OperationalStatusOK, PoweredOn: true, LastUpdated: &now, HardwareDetails: hardware,
		GoodCredentials: credentials, TriedCredentials: credentials,
		OperationHistory: metal3.OperationHistory{Register: past, Inspect: past},
		Provisioning:     metal3.ProvisionStatus{ID: m.node, State: metal3.StateAvailable, BootMode: metal3.UEFI, RootDeviceHints: &metal3.RootDeviceHints{DeviceName: "/dev/sda"}},
	}
	if provisioned {
		created.Status.Provisioning.State, created.Status.Provisioning.Image = metal3.StateProvisioned, *image
		created.Status.OperationHistory.Provision = past
	}
	if i == detachedOne {
		created.Status.OperationalStatus = metal3.OperationalStatusDetached
	}
	if m.host, err = s.Metal3.Metal3V1alpha1().BareMetalHosts(m.ns).UpdateStatus(ctx, created, metav1.UpdateOptions{}); err != nil {
		return err
	}
	if i == deletedPaused || i == deletedOne {
		if i == deletedPaused {
			m.host.Annotations = map[string]string{metal3.PausedAnnotation: ""}
			if m.host, err = s.Metal3.Metal3V1alpha1().BareMetalHosts(m.ns).Update(ctx, m.host, metav1.UpdateOptions{}); err != nil {
				return err
			}
		}
		return s.Metal3.Metal3V1alpha1().BareMetalHosts(m.ns).Delete(ctx, m.name, metav1.DeleteOptions{})
	}
	return nil
}

// newNode makes the node that the operator would have made for the host, in a
// provision state.
func newNode(host *metal3.BareMetalHost, state string, inIronic bool) (id string, err error) {
	access, err := bmc.Parse(host.Spec.BMC.Address, false)
	if err != nil {
		return "", err
	}
	info := access.DriverInfo("root", "calvin")
	info["deploy_kernel"], info["deploy_ramdisk"] = testbed.UnusedKernelURL, testbed.UnusedRamdiskURL
	if state == "active" {
		info["force_persistent_boot_device"] = "Default" // the operator sets it when it deploys
	}
	name := host.Namespace + "~" + host.Name
	id, err = s.ironic.CreateNode(object{
		"name": name, "driver": access.Driver, "driver_info": info, "boot_interface": access.BootInterface,
		"automated_clean": true, "inspect_interface": "agent", "properties": object{"capabilities": "boot_mode:uefi", "cpu_arch": "x86_64"},
	})
	if err != nil {
		return "", err
	}
	if !inIronic {
		return id, s.ironic.LoseNode(id)
	}
	if err := s.ironic.CreatePort(id, host.Spec.BootMACAddress); err != nil {
		return "", err
	}
	fields := object{"provision_state": state, "power_state": "power on"}
	if state == "active" {
		// The operator sets the UID that a host has when it is deployed, and nothing when it adopts a node anew: after a move, or
		// when Ironic has lost its database.
		switch host.Name[len(host.Name)-1] % 3 {
		case 0:
			fields["instance_uuid"] = string(host.UID)
		case 1:
			fields["instance_uuid"] = uuid.NewString()
		}
	}
	return id, s.ironic.SetNode(id, fields)
}
