// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"
)

// IsRebootAnnotation reports whether key is an annotation that requests a reboot or keeps
// the host off.
func IsRebootAnnotation(key string) bool {
	return key == RebootAnnotation || strings.HasPrefix(key, RebootAnnotationPrefix)
}

// ParseRebootAnnotation parses the value of a reboot annotation. An empty value requests a
// soft reboot.
func ParseRebootAnnotation(value string) (RebootAnnotationArguments, error) {
	args := RebootAnnotationArguments{Mode: PowerModeSoft}
	if value == "" {
		return args, nil
	}
	if err := json.Unmarshal([]byte(value), &args); err != nil {
		return args, fmt.Errorf(`must be empty or JSON such as {"mode":"hard","force":false}: %w`, err)
	}
	switch args.Mode {
	case "":
		args.Mode = PowerModeSoft
	case PowerModeSoft, PowerModeHard:
	default:
		return args, fmt.Errorf("unknown mode %q: must be hard or soft", args.Mode)
	}
	return args, nil
}

// ParseDetachedAnnotation parses the value of DetachedAnnotation. A value that is not a JSON
// object, such as "true", is equivalent to an empty one.
func ParseDetachedAnnotation(value string) (DetachedAnnotationArguments, error) {
	args := DetachedAnnotationArguments{DeleteAction: DetachedDeleteActionDelete}
	if !strings.HasPrefix(strings.TrimSpace(value), "{") {
		return args, nil
	}
	if err := json.Unmarshal([]byte(value), &args); err != nil {
		return args, fmt.Errorf(`must be empty or JSON such as {"deleteAction":"delay","force":false}: %w`, err)
	}
	switch args.DeleteAction {
	case "":
		args.DeleteAction = DetachedDeleteActionDelete
	case DetachedDeleteActionDelete, DetachedDeleteActionDelay:
	default:
		return args, fmt.Errorf("unknown deleteAction %q: must be delete or delay", args.DeleteAction)
	}
	return args, nil
}

// ParseInspectAnnotation parses the value of InspectAnnotation: disabled disables
// inspection, an empty value requests another inspection.
func ParseInspectAnnotation(value string) (disabled bool, err error) {
	switch value {
	case "":
		return false, nil
	case InspectAnnotationValueDisabled:
		return true, nil
	default:
		return false, errors.New("must be empty (to inspect the host again) or disabled")
	}
}

// ParseHardwareDetailsAnnotation parses the value of HardwareDetailsAnnotation. It returns
// nil for an empty value. Unknown fields are errors, because they would be lost.
func ParseHardwareDetailsAnnotation(value string) (*HardwareDetails, error) {
	if value == "" {
		return nil, nil
	}
	details := &HardwareDetails{}
	if err := unmarshalStrict(value, details); err != nil {
		return nil, fmt.Errorf("must be JSON in the format of status.hardware: %w", err)
	}
	return details, nil
}

// ParseStatusAnnotation parses the value of StatusAnnotation. Unknown fields are errors, because they would
// be lost, but for those of status.ironic and status.record, which belong to the cluster from which the
// status comes: the former is left out, and a record that cannot be read is empty. It is also an error if
// nothing is left, as where a script has failed to read the status: the host would count as new.
func ParseStatusAnnotation(value string) (*BareMetalHostStatus, error) {
	brought := struct {
		BareMetalHostStatus
		// These take precedence over the fields of the status.
		Record json.RawMessage `json:"record"`
		Ironic json.RawMessage `json:"ironic"`
	}{}
	if err := unmarshalStrict(value, &brought); err != nil {
		return nil, fmt.Errorf("must be JSON in the format of the status of a host: %w", err)
	}
	status := &brought.BareMetalHostStatus
	if len(brought.Record) > 0 {
		if err := kjson.UnmarshalCaseSensitivePreserveInts(brought.Record, &status.Record); err != nil {
			status.Record = HostRecord{}
		}
	}
	// (What Cluster API's provider copies of a host that nobody has managed yet has all fields, and they are empty.)
	if reflect.ValueOf(*status).IsZero() && !strings.Contains(value, `"provisioning"`) {
		return nil, errors.New("must be JSON in the format of the status of a host, and there is nothing in it")
	}
	return status, nil
}

func unmarshalStrict(value string, into any) error {
	strict, err := kjson.UnmarshalStrict([]byte(value), into)
	if err != nil {
		return err
	}
	return errors.Join(strict...)
}

// IsBoundToClaim reports whether a HostClaim has the host. The server adds the claim's UID, which others do not, when it binds the two.
func (host *BareMetalHost) IsBoundToClaim() bool {
	ref := host.Spec.ConsumerRef
	return ref != nil && ref.Kind == "HostClaim" && strings.HasPrefix(ref.APIVersion, GroupName+"/") && ref.UID != ""
}

// IsDetached reports whether the host has been taken out of Ironic on request.
func (host *BareMetalHost) IsDetached() bool {
	return host.Status.OperationalStatus == OperationalStatusDetached
}

// IsPaused reports whether an object has an annotation because of which nothing is done for it.
func IsPaused(obj metav1.Object) bool {
	annotations := obj.GetAnnotations()
	_, paused := annotations[PausedAnnotation]
	return paused || IsDeletedForMove(obj)
}

// IsDeletedForMove reports whether clusterctl move has copied an object to another cluster and is about to delete it here.
func IsDeletedForMove(obj metav1.Object) bool {
	_, moved := obj.GetAnnotations()[DeleteForMoveAnnotation]
	return moved
}

// InspectionDisabled reports whether the spec of the host, or the older annotation,
// disables inspection.
func (host *BareMetalHost) InspectionDisabled() bool {
	return host.Spec.InspectionMode == InspectionModeDisabled ||
		host.Annotations[InspectAnnotation] == InspectAnnotationValueDisabled
}
