// SPDX-License-Identifier: Apache-2.0

package why

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
)

const confirmation = "Before you confirm anything, look at the machine, and make the spec say what it runs: the server then treats the machine as the spec asks, and if that has no image, its disks may be erased. " +
	"A takeover shows what follows, and asks. It takes the role metal3-baremetalhosts-takeover."

// TestEachReasonIsExplained: for each reason for which a host can be stuck, the explanation
// quotes the message and says what would help.
func TestEachReasonIsExplained(t *testing.T) {
	for conditionType, c := range map[string]struct {
		status  metav1.ConditionStatus
		reasons []string
	}{
		metal3.HeldCondition: {metav1.ConditionTrue, append(lifecycle.HoldReasons(), "OneOfTheFuture")},

		metal3.RegisteredCondition: {metav1.ConditionFalse, []string{
			metal3.SecretNotFoundReason, metal3.SecretIncompleteReason, metal3.NetworkDataUnusableReason, metal3.InvalidAddressReason, metal3.AddressNotAllowedReason, metal3.IronicRefusedReason,
			metal3.PortConflictReason, metal3.BMCInUseReason, metal3.RequestFailedReason, metal3.NamespaceNotManagedReason, metal3.NoIronicReason,
		}},
		metal3.StepFailedCondition: {metav1.ConditionTrue, []string{
			metal3.InspectionErrorReason, metal3.PreparationErrorReason, metal3.ProvisioningErrorReason, metal3.PowerManagementErrorReason,
			metal3.ProvisionedRegistrationErrorReason, metal3.ServicingErrorReason, metal3.DetachErrorReason, metal3.CallbackTimeoutReason, metal3.RequestFailedReason,
		}},
	} {
		for _, reason := range c.reasons {
			t.Run(conditionType+" "+reason, func(t *testing.T) {
				h := host(metal3.StateProvisioning, condition(conditionType, c.status, reason, "the message"))
				got := Explain(Facts{Host: h}, now)
				if len(got) < 3 || !strings.Contains(got[1], "for 2m") || !strings.Contains(got[1], "the message") {
					t.Errorf("not explained: %q", got)
				}
				if slices.ContainsFunc(got, func(p string) bool { return strings.Contains(p, "Nothing is wrong") }) {
					t.Errorf("it says that nothing is wrong: %q", got)
				}
			})
		}
	}
}

// TestRemedyOfAHold: a reason has several causes, each with a remedy that only the server's message has. It is said in commands of the
// plugin, and nothing that does not fit the cause is added.
func TestRemedyOfAHold(t *testing.T) {
	const takeover, detach = "`kubectl bmh takeover worker-0 -n metal3`", `kubectl annotate bmh worker-0 -n metal3 baremetalhost.metal3.io/detached='{"force":true}'`
	for name, c := range map[string]struct {
		reason, message string
		change          func(*metal3.BareMetalHost)
		want, not       []string
	}{
		"another Ironic is away": {
			reason: metal3.BMCInUseReason, message: "Have them answer (kubectl get ironicinstances), or confirm node the-uuid with the subresource takeover",
			want: []string{"Have them answer (kubectl get ironicinstances), or confirm node the-uuid with " + takeover + ".", confirmation}, not: []string{"elete", detach},
		},
		"another host is of the machine": {
			reason: metal3.BMCInUseReason, message: "If they are different machines, confirm that with the subresource takeover, once for both. If they are one, detach the host that is wrong, and delete it then",
			change: func(h *metal3.BareMetalHost) { h.Status.Record.Hold = &metal3.Hold{Other: "other"} },
			want:   []string{"confirm that with " + takeover + ", once for both. If they are one, detach", detach, "only that they are two machines"}, not: []string{confirmation},
		},
		"reserved": {
			reason: metal3.AnotherDeploymentReason, message: "Have its user release it, or remove its instance_uuid in Ironic; to have it treated as this host's, confirm it with the subresource takeover",
			want: []string{"Have its user release it, or remove its instance_uuid in Ironic", takeover, confirmation}, not: []string{"has deployed", detach},
		},
		"detached already": {
			reason: metal3.AnotherDeploymentReason, message: "To leave it alone, detach the host",
			change: func(h *metal3.BareMetalHost) { h.Annotations = map[string]string{metal3.DetachedAnnotation: ""} },
			want:   []string{"To leave it alone, detach the host"}, not: []string{detach, confirmation},
		},
		"gone, externally provisioned": {
			reason: metal3.DeploymentGoneReason, message: "If it runs this host's deployment all the same, confirm the node with the subresource takeover",
			want: []string{"confirm the node with " + takeover, "history list the-uuid", confirmation}, not: []string{"rebuild", "remove the image"},
		},
		"gone, which is not detached": {
			reason: metal3.DeploymentGoneReason, message: "It cannot be detached", not: []string{detach},
		},
		"another cluster": {
			reason: metal3.NodeOfAnotherClusterReason, message: "If that cluster does not manage the machine any more, confirm the node with the subresource takeover",
			want: []string{"delete this host, which leaves machine and node as they are", "its disks would be erased", "kubectl bmh takeover --all -n metal3", takeover},
		},
		"maintenance": {
			reason: metal3.NodeInMaintenanceReason, message: "End the maintenance; or detach the host",
			want: []string{"To end the maintenance: kubectl bmh maintenance off worker-0 -n metal3. If this server has provisioned the host, it is undeployed and cleaned then.", detach},
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := host(metal3.StateProvisioned, condition(metal3.HeldCondition, metav1.ConditionTrue, c.reason, c.message))
			if c.change != nil {
				c.change(h)
			}
			got := strings.Join(Explain(Facts{Host: h}, now), "\n")
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("%q is not in:\n%s", want, got)
				}
			}
			for _, not := range c.not {
				if strings.Contains(got, not) {
					t.Errorf("%q is in:\n%s", not, got)
				}
			}
			if strings.Contains(got, "the subresource") {
				t.Errorf("clients of the API are meant:\n%s", got)
			}
		})
	}
}

// TestRefusedSecretIsExplained: whether a right is missing or a policy is in the way, the one who can help is told what to do.
func TestRefusedSecretIsExplained(t *testing.T) {
	for message, want := range map[string]string{
		`releasing Secret metal3/bmc: metal3-apiserver has no right to patch Secrets in namespace "metal3". kube-apiserver: User "x" cannot patch resource "secrets" in API group ""`: "kubectl create clusterrolebinding metal3-apiserver-secrets",
		`claiming Secret metal3/bmc: the admission of the cluster does not let metal3-apiserver change Secret "bmc"`:                                                                  "exempt the server's service account",
		"HTTP 500": "look at the log of Ironic",
	} {
		for conditionType, status := range map[string]metav1.ConditionStatus{metal3.RegisteredCondition: metav1.ConditionFalse, metal3.StepFailedCondition: metav1.ConditionTrue} {
			h := host(metal3.StateDeleting, condition(conditionType, status, metal3.RequestFailedReason, message))
			if got := strings.Join(Explain(Facts{Host: h}, now), "\n"); !strings.Contains(got, want) || !strings.Contains(got, "repeated every half a minute") {
				t.Errorf("%s: %q", conditionType, got)
			}
		}
	}
}

// TestAskedWithoutAnswer: what Ironic may still do is told.
func TestAskedWithoutAnswer(t *testing.T) {
	h := host(metal3.StateDeprovisioning)
	h.Status.Ironic = &metal3.IronicStatus{ProvisionState: "active"}
	h.Status.Record.Asked = &metal3.AskedChange{Target: "deleted", ProvisionState: "active", At: metav1.NewTime(now.Add(-40 * time.Second)), Times: 1}
	if got := strings.Join(Explain(Facts{Host: h}, now), "\n"); !strings.Contains(got, "asked to make the node run nothing any more 40s ago") || !strings.Contains(got, "is begun for another 3m20s.") {
		t.Error(got)
	}
	gone := h.DeepCopy()
	gone.DeletionTimestamp = &metav1.Time{Time: now}
	if got := strings.Join(Explain(Facts{Host: gone}, now), "\n"); !strings.Contains(got, "asked to make the node run nothing any more") {
		t.Errorf("deleted: %s", got)
	}
	h.Status.Ironic.ProvisionState = "deleting"
	if got := strings.Join(Explain(Facts{Host: h}, now), "\n"); strings.Contains(got, "asked to make") {
		t.Error(got)
	}
	h.Status.Record.Asked.Times = 2
	if got := strings.Join(Explain(Facts{Host: h}, now), "\n"); !strings.Contains(got, "is begun for another 3m20s.") {
		t.Errorf("asked twice: %s", got)
	}
}

// TestPowerAskedWithoutAnswer: a machine that is not switched on, because its power could be cut at once, says so.
func TestPowerAskedWithoutAnswer(t *testing.T) {
	const told = `Ironic was asked for "power off" 40s ago, and has not been seen to do it. It still may, so the machine is not switched on for another 3m20s.`
	h := host(metal3.StateProvisioned, ironic("active"))
	h.Status.PoweredOn = false
	h.Status.Record.AskedPower = &metal3.AskedPower{Target: "power off", At: metav1.NewTime(now.Add(-40 * time.Second)), Times: 1}
	if got := strings.Join(Explain(Facts{Host: h}, now), "\n"); !strings.Contains(got, told) {
		t.Error(got)
	}
	h.Spec.Online = false
	if got := strings.Join(Explain(Facts{Host: h}, now), "\n"); strings.Contains(got, "was asked for") {
		t.Error(got)
	}
}

// TestFencedButNotShown: who waits for a fenced machine to be shown as off is told what that waits for.
func TestFencedButNotShown(t *testing.T) {
	const told = `Ironic was asked to switch it on 40s ago, and has not answered. It still may, for another 3m20s.`
	h := host(metal3.StateProvisioned, ironic("active"))
	h.Spec.Online, h.Status.PoweredOn, h.Status.Ironic.PowerState = false, true, "power off"
	h.Status.Record.PowerOns = []metal3.PowerOn{{ID: "1", At: metav1.NewTime(now.Add(-40 * time.Second))}}
	if got := strings.Join(Explain(Facts{Host: h}, now), "\n"); !strings.Contains(got, told) {
		t.Error(got)
	}
	h.Status.PoweredOn = false
	if got := strings.Join(Explain(Facts{Host: h}, now), "\n"); strings.Contains(got, "was asked to") {
		t.Error(got)
	}

	h.Status.PoweredOn, h.Status.Record.PowerOns, h.Status.Ironic.ProvisionState = true, nil, "service wait"
	if got := strings.Join(Explain(Facts{Host: h}, now), "\n"); !strings.Contains(got, "The machine is off, and not shown so: Ironic changes its settings") {
		t.Error(got)
	}
	h.Status.Ironic.ProvisionState, h.Status.Record.Deployment = "deploying", &metal3.Deployment{Rebuild: &metal3.Rebuild{}}
	if got := strings.Join(Explain(Facts{Host: h}, now), "\n"); !strings.Contains(got, "The machine is off, and not shown so: Ironic writes its image again") {
		t.Error(got)
	}
}

// TestClocksDiffer: times in the future do not give negative durations.
func TestClocksDiffer(t *testing.T) {
	got := Explain(Facts{Host: host(metal3.StateAvailable)}, now.Add(-time.Hour))
	if !strings.Contains(got[0], "for 0s") {
		t.Error(got[0])
	}
}

// TestRefusalHelp: what would help depends on what Ironic refuses.
func TestRefusalHelp(t *testing.T) {
	for message, want := range map[string]string{
		"Ironic rejects spec.bootMACAddress 00:16:3e:00:00:01 as that of a port: no":                     "spec.bootMACAddress cannot be changed",
		"Could not find the following driver(s) or hardware type(s): redfish.":                           "enabled_hardware_types",
		"Expected a MAC address but received 21:00:00:16:3e:aa:bb:01.":                                   "Ironic does not accept",
		"No valid host was found. Reason: No conductor service registered which supports driver redfish": "have its driver enabled",
	} {
		h := host(metal3.StateRegistering, condition(metal3.RegisteredCondition, metav1.ConditionFalse, metal3.IronicRefusedReason, message))
		got := strings.Join(Explain(Facts{Host: h}, now), "\n")
		if !strings.Contains(got, want) || strings.Contains(got, "enabled_hardware_types") != (want == "enabled_hardware_types") {
			t.Errorf("%s: explained as %s", message, got)
		}
	}
}

// TestNobodyIsToldToEraseDisks: who has to replace a host is told to delete only what runs nothing as it is.
func TestNobodyIsToldToEraseDisks(t *testing.T) {
	for _, c := range []struct{ reason, message string }{
		{metal3.PortConflictReason, "taken"}, {metal3.BMCInUseReason, "the same BMC"}, {metal3.IronicRefusedReason, "Ironic rejects spec.bootMACAddress x"},
	} {
		for _, state := range []metal3.ProvisioningState{metal3.StateProvisioned, metal3.StateExternallyProvisioned} {
			h := host(state, condition(metal3.RegisteredCondition, metav1.ConditionFalse, c.reason, c.message))
			got := strings.Join(Explain(Facts{Host: h}, now), "\n")
			if !strings.Contains(got, "detach") || !strings.Contains(got, "erase") || strings.Contains(got, "delete the host, and create") {
				t.Errorf("%s, %s: %s", state, c.reason, got)
			}
		}
	}
	h := host(metal3.StateRegistering, condition(metal3.RegisteredCondition, metav1.ConditionFalse, metal3.IronicRefusedReason, "Ironic rejects spec.bootMACAddress x"))
	if got := strings.Join(Explain(Facts{Host: h}, now), "\n"); !strings.Contains(got, "delete the host, and create it again") {
		t.Errorf("it runs nothing: %s", got)
	}
}
