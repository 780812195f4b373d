// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"encoding/json"
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// Limits are the maximum sizes of the parts of an object of a kind, in bytes of the JSON that
// is stored. etcd refuses requests of more than 1.5 MiB, so without limits a large object could
// not take the status that the controllers have to record. Together with MaxMetadata, and with
// what is recorded in the status of a host (see HostLimits), the limits stay below that.
type Limits struct {
	// Spec is the limit for the field spec.
	Spec int
	// Status is the limit for the field status, as clients write it. That of a host does not
	// include status.hardware, which MaxHardware limits.
	Status int
}

// MaxMetadata is the limit for the metadata of an object of any kind, in bytes of JSON and
// including managedFields. Kubernetes limits only the annotations, to 256 KiB, and counts them
// before characters such as '<' take six bytes each in JSON.
const MaxMetadata = 320 << 10

const (
	// MaxHardware is the limit for an inventory in a status, an annotation or a HardwareData,
	// in bytes of JSON. The inventory of a large server takes about 100 KiB.
	MaxHardware = 384 << 10
	// MaxMessage is the length at which messages are cut before they are recorded in the
	// status of a host, in bytes. In JSON, each byte takes up to six. It leaves room for what
	// the controller puts before a message of Ironic's, of which 4 KiB are shown.
	MaxMessage = 5 << 10
)

// HostLimits are those of a BareMetalHost, whose inventory MaxHardware limits in addition.
//
// They leave room for what the controller records in the status of a host in addition
// to what clients have written into it: parts of the spec, each at most twice, MaxHardware, and
// about ten messages.
var HostLimits = Limits{Spec: 64 << 10, Status: 256 << 10}

// validateHostSize checks the size of a host; old is nil for a new one.
func validateHostSize(host, old *v1alpha1.BareMetalHost) field.ErrorList {
	withoutHardware := func(host *v1alpha1.BareMetalHost) *v1alpha1.BareMetalHost {
		copied := *host
		copied.Status.HardwareDetails = nil
		return &copied
	}
	path := field.NewPath("status", "hardware")
	if old == nil {
		return append(HostLimits.Validate(withoutHardware(host), nil), validatePart(path, MaxHardware, host.Status.HardwareDetails, nil)...)
	}
	return append(HostLimits.Validate(withoutHardware(host), withoutHardware(old)),
		validatePart(path, MaxHardware, host.Status.HardwareDetails, old.Status.HardwareDetails)...)
}

// validateStatusSize checks the size of a status that an annotation holds.
func validateStatusSize(status *v1alpha1.BareMetalHostStatus, path *field.Path) field.ErrorList {
	rest := *status
	rest.HardwareDetails = nil
	return append(validatePart(path, HostLimits.Status, rest, nil), validatePart(path.Child("hardware"), MaxHardware, status.HardwareDetails, nil)...)
}

// Validate checks the sizes of the parts of an object that has fields ObjectMeta, Spec and
// Status, or some of them; old is nil for a new object. A part of an existing object that is
// already larger may remain as it is or become smaller, so that finalizers can still be removed.
func (l Limits) Validate(obj, old metav1.Object) field.ErrorList {
	var oldSpec, oldStatus any
	if old != nil {
		oldSpec, oldStatus = partOf(old, "Spec"), partOf(old, "Status")
	}
	all := validateMetadataSize(obj, old)
	all = append(all, validatePart(field.NewPath("spec"), l.Spec, partOf(obj, "Spec"), oldSpec)...)
	return append(all, validatePart(field.NewPath("status"), l.Status, partOf(obj, "Status"), oldStatus)...)
}

// validateMetadataSize compares the metadata of two versions without managedFields and
// generation, because the API server itself adds to those.
func validateMetadataSize(obj, old metav1.Object) field.ErrorList {
	metadata := partOf(obj, "ObjectMeta").(metav1.ObjectMeta)
	size := jsonSize(metadata)
	if size <= MaxMetadata {
		return nil
	}
	if old != nil {
		before := partOf(old, "ObjectMeta").(metav1.ObjectMeta)
		wasTooLarge := jsonSize(before) > MaxMetadata
		now := metadata
		now.ManagedFields, before.ManagedFields = nil, nil
		now.Generation, before.Generation = 0, 0
		if wasTooLarge && jsonSize(now) <= jsonSize(before) {
			return nil
		}
	}
	return field.ErrorList{tooLarge(field.NewPath("metadata"), metadata, size, MaxMetadata)}
}

// validatePart checks the size of a part of an object. Before the update, the part was old,
// which is nil if there was none.
func validatePart(path *field.Path, limit int, part, old any) field.ErrorList {
	if size := jsonSize(part); size > limit && size > jsonSize(old) {
		return field.ErrorList{tooLarge(path, part, size, limit)}
	}
	return nil
}

// partOf returns a field of an object, or nil if its type has no such field.
func partOf(obj metav1.Object, name string) any {
	part := reflect.ValueOf(obj).Elem().FieldByName(name)
	if !part.IsValid() {
		return nil
	}
	return part.Interface()
}

// tooLarge is the error of a part that is larger than its limit. It names the largest field,
// because the part as a whole is too long to be shown.
func tooLarge(path *field.Path, part any, size, limit int) *field.Error {
	err := field.TooLong(path, field.OmitValueType{}, limit)
	err.Detail = fmt.Sprintf("may not take more than %d bytes in JSON, and takes %d", limit, size)
	if name, bytes := largestField(part); name != "" {
		err.Detail += fmt.Sprintf("; the largest field is %s with %d bytes", name, bytes)
	}
	return err
}

func largestField(part any) (name string, bytes int) {
	encoded, err := json.Marshal(part)
	if err != nil {
		return "", 0
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(encoded, &fields); err != nil {
		return "", 0 // not a struct
	}
	for field, value := range fields {
		if len(value) > bytes || len(value) == bytes && field < name {
			name, bytes = field, len(value)
		}
	}
	return name, bytes
}

// jsonSize returns the number of bytes of a part of an object in etcd. What has no JSON form
// cannot be stored, either.
func jsonSize(part any) int {
	if part == nil {
		return 0
	}
	encoded, err := json.Marshal(part)
	if err != nil {
		return 0
	}
	return len(encoded)
}
