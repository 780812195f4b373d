package validation

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/weburl"
)

func validateImage(image *v1alpha1.Image, path *field.Path) field.ErrorList {
	if image == nil {
		return nil
	}
	all := validateImageEnums(image, path)
	if image.URL == "" {
		return append(all, field.Required(path.Child("url"), accepted(weburl.Image)+"; remove the image to deprovision the host"))
	}
	checksum := path.Child("checksum")
	all = append(all, validateChecksum(checksum, image.Checksum)...)
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

// ImageCredentialWarnings returns a warning for each URL in the image of a host that contains a user
// name or password.
func ImageCredentialWarnings(host *v1alpha1.BareMetalHost) []string {
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
	return all
}

func validateMinSize(hints *v1alpha1.RootDeviceHints, path *field.Path) field.ErrorList {
	if hints.MinSizeGigabytes < 0 {
		return field.ErrorList{field.Invalid(path.Child("minSizeGigabytes"), hints.MinSizeGigabytes, "must be 0 or more")}
	}
	return nil
}

var (
	hardwareLevels = []string{"0", "1", "2", "5", "6", "1+0", "5+0", "6+0"}
	softwareLevels = []string{"0", "1", "1+0"}
)

func validateRAID(spec *v1alpha1.BareMetalHostSpec, path *field.Path) field.ErrorList {
	raid := spec.RAID
	if raid == nil {
		return nil
	}
	all := validateRAIDVolumes(raid, path)
	software := path.Child("softwareRAIDVolumes")
	if len(raid.HardwareRAIDVolumes) > 0 && len(raid.SoftwareRAIDVolumes) > 0 {
		all = append(all, field.Forbidden(software, "cannot be combined with hardwareRAIDVolumes; leave one of the two lists empty"))
	}
	roots := 0
	for i, volume := range raid.SoftwareRAIDVolumes {
		if !volume.RootVolume {
			continue
		}
		roots++
		root := software.Index(i).Child("rootVolume")
		if roots > 1 {
			all = append(all, field.Invalid(root, true, "only one volume can be the root volume"))
		}
		if volume.Level != "1" {
			all = append(all, field.Invalid(root, true, "the root volume must have level 1, because the host has to boot from either disk"))
		}
		if spec.RootDeviceHints != nil {
			all = append(all, field.Invalid(root, true, "cannot be combined with spec.rootDeviceHints; remove one of the two"))
		}
	}
	return all
}

// validateRAIDVolumes applies the rules about single volumes.
func validateRAIDVolumes(raid *v1alpha1.RAIDConfig, path *field.Path) field.ErrorList {
	var all field.ErrorList
	for i, volume := range raid.HardwareRAIDVolumes {
		path := path.Child("hardwareRAIDVolumes").Index(i)
		all = append(all, requiredEnum(path.Child("level"), volume.Level, hardwareLevels...)...)
		all = append(all, atLeast(path.Child("sizeGibibytes"), volume.SizeGibibytes, 0)...)
		all = append(all, atLeast(path.Child("numberOfPhysicalDisks"), volume.NumberOfPhysicalDisks, 1)...)
		all = append(all, maxLength(path.Child("name"), volume.Name, 64)...)
		disks := len(volume.PhysicalDisks)
		if disks > 0 && volume.Controller == "" {
			all = append(all, field.Required(path.Child("controller"), "is required with physicalDisks"))
		}
		if number := volume.NumberOfPhysicalDisks; disks > 0 && number != nil && *number != disks {
			all = append(all, field.Invalid(path.Child("numberOfPhysicalDisks"), *number,
				fmt.Sprintf("must be %d, the number of physicalDisks, or omitted", disks)))
		}
	}
	software := path.Child("softwareRAIDVolumes")
	if number := len(raid.SoftwareRAIDVolumes); number > 2 {
		all = append(all, field.TooMany(software, number, 2))
	}
	for i, volume := range raid.SoftwareRAIDVolumes {
		path := software.Index(i)
		all = append(all, requiredEnum(path.Child("level"), volume.Level, softwareLevels...)...)
		all = append(all, atLeast(path.Child("sizeGibibytes"), volume.SizeGibibytes, 0)...)
		disks := path.Child("physicalDisks")
		if volume.PhysicalDisks != nil && len(volume.PhysicalDisks) < 2 {
			all = append(all, field.Invalid(disks, field.OmitValueType{}, "must have at least 2 disks, or be omitted"))
		}
		for j := range volume.PhysicalDisks {
			all = append(all, validateMinSize(&volume.PhysicalDisks[j], disks.Index(j))...)
		}
	}
	return all
}

func atLeast(path *field.Path, value *int, least int) field.ErrorList {
	if value != nil && *value < least {
		return field.ErrorList{field.Invalid(path, *value, fmt.Sprintf("must be %d or more", least))}
	}
	return nil
}

func maxLength(path *field.Path, value string, limit int) field.ErrorList {
	// The operator's schema counts characters, not bytes.
	if utf8.RuneCountInString(value) > limit {
		return field.ErrorList{field.TooLong(path, value, limit)}
	}
	return nil
}
