package settings

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// UpToDateCondition is False on an object with settings while Ironic does not give what the machine has. The Bare Metal Operator
// does not have it.
const UpToDateCondition = "UpToDate"

const notGivenReason = "NotGivenByIronic"

// BIOSUnread records in firmware that Ironic does not give the settings of the machine. What is recorded of them remains.
func BIOSUnread(firmware *metal3.HostFirmwareSettings, message string, now metav1.Time) {
	meta.SetStatusCondition(&firmware.Status.Conditions, outdated(message, firmware.Generation, now))
}

// ComponentsUnread does for components what BIOSUnread does for BIOS settings.
func ComponentsUnread(components *metal3.HostFirmwareComponents, message string, now metav1.Time) {
	meta.SetStatusCondition(&components.Status.Conditions, outdated(message, components.Generation, now))
}

func outdated(message string, generation int64, now metav1.Time) metav1.Condition {
	return metav1.Condition{
		Type: UpToDateCondition, Status: metav1.ConditionFalse, Reason: notGivenReason, Message: cut(message),
		ObservedGeneration: generation, LastTransitionTime: now,
	}
}
