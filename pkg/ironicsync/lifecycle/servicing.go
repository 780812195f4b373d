// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"cmp"
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/settings"
)

// What is recorded of a service (status.record.servicing). Like a rebuild, a service leads a node from
// active to active. So the request is recorded first, and whether it has begun is told by
// provision_updated_at; see rebuild.go.

// RequestService records that Ironic is about to be asked for a service.
func RequestService(host *metal3.BareMetalHost, service *settings.Clean, now time.Time) {
	settings.Supersede(&host.Status, service)
	host.Status.Record.Servicing = &metal3.Servicing{Preparation: *settings.Request(service, host.Status.Ironic, WholeSeconds(now))}
}

// AcceptService records that Ironic has begun the service that was requested.
func AcceptService(host *metal3.BareMetalHost) {
	host.Status.Record.Servicing.Phase = metal3.PreparationRunning
}

// RefuseService records that Ironic has refused the service that was requested. The machine is
// switched on without it.
func RefuseService(host *metal3.BareMetalHost) {
	service := host.Status.Record.Servicing
	service.Phase = metal3.PreparationFailed
	service.FirmwareUpdates = nil // it has made none; the next service is requested in the same state of the node, by which updates are told apart
}

// LeaveServiceBegun records that Ironic has been asked to end the service.
func LeaveServiceBegun(host *metal3.BareMetalHost) { host.Status.Record.Servicing.Leaving = true }

// ConcludeService records that nothing is left to be changed by a service.
func ConcludeService(host *metal3.BareMetalHost, policy *metal3.HostUpdatePolicySpec) {
	status := &host.Status
	if status.Record.Servicing != nil && status.Record.Servicing.Phase == metal3.PreparationRequested {
		status.Record.Servicing = nil // it is not wanted any more, and has not begun
	}
	settings.Serviced(status, settings.Machine{Host: host, Policy: policy})
	if hasServicingError(status) {
		ClearFailure(host)
	}
}

// IsSameService reports whether the service of host is the one that was requested at a time, and
// has not ended.
func IsSameService(host *metal3.BareMetalHost, requested *metal3.Servicing) bool {
	s := host.Status.Record.Servicing
	return s != nil && s.EndedAt == nil && s.NodeUUID == requested.NodeUUID && s.StartedAt.Equal(&requested.StartedAt)
}

// HasServiceBegun reports whether Ironic has begun the service of a node that is active.
func HasServiceBegun(service *metal3.Servicing, node *ironic.Node) bool {
	return hasStateChanged(service.StateChangedAt, NodeFromIronic(node))
}

// openService returns the service of the host's node that has not ended, or has failed in such a way
// that the machine does not run yet what it ran before; nil if there is none.
func openService(host *metal3.BareMetalHost, node *Node) *metal3.Servicing {
	s := host.Status.Record.Servicing
	if s == nil || s.EndedAt != nil || s.NodeUUID != node.UUID {
		return nil
	}
	return s
}

// isBeingServiced reports whether a service was requested and has neither ended nor failed.
func isBeingServiced(status *metal3.BareMetalHostStatus) bool {
	s := status.Record.Servicing
	return s != nil && s.EndedAt == nil && s.Phase != metal3.PreparationFailed
}

func hasServicingError(status *metal3.BareMetalHostStatus) bool {
	return HasFailureOf(status, metal3.ServicingError)
}

// observeServicing records in status how far the service is that was requested. The error of a
// service that has failed is recorded in the record, because Ironic forgets it when
// the service is left.
func observeServicing(status *metal3.BareMetalHostStatus, host *metal3.BareMetalHost, node *ironic.Node, now time.Time) {
	service := status.Record.Servicing
	if service == nil || service.EndedAt != nil {
		return
	}
	end := func(phase metal3.PreparationPhase) {
		at := WholeSeconds(now)
		service.Phase, service.EndedAt = phase, &at
	}
	fail := func(message string) {
		service.Phase, service.Leaving = metal3.PreparationFailed, false
		status.Record.Failure = newFailure(metal3.ServicingError, message)
	}
	failed := service.Phase == metal3.PreparationFailed
	switch state := node.ProvisionState; {
	case service.NodeUUID != node.UUID:
		end(metal3.PreparationFailed) // Ironic has lost the node, and with it what it was doing
	case isServicing(state):
		if service.Phase == metal3.PreparationRequested {
			service.Phase = metal3.PreparationRunning
		}
		if !failed { // otherwise these are the steps that end it
			service.StepsDone = max(service.StepsDone, node.Internals.Service.Number-1)
		}
	case node.Reservation != "":
		// The state may be set before last_error.
	case state == ironic.ServiceFail:
		if !failed {
			fail(serviceFailure(status, node))
		}
	case state != ironic.Active:
		end(metal3.PreparationFailed) // somebody has had Ironic do something else
	case failed:
		if node.TargetPowerState == "" && (node.PowerState == ironic.PowerOn || !isWantedOn(host)) {
			end(metal3.PreparationFailed)
		}
	case service.Phase == metal3.PreparationRequested && !hasStateChanged(service.StateChangedAt, NodeOf(status)):
		// The request is repeated, or is not wanted any more.
	case node.LastError != "":
		fail(node.LastError) // aborted
	default:
		end(metal3.PreparationSucceeded)
		settings.Succeeded(status, &service.Preparation, node)
	}
}

// serviceFailure returns why the service of a node has failed.
func serviceFailure(status *metal3.BareMetalHostStatus, node *ironic.Node) string {
	if isTimedOut(status) {
		return status.Record.Failure.Message
	}
	return cmp.Or(node.ServiceFailure(), "The service was aborted")
}
