// SPDX-License-Identifier: Apache-2.0

package preprovisioning

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/deploy"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
)

// The image of a host asks for what its BMC can boot, follows its host, and is let go with it.
func TestImageFollowsHost(t *testing.T) {
	w := newWorld(t)
	w.builtIn = deploy.Ramdisk{} // others build
	w.reconcile()
	want := metal3.PreprovisioningImageSpec{Architecture: "x86_64", AcceptFormats: []metal3.ImageFormat{"iso", "initrd"}}
	if diff := cmp.Diff(want, w.image.Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	if !metav1.IsControlledBy(w.image, w.host) || w.image.Labels["rack"] != "7" {
		t.Errorf("metadata %+v", w.image.ObjectMeta)
	}
	if diff := cmp.Diff([]string{metal3.PreprovisioningImageInUseFinalizer}, w.image.Finalizers); diff != "" {
		t.Errorf("finalizers (-want +got):\n%s", diff)
	}

	w.host.Labels = map[string]string{"row": "1"}
	w.host.Spec.BMC.Address, w.host.Spec.Architecture, w.host.Spec.PreprovisioningNetworkDataName = "ipmi://192.0.2.1", "aarch64", "network"
	w.reconcile()
	want = metal3.PreprovisioningImageSpec{Architecture: "aarch64", AcceptFormats: []metal3.ImageFormat{"initrd"}, NetworkDataName: "network"}
	if diff := cmp.Diff(want, w.image.Spec); diff != "" {
		t.Errorf("spec of a changed host (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"rack": "7", "row": "1"}, w.image.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}

	w.host.UID = "another" // the host was created anew
	w.reconcile()
	if owners := w.image.OwnerReferences; len(owners) != 1 || owners[0].UID != "another" {
		t.Errorf("owners %+v", owners)
	}

	w.host.DeletionTimestamp, w.image.DeletionTimestamp = new(metav1.Now()), new(metav1.Now())
	w.host.Finalizers = append(w.host.Finalizers, metav1.FinalizerDeleteDependents) // --cascade=foreground
	w.reconcile()
	if len(w.image.Finalizers) != 1 {
		t.Errorf("finalizers of the image of a host that is being deprovisioned: %q", w.image.Finalizers)
	}
	w.host.Finalizers = []string{metav1.FinalizerDeleteDependents}
	w.reconcile()
	if w.image != nil {
		t.Errorf("the image of a host that is gone stays: %+v", w.image.ObjectMeta)
	}
}

// A machine that runs something has no image, unless it waits for one before a service.
func TestImageForService(t *testing.T) {
	w := newWorld(t)
	w.builtIn = deploy.Ramdisk{}
	w.host.Status.Provisioning.State = metal3.StateExternallyProvisioned
	w.reconcile()
	if w.image != nil {
		t.Errorf("the image of a host that waits for none: %+v", w.image)
	}
	lifecycle.SetAwaitedImage(w.host, "PreprovisioningImage host-0 does not exist yet")
	w.reconcile()
	if w.image == nil || !metav1.IsControlledBy(w.image, w.host) {
		t.Errorf("the image of a host that waits for it: %+v", w.image)
	}
}

// An image that somebody deletes stays while its host can boot it. If it would have to be built again, which no builder
// does with a deleted one, it goes, and the host gets a new one.
func TestDeletedImageIsMadeAnew(t *testing.T) {
	for name, test := range map[string]struct {
		given, then func(*world)
		stays       bool
	}{
		"as the host wants it": {stays: true},
		"the host is provisioned, and has changed": {stays: true, then: func(w *world) {
			w.host.Spec.Architecture, w.host.Status.Provisioning.State = "aarch64", metal3.StateProvisioned
		}},
		"paused": {stays: true, then: func(w *world) {
			w.image.Status.ImageURL, w.host.Annotations = "", map[string]string{metal3.PausedAnnotation: ""}
		}},
		"not built":            {then: func(w *world) { w.image.Status = metal3.PreprovisioningImageStatus{} }},
		"the host has changed": {then: func(w *world) { w.host.Spec.BMC.Address = "ipmi://192.0.2.1" }},
		"of an earlier host":   {then: func(w *world) { w.host.UID = "another" }},
		"the network data have changed": {
			given: func(w *world) { w.host.Spec.PreprovisioningNetworkDataName, w.secret = "network", "12" },
			then:  func(w *world) { w.secret = "13" },
		},
		"the network data are gone": {
			stays: true,
			given: func(w *world) { w.host.Spec.PreprovisioningNetworkDataName, w.secret = "network", "12" },
			then:  func(w *world) { w.secret = "" },
		},
	} {
		w := newWorld(t)
		w.builtIn.Images.KernelURL, w.builtIn.Images.RamdiskURL = "http://images.example/kernel", "http://images.example/ramdisk"
		if test.given != nil {
			test.given(w)
		}
		w.reconcile()
		if w.verdict().Built == nil {
			t.Fatalf("%s: the image was not built: %+v", name, w.verdict())
		}
		w.image.DeletionTimestamp = new(metav1.Now())
		w.reconcile()
		if test.then != nil {
			test.then(w)
		}
		w.reconcile()
		if stays := w.image != nil && !w.image.DeletionTimestamp.IsZero(); stays != test.stays {
			t.Errorf("%s: the deleted image stays: %t, want %t", name, stays, test.stays)
		}
		if !test.stays && w.verdict().Built == nil {
			t.Errorf("%s: the host gets no image: %+v", name, w.verdict())
		}
	}
}

// Where images are not built, none is requested; one that exists is left alone, and goes with its host.
func TestOff(t *testing.T) {
	w := newWorld(t)
	w.off = true
	w.reconcile()
	if w.image != nil || w.controller().Of(w.host, "") != nil {
		t.Fatalf("an image was requested: %+v", w.image)
	}
	w.image = &metal3.PreprovisioningImage{ObjectMeta: metav1.ObjectMeta{
		Namespace: key.Namespace, Name: key.Name, Finalizers: []string{metal3.PreprovisioningImageInUseFinalizer, metal3.PreprovisioningImageFinalizer},
	}}
	w.reconcile()
	if w.images.Writes != 0 {
		t.Errorf("the image was written: %+v", w.image)
	}
	w.host, w.image.DeletionTimestamp = nil, new(metav1.Now())
	w.reconcile()
	if w.image != nil {
		t.Errorf("the image of a host that is gone stays: %+v", w.image.ObjectMeta)
	}
}

// What the built-in provider offers, and what the engine makes of it.
func TestBuiltInProvider(t *testing.T) {
	const iso, arm, kernel, ramdisk = "http://images.example/agent.iso", "http://images.example/arm.iso", "http://images.example/kernel", "http://images.example/ramdisk"
	ipmi := func(w *world) { w.host.Spec.BMC.Address = "ipmi://192.0.2.1" }
	for name, test := range map[string]struct {
		given   func(*world)
		ramdisk deploy.Ramdisk
		want    *deploy.HostImage
		reason  string
		problem string
	}{
		"ISO":            {ramdisk: deploy.Ramdisk{Images: deploy.Images{ISOURL: iso, KernelURL: kernel, RamdiskURL: ramdisk}}, want: &deploy.HostImage{Format: "iso", URL: iso}},
		"kernel":         {ramdisk: deploy.Ramdisk{Images: deploy.Images{KernelURL: kernel, RamdiskURL: ramdisk}}, want: &deploy.HostImage{Format: "initrd", URL: ramdisk, KernelURL: kernel}},
		"no ISO by IPMI": {given: ipmi, ramdisk: deploy.Ramdisk{Images: deploy.Images{ISOURL: iso, KernelURL: kernel, RamdiskURL: ramdisk}}, want: &deploy.HostImage{Format: "initrd", URL: ramdisk, KernelURL: kernel}},
		"architecture": {
			given:   func(w *world) { w.host.Spec.Architecture = "aarch64" },
			ramdisk: deploy.Ramdisk{Images: deploy.Images{ISOURL: iso}, ByArch: map[string]deploy.Images{"aarch64": {ISOURL: arm}}}, want: &deploy.HostImage{Format: "iso", URL: arm},
		},
		"another architecture": {
			ramdisk: deploy.Ramdisk{ByArch: map[string]deploy.Images{"aarch64": {ISOURL: arm}}}, reason: "ConfigurationError", problem: "Architecture not supported",
		},
		"only an ISO, by IPMI": {given: ipmi, ramdisk: deploy.Ramdisk{Images: deploy.Images{ISOURL: iso}}, reason: "ConfigurationError", problem: "No acceptable image format supported"},
		"no Secret": {
			given:   func(w *world) { w.host.Spec.PreprovisioningNetworkDataName = "network" },
			ramdisk: deploy.Ramdisk{Images: deploy.Images{ISOURL: iso}}, reason: "MissingNetworkData", problem: "NetworkData secret not found",
		},
		"Secret": {
			given:   func(w *world) { w.host.Spec.PreprovisioningNetworkDataName, w.secret = "network", "12" },
			ramdisk: deploy.Ramdisk{Images: deploy.Images{ISOURL: iso}}, want: &deploy.HostImage{Format: "iso", URL: iso},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.builtIn = test.ramdisk
			if test.given != nil {
				test.given(w)
			}
			after := w.reconcile()
			verdict := w.verdict()
			if diff := cmp.Diff(test.want, verdict.Built); diff != "" {
				t.Errorf("image (-want +got):\n%s", diff)
			}
			if test.want == nil {
				ready := meta.FindStatusCondition(w.image.Status.Conditions, readyCondition)
				if verdict.Problem != "PreprovisioningImage worker-0: "+test.problem || ready.Reason != test.reason || ready.Status != metav1.ConditionFalse {
					t.Errorf("verdict %+v, condition %+v", verdict, ready)
				}
			}
			if (after > 0) != (test.reason == "MissingNetworkData") {
				t.Errorf("it is looked at again after %s", after)
			}
			if name == "Secret" {
				w.secret = "13"
				if waiting := w.verdict().Waiting; waiting != "PreprovisioningImage worker-0 has to be built again: Secret network with the network data has changed" {
					t.Errorf("with a changed Secret: %q", waiting)
				}
				w.reconcile()
				if w.verdict().Built == nil || w.image.Status.NetworkData.Version != "13" {
					t.Errorf("verdict %+v, status %+v", w.verdict(), w.image.Status)
				}
			}
		})
	}
}

// Which of the images that others build a host boots.
func TestVerdicts(t *testing.T) {
	const url = "http://builder.example/1.iso"
	condition := func(i *metal3.PreprovisioningImage, name string, status metav1.ConditionStatus, message string) {
		meta.SetStatusCondition(&i.Status.Conditions, metav1.Condition{Type: name, Status: status, Reason: "ImageSuccess", Message: message, ObservedGeneration: i.Generation})
	}
	for name, test := range map[string]struct {
		change  func(*metal3.PreprovisioningImage)
		want    deploy.HostImage
		waiting string
		problem string
	}{
		"ready":     {want: deploy.HostImage{Format: "iso", URL: url}},
		"not built": {change: func(i *metal3.PreprovisioningImage) { i.Status = metal3.PreprovisioningImageStatus{} }, waiting: "was not built yet"},
		"being built": {change: func(i *metal3.PreprovisioningImage) {
			condition(i, readyCondition, metav1.ConditionFalse, "Config changed")
		}, waiting: "is not ready: ImageSuccess, Config changed"},
		"no URL":               {change: func(i *metal3.PreprovisioningImage) { i.Status.ImageURL = "" }, waiting: "is not ready"},
		"of an older spec":     {change: func(i *metal3.PreprovisioningImage) { i.Generation++ }, waiting: "has to be built again"},
		"another architecture": {change: func(i *metal3.PreprovisioningImage) { i.Status.Architecture = "aarch64" }, waiting: "has to be built again"},
		"another format":       {change: func(i *metal3.PreprovisioningImage) { i.Status.Format = "qcow2" }, waiting: "has to be built again"},
		"another Secret":       {change: func(i *metal3.PreprovisioningImage) { i.Status.NetworkData.Name = "other" }, waiting: "has to be built again"},
		"another spec":         {change: func(i *metal3.PreprovisioningImage) { i.Spec.Architecture = "aarch64" }, waiting: "is about to be changed"},
		"another owner":        {change: func(i *metal3.PreprovisioningImage) { i.OwnerReferences[0].UID = "another" }, waiting: "is not that of this host yet"},
		"failed": {change: func(i *metal3.PreprovisioningImage) {
			condition(i, errorCondition, metav1.ConditionTrue, "no space left")
		}, problem: "no space left"},
		"failed before": {change: func(i *metal3.PreprovisioningImage) {
			condition(i, errorCondition, metav1.ConditionTrue, "no space left")
			i.Generation++
		}, waiting: "has to be built again"},
		"ramdisk with its kernel": {
			change: func(i *metal3.PreprovisioningImage) {
				i.Status.Format, i.Status.KernelURL, i.Status.ExtraKernelParams = "initrd", "http://builder.example/kernel", "rd.net=1"
			},
			want: deploy.HostImage{Format: "initrd", URL: url, KernelURL: "http://builder.example/kernel", KernelParams: "rd.net=1"},
		},
		"ramdisk without a kernel": {change: func(i *metal3.PreprovisioningImage) { i.Status.Format = "initrd" }, problem: "an initrd without a kernel"},
		"deleted, in use":          {change: func(i *metal3.PreprovisioningImage) { i.DeletionTimestamp = new(metav1.Now()) }, want: deploy.HostImage{Format: "iso", URL: url}},
		"deleted, not built": {change: func(i *metal3.PreprovisioningImage) {
			i.DeletionTimestamp, i.Status.ImageURL = new(metav1.Now()), ""
		}, waiting: "is being deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.builtIn = deploy.Ramdisk{}
			w.reconcile()
			w.image.Status = metal3.PreprovisioningImageStatus{ImageURL: url, Format: "iso", Architecture: "x86_64"}
			condition(w.image, readyCondition, metav1.ConditionTrue, "Generated image")
			condition(w.image, errorCondition, metav1.ConditionFalse, "")
			if test.change != nil {
				test.change(w.image)
			}
			got := w.verdict()
			if test.waiting == "" && test.problem == "" {
				if diff := cmp.Diff(&test.want, got.Built); diff != "" {
					t.Errorf("image (-want +got):\n%s", diff)
				}
				return
			}
			if got.Built != nil || !strings.Contains(got.Waiting, test.waiting) || !strings.Contains(got.Problem, test.problem) {
				t.Errorf("verdict %+v, want that it waits for %q, or the problem %q", got, test.waiting, test.problem)
			}
		})
	}
	w := newWorld(t)
	if waiting := w.verdict().Waiting; waiting != "PreprovisioningImage worker-0 does not exist yet" {
		t.Errorf("without an image: %q", waiting)
	}
}
