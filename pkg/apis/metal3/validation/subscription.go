// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/weburl"
)

// ValidateBMCEventSubscription validates a subscription; old is nil for a new object. The
// spec is immutable, because a BMC cannot change a subscription.
func ValidateBMCEventSubscription(subscription, old *v1alpha1.BMCEventSubscription) field.ErrorList {
	path := field.NewPath("spec")
	if old != nil {
		if equality.Semantic.DeepEqual(subscription.Spec, old.Spec) {
			return nil
		}
		return field.ErrorList{field.Forbidden(path, "cannot be changed; delete the subscription and create it again")}
	}
	spec := &subscription.Spec
	all := required(path.Child("hostName"), spec.HostName, "must name a host of the same namespace")
	all = append(all, objectName(path.Child("hostName"), spec.HostName)...)
	all = append(all, validateDestination(path.Child("destination"), spec.Destination)...)
	if ref := spec.HTTPHeadersRef; ref != nil && ref.Namespace != subscription.Namespace {
		all = append(all, field.Forbidden(path.Child("httpHeadersRef", "namespace"), "must be the namespace of the subscription, "+subscription.Namespace))
	}
	if ref := spec.HTTPHeadersRef; ref != nil {
		all = append(all, required(path.Child("httpHeadersRef", "name"), ref.Name, "must name the Secret with the headers")...)
		all = append(all, objectName(path.Child("httpHeadersRef", "name"), ref.Name)...)
	}
	return all
}

// validateDestination requires a path, because BMCs interpret a URL without one
// differently.
func validateDestination(path *field.Path, destination string) field.ErrorList {
	if destination == "" {
		return field.ErrorList{field.Required(path, "must be the URL to which the events are sent")}
	}
	parsed, err := weburl.Parse(destination, weburl.Web)
	if err != nil {
		return field.ErrorList{field.Invalid(path, redacted(destination), err.Error()+", as in https://events.example.com/")}
	}
	if parsed.Path == "" {
		return field.ErrorList{field.Invalid(path, redacted(destination), "must have a path: add a slash at the end")}
	}
	if parsed.User != nil {
		return field.ErrorList{field.Invalid(path, redacted(destination),
			"must not contain a user name or password, because everybody who can read this object could read them; send them in a header, from the Secret that httpHeadersRef names")}
	}
	return nil
}
