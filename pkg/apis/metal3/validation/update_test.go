// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

func TestValidateBareMetalHostUpdate(t *testing.T) {
	const (
		addressPath = "spec.bmc.address"
		mac         = "spec.bootMACAddress"
		adopt       = "spec.externallyProvisioned"
	)
	other := address("redfish://192.0.2.2")
	broken := address("ilo4://192.0.2.1")
	odd, oddIPMI := address("redfish://192.0.2.1?a=b"), address("ipmi://192.0.2.1#1")
	secureBoot := func(h *v1alpha1.BareMetalHost) { h.Spec.BootMode = v1alpha1.UEFISecureBoot }
	adopted := func(h *v1alpha1.BareMetalHost) { h.Spec.ExternallyProvisioned = true }
	available := status(v1alpha1.StateAvailable, v1alpha1.OperationalStatusOK)
	found := func(h *v1alpha1.BareMetalHost) { h.Status.Record.Deployment = &v1alpha1.Deployment{NodeUUID: "u"} }
	runsImage := func(h *v1alpha1.BareMetalHost) { h.Status.Provisioning.Image.URL = "http://images/v1" }
	runsCustom := func(h *v1alpha1.BareMetalHost) {
		h.Status.Provisioning.CustomDeploy = &v1alpha1.CustomDeploy{Method: "install"}
	}
	runs := func(url string) mutation {
		return func(h *v1alpha1.BareMetalHost) { h.Status.Provisioning.Image.URL = url }
	}
	tried := func(url string) mutation {
		return func(h *v1alpha1.BareMetalHost) { h.Status.LastAttemptedImage = &v1alpha1.Image{URL: url} }
	}
	runningStatus := func(url string) string { return `{"provisioning":{"image":{"url":"` + url + `"}}}` }
	const secretURL, statusPath = "http://user:secret@images/v1", "metadata.annotations[" + v1alpha1.StatusAnnotation + "]."
	provisioned := status(v1alpha1.StateProvisioned, v1alpha1.OperationalStatusOK)
	held := func(reason string) mutation {
		return func(h *v1alpha1.BareMetalHost) { h.Status.Record.Hold = &v1alpha1.Hold{Reason: reason} }
	}
	tests := map[string]struct {
		// both are applied to the old and the new host.
		both, old, new []mutation
		want           []string
	}{
		"no change": {},

		// 14. bmc.address.
		"address of an available host":               {both: []mutation{available}, new: []mutation{other}, want: []string{addressPath + ": only while the host is registering or detached"}},
		"address removed":                            {both: []mutation{available}, new: []mutation{address("")}, want: []string{addressPath + ": only while the host is registering or detached"}},
		"first address":                              {both: []mutation{available}, old: []mutation{address("")}, new: []mutation{other}},
		"address of a detached host":                 {both: []mutation{status(v1alpha1.StateProvisioned, v1alpha1.OperationalStatusDetached)}, new: []mutation{other}},
		"address of a registering host":              {both: []mutation{status(v1alpha1.StateRegistering, v1alpha1.OperationalStatusError)}, new: []mutation{other}},
		"address of a host that is held for its BMC": {both: []mutation{provisioned, held(v1alpha1.AnotherBMCReason)}, new: []mutation{other}},
		"address of a host that is held otherwise": {both: []mutation{provisioned, held(v1alpha1.DeploymentGoneReason)}, new: []mutation{other},
			want: []string{addressPath + ": only while the host is registering or detached"}},
		"bad address while registering": {both: []mutation{status(v1alpha1.StateRegistering, "")}, new: []mutation{broken}, want: []string{addressPath + `: unknown type "ilo4"`}},

		// A form of address that is refused today, and that a host can have had since before. Ironic works with it.
		"odd address of a changed host":       {both: []mutation{provisioned, odd}, new: []mutation{func(h *v1alpha1.BareMetalHost) { h.Spec.Online = false }}},
		"odd address and another bad setting": {both: []mutation{odd}, new: []mutation{oddIPMI, secureBoot}, old: []mutation{oddIPMI}, want: []string{"spec.bootMode: ipmi:// does not support secure boot"}},
		"odd address, exchanged for another":  {both: []mutation{status(v1alpha1.StateRegistering, "")}, old: []mutation{odd}, new: []mutation{oddIPMI}, want: []string{addressPath + ": must not have a fragment: leave out #1"}},
		"odd address, mended":                 {both: []mutation{status(v1alpha1.StateRegistering, "")}, old: []mutation{odd}, new: []mutation{other}},

		// 15. bootMACAddress.
		"MAC in upper case": {new: []mutation{func(h *v1alpha1.BareMetalHost) { h.Spec.BootMACAddress = "00:AB:4F:D8:9E:FA" }}},
		"another MAC":       {new: []mutation{func(h *v1alpha1.BareMetalHost) { h.Spec.BootMACAddress = "00:ab:4f:d8:9e:fb" }}, want: []string{mac + ": cannot be changed or removed once it is set: keep 00:ab:4f:d8:9e:fa"}},
		"another MAC of a provisioned host": {both: []mutation{provisioned}, new: []mutation{func(h *v1alpha1.BareMetalHost) { h.Spec.BootMACAddress = "00:ab:4f:d8:9e:fb" }},
			want: []string{mac + ": cannot be changed or removed once it is set: keep 00:ab:4f:d8:9e:fa, or replace the host: detach it (annotation baremetalhost.metal3.io/detached)"}},
		"another MAC of an available host": {both: []mutation{available}, new: []mutation{func(h *v1alpha1.BareMetalHost) { h.Spec.BootMACAddress = "00:ab:4f:d8:9e:fb" }},
			want: []string{mac + ": cannot be changed or removed once it is set: keep 00:ab:4f:d8:9e:fa, or replace the host: delete the host, and create it again"}},
		"MAC removed": {new: []mutation{noMAC}, want: []string{mac + ": cannot be changed or removed"}},
		"first MAC":   {old: []mutation{noMAC}},

		// 16. externallyProvisioned.
		"adopted while available":            {both: []mutation{available}, new: []mutation{adopted}},
		"adopted while ready":                {both: []mutation{status(v1alpha1.StateReady, "")}, new: []mutation{adopted}},
		"adopted while provisioned":          {both: []mutation{provisioned, found, runsImage}, new: []mutation{adopted}, want: []string{adopt + ": only while status.provisioning.state is available"}},
		"adopted while deployed by a method": {both: []mutation{provisioned, found, runsCustom}, new: []mutation{adopted}, want: []string{adopt + ": only while status.provisioning.state is available"}},
		"no longer adopted":                  {both: []mutation{status(v1alpha1.StateExternallyProvisioned, "")}, old: []mutation{adopted}},
		"adopted again at once":              {both: []mutation{status(v1alpha1.StateExternallyProvisioned, "")}, new: []mutation{adopted}},
		"adopted again":                      {both: []mutation{provisioned, found}, new: []mutation{adopted}},
		"adopted while its image is removed": {both: []mutation{status(v1alpha1.StateDeprovisioning, ""), runsImage}, new: []mutation{adopted}, want: []string{adopt + ": only while status.provisioning.state is available"}},
		"still adopted":                      {both: []mutation{provisioned, adopted}},

		// The host of a HostClaim.
		"a claim's, taken by another": {old: []mutation{consumer("HostClaim", "mine", "u")}, new: []mutation{consumer("Metal3Machine", "worker-0", "u")}, want: []string{"spec.consumerRef: is HostClaim tenant/mine, which has the host"}},
		"a claim's, given to another": {old: []mutation{consumer("HostClaim", "mine", "u")}, new: []mutation{consumer("HostClaim", "other", "v")}, want: []string{"spec.consumerRef: is HostClaim tenant/mine"}},
		"a claim's, released":         {old: []mutation{consumer("HostClaim", "mine", "u")}},
		"a machine's, exchanged":      {old: []mutation{consumer("Metal3Machine", "worker-0", "")}, new: []mutation{consumer("Metal3Machine", "worker-1", "")}},
		"not bound, exchanged":        {old: []mutation{consumer("HostClaim", "mine", "")}, new: []mutation{consumer("Metal3Machine", "worker-0", "")}},

		// Create rules on update.
		"a new error": {new: []mutation{image(v1alpha1.Image{URL: "http://a/b"})}, want: []string{"spec.image.checksum: Required"}},
		"finalizer of an invalid host removed": {
			both: []mutation{broken}, old: []mutation{func(h *v1alpha1.BareMetalHost) { h.Finalizers = []string{v1alpha1.BareMetalHostFinalizer} }},
		},
		"labels of an invalid host": {both: []mutation{broken}, new: []mutation{func(h *v1alpha1.BareMetalHost) { h.Labels = map[string]string{"a": "b"} }}},
		"reboot annotation of an invalid host removed": {
			both: []mutation{broken}, old: []mutation{annotation("reboot.metal3.io", "")},
		},
		"an invalid host powered off":       {both: []mutation{broken}, new: []mutation{func(h *v1alpha1.BareMetalHost) { h.Spec.Online = false }}},
		"a new error in an invalid host":    {both: []mutation{broken}, new: []mutation{func(h *v1alpha1.BareMetalHost) { h.Spec.BootMode = "x" }}, want: []string{"spec.bootMode: supported values"}},
		"a bad annotation on a valid host":  {new: []mutation{annotation("reboot.metal3.io", "x")}, want: []string{"metadata.annotations[reboot.metal3.io]: must be empty or JSON"}},
		"a bad annotation exchanged":        {old: []mutation{annotation("reboot.metal3.io", "x")}, new: []mutation{annotation("reboot.metal3.io", "y")}, want: []string{"metadata.annotations[reboot.metal3.io]: must be empty or JSON"}},
		"inspection disabled by annotation": {both: []mutation{noMAC}, new: []mutation{annotation("inspect.metal3.io", "disabled")}, want: []string{mac + ": is required if inspection is disabled"}},
		// Cluster API Provider Metal3 pauses a host, and prepares its move, by an annotation with its status.
		"own status as annotation":                      {both: []mutation{provisioned, runs(secretURL)}, new: []mutation{annotation(v1alpha1.PausedAnnotation, "metal3.io/capm3"), annotation(v1alpha1.StatusAnnotation, runningStatus(secretURL))}},
		"own last image as annotation":                  {both: []mutation{provisioned, tried("ftp://images/v1")}, new: []mutation{annotation(v1alpha1.StatusAnnotation, `{"lastAttemptedImage":{"url":"ftp://images/v1"}}`)}},
		"another password in the annotation":            {both: []mutation{provisioned, runs(secretURL)}, new: []mutation{annotation(v1alpha1.StatusAnnotation, runningStatus("http://user:other@images/v1"))}, want: []string{statusPath + "provisioning.image.url: must not contain a user name or password"}},
		"own last image as another one":                 {both: []mutation{provisioned, tried(secretURL)}, new: []mutation{annotation(v1alpha1.StatusAnnotation, runningStatus(secretURL))}, want: []string{statusPath + "provisioning.image.url: must not contain a user name or password"}},
		"own status, and something else, as annotation": {both: []mutation{provisioned, runs(secretURL)}, new: []mutation{annotation(v1alpha1.StatusAnnotation, `{"operationalStatus":"fine",`+runningStatus(secretURL)[1:])}, want: []string{statusPath + "operationalStatus: supported values"}},
		"metadata is checked as well":                   {new: []mutation{func(h *v1alpha1.BareMetalHost) { h.Name = "b" }}, want: []string{"metadata.name: field is immutable"}},
		"a name too long for Ironic, from before":       {both: []mutation{named(30, 225)}, new: []mutation{func(h *v1alpha1.BareMetalHost) { h.Labels = map[string]string{"a": "b"} }}},
		"a name that is a UUID, from before":            {both: []mutation{func(h *v1alpha1.BareMetalHost) { h.Name = "a4a53134-1690-45c6-93ee-b96c31dbfc54" }}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			old := newHost(append(test.both, test.old...)...)
			host := newHost(append(test.both, test.new...)...)
			before := host.DeepCopy()
			expect(t, ValidateBareMetalHostUpdate(host, old), test.want...)
			if diff := cmp.Diff(before, host); diff != "" {
				t.Errorf("validation has changed the host:\n%s", diff)
			}
		})
	}
}

// consumer returns a mutation that names who uses the host.
func consumer(kind, name string, uid types.UID) mutation {
	return func(h *v1alpha1.BareMetalHost) {
		h.Spec.ConsumerRef = &corev1.ObjectReference{APIVersion: "metal3.io/v1alpha1", Kind: kind, Namespace: "tenant", Name: name, UID: uid}
	}
}
