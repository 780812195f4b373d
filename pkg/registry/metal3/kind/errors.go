// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxErrors is how many errors about an object are reported. Formatting a list of errors
// takes time proportional to the square of its length: half a minute for 20,000 errors,
// which a single request can cause.
const maxErrors = 100

// FirstErrors returns the first maxErrors errors. If there are more, it adds one that says
// how many.
func FirstErrors(errs field.ErrorList) field.ErrorList {
	if len(errs) <= maxErrors {
		return errs
	}
	last := errs[maxErrors-1]
	more := field.Invalid(field.NewPath(last.Field), field.OmitValueType{}, fmt.Sprintf("and %d more errors that are not listed", len(errs)-maxErrors))
	return append(errs[:maxErrors:maxErrors], more)
}
