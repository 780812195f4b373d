// SPDX-License-Identifier: Apache-2.0

package ironic

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	api "github.com/metal3-io/metal3-apiserver/pkg/apis/ironic/v1alpha1"
	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// Instances knows the Ironics of the IronicInstances.
type Instances interface {
	// Of returns what asks the Ironic of an IronicInstance, and what is known of that Ironic. If the server
	// cannot use the IronicInstance, the error, a *NotAcceptedError, says why. It is told to whoever can read
	// the IronicInstance, and may name its Secret, but must have nothing of what is in the Secret.
	Of(name string) (Ironic, Known, error)
}

// Ironic is asked for the status of an IronicInstance.
type Ironic interface {
	// Features returns what Ironic can do, by the negotiated version of its API.
	Features(ctx context.Context) (ironic.Features, error)
	// ListConductors returns the conductors, including those that are not alive.
	ListConductors(ctx context.Context) ([]ironic.Conductor, error)
}

// Known is what this replica knows of an Ironic without asking it.
type Known struct {
	// Endpoint is the URL of Ironic; empty if it is not known.
	Endpoint string
	// IronicReady is the condition of that type; nil without an Ironic object.
	IronicReady *metav1.Condition
	// Nodes is the number of nodes when all nodes were last listed; nil if they never were.
	Nodes *int32
	// ObservedAt is when all hosts were last observed; zero if they never were.
	ObservedAt time.Time
}

// NotAcceptedError says why the server cannot use an IronicInstance.
type NotAcceptedError struct {
	// Reason is one of the reasons of the condition Accepted.
	Reason string
	// Message is for people.
	Message string
}

// Error implements error.
func (e *NotAcceptedError) Error() string { return e.Message }

// askTimeout is how long the Ironics of all instances that are read may take, so that the answer is there
// within 3 s although one of them does not answer.
const askTimeout = 2500 * time.Millisecond

// statuses fills in the statuses of IronicInstances.
type statuses struct {
	instances Instances
	hosts     Hosts
	seen      transitions
}

// fill fills in the statuses of instances, whose Ironics it asks all at once.
func (s *statuses) fill(ctx context.Context, all []*api.IronicInstance) error {
	if len(all) == 0 {
		return nil
	}
	hosts, err := s.hosts.List(ctx, metav1.ListOptions{ResourceVersion: "0"}) // those of the watch cache are recent enough
	if err != nil {
		return err
	}
	asked, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var asking sync.WaitGroup
	for _, instance := range all {
		asking.Go(func() { instance.Status = s.ask(asked, instance) })
	}
	asking.Wait()
	if err := ctx.Err(); err != nil {
		return err // the client is gone, which says nothing about any Ironic
	}
	statusOf := map[string]*api.IronicInstanceStatus{}
	for _, instance := range all {
		s.seen.date(instance.UID, instance.Status.Conditions)
		statusOf[instance.Name] = &instance.Status
	}
	for i := range hosts.Items {
		countHost(statusOf, &hosts.Items[i])
	}
	return nil
}

// countHost counts a host in the status of the instance in which its node is.
func countHost(statusOf map[string]*api.IronicInstanceStatus, host *metal3.BareMetalHost) {
	status := statusOf[host.Status.Record.Ironic]
	if status == nil || host.Status.Provisioning.ID == "" {
		return
	}
	status.Hosts++
	if state := string(host.Status.Provisioning.State); state != "" {
		if status.HostsByState == nil {
			status.HostsByState = map[string]int32{}
		}
		status.HostsByState[state]++
	}
}

// ask returns the status of an instance without its hosts, and without the times of its conditions.
func (s *statuses) ask(ctx context.Context, instance *api.IronicInstance) api.IronicInstanceStatus {
	asks, known, err := s.instances.Of(instance.Name)
	status := api.IronicInstanceStatus{Endpoint: known.Endpoint, Nodes: known.Nodes}
	if !known.ObservedAt.IsZero() {
		status.ObservedAt = &metav1.Time{Time: known.ObservedAt}
	}
	accepted := metav1.Condition{Type: api.IronicInstanceAccepted, Status: metav1.ConditionTrue, Reason: api.AcceptedReason, Message: "The server can use it"}
	reachable := metav1.Condition{Type: api.IronicInstanceReachable, Status: metav1.ConditionUnknown, Reason: api.NotAcceptedReason, Message: "Ironic is not asked, because the IronicInstance is not accepted"}
	if err != nil {
		accepted.Status, accepted.Reason, accepted.Message = metav1.ConditionFalse, api.UnusableReason, err.Error()
		var why *NotAcceptedError
		if errors.As(err, &why) {
			accepted.Reason = why.Reason
		}
		if accepted.Reason == api.NotKnownYetReason {
			accepted.Status = metav1.ConditionUnknown
		}
	} else {
		askIronic(ctx, asks, &status, &reachable)
	}
	accepted.ObservedGeneration, reachable.ObservedGeneration = instance.Generation, instance.Generation
	status.Conditions = []metav1.Condition{accepted, reachable}
	if known.IronicReady != nil {
		ready := *known.IronicReady
		ready.ObservedGeneration = instance.Generation
		status.Conditions = append(status.Conditions, ready)
	}
	return status
}

// askIronic fills in what an Ironic says of itself.
func askIronic(ctx context.Context, asks Ironic, status *api.IronicInstanceStatus, reachable *metav1.Condition) {
	features, err := asks.Features(ctx)
	if err == nil {
		status.APIVersion = features.APIVersion.String()
		start := time.Now()
		var conductors []ironic.Conductor
		conductors, err = asks.ListConductors(ctx)
		took := time.Since(start)
		switch {
		case err == nil:
			var alive int32
			for _, conductor := range conductors {
				if conductor.Alive {
					alive++
				}
			}
			status.Conductors = &alive
		case isForbidden(err):
			err = nil // Ironic answers, and its policy lets only some users see the conductors
		}
		if err == nil {
			status.LatencyMilliseconds = ptr.To(took.Milliseconds())
			reachable.Status, reachable.Reason, reachable.Message = metav1.ConditionTrue, api.AnswersReason, "Ironic answered within "+ironic.RoundForPeople(took)
			return
		}
	}
	reachable.Status, reachable.Reason, reachable.Message = metav1.ConditionFalse, api.UnreachableReason, ironic.ReasonOf(err)
	if ironic.IsRefused(err) {
		reachable.Reason = api.RefusedReason
	}
}

func isForbidden(err error) bool {
	var answer *ironic.APIError
	return errors.As(err, &answer) && answer.Status == http.StatusForbidden
}
