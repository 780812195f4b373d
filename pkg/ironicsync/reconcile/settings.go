// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"slices"
	"time"

	ironicapi "github.com/metal3-io/metal3-apiserver/pkg/apis/ironic/v1alpha1"
	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/deploy"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/destination"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/registrar"
)

// Settings are the operator's choices for all hosts.
type Settings struct {
	// Namespaces are those whose hosts are managed; none means all namespaces.
	Namespaces []string
	// BMCs and Images are the addresses of BMCs, and of images and their checksums, to which users may
	// have Ironic connect. They are checked when a host is registered, and when it is provisioned.
	BMCs, Images destination.Policy
	// Events are the addresses to which users may have BMCs send events. They are checked when a BMC is
	// about to be told them.
	Events destination.Policy
	// Ramdisk is how hosts boot the ramdisk.
	Ramdisk deploy.Ramdisk
	// BuildImages is set if each host boots a ramdisk image of its own, which is the one in Ramdisk unless
	// Ramdisk has none.
	BuildImages bool
	// ProvisioningNetworkDisabled refuses hosts whose driver needs a provisioning
	// network.
	ProvisioningNetworkDisabled bool

	// Cluster is the UID of this cluster, which nodes are marked with; empty if it is not
	// known.
	Cluster string

	// ProvisioningLimit bounds the hosts that are inspected, provisioned or
	// deprovisioned at a time, those with virtual media apart; the others wait,
	// delayed. 0 is no limit.
	ProvisioningLimit int
	// MaxProvisioningRetries is how often a provisioning may fail in a row; 0 is no limit.
	MaxProvisioningRetries int
	// CallbackTimeout is how long a ramdisk may be silent on a node whose time-outs
	// Ironic has forgotten.
	CallbackTimeout time.Duration
	// Workers is how many hosts are worked on at a time.
	Workers int
	// ConductorGroups says to which conductor group of Ironic the node of a host belongs; nil leaves them alone.
	ConductorGroups *ironicapi.IronicConductorGroups
	// PollInterval is how often changes are looked for in Ironic.
	PollInterval time.Duration
}

// manages reports whether the host is in a namespace whose hosts are managed.
func (s Settings) manages(host *metal3.BareMetalHost) bool {
	return len(s.Namespaces) == 0 || slices.Contains(s.Namespaces, host.Namespace)
}

// registrar returns the settings that nodes are registered with.
func (s Settings) registrar() registrar.Settings {
	return registrar.Settings{BMCs: s.BMCs, Images: s.Images, Ramdisk: s.Ramdisk, BuildImages: s.BuildImages, Cluster: s.Cluster, ConductorGroups: s.ConductorGroups}
}
