// SPDX-License-Identifier: Apache-2.0

package life

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
)

// A host waits for the image that another controller builds, boots it, takes up another one while it runs
// nothing, and is not disturbed by one while it is provisioned.
func TestImageOfHost(t *testing.T) {
	t.Parallel()
	needsInspection(t)
	o := startOwnServer(t, "--build-preprov-image", "--deploy-kernel-url=", "--deploy-ramdisk-url=", "--deploy-iso-url=")
	builder := o.startImageBuilder()
	h := o.newHost("worker-0", virtualMedia, notCleaned, func(h *metal3.BareMetalHost, _ *bmcsim.Machine) {
		metav1.SetMetaDataLabel(&h.ObjectMeta, otherBuildersLabel, "")
	})
	h.wait("waits for its image", func(bmh *metal3.BareMetalHost) bool {
		c := meta.FindStatusCondition(bmh.Status.Conditions, metal3.ImageBuiltCondition)
		return c != nil && strings.Contains(c.Message, "PreprovisioningImage worker-0 was not built yet")
	})
	if boots := h.machine.Boots(); len(boots) > 0 || h.get().Status.ErrorMessage != "" {
		t.Errorf("without an image, the machine booted %+v, and the host has the error %q", boots, h.get().Status.ErrorMessage)
	}

	unlabelled := fmt.Appendf(nil, `{"metadata":{"labels":{%q:null}}}`, otherBuildersLabel)
	h.patch("%s", unlabelled)
	if _, err := builder.images.Patch(h.ctx, h.name, types.MergePatchType, unlabelled, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	h.available()
	first := h.bootsFrom(builder, "")

	builder.restart(h.ctx)
	second := h.bootsFrom(builder, first)
	h.patch(`{"spec":{"image":{"url":%q,"checksum":%q,"checksumType":"sha256"}}}`, s.machines.FileURL(bmcsim.ImageFile), s.machines.FileChecksum(bmcsim.ImageFile))
	h.provisioned()
	h.wrote(1)

	boots := len(h.machine.Boots())
	builder.restart(h.ctx)
	h.stays(5*time.Second, "provisioned, with the image as before", func(bmh *metal3.BareMetalHost) bool {
		return bmh.Status.Provisioning.State == metal3.StateProvisioned && bmh.Status.PoweredOn && h.deployISO() == second && len(h.machine.Boots()) == boots
	})
	h.patch(`{"spec":{"image":null,"automatedCleaningMode":"metadata"}}`)
	h.available()
	h.bootsFrom(builder, second)
}

// bootsFrom waits until the host's node has the present image of the builder, which is another one than
// before, and returns it.
func (h *host) bootsFrom(builder *imageBuilder, before string) string {
	h.t.Helper()
	var is string
	h.eventually(func() string {
		image, err := builder.images.Get(h.ctx, h.name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if is = h.deployISO(); is == "" || is == before || is != image.Status.ImageURL {
			return fmt.Sprintf("deploy_iso is %q, the image %+v, before %q", is, image.Status, before)
		}
		return ""
	})
	return is
}

// deployISO is what Ironic boots the host's ramdisk from.
func (h *host) deployISO() string {
	h.t.Helper()
	node, err := s.ironic.Operator().Node(h.ctx, h.ns+"~"+h.name)
	if err != nil {
		h.t.Fatal(err)
	}
	iso, _ := node.DriverInfo["deploy_iso"].(string)
	return iso
}
