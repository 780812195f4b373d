// SPDX-License-Identifier: Apache-2.0

package life

import (
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
)

// needsVirtualMedia leaves out a test of virtual drives, which Ironic tells of since its API 1.93.
func needsVirtualMedia(t *testing.T) {
	t.Helper()
	if s.release == "bookworm" {
		t.Skip("Ironic 21.4 cannot tell what is in a virtual drive")
	}
}

// A DataImage is in the drive when the host is switched on, is exchanged and taken out with the power
// off only, and goes when nothing of it is left.
func TestDataImage(t *testing.T) {
	t.Parallel()
	needsVirtualMedia(t)
	h := newHost(t, notInspected, notCleaned, withImage)
	h.provisioned()
	booted := len(h.machine.Boots())
	first, _ := s.machines.AddFile("data-1.iso", []byte("the first data image\n"))
	second, _ := s.machines.AddFile("data-2.iso", []byte("the second data image\n"))
	images := s.Metal3.Metal3V1alpha1().DataImages(h.ns)

	h.dataImage(first)
	h.waitDataImage("has its finalizer and its owner", func(i *metal3.DataImage) bool {
		return len(i.Finalizers) == 1 && i.Finalizers[0] == metal3.DataImageFinalizer && len(i.OwnerReferences) == 1 && i.OwnerReferences[0].Kind == "BareMetalHost"
	})
	if drive := h.machine.VirtualMedia(); drive != "" {
		t.Errorf("image %s is in the drive of a running machine", drive)
	}
	h.annotate(metal3.RebootAnnotation, "")
	h.boots(booted+1, "the first data image\n")
	h.waitDataImage("is attached", func(i *metal3.DataImage) bool {
		return i.Status.AttachedImage.URL == first && i.Status.Error.Message == "" && i.Status.LastReconciled != nil
	})

	if _, err := images.Patch(h.ctx, h.name, types.MergePatchType, fmt.Appendf(nil, `{"spec":{"url":%q}}`, second), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	h.annotate(metal3.RebootAnnotation, "")
	h.boots(booted+2, "the second data image\n")
	h.power(bmcsim.On)

	if err := images.Delete(h.ctx, h.name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	h.stays(3*time.Second, "on, with the image in its drive", func(bmh *metal3.BareMetalHost) bool { return bmh.Status.PoweredOn && h.machine.VirtualMedia() != "" })
	h.patch(`{"spec":{"online":false}}`)
	h.noDataImage()
	if drive := h.machine.VirtualMedia(); drive != "" {
		t.Errorf("the DataImage is gone, but %s is in the drive", drive)
	}
	h.patch(`{"spec":{"online":true}}`)
	h.boots(booted+3, "")
}

// A BMC that refuses the image keeps the host off, and both objects say so. The host goes on when the
// DataImage is deleted. One that is created again goes with its host.
func TestDataImageRefused(t *testing.T) {
	t.Parallel()
	needsVirtualMedia(t)
	h := newHost(t, external, runsAlready)
	h.in(metal3.StateExternallyProvisioned)
	h.fault(bmcsim.RefuseMedia)
	url, _ := s.machines.AddFile("data.iso", []byte("a data image\n"))
	h.dataImage(url)
	h.annotate(metal3.RebootAnnotation, "")
	h.failed(metal3.PowerManagementError, "DataImage worker-0: image "+url+" could not be attached")
	h.waitDataImage("has the error", func(i *metal3.DataImage) bool {
		return i.Status.Error.Count >= 1 && strings.Contains(i.Status.Error.Message, "could not be attached") && i.Status.AttachedImage.URL == ""
	})
	if h.machine.Power() != bmcsim.Off {
		t.Error("the host was switched on without its DataImage")
	}
	if err := s.Metal3.Metal3V1alpha1().DataImages(h.ns).Delete(h.ctx, h.name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	h.noDataImage()
	h.boots(2, "")
	h.wait("without error", func(bmh *metal3.BareMetalHost) bool { return bmh.Status.ErrorMessage == "" && bmh.Status.PoweredOn })

	h.mend(bmcsim.RefuseMedia)
	h.dataImage(url)
	h.annotate(metal3.RebootAnnotation, "")
	h.boots(3, "a data image\n")
	h.delete()
	h.gone()
	h.noDataImage()
}

func (h *host) dataImage(url string) {
	h.t.Helper()
	image := &metal3.DataImage{ObjectMeta: metav1.ObjectMeta{Name: h.name}, Spec: metal3.DataImageSpec{URL: url}}
	if _, err := s.Metal3.Metal3V1alpha1().DataImages(h.ns).Create(h.ctx, image, metav1.CreateOptions{}); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) waitDataImage(what string, wanted func(*metal3.DataImage) bool) {
	h.t.Helper()
	h.eventually(func() string {
		image, err := s.Metal3.Metal3V1alpha1().DataImages(h.ns).Get(h.ctx, h.name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if !wanted(image) {
			return fmt.Sprintf("the DataImage not: %s; it is %+v, %+v", what, image.ObjectMeta, image.Status)
		}
		return ""
	})
}

func (h *host) noDataImage() {
	h.t.Helper()
	h.eventually(func() string {
		image, err := s.Metal3.Metal3V1alpha1().DataImages(h.ns).Get(h.ctx, h.name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return ""
		}
		return fmt.Sprintf("the DataImage is still there: %+v, %v", image, err)
	})
}

// boots waits until the machine has booted for the nth time, and asserts what was in its drive then.
func (h *host) boots(n int, content string) {
	h.t.Helper()
	h.eventually(func() string {
		if boots := h.machine.Boots(); len(boots) < n {
			return fmt.Sprintf("the machine has booted %d times, want %d: %+v", len(boots), n, h.get().Status)
		}
		return ""
	})
	drive := h.machine.Boots()[n-1].Drive
	if drive == "" {
		if content != "" {
			h.t.Fatalf("nothing was in the drive at boot %d, want %q", n, content)
		}
		return
	}
	got, err := s.ironic.ServedFile(drive)
	if err != nil || string(got) != content {
		h.t.Errorf("at boot %d, %s was in the drive with %q, %v; want %q", n, drive, got, err, content)
	}
}
