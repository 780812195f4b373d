// SPDX-License-Identifier: Apache-2.0

package preprovisioning

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/deploy"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
)

// The conditions of PreprovisioningImages.
const (
	readyCondition = "Ready"
	errorCondition = "Error"
)

// specFor returns the image that a host asks for.
func specFor(host *metal3.BareMetalHost) metal3.PreprovisioningImageSpec {
	formats := []metal3.ImageFormat{metal3.ImageFormatInitRD}
	access, err := bmc.Parse(host.Spec.BMC.Address, host.Spec.BMC.DisableCertificateVerification)
	if err == nil && access.SupportsISO { // a host with another address is not registered
		formats = []metal3.ImageFormat{metal3.ImageFormatISO, metal3.ImageFormatInitRD}
	}
	return metal3.PreprovisioningImageSpec{
		NetworkDataName: host.Spec.PreprovisioningNetworkDataName, Architecture: deploy.Architecture(host), AcceptFormats: formats,
	}
}

// verdictOn reports whether a host can boot an image. The image is nil if there is none, and networkVersion
// is the earliest resourceVersion of the Secret with the network data that is known to have had its
// present contents.
func verdictOn(host *metal3.BareMetalHost, image *metal3.PreprovisioningImage, networkVersion string, ramdisk deploy.Ramdisk) *lifecycle.Image {
	wait := func(why string) *lifecycle.Image {
		return &lifecycle.Image{Waiting: fmt.Sprintf("PreprovisioningImage %s %s", host.Name, why)}
	}
	fail := func(why string) *lifecycle.Image {
		return &lifecycle.Image{Problem: fmt.Sprintf("PreprovisioningImage %s: %s", host.Name, why)}
	}
	switch {
	case image == nil:
		return wait("does not exist yet")
	case !metav1.IsControlledBy(image, host):
		return wait("is not that of this host yet")
	case !equality.Semantic.DeepEqual(image.Spec, specFor(host)):
		return wait("is about to be changed")
	case !image.DeletionTimestamp.IsZero() && (image.Status.ImageURL == "" || !slices.Contains(image.Finalizers, metal3.PreprovisioningImageInUseFinalizer)):
		return wait("is being deleted")
	}
	status := &image.Status
	if failed := meta.FindStatusCondition(status.Conditions, errorCondition); failed != nil && failed.Status == metav1.ConditionTrue && failed.ObservedGeneration == image.Generation {
		return fail(failed.Message)
	}
	ready := meta.FindStatusCondition(status.Conditions, readyCondition)
	switch {
	case ready == nil:
		return wait("was not built yet")
	case ready.Status != metav1.ConditionTrue, status.ImageURL == "":
		return wait("is not ready: " + strings.TrimSuffix(ready.Reason+", "+ready.Message, ", "))
	case ready.ObservedGeneration != image.Generation, status.Architecture != image.Spec.Architecture, !slices.Contains(image.Spec.AcceptFormats, status.Format):
		return wait("has to be built again")
	case status.NetworkData.Name != image.Spec.NetworkDataName, lifecycle.IsNewerVersion(networkVersion, status.NetworkData.Version):
		return wait("has to be built again: Secret " + image.Spec.NetworkDataName + " with the network data has changed")
	}
	built := &deploy.HostImage{Format: status.Format, URL: status.ImageURL, KernelParams: status.ExtraKernelParams}
	if status.Format == metal3.ImageFormatInitRD {
		built.KernelURL = status.KernelURL
		if built.KernelURL == "" {
			built.KernelURL = ramdisk.ImagesFor(image.Spec.Architecture).KernelURL
		}
		if built.KernelURL == "" {
			return fail("the image is an initrd without a kernel, and the server is configured with none (--deploy-kernel-url)")
		}
	}
	return &lifecycle.Image{Built: built}
}
