// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// ValidateHostClaim validates a request for a host; old is nil for a new object. There is
// no rule for spec.poweredOn, although the operator's schema requires the field: after
// decoding, a missing field cannot be distinguished from false.
func ValidateHostClaim(claim, old *v1alpha1.HostClaim) field.ErrorList {
	return ratchet(claim, old, func(claim *v1alpha1.HostClaim) field.ErrorList {
		spec, path := &claim.Spec, field.NewPath("spec")
		annotations := field.NewPath("metadata", "annotations")
		all := validateRebootAnnotations(claim.Annotations, annotations)
		if reboots := countReboots(claim.Annotations); reboots > maxClaimReboots {
			all = append(all, field.TooMany(annotations, reboots, maxClaimReboots))
		}
		all = append(all, validateSecretReferences(claim.Namespace, spec.UserData, spec.NetworkData, spec.MetaData, path)...)
		all = append(all, validateImage(spec.Image, path.Child("image"))...)
		all = append(all, validateCustomDeploy(spec.CustomDeploy, path.Child("customDeploy"))...)
		all = append(all, validateHostSelector(&spec.HostSelector, path.Child("hostSelector"))...)
		all = append(all, validateLabelValue(path.Child("failureDomain"), spec.FailureDomain)...)
		status := field.NewPath("status")
		all = append(all, validateObjectReference(claim.Status.BareMetalHost, status.Child("bareMetalHost"))...)
		all = append(all, validateObjectReference(claim.Status.HardwareData, status.Child("hardwareData"))...)
		return append(all, validateConditions(claim.Status.Conditions)...)
	})
}

// maxClaimReboots is how many reboot annotations a claim may have. All are passed on to its host, whose metadata is limited: its
// owner could neither pause nor detach it.
const maxClaimReboots = 16

func countReboots(annotations map[string]string) (reboots int) {
	for key := range annotations {
		if v1alpha1.IsRebootAnnotation(key) {
			reboots++
		}
	}
	return reboots
}

func validateObjectReference(ref *v1alpha1.ObjectReference, path *field.Path) field.ErrorList {
	if ref == nil {
		return nil
	}
	all := required(path.Child("namespace"), ref.Namespace, "must be the namespace of the object")
	return append(all, required(path.Child("name"), ref.Name, "must be the name of the object")...)
}

// What a selector may have at most: all claims wait while it is compared with the labels of each host.
const (
	maxSelectorExpressions = 100
	maxSelectorValues      = 1000 // of all expressions together
)

func validateHostSelector(selector *v1alpha1.HostSelector, path *field.Path) field.ErrorList {
	all := namespaceName(path.Child("inNamespace"), selector.InNamespace)
	labels := path.Child("matchLabels")
	for _, key := range slices.Sorted(maps.Keys(selector.MatchLabels)) {
		all = append(all, validateLabelName(labels.Key(key), key)...)
		all = append(all, validateLabelValue(labels.Key(key), selector.MatchLabels[key])...)
	}
	expressions, values := path.Child("matchExpressions"), 0
	for i, requirement := range selector.MatchExpressions {
		all = append(all, validateRequirement(&requirement, expressions.Index(i))...)
		values += len(requirement.Values)
	}
	if number := len(selector.MatchExpressions); number > maxSelectorExpressions {
		all = append(all, field.TooMany(expressions, number, maxSelectorExpressions))
	}
	if values > maxSelectorValues {
		err := field.TooMany(expressions, values, maxSelectorValues)
		err.Detail = fmt.Sprintf("may have at most %d values, and has %d: label the hosts, and select by that label", maxSelectorValues, values)
		all = append(all, err)
	}
	return all
}

// validateRequirement checks a requirement for a label.
func validateRequirement(requirement *v1alpha1.HostSelectorRequirement, path *field.Path) field.ErrorList {
	all := validateLabelName(path.Child("key"), requirement.Key)
	values, operator := path.Child("values"), requirement.Operator
	invalid := func(message string) {
		all = append(all, field.Invalid(values, requirement.Values, message+" with the operator "+string(operator)))
	}
	number := len(requirement.Values)
	switch operator {
	case selection.Equals, selection.DoubleEquals, selection.NotEquals:
		if number != 1 {
			invalid("must be exactly one value")
		}
	case selection.In, selection.NotIn:
		if number == 0 {
			invalid("must be at least one value")
		}
	case selection.Exists, selection.DoesNotExist:
		if requirement.Values == nil {
			all = append(all, field.Required(values, "must be an empty list with the operator "+string(operator)))
		}
		if number != 0 {
			invalid("must be an empty list")
		}
	default:
		all = append(all, requiredEnum(path.Child("operator"), operator, selection.Equals, selection.DoubleEquals,
			selection.NotEquals, selection.In, selection.NotIn, selection.Exists, selection.DoesNotExist)...)
	}
	for i, value := range requirement.Values {
		all = append(all, validateLabelValue(values.Index(i), value)...)
	}
	return all
}

func validateLabelName(path *field.Path, name string) field.ErrorList {
	if messages := validation.IsQualifiedName(name); len(messages) > 0 {
		return field.ErrorList{field.Invalid(path, name, strings.Join(messages, "; "))}
	}
	return nil
}

func validateLabelValue(path *field.Path, value string) field.ErrorList {
	if messages := validation.IsValidLabelValue(value); len(messages) > 0 {
		return field.ErrorList{field.Invalid(path, value, strings.Join(messages, "; "))}
	}
	return nil
}

// ValidateHostDeployPolicy validates a policy about who may claim hosts; old is nil for a
// new object.
func ValidateHostDeployPolicy(policy, old *v1alpha1.HostDeployPolicy) field.ErrorList {
	return ratchet(policy, old, func(policy *v1alpha1.HostDeployPolicy) field.ErrorList {
		namespaces := policy.Spec.HostClaimNamespaces
		if namespaces == nil {
			return nil
		}
		path := field.NewPath("spec", "hostClaimNamespaces")
		var all field.ErrorList
		for i, name := range namespaces.Names {
			all = append(all, required(path.Child("names").Index(i), name, "must be the name of a namespace")...)
			all = append(all, namespaceName(path.Child("names").Index(i), name)...)
		}
		// The policy would let nobody claim a host.
		if _, err := namespaces.ParseNameMatches(); err != nil {
			all = append(all, field.Invalid(path.Child("nameMatches"), excerpt(namespaces.NameMatches), err.Error()))
		}
		for i, label := range namespaces.HasLabels {
			all = append(all, validateRequiredLabel(&label, path.Child("hasLabels").Index(i))...)
		}
		return all
	})
}

func validateRequiredLabel(label *v1alpha1.NameValuePair, path *field.Path) field.ErrorList {
	if label.Name == "" {
		return field.ErrorList{field.Required(path.Child("name"), "must be the name of a label")}
	}
	return append(validateLabelName(path.Child("name"), label.Name), validateLabelValue(path.Child("value"), label.Value)...)
}
