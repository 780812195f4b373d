// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"strings"
	"unicode"

	metavalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The operator's schemas accept values that cannot mean anything, such as the name of a Secret that no Secret can have. A
// host would only fail with them, or wait, much later.

// objectName checks the name of a Secret or of a host, which may be empty.
func objectName(path *field.Path, name string) field.ErrorList {
	if name == "" {
		return nil
	}
	if problems := metavalidation.NameIsDNSSubdomain(name, false); len(problems) > 0 {
		return field.ErrorList{field.Invalid(path, excerpt(name), "must be the name of an object: "+strings.Join(problems, "; "))}
	}
	return nil
}

// namespaceName checks the name of a namespace, which may be empty.
func namespaceName(path *field.Path, name string) field.ErrorList {
	if name == "" {
		return nil
	}
	if problems := metavalidation.ValidateNamespaceName(name, false); len(problems) > 0 {
		return field.ErrorList{field.Invalid(path, excerpt(name), "must be the name of a namespace: "+strings.Join(problems, "; "))}
	}
	return nil
}

// trimmed checks a text that Ironic compares as a whole: a line break at the end, as YAML leaves behind with |, makes it another one.
func trimmed(path *field.Path, value string) field.ErrorList {
	if strings.TrimSpace(value) != value || strings.ContainsFunc(value, unicode.IsControl) {
		return field.ErrorList{field.Invalid(path, excerpt(value), "must not have spaces or line breaks at its ends, nor control characters in it")}
	}
	return nil
}

// notBlank refuses a text of nothing but spaces.
func notBlank(path *field.Path, value string) field.ErrorList {
	if value != "" && strings.TrimSpace(value) == "" {
		return field.ErrorList{field.Invalid(path, excerpt(value), "must not be blank; leave it out")}
	}
	return nil
}
