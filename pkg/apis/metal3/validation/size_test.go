// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

func hostOf(change func(*v1alpha1.BareMetalHost)) *v1alpha1.BareMetalHost {
	host := &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Name: "host-0", Namespace: "ns", ResourceVersion: "1"}}
	change(host)
	return host
}

// TestHostSize checks that each part of a host is limited, counted as it is stored.
func TestHostSize(t *testing.T) {
	annotate := func(key, value string) func(*v1alpha1.BareMetalHost) {
		return func(h *v1alpha1.BareMetalHost) {
			h.Spec.InspectionMode = v1alpha1.InspectionModeDisabled
			metav1.SetMetaDataAnnotation(&h.ObjectMeta, key, value)
		}
	}
	kib := func(n int) string { return strings.Repeat("x", n<<10) }
	for name, test := range map[string]struct {
		change func(*v1alpha1.BareMetalHost)
		refuse string // the field; empty if the host is accepted
		says   string
	}{
		"annotations that Kubernetes accepts": {annotate("example.com/notes", kib(255)), "", ""},
		// Kubernetes counts one byte, JSON has six.
		"annotations with characters that JSON escapes": {annotate("example.com/notes", strings.Repeat("<", 100<<10)), "metadata", "the largest field is annotations"},
		"labels": {func(h *v1alpha1.BareMetalHost) {
			h.Labels = map[string]string{}
			for i := range 8000 {
				h.Labels[fmt.Sprintf("example.com/%d", i)] = strings.Repeat("x", 60)
			}
		}, "metadata", "the largest field is labels"},
		"field managers": {func(h *v1alpha1.BareMetalHost) {
			for i := range 400 {
				h.ManagedFields = append(h.ManagedFields, metav1.ManagedFieldsEntry{
					Manager: fmt.Sprint(i), Operation: metav1.ManagedFieldsOperationApply, APIVersion: "metal3.io/v1alpha1", FieldsType: "FieldsV1",
					FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:metadata":{"f:annotations":{"f:` + kib(1) + `":{}}}}`)},
				})
			}
		}, "metadata", "the largest field is managedFields"},
		"a description":           {func(h *v1alpha1.BareMetalHost) { h.Spec.Description = kib(60) }, "", ""},
		"a description too large": {func(h *v1alpha1.BareMetalHost) { h.Spec.Description = kib(70) }, "spec", "the largest field is description"},
		"a list too long": {func(h *v1alpha1.BareMetalHost) {
			for i := range 3000 {
				h.Spec.NetworkInterfaces = append(h.Spec.NetworkInterfaces, v1alpha1.NetworkInterface{Name: fmt.Sprintf("eno%d-0123456789", i)})
			}
		}, "spec", "the largest field is networkInterfaces"},
		"an inventory in an annotation": {annotate(v1alpha1.HardwareDetailsAnnotation, `{"hostname":"`+kib(200)+`"}`), "", ""},
		"an inventory too large":        {annotate(v1alpha1.HardwareDetailsAnnotation, `{"hostname":"`+strings.Repeat("<", 70<<10)+`"}`), "metadata.annotations[inspect.metal3.io/hardwaredetails]", "the largest field is hostname"},
		"a status in an annotation":     {annotate(v1alpha1.StatusAnnotation, `{"errorMessage":"`+kib(200)+`","hardware":{"hostname":"x"}}`), "", ""},
		// Decoded, each {} has all the fields that are not omitted when they are empty.
		"a status that grows":          {annotate(v1alpha1.StatusAnnotation, `{"conditions":[{}`+strings.Repeat(",{}", 60000)+`]}`), "metadata.annotations[baremetalhost.metal3.io/status]", "the largest field is conditions"},
		"the inventory in such status": {annotate(v1alpha1.StatusAnnotation, `{"hardware":{"hostname":"`+strings.Repeat("<", 70<<10)+`"}}`), "metadata.annotations[baremetalhost.metal3.io/status].hardware", "the largest field is hostname"},
	} {
		t.Run(name, func(t *testing.T) {
			var sizes field.ErrorList
			found := false
			for _, err := range ValidateBareMetalHost(hostOf(test.change)) {
				if err.Type == field.ErrorTypeTooLong {
					sizes = append(sizes, err)
					found = found || err.Field == test.refuse && strings.Contains(err.Detail, test.says)
				}
			}
			if test.refuse == "" && len(sizes) > 0 || test.refuse != "" && !found {
				t.Errorf("want an error about the size of %q that says %q, got %v", test.refuse, test.says, sizes)
			}
			if text := fmt.Sprint(sizes); len(text) > 500 {
				t.Errorf("the error repeats what is too large: %d bytes", len(text))
			}
		})
	}
}

// TestHostSizeUpdate checks that an object from before the limits is not locked.
func TestHostSizeUpdate(t *testing.T) {
	large := hostOf(func(h *v1alpha1.BareMetalHost) {
		h.Spec.Description = strings.Repeat("x", 500<<10)
		h.Finalizers = []string{v1alpha1.BareMetalHostFinalizer}
		h.Labels = map[string]string{}
		for i := range 8000 {
			h.Labels[fmt.Sprintf("example.com/%d", i)] = strings.Repeat("x", 60)
		}
		h.Status.HardwareDetails = &v1alpha1.HardwareDetails{Hostname: strings.Repeat("x", 500<<10)}
	})
	for name, test := range map[string]struct {
		change func(*v1alpha1.BareMetalHost)
		refuse string
	}{
		"unchanged":          {func(*v1alpha1.BareMetalHost) {}, ""},
		"finalizers":         {func(h *v1alpha1.BareMetalHost) { h.Finalizers = nil }, ""},
		"power":              {func(h *v1alpha1.BareMetalHost) { h.Spec.Description = h.Spec.Description[1:]; h.Spec.Online = true }, ""},
		"less, but too much": {func(h *v1alpha1.BareMetalHost) { h.Spec.Description = h.Spec.Description[100:] }, ""},
		"with another client": {func(h *v1alpha1.BareMetalHost) {
			h.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "metal3.io/v1alpha1", FieldsType: "FieldsV1"}}
		}, ""},
		"more":        {func(h *v1alpha1.BareMetalHost) { h.Spec.Description += "x" }, "spec"},
		"more labels": {func(h *v1alpha1.BareMetalHost) { h.Labels["one"] = "more" }, "metadata"},
	} {
		t.Run(name, func(t *testing.T) {
			host := large.DeepCopy()
			test.change(host)
			errs := ValidateBareMetalHostUpdate(host, large)
			if test.refuse == "" && len(errs) > 0 || test.refuse != "" && (len(errs) != 1 || errs[0].Field != test.refuse) {
				t.Errorf("want errors about %q, got %v", test.refuse, errs)
			}
		})
	}
	more := large.DeepCopy()
	more.Status.HardwareDetails.Hostname += "x"
	if errs := ValidateBareMetalHostStatusUpdate(more, large); len(errs) != 1 || errs[0].Field != "status.hardware" {
		t.Errorf("a larger inventory: %v", errs)
	}
	more = large.DeepCopy()
	more.Status.ErrorMessage = "new"
	if errs := ValidateBareMetalHostStatusUpdate(more, large); len(errs) > 0 {
		t.Errorf("another message: %v", errs)
	}
}

// maxRequest is the size of a request that etcd refuses, in bytes.
const maxRequest = 3 << 19 // 1.5 MiB

// TestStatusIsRecordable checks that the largest host that clients can write has room for
// everything that the controller records.
func TestStatusIsRecordable(t *testing.T) {
	const messages, copies = 10, 2
	all := MaxMetadata + HostLimits.Spec*(1+copies) + HostLimits.Status + MaxHardware + messages*6*MaxMessage
	if all > maxRequest-32<<10 {
		t.Errorf("a host can take %d bytes, etcd accepts %d", all, maxRequest)
	}
	if encoded, err := json.Marshal(strings.Repeat("<", MaxMessage)); err != nil || len(encoded) > 6*MaxMessage+2 {
		t.Errorf("a message takes %d bytes: %v", len(encoded), err)
	}
}
