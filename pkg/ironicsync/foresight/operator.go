// SPDX-License-Identifier: Apache-2.0

package foresight

import (
	"fmt"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/deploy"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
)

// UnderOperator returns what the Bare Metal Operator would do to machines that this server leaves alone, if it were given the hosts
// as they are. The operator goes by spec and status only: it knows neither proofs nor the record. Each text is a sentence that begins
// with the host and ends with what helps. A pause or detachment counts for nothing, because it ends without anybody thinking of this.
// restoredAt is the count at the last restore of etcd (see lifecycle.Situation).
func UnderOperator(hosts []*metal3.BareMetalHost, restoredAt int64) (harms []string) {
	for _, host := range hosts {
		for _, text := range underOperator(host, restoredAt) {
			harms = append(harms, name(host)+" "+text)
		}
	}
	return harms
}

func underOperator(host *metal3.BareMetalHost, restoredAt int64) (harms []string) {
	record := &host.Status.Record
	if record.Hold != nil {
		harms = append(harms, fmt.Sprintf("is held for %s, which the operator does not heed: %s", record.Hold.Reason, record.Hold.Message))
	} else if registration := record.Registration; registration != nil && registration.Reason == metal3.BMCInUseReason {
		harms = append(harms, "is not registered, because its BMC is in use, and would be a second host of that machine: delete it, or correct spec.bmc.address")
	}
	if record.Hold == nil && lifecycle.MayUndoOfBackup(host, restoredAt) {
		harms = append(harms, "is of a backup in which it was to be undeployed, and its machine may be another user's since: have metal3-apiserver look at it first")
	}
	if isErasedByOperator(host) {
		harms = append(harms, "would be undeployed and its disks erased, though this server leaves what it runs alone: before that, "+
			"set spec.externallyProvisioned, and wait until its state is externally provisioned; or, unless it is being deleted, give it the image that it runs")
	}
	if d := record.Deployment; d != nil && d.KeepPower && !host.Spec.Online {
		harms = append(harms, "would be switched off, because spec.online is false, though it may run: set spec.online")
	}
	if (record.Ironic != "" || record.Transfer != nil) && !host.IsDetached() {
		harms = append(harms, fmt.Sprintf("would get a second node, because its own is in the Ironic of IronicInstance %q, which the operator does not know: transfer or detach it",
			record.Ironic))
	}
	return harms
}

// isErasedByOperator reports whether the operator deprovisions a host that this server would leave as it is: one of which nothing is
// recorded as deployed, and whose spec names no image. It also deprovisions each provisioned host that is deleted. (See
// handleProvisioned, handleExternallyProvisioned and checkInitiateDelete in its host_state_machine.go.)
func isErasedByOperator(host *metal3.BareMetalHost) bool {
	switch host.Status.Provisioning.State {
	case metal3.StateProvisioned:
		return !deploy.Deployed(host) && (!deploy.WantsImage(&host.Spec) || !host.DeletionTimestamp.IsZero())
	case metal3.StateExternallyProvisioned:
		return !host.Spec.ExternallyProvisioned && !deploy.WantsImage(&host.Spec) && host.DeletionTimestamp.IsZero()
	}
	return false
}
