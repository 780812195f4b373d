// SPDX-License-Identifier: Apache-2.0

package baremetalhost

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/validation"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// checkIdle returns an error unless the BMC has been verified and Ironic is not working on the node.
func checkIdle(host *metal3.BareMetalHost, node *ironic.Node) error {
	switch {
	case node.ProvisionState == ironic.Enroll || node.ProvisionState == ironic.Verifying:
		return notVerified(host, node)
	case node.Reservation != "":
		return locked(host, node)
	case node.ProvisionState.IsInTransit():
		return busy(host, node, "that has ended")
	}
	return nil
}

// bootDevice is the action of baremetalhosts/bootdevice.
type bootDevice struct {
	plainAction[*metal3.HostBootDevice]
	sources Sources
}

// NewBootDeviceREST returns the storage of baremetalhosts/bootdevice: POST sets what the host boots
// from, and GET tells it.
func NewBootDeviceREST(sources Sources, queue *BMCQueue) rest.Storage {
	b := &bootDevice{sources: sources}
	kind := requestKind[*metal3.HostBootDevice]{
		kind:        "HostBootDevice",
		newRequest:  func() *metal3.HostBootDevice { return &metal3.HostBootDevice{} },
		resetStatus: func(r *metal3.HostBootDevice) { r.Status = metal3.HostBootDeviceStatus{} },
		validate:    validation.ValidateHostBootDevice,
	}
	return newReadableActionREST(kind, sources, queue, b, b.read)
}

func (b *bootDevice) read(ctx context.Context, asked Ironic, host *metal3.BareMetalHost, node *ironic.Node, request *metal3.HostBootDevice) error {
	supported, err := asked.GetSupportedBootDevices(ctx, node.UUID)
	if err != nil {
		return b.sources.bmcError(host, err, "")
	}
	device, err := asked.GetBootDevice(ctx, node.UUID)
	if err != nil {
		return b.sources.bmcError(host, err, "")
	}
	request.Status = metal3.HostBootDeviceStatus{Device: device.Device, Persistent: device.Persistent, Supported: supported}
	return nil
}

func (*bootDevice) checkNode(host *metal3.BareMetalHost, node *ironic.Node, _ *metal3.HostBootDevice) error {
	return checkIdle(host, node)
}

// write changes nothing in the host. It checks the device, for a dry run, too.
func (b *bootDevice) write(ctx context.Context, asked Ironic, host *metal3.BareMetalHost, node *ironic.Node, request *metal3.HostBootDevice, _ bool) (*metal3.BareMetalHost, error) {
	supported, err := asked.GetSupportedBootDevices(ctx, node.UUID)
	if err != nil {
		return nil, b.sources.bmcError(host, err, "")
	}
	for _, device := range supported {
		if device == request.Spec.Device {
			request.Status = metal3.HostBootDeviceStatus{Device: device, Persistent: &request.Spec.Persistent, Supported: supported}
			return host, nil
		}
	}
	return nil, apierrors.NewInvalid(metal3.Kind("HostBootDevice"), host.Name, field.ErrorList{
		field.NotSupported(field.NewPath("spec", "device"), request.Spec.Device, supported)})
}

func (b *bootDevice) act(ctx context.Context, asked Ironic, host, _ *metal3.BareMetalHost, node *ironic.Node, request *metal3.HostBootDevice) error {
	err := asked.SetBootDevice(ctx, ironic.NoFence, node.UUID, request.Spec.Device, request.Spec.Persistent)
	return b.sources.bmcError(host, err, "whether the boot device is set is not known, look before you go on (GET of its subresource bootdevice)")
}

// nmi is the action of baremetalhosts/nmi.
type nmi struct {
	plainAction[*metal3.HostNMI]
	sources Sources
}

// NewNMIREST returns the storage of baremetalhosts/nmi: POST interrupts the processor.
func NewNMIREST(sources Sources, queue *BMCQueue) rest.Storage {
	kind := requestKind[*metal3.HostNMI]{
		kind:        "HostNMI",
		newRequest:  func() *metal3.HostNMI { return &metal3.HostNMI{} },
		resetStatus: func(r *metal3.HostNMI) { r.Status = metal3.HostNMIStatus{} },
	}
	action := newActionREST(kind, sources, queue, &nmi{sources: sources})
	return &action
}

func (*nmi) checkNode(host *metal3.BareMetalHost, node *ironic.Node, _ *metal3.HostNMI) error {
	if err := checkIdle(host, node); err != nil {
		return err
	}
	if node.PowerState == ironic.PowerOff {
		return conflict(host, errors.New("it is off"))
	}
	return nil
}

func (n *nmi) act(ctx context.Context, asked Ironic, host, _ *metal3.BareMetalHost, node *ironic.Node, request *metal3.HostNMI) error {
	request.Status.Message = "the BMC has been asked for a non-maskable interrupt"
	return n.sources.bmcError(host, asked.InjectNMI(ctx, ironic.NoFence, node.UUID),
		"whether the interrupt was sent is not known, look at the machine before you try again")
}
