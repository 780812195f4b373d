package e2e

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// The built-in provider offers the images of the flags. The image follows its host and its Secret, and is
// let go with the host.
func TestBuiltInImage(t *testing.T) {
	t.Parallel()
	ctx, ns := s.Begin(t)
	ctx = onServerOfItsOwn(t, ctx, ns, "--build-preprov-image")
	images := bed(ctx).Metal3.Metal3V1alpha1().PreprovisioningImages(ns)
	image := func(what string, wanted func(*metal3.PreprovisioningImage) bool) (is *metal3.PreprovisioningImage) {
		t.Helper()
		testbed.Eventually(t, ctx, func() string {
			var err error
			if is, err = images.Get(ctx, "worker-0", metav1.GetOptions{}); err != nil {
				return err.Error()
			}
			if !wanted(is) {
				return fmt.Sprintf("the image not: %s; it is %+v", what, is)
			}
			return ""
		})
		return is
	}
	b, err := bed(ctx).ironic.StartBMC(ctx, "admin", "secret")
	if err != nil {
		t.Fatal(err)
	}
	createSecret(t, ctx, ns, "bmc", "admin", "secret")
	s.CreateSecret(t, ctx, ns, "network", map[string]string{"networkData": `{"links":[{"id":"a","type":"phy","ethernet_mac_address":"52:54:00:00:00:01"}],"networks":[{"id":"b","link":"a","type":"ipv4_dhcp","network_id":"b"}],"services":[]}`})
	createHost(t, ctx, ns, "worker-0", b.Address(), "bmc", "", func(h *metal3.BareMetalHost) { h.Spec.PreprovisioningNetworkDataName = "network" })
	host := waitAvailable(t, ctx, ns, "worker-0")
	node, err := bed(ctx).ironic.Operator().Node(ctx, host.Status.Provisioning.ID)
	if err != nil || node.DriverInfo["deploy_kernel"] != testbed.UnusedKernelURL || node.DriverInfo["deploy_ramdisk"] != testbed.UnusedRamdiskURL {
		t.Errorf("driver_info %v, %v", node.DriverInfo, err)
	}
	built := image("is ready", func(i *metal3.PreprovisioningImage) bool {
		return meta.IsStatusConditionTrue(i.Status.Conditions, "Ready")
	})
	secret, err := s.Core.CoreV1().Secrets(ns).Get(ctx, "network", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if built.Status.NetworkData.Name != "network" || built.Status.Format != metal3.ImageFormatInitRD || !metav1.IsControlledBy(built, host) || secret.Labels[metal3.EnvironmentLabel] == "" {
		t.Errorf("image %+v, labels of its Secret %v", built, secret.Labels)
	}
	patch := []byte(`{"stringData":{"networkData":"{\"links\":[],\"networks\":[],\"services\":[]}"}}`)
	if secret, err = s.Core.CoreV1().Secrets(ns).Patch(ctx, "network", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	image("has the changed Secret", func(i *metal3.PreprovisioningImage) bool {
		return i.Status.NetworkData.Version == secret.ResourceVersion
	})

	if err := images.Delete(ctx, "worker-0", metav1.DeleteOptions{}); err != nil { // as the garbage collector does
		t.Fatal(err)
	}
	image("stays while its host uses it", func(i *metal3.PreprovisioningImage) bool { return i.DeletionTimestamp != nil && len(i.Finalizers) == 2 })
	bed(ctx).DeleteHost(t, ctx, ns, "worker-0")
	waitGone(t, ctx, ns, "worker-0")
	testbed.Eventually(t, ctx, func() string {
		left, err := images.List(ctx, metav1.ListOptions{})
		if err != nil || len(left.Items) > 0 {
			return fmt.Sprintf("the image of a host that is gone stays: %+v, %v", left.Items, err)
		}
		return ""
	})
}

// Without the flag, nobody asks for images.
func TestNoImageUnlessAsked(t *testing.T) {
	t.Parallel()
	ctx, ns := s.Begin(t)
	fakeHost(t, ctx, ns, "worker-0")
	images, err := bed(ctx).Metal3.Metal3V1alpha1().PreprovisioningImages(ns).List(ctx, metav1.ListOptions{})
	if err != nil || len(images.Items) > 0 {
		t.Errorf("images %+v, %v", images.Items, err)
	}
}
