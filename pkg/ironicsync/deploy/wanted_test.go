// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

const imageURL = "http://images.example.com/a.qcow2"

type hostOption func(*metal3.BareMetalHost)

func newHost(options ...hostOption) *metal3.BareMetalHost {
	host := &metal3.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "host-1", UID: "0a1b"},
		Spec:       metal3.BareMetalHostSpec{RootDeviceHints: &metal3.RootDeviceHints{}},
	}
	for _, option := range options {
		option(host)
	}
	return host
}

// newImage is an image with the checksum "abc" of no type.
func newImage(url string, changes ...func(*metal3.Image)) *metal3.Image {
	image := &metal3.Image{URL: url, Checksum: "abc"}
	for _, change := range changes {
		change(image)
	}
	return image
}

func withFormat(format metal3.DiskFormat) func(*metal3.Image) {
	return func(i *metal3.Image) { i.DiskFormat = &format }
}

func withChecksum(kind metal3.ChecksumType, value string) func(*metal3.Image) {
	return func(i *metal3.Image) { i.ChecksumType, i.Checksum = kind, value }
}

func wantsImage(url string, changes ...func(*metal3.Image)) hostOption {
	return func(h *metal3.BareMetalHost) { h.Spec.Image = newImage(url, changes...) }
}

func wantsMethod(method string) hostOption {
	return func(h *metal3.BareMetalHost) { h.Spec.CustomDeploy = &metal3.CustomDeploy{Method: method} }
}

func hasImage(url string, changes ...func(*metal3.Image)) hostOption {
	return func(h *metal3.BareMetalHost) { h.Status.Provisioning.Image = *newImage(url, changes...) }
}

func hasMethod(method string) hostOption {
	return func(h *metal3.BareMetalHost) {
		h.Status.Provisioning.CustomDeploy = &metal3.CustomDeploy{Method: method}
	}
}

func triedImage(url string) hostOption {
	return func(h *metal3.BareMetalHost) { h.Status.LastAttemptedImage = &metal3.Image{URL: url} }
}

func inState(state metal3.ProvisioningState) hostOption {
	return func(h *metal3.BareMetalHost) { h.Status.Provisioning.State = state }
}

func TestWantsImageAndDeployed(t *testing.T) {
	tests := map[string]struct {
		options         []hostOption
		wants, deployed bool
	}{
		"nothing":                       {},
		"image":                         {options: []hostOption{wantsImage(imageURL)}, wants: true},
		"image without URL":             {options: []hostOption{wantsImage("")}},
		"custom deploy":                 {options: []hostOption{wantsMethod("install")}, wants: true},
		"custom deploy without method":  {options: []hostOption{wantsMethod("")}},
		"deployed image":                {options: []hostOption{hasImage(imageURL)}, deployed: true},
		"deployed by custom deploy":     {options: []hostOption{hasMethod("install")}, deployed: true},
		"attempted, but never deployed": {options: []hostOption{triedImage(imageURL)}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			host := newHost(test.options...)
			if got := WantsImage(&host.Spec); got != test.wants {
				t.Errorf("WantsImage is %v", got)
			}
			if got := Deployed(host); got != test.deployed {
				t.Errorf("Deployed is %v", got)
			}
		})
	}
}

func TestMustDeprovision(t *testing.T) {
	const other = "http://images.example.com/b.qcow2"
	tests := map[string]struct {
		options []hostOption
		want    bool
	}{
		"same image":              {options: []hostOption{hasImage(imageURL), wantsImage(imageURL)}},
		"image removed":           {options: []hostOption{hasImage(imageURL)}, want: true},
		"image URL emptied":       {options: []hostOption{hasImage(imageURL), wantsImage("")}, want: true},
		"other image":             {options: []hostOption{hasImage(imageURL), wantsImage(other)}, want: true},
		"other checksum":          {options: []hostOption{hasImage(imageURL), wantsImage(imageURL, withChecksum(metal3.SHA512, "def"))}},
		"other format":            {options: []hostOption{hasImage(imageURL), wantsImage(imageURL, withFormat(metal3.Raw))}},
		"image becomes live":      {options: []hostOption{hasImage(imageURL), wantsImage(imageURL, withFormat(metal3.LiveISO))}},
		"other Secret, same rest": {options: []hostOption{hasImage(imageURL), wantsImage(imageURL), func(h *metal3.BareMetalHost) { h.Spec.UserData = secretRef("other") }}},

		"same custom deploy":                       {options: []hostOption{hasMethod("a"), wantsMethod("a")}},
		"custom deploy removed":                    {options: []hostOption{hasMethod("a")}, want: true},
		"custom deploy emptied":                    {options: []hostOption{hasMethod("a"), wantsMethod("")}, want: true},
		"other custom deploy":                      {options: []hostOption{hasMethod("a"), wantsMethod("b")}, want: true},
		"custom deploy removed, image stays":       {options: []hostOption{hasMethod("a"), hasImage(imageURL), wantsImage(imageURL)}, want: true},
		"custom deploy stays, image removed":       {options: []hostOption{hasMethod("a"), hasImage(imageURL), wantsMethod("a")}, want: true},
		"custom deploy stays, other image":         {options: []hostOption{hasMethod("a"), hasImage(imageURL), wantsMethod("a"), wantsImage(other)}, want: true},
		"custom deploy with image, same":           {options: []hostOption{hasMethod("a"), hasImage(imageURL), wantsMethod("a"), wantsImage(imageURL)}},
		"custom deploy without image, image added": {options: []hostOption{hasMethod("a"), wantsMethod("a"), wantsImage(imageURL)}},
		"image to custom deploy":                   {options: []hostOption{hasImage(imageURL), wantsMethod("a")}, want: true},
		"custom deploy to image":                   {options: []hostOption{hasMethod("a"), wantsImage(imageURL)}, want: true},
		"custom deploy added to the same image":    {options: []hostOption{hasImage(imageURL), wantsMethod("a"), wantsImage(imageURL)}},

		"nothing recorded, nothing wanted":         {want: true},
		"nothing recorded, image wanted":           {options: []hostOption{wantsImage(imageURL)}},
		"nothing recorded, custom deploy wanted":   {options: []hostOption{wantsMethod("a")}},
		"deployed by an empty record, none wanted": {options: []hostOption{hasMethod(""), hasImage("")}, want: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := MustDeprovision(newHost(test.options...)); got != test.want {
				t.Errorf("MustDeprovision is %v", got)
			}
		})
	}
}

func TestAttemptChanged(t *testing.T) {
	const other = "http://images.example.com/b.qcow2"
	tests := map[string]struct {
		options []hostOption
		want    bool
	}{
		"same image":                       {options: []hostOption{triedImage(imageURL), wantsImage(imageURL)}},
		"same image, other checksum":       {options: []hostOption{triedImage(imageURL), wantsImage(imageURL, withChecksum(metal3.MD5, "d"))}},
		"image removed":                    {options: []hostOption{triedImage(imageURL)}, want: true},
		"other image":                      {options: []hostOption{triedImage(imageURL), wantsImage(other)}, want: true},
		"same custom deploy":               {options: []hostOption{triedImage(""), hasMethod("a"), wantsMethod("a")}},
		"same custom deploy, no image":     {options: []hostOption{hasMethod("a"), wantsMethod("a")}},
		"same custom deploy and image":     {options: []hostOption{triedImage(imageURL), hasMethod("a"), wantsMethod("a"), wantsImage(imageURL)}},
		"other custom deploy":              {options: []hostOption{triedImage(imageURL), hasMethod("a"), wantsMethod("b"), wantsImage(imageURL)}, want: true},
		"custom deploy removed":            {options: []hostOption{triedImage(imageURL), hasMethod("a"), wantsImage(imageURL)}, want: true},
		"custom deploy added":              {options: []hostOption{triedImage(imageURL), wantsMethod("a"), wantsImage(imageURL)}, want: true},
		"custom deploy instead":            {options: []hostOption{triedImage(imageURL), wantsMethod("a")}, want: true},
		"image added to the custom deploy": {options: []hostOption{triedImage(""), hasMethod("a"), wantsMethod("a"), wantsImage(imageURL)}, want: true},
		"nothing recorded":                 {options: []hostOption{wantsImage(imageURL)}},
		"nothing recorded, nothing wanted": {want: true},
		// What the host runs is not what was tried.
		"other image deployed": {options: []hostOption{hasImage(other), triedImage(imageURL), wantsImage(imageURL)}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := AttemptChanged(newHost(test.options...)); got != test.want {
				t.Errorf("AttemptChanged is %v", got)
			}
		})
	}
}

func TestDeployInterface(t *testing.T) {
	live := withFormat(metal3.LiveISO)
	tests := map[string]struct {
		options []hostOption
		want    string
	}{
		"nothing":                {},
		"image":                  {options: []hostOption{wantsImage(imageURL)}},
		"raw image":              {options: []hostOption{wantsImage(imageURL, withFormat(metal3.Raw))}},
		"live ISO":               {options: []hostOption{wantsImage(imageURL, live)}, want: "ramdisk"},
		"custom deploy":          {options: []hostOption{wantsMethod("a")}, want: "custom-agent"},
		"both":                   {options: []hostOption{wantsImage(imageURL, live), wantsMethod("a")}, want: "custom-agent"},
		"being provisioned":      {options: []hostOption{inState(metal3.StateProvisioning), hasMethod("old"), wantsImage(imageURL, live)}, want: "ramdisk"},
		"runs a live ISO":        {options: []hostOption{inState(metal3.StateProvisioned), hasImage(imageURL, live), wantsMethod("new")}, want: "ramdisk"},
		"runs an image":          {options: []hostOption{inState(metal3.StateProvisioned), hasImage(imageURL), wantsImage(imageURL, live)}},
		"runs a custom deploy":   {options: []hostOption{inState(metal3.StateDeprovisioning), hasMethod("a")}, want: "custom-agent"},
		"provisioned, no record": {options: []hostOption{inState(metal3.StateProvisioned), wantsImage(imageURL, live)}, want: "ramdisk"},
		"external, no record":    {options: []hostOption{inState(metal3.StateExternallyProvisioned)}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := DeployInterface(newHost(test.options...)); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestDeploySteps(t *testing.T) {
	for name, host := range map[string]*metal3.BareMetalHost{
		"nothing": newHost(), "image": newHost(wantsImage(imageURL)), "no method": newHost(wantsMethod("")),
	} {
		if steps := DeploySteps(host); steps != nil {
			t.Errorf("%s: got %v", name, steps)
		}
	}
	priority := 80
	want := []ironic.StepRequest{{Interface: "deploy", Step: "install_coreos", Args: map[string]any{}, Priority: &priority}}
	got := DeploySteps(newHost(wantsMethod("install_coreos"), wantsImage(imageURL)))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// mustJSON is value as Ironic gives it back.
func mustJSON(t *testing.T, value map[string]any) map[string]any {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var decoded map[string]any
	if err := json.Unmarshal(data, &decoded); err != nil {
		t.Fatal(err)
	}
	return decoded
}
