// SPDX-License-Identifier: Apache-2.0

package hostclaim

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

var image = metal3.Image{URL: "http://images.example/a", Checksum: "d41d8cd98f00b204e9800998ecf8427e"}

// The way of a claim from the choice of its host until it gives the host back.
func TestLife(t *testing.T) {
	w := newWorld(t)
	w.secrets["tenant/first-boot"], w.secrets["tenant/registry"] = "", ""
	w.claim.Spec = metal3.HostClaimSpec{
		PoweredOn: true, Image: image.DeepCopy(),
		UserData: &corev1.SecretReference{Name: "first-boot"}, NetworkData: &corev1.SecretReference{Name: "first-boot"}, MetaData: &corev1.SecretReference{Name: "first-boot"},
	}
	w.claim.Spec.Image.OCIAuthSecretName = new("registry")
	w.mustReconcile(t)
	wanted := image
	wanted.OCIAuthSecretName = new("hostclaim-uid-pullsecret")
	ref := func(use string) *corev1.SecretReference {
		return &corev1.SecretReference{Namespace: "racks", Name: "hostclaim-uid-" + use}
	}
	if diff := cmp.Diff(metal3.BareMetalHostSpec{
		Online: true, Image: &wanted, UserData: ref("userdata"), NetworkData: ref("networkdata"), MetaData: ref("metadata"),
		ConsumerRef: &corev1.ObjectReference{APIVersion: "metal3.io/v1alpha1", Kind: "HostClaim", Namespace: "tenant", Name: "mine", UID: "uid"},
	}, w.host().Spec); diff != "" {
		t.Errorf("the host (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{
		"tenant/first-boot": "", "tenant/registry": "",
		"racks/hostclaim-uid-userdata": "tenant/first-boot", "racks/hostclaim-uid-networkdata": "tenant/first-boot",
		"racks/hostclaim-uid-metadata": "tenant/first-boot", "racks/hostclaim-uid-pullsecret": "tenant/registry",
	}, w.secrets); diff != "" {
		t.Errorf("the Secrets (-want +got):\n%s", diff)
	}
	if got := w.has("Associated") + ", " + w.has("Synchronized") + ", " + w.has("Provisioned") + ", " + w.has("Ready"); got != "True BareMetalHostAssociated, True ConfigurationSynced, False Available, False IssuesReported" {
		t.Error(got)
	}

	w.host().Status.HardwareDetails = &metal3.HardwareDetails{}
	w.deploy()
	w.mustReconcile(t)
	place, own := &metal3.ObjectReference{Namespace: "racks", Name: "worker-0"}, &metal3.ObjectReference{Namespace: "tenant", Name: "mine"}
	status := w.claim.Status
	if diff := cmp.Diff(metal3.HostClaimStatus{LastUpdated: status.LastUpdated, Conditions: status.Conditions, BareMetalHost: place, HardwareData: own, PoweredOn: true}, status); diff != "" {
		t.Errorf("the status (-want +got):\n%s", diff)
	}
	if got := w.has("Provisioned") + ", " + w.has("Ready"); got != "True Provisioned, True InfoReported" {
		t.Error(got)
	}
	version, writes := w.version, w.claims.Writes
	w.mustReconcile(t)
	if w.version != version || w.claims.Writes != writes {
		t.Error("a claim with which nothing happens is written")
	}

	// What the claim no longer names goes, as soon as its host does not name it either.
	w.claim.Spec.NetworkData = nil
	w.mustReconcile(t)
	if _, exists := w.secrets["racks/hostclaim-uid-networkdata"]; exists || w.host().Spec.NetworkData != nil {
		t.Errorf("there are %v, the host names %v", w.secrets, w.host().Spec.NetworkData)
	}

	w.delete()
	w.mustReconcile(t)
	if spec := w.host().Spec; spec.Image != nil || spec.UserData != nil || spec.MetaData != nil || spec.Online || spec.ConsumerRef == nil {
		t.Errorf("while it is deprovisioned, the host is %+v", spec)
	}
	if got := w.has("Associated"); got != "False HostClaimDeleting" || len(w.secrets) < 4 {
		t.Errorf("%s, Secrets %v", got, w.secrets)
	}
	w.deprovision()
	w.mustReconcile(t)
	if w.claim != nil || w.host().Spec.ConsumerRef != nil || len(w.secrets) != 2 {
		t.Errorf("claim %v, host %+v, Secrets %v", w.claim, w.host().Spec, w.secrets)
	}
	if diff := cmp.Diff([]string{"Normal BareMetalHostAssociated", "Normal HostClaimDeleting"}, []string(w.events)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// The hardware of the host is shown in the namespace of the claim, unless something else of the same name
// is there.
func TestHardware(t *testing.T) {
	w := newWorld(t)
	found := &metal3.HardwareDetails{RAMMebibytes: 4096}
	w.host().Status.HardwareDetails = found
	w.put(w.host())
	w.mustReconcile(t)
	data := w.hardware["tenant/mine"]
	if data == nil || len(data.OwnerReferences) != 1 || data.OwnerReferences[0].UID != "uid" || !cmp.Equal(found, data.Spec.HardwareDetails) {
		t.Fatalf("the hardware is %+v", data)
	}
	w.host().Status.HardwareDetails = &metal3.HardwareDetails{RAMMebibytes: 8192}
	w.put(w.host())
	w.mustReconcile(t)
	if data := w.hardware["tenant/mine"]; data.Spec.HardwareDetails.RAMMebibytes != 8192 {
		t.Errorf("after another inspection, the hardware is %+v", data.Spec.HardwareDetails)
	}
	w.put(freeHost("tenant", "mine", nil))
	w.host().Status.HardwareDetails = &metal3.HardwareDetails{RAMMebibytes: 16384}
	w.put(w.host())
	w.mustReconcile(t)
	if status, data := w.claim.Status.HardwareData, w.hardware["tenant/mine"]; status.Namespace != "racks" || data.Spec.HardwareDetails.RAMMebibytes != 8192 {
		t.Errorf("after a host of the claim's name was created, the hardware is at %+v, and what is at the claim is %+v", status, data.Spec.HardwareDetails)
	}
	w.controller.hostChanged(w.hosts["mine"], nil)
	delete(w.hosts, "mine")
	others := &metal3.HardwareData{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "mine"}}
	w.hardware["tenant/mine"] = others
	w.mustReconcile(t)
	if status := w.claim.Status.HardwareData; status.Namespace != "racks" || status.Name != "worker-0" || w.hardware["tenant/mine"] != others {
		t.Errorf("the hardware is at %+v", status)
	}
	delete(w.hardware, "tenant/mine")
	w.put(freeHost("tenant", "mine", nil))
	w.mustReconcile(t)
	if status := w.claim.Status.HardwareData; status.Namespace != "racks" || len(w.hardware) > 0 {
		t.Errorf("the hardware is at %+v", status)
	}
}

// Who is faster gets the host.
func TestLostRaces(t *testing.T) {
	take := func(h *metal3.BareMetalHost) {
		h.Spec.ConsumerRef = &corev1.ObjectReference{Kind: "Metal3Machine", Name: "other"}
	}
	for name, test := range map[string]struct {
		meanwhile func(*metal3.BareMetalHost)
		second    bool // whether there is a second host
		want      string
	}{
		"an observation":         {func(h *metal3.BareMetalHost) { h.Status.PoweredOn = true }, false, "worker-0"},
		"another consumer":       {take, false, ""},
		"another consumer, next": {take, true, "worker-1"},
		"an image":               {func(h *metal3.BareMetalHost) { h.Spec.Image = image.DeepCopy() }, false, ""},
		"a pause": {func(h *metal3.BareMetalHost) {
			metav1.SetMetaDataAnnotation(&h.ObjectMeta, metal3.PausedAnnotation, "")
		}, false, ""},
		"a deletion": {func(h *metal3.BareMetalHost) { h.DeletionTimestamp = new(metav1.Now()) }, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.beforeUpdate = func(h *metal3.BareMetalHost) {
				w.beforeUpdate = nil
				test.meanwhile(h)
				h.ResourceVersion = "new" // and nobody has told the controller yet
				if test.second {
					w.put(freeHost("racks", "worker-1", nil))
				}
			}
			// The claim has waited, and chose worker-0 before.
			w.host().Status.Provisioning.State = metal3.StateInspecting
			w.put(w.host())
			update := w.beforeUpdate
			w.beforeUpdate = nil
			w.mustReconcile(t)
			w.beforeUpdate = update
			w.host().Status.Provisioning.State = metal3.StateAvailable
			w.put(w.host())
			w.claim.Status.BareMetalHost = &metal3.ObjectReference{Namespace: "racks", Name: "worker-0"}
			w.mustReconcile(t)
			got := ""
			if w.claim.Status.BareMetalHost != nil {
				got = w.claim.Status.BareMetalHost.Name
			}
			for name, host := range w.hosts {
				if isConsumer(w.claim, host) != (name == test.want) {
					t.Errorf("the consumer of %s is %+v", name, host.Spec.ConsumerRef)
				}
			}
			if got != test.want {
				t.Errorf("the claim has host %q, want %q", got, test.want)
			}
		})
	}
}

// TestFailedBinding: a host that could not be bound to a claim is not taken for bound.
func TestFailedBinding(t *testing.T) {
	w := newWorld(t)
	w.hostError = errors.New("etcd does not answer")
	if _, err := w.controller.reconcile(t.Context(), claimKey); err == nil {
		t.Fatal("no error")
	}
	if host, whyNot, _ := w.controller.allocator.pick(newTestRequest(t, "another", 0, nil)); host == nil {
		t.Errorf("another claim does not get the host: %s", whyNot)
	}
}

// Reboots and pauses are passed on, and nothing that others have set is removed.
func TestAnnotations(t *testing.T) {
	const key = metal3.RebootAnnotationPrefix
	long := strings.Repeat("a", 60)
	w := newWorld(t)
	w.claim.Spec.PoweredOn = true
	w.mustReconcile(t)
	metav1.SetMetaDataAnnotation(&w.host().ObjectMeta, key+"mine", "of the administrator")
	w.put(w.host())
	w.claim.Annotations = map[string]string{metal3.RebootAnnotation: `{"mode":"hard"}`, key + "mine": "", key + long: "", "example.com/other": ""}
	w.mustReconcile(t)
	got := w.host().Annotations
	if len(got) != 5 || got[rebootTokenAnnotation] == "" || got[metal3.RebootAnnotation] != `{"mode":"hard"}` || got[key+"mine"] != "of the administrator" || got[key+"hostclaim-mine"] != "" {
		t.Errorf("the host has %v", got)
	}
	if _, again := w.claim.Annotations[metal3.RebootAnnotation]; again || len(w.claim.Annotations) != 3 {
		t.Errorf("the claim has %v", w.claim.Annotations)
	}
	delete(w.host().Annotations, metal3.RebootAnnotation) // it is rebooted
	w.put(w.host())
	// A process that ended before it had changed the claim is followed by another one.
	w.claim.Annotations = map[string]string{metal3.RebootAnnotation: `{"mode":"hard"}`, rebootTokenAnnotation: got[rebootTokenAnnotation], key + "mine": "", key + long: ""}
	w.mustReconcile(t)
	if _, again := w.host().Annotations[metal3.RebootAnnotation]; again || len(w.claim.Annotations) != 2 {
		t.Errorf("a reboot is passed on twice: the host has %v, the claim %v", w.host().Annotations, w.claim.Annotations)
	}
	w.claim.Annotations = map[string]string{metal3.PausedAnnotation: "true", metal3.RebootAnnotation: ""}
	w.claim.Spec.PoweredOn = false
	w.mustReconcile(t)
	if got := w.host(); got.Annotations[metal3.PausedAnnotation] != "metal3.io/hostclaim" || len(got.Annotations) != 5 || !got.Spec.Online {
		t.Errorf("while the claim is paused, the host has %v", got.Annotations)
	}
	if got := w.has("Synchronized"); got != "False HostPaused" {
		t.Error(got)
	}
	w.claim.Annotations = nil
	w.mustReconcile(t)
	if got := w.host(); got.Spec.Online || !slices.Equal(slices.Sorted(maps.Keys(got.Annotations)), []string{rebootTokenAnnotation, key + "mine"}) {
		t.Errorf("after that, the host has %v", got.Annotations)
	}

	// A pause by another client is respected, also by a deletion.
	metav1.SetMetaDataAnnotation(&w.host().ObjectMeta, metal3.PausedAnnotation, "")
	w.put(w.host())
	w.claim.Spec.PoweredOn = true
	w.mustReconcile(t)
	w.delete()
	w.mustReconcile(t)
	if got := w.host(); got.Spec.Online || !isConsumer(w.claim, got) || len(got.Annotations) != 3 {
		t.Errorf("the host is %+v", got)
	}
	delete(w.host().Annotations, metal3.PausedAnnotation)
	w.put(w.host())
	w.mustReconcile(t)
	if got := w.host(); w.claim != nil || got.Spec.ConsumerRef != nil || len(got.Annotations) != 1 {
		t.Errorf("the host is %+v", got)
	}
}

// Nothing is done for a paused claim without a host, and a paused claim that is deleted keeps its host.
func TestPausedClaim(t *testing.T) {
	w := newWorld(t)
	w.claim.Annotations = map[string]string{metal3.PausedAnnotation: ""}
	before := w.claim.DeepCopy()
	w.mustReconcile(t)
	if diff := cmp.Diff(before, w.claim); diff != "" || w.host().Spec.ConsumerRef != nil {
		t.Errorf("the consumer is %v, and the claim was changed (-want +got):\n%s", w.host().Spec.ConsumerRef, diff)
	}
	w.claim.Annotations = nil
	w.mustReconcile(t)
	w.claim.Annotations = before.Annotations
	w.delete()
	w.mustReconcile(t)
	if w.claim == nil || !isConsumer(w.claim, w.host()) || w.host().Annotations[metal3.PausedAnnotation] != pausedByClaim {
		t.Errorf("the claim is %v, the host %+v", w.claim, w.host())
	}
	w.claim.Annotations = nil
	w.mustReconcile(t)
	if w.claim != nil || w.host().Spec.ConsumerRef != nil || len(w.host().Annotations) != 0 {
		t.Errorf("the claim is %v, the host %+v", w.claim, w.host())
	}
}

// A paused claim does not go on saying that it has a host that is gone.
func TestPausedClaimWithoutItsHost(t *testing.T) {
	w := newWorld(t)
	w.claim.Spec.Image = image.DeepCopy()
	w.mustReconcile(t)
	w.deploy()
	w.claim.Annotations = map[string]string{metal3.PausedAnnotation: ""}
	w.mustReconcile(t)
	host := w.host()
	delete(w.hosts, "worker-0")
	w.controller.hostChanged(host, nil)
	w.mustReconcile(t)
	if got := w.has("Associated") + ", " + w.has("Ready"); got != "False MissingBareMetalHost, False MissingBareMetalHost" || meta.FindStatusCondition(w.claim.Status.Conditions, "Provisioned") != nil {
		t.Errorf("%s, %+v", got, w.claim.Status)
	}
}

// TestDeployedByHand: a claim whose host somebody has deployed in Ironic says that it waits for a person.
func TestDeployedByHand(t *testing.T) {
	w := newWorld(t)
	w.claim.Spec.Image = image.DeepCopy()
	w.mustReconcile(t)
	host := w.host()
	host.Status.Provisioning.State, host.Status.Provisioning.Image, host.Status.Provisioning.CustomDeploy = metal3.StateProvisioned, metal3.Image{}, nil
	for _, errorType := range []metal3.ErrorType{"", metal3.ProvisioningError} {
		w.host().Status.ErrorType = errorType
		w.put(w.host())
		w.mustReconcile(t)
		c := meta.FindStatusCondition(w.claim.Status.Conditions, metal3.ProvisionedCondition)
		if c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "deployed in Ironic past this server") {
			t.Errorf("with the error %q, Provisioned is %s: %s", errorType, c.Status, c.Message)
		}
	}
}

// TestReleaseThatWaitsForAPerson: a claim that is being deleted does not say that its host is being deprovisioned while it is not.
func TestReleaseThatWaitsForAPerson(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*metal3.BareMetalHost)
		says   string
	}{
		"its own deployment":                    {func(*metal3.BareMetalHost) {}, "being deprovisioned"},
		"deployed in Ironic":                    {func(h *metal3.BareMetalHost) { h.Status.Provisioning.Image = metal3.Image{} }, "deployed in Ironic past this server"},
		"held":                                  {held, "The host is held"},
		"held for what was deployed in Ironic":  {func(h *metal3.BareMetalHost) { h.Status.Provisioning.Image = metal3.Image{}; held(h) }, "deployed in Ironic past this server"},
		"held while it is being deprovisioned":  {func(h *metal3.BareMetalHost) { h.Status.Provisioning.State = metal3.StateDeprovisioning; held(h) }, "The host is held"},
		"deprovisioning, and nothing is amiss ": {func(h *metal3.BareMetalHost) { h.Status.Provisioning.State = metal3.StateDeprovisioning }, "being deprovisioned"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.claim.Spec.Image = image.DeepCopy()
			w.mustReconcile(t)
			w.deploy()
			test.change(w.host())
			w.put(w.host())
			w.delete()
			w.mustReconcile(t)
			c := meta.FindStatusCondition(w.claim.Status.Conditions, AssociatedCondition)
			if c.Reason != HostClaimDeletingReason || !strings.Contains(c.Message, test.says) {
				t.Errorf("Associated is %s %s: %s", c.Status, c.Reason, c.Message)
			}
		})
	}
}

func held(host *metal3.BareMetalHost) {
	host.Status.Record.Hold = &metal3.Hold{Reason: metal3.AnotherDeploymentReason, Message: "of a namespace that the tenant does not know"}
}

// A host that must not be switched off stays on.
func TestPowerThatIsKept(t *testing.T) {
	w := newWorld(t)
	w.host().Spec.DisablePowerOff, w.host().Spec.Online = true, true
	w.put(w.host())
	w.mustReconcile(t)
	w.delete()
	w.mustReconcile(t)
	if w.claim != nil || !w.host().Spec.Online {
		t.Errorf("claim %v, host %+v", w.claim, w.host().Spec)
	}
}

// A leader that may have been replaced gives no claim a host, and takes none away.
func TestNotLeading(t *testing.T) {
	over := ironic.Fence{Term: func() bool { return false }}
	w := newWorld(t)
	within := func(fence ironic.Fence) { w.controller.Fence, w.controller.copier.fence = fence, fence }
	within(over)
	if err := w.reconcile(t); !errors.Is(err, ironic.ErrNotLeading) || w.host().Spec.ConsumerRef != nil {
		t.Errorf("binding ended with %v, the host has consumer %v", err, w.host().Spec.ConsumerRef)
	}
	within(ironic.NoFence)
	w.mustReconcile(t)
	within(over)
	w.claim.DeletionTimestamp = new(metav1.Now())
	if err := w.reconcile(t); !errors.Is(err, ironic.ErrNotLeading) || w.host().Spec.ConsumerRef == nil {
		t.Errorf("releasing ended with %v, the host has consumer %v", err, w.host().Spec.ConsumerRef)
	}
}
