package drive

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/deploy"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live"
)

// HardwareStore keeps the HardwareData objects, one for each host, of its name.
type HardwareStore interface {
	Get(ctx context.Context, namespace, name string) (*metal3.HardwareData, error)
	// Put creates data, or replaces the spec of what is there.
	Put(ctx context.Context, data *metal3.HardwareData) error
	// RemoveFinalizer lets an object go; that there is none is no error.
	RemoveFinalizer(ctx context.Context, namespace, name, finalizer string) error
}

// recordGivenHardware takes over the hardware that a user gives in place of an inspection. A
// HardwareData takes precedence over the annotation.
func (c *Controller) recordGivenHardware(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node, _ lifecycle.Step) (outcome, error) {
	details, err := c.givenHardware(ctx, host)
	if err != nil {
		return waitForEvent, err
	}
	host, err = c.recorded(ctx, host, node, func(h *metal3.BareMetalHost) {
		delete(h.Annotations, metal3.HardwareDetailsAnnotation)
		if details != nil && (h.Status.HardwareDetails == nil || h.InspectionDisabled()) {
			h.Status.HardwareDetails = details
		}
	})
	if err != nil {
		return waitForEvent, err
	}
	_, err = c.setArchitecture(ctx, host)
	return waitForEvent, err
}

func (c *Controller) givenHardware(ctx context.Context, host *metal3.BareMetalHost) (*metal3.HardwareDetails, error) {
	data, err := c.hardware.Get(ctx, host.Namespace, host.Name)
	if err == nil && data.Spec.HardwareDetails != nil {
		return data.Spec.HardwareDetails, nil
	}
	if live.IgnoreNotFound(err) != nil {
		return nil, err
	}
	value, has := host.Annotations[metal3.HardwareDetailsAnnotation]
	if !has {
		return nil, nil
	}
	details, err := metal3.ParseHardwareDetailsAnnotation(value)
	if err != nil {
		klog.FromContext(ctx).Error(err, "The annotation with hardware details cannot be read and is dropped", "annotation", metal3.HardwareDetailsAnnotation)
		return nil, nil
	}
	if details == nil {
		return nil, nil // the annotation is empty
	}
	return details, c.putHardware(ctx, host, details)
}

// keepHardware stores what the inspection found in a HardwareData, which clusterctl moves
// along with the host, and completes the architecture in the spec. It returns the host as
// it is then.
func (c *Controller) keepHardware(ctx context.Context, host *metal3.BareMetalHost) (*metal3.BareMetalHost, error) {
	details := host.Status.HardwareDetails
	if details == nil {
		return host, nil
	}
	if err := c.putHardware(ctx, host, details); err != nil {
		return nil, err
	}
	return c.setArchitecture(ctx, host)
}

func (c *Controller) putHardware(ctx context.Context, host *metal3.BareMetalHost, details *metal3.HardwareDetails) error {
	data := &metal3.HardwareData{
		ObjectMeta: metav1.ObjectMeta{
			Name: host.Name, Namespace: host.Namespace,
			Finalizers:      []string{metal3.HardwareDataFinalizer},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(host, metal3.SchemeGroupVersion.WithKind("BareMetalHost"))},
		},
		Spec: metal3.HardwareDataSpec{HardwareDetails: details.DeepCopy()},
	}
	if err := c.hardware.Put(ctx, data); err != nil {
		return fmt.Errorf("writing HardwareData %s/%s: %w", host.Namespace, host.Name, err)
	}
	return nil
}

// setArchitecture completes the spec of a host by what is known of its hardware.
func (c *Controller) setArchitecture(ctx context.Context, host *metal3.BareMetalHost) (*metal3.BareMetalHost, error) {
	details := host.Status.HardwareDetails
	if host.Spec.Architecture != "" || details == nil || details.CPU.Arch == "" {
		return host, nil
	}
	updated := host.DeepCopy()
	updated.Spec.Architecture = details.CPU.Arch
	written, err := c.hosts.Update(ctx, updated)
	if err != nil {
		return nil, err
	}
	registered := written.DeepCopy()
	if !c.sameRamdisk(host, written) {
		return registered, nil // to be registered anew
	}
	// The spec says what Ironic has found itself: registration is in step with it.
	for i := range registered.Status.Conditions {
		if condition := &registered.Status.Conditions[i]; condition.Type == metal3.RegisteredCondition && condition.ObservedGeneration == host.Generation {
			condition.ObservedGeneration = written.Generation
		}
	}
	registered.Status.LastUpdated = lifecycle.StatusTime(time.Now())
	return c.hosts.Record(ctx, registered)
}

// sameRamdisk tells whether the architecture in the spec of the host changes nothing
// of the ramdisk that the node was registered with when nobody knew it.
func (c *Controller) sameRamdisk(host, known *metal3.BareMetalHost) bool {
	unknown := host.DeepCopy()
	unknown.Status.HardwareDetails = nil
	access, err := bmc.Parse(host.Spec.BMC.Address, host.Spec.BMC.DisableCertificateVerification)
	return err == nil && sameJSON(deploy.DriverInfo(unknown, access, c.settings.Ramdisk), deploy.DriverInfo(known, access, c.settings.Ramdisk))
}

// hasHardwareData tells whether there is a HardwareData for a host without hardware.
func (c *Controller) hasHardwareData(ctx context.Context, host *metal3.BareMetalHost) (bool, error) {
	if host.Status.HardwareDetails != nil || host.Status.Provisioning.State != metal3.StateRegistering {
		return false, nil
	}
	data, err := c.hardware.Get(ctx, host.Namespace, host.Name)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil && data.Spec.HardwareDetails != nil, err
}
