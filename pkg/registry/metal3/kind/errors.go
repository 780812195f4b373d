package kind

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxErrors is how many mistakes are told at a time. Putting a list of them into
// words takes the square of its length: half a minute for 20,000, which fit into
// one request.
const maxErrors = 100

// FirstErrors are as many of the errors as are told, with how many there are.
func FirstErrors(errs field.ErrorList) field.ErrorList {
	if len(errs) <= maxErrors {
		return errs
	}
	last := errs[maxErrors-1]
	more := field.Invalid(field.NewPath(last.Field), field.OmitValueType{}, fmt.Sprintf("and %d more mistakes that are not listed", len(errs)-maxErrors))
	return append(errs[:maxErrors:maxErrors], more)
}
