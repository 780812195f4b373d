// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// TestStoredPasswords checks that an object that has a URL with a password from before can be changed
// in other respects, but not in the password alone, and that errors show neither password.
func TestStoredPasswords(t *testing.T) {
	address := func(url string) *v1alpha1.BareMetalHost {
		return &v1alpha1.BareMetalHost{Spec: v1alpha1.BareMetalHostSpec{BMC: v1alpha1.BMCDetails{Address: url}}}
	}
	image := func(url, checksum string) *v1alpha1.BareMetalHost {
		return &v1alpha1.BareMetalHost{Spec: v1alpha1.BareMetalHostSpec{Image: &v1alpha1.Image{URL: url, Checksum: checksum}}}
	}
	update := func(make func(string) *v1alpha1.BareMetalHost) func(before, now string) field.ErrorList {
		return func(before, now string) field.ErrorList {
			old, host := make(before), make(now)
			old.ResourceVersion, host.ResourceVersion = "1", "1"
			old.Status.Provisioning.State = v1alpha1.StateRegistering
			host.Spec.Description = "changed"
			return ValidateBareMetalHostUpdate(host, old)
		}
	}
	const url = "://user:SECRET@example.com/a?b=c&d=e"
	for name, test := range map[string]struct {
		scheme string
		update func(before, now string) field.ErrorList
	}{
		"BMC address": {"redfish", update(address)},
		"image":       {"https", update(func(url string) *v1alpha1.BareMetalHost { return image(url, "abc") })},
		"checksum":    {"https", update(func(url string) *v1alpha1.BareMetalHost { return image("https://example.com/a", url) })},
		"DataImage": {"https", func(before, now string) field.ErrorList {
			old, changed := &v1alpha1.DataImage{}, &v1alpha1.DataImage{}
			old.Spec.URL, changed.Spec.URL = before, now
			return ValidateDataImage(changed, old)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			stored := test.scheme + url
			if errs := test.update(stored, stored); len(errs) != 0 {
				t.Errorf("another change is refused: %v", errs)
			}
			errs := test.update(stored, strings.Replace(stored, "SECRET", "ROTATED", 1))
			if len(errs) != 1 {
				t.Fatalf("another password: %d errors, want 1: %v", len(errs), errs)
			}
			if text := errs.ToAggregate().Error(); strings.Contains(text, "SECRET") || strings.Contains(text, "ROTATED") {
				t.Errorf("the error shows a password: %s", text)
			}
		})
	}
}
