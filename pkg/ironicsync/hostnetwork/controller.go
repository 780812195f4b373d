// Package hostnetwork tells Ironic how the switch ports of hosts are to be configured: those of
// spec.networkInterfaces, as their HostNetworkAttachments say. Ironic's networking service, part of Ironic
// since 34.0, then configures the switches, for nodes with the network interface ironic-networking.
//
//	controller.go  the ports of a host's node, and the condition of the host
//	switchport.go  what Ironic has to be told of a port (pure)
package hostnetwork

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/controller"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
)

// Attachments are the recorded HostNetworkAttachments.
type Attachments interface {
	controller.Objects
	Get(ctx context.Context, namespace, name string) (*metal3.HostNetworkAttachment, error)
}

// Hosts are the recorded hosts.
type Hosts interface {
	Get(ctx context.Context, namespace, name string) (*metal3.BareMetalHost, error)
	Record(ctx context.Context, host *metal3.BareMetalHost) (*metal3.BareMetalHost, error)
}

// Ironic has the requests to Ironic.
type Ironic interface {
	GetRegistration(ctx context.Context, uuid string) (*ironic.Registration, error)
	ListSwitchPorts(ctx context.Context, nodeUUID string) ([]ironic.SwitchPort, error)
	UpdatePort(ctx context.Context, uuid string, patches []ironic.Patch) error
}

// Parts are what a Controller works with.
type Parts struct {
	Attachments Attachments
	Hosts       Hosts
	Ironic      Ironic
	// Namespaces are those whose hosts are managed; none means all.
	Namespaces []string
}

// Controller reconciles the network interfaces of hosts. Its keys are those of hosts: a change of an
// attachment has the host reconciled that happens to have its name, which does no harm. (While a host
// refers to an attachment, it cannot be changed, and one that is missing is looked for again.)
type Controller struct {
	Parts
	*controller.Controller
}

// missingRetry is when an attachment is looked for again that does not exist.
const missingRetry = 30 * time.Second

// New returns a Controller.
func New(parts Parts) *Controller {
	c := &Controller{Parts: parts}
	c.Controller = controller.New("hostnetworkattachments", parts.Attachments, &metal3.HostNetworkAttachment{}, cache.Indexers{}, c.reconcile)
	return c
}

// HostChanged has the interfaces of a host reconciled. old or host is nil if the host was created or
// deleted.
func (c *Controller) HostChanged(old, host *metal3.BareMetalHost) {
	if host == nil || len(host.Spec.NetworkInterfaces) == 0 && conditionOf(host) == nil {
		return
	}
	if old == nil || old.Generation != host.Generation || old.Status.Provisioning.ID != host.Status.Provisioning.ID ||
		old.Status.Provisioning.State != host.Status.Provisioning.State || controller.IsPaused(old) != controller.IsPaused(host) ||
		(old.Status.HardwareDetails == nil) != (host.Status.HardwareDetails == nil) || lifecycle.HasOwnNode(old) != lifecycle.HasOwnNode(host) {
		c.Enqueue(host.Namespace, host.Name)
	}
}

func conditionOf(host *metal3.BareMetalHost) *metav1.Condition {
	return meta.FindStatusCondition(host.Status.Conditions, metal3.NetworkInterfacesValidCondition)
}

func (c *Controller) reconcile(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	if len(c.Namespaces) > 0 && !slices.Contains(c.Namespaces, key.Namespace) {
		return 0, nil
	}
	host, err := c.Hosts.Get(ctx, key.Namespace, key.Name)
	switch {
	case apierrors.IsNotFound(err):
		return 0, nil
	case err != nil:
		return 0, err
	case controller.IsPaused(host), !host.DeletionTimestamp.IsZero(), lifecycle.IsDetached(host), !lifecycle.HasOwnNode(host),
		len(host.Spec.NetworkInterfaces) == 0 && conditionOf(host) == nil:
		return 0, nil // it is reconciled when that changes
	}
	err = c.apply(ctx, host)
	verdict := metav1.Condition{Status: metav1.ConditionTrue, Reason: metal3.AllInterfacesValidReason}
	var answer *ironic.APIError
	unusable := new(problem)
	switch {
	case errors.As(err, &unusable):
		verdict = metav1.Condition{Status: metav1.ConditionFalse, Reason: unusable.reason, Message: unusable.message}
	case errors.As(err, &answer) && !ironic.IsLocked(err) && !ironic.IsUnavailable(err) && !ironic.IsNotFound(err):
		verdict = metav1.Condition{Status: metav1.ConditionFalse, Reason: metal3.IronicRefusedReason, Message: answer.Message}
	case err != nil:
		return 0, err
	}
	if err := c.record(ctx, host, verdict); err != nil {
		return 0, err
	}
	switch {
	case unusable.reason == metal3.AttachmentNotFoundReason:
		return missingRetry, nil
	case unusable.reason != "":
		return 0, nil
	}
	return 0, err // Ironic may accept it another time
}

// apply tells Ironic what differs of the host's ports. The error is a *problem if it cannot.
func (c *Controller) apply(ctx context.Context, host *metal3.BareMetalHost) error {
	uuid := host.Status.Provisioning.ID
	registration, err := c.Ironic.GetRegistration(ctx, uuid)
	if err != nil {
		return err
	}
	if registration.NetworkInterface != ironic.NetworkInterfaceNetworking {
		if len(host.Spec.NetworkInterfaces) == 0 {
			return nil
		}
		return &problem{metal3.NetworkingNotSupportedReason, fmt.Sprintf(
			"The network interface of the host's node in Ironic is %q, which configures no switch ports. That takes Ironic 34.0 or later with its networking service, and %q as default_network_interface",
			registration.NetworkInterface, ironic.NetworkInterfaceNetworking)}
	}
	wanted := map[string]port{}
	for _, nic := range host.Spec.NetworkInterfaces {
		mac, err := macOf(host, &nic)
		if err != nil {
			return err
		}
		if nic.HostNetworkAttachment == nil {
			continue
		}
		attachment, err := c.attachment(ctx, host, nic.HostNetworkAttachment)
		if err != nil {
			return err
		}
		wanted[mac] = port{switchport: switchportOf(&attachment.Spec), link: linkOf(host, &nic, mac)}
	}
	ports, err := c.Ironic.ListSwitchPorts(ctx, uuid)
	if err != nil {
		return err
	}
	for _, is := range ports {
		mac := strings.ToLower(is.Address)
		if patches := patchesOf(&is, wanted[mac]); len(patches) > 0 {
			if err := c.Ironic.UpdatePort(ctx, is.UUID, patches); err != nil {
				return err
			}
		}
		delete(wanted, mac)
	}
	if len(wanted) > 0 {
		return &problem{metal3.InvalidInterfaceNamesReason, "Ironic has no ports with the MAC addresses of these interfaces: " + strings.Join(slices.Sorted(maps.Keys(wanted)), ", ")}
	}
	return nil
}

func (c *Controller) attachment(ctx context.Context, host *metal3.BareMetalHost, ref *metal3.HostNetworkAttachmentRef) (*metal3.HostNetworkAttachment, error) {
	namespace := cmp.Or(ref.Namespace, host.Namespace)
	attachment, err := c.Attachments.Get(ctx, namespace, ref.Name)
	if apierrors.IsNotFound(err) {
		return nil, &problem{metal3.AttachmentNotFoundReason, fmt.Sprintf("HostNetworkAttachment %s/%s does not exist", namespace, ref.Name)}
	}
	return attachment, err
}

// record sets the condition of a host, or removes it from a host that has no interfaces any more.
func (c *Controller) record(ctx context.Context, host *metal3.BareMetalHost, verdict metav1.Condition) error {
	updated := host.DeepCopy()
	if len(host.Spec.NetworkInterfaces) == 0 && verdict.Status == metav1.ConditionTrue {
		meta.RemoveStatusCondition(&updated.Status.Conditions, metal3.NetworkInterfacesValidCondition)
	} else {
		verdict.Type = metal3.NetworkInterfacesValidCondition
		if is := conditionOf(host); is != nil && is.Reason == verdict.Reason && is.Message == lifecycle.CutMessage(verdict.Message) && is.ObservedGeneration == host.Generation {
			return nil
		}
		lifecycle.SetCondition(&updated.Status, updated, verdict, time.Now())
	}
	updated.Status.LastUpdated = lifecycle.StatusTime(time.Now())
	_, err := c.Hosts.Record(ctx, updated)
	return controller.IgnoreNotFound(err)
}
