package validation

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
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
		known.Insert(err.Error())
	}
	var all field.ErrorList
	for _, err := range errs {
		if !known.Has(err.Error()) {
			all = append(all, err)
		}
	}
	return all
}

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
