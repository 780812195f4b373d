// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
)

// ratchet returns the errors of an object that it did not have before; old is nil for a new
// object. A rule that is newer than an object must not prevent other changes of the object.
func ratchet[T any](obj, old *T, rules func(*T) field.ErrorList) field.ErrorList {
	errs := rules(obj)
	if old == nil || len(errs) == 0 {
		return errs
	}
	return added(errs, rules(old))
}

// added returns those errors that are not among the old ones.
func added(errs, old field.ErrorList) field.ErrorList {
	known := sets.New[string]()
	for _, err := range old {
		known.Insert(identity(err))
	}
	var all field.ErrorList
	for _, err := range errs {
		if !known.Has(identity(err)) {
			all = append(all, err)
		}
	}
	return all
}

// identity returns a string that tells errors apart. It must not be shown.
func identity(err *field.Error) string {
	if url, ok := err.BadValue.(redactedURL); ok {
		return err.Error() + "\n" + url.whole
	}
	return err.Error()
}

// redactedURL is a URL in an error that is shown without a user name and password. If an object has
// such a URL already, only the very same URL is accepted in an update, and not another password in it.
type redactedURL struct{ shown, whole string }

func redacted(url string) redactedURL { return redactedURL{shown: bmc.Redact(url), whole: url} }

// MarshalJSON returns what is shown: field.Error encodes values as JSON.
func (u redactedURL) MarshalJSON() ([]byte, error) { return json.Marshal(u.shown) }

// validateConditions checks the conditions of a status.
func validateConditions(conditions []metav1.Condition) field.ErrorList {
	return metav1validation.ValidateConditions(conditions, field.NewPath("status", "conditions"))
}

// required checks a field that the operator's schema requires. An empty field cannot be
// distinguished from a missing one.
func required(path *field.Path, value, accepted string) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(path, accepted)}
	}
	return nil
}
