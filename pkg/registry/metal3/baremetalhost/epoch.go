package baremetalhost

import (
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// Before epoch 1, what the server knows of a host for itself was in six fields of the status and in its
// conditions. It is moved into status.record when such a host is read from etcd, so that a fleet goes on as it
// was: otherwise, each node would be registered again, and each deployment would be taken for somebody
// else's. The first observation of a host writes its record. Statuses of the Bare Metal Operator have none of
// the six fields, and conditions of which only a few have the same names and meanings.

// UpgradeRecords wraps the codec for the storage of hosts, so that the hosts which it decodes have records of the
// present epoch.
func UpgradeRecords(codec apiruntime.Codec) apiruntime.Codec { return upgradingCodec{codec} }

type upgradingCodec struct{ apiruntime.Codec }

// Decode decodes an object.
func (c upgradingCodec) Decode(data []byte, defaults *schema.GroupVersionKind, into apiruntime.Object) (apiruntime.Object, *schema.GroupVersionKind, error) {
	if host, ok := into.(*metal3.BareMetalHost); ok {
		host.Status.Record = metal3.HostRecord{} // JSON is decoded into what is there already
	}
	obj, kind, err := c.Codec.Decode(data, defaults, into)
	if host, ok := obj.(*metal3.BareMetalHost); ok && err == nil {
		if err := UpgradeRecord(host, data); err != nil {
			return nil, nil, err
		}
		if err := keepLaterRecord(host, data); err != nil {
			return nil, nil, err
		}
	}
	return obj, kind, err
}

// UpgradeRecord sets the record of a host, whose JSON is data, unless it has one already. The record remains one of
// epoch 0 until an observation of the host is written.
func UpgradeRecord(host *metal3.BareMetalHost, data []byte) error {
	switch host.Status.Record.Epoch {
	case 0:
	case 2, 3, 4:
		// Epoch 3 stores the hardware details in another way. It, and those after it, have further fields, which say nothing while they
		// are absent. If the first observation raised the epoch, an upgrade would write all hosts at once.
		host.Status.Record.Epoch = metal3.RecordEpoch
		return nil
	default:
		return nil
	}
	var former struct {
		Status struct { // the status has other fields with the names of those of the record
			RegisteredWith *metal3.RegisteredWith `json:"registeredWith"`
			Deployment     *metal3.Deployment     `json:"deployment"`
			Takeover       *metal3.Takeover       `json:"takeover"`
			Preparation    *metal3.Preparation    `json:"preparation"`
			RequestedClean *metal3.RequestedClean `json:"requestedClean"`
			Servicing      *metal3.Servicing      `json:"servicing"`
		} `json:"status"`
	}
	if err := json.Unmarshal(data, &former); err != nil {
		return err
	}
	status := &host.Status
	record := &status.Record
	record.RegisteredWith, record.Deployment, record.Takeover = former.Status.RegisteredWith, former.Status.Deployment, former.Status.Takeover
	record.Preparation, record.RequestedClean, record.Servicing = former.Status.Preparation, former.Status.RequestedClean, former.Status.Servicing
	if record.Deployment != nil && isBeingAdopted(status.Ironic) {
		record.Deployment.MayAdopt = true
	}
	if status.ErrorType != "" {
		record.Error = &metal3.HostError{Type: status.ErrorType, Message: status.ErrorMessage, Cause: causeOf(status.ErrorMessage)}
	}
	for i := range status.Conditions {
		upgradeCondition(status, &status.Conditions[i])
	}
	upgradeTimes(host)
	return nil
}

// isBeingAdopted tells whether the node of a host that runs something is on the way on which Ironic is made to adopt it.
func isBeingAdopted(node *metal3.IronicStatus) bool {
	if node == nil {
		return true
	}
	switch ironic.ProvisionState(node.ProvisionState) {
	case ironic.Enroll, ironic.Verifying, ironic.Manageable, ironic.Adopting, ironic.AdoptFail:
		return true
	}
	return false
}

// causeOf is what the message of an error says of its cause.
func causeOf(message string) metal3.ErrorCause {
	switch {
	case ironic.SaysBMCIsSilent(message):
		return metal3.BMCSilent
	case ironic.SaysInterrupted(message):
		return metal3.Interrupted
	}
	return ""
}

// upgradeCondition records what a condition said.
func upgradeCondition(status *metal3.BareMetalHostStatus, c *metav1.Condition) {
	record := &status.Record
	switch c.Type {
	case metal3.RegisteredCondition:
		record.Registration = &metal3.Registration{Generation: c.ObservedGeneration, Reason: c.Reason, Message: onlyIf(c.Status != metav1.ConditionTrue, c.Message)}
	case metal3.HeldCondition:
		record.Hold = &metal3.Hold{Reason: c.Reason, Message: c.Message}
	case metal3.StepFailedCondition:
		record.Failure = failureOf(c)
	case metal3.ImageBuiltCondition:
		record.AwaitedImage = c.Message
	case metal3.NetworkInterfacesValidCondition:
		record.Network = &metal3.NetworkVerdict{Generation: c.ObservedGeneration, Reason: c.Reason, Message: c.Message}
	case metal3.InventoryReadCondition:
		_, problem, _ := strings.Cut(c.Message, "so status.hardware is not what it found: ")
		record.UnusableInventory = &metal3.UnusableInventory{Problem: problem}
		if status.Ironic != nil && status.Ironic.InspectionFinishedAt != nil {
			record.UnusableInventory.InspectionFinishedAt = *status.Ironic.InspectionFinishedAt
		}
	case metal3.PowerSyncedCondition:
		if status.Ironic != nil {
			status.Ironic.OwnParent = c.Reason == metal3.OwnParentReason
		}
	case metal3.HealthyCondition:
		record.Health = map[string]string{metal3.HealthyReason: "OK", metal3.WarningReason: "Warning", metal3.CriticalErrorReason: "Critical"}[c.Reason]
	case metal3.IronicReachableCondition:
		record.Observed = true
		if c.Status == metav1.ConditionFalse {
			_, reason, _ := strings.Cut(c.Message, "Z: ") // behind the time
			record.Silence = &metal3.Silence{Since: c.LastTransitionTime, Refused: strings.HasPrefix(c.Message, "Ironic has refused"), Reason: reason}
		}
	}
}

func onlyIf(isSo bool, text string) string {
	if isSo {
		return text
	}
	return ""
}

// failureOf returns the failure that the condition StepFailed was about.
func failureOf(c *metav1.Condition) *metal3.Failure {
	failure := &metal3.Failure{Message: c.Message}
	switch c.Reason {
	case metal3.CallbackTimeoutReason:
		failure.Cause = metal3.CallbackTimeout
	case metal3.RequestFailedReason:
		failure.Cause = metal3.RequestFailed
	case metal3.InspectionErrorReason:
		failure.Type = metal3.InspectionError
	case metal3.PreparationErrorReason:
		failure.Type = metal3.PreparationError
	case metal3.PowerManagementErrorReason:
		failure.Type = metal3.PowerManagementError
	case metal3.ProvisionedRegistrationErrorReason:
		failure.Type = metal3.ProvisionedRegistrationError
	case metal3.ServicingErrorReason:
		failure.Type = metal3.ServicingError
	case metal3.DetachErrorReason:
		failure.Type = metal3.DetachError
	default:
		failure.Type = metal3.ProvisioningError
	}
	return failure
}

// upgradeTimes records since when the host has been in its state, and when it was first available, as far as
// its history and the transition times of its conditions tell.
func upgradeTimes(host *metal3.BareMetalHost) {
	status := &host.Status
	history := &status.OperationHistory
	transition := func(conditionType string) metav1.Time {
		if c := meta.FindStatusCondition(status.Conditions, conditionType); c != nil {
			return c.LastTransitionTime
		}
		return metav1.Time{}
	}
	since := transition(metal3.ProgressingCondition)
	switch status.Provisioning.State {
	case metal3.StateNone, metal3.StateUnmanaged:
		since = host.CreationTimestamp
	case metal3.StateRegistering:
		since = history.Register.Start
	case metal3.StateInspecting:
		since = history.Inspect.Start
	case metal3.StateAvailable, metal3.StateReady:
		since = transition(metal3.AvailableForProvisioningCondition)
	case metal3.StateProvisioning:
		since = history.Provision.Start
	case metal3.StateProvisioned, metal3.StateExternallyProvisioned:
		since = transition(metal3.ProvisionedCondition)
	case metal3.StateDeprovisioning:
		since = history.Deprovision.Start
	}
	if !since.IsZero() {
		status.Record.State = &metal3.TimeInState{Name: status.Provisioning.State, Since: since}
	}
	// Both conditions are first set at the same time, so they have the same time as long as neither has ever
	// been true.
	available, provisioned := transition(metal3.AvailableForProvisioningCondition), transition(metal3.ProvisionedCondition)
	if !available.Equal(&provisioned) || meta.IsStatusConditionTrue(status.Conditions, metal3.AvailableForProvisioningCondition) {
		status.Record.FirstAvailableAt = &available
	}
}
