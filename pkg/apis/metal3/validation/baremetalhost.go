// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metavalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
)

// ValidateBareMetalHost validates a new host.
func ValidateBareMetalHost(host *v1alpha1.BareMetalHost) field.ErrorList {
	metadata := field.NewPath("metadata")
	all := metavalidation.ValidateObjectMeta(&host.ObjectMeta, true, metavalidation.NameIsDNSSubdomain, metadata)
	all = append(all, validateHostSize(host, nil)...)
	all = append(all, validateName(host.Namespace, host.Name, metadata.Child("name"))...)
	return append(all, validateContents(host)...)
}

// ValidateBareMetalHostUpdate validates an update of a host's spec and metadata. Errors
// that the host had before are ignored, so that a rule that is newer than the host does not
// prevent changes of its finalizers or its power. So are those in its status that an annotation repeats, which is how Cluster API Provider
// Metal3 pauses a host.
func ValidateBareMetalHostUpdate(host, old *v1alpha1.BareMetalHost) field.ErrorList {
	all := metavalidation.ValidateObjectMetaUpdate(&host.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	all = append(all, validateHostSize(host, old)...)
	all = append(all, validateChange(host, old)...)
	known := validateContents(old)
	if _, has := host.Annotations[v1alpha1.StatusAnnotation]; has {
		path := field.NewPath("metadata", "annotations").Key(v1alpha1.StatusAnnotation)
		known = append(known, validateBroughtStatus(&old.Status, path)...)
	}
	if host.Spec.BMC.Address != old.Spec.BMC.Address {
		// The error does not contain the password, which may be all that has changed.
		known = slices.DeleteFunc(known, func(err *field.Error) bool { return err.Field == "spec.bmc.address" })
	}
	return append(all, added(validateContents(host), known)...)
}

// validateChange applies the rules that compare the old and the new host. Both have the
// same status, because an update of the spec does not change it.
func validateChange(host, old *v1alpha1.BareMetalHost) field.ErrorList {
	var all field.ErrorList
	spec := field.NewPath("spec")
	state := old.Status.Provisioning.State

	if before := old.Spec.BMC.Address; host.Spec.BMC.Address != before && before != "" &&
		!old.IsDetached() &&
		state != v1alpha1.StateRegistering && !isHeldForAnotherBMC(&old.Status) {
		all = append(all, field.Forbidden(spec.Child("bmc", "address"),
			"can be changed only while the host is registering or detached: set the annotation "+v1alpha1.DetachedAnnotation+" first"))
	}
	if before := old.Spec.BootMAC(); before != "" && before != host.Spec.BootMAC() {
		all = append(all, field.Forbidden(spec.Child("bootMACAddress"),
			"cannot be changed or removed once it is set: keep "+before+", or replace the host: "+v1alpha1.HowToReplace(state)))
	}
	if host.Spec.ExternallyProvisioned && !old.Spec.ExternallyProvisioned &&
		state != v1alpha1.StateAvailable && state != v1alpha1.StateReady && !v1alpha1.MayBeExternallyProvisioned(&old.Status) {
		all = append(all, field.Forbidden(spec.Child("externallyProvisioned"),
			"can be set to true only while status.provisioning.state is available, or provisioned with an empty image"))
	}
	// Cluster API Provider Metal3 names itself without looking whether somebody has taken the host since it was listed.
	if before, now := old.Spec.ConsumerRef, host.Spec.ConsumerRef; old.IsBoundToClaim() && now != nil &&
		(now.Kind != before.Kind || now.Namespace != before.Namespace || now.Name != before.Name) {
		all = append(all, field.Forbidden(spec.Child("consumerRef"),
			"is HostClaim "+before.Namespace+"/"+before.Name+", which has the host: delete the claim, or remove the reference first"))
	}
	return all
}

// isHeldForAnotherBMC reports whether nothing is asked for the host because Ironic has another BMC for its node than the spec: one of the two
// is to be corrected. (A host that is held so cannot be detached, because the node may be another machine's.)
func isHeldForAnotherBMC(status *v1alpha1.BareMetalHostStatus) bool {
	return status.Record.Hold != nil && status.Record.Hold.Reason == v1alpha1.AnotherBMCReason
}

// validateContents applies the rules about the spec and the annotations of one host.
func validateContents(host *v1alpha1.BareMetalHost) field.ErrorList {
	all := validateSpec(host, field.NewPath("spec"))
	return append(all, validateAnnotations(host, field.NewPath("metadata", "annotations"))...)
}

// maxNodeName is how many characters the name of a node has at most in Ironic (is_valid_logical_name).
const maxNodeName = 255

// validateName refuses names that Ironic would take for the UUID of a node, or of which a node
// could not be named NAMESPACE~NAME. For the former, Ironic removes the dashes and checks for 32
// hexadecimal digits. Kubernetes already forbids all characters that Ironic does not allow in a name.
func validateName(namespace, name string, path *field.Path) field.ErrorList {
	if longest := maxNodeName - len(namespace) - len("~"); len(name) > longest {
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, fmt.Sprintf(
			"must have at most %d characters in namespace %s, and has %d: Ironic names the node NAMESPACE~NAME, with at most %d", longest, namespace, len(name), maxNodeName))}
	}
	if uuidPattern.MatchString(strings.ReplaceAll(name, "-", "")) {
		return field.ErrorList{field.Invalid(path, name, "must not look like a UUID, because Ironic would take it for the UUID of a node; use another name, such as host-"+name)}
	}
	return nil
}

var (
	uuidPattern = regexp.MustCompile(`^[0-9a-fA-F]{32}$`)
	macPattern  = regexp.MustCompile(`^[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}$`)
)

// macMessage describes what macPattern accepts.
const macMessage = "must be a MAC address of six pairs of hexadecimal digits, as in 00:ab:4f:d8:9e:fa"

// validateSpec has no rule for spec.online, although the operator's schema requires the
// field: after decoding, a missing field cannot be distinguished from false.
func validateSpec(host *v1alpha1.BareMetalHost, path *field.Path) field.ErrorList {
	spec := &host.Spec
	all := enum(path.Child("bootMode"), spec.BootMode, v1alpha1.UEFI, v1alpha1.UEFISecureBoot, v1alpha1.Legacy)
	all = append(all, enum(path.Child("automatedCleaningMode"), spec.AutomatedCleaningMode,
		v1alpha1.CleaningModeMetadata, v1alpha1.CleaningModeDisabled)...)
	all = append(all, enum(path.Child("inspectionMode"), spec.InspectionMode,
		v1alpha1.InspectionModeDisabled, v1alpha1.InspectionModeAgent, v1alpha1.InspectionModeFast)...)
	all = append(all, validateTaints(spec, path.Child("taints"))...)
	all = append(all, validateBMC(host, path)...)
	if spec.BootMACAddress != "" && !macPattern.MatchString(spec.BootMACAddress) {
		all = append(all, field.Invalid(path.Child("bootMACAddress"), spec.BootMACAddress, macMessage))
	}
	if spec.Firmware != nil {
		all = append(all, field.Forbidden(path.Child("firmware"), "is no longer supported; use a HostFirmwareSettings object with the name of the host"))
	}
	if spec.DisablePowerOff && !spec.Online {
		all = append(all, field.Invalid(path.Child("disablePowerOff"), true, "requires online: true, because the host could never be powered off"))
	}
	all = append(all, objectName(path.Child("bmc", "credentialsName"), spec.BMC.CredentialsName)...)
	all = append(all, objectName(path.Child("preprovisioningNetworkDataName"), spec.PreprovisioningNetworkDataName)...)
	all = append(all, trimmed(path.Child("architecture"), spec.Architecture)...)
	all = append(all, validateSecretReferences(host.Namespace, spec.UserData, spec.NetworkData, spec.MetaData, path)...)
	all = append(all, validateImage(spec.Image, path.Child("image"))...)
	all = append(all, validateCustomDeploy(spec.CustomDeploy, path.Child("customDeploy"))...)
	all = append(all, validateRootDeviceHints(spec.RootDeviceHints, path.Child("rootDeviceHints"))...)
	all = append(all, validateRAID(spec, path.Child("raid"))...)
	return append(all, validateNetworkInterfaces(spec.NetworkInterfaces, path.Child("networkInterfaces"))...)
}

// Warnings returns what is accepted in a host, and is not as the user may think.
func Warnings(host *v1alpha1.BareMetalHost) []string {
	warnings := imageCredentialWarnings(host)
	if mac := host.Spec.BootMACAddress; mac != "" && host.Spec.BootMAC() == "" {
		warnings = append(warnings, fmt.Sprintf("spec.bootMACAddress: %s is ignored, because no network interface can have it", mac))
	}
	if text := bmc.Warning(host.Spec.BMC.Address); text != "" {
		warnings = append(warnings, "spec.bmc.address: "+text)
	}
	return warnings
}

// validateBMC applies the rules that depend on the driver, which the address determines.
func validateBMC(host *v1alpha1.BareMetalHost, path *field.Path) field.ErrorList {
	spec := &host.Spec
	if spec.BMC.Address == "" {
		return nil
	}
	var all field.ErrorList
	if err := bmc.Check(spec.BMC.Address); err != nil {
		// The error contains the address without any password, so the value is omitted.
		all = append(all, field.Invalid(path.Child("bmc", "address"), field.OmitValueType{}, err.Error()))
	}
	access, err := bmc.Parse(spec.BMC.Address, spec.BMC.DisableCertificateVerification)
	if err != nil {
		return all // Check has said so
	}
	if spec.BootMAC() == "" {
		switch mac := path.Child("bootMACAddress"); {
		case access.NeedsMAC:
			all = append(all, field.Required(mac, "is required with "+access.Scheme+"://"))
		case host.InspectionDisabled():
			all = append(all, field.Required(mac, "is required if inspection is disabled"))
		}
	}
	if spec.BootMode == v1alpha1.UEFISecureBoot && !access.SupportsSecureBoot {
		all = append(all, field.Invalid(path.Child("bootMode"), spec.BootMode,
			access.Scheme+":// does not support secure boot; use UEFI or legacy, or a Redfish or iDRAC address"))
	}
	if spec.InspectionMode == v1alpha1.InspectionModeFast && access.FastInspectInterface == "" {
		all = append(all, field.Invalid(path.Child("inspectionMode"), spec.InspectionMode,
			access.Scheme+":// does not support inspection without booting the host; use agent or disabled, or a Redfish or iDRAC address"))
	}
	// Software RAID is created by the ramdisk and works with any driver.
	if spec.RAID != nil && len(spec.RAID.HardwareRAIDVolumes) > 0 && access.RAIDInterface == "no-raid" {
		all = append(all, field.Invalid(path.Child("raid", "hardwareRAIDVolumes"), field.OmitValueType{},
			access.Scheme+":// does not support hardware RAID; use softwareRAIDVolumes, or a Redfish or iDRAC address"))
	}
	return all
}

// validateSecretReferences checks the Secrets that are used for the config drive. Naming a
// Secret of another namespace must not make it readable.
func validateSecretReferences(namespace string, userData, networkData, metaData *corev1.SecretReference, path *field.Path) field.ErrorList {
	all := inNamespace(path.Child("userData"), userData, namespace)
	all = append(all, inNamespace(path.Child("networkData"), networkData, namespace)...)
	return append(all, inNamespace(path.Child("metaData"), metaData, namespace)...)
}

func inNamespace(path *field.Path, ref *corev1.SecretReference, namespace string) field.ErrorList {
	if ref == nil {
		return nil
	}
	if ref.Namespace == "" || ref.Namespace == namespace {
		return objectName(path.Child("name"), ref.Name)
	}
	return field.ErrorList{field.Forbidden(path.Child("namespace"), "must be empty or the namespace of the object itself, "+namespace)}
}

func validateCustomDeploy(custom *v1alpha1.CustomDeploy, path *field.Path) field.ErrorList {
	if custom == nil {
		return nil
	}
	all := required(path.Child("method"), custom.Method, "must name a deploy step of the ramdisk")
	return append(all, trimmed(path.Child("method"), custom.Method)...)
}

func validateTaints(spec *v1alpha1.BareMetalHostSpec, path *field.Path) field.ErrorList {
	var all field.ErrorList
	for i, taint := range spec.Taints {
		if taint.Key == "" {
			all = append(all, field.Required(path.Index(i).Child("key"), ""))
		}
		if taint.Effect == "" {
			all = append(all, field.Required(path.Index(i).Child("effect"), ""))
		}
	}
	return all
}

// enum checks that a value is one of the allowed values or empty.
func enum[T ~string](path *field.Path, value T, allowed ...T) field.ErrorList {
	if value == "" {
		return nil
	}
	return requiredEnum(path, value, allowed...)
}

// requiredEnum checks that a value is one of the allowed values.
func requiredEnum[T ~string](path *field.Path, value T, allowed ...T) field.ErrorList {
	if slices.Contains(allowed, value) {
		return nil
	}
	if value == "" {
		return field.ErrorList{field.Required(path, fmt.Sprintf("must be one of %q", allowed))}
	}
	return field.ErrorList{field.NotSupported(path, value, allowed)}
}
