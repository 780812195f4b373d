// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/deploy"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

// builtImages has one image for all hosts.
type builtImages struct {
	mu    sync.Mutex
	image lifecycle.Image
}

func (b *builtImages) Of(*metal3.BareMetalHost, string) *lifecycle.Image {
	b.mu.Lock()
	defer b.mu.Unlock()
	image := b.image
	return &image
}

// become tells the controller of another image, as an event of the PreprovisioningImage does.
func (b *builtImages) become(w *world, image lifecycle.Image) {
	b.mu.Lock()
	b.image = image
	b.mu.Unlock()
	w.planHost(enginetest.Namespace, enginetest.HostName(0))
}

// A host waits for its image where Ironic boots the ramdisk next, and a new image reaches Ironic when the
// machine is at rest, but never while it is provisioned.
func TestImageOfHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSimulatedWorld(t, ironicsim.Options{})
		images := &builtImages{image: lifecycle.Image{Waiting: "it is being built"}}
		w.hostImages = images
		w.start(0)
		defer func() { w.stop() }()
		built := func(url string) lifecycle.Image {
			return lifecycle.Image{Built: &deploy.HostImage{Format: metal3.ImageFormatInitRD, URL: url, KernelURL: "http://builder.example/kernel", KernelParams: "rd.net=1"}}
		}
		boots := func(url string) func() bool {
			return func() bool { return w.registration().DriverInfo["deploy_ramdisk"] == url }
		}
		waits := func() bool {
			c := meta.FindStatusCondition(w.host().Status.Conditions, metal3.ImageBuiltCondition)
			return c != nil && c.Message == "it is being built"
		}
		w.secret("secret")
		w.hosts.Add(enrolled(0))
		w.after(time.Minute, "it waits", waits)
		time.Sleep(time.Minute)
		if host := w.host(); w.sim.Count("inspect") != 0 || host.Status.ErrorMessage != "" || host.Status.Provisioning.State != metal3.StateInspecting {
			t.Fatalf("without its image, the host was inspected: %+v", host.Status)
		}

		images.become(w, lifecycle.Image{Problem: "PreprovisioningImage: no space left"})
		w.after(5*time.Second, "the problem is shown", func() bool {
			return w.host().Status.ErrorType == metal3.RegistrationError && strings.Contains(w.host().Status.ErrorMessage, "no space left")
		})
		images.become(w, built("file:///etc/shadow"))
		w.after(5*time.Second, "the URL is refused", func() bool {
			return strings.Contains(w.host().Status.ErrorMessage, "status.imageUrl: must be a URL with one of the schemes http, https")
		})
		images.become(w, built("http://builder.example/1"))
		w.becomes(metal3.StateAvailable)
		host, info := w.host(), w.registration().DriverInfo
		if waits() || host.Status.ErrorMessage != "" || !boots("http://builder.example/1")() || info["deploy_kernel"] != "http://builder.example/kernel" || info["kernel_append_params"] != "%default% rd.net=1" {
			t.Errorf("conditions %+v, error %q, driver_info %v", host.Status.Conditions, host.Status.ErrorMessage, info)
		}

		images.become(w, built("http://builder.example/2"))
		w.after(5*time.Second, "another image, while it is available", boots("http://builder.example/2"))
		patches := w.sim.Count("UpdateNode")
		images.become(w, lifecycle.Image{Waiting: "it is being built"})
		time.Sleep(10 * time.Second)
		if got := w.sim.Count("UpdateNode") - patches; got != 0 || waits() {
			t.Errorf("while the image of an available host is built again, the node was changed %d times, conditions %+v", got, w.host().Status.Conditions)
		}

		w.editSpec(func(s *metal3.BareMetalHostSpec) {
			s.Image = &metal3.Image{URL: "http://images.example/disk", Checksum: "a", ChecksumType: metal3.MD5}
		})
		w.becomes(metal3.StateProvisioned)
		time.Sleep(10 * time.Second)
		patches = w.sim.Count("UpdateNode")
		images.become(w, built("http://builder.example/3"))
		w.editSpec(func(s *metal3.BareMetalHostSpec) { s.Description = "registered again" })
		time.Sleep(10 * time.Second)
		if got := w.sim.Count("UpdateNode") - patches; got != 0 || boots("http://builder.example/3")() || w.host().Status.Provisioning.State != metal3.StateProvisioned {
			t.Errorf("the node of a provisioned host was changed %d times: %v", got, w.registration().DriverInfo)
		}
		w.editSpec(func(s *metal3.BareMetalHostSpec) { s.Image = nil })
		w.after(5*time.Second, "another image, before it is cleaned", boots("http://builder.example/3"))
		if w.sim.Count("deleted") > 0 && w.host().Status.Provisioning.State == metal3.StateAvailable {
			t.Error("the host was cleaned before")
		}
		w.becomes(metal3.StateAvailable)

		w.stop() // a server without images for hosts, which boot those of its settings again
		w.hostImages = nil
		w.start(0)
		w.after(time.Minute, "the parameters are gone", func() bool { return w.registration().DriverInfo["kernel_append_params"] == nil })
	})
}

// An externally provisioned host, which has never booted a ramdisk here, gets its image before it is serviced. Until that is built, it
// stays off. If it cannot be, the machine is switched on without the change.
func TestImageForService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSimulatedWorld(t, ironicsim.Options{MaxVersion: ironic.NewestAPIVersion.String(), WithoutDefects: true})
		images := &builtImages{image: lifecycle.Image{Waiting: "it is being built"}}
		w.hostImages = images
		w.start(0)
		defer func() { w.stop() }()
		w.secret("secret")
		host := redfishHost()
		host.Spec.ExternallyProvisioned = true
		w.hosts.Add(host)
		runs := func(message string) func() bool {
			return func() bool {
				s := w.host().Status
				return s.Provisioning.State == metal3.StateExternallyProvisioned && s.PoweredOn && s.Ironic.ProvisionState == "active" &&
					len(w.host().Annotations) == 0 && ownWords(w.host()) == message
			}
		}
		w.after(time.Minute, "adopted", runs(""))
		w.policy(metal3.UpdateOnReboot)
		w.after(time.Minute, "its settings are known", func() bool { return w.biosSays(false, true) })
		w.wantBIOS("BootMode", "Bios")
		time.Sleep(time.Minute)
		if w.host().Status.Record.AwaitedImage != "" || w.registration().DriverInfo["deploy_ramdisk"] != nil {
			t.Errorf("before a reboot, the image is awaited (%q), driver_info %v", w.host().Status.Record.AwaitedImage, w.registration().DriverInfo)
		}

		w.reboot()
		w.after(20*time.Second, "it waits for its image", func() bool {
			c := meta.FindStatusCondition(w.host().Status.Conditions, metal3.ImageBuiltCondition)
			return c != nil && c.Message == "it is being built" && !w.host().Status.PoweredOn
		})
		time.Sleep(time.Minute)
		if len(w.services()) != 0 || w.host().Status.PoweredOn || w.host().Status.ErrorMessage != "" {
			t.Errorf("without its image: services %v, on %t, error %q", w.services(), w.host().Status.PoweredOn, w.host().Status.ErrorMessage)
		}
		patches := w.sim.Count("UpdateNode")
		images.become(w, lifecycle.Image{Built: &deploy.HostImage{Format: metal3.ImageFormatInitRD, URL: "http://builder.example/1", KernelURL: "http://builder.example/kernel"}})
		w.after(30*time.Second, "it runs again", func() bool { return runs("")() && len(w.services()) == 1 && w.host().Status.Record.AwaitedImage == "" })
		if n := w.sim.Count("UpdateNode") - patches; n != 1 || w.registration().DriverInfo["deploy_ramdisk"] != "http://builder.example/1" {
			t.Errorf("%d updates of the node, driver_info %v", n, w.registration().DriverInfo)
		}

		images.become(w, lifecycle.Image{Problem: "PreprovisioningImage: no space left"})
		w.wantBIOS("BootMode", "Uefi")
		w.reboot()
		w.after(30*time.Second, "it runs again, without the change", runs("PreprovisioningImage: no space left. The host is switched on without the change"))
		if len(w.services()) != 1 {
			t.Errorf("serviced without its image: %v", w.services())
		}
	})
}
