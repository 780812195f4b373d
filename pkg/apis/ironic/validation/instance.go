// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	api "github.com/metal3-io/metal3-apiserver/pkg/apis/ironic/v1alpha1"
)

// The maximum sizes, in bytes, of the fields of an IronicInstance.
const (
	maxURL          = 2 << 10
	maxName         = 253
	maxKernelParams = 4 << 10
	// maxCABundle has room for the authorities of a whole operating system, without what is written about them.
	maxCABundle = 128 << 10
	// maxGroup is Ironic's.
	maxGroup = 255
	// maxDomains is the number of failure domains.
	maxDomains = 1000
)

// groupPattern is what a conductor group may be here. Ironic ignores case, and answers in lower case.
var groupPattern = regexp.MustCompile(`^[a-z0-9_.-]+$`)

// ValidateIronicInstance validates the spec of an IronicInstance; old is nil for a new object. Everything can
// change: an Ironic can move while it has hosts. A spec that does not change is not validated, so that a
// finalizer can be removed whatever a later version of this server requires.
func ValidateIronicInstance(instance, old *api.IronicInstance) field.ErrorList {
	if old != nil && equality.Semantic.DeepEqual(instance.Spec, old.Spec) {
		return nil
	}
	spec, path := &instance.Spec, field.NewPath("spec")
	all := validateEndpoint(spec, path)
	all = append(all, validateCredentials(spec, path)...)
	all = append(all, validateCABundle(spec.CABundle, path.Child("caBundle"))...)
	all = append(all, validateSelector(spec.NamespaceSelector, path.Child("namespaceSelector"))...)
	all = append(all, validateSelector(spec.Selector, path.Child("selector"))...)
	all = append(all, validateRamdisk(spec.Ramdisk, path.Child("ramdisk"))...)
	if limit := spec.ProvisioningLimit; limit != nil && *limit < 0 {
		all = append(all, field.Invalid(path.Child("provisioningLimit"), *limit, "must not be negative; 0 is no limit"))
	}
	all = append(all, validateTimeout(spec.RequestTimeout, time.Second, 10*time.Minute, path.Child("requestTimeout"))...)
	// A read has to end before kube-apiserver gives it up after a minute.
	all = append(all, validateTimeout(spec.ReadTimeout, 100*time.Millisecond, 30*time.Second, path.Child("readTimeout"))...)
	return append(all, validateConductorGroups(spec.ConductorGroups, path.Child("conductorGroups"))...)
}

// WarnOfIronicInstance returns what is allowed, but is probably not what was meant.
func WarnOfIronicInstance(instance *api.IronicInstance) []string {
	if spec := &instance.Spec; spec.NamespaceSelector == nil && spec.Selector == nil && !spec.Default {
		return []string{"this IronicInstance selects no host: set spec.namespaceSelector, spec.selector or spec.default"}
	}
	return nil
}

func validateCredentials(spec *api.IronicInstanceSpec, path *field.Path) field.ErrorList {
	if spec.IronicRef != nil {
		return nil // they are refused with the reference
	}
	var all field.ErrorList
	if len(spec.Cloud) > maxName {
		all = append(all, field.TooLong(path.Child("cloud"), "", maxName))
	}
	name := path.Child("credentialsName")
	if spec.CredentialsName == "" {
		if spec.Cloud != "" {
			all = append(all, field.Required(name, "must name the Secret that has clouds.yaml with the cloud"))
		}
		return all
	}
	for _, problem := range apivalidation.NameIsDNSSubdomain(spec.CredentialsName, false) {
		all = append(all, field.Invalid(name, spec.CredentialsName, problem))
	}
	return all
}

// validateCABundle accepts nothing but certificates: everybody who can read the object could read a private
// key that is among them.
func validateCABundle(bundle []byte, path *field.Path) field.ErrorList {
	if len(bundle) == 0 {
		return nil
	}
	if len(bundle) > maxCABundle {
		return field.ErrorList{field.TooLong(path, "", maxCABundle)}
	}
	invalid := func(message string) field.ErrorList {
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, message)}
	}
	rest := bundle
	for n := 1; ; n++ {
		var block *pem.Block
		block, rest = pem.Decode(rest)
		switch {
		case block == nil && n == 1:
			return invalid("must have certificates in PEM, with -----BEGIN CERTIFICATE----- before each of them")
		case block == nil && strings.Contains(string(rest), "-----BEGIN"):
			return invalid(fmt.Sprintf("block %d is not valid PEM", n))
		case block == nil:
			return nil
		case block.Type != "CERTIFICATE":
			return invalid(fmt.Sprintf("must have nothing but certificates, and block %d is something else", n))
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return invalid(fmt.Sprintf("block %d is not a valid certificate", n))
		}
	}
}

func validateSelector(selector *metav1.LabelSelector, path *field.Path) field.ErrorList {
	if selector == nil {
		return nil
	}
	return metav1validation.ValidateLabelSelector(selector, metav1validation.LabelSelectorValidationOptions{}, path)
}

func validateTimeout(timeout *metav1.Duration, least, most time.Duration, path *field.Path) field.ErrorList {
	if timeout == nil || timeout.Duration >= least && timeout.Duration <= most {
		return nil
	}
	return field.ErrorList{field.Invalid(path, timeout.Duration.String(), fmt.Sprintf("must be from %s to %s", least, most))}
}

func validateConductorGroups(groups *api.IronicConductorGroups, path *field.Path) field.ErrorList {
	if groups == nil {
		return nil
	}
	var all field.ErrorList
	if groups.Label != "" {
		all = append(all, metav1validation.ValidateLabelName(groups.Label, path.Child("label"))...)
	}
	if len(groups.ByFailureDomain) == 0 && groups.Default == "" {
		all = append(all, field.Required(path.Child("byFailureDomain"), "must have a conductor group, unless default has one"))
	}
	if len(groups.ByFailureDomain) > maxDomains {
		return append(all, field.TooMany(path.Child("byFailureDomain"), len(groups.ByFailureDomain), maxDomains))
	}
	for _, domain := range slices.Sorted(maps.Keys(groups.ByFailureDomain)) {
		key := path.Child("byFailureDomain").Key(domain)
		for _, problem := range content.IsLabelValue(domain) {
			all = append(all, field.Invalid(key, domain, problem))
		}
		all = append(all, validateGroup(groups.ByFailureDomain[domain], key)...)
	}
	if groups.Default != "" {
		all = append(all, validateGroup(groups.Default, path.Child("default"))...)
	}
	return all
}

func validateGroup(group string, path *field.Path) field.ErrorList {
	switch {
	case len(group) > maxGroup:
		return field.ErrorList{field.TooLong(path, "", maxGroup)}
	case !groupPattern.MatchString(group):
		return field.ErrorList{field.Invalid(path, group, "must be the name of a conductor group, of lower-case letters, digits, '-', '_' and '.'")}
	}
	return nil
}

func validateRamdisk(ramdisk *api.IronicRamdisk, path *field.Path) field.ErrorList {
	if ramdisk == nil {
		return nil
	}
	var all field.ErrorList
	kernel, initrd := path.Child("kernelURL"), path.Child("ramdiskURL")
	if ramdisk.KernelURL == "" && ramdisk.RamdiskURL != "" {
		all = append(all, field.Required(kernel, "the kernel and the initial RAM disk are needed together"))
	}
	if ramdisk.RamdiskURL == "" && ramdisk.KernelURL != "" {
		all = append(all, field.Required(initrd, "the kernel and the initial RAM disk are needed together"))
	}
	all = append(all, validateURL(ramdisk.KernelURL, kernel)...)
	all = append(all, validateURL(ramdisk.RamdiskURL, initrd)...)
	all = append(all, validateURL(ramdisk.ISOURL, path.Child("isoURL"))...)
	params := path.Child("kernelParams")
	switch {
	case len(ramdisk.KernelParams) > maxKernelParams:
		all = append(all, field.TooLong(params, "", maxKernelParams))
	case strings.ContainsFunc(ramdisk.KernelParams, unicode.IsControl):
		all = append(all, field.Invalid(params, field.OmitValueType{}, "must be one line without control characters"))
	}
	return all
}
