// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/settings"
)

// RequestClean records that clean steps are to be carried out, once, on the machine of an available
// host. The host is preparing from then on. It returns an error that says why the host does not
// permit it.
func RequestClean(host *metal3.BareMetalHost, node *ironic.Node, steps []metal3.CleanStep, now time.Time) error {
	if err := cleanObstacle(host, NodeFromIronic(node)); err != nil {
		return err
	}
	status := &host.Status
	status.Record.RequestedClean = settings.NewRequestedClean(steps, node, WholeSeconds(now))
	status.Provisioning.State = metal3.StatePreparing
	resetErrorCount(status)
	status.Record.Failure = nil
	Render(host, now)
	return nil
}

// cleanObstacle returns why the host's machine cannot be cleaned on request; nil if it can.
func cleanObstacle(host *metal3.BareMetalHost, node *Node) error {
	state := host.Status.Provisioning.State
	held := host.Status.Record.Hold
	contradiction := contradictionOf(Situation{Host: host, node: node, Cluster: node.MarkedCluster}, Step{Do: Prepare})
	switch {
	case metal3.IsPaused(host):
		return fmt.Errorf("it is paused: remove the annotation %s first", metal3.PausedAnnotation)
	case host.IsDetached(), hasAnnotation(host, metal3.DetachedAnnotation):
		return errors.New("it is detached")
	case host.Status.Record.RequestedClean != nil:
		return errors.New("a clean was requested already, and has not ended")
	case state != metal3.StateAvailable && state != metal3.StateReady || host.Spec.ExternallyProvisioned:
		return fmt.Errorf("it is %s, and only an available host is cleaned on request", cmp.Or(string(state), "new"))
	case held != nil:
		return fmt.Errorf("its machine is left alone: %s", held.Message)
	case contradiction != nil:
		return fmt.Errorf("its machine is left alone: %s", contradiction.message)
	case node.Maintenance:
		return fmt.Errorf("its node is in maintenance, in which Ironic does not clean: %s", node.MaintenanceReason)
	case node.ProvisionState != ironic.Manageable && node.ProvisionState != ironic.Available:
		return fmt.Errorf("Ironic is still working on it (%s)", node.ProvisionState)
	}
	return nil
}
