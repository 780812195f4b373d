// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"testing"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/deploy"
)

var (
	builtImage   = Image{Built: &deploy.HostImage{Format: metal3.ImageFormatISO, URL: "http://images.example/1.iso"}}
	awaitedImage = Image{Waiting: "PreprovisioningImage host-0 is not ready"}
	failedImage  = Image{Problem: "PreprovisioningImage host-0: no space left"}
)

// With which images a host goes on, in each state and with each state of its node.
func TestImages(t *testing.T) {
	fast := func(h *metal3.BareMetalHost) { h.Spec.InspectionMode = metal3.InspectionModeFast }
	notCleaned := func(h *metal3.BareMetalHost) { h.Spec.AutomatedCleaningMode = metal3.CleaningModeDisabled }
	waits := awaitingImage(awaitedImage.Waiting)
	for name, tt := range map[string]struct {
		state  metal3.ProvisioningState
		node   ironic.ProvisionState
		host   []hostOption
		image  *Image
		want   Action // "" if it goes on as it does without images
		anyway bool   // it goes on with another step than without images
	}{
		"off": {state: metal3.StateInspecting, node: ironic.Manageable},

		"inspecting, built":              {state: metal3.StateInspecting, node: ironic.Manageable, image: &builtImage, want: Register},
		"inspecting, not built":          {state: metal3.StateInspecting, node: ironic.Manageable, image: &awaitedImage, want: AwaitImage},
		"inspecting, not built, told":    {state: metal3.StateInspecting, node: ironic.Manageable, image: &awaitedImage, host: []hostOption{waits}, want: Wait},
		"inspecting, failed":             {state: metal3.StateInspecting, node: ironic.Manageable, image: &failedImage, want: Report},
		"inspecting, failed, told":       {state: metal3.StateInspecting, node: ironic.Manageable, image: &failedImage, host: []hostOption{withRegistration(metal3.ImageNotBuiltReason, failedImage.Problem)}, want: Wait},
		"inspecting, failed before":      {state: metal3.StateInspecting, node: ironic.Manageable, image: &builtImage, host: []hostOption{withRegistration(metal3.ImageNotBuiltReason, failedImage.Problem)}, want: Register},
		"being inspected, not built":     {state: metal3.StateInspecting, node: ironic.InspectWait, image: &awaitedImage},
		"being inspected, built anew":    {state: metal3.StateInspecting, node: ironic.InspectWait, image: &builtImage},
		"inspecting, off again":          {state: metal3.StateInspecting, node: ironic.Manageable, host: []hostOption{waits}, want: AwaitImage},
		"inspected fast, not built":      {state: metal3.StateInspecting, node: ironic.Manageable, image: &awaitedImage, host: []hostOption{fast}},
		"preparing, not built":           {state: metal3.StatePreparing, node: ironic.Manageable, image: &awaitedImage, want: AwaitImage},
		"available, built":               {state: metal3.StateAvailable, node: ironic.Manageable, image: &builtImage, want: Register},
		"available, registered":          {state: metal3.StateAvailable, node: ironic.Manageable, image: &builtImage, host: []hostOption{registeredWithImage(builtImage)}},
		"available, not built":           {state: metal3.StateAvailable, node: ironic.Manageable, image: &awaitedImage},
		"available, off again":           {state: metal3.StateAvailable, node: ironic.Manageable, host: []hostOption{registeredWithImage(builtImage)}, want: Register},
		"provisioning, built anew":       {state: metal3.StateProvisioning, node: ironic.Available, image: &builtImage, want: Register},
		"being provisioned, built anew":  {state: metal3.StateProvisioning, node: ironic.DeployWait, image: &builtImage},
		"just provisioned, failed":       {state: metal3.StateProvisioning, node: ironic.Active, image: &failedImage},
		"provisioned, built anew":        {state: metal3.StateProvisioned, node: ironic.Active, image: &builtImage, host: []hostOption{deployedImage}},
		"provisioned, failed":            {state: metal3.StateProvisioned, node: ironic.Active, image: &failedImage, host: []hostOption{deployedImage}},
		"external, not built":            {state: metal3.StateExternallyProvisioned, node: ironic.Active, image: &awaitedImage, host: []hostOption{externallyProvisioned}},
		"deprovisioning, built anew":     {state: metal3.StateDeprovisioning, node: ironic.Active, image: &builtImage, want: Register},
		"deprovisioning, not built":      {state: metal3.StateDeprovisioning, node: ironic.Active, image: &awaitedImage, want: AwaitImage},
		"deprovisioning, uncleaned":      {state: metal3.StateDeprovisioning, node: ironic.Active, image: &awaitedImage, host: []hostOption{notCleaned}},
		"deprovisioned, not built":       {state: metal3.StateDeprovisioning, node: ironic.Available, image: &awaitedImage},
		"being deprovisioned, not built": {state: metal3.StateDeprovisioning, node: ironic.CleanWait, image: &awaitedImage},
		"registering, not built":         {state: metal3.StateRegistering, node: ironic.Manageable, image: &awaitedImage},
	} {
		t.Run(name, func(t *testing.T) {
			s := planned(newHost(append([]hostOption{withState(tt.state), withPower(true), registeredAs()}, tt.host...)...), nodeIn(tt.node))
			s.Image = tt.image
			got := nextOf(s)
			if tt.want != "" {
				if got.Do != tt.want {
					t.Errorf("next is %s, want %s", got.Do, tt.want)
				}
				return
			}
			s.Image = nil
			if with := s.Host.Status.Record.RegisteredWith; with != nil {
				with.Image = ""
			}
			if want := nextOf(s); got.Do != want.Do || got.State != want.State || got.Target != want.Target {
				t.Errorf("next is %+v, and without images %+v", got, want)
			}
		})
	}
}

// A deletion takes the image that there is, and waits for none.
func TestDeletionDoesNotWaitForImage(t *testing.T) {
	for name, tt := range map[string]struct {
		image Image
		want  Action
	}{
		"built anew": {builtImage, Register},
		"not built":  {awaitedImage, Provision},
		"failed":     {failedImage, Provision},
	} {
		t.Run(name, func(t *testing.T) {
			s := planned(newHost(deleted, withState(metal3.StateDeprovisioning), withPower(true), registeredAs(), deployedImage), nodeIn(ironic.Active))
			s.Image = &tt.image
			if got := nextOf(s); got.Do != tt.want {
				t.Errorf("next is %+v, want %s", got, tt.want)
			}
		})
	}
}

func registeredWithImage(image Image) hostOption {
	return registeredAs(func(with *metal3.RegisteredWith) { with.Image = image.Digest() })
}

func awaitingImage(waiting string) hostOption {
	return func(h *metal3.BareMetalHost) { SetAwaitedImage(h, waiting) }
}

func deployedImage(h *metal3.BareMetalHost) {
	wantsImage("http://images.example/disk")(h)
	h.Status.Provisioning.Image = *h.Spec.Image
}
