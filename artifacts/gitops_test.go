// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	ironicv1alpha1 "github.com/metal3-io/metal3-apiserver/pkg/apis/ironic/v1alpha1"
	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/deploy"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/kinds/hostclaim"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/kinds/networkswitch"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/settings"
)

const (
	argocdChecks = "gitops/argocd/argocd-cm.yaml"
	fluxChecks   = "gitops/flux/health-checks.yaml"
)

// gitopsVerdict is what Argo CD (health, message) and Flux (without expressions, and with ours) conclude from an object.
type gitopsVerdict struct{ Health, Message, Kstatus, Flux string }

// gitopsVerdicts has the engines of both judge objects.
func gitopsVerdicts(t *testing.T, objs ...runtime.Object) []gitopsVerdict {
	t.Helper()
	program, err := filepath.Abs("../bin/gitops")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(program); err != nil {
		skipWithout(t, "%v: build it with hack/tools/build.sh gitops", err)
	}
	var in bytes.Buffer
	for _, obj := range objs {
		if err := json.NewEncoder(&in).Encode(obj); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), program, argocdChecks, fluxChecks)
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = &in, &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, &stderr)
	}
	var all []gitopsVerdict
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var verdict gitopsVerdict
		if err := decoder.Decode(&verdict); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, verdict)
	}
	if len(all) != len(objs) {
		t.Fatalf("%d verdicts of %d objects", len(all), len(objs))
	}
	return all
}

// fluxOf is the status in Flux that goes with a health in Argo CD: what is suspended blocks nothing there.
var fluxOf = map[string]string{
	"Healthy": "Current", "Suspended": "Current", "Progressing": "InProgress", "Unknown": "InProgress", "Degraded": "Failed",
}

var gitopsNow = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const (
	imageURL      = "http://images.example.com/a.qcow2"
	otherImageURL = "http://images.example.com/b.qcow2"
)

// gitopsHost is a host in a state, registered as its spec says, on, and running the image of its spec if the state is provisioned. What
// change has changed is rendered as the server does.
func gitopsHost(state metal3.ProvisioningState, change func(*metal3.BareMetalHost)) *metal3.BareMetalHost {
	host := &metal3.BareMetalHost{
		TypeMeta:   metav1.TypeMeta{APIVersion: metal3.SchemeGroupVersion.String(), Kind: "BareMetalHost"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "metal3", Name: "worker-0", UID: "1", Generation: 3, Annotations: map[string]string{}},
		Spec: metal3.BareMetalHostSpec{
			Online: true, BMC: metal3.BMCDetails{Address: "redfish://192.0.2.1/redfish/v1/Systems/1", CredentialsName: "worker-0-bmc"},
			ExternallyProvisioned: state == metal3.StateExternallyProvisioned,
		},
	}
	status := &host.Status
	status.Provisioning.State = state
	switch state {
	case metal3.StateNone, metal3.StateUnmanaged:
	default:
		status.Provisioning.ID = "7d52dadc-8b46-473f-a4a7-91da2f141dec"
		status.Ironic = &metal3.IronicStatus{NodeUUID: status.Provisioning.ID, ProvisionState: "available", PowerState: "power on"}
		status.PoweredOn = true
		status.Record.Observed = true
		if state != metal3.StateRegistering {
			status.Record.Registration = &metal3.Registration{Generation: host.Generation, Reason: metal3.RegisteredReason}
		}
	}
	if state == metal3.StateProvisioned {
		host.Spec.Image = &metal3.Image{URL: imageURL}
		status.Provisioning.Image = *host.Spec.Image
	}
	if state.RunsSomething() {
		status.Ironic.ProvisionState = "active"
	}
	if change != nil {
		change(host)
	}
	if state != metal3.StateNone {
		lifecycle.Render(host, gitopsNow)
	}
	return host
}

// TestGitOpsHosts has Argo CD and Flux judge hosts whose statuses are the server's own. The column kstatus is what Flux would conclude
// without our expressions, and docs/gitops.md says where that is wrong.
func TestGitOpsHosts(t *testing.T) {
	annotate := func(key, value string) func(*metal3.BareMetalHost) {
		return func(h *metal3.BareMetalHost) { h.Annotations[key] = value }
	}
	hold := func(h *metal3.BareMetalHost) {
		h.Status.Record.Hold = &metal3.Hold{Reason: metal3.AnotherDeploymentReason, Message: "something else runs"}
	}
	silence := func(h *metal3.BareMetalHost) {
		h.Status.Record.Silence = &metal3.Silence{Since: metav1.NewTime(gitopsNow), Reason: "connection refused"}
	}
	maintain := func(h *metal3.BareMetalHost) {
		h.Status.Ironic.Maintenance, h.Status.Ironic.MaintenanceReason = true, "a disk"
	}
	all := func(changes ...func(*metal3.BareMetalHost)) func(*metal3.BareMetalHost) {
		return func(h *metal3.BareMetalHost) {
			for _, change := range changes {
				change(h)
			}
		}
	}
	tests := []struct {
		name            string
		state           metal3.ProvisioningState
		change          func(*metal3.BareMetalHost)
		health, message string
		kstatus         string
	}{
		{"fresh", metal3.StateNone, nil, "Progressing", "In state new", "Current"},
		{"registering", metal3.StateRegistering, nil, "Progressing", "In state registering", "InProgress"},
		{"inspecting", metal3.StateInspecting, nil, "Progressing", "Inspecting", "InProgress"},
		{"preparing", metal3.StatePreparing, nil, "Progressing", "Preparing", "InProgress"},
		{"available", metal3.StateAvailable, nil, "Healthy", "In state available", "InProgress"},
		{"provisioning", metal3.StateProvisioning, nil, "Progressing", "Provisioning. Ironic: available", "InProgress"},
		{"provisioned", metal3.StateProvisioned, nil, "Healthy", "In state provisioned", "Current"},
		{"externally provisioned", metal3.StateExternallyProvisioned, nil, "Healthy", "In state externally provisioned", "Current"},
		{"deprovisioning", metal3.StateDeprovisioning, nil, "Progressing", "Deprovisioning", "InProgress"},
		{"deleting", metal3.StateDeleting, func(h *metal3.BareMetalHost) { h.DeletionTimestamp = &metav1.Time{Time: gitopsNow} }, "Progressing", "Pending deletion", "Terminating"},
		{"without a BMC", metal3.StateUnmanaged, func(h *metal3.BareMetalHost) {
			h.Spec.BMC = metal3.BMCDetails{}
			h.Status.OperationalStatus = metal3.OperationalStatusDiscovered
		}, "Healthy", "Has no BMC", "InProgress"},
		{"a BMC is added", metal3.StateUnmanaged, nil, "Progressing", "In state unmanaged", "InProgress"},

		{"BMC is silent", metal3.StateRegistering, func(h *metal3.BareMetalHost) {
			h.Status.Ironic.ProvisionState, h.Status.Ironic.LastError = "enroll", "the BMC does not answer"
		}, "Degraded", "registration error: ", "InProgress"},
		{"no Secret", metal3.StateRegistering, func(h *metal3.BareMetalHost) {
			h.Status.Record.Registration = &metal3.Registration{Generation: 3, Reason: metal3.SecretNotFoundReason, Message: "there is no Secret"}
		}, "Degraded", "registration error: there is no Secret", "InProgress"},
		{"deployment failed", metal3.StateProvisioning, func(h *metal3.BareMetalHost) {
			h.Status.Record.Failure = &metal3.Failure{Type: metal3.ProvisioningError, Message: "no disk"}
		}, "Degraded", "provisioning error: no disk", "InProgress"},
		{"power error", metal3.StateProvisioned, func(h *metal3.BareMetalHost) {
			h.Status.Record.Failure = &metal3.Failure{Type: metal3.PowerManagementError, Message: "refused"}
		}, "Degraded", "power management error: refused", "InProgress"},
		{"held", metal3.StateAvailable, hold, "Degraded", "something else runs", "InProgress"},
		{"held while provisioned", metal3.StateProvisioned, hold, "Degraded", "something else runs", "InProgress"},
		{"node lost", metal3.StateAvailable, func(h *metal3.BareMetalHost) {
			h.Status.Record.Registration = &metal3.Registration{Generation: 3, Reason: metal3.NodeLostReason}
		}, "Progressing", "not registered", "InProgress"},

		{"Ironic away", metal3.StateProvisioned, silence, "Unknown", "Ironic has not answered since", "Current"},
		{"Ironic away during an inspection", metal3.StateInspecting, silence, "Unknown", "Ironic has not answered since", "InProgress"},
		{"Ironic away, held", metal3.StateProvisioned, all(silence, hold), "Degraded", "something else runs", "InProgress"},

		{"paused", metal3.StateProvisioned, annotate(metal3.PausedAnnotation, ""), "Suspended", "in state provisioned", "Current"},
		{"paused, new image", metal3.StateProvisioned, all(annotate(metal3.PausedAnnotation, "x"), func(h *metal3.BareMetalHost) { h.Spec.Image.URL = otherImageURL }), "Suspended", "Paused", "Current"},
		{"paused with an error", metal3.StateAvailable, all(annotate(metal3.PausedAnnotation, ""), hold), "Suspended", "Paused", "InProgress"},
		{"paused before it was seen", metal3.StateNone, annotate(metal3.PausedAnnotation, ""), "Suspended", "in state new", "Current"},
		{"being moved", metal3.StateProvisioned, annotate(metal3.DeleteForMoveAnnotation, ""), "Suspended", "Paused", "Current"},
		{"detached", metal3.StateProvisioned, all(annotate(metal3.DetachedAnnotation, ""), func(h *metal3.BareMetalHost) {
			h.Status.OperationalStatus = metal3.OperationalStatusDetached
		}), "Suspended", "Detached", "InProgress"},
		{"to be attached", metal3.StateProvisioned, func(h *metal3.BareMetalHost) {
			h.Status.OperationalStatus = metal3.OperationalStatusDetached
		}, "Progressing", "being attached", "InProgress"},
		{"in maintenance", metal3.StateProvisioned, maintain, "Suspended", "Somebody has set the node to maintenance", "Current"},
		{"kept off", metal3.StateProvisioned, all(annotate(metal3.RebootAnnotationPrefix+"fence", ""), func(h *metal3.BareMetalHost) {
			h.Status.Ironic.PowerState, h.Status.PoweredOn = "power off", false
		}), "Suspended", "reboot.metal3.io/fence", "Current"},

		{"delayed", metal3.StateRegistering, func(h *metal3.BareMetalHost) {
			h.Status.OperationalStatus = metal3.OperationalStatusDelayed
		}, "Progressing", "provisioning limit", "InProgress"},
		{"servicing", metal3.StateProvisioned, func(h *metal3.BareMetalHost) { h.Status.Ironic.ProvisionState = "servicing" }, "Progressing", "are being changed", "InProgress"},
		{"off that is to be on", metal3.StateProvisioned, func(h *metal3.BareMetalHost) {
			h.Status.Ironic.PowerState, h.Status.PoweredOn = "power off", false
		}, "Progressing", "Is to be switched on", "Current"},
		{"a reboot without a key", metal3.StateProvisioned, all(annotate(metal3.RebootAnnotation, ""), func(h *metal3.BareMetalHost) {
			h.Status.Ironic.PowerState, h.Status.PoweredOn = "power off", false
		}), "Progressing", "Is to be switched on", "Current"},
		{"off", metal3.StateAvailable, func(h *metal3.BareMetalHost) {
			h.Spec.Online, h.Status.Ironic.PowerState, h.Status.PoweredOn = false, "power off", false
		}, "Healthy", "In state available", "InProgress"},

		// A read between the write of a spec and what comes of it. kstatus takes the old state for the new one.
		{"new spec", metal3.StateProvisioned, func(h *metal3.BareMetalHost) { h.Generation++ }, "Progressing", "not registered according to its spec yet", "Current"},
		{"new spec, registered: another image", metal3.StateProvisioned, func(h *metal3.BareMetalHost) { h.Spec.Image.URL = otherImageURL }, "Progressing", "Is to be deprovisioned", "Current"},
		{"new spec, registered: no image", metal3.StateProvisioned, func(h *metal3.BareMetalHost) { h.Spec.Image = nil }, "Progressing", "Is to be deprovisioned", "Current"},
		{"new spec, registered: no procedure", metal3.StateProvisioned, func(h *metal3.BareMetalHost) {
			h.Status.Provisioning.CustomDeploy = &metal3.CustomDeploy{Method: "install"}
		}, "Progressing", "Is to be deprovisioned", "Current"},
		{"new spec, registered: an image", metal3.StateAvailable, func(h *metal3.BareMetalHost) { h.Spec.Image = &metal3.Image{URL: imageURL} }, "Progressing", "Is to be provisioned", "InProgress"},
		{"new spec, registered: a procedure", metal3.StateAvailable, func(h *metal3.BareMetalHost) { h.Spec.CustomDeploy = &metal3.CustomDeploy{Method: "install"} }, "Progressing", "Is to be provisioned", "InProgress"},
		{"an image, but off", metal3.StateAvailable, func(h *metal3.BareMetalHost) {
			h.Spec.Image, h.Spec.Online, h.Status.Ironic.PowerState = &metal3.Image{URL: imageURL}, false, "power off"
		}, "Healthy", "In state available", "InProgress"},
		{"new spec, registered: external", metal3.StateAvailable, func(h *metal3.BareMetalHost) { h.Spec.ExternallyProvisioned = true }, "Progressing", "become externally provisioned", "InProgress"},
		{"new spec, registered: no longer external", metal3.StateExternallyProvisioned, func(h *metal3.BareMetalHost) { h.Spec.ExternallyProvisioned = false }, "Progressing", "become provisioned", "Current"},
		{"runs a procedure, and is to be external", metal3.StateProvisioned, func(h *metal3.BareMetalHost) {
			h.Spec.Image, h.Status.Provisioning.Image, h.Spec.ExternallyProvisioned = nil, metal3.Image{}, true
			h.Spec.CustomDeploy, h.Status.Provisioning.CustomDeploy = &metal3.CustomDeploy{Method: "install"}, &metal3.CustomDeploy{Method: "install"}
		}, "Healthy", "In state provisioned", "Current"},
		{"runs nothing known, and is to be external", metal3.StateProvisioned, func(h *metal3.BareMetalHost) {
			h.Spec.Image, h.Status.Provisioning.Image, h.Spec.ExternallyProvisioned = nil, metal3.Image{}, true
		}, "Progressing", "become externally provisioned", "Current"},
		{"deployed by somebody else, and taken over", metal3.StateProvisioned, func(h *metal3.BareMetalHost) {
			h.Spec.Image, h.Status.Provisioning.Image = nil, metal3.Image{}
		}, "Healthy", "In state provisioned", "Current"},

		{"wrong switch port", metal3.StateProvisioned, func(h *metal3.BareMetalHost) {
			h.Status.Record.Network = &metal3.NetworkVerdict{Generation: 3, Reason: metal3.AttachmentNotFoundReason, Message: "no attachment"}
		}, "Degraded", "Switch ports: no attachment", "Current"},
		{"warning of the machine", metal3.StateProvisioned, func(h *metal3.BareMetalHost) { h.Status.Record.Health = "Warning" }, "Healthy", "warning", "Current"},
		{"like another machine", metal3.StateProvisioned, func(h *metal3.BareMetalHost) { h.Status.Record.Resembles = "has the serial number of another" }, "Healthy", "serial number", "Current"},
	}
	var objs []runtime.Object
	for _, test := range tests {
		objs = append(objs, gitopsHost(test.state, test.change))
	}
	for i, got := range gitopsVerdicts(t, objs...) {
		test := tests[i]
		if got.Health != test.health || !strings.Contains(got.Message, test.message) {
			t.Errorf("%s: Argo CD says %s (%s), want %s (%s)", test.name, got.Health, got.Message, test.health, test.message)
		}
		if got.Flux != fluxOf[test.health] {
			t.Errorf("%s: Flux says %s, want %s", test.name, got.Flux, fluxOf[test.health])
		}
		if got.Kstatus != test.kstatus {
			t.Errorf("%s: kstatus says %s, want %s", test.name, got.Kstatus, test.kstatus)
		}
	}

	// The exception: a defect of the hardware does not keep Flux from applying other things.
	critical := gitopsHost(metal3.StateProvisioned, func(h *metal3.BareMetalHost) { h.Status.Record.Health = "Critical" })
	if got := gitopsVerdicts(t, critical)[0]; got.Health != "Degraded" || got.Flux != "Current" {
		t.Errorf("critical health: %+v", got)
	}
}

// TestGitOpsAgree: the script for Argo CD and the expressions for Flux judge any host alike, and what is said to be done is.
func TestGitOpsAgree(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	often := func() bool { return random.IntN(3) == 0 }
	rarely := func() bool { return random.IntN(8) == 0 }
	states := []metal3.ProvisioningState{
		metal3.StateNone, metal3.StateUnmanaged, metal3.StateRegistering, metal3.StateInspecting, metal3.StatePreparing, metal3.StateProvisioning, metal3.StateDeprovisioning,
		metal3.StateAvailable, metal3.StateAvailable, metal3.StateProvisioned, metal3.StateProvisioned, metal3.StateExternallyProvisioned,
	}
	var hosts []*metal3.BareMetalHost
	var objs []runtime.Object
	for range 2000 {
		host := gitopsHost(states[random.IntN(len(states))], func(h *metal3.BareMetalHost) {
			change := func(do bool, change func()) {
				if do {
					change()
				}
			}
			record := &h.Status.Record
			change(rarely(), func() { h.Generation++ })
			change(rarely(), func() { h.Spec.BMC = metal3.BMCDetails{} })
			change(rarely(), func() { h.DeletionTimestamp = &metav1.Time{Time: gitopsNow} })
			change(rarely(), func() { h.Annotations[metal3.PausedAnnotation] = "" })
			change(rarely(), func() { h.Annotations[metal3.DetachedAnnotation] = "" })
			change(rarely(), func() { h.Annotations[metal3.RebootAnnotationPrefix+"a"] = "" })
			change(rarely(), func() { h.Annotations[metal3.RebootAnnotation] = "" })
			change(often(), func() { h.Annotations["zone.example.com/rack"] = "7" })
			change(rarely(), func() { h.Annotations = nil })
			change(rarely(), func() { h.Status.OperationalStatus = metal3.OperationalStatusDetached })
			change(rarely(), func() { h.Status.OperationalStatus = metal3.OperationalStatusDelayed })
			change(often(), func() { h.Spec.Online = false })
			change(often(), func() { h.Spec.Image = &metal3.Image{URL: otherImageURL} })
			change(rarely(), func() { h.Spec.Image = nil })
			change(rarely(), func() { h.Status.Provisioning.Image = metal3.Image{} })
			change(rarely(), func() { h.Spec.CustomDeploy = &metal3.CustomDeploy{Method: "install"} })
			change(rarely() && h.Status.Provisioning.State == metal3.StateProvisioned, func() { h.Status.Provisioning.CustomDeploy = &metal3.CustomDeploy{Method: "install"} })
			change(rarely(), func() { h.Spec.ExternallyProvisioned = !h.Spec.ExternallyProvisioned })
			change(rarely(), func() { record.Hold = &metal3.Hold{Reason: metal3.AnotherBMCReason, Message: "m"} })
			change(rarely(), func() { record.Failure = &metal3.Failure{Type: metal3.PowerManagementError, Message: "m"} })
			change(rarely(), func() { record.Silence = &metal3.Silence{Since: metav1.NewTime(gitopsNow), Reason: "r"} })
			change(rarely() && record.Registration != nil, func() { record.Registration.Reason = metal3.NodeLostReason })
			change(rarely(), func() {
				record.Network = &metal3.NetworkVerdict{Generation: int64(random.IntN(2)) + 3, Reason: metal3.AttachmentNotFoundReason, Message: "m"}
			})
			change(rarely(), func() {
				record.Network = &metal3.NetworkVerdict{Generation: 3, Reason: metal3.InspectionIncompleteReason, Message: "m"}
			})
			if node := h.Status.Ironic; node != nil {
				change(often(), func() { node.PowerState = "power off" })
				change(rarely(), func() { node.PowerState = "" })
				change(rarely(), func() { node.Maintenance = true })
				change(rarely(), func() { node.ProvisionState = "service wait" })
			}
		})
		hosts, objs = append(hosts, host), append(objs, host)
	}
	seen := map[string]int{}
	for i, got := range gitopsVerdicts(t, objs...) {
		host := hosts[i]
		seen[got.Health]++
		if want := fluxOf[got.Health]; got.Flux != want {
			t.Errorf("Argo CD says %s (%s), Flux %s, want %s, of %s", got.Health, got.Message, got.Flux, want, inYAML(host))
		}
		if got.Health != "Healthy" {
			continue
		}
		switch host.Status.Provisioning.State {
		case metal3.StateProvisioned:
			if deploy.Deployed(host) && deploy.MustDeprovision(host) {
				t.Errorf("a host that is to be deprovisioned is healthy: %s", inYAML(host))
			}
		case metal3.StateAvailable:
			if deploy.WantsImage(&host.Spec) && host.Spec.Online {
				t.Errorf("a host that is to be provisioned is healthy: %s", inYAML(host))
			}
		case metal3.StateExternallyProvisioned:
		case metal3.StateUnmanaged:
			if host.HasBMCDetails() {
				t.Errorf("a host that is to be registered is healthy: %s", inYAML(host))
			}
		default:
			t.Errorf("healthy in state %q: %s", host.Status.Provisioning.State, inYAML(host))
		}
	}
	for health := range fluxOf {
		if seen[health] < 25 {
			t.Errorf("only %d of the hosts are %s", seen[health], health)
		}
	}
}

func inYAML(obj any) string {
	text, err := yaml.Marshal(obj)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// TestGitOpsKinds has Argo CD and Flux judge the other kinds that have a status.
func TestGitOpsKinds(t *testing.T) {
	meta := func(kind string, annotations ...string) (metav1.TypeMeta, metav1.ObjectMeta) {
		object := metav1.ObjectMeta{Namespace: "metal3", Name: "worker-0", Generation: 2}
		for _, key := range annotations {
			metav1.SetMetaDataAnnotation(&object, key, "")
		}
		return metav1.TypeMeta{APIVersion: metal3.SchemeGroupVersion.String(), Kind: kind}, object
	}
	condition := func(kind, status, reason string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: metav1.ConditionStatus(status), Reason: reason, Message: "m", ObservedGeneration: 2}
	}
	claim := func(spec metal3.HostClaimSpec, conditions ...metav1.Condition) *metal3.HostClaim {
		c := &metal3.HostClaim{Spec: spec, Status: metal3.HostClaimStatus{Conditions: conditions}}
		c.TypeMeta, c.ObjectMeta = meta("HostClaim")
		return c
	}
	image := metal3.HostClaimSpec{PoweredOn: true, Image: &metal3.Image{URL: imageURL}}
	associated := condition(hostclaim.AssociatedCondition, "True", hostclaim.BareMetalHostAssociatedReason)
	synchronized := condition(hostclaim.SynchronizedCondition, "True", hostclaim.ConfigurationSyncedReason)
	notReady := condition(metal3.ReadyCondition, "False", hostclaim.IssuesReportedReason)
	before := func(c metav1.Condition) metav1.Condition { c.ObservedGeneration = 1; return c }
	dataImage := func(attached, problem string, annotations ...string) *metal3.DataImage {
		d := &metal3.DataImage{Spec: metal3.DataImageSpec{URL: "http://images.example.com/a.iso"}, Status: metal3.DataImageStatus{
			AttachedImage: metal3.AttachedImageReference{URL: attached}, Error: metal3.DataImageError{Message: problem},
		}}
		d.TypeMeta, d.ObjectMeta = meta("DataImage", annotations...)
		return d
	}
	subscription := func(id, problem string, annotations ...string) *metal3.BMCEventSubscription {
		s := &metal3.BMCEventSubscription{Status: metal3.BMCEventSubscriptionStatus{SubscriptionID: id, Error: problem}}
		s.TypeMeta, s.ObjectMeta = meta("BMCEventSubscription", annotations...)
		return s
	}
	bios := func(wanted metal3.DesiredSettingsMap, conditions ...metav1.Condition) *metal3.HostFirmwareSettings {
		s := &metal3.HostFirmwareSettings{Spec: metal3.HostFirmwareSettingsSpec{Settings: wanted}, Status: metal3.HostFirmwareSettingsStatus{Conditions: conditions}}
		s.TypeMeta, s.ObjectMeta = meta("HostFirmwareSettings")
		return s
	}
	firmware := func(updates []metal3.FirmwareUpdate, conditions ...metav1.Condition) *metal3.HostFirmwareComponents {
		c := &metal3.HostFirmwareComponents{Spec: metal3.HostFirmwareComponentsSpec{Updates: updates}, Status: metal3.HostFirmwareComponentsStatus{Conditions: conditions}}
		c.TypeMeta, c.ObjectMeta = meta("HostFirmwareComponents")
		return c
	}
	valid, invalid := condition(settings.ValidCondition, "True", "Success"), condition(settings.ValidCondition, "False", "ConfigurationError")
	same, changed := condition(settings.ChangeDetectedCondition, "False", "Success"), condition(settings.ChangeDetectedCondition, "True", "Success")
	unread := condition(settings.UpToDateCondition, "False", "NotGiven")
	boot, update := metal3.DesiredSettingsMap{"Boot": {StrVal: "a", Type: 1}}, []metal3.FirmwareUpdate{{Component: "bios", URL: "http://images.example.com/bios"}}
	device := func(conditions ...metav1.Condition) *metal3.BareMetalSwitch {
		s := &metal3.BareMetalSwitch{Status: metal3.BareMetalSwitchStatus{Conditions: conditions}}
		s.TypeMeta, s.ObjectMeta = meta("BareMetalSwitch")
		return s
	}
	tests := []struct {
		name, health, kstatus string
		obj                   runtime.Object
	}{
		{"new claim", "Progressing", "Current", claim(image)},
		{"claim without a host", "Progressing", "InProgress", claim(image, condition(hostclaim.AssociatedCondition, "False", hostclaim.NoBareMetalHostReason), notReady)},
		{"claim whose host is gone", "Degraded", "InProgress", claim(image, condition(hostclaim.AssociatedCondition, "False", hostclaim.MissingBareMetalHostReason), notReady)},
		{"claim whose Secret is missing", "Degraded", "InProgress", claim(image, associated, condition(hostclaim.SynchronizedCondition, "False", hostclaim.UserDataSecretSyncFailureReason), condition(metal3.ProvisionedCondition, "False", metal3.AvailableReason), notReady)},
		{"claim whose host is paused", "Suspended", "InProgress", claim(image, associated, condition(hostclaim.SynchronizedCondition, "False", hostclaim.HostPausedReason), condition(metal3.ProvisionedCondition, "False", metal3.ErrorReason), notReady)},
		{"claim that is being provisioned", "Progressing", "InProgress", claim(image, associated, synchronized, condition(metal3.ProvisionedCondition, "False", metal3.ProvisioningReason), notReady)},
		{"claim whose host has an error", "Degraded", "InProgress", claim(image, associated, synchronized, condition(metal3.ProvisionedCondition, "False", metal3.ErrorReason), notReady)},
		{"claim that is ready", "Healthy", "Current", claim(image, associated, synchronized, condition(metal3.ProvisionedCondition, "True", metal3.ProvisionedReason), condition(metal3.ReadyCondition, "True", hostclaim.InfoReportedReason))},
		{"claim with another spec", "Progressing", "Current", claim(image, before(associated), before(synchronized), before(condition(metal3.ReadyCondition, "True", hostclaim.InfoReportedReason)))},
		{"claim that asks for nothing", "Healthy", "InProgress", claim(metal3.HostClaimSpec{}, associated, synchronized, condition(metal3.ProvisionedCondition, "False", metal3.AvailableReason), notReady)},
		{"claim whose host is to be provisioned", "Progressing", "InProgress", claim(image, associated, synchronized, condition(metal3.ProvisionedCondition, "False", metal3.AvailableReason), notReady)},

		{"image in the drive", "Healthy", "Current", dataImage("http://images.example.com/a.iso", "")},
		{"image that waits", "Suspended", "Current", dataImage("", "")},
		{"image that fails", "Degraded", "Current", dataImage("", "no drive")},
		{"image that is paused", "Suspended", "Current", dataImage("", "no drive", metal3.PausedAnnotation)},

		{"new subscription", "Progressing", "Current", subscription("", "")},
		{"subscription", "Healthy", "Current", subscription("7", "")},
		{"subscription that fails", "Degraded", "Current", subscription("", "refused")},
		{"subscription that is paused", "Suspended", "Current", subscription("", "", metal3.PausedAnnotation)},

		{"no settings", "Healthy", "Current", bios(nil)},
		{"settings that were not read", "Progressing", "Current", bios(boot)},
		{"settings of the machine", "Healthy", "Current", bios(boot, valid, same)},
		{"settings that wait", "Suspended", "Current", bios(boot, valid, changed)},
		{"settings that it does not have", "Degraded", "Current", bios(boot, invalid, changed)},
		{"settings of before", "Progressing", "Current", bios(boot, before(invalid), before(changed))},
		{"settings that cannot be read", "Degraded", "Current", bios(boot, valid, same, unread)},
		{"no updates", "Healthy", "Current", firmware(nil)},
		{"firmware that was not read", "Progressing", "Current", firmware(update)},
		{"firmware of the machine", "Healthy", "Current", firmware(update, valid, same)},
		{"updates that wait", "Suspended", "Current", firmware(update, valid, changed)},
		{"updates that it does not know", "Degraded", "Current", firmware(update, invalid, changed)},
		{"firmware that cannot be read", "Degraded", "Current", firmware(update, unread)},

		{"switch", "Healthy", "Current", device(condition(networkswitch.ValidCondition, "True", networkswitch.ReconciledReason))},
		{"switch of a server that configures none", "Healthy", "Current", device()},
		{"wrong switch", "Degraded", "Current", device(condition(networkswitch.ValidCondition, "False", networkswitch.CredentialErrorReason))},
	}
	var objs []runtime.Object
	for _, test := range tests {
		objs = append(objs, test.obj)
	}
	for i, got := range gitopsVerdicts(t, objs...) {
		if test := tests[i]; got.Health != test.health || got.Flux != fluxOf[test.health] || got.Kstatus != test.kstatus {
			t.Errorf("%s: %+v, want %s, %s, %s", test.name, got, test.health, fluxOf[test.health], test.kstatus)
		}
	}
}

// TestGitOpsIronicInstance: Flux judges IronicInstances. Argo CD, which watches, sees no status of them.
func TestGitOpsIronicInstance(t *testing.T) {
	for _, test := range []struct{ accepted, acceptedReason, reachable, reachableReason, want string }{
		{"", "", "", "", "InProgress"},
		{"True", ironicv1alpha1.AcceptedReason, "True", ironicv1alpha1.AnswersReason, "Current"},
		{"True", ironicv1alpha1.AcceptedReason, "False", ironicv1alpha1.UnreachableReason, "InProgress"},
		{"True", ironicv1alpha1.AcceptedReason, "False", ironicv1alpha1.RefusedReason, "Failed"},
		{"False", ironicv1alpha1.NotKnownYetReason, "Unknown", ironicv1alpha1.NotAcceptedReason, "InProgress"},
		{"False", ironicv1alpha1.IronicNotReadyReason, "Unknown", ironicv1alpha1.NotAcceptedReason, "InProgress"},
		{"False", ironicv1alpha1.SameEndpointReason, "Unknown", ironicv1alpha1.NotAcceptedReason, "Failed"},
	} {
		instance := &ironicv1alpha1.IronicInstance{
			TypeMeta:   metav1.TypeMeta{APIVersion: ironicv1alpha1.SchemeGroupVersion.String(), Kind: "IronicInstance"},
			ObjectMeta: metav1.ObjectMeta{Name: "room-b", Generation: 1},
		}
		if test.accepted != "" {
			instance.Status.Conditions = []metav1.Condition{
				{Type: ironicv1alpha1.IronicInstanceAccepted, Status: metav1.ConditionStatus(test.accepted), Reason: test.acceptedReason},
				{Type: ironicv1alpha1.IronicInstanceReachable, Status: metav1.ConditionStatus(test.reachable), Reason: test.reachableReason},
			}
		}
		if got := gitopsVerdicts(t, instance)[0]; got.Flux != test.want || got.Health != "" || got.Kstatus != "Current" {
			t.Errorf("%+v: %+v", test, got)
		}
	}
}

// TestGitOpsComponents uses both components as users do.
func TestGitOpsComponents(t *testing.T) {
	kubectl, err := filepath.Abs("../bin/kubectl")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(kubectl); err != nil {
		skipWithout(t, "%v: build it with hack/tools/build.sh kubectl", err)
	}
	folder := t.TempDir()
	if err := os.CopyFS(filepath.Join(folder, "gitops"), os.DirFS("gitops")); err != nil {
		t.Fatal(err)
	}
	render := func(t *testing.T, component, base string) map[string]any {
		t.Helper()
		site := filepath.Join(folder, "site-"+component)
		if err := os.Mkdir(site, 0o700); err != nil {
			t.Fatal(err)
		}
		for name, content := range map[string]string{
			"base.yaml":          base,
			"kustomization.yaml": "resources: [base.yaml]\ncomponents: [../gitops/" + component + "]\n",
		} {
			if err := os.WriteFile(filepath.Join(site, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		out, err := exec.CommandContext(t.Context(), kubectl, "kustomize", site).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		var rendered map[string]any
		if err := yaml.Unmarshal(out, &rendered); err != nil {
			t.Fatal(err)
		}
		return rendered
	}
	shipped := func(t *testing.T, path string) map[string]any {
		t.Helper()
		var content map[string]any
		if err := yaml.Unmarshal([]byte(readDoc(t, path)), &content); err != nil {
			t.Fatal(err)
		}
		return content
	}
	t.Run("argocd", func(t *testing.T) {
		got := render(t, "argocd", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: argocd-cm, namespace: argocd}\ndata: {admin.enabled: \"true\"}\n")["data"].(map[string]any)
		want := shipped(t, argocdChecks)["data"].(map[string]any)
		want["admin.enabled"] = "true"
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("flux", func(t *testing.T) {
		base := "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: hosts, namespace: flux-system}\nspec: {path: ./hosts, wait: true}\n"
		got := render(t, "flux", base)
		if name := got["metadata"].(map[string]any)["name"]; name != "hosts" {
			t.Errorf("the name is now %v", name)
		}
		want := shipped(t, fluxChecks)["spec"].(map[string]any)
		want["path"], want["wait"] = "./hosts", true
		if diff := cmp.Diff(want, got["spec"]); diff != "" {
			t.Error(diff)
		}
	})
}
