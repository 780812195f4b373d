// SPDX-License-Identifier: Apache-2.0

package life

import (
	"crypto/md5"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
)

// Each kind of checksum is compared with that of the image.
func TestChecksums(t *testing.T) {
	t.Parallel()
	content := []byte("an image with many checksums\n")
	url, sum256 := s.machines.AddFile("checked.raw", content)
	sumMD5, sum512 := fmt.Sprintf("%x", md5.Sum(content)), fmt.Sprintf("%x", sha512.Sum512(content))
	single, _ := s.machines.AddFile("checked.raw.sha256", []byte(sum256+"\n"))
	list, _ := s.machines.AddFile("SHA512SUMS", fmt.Appendf(nil, "%x  other.raw\n%s *checked.raw\n", sha512.Sum512(nil), sum512))
	for _, test := range []struct {
		name     string
		checksum string
		kind     metal3.ChecksumType
	}{
		{"md5", sumMD5, metal3.MD5},
		{"sha256", sum256, metal3.SHA256},
		{"sha512", sum512, metal3.SHA512},
		{"auto", sum256, metal3.AutoChecksum},
		{"none said", sum512, ""},
		{"file", single, metal3.SHA256},
		{"list", list, metal3.SHA512},
		{"list by auto", list, metal3.AutoChecksum},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, notInspected, notCleaned, func(h *metal3.BareMetalHost, _ *bmcsim.Machine) {
				h.Spec.Image = &metal3.Image{URL: url, Checksum: test.checksum, ChecksumType: test.kind}
			})
			h.provisioned()
			h.wrote(1)
			image := h.machine.Image()
			if image.Bytes != int64(len(content)) {
				t.Errorf("image written: %+v", image)
			}
			if got := image.HashAlgorithm; test.kind != "" && test.kind != metal3.AutoChecksum && got != string(test.kind) {
				t.Errorf("the algorithm is %q", got)
			}
		})
	}
}

// An image in an OCI registry is fetched with what the pull Secret has for that
// registry.
func TestOCIImage(t *testing.T) {
	t.Parallel()
	if s.release == "bookworm" {
		t.Skip("Ironic 21.4 knows no oci://")
	}
	if s.release == "sid" {
		t.Skip("Ironic 39.0 has the ramdisk talk to the registry, which the simulated one cannot")
	}
	content := []byte("an image in a registry\n")
	url := s.machines.AddOCIImage("linux", content)
	registry, _, _ := strings.Cut(strings.TrimPrefix(url, "oci://"), "/")
	config := func(password string) map[string]string {
		auth := base64.StdEncoding.EncodeToString([]byte(bmcsim.RegistryUser + ":" + password))
		return map[string]string{corev1.DockerConfigJsonKey: fmt.Sprintf(`{"auths":{"registry.example":{"auth":"bm9ib2R5Om5vdGhpbmc="},%q:{"auth":%q}}}`, registry, auth)}
	}
	h := newHost(t, notInspected, notCleaned, annotated(metal3.PausedAnnotation, ""), func(h *metal3.BareMetalHost, _ *bmcsim.Machine) {
		h.Spec.Image = &metal3.Image{URL: url, DiskFormat: ptr.To(metal3.Raw), OCIAuthSecretName: ptr.To("pull")}
	})
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "pull"}, Type: corev1.SecretTypeDockerConfigJson, StringData: config("wrong-password")}
	if _, err := s.Core.CoreV1().Secrets(h.ns).Create(h.ctx, secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	h.annotateNot(metal3.PausedAnnotation)
	bmh := h.wait("failed, and undone", func(bmh *metal3.BareMetalHost) bool {
		return bmh.Status.ErrorType == metal3.ProvisioningError && bmh.Status.Ironic != nil && bmh.Status.Ironic.ProvisionState == string(ironic.Available)
	})
	h.wrote(0)
	h.patchSecret("pull", config(bmcsim.RegistryPassword))
	h.deployedAgain(bmh.Status)
	h.provisioned()
	h.wrote(1)
	if image := h.machine.Image(); image.Bytes != int64(len(content)) || !strings.HasPrefix(image.Authorization, "Bearer ") {
		t.Errorf("image written: %+v", image)
	}
}

// A live ISO is no image to write: the machine runs it from its virtual drive. An
// image that follows it is written as any other.
func TestLiveISO(t *testing.T) {
	t.Parallel()
	h := newHost(t, virtualMedia, notInspected, notCleaned, func(h *metal3.BareMetalHost, _ *bmcsim.Machine) {
		format := metal3.LiveISO
		h.Spec.Image = &metal3.Image{URL: s.machines.FileURL(bmcsim.LiveISO), DiskFormat: &format}
		h.Spec.UserData = &corev1.SecretReference{Name: "not-needed"} // there is no config drive
	})
	h.provisioned()
	if h.machine.Running() != bmcsim.RunningLiveISO {
		t.Errorf("the machine runs %v", h.machine.Running())
	}
	h.wrote(0)
	boots := len(h.machine.Boots())
	h.patch(`{"spec":{"online":false}}`)
	h.power(bmcsim.Off)
	h.patch(`{"spec":{"online":true}}`)
	h.power(bmcsim.On)
	if got := h.machine.Boots()[boots:]; len(got) != 1 || got[0].Running != bmcsim.RunningLiveISO {
		t.Errorf("switched on again the machine booted %+v", got)
	}

	h.patch(`{"spec":{"userData":null,"image":{"url":%q,"checksum":%q,"checksumType":"sha256","format":"raw"}}}`, s.machines.FileURL(bmcsim.ImageFile), s.machines.FileChecksum(bmcsim.ImageFile))
	h.wait("provisioned with an image", func(bmh *metal3.BareMetalHost) bool {
		return bmh.Status.Provisioning.State == metal3.StateProvisioned && bmh.Status.Provisioning.Image.URL == s.machines.FileURL(bmcsim.ImageFile)
	})
	h.wrote(1)
	if h.machine.Running() != bmcsim.RunningDisk {
		t.Errorf("the machine runs %v", h.machine.Running())
	}
}

// A custom procedure of the ramdisk takes the place of writing an image, and gets
// the config drive.
func TestCustomDeploy(t *testing.T) {
	t.Parallel()
	h := newHost(t, notInspected, notCleaned, func(h *metal3.BareMetalHost, _ *bmcsim.Machine) {
		h.Spec.CustomDeploy = &metal3.CustomDeploy{Method: "install_coreos"}
		h.Spec.UserData = &corev1.SecretReference{Name: "ignition"}
	})
	h.secret("ignition", map[string]string{"value": `{"ignition":{"version":"3.4.0"}}`})
	bmh := h.provisioned()
	if steps := h.machine.Steps(); !slices.Contains(steps, "deploy install_coreos") || slices.Contains(steps, "deploy write_image") {
		t.Errorf("steps are %q", steps)
	}
	if got := h.machine.ConfigDrive().UserData(); got != `{"ignition":{"version":"3.4.0"}}` {
		t.Errorf("user data is %q", got)
	}
	if custom := bmh.Status.Provisioning.CustomDeploy; custom == nil || custom.Method != "install_coreos" {
		t.Errorf("custom deploy is %+v", custom)
	}
	h.wrote(1)
	h.states()
	h.patch(`{"spec":{"customDeploy":null}}`)
	h.available()
	h.expectStates(metal3.StateProvisioned, metal3.StateDeprovisioning, metal3.StateAvailable)
	h.wantImage() // and back to the usual way
	h.provisioned()
	h.wrote(2)
	if h.machine.Image().Step != "write_image" {
		t.Errorf("image written: %+v", h.machine.Image())
	}
}

// A ramdisk that does not have the procedure makes it fail.
func TestUnknownCustomDeploy(t *testing.T) {
	t.Parallel()
	h := newHost(t, notInspected, notCleaned, func(h *metal3.BareMetalHost, _ *bmcsim.Machine) {
		h.Spec.CustomDeploy = &metal3.CustomDeploy{Method: "install_nothing"}
	})
	h.failed(metal3.ProvisioningError, "install_nothing")
	h.patch(`{"spec":{"customDeploy":{"method":"install_coreos"}}}`)
	h.provisioned()
}

// With virtual media nothing is booted from the network, all the way.
func TestVirtualMedia(t *testing.T) {
	t.Parallel()
	h := newHost(t, virtualMedia, withImage)
	bmh := h.provisioned()
	h.expectStates(metal3.StateRegistering, metal3.StateInspecting, metal3.StatePreparing, metal3.StateAvailable, metal3.StateProvisioning, metal3.StateProvisioned)
	if s.inspects() && bmh.Status.HardwareDetails == nil || h.machine.Running() != bmcsim.RunningDisk {
		t.Errorf("hardware %+v, the machine runs %v", bmh.Status.HardwareDetails, h.machine.Running())
	}
	h.wrote(1)
	h.patch(`{"spec":{"image":null}}`)
	h.available()
	h.delete()
	h.isGone()
	ramdisks, want := 0, 3 // to clean, write, clean
	if s.inspects() {
		want++
	}
	for _, boot := range h.machine.Boots() {
		switch boot.Running {
		case bmcsim.RunningRamdisk:
			ramdisks++
			if boot.Device != "Cd" || boot.Media == "" {
				t.Errorf("a ramdisk was booted from %+v", boot)
			}
		case bmcsim.RunningLiveISO:
			t.Errorf("the ramdisk was booted for good: %+v", boot)
		}
	}
	if ramdisks < want {
		t.Errorf("the ramdisk was booted %d times: %+v", ramdisks, h.machine.Boots())
	}
	if media := h.machine.VirtualMedia(); media != "" {
		t.Errorf("the virtual drive still holds %s", media)
	}
}

// The network configuration of the ramdisk is that of the installed system, too,
// where nothing else is said.
func TestPreprovisioningNetworkData(t *testing.T) {
	t.Parallel()
	h := newHost(t, virtualMedia, notInspected, notCleaned, annotated(metal3.PausedAnnotation, ""), withImage, func(h *metal3.BareMetalHost, _ *bmcsim.Machine) {
		h.Spec.PreprovisioningNetworkDataName = "ramdisk-network"
	})
	h.secret("ramdisk-network", map[string]string{"networkData": fmt.Sprintf("links:\n- id: eth7\n  type: phy\n  ethernet_mac_address: %s\nnetworks: []\nservices: []\n", h.machine.MAC())})
	h.annotateNot(metal3.PausedAnnotation)
	h.provisioned()
	var network struct {
		Links []struct{ ID string }
	}
	if err := json.Unmarshal([]byte(h.machine.ConfigDrive().NetworkData()), &network); err != nil || len(network.Links) != 1 || network.Links[0].ID != "eth7" {
		t.Errorf("network data is %q: %v", h.machine.ConfigDrive().NetworkData(), err)
	}
	var node struct {
		NetworkData map[string]any `json:"network_data"`
	}
	if err := s.ironic.Operator().Do(h.ctx, http.MethodGet, "/v1/nodes/"+h.ns+"~"+h.name, nil, &node); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(node.NetworkData); !strings.Contains(got, "eth7") {
		t.Errorf("the ramdisk's network data is %s", got)
	}
}
