// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestFirstErrors(t *testing.T) {
	var errs field.ErrorList
	for i := range 20000 {
		errs = append(errs, field.Required(field.NewPath("spec", "list").Index(i), ""))
	}
	if got := FirstErrors(errs[:maxErrors]); len(got) != maxErrors {
		t.Errorf("%d errors of %d", len(got), maxErrors)
	}
	got := FirstErrors(errs)
	if last := got[len(got)-1]; len(got) != maxErrors+1 || !strings.Contains(last.Error(), "and 19900 more errors") {
		t.Errorf("%d errors, the last one is %v", len(got), last)
	}
	if errs[maxErrors].Type != field.ErrorTypeRequired {
		t.Error("the list was changed")
	}
}
