// SPDX-License-Identifier: Apache-2.0

package hostnetwork

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/kinds"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
)

// Attachments are the recorded HostNetworkAttachments.
type Attachments interface {
	kinds.Objects
	kinds.Getter[*metal3.HostNetworkAttachment]
}

// Hosts are the recorded hosts.
type Hosts interface {
	kinds.Hosts
	// Record writes the status. It returns a Conflict if the host has been written since it was read.
	Record(ctx context.Context, host *metal3.BareMetalHost) (*metal3.BareMetalHost, error)
}

// Ironic has the requests to Ironic.
type Ironic interface {
	kinds.NodeGetter
	GetRegistration(ctx context.Context, uuid string) (*ironic.Registration, error)
	ListSwitchPorts(ctx context.Context, nodeUUID string) ([]ironic.SwitchPort, error)
	UpdatePort(ctx context.Context, fence ironic.Fence, uuid string, patches []ironic.Patch) error
}

// Deps are what a Controller works with.
type Deps struct {
	kinds.Nodes[Ironic]
	Attachments Attachments
	Hosts       Hosts
	Clock       clock.PassiveClock
	// Namespaces are those whose hosts are managed; none means all.
	Namespaces []string
}

// Controller reconciles the network interfaces of hosts. Its keys are those of hosts. A change of an
// attachment requeues the hosts that refer to it. Its spec can be changed, and it can be deleted, while
// only hosts of other namespaces do.
type Controller struct {
	Deps
	*kinds.Controller[*metal3.HostNetworkAttachment]

	mu sync.Mutex
	// attachments has, by host, those that its last reconciliation has looked for, whether they exist or not.
	attachments map[types.NamespacedName][]types.NamespacedName
}

// missingRetry is when an attachment is looked for again that does not exist, should its creation be
// missed.
const missingRetry = 30 * time.Second

// New returns a Controller.
func New(deps Deps) *Controller {
	c := &Controller{Deps: deps, attachments: map[types.NamespacedName][]types.NamespacedName{}}
	c.Controller = kinds.New(kinds.Config[*metal3.HostNetworkAttachment]{
		Name: "hostnetworkattachments", Objects: deps.Attachments, Example: &metal3.HostNetworkAttachment{}, Namespaces: deps.Namespaces,
		KeysOf: c.hostsOf, IronicOf: kinds.IronicOf(deps.Hosts), Reconcile: c.reconcile,
	})
	return c
}

// refer records that a host refers to an attachment.
func (c *Controller) refer(host, attachment types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.attachments[host] = append(c.attachments[host], attachment)
}

// hostsOf returns the hosts that refer to an attachment.
func (c *Controller) hostsOf(attachment *metal3.HostNetworkAttachment) (hosts []types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := kinds.KeyOf(attachment)
	for host, attachments := range c.attachments {
		if slices.Contains(attachments, key) {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// forget records that a host refers to no attachment.
func (c *Controller) forget(host types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.attachments, host)
}

// HostChanged requeues a host if its interfaces may have to be configured again. old or host is nil if the
// host was created or deleted.
func (c *Controller) HostChanged(old, host *metal3.BareMetalHost) {
	if host == nil {
		c.forget(kinds.KeyOf(old))
		return
	}
	if len(host.Spec.NetworkInterfaces) == 0 && host.Status.Record.Network == nil {
		return
	}
	if old == nil || mayDiffer(old, host) {
		c.Enqueue(host.Namespace, host.Name)
	}
}

// mayDiffer reports whether Ironic may have to be told something else of a host than before, or may be told it now.
func mayDiffer(old, host *metal3.BareMetalHost) bool {
	return old.Generation != host.Generation || old.Status.Provisioning.ID != host.Status.Provisioning.ID ||
		old.Status.Provisioning.State != host.Status.Provisioning.State || metal3.IsPaused(old) != metal3.IsPaused(host) ||
		(old.Status.HardwareDetails == nil) != (host.Status.HardwareDetails == nil) || lifecycle.WasInspected(old) != lifecycle.WasInspected(host) ||
		lifecycle.HasOwnNode(old) != lifecycle.HasOwnNode(host) ||
		(old.Status.Record.Hold == nil) != (host.Status.Record.Hold == nil) || !hasPorts(old) && hasPorts(host)
}

// hasPorts reports whether Ironic has the ports of a host. They are created anew, without what they are attached to, with the node of a
// host that was detached, moved to another Ironic or lost.
func hasPorts(host *metal3.BareMetalHost) bool {
	r := host.Status.Record.Registration
	node := host.Status.Ironic
	return node != nil && node.Unproven == "" && r != nil && r.Reason == metal3.RegisteredReason
}

func (c *Controller) reconcile(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	c.forget(key)
	host, err := c.Hosts.Get(ctx, key.Namespace, key.Name)
	switch {
	case err != nil:
		return 0, kinds.IgnoreNotFound(err)
	case metal3.IsPaused(host), !host.DeletionTimestamp.IsZero(), host.IsDetached(), !lifecycle.HasOwnNode(host),
		host.Status.Record.Hold != nil, // Ironic changes the ports of an active node at once, and somebody else may use it
		len(host.Spec.NetworkInterfaces) == 0 && host.Status.Record.Network == nil:
		return 0, nil // it is reconciled when that changes
	}
	err = c.apply(c.Guard(ctx, host), host)
	verdict := metal3.NetworkVerdict{Reason: metal3.AllInterfacesValidReason}
	var answer *ironic.APIError
	unusable := new(problem)
	unproven := new(kinds.UnprovenError)
	switch {
	case errors.As(err, &unproven):
		return 0, nil // the host is held, and is reconciled when that ends
	case errors.As(err, &unusable):
		verdict = metal3.NetworkVerdict{Reason: unusable.reason, Message: unusable.message}
	case errors.As(err, &answer) && !ironic.IsLocked(err) && !ironic.IsUnavailable(err) && !ironic.IsNotFound(err):
		verdict = metal3.NetworkVerdict{Reason: metal3.IronicRefusedReason, Message: answer.Message}
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

// apply writes to Ironic what differs of the host's ports. The error is a *problem if that is not possible.
func (c *Controller) apply(ctx context.Context, host *metal3.BareMetalHost) error {
	uuid := host.Status.Provisioning.ID
	client, _, err := c.Proven(ctx, host)
	if err != nil {
		return err
	}
	registration, err := client.GetRegistration(ctx, uuid)
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
	wanted, unusable, err := c.wantedPorts(ctx, host)
	if err != nil {
		return err
	}
	ports, err := client.ListSwitchPorts(ctx, uuid)
	if err != nil {
		return err
	}
	var failed []error
	for _, present := range ports {
		mac := strings.ToLower(present.Address)
		configured, err := admitted(host, &present, wanted[mac])
		unusable = cmp.Or(unusable, err)
		if patches := patchesOf(&present, configured); len(patches) > 0 {
			if err := client.UpdatePort(ctx, c.Fence.At(host.ResourceVersion), present.UUID, patches); err != nil {
				var refused *ironic.APIError
				if !errors.As(err, &refused) || ironic.IsUnavailable(err) || ironic.IsLocked(err) {
					return err
				}
				failed = append(failed, err) // which is about this port only
			}
		}
		delete(wanted, mac)
	}
	if len(failed) > 0 {
		return errors.Join(failed...)
	}
	if unusable != nil {
		return unusable
	}
	if len(wanted) > 0 {
		return &problem{metal3.InvalidInterfaceNamesReason, "Ironic has no ports with the MAC addresses of these interfaces: " + strings.Join(slices.Sorted(maps.Keys(wanted)), ", ")}
	}
	return nil
}

// wantedPorts returns how the host's ports are to be configured, by MAC address in lower case. The link of one that is unusable keeps no other
// one from being configured; any other error does.
func (c *Controller) wantedPorts(ctx context.Context, host *metal3.BareMetalHost) (wanted map[string]port, unusable, err error) {
	wanted = map[string]port{}
	for _, nic := range host.Spec.NetworkInterfaces {
		mac, err := macOf(host, &nic)
		if err != nil {
			return nil, nil, err
		}
		if nic.HostNetworkAttachment == nil {
			continue
		}
		attachment, err := c.attachment(ctx, host, nic.HostNetworkAttachment)
		if err != nil {
			return nil, nil, err
		}
		link, err := linkOf(host, &nic, mac)
		unusable = cmp.Or(err, unusable)
		wanted[mac] = port{switchport: switchportOf(&attachment.Spec), link: link}
	}
	return wanted, unusable, nil
}

func (c *Controller) attachment(ctx context.Context, host *metal3.BareMetalHost, ref *metal3.HostNetworkAttachmentRef) (*metal3.HostNetworkAttachment, error) {
	key := types.NamespacedName{Namespace: cmp.Or(ref.Namespace, host.Namespace), Name: ref.Name}
	c.refer(kinds.KeyOf(host), key) // before it is read, so that no change is missed
	attachment, err := c.Attachments.Get(ctx, key.Namespace, key.Name)
	if apierrors.IsNotFound(err) {
		return nil, &problem{metal3.AttachmentNotFoundReason, fmt.Sprintf("HostNetworkAttachment %s does not exist", key)}
	}
	return attachment, err
}

// record records the verdict on the interfaces of a host, or removes it from a host that has no interfaces any more.
func (c *Controller) record(ctx context.Context, host *metal3.BareMetalHost, verdict metal3.NetworkVerdict) error {
	verdict.Generation, verdict.Message = host.Generation, lifecycle.CutMessage(verdict.Message)
	wanted, recorded := &verdict, host.Status.Record.Network
	if len(host.Spec.NetworkInterfaces) == 0 && verdict.Reason == metal3.AllInterfacesValidReason {
		wanted = nil
	}
	if wanted == recorded || wanted != nil && recorded != nil && *wanted == *recorded {
		return nil
	}
	updated := host.DeepCopy()
	updated.Status.Record.Network = wanted
	lifecycle.Render(updated, c.Clock.Now())
	_, err := c.Hosts.Record(ctx, updated)
	return kinds.IgnoreNotFound(err)
}
