// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"slices"
	"strconv"

	"k8s.io/utils/clock"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/firmware"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/registrar"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/secrets"
)

// inputs gathers what the next step for a host is decided by.
type inputs struct {
	secrets       *secrets.Secrets
	hardware      *givenHardware
	firmware      *firmware.Watch
	registrations *registrar.Registrar
	claims        *registrar.Claims
	queue         *Queue
	hold          *Hold
	restoredAt    func() int64
	strange       *strangeness
	settings      Settings
	clock         clock.PassiveClock
}

// refreshSecrets reads the Secrets of a host that may have changed since they were last
// read: that of its BMC, and while the host has an error also the others, because a
// change of one of them may end it. A deletion does not wait for the right to read them, which may have
// gone with the namespace: Ironic has the credentials that it needs.
func (c *inputs) refreshSecrets(ctx context.Context, host *metal3.BareMetalHost) (err error) {
	if host.Status.Record.Error != nil {
		err = c.secrets.RefreshAll(ctx, host)
	} else {
		err = c.secrets.Refresh(ctx, host.Namespace, host.Spec.BMC.CredentialsName)
	}
	if !host.DeletionTimestamp.IsZero() && secrets.LacksRight(err) {
		return nil
	}
	return err
}

// situation gathers what lifecycle.Next decides by. The digest is that of registrar.DigestOf. For retryNow see backoff.hold.
func (c *inputs) situation(host *metal3.BareMetalHost, seen observation, givesHardware bool, settings firmware.HostSettings, digest string) (s lifecycle.Situation, retryNow bool) {
	node := lifecycle.NodeOf(&host.Status)
	s = lifecycle.Situation{
		Host: host, ObservedAt: seen.at, HostRead: seen.hostRead, IronicNow: seen.ironicNow(), Firmware: settings.BIOSSettings, Schema: settings.Schema, Components: settings.Components,
		SettingsUnread: settings.Unread,
		Policy:         settings.Policy, CanService: settings.CanService, CanAbortService: settings.CanAbortService, RAIDAlone: settings.RAIDAlone,
		SecretVersion:               c.secrets.Version(host.Namespace, host.Spec.BMC.CredentialsName),
		NetworkVersion:              c.secrets.NetworkVersion(host),
		Image:                       c.registrations.ImageOf(host),
		GivesHardware:               givesHardware,
		SettingsDigest:              digest,
		MaxRetries:                  c.settings.MaxProvisioningRetries,
		ProvisioningNetworkDisabled: c.settings.ProvisioningNetworkDisabled,
		Cluster:                     c.settings.Cluster,
		Restored:                    c.hold.Message(metal3.RestoredReason),
		RestoredAt:                  c.restoredAt(),
		OperatorRunning:             c.hold.Message(metal3.OperatorRunningReason),
		NodeOfAnother:               node != nil && c.claims.IsNodeOfAnother(host, node),
		Claim:                       lifecycle.ClaimOf(host, c.claims.RivalsOf(host)),
		AskedInVain:                 c.queue.askedInVain(host),
		PowerAnswered:               c.queue.powerAnswered(host),
	}
	if node == nil && !host.IsDetached() {
		s.AnotherIronic, s.NodeMayExist = c.strange.of(host)
	}
	versions := c.secrets.Versions(host)
	if settings.BIOSGeneration > 0 {
		versions["HostFirmwareSettings"] = strconv.FormatInt(settings.BIOSGeneration, 10) // another spec ends a wait, too
	}
	if settings.ComponentsGeneration > 0 {
		versions["HostFirmwareComponents"] = strconv.FormatInt(settings.ComponentsGeneration, 10)
	}
	c.queue.backoffOf(keyOf(host), func(b *backoff) {
		now := c.clock.Now()
		s.Hold, retryNow = b.hold(host, versions, now)
		s.RegistrationTried = b.hasTriedRegistration(now)
		if powerOns := slices.Clone(host.Status.Record.PowerOns); powerOns != nil { // a pointer into the host would keep it in memory
			s.PowerOnsKnownFor = b.powerOns.knownFor(&powerOns, now)
		}
		s.PowerCutKnownFor = b.powerCut.knownFor(host.Status.Record.PowerCut, now)
	})
	s.AskedKnownFor, s.AskedPowerKnownFor = c.queue.askedKnownFor(host, c.clock.Now())
	return s, retryNow
}
