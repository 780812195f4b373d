package v1alpha1

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	kjson "sigs.k8s.io/json"
)

// IsRebootAnnotation tells whether an annotation asks for a reboot or holds the
// host off.
func IsRebootAnnotation(key string) bool {
	return key == RebootAnnotation || strings.HasPrefix(key, RebootAnnotationPrefix)
}

// ParseRebootAnnotation reads the value of a reboot annotation. An empty one
// asks for a soft reboot.
func ParseRebootAnnotation(value string) (RebootAnnotationArguments, error) {
	args := RebootAnnotationArguments{Mode: PowerModeSoft}
	if value == "" {
		return args, nil
	}
	if err := json.Unmarshal([]byte(value), &args); err != nil {
		return args, fmt.Errorf(`must be empty or JSON like {"mode":"hard","force":false}: %w`, err)
	}
	switch args.Mode {
	case "":
		args.Mode = PowerModeSoft
	case PowerModeSoft, PowerModeHard:
	default:
		return args, fmt.Errorf("unknown mode %q: use hard or soft", args.Mode)
	}
	return args, nil
}

// ParseDetachedAnnotation reads the value of DetachedAnnotation. What is not a
// JSON object, for instance "true", asks for a plain detach.
func ParseDetachedAnnotation(value string) (DetachedAnnotationArguments, error) {
	args := DetachedAnnotationArguments{DeleteAction: DetachedDeleteActionDelete}
	if !strings.HasPrefix(strings.TrimSpace(value), "{") {
		return args, nil
	}
	if err := json.Unmarshal([]byte(value), &args); err != nil {
		return args, fmt.Errorf(`must be empty or JSON like {"deleteAction":"delay","force":false}: %w`, err)
	}
	switch args.DeleteAction {
	case "":
		args.DeleteAction = DetachedDeleteActionDelete
	case DetachedDeleteActionDelete, DetachedDeleteActionDelay:
	default:
		return args, fmt.Errorf("unknown deleteAction %q: use delete or delay", args.DeleteAction)
	}
	return args, nil
}

// ParseInspectAnnotation reads the value of InspectAnnotation: disabled switches
// inspection off, empty asks for another one.
func ParseInspectAnnotation(value string) (disabled bool, err error) {
	switch value {
	case "":
		return false, nil
	case InspectAnnotationValueDisabled:
		return true, nil
	default:
		return false, errors.New("must be empty, to inspect the host again, or disabled")
	}
}

// ParseHardwareDetailsAnnotation reads the value of HardwareDetailsAnnotation; an
// empty one is none. Unknown fields are errors: they would be lost.
func ParseHardwareDetailsAnnotation(value string) (*HardwareDetails, error) {
	if value == "" {
		return nil, nil
	}
	details := &HardwareDetails{}
	if err := unmarshalStrict(value, details); err != nil {
		return nil, fmt.Errorf("must be JSON like status.hardware: %w", err)
	}
	return details, nil
}

// ParseStatusAnnotation reads the value of StatusAnnotation; an empty one is none.
// Unknown fields are errors: they would be lost.
func ParseStatusAnnotation(value string) (*BareMetalHostStatus, error) {
	if value == "" {
		return nil, nil
	}
	status := &BareMetalHostStatus{}
	if err := unmarshalStrict(value, status); err != nil {
		return nil, fmt.Errorf("must be JSON like the status of a host: %w", err)
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

// InspectionDisabled tells whether the host must not be inspected, by its spec
// or by the older annotation.
func (host *BareMetalHost) InspectionDisabled() bool {
	return host.Spec.InspectionMode == InspectionModeDisabled ||
		host.Annotations[InspectAnnotation] == InspectAnnotationValueDisabled
}
