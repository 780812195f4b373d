// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"runtime"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
)

// Images are the URLs of the ramdisk that inspects, cleans and deploys, in the
// forms that boot interfaces take.
type Images struct {
	KernelURL, RamdiskURL string
	// ISOURL is for virtual media and UEFI HTTP boot.
	ISOURL string
}

// Ramdisk is the operator's choice of how hosts boot the ramdisk, and afterwards.
type Ramdisk struct {
	// Images are those of architectures that are not in ByArch.
	Images Images
	// ByArch are the images by architecture (x86_64, aarch64).
	ByArch map[string]Images
	// KernelParams are appended to the ramdisk's kernel command line, after
	// Ironic's own.
	KernelParams string
	// ExternalURLv6 is the URL by which BMCs that have only IPv6 addresses reach
	// Ironic's virtual media.
	ExternalURLv6 string
	// ForcePersistentLiveISO and ForcePersistentDirect say whether boot devices are
	// set for good, for hosts with a live ISO and for all others: Default, Always or
	// Never; empty is Default.
	ForcePersistentLiveISO, ForcePersistentDirect string
}

// DriverInfo returns the part of the node's driver_info that says how the host is
// booted. The other part, how the BMC is reached, is that of access itself.
func DriverInfo(host *metal3.BareMetalHost, access bmc.Access, ramdisk Ramdisk) map[string]any {
	info := map[string]any{"force_persistent_boot_device": forcePersistent(host, ramdisk)}
	images := ramdisk.ImagesFor(Architecture(host))
	switch {
	case access.SupportsISO && images.ISOURL != "":
		info["deploy_iso"] = images.ISOURL
	case images.KernelURL != "" && images.RamdiskURL != "":
		info["deploy_kernel"] = images.KernelURL
		info["deploy_ramdisk"] = images.RamdiskURL
	}
	if ramdisk.KernelParams != "" {
		// Ironic puts its configured parameters for %default%; without it, they are lost.
		info["kernel_append_params"] = "%default% " + ramdisk.KernelParams
	}
	return info
}

func forcePersistent(host *metal3.BareMetalHost, ramdisk Ramdisk) string {
	configured := ramdisk.ForcePersistentDirect
	if current(host).isLiveISO() {
		configured = ramdisk.ForcePersistentLiveISO
	}
	if configured == "" {
		return "Default"
	}
	return configured
}

// Architecture returns the CPU architecture of a host, and that of this server if it is not known: most clusters have one.
func Architecture(host *metal3.BareMetalHost) string {
	details := host.Status.HardwareDetails
	switch {
	case host.Spec.Architecture != "":
		return WantedArchitecture(host)
	case details != nil && details.CPU.Arch != "":
		return details.CPU.Arch
	}
	return ArchitectureName(runtime.GOARCH)
}

// WantedArchitecture returns the CPU architecture that the spec of a host says, or nothing.
func WantedArchitecture(host *metal3.BareMetalHost) string {
	return ArchitectureName(host.Spec.Architecture)
}

// ArchitectureName returns the name by which Ironic and its ramdisk know an architecture: people know the names that Kubernetes and
// Go have for it, too.
func ArchitectureName(name string) string {
	switch name {
	case "amd64":
		return "x86_64"
	case "arm64":
		return "aarch64"
	}
	return name
}

// ImagesFor returns the images for an architecture.
func (r Ramdisk) ImagesFor(arch string) Images {
	if images := r.ByArch[arch]; images != (Images{}) {
		return images
	}
	return r.Images
}
