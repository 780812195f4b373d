// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"errors"
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/settings"
)

// Settings are applied by manual cleans of a manageable node, after which the node is manageable
// again. Ironic tells neither who has asked for a clean nor what an earlier one has done, so
// the request is recorded first (status.record.preparation), and an observation records its outcome.

// nextOfSettings has Ironic apply what is wanted, one clean after the other, on a node that is
// manageable or available.
func nextOfSettings(s Situation) Step {
	clean, err := s.nextClean()
	switch {
	case err != nil:
		return s.retry(Step{Do: Prepare, Error: metal3.PreparationError, Message: err.Error()}, true)
	case clean == nil && s.Hold > 0 && hasRequestFailed(s.Host):
		return Step{Do: Wait, After: s.Hold} // the error is shown, and nothing is tried again
	case clean == nil:
		return setState(metal3.StateAvailable)
	case isHeldOff(s.Host): // or the clean would be aborted, and begin again
		return nextOfPower(s)
	case s.node.ProvisionState == ironic.Available:
		return toManageable(s)
	}
	if left, may := s.anyMayStillCome(); may {
		return Step{Do: Wait, After: left} // the steps would be carried out a second time, or the other request not be known of any more
	}
	failed := s.Host.Status.Record.Preparation != nil && s.Host.Status.Record.Preparation.Phase == metal3.PreparationFailed
	return s.retry(Step{Do: Prepare, Error: metal3.PreparationError, Clean: clean}, failed || hasFailed(s.Host))
}

// nextClean returns the next clean that applies what is wanted; see settings.NextClean. While Ironic does not give what the machine has,
// only a clean that a user asks for by name is possible.
func (s Situation) nextClean() (*settings.Clean, error) {
	if s.SettingsUnread != "" && s.Host.Status.Record.RequestedClean == nil {
		return nil, errors.New(s.SettingsUnread)
	}
	return settings.NextClean(s.machine())
}

// nextService returns the service that applies what is wanted and permitted; see settings.NextService.
func (s Situation) nextService() (*settings.Clean, error) {
	if s.SettingsUnread != "" && s.Policy != nil {
		return nil, errors.New(s.SettingsUnread)
	}
	return settings.NextService(s.machine())
}

func (s Situation) machine() settings.Machine {
	m := settings.Machine{Host: s.Host, Firmware: s.Firmware, Schema: s.Schema, Components: s.Components, RAIDAlone: s.RAIDAlone, Reported: ErrorType(&s.Host.Status) == metal3.PreparationError}
	m.NotPolled = s.node != nil && s.node.OwnParent
	if s.Host.Status.Provisioning.State.RunsSomething() {
		m.Policy, m.Reported = s.Policy, hasServicingError(&s.Host.Status)
	}
	return m
}

// hasRequestFailed reports whether the last clean was one that a user had asked for by name, and has
// failed.
func hasRequestFailed(host *metal3.BareMetalHost) bool {
	p := host.Status.Record.Preparation
	return p != nil && p.IsRequested && p.Phase == metal3.PreparationFailed
}

// RefusePreparation records that Ironic has refused the clean that was requested, so that nothing has
// begun, and what was known before still holds. A clean that a user has asked for by name is not
// tried again.
func RefusePreparation(host *metal3.BareMetalHost, before *metal3.Preparation, message string, now time.Time) {
	host.Status.Record.Preparation = before
	settings.FailRequestedClean(&host.Status, CutMessage(message), WholeSeconds(now))
}

// RequestPreparation records that Ironic is about to be asked for a clean.
func RequestPreparation(host *metal3.BareMetalHost, clean *settings.Clean, now time.Time) {
	host.Status.Record.Preparation = settings.Request(clean, host.Status.Ironic, WholeSeconds(now))
}

// AcceptPreparation records that Ironic has begun the clean that was requested.
func AcceptPreparation(host *metal3.BareMetalHost, _ time.Time) {
	host.Status.Record.Preparation.Phase = metal3.PreparationRunning
}

// IsPreparationRequested reports whether the preparation of host is the one that was requested at
// a time, and has neither begun nor ended.
func IsPreparationRequested(host *metal3.BareMetalHost, requested *metal3.Preparation) bool {
	p := host.Status.Record.Preparation
	return p != nil && p.Phase == metal3.PreparationRequested && p.StartedAt.Equal(&requested.StartedAt)
}
