// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/deploy"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/recorder"
)

// HardwareStore keeps the HardwareData objects, one for each host, of its name.
type HardwareStore interface {
	Get(ctx context.Context, namespace, name string) (*metal3.HardwareData, error)
	// Put creates data, or replaces the spec of what is there.
	Put(ctx context.Context, data *metal3.HardwareData) error
	// RemoveFinalizer lets an object go; that there is none is no error.
	RemoveFinalizer(ctx context.Context, namespace, name, finalizer string) error
}

// hardware records what is known of the hardware of machines.
type hardware struct {
	hosts    Hosts
	recorder *recorder.Recorder
	store    HardwareStore
	ramdisk  deploy.Ramdisk
	clock    clock.PassiveClock
}

// recordGiven records the hardware that a user gives in place of an inspection. A HardwareData takes
// precedence over the annotation, unless the host has what it says already, which the annotation corrects.
// Ironic is told of other network cards.
func (h *hardware) recordGiven(ctx context.Context, task Task) (Outcome, error) {
	details, err := h.given(ctx, task.Host)
	if err != nil {
		return Outcome{}, err
	}
	host, err := h.recorder.Record(ctx, task.Host, func(host *metal3.BareMetalHost) {
		delete(host.Annotations, metal3.HardwareDetailsAnnotation)
		known := host.Status.HardwareDetails
		if details == nil || known != nil && !host.InspectionDisabled() {
			return
		}
		if known == nil {
			known = &metal3.HardwareDetails{}
		}
		if !equality.Semantic.DeepEqual(known.NIC, details.NIC) {
			lifecycle.RegisterAgain(host)
		}
		host.Status.HardwareDetails, host.Status.Record.Inspected = details, false
		host.Status.Record.UnusableInventory = nil // this stands for it
		if node := host.Status.Ironic; node != nil {
			// Once inspections are enabled again, the inventory is read again.
			node.InspectionFinishedAt, node.UnreadInventory = nil, ""
		}
	})
	if err != nil {
		return Outcome{}, err
	}
	_, err = h.setArchitecture(ctx, host)
	return Outcome{}, err
}

func (h *hardware) given(ctx context.Context, host *metal3.BareMetalHost) (*metal3.HardwareDetails, error) {
	data, err := h.store.Get(ctx, host.Namespace, host.Name)
	if live.IgnoreNotFound(err) != nil {
		return nil, err
	}
	var known *metal3.HardwareDetails
	if err == nil && lifecycle.IsHardwareFor(host, data) {
		known = data.Spec.HardwareDetails
	}
	if known != nil && !(host.InspectionDisabled() && equality.Semantic.DeepEqual(known, host.Status.HardwareDetails)) {
		return known, nil
	}
	value, has := host.Annotations[metal3.HardwareDetailsAnnotation]
	if !has {
		return known, nil
	}
	details, err := metal3.ParseHardwareDetailsAnnotation(value)
	if err != nil {
		klog.FromContext(ctx).Error(err, "The annotation with hardware details cannot be read and is dropped", "annotation", metal3.HardwareDetailsAnnotation)
		return known, nil
	}
	if details == nil {
		return known, nil // the annotation is empty
	}
	return details, h.put(ctx, host, details)
}

// keep stores what the inspection found in a HardwareData, which clusterctl moves
// along with the host, and completes the architecture in the spec. It returns the host as
// it is then.
func (h *hardware) keep(ctx context.Context, host *metal3.BareMetalHost) (*metal3.BareMetalHost, error) {
	details := host.Status.HardwareDetails
	if details == nil {
		return host, nil
	}
	if err := h.put(ctx, host, details); err != nil {
		return nil, err
	}
	return h.setArchitecture(ctx, host)
}

func (h *hardware) put(ctx context.Context, host *metal3.BareMetalHost, details *metal3.HardwareDetails) error {
	data := &metal3.HardwareData{
		ObjectMeta: metav1.ObjectMeta{
			Name: host.Name, Namespace: host.Namespace,
			Finalizers:      []string{metal3.HardwareDataFinalizer},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(host, metal3.SchemeGroupVersion.WithKind("BareMetalHost"))},
		},
		Spec: metal3.HardwareDataSpec{HardwareDetails: details.DeepCopy()},
	}
	if err := h.store.Put(ctx, data); err != nil {
		return fmt.Errorf("writing HardwareData %s/%s: %w", host.Namespace, host.Name, err)
	}
	return nil
}

// setArchitecture completes the spec of a host by what is known of its hardware.
func (h *hardware) setArchitecture(ctx context.Context, host *metal3.BareMetalHost) (*metal3.BareMetalHost, error) {
	details := host.Status.HardwareDetails
	if host.Spec.Architecture != "" || details == nil || details.CPU.Arch == "" {
		return host, nil
	}
	updated := host.DeepCopy()
	updated.Spec.Architecture = details.CPU.Arch
	written, err := h.hosts.Update(ctx, updated)
	if err != nil {
		return nil, err
	}
	registered := written.DeepCopy()
	if !h.hasSameRamdisk(host, written) {
		return registered, nil // a later step registers it again
	}
	// The spec says what Ironic has found itself, so the registration is up to date.
	if r := registered.Status.Record.Registration; r != nil && r.Generation == host.Generation {
		r.Generation = written.Generation
	}
	lifecycle.Render(registered, h.clock.Now())
	return h.hosts.Record(ctx, registered)
}

// hasSameRamdisk reports whether the architecture in the spec of the host changes nothing
// of the ramdisk that the node was registered with when nobody knew it.
func (h *hardware) hasSameRamdisk(host, known *metal3.BareMetalHost) bool {
	unknown := host.DeepCopy()
	unknown.Status.HardwareDetails = nil
	access, err := bmc.Parse(host.Spec.BMC.Address, host.Spec.BMC.DisableCertificateVerification)
	return err == nil && equality.Semantic.DeepEqual(deploy.DriverInfo(unknown, access, h.ramdisk), deploy.DriverInfo(known, access, h.ramdisk))
}
