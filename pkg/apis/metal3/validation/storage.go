// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/weburl"
)

func validateImage(image *v1alpha1.Image, path *field.Path) field.ErrorList {
	if image == nil {
		return nil
	}
	all := validateImageEnums(image, path)
	all = append(all, trimmed(path.Child("checksum"), image.Checksum)...)
	all = append(all, objectName(path.Child("ociAuthSecretName"), ptr.Deref(image.OCIAuthSecretName, ""))...)
	if image.URL == "" {
		return append(all, field.Required(path.Child("url"), accepted(weburl.Image)+"; remove the image to deprovision the host"))
	}
	checksum := path.Child("checksum")
	all = append(all, validateChecksum(checksum, image.Checksum)...)
	all = append(all, validateDigest(checksum, image)...)
	if errs := validateURL(path.Child("url"), image.URL, weburl.Image); len(errs) > 0 {
		return append(all, errs...)
	}
	switch {
	case strings.HasPrefix(image.URL, "oci:"):
		if image.Checksum != "" {
			all = append(all, field.Forbidden(checksum, "is not allowed with oci://, because the registry has the checksum"))
		}
	case image.Checksum == "" && !image.IsLiveISO():
		all = append(all, field.Required(checksum, "must be the checksum of the image or a URL where it is found; it is optional only for oci:// and live-iso images"))
	}
	return all
}

// validateStatusImage checks an image in the status of a host: one that was deployed, or that a host which
// was moved here says was. It may be empty.
func validateStatusImage(image *v1alpha1.Image, path *field.Path) field.ErrorList {
	all := validateImageEnums(image, path)
	if image.URL != "" {
		all = append(all, validateURL(path.Child("url"), image.URL, weburl.Image)...)
	}
	return append(all, validateChecksum(path.Child("checksum"), image.Checksum)...)
}

func validateChecksum(path *field.Path, checksum string) field.ErrorList {
	if !weburl.IsURL(checksum) {
		return nil
	}
	return validateURL(path, checksum, weburl.Web)
}

// digestSizes are how many hexadecimal digits digests have.
var digestSizes = map[v1alpha1.ChecksumType]int{v1alpha1.MD5: 32, "sha1": 40, "sha224": 56, v1alpha1.SHA256: 64, "sha384": 96, v1alpha1.SHA512: 128}

// validateDigest refuses checksums that no image can have, which Ironic would notice after it has downloaded one: the line of a file of
// checksums, digits of another algorithm, and digits that were lost. Fewer digits than any digest has are left to Ironic.
func validateDigest(path *field.Path, image *v1alpha1.Image) field.ErrorList {
	invalid := func(message string) field.ErrorList {
		return field.ErrorList{field.Invalid(path, excerpt(image.Checksum), message)}
	}
	algorithm, digits, isDigest := image.Digest()
	if !isDigest {
		switch isURL := weburl.IsURL(image.Checksum); {
		case isURL && !strings.HasPrefix(image.Checksum, "http://") && !strings.HasPrefix(image.Checksum, "https://"):
			return invalid("must begin with http:// or https:// in lower case, because Ironic accepts no other spelling of the URL of a checksum")
		case !isURL && strings.ContainsAny(image.Checksum, " \t\"'"):
			return invalid("must be the digits alone, without quotes and the name of a file, or the URL of a file of checksums")
		}
		return nil
	}
	if kind := image.ChecksumType; kind != "" && kind != v1alpha1.AutoChecksum {
		if algorithm != "" && algorithm != kind {
			return invalid(fmt.Sprintf("is of %s, but checksumType is %s: remove one of the two", algorithm, kind))
		}
		algorithm = kind
	}
	size, isKnown := digestSizes[algorithm]
	switch {
	case len(digits) < digestSizes[v1alpha1.MD5]:
	case isKnown && len(digits) != size:
		return invalid(fmt.Sprintf("has %d digits, but checksums of %s have %d", len(digits), algorithm, size))
	case algorithm == "" && len(digits) != 32 && len(digits) != 64 && len(digits) != 128:
		return invalid(fmt.Sprintf("has %d digits, by which Ironic knows no algorithm: those of MD5 have 32, of SHA-256 64, and of SHA-512 128", len(digits)))
	}
	return nil
}

// validateURL checks a URL that Ironic or a BMC is to connect to.
func validateURL(path *field.Path, value string, schemes []string) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(path, accepted(schemes))}
	}
	if _, err := weburl.Parse(value, schemes); err != nil {
		return field.ErrorList{field.Invalid(path, redacted(value), err.Error())}
	}
	return validateNoCredentials(path, value)
}

func accepted(schemes []string) string {
	return "must be a URL with one of the schemes " + strings.Join(schemes, ", ")
}

// imageCredentialWarnings returns a warning for each URL in the image of a host that contains a user
// name or password.
func imageCredentialWarnings(host *v1alpha1.BareMetalHost) []string {
	if host.Spec.Image == nil {
		return nil
	}
	path := field.NewPath("spec", "image")
	errs := validateNoCredentials(path.Child("url"), host.Spec.Image.URL)
	errs = append(errs, validateNoCredentials(path.Child("checksum"), host.Spec.Image.Checksum)...)
	var warnings []string
	for _, err := range errs {
		warnings = append(warnings, err.Error())
	}
	return warnings
}

// validateNoCredentials refuses a URL that contains a user name or password.
func validateNoCredentials(path *field.Path, value string) field.ErrorList {
	shown, has := weburl.WithoutCredentials(value)
	if !has {
		return nil
	}
	return field.ErrorList{field.Invalid(path, redactedURL{shown: shown, whole: value},
		"must not contain a user name or password, because everybody who can read this object could read them; "+
			"use a server that needs none, or an oci:// image with a pull Secret in ociAuthSecretName")}
}

func validateImageEnums(image *v1alpha1.Image, path *field.Path) field.ErrorList {
	all := enum(path.Child("checksumType"), image.ChecksumType,
		v1alpha1.AutoChecksum, v1alpha1.MD5, v1alpha1.SHA256, v1alpha1.SHA512)
	if image.DiskFormat != nil {
		all = append(all, requiredEnum(path.Child("format"), *image.DiskFormat,
			v1alpha1.Raw, v1alpha1.QCOW2, v1alpha1.VDI, v1alpha1.VMDK, v1alpha1.LiveISO)...)
	}
	return all
}

func validateRootDeviceHints(hints *v1alpha1.RootDeviceHints, path *field.Path) field.ErrorList {
	if hints == nil {
		return nil
	}
	all := validateMinSize(hints, path)
	if name := hints.DeviceName; name != "" {
		device, found := strings.CutPrefix(name, "/dev/")
		device = strings.TrimPrefix(device, "disk/by-path/")
		if !found || device == "" || strings.Contains(device, "/") {
			all = append(all, field.Invalid(path.Child("deviceName"), name, "must be /dev/NAME or /dev/disk/by-path/NAME"))
		}
	}
	for _, hint := range []struct{ name, value string }{
		{"hctl", hints.HCTL}, {"model", hints.Model}, {"vendor", hints.Vendor}, {"serialNumber", hints.SerialNumber},
		{"wwn", hints.WWN}, {"wwnWithExtension", hints.WWNWithExtension}, {"wwnVendorExtension", hints.WWNVendorExtension},
	} {
		all = append(all, notBlank(path.Child(hint.name), hint.value)...)
		all = append(all, withoutOperator(path.Child(hint.name), hint.value)...)
	}
	return all
}

var hintOperator = regexp.MustCompile(`^\s*(<(in|or|all-in|range-in)>|s?[=!]=|s?[<>]=?|=)`)

// withoutOperator refuses a hint in the language of Ironic, in which the root devices of nodes are chosen. An operator is put in
// front of what is written here, so no disk would fit.
func withoutOperator(path *field.Path, hint string) field.ErrorList {
	if operator := hintOperator.FindString(hint); operator != "" {
		return field.ErrorList{field.Invalid(path, excerpt(hint), "must not begin with an operator of Ironic: leave out "+strings.TrimSpace(operator))}
	}
	return nil
}

func validateMinSize(hints *v1alpha1.RootDeviceHints, path *field.Path) field.ErrorList {
	if hints.MinSizeGigabytes < 0 {
		return field.ErrorList{field.Invalid(path.Child("minSizeGigabytes"), hints.MinSizeGigabytes, "must be 0 or more")}
	}
	return nil
}
