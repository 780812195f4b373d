// SPDX-License-Identifier: Apache-2.0

package why

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
)

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func minutesAgo(n int) metav1.Time {
	return metav1.NewTime(now.Add(-time.Duration(n) * time.Minute))
}

// host returns a host in a state, for five minutes.
func host(state metal3.ProvisioningState, change ...func(*metal3.BareMetalHost)) *metal3.BareMetalHost {
	h := &metal3.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: "metal3", Name: "worker-0", CreationTimestamp: minutesAgo(5)},
		Spec:       metal3.BareMetalHostSpec{Online: true, BMC: metal3.BMCDetails{Address: "ipmi://192.0.2.1", CredentialsName: "bmc-secret"}},
		Status: metal3.BareMetalHostStatus{
			OperationalStatus: metal3.OperationalStatusOK,
			Provisioning:      metal3.ProvisionStatus{State: state, ID: "the-uuid"},
			OperationHistory: metal3.OperationHistory{
				Register: metal3.OperationMetric{Start: minutesAgo(5)}, Inspect: metal3.OperationMetric{Start: minutesAgo(5)},
				Provision: metal3.OperationMetric{Start: minutesAgo(5)}, Deprovision: metal3.OperationMetric{Start: minutesAgo(5)},
			},
		},
	}
	h.Status.Record.State = &metal3.TimeInState{Name: state, Since: minutesAgo(5)}
	for _, conditionType := range []string{metal3.ProgressingCondition, metal3.ProvisionedCondition, metal3.AvailableForProvisioningCondition} {
		h.Status.Conditions = append(h.Status.Conditions, metav1.Condition{Type: conditionType, Status: metav1.ConditionTrue, LastTransitionTime: minutesAgo(5)})
	}
	for _, c := range change {
		c(h)
	}
	return h
}

func ironic(state string, change ...func(*metal3.IronicStatus)) func(*metal3.BareMetalHost) {
	return func(h *metal3.BareMetalHost) {
		h.Status.Ironic = &metal3.IronicStatus{ProvisionState: state, PowerState: "power on"}
		for _, c := range change {
			c(h.Status.Ironic)
		}
	}
}

func step(name string) func(*metal3.IronicStatus) {
	return func(s *metal3.IronicStatus) { s.Step = name }
}

func condition(conditionType string, status metav1.ConditionStatus, reason, message string) func(*metal3.BareMetalHost) {
	return func(h *metal3.BareMetalHost) {
		h.Status.Conditions = append(h.Status.Conditions, metav1.Condition{
			Type: conditionType, Status: status, Reason: reason, Message: message, LastTransitionTime: minutesAgo(2),
		})
	}
}

func failed(errorType metal3.ErrorType, message string) func(*metal3.BareMetalHost) {
	return func(h *metal3.BareMetalHost) {
		h.Status.OperationalStatus, h.Status.ErrorType, h.Status.ErrorMessage = metal3.OperationalStatusError, errorType, message
		condition(metal3.ReadyCondition, metav1.ConditionFalse, metal3.ErrorReason, message)(h)
	}
}

const confirmation = "Before you confirm anything, look at the machine, and make the spec say what it runs: the server then treats the machine as the spec asks, and if that has no image, its disks may be erased. " +
	"A takeover shows what follows, and asks. It takes the role metal3-baremetalhosts-takeover."

// TestNothingIsKeptBack: what a condition says of a host is said here, too, and never that nothing is wrong.
func TestNothingIsKeptBack(t *testing.T) {
	for conditionType, bad := range map[string]metav1.ConditionStatus{
		metal3.RegisteredCondition: metav1.ConditionFalse, metal3.InventoryReadCondition: metav1.ConditionFalse, metal3.IronicReachableCondition: metav1.ConditionFalse,
		metal3.ImageBuiltCondition: metav1.ConditionFalse, metal3.NetworkInterfacesValidCondition: metav1.ConditionFalse, metal3.MachineUniqueCondition: metav1.ConditionFalse,
		metal3.HeldCondition: metav1.ConditionTrue, metal3.StepFailedCondition: metav1.ConditionTrue,
	} {
		explained := strings.Join(Explain(Facts{Host: host(metal3.StateInspecting, ironic("manageable"), condition(conditionType, bad, "AReason", "the message"))}, now), "\n")
		if !strings.Contains(explained, "the message") || strings.Contains(explained, "Nothing is wrong") {
			t.Errorf("%s:\n%s", conditionType, explained)
		}
	}
}

func TestExplain(t *testing.T) {
	deleted := func(h *metal3.BareMetalHost) {
		at := minutesAgo(3)
		h.DeletionTimestamp, h.Finalizers = &at, []string{metal3.BareMetalHostFinalizer}
	}
	for name, c := range map[string]struct {
		facts Facts
		want  []string
	}{
		"new": {
			Facts{Host: host(metal3.StateNone)},
			[]string{"worker-0 has been new for 5m, and nobody has looked at it yet."},
		},
		"unmanaged": {
			Facts{Host: host(metal3.StateUnmanaged)},
			[]string{
				"worker-0 has not been managed for 5m, because its spec has no address of a BMC (spec.bmc).",
				"Set spec.bmc.address and spec.bmc.credentialsName to have it managed.",
			},
		},
		"registering": {
			Facts{Host: host(metal3.StateRegistering, ironic("verifying"))},
			[]string{
				"worker-0 is being registered for 5m: Ironic verifies that it has access to the BMC. Ironic is at it: verify.",
				"Nothing is wrong: it goes on by itself. To see how far it is: kubectl bmh wait worker-0 -n metal3 --for available",
			},
		},
		"inspecting": {
			Facts{Host: host(metal3.StateInspecting, ironic("inspect wait"))},
			[]string{
				"worker-0 is being inspected for 5m: a ramdisk or the BMC reports the hardware. Ironic is at it: inspect, no step of it runs yet.",
				"Nothing is wrong: it goes on by itself. To see how far it is: kubectl bmh wait worker-0 -n metal3 --for available",
			},
		},
		"inspecting for long": {
			Facts{Host: host(metal3.StateInspecting, ironic("inspect wait"), func(h *metal3.BareMetalHost) { h.Status.Record.State.Since = minutesAgo(20) })},
			[]string{
				"worker-0 is being inspected for 20m: a ramdisk or the BMC reports the hardware. Ironic is at it: inspect, no step of it runs yet.",
				"The ramdisk has not called Ironic yet. Look at the console of the machine, at DHCP, and at the URL of the ramdisk. Ironic gives up by itself after half an hour.",
			},
		},
		"preparing": {
			Facts{Host: host(metal3.StatePreparing)},
			[]string{
				"worker-0 is being prepared for 5m, and becomes available then.",
				"Nothing is wrong: it goes on by itself. To see how far it is: kubectl bmh wait worker-0 -n metal3 --for available",
			},
		},
		"available": {
			Facts{Host: host(metal3.StateAvailable, ironic("manageable"))},
			[]string{
				"worker-0 has been available for 5m: an image can be written to it.",
				"It waits for an image: nothing happens until spec.image is set.",
			},
		},
		"available, to be off": {
			Facts{Host: host(metal3.StateAvailable, ironic("manageable"), func(h *metal3.BareMetalHost) {
				h.Spec.Online, h.Spec.Image = false, &metal3.Image{URL: "http://images/x"}
			})},
			[]string{
				"worker-0 has been available for 5m: an image can be written to it.",
				"Its power is on, and spec.online asks for off.",
				"An image is asked for, but spec.online is false: to switch it on: kubectl bmh power on worker-0 -n metal3",
			},
		},
		"available, a Secret is missing": {
			Facts{Host: host(metal3.StateAvailable, ironic("manageable"), failed(metal3.ProvisioningError, `Secret "user-data" with the userData does not exist in namespace "metal3"`))},
			[]string{
				"worker-0 has been available for 5m: an image can be written to it.",
				`It has had a provisioning error for 2m: Secret "user-data" with the userData does not exist in namespace "metal3".`,
				"Nothing has been done to the machine for the deployment. It goes on by itself when what is missing is there.",
				"To have it tried at once: kubectl bmh retry worker-0 -n metal3",
			},
		},
		"available, given up": {
			Facts{Host: host(metal3.StateAvailable, ironic("available"), failed(metal3.ProvisioningError, "write_image failed."), func(h *metal3.BareMetalHost) { h.Status.ErrorCount, h.Status.ProvisioningFailCount = 3, 3 })},
			[]string{
				"worker-0 has been available for 5m: an image can be written to it.",
				"It has had a provisioning error for 2m: write_image failed.",
				"The deployment was tried as often as the server is allowed to (--max-provisioning-retries). It is tried again after a retry, or with another image.",
				"It has failed 3 times in a row.",
				"To have it tried at once: kubectl bmh retry worker-0 -n metal3",
			},
		},
		"provisioning": {
			Facts{Host: host(metal3.StateProvisioning, ironic("wait call-back", step("deploy.write_image")))},
			[]string{
				"worker-0 is being provisioned for 5m: its disks are cleaned and an image is written to them. Ironic is at it: deploy, step write_image.",
				"Nothing is wrong: it goes on by itself. To see how far it is: kubectl bmh wait worker-0 -n metal3 --for provisioned",
			},
		},
		"being rebuilt, the first step": {
			Facts{Host: host(metal3.StateProvisioning, ironic("wait call-back", step("deploy.deploy")), func(h *metal3.BareMetalHost) {
				h.Status.Record.Deployment = &metal3.Deployment{Rebuild: &metal3.Rebuild{}}
			})},
			[]string{
				"worker-0 is being rebuilt for 5m: its image is written to it again, without cleaning its disks. Ironic is at it: deploy.",
				"Nothing is wrong: it goes on by itself. To see how far it is: kubectl bmh wait worker-0 -n metal3 --for provisioned",
			},
		},
		"being switched off": {
			Facts{Host: host(metal3.StateProvisioned, ironic("active", func(s *metal3.IronicStatus) { s.TargetPowerState = "power off" }))},
			[]string{"worker-0 has been provisioned for 5m: it runs its image.", "Ironic is changing its power from on to off."},
		},
		"available, waits for an image, and Ironic misses it": {
			Facts{
				Host: host(metal3.StateAvailable, ironic("available"), func(h *metal3.BareMetalHost) { h.Spec.Image = &metal3.Image{URL: "http://192.0.2.2/x"} }),
				Interfaces: []metal3.InterfaceValidation{{Name: "deploy", Result: metal3.InterfaceUnusable,
					Reason: "Node 4711 failed to validate deploy image info. Some parameters were missing. Missing are: ['instance_info.image_source']"}},
			},
			[]string{"worker-0 has been available for 5m: an image can be written to it."},
		},
		"held, with advice for clients": {
			Facts{Host: host(metal3.StateProvisioned, ironic("available"), condition(metal3.HeldCondition, metav1.ConditionTrue, metal3.DeploymentGoneReason,
				"The node was undeployed. It is not adopted, cleaned or deployed. If it runs this all the same, confirm it with the subresource takeover; to have it written again, use the subresource rebuild"))},
			[]string{
				"worker-0 has been provisioned for 5m: it runs its image.",
				"The server has held it back for 2m: The node was undeployed. It is not adopted, cleaned or deployed. If it runs this all the same, confirm it with `kubectl bmh takeover worker-0 -n metal3`; to have it written again, use `kubectl bmh rebuild worker-0 -n metal3`.",
				"Ironic's log has the request, and `openstack baremetal node history list the-uuid` may name the user. A rebuild takes the role metal3-baremetalhosts-rebuild.",
				confirmation,
			},
		},
		"held, and active again": {
			Facts{Host: host(metal3.StateProvisioned, ironic("active"), condition(metal3.HeldCondition, metav1.ConditionTrue, metal3.DeploymentGoneReason, "The node was deployed or rebuilt by somebody else."))},
			[]string{
				"worker-0 has been provisioned for 5m: it runs its image.",
				"The server has held it back for 2m: The node was deployed or rebuilt by somebody else.",
				"Ironic's log has the request, and `openstack baremetal node history list the-uuid` may name the user. The node is active again: if the machine runs what the spec says, you only have to confirm that.",
			},
		},
		"an image that is not there": {
			Facts{Host: host(metal3.StateProvisioning, ironic("available"), failed(metal3.ProvisioningError, "Validation of image href http://192.0.2.2/x failed, reason: Got HTTP code 404 instead of 200 in response to HEAD request."))},
			[]string{
				"worker-0 is being provisioned for 5m: its disks are cleaned and an image is written to them.",
				"It has had a provisioning error for 2m: The server of the image does not have it. Validation of image href http://192.0.2.2/x failed, reason: Got HTTP code 404 instead of 200 in response to HEAD request.",
				"Correct the URL that the error names: spec.image.url or spec.image.checksum, or, if it is that of a ramdisk, what the administrator of the server has set for it.",
				"The server tries again by itself, after a pause that grows with the number of failures. If the image is removed from the spec, the host becomes available again.",
				"To have it tried at once: kubectl bmh retry worker-0 -n metal3",
			},
		},
		"an error that is not known": {
			Facts{
				Host:   host(metal3.StateRegistering, failed(metal3.RegistrationError, "Failed to get power state for node 5f3a9401-0000-4000-8000-000000000000. Error: it is busy")),
				Events: []corev1.Event{{Message: "Failed to get power state for node 5f3a9401-0000-4000-8000-000000000000. Error: it is busy (error 2 in a row)", LastTimestamp: minutesAgo(1)}},
			},
			[]string{
				"worker-0 is being registered for 5m: Ironic verifies that it has access to the BMC.",
				"It has had a registration error for 2m: Failed to get power state for node 5f3a9401-0000-4000-8000-000000000000. Error: it is busy.",
				"To have it tried at once: kubectl bmh retry worker-0 -n metal3",
			},
		},
		"delayed": {
			Facts{Host: host(metal3.StateProvisioning, func(h *metal3.BareMetalHost) { h.Status.OperationalStatus = metal3.OperationalStatusDelayed })},
			[]string{
				"worker-0 is being provisioned for 5m: its disks are cleaned and an image is written to them.",
				"It waits for its turn: the server works on as many hosts as it may at a time (--provisioning-limit), or requests as many deployments as it may. If that lasts, look at those hosts, and at the server of their images. It goes on by itself.",
			},
		},
		"provisioned, with a consumer": {
			Facts{Host: host(metal3.StateProvisioned, ironic("active"), func(h *metal3.BareMetalHost) {
				h.Spec.ConsumerRef = &corev1.ObjectReference{Kind: "Metal3Machine", Name: "m-0"}
			})},
			[]string{"worker-0 has been provisioned for 5m: it runs its image. It is used by Metal3Machine m-0."},
		},
		"provisioned, kept off": {
			Facts{Host: host(metal3.StateProvisioned, ironic("active", func(s *metal3.IronicStatus) { s.PowerState = "power off" }), func(h *metal3.BareMetalHost) {
				h.Annotations = map[string]string{metal3.RebootAnnotationPrefix + "drain": ""}
			})},
			[]string{
				"worker-0 has been provisioned for 5m: it runs its image.",
				"Its power is off, and spec.online asks for on. The annotation reboot.metal3.io/drain keeps it off.",
			},
		},
		"externally provisioned": {
			Facts{Host: host(metal3.StateExternallyProvisioned, ironic("active"))},
			[]string{"worker-0 has been externally provisioned for 5m: it runs what was on it, and its disks are never written to."},
		},
		"deprovisioning": {
			Facts{Host: host(metal3.StateDeprovisioning, ironic("deleting"))},
			[]string{
				"worker-0 is being deprovisioned for 5m: its image is removed and its disks are cleaned. Ironic is at it: undeploy.",
				"Nothing is wrong: it goes on by itself. To see how far it is: kubectl bmh wait worker-0 -n metal3 --for available",
			},
		},
		"deleted": {
			Facts{Host: host(metal3.StateDeleting, ironic("cleaning"), deleted)},
			[]string{`worker-0 is being deleted for 3m. Ironic has its node in the state "cleaning".`},
		},
		"deleted, its detachment delays that": {
			Facts{Host: host(metal3.StateProvisioned, deleted, func(h *metal3.BareMetalHost) {
				h.Annotations = map[string]string{metal3.DetachedAnnotation: `{"deleteAction":"delay"}`}
			})},
			[]string{"worker-0 is being deleted for 3m. That waits, because its annotation baremetalhost.metal3.io/detached says so (deleteAction: delay). " +
				"To let it go and leave the machine as it is: kubectl annotate bmh worker-0 -n metal3 baremetalhost.metal3.io/detached= --overwrite. " +
				"If the annotation is removed instead, what this server has provisioned is undeployed, and its disks are cleaned."},
		},
		"deleted, without a node": {
			Facts{Host: host(metal3.StateDeleting, deleted)}, []string{"worker-0 is being deleted for 3m. It is about to go: Ironic has no node of it."},
		},
		"deleted, its node is lost": {
			Facts{Host: host(metal3.StateDeprovisioning, deleted)},
			[]string{"worker-0 is being deleted for 3m. Ironic has no node of it, which is created again first if the machine has to be undeployed and its disks cleaned."},
		},
		"deleted, a conductor has its node": {
			Facts{Host: host(metal3.StateDeprovisioning, deleted, ironic("deleting", func(s *metal3.IronicStatus) { s.Reservation = "c-1" }))},
			[]string{`worker-0 is being deleted for 3m. Ironic has its node in the state "deleting".`, "The conductor c-1 of Ironic is working on the node at the moment. If it has died, whoever administers Ironic starts one with its name."},
		},
		"deleted, the ramdisk is silent": {
			Facts{Host: host(metal3.StateDeprovisioning, ironic("clean wait"), func(h *metal3.BareMetalHost) {
				at := minutesAgo(20)
				h.DeletionTimestamp, h.Finalizers, h.Status.Record.State.Since = &at, []string{metal3.BareMetalHostFinalizer}, at
			})},
			[]string{`worker-0 is being deleted for 20m. Ironic has its node in the state "clean wait".`,
				"The ramdisk has not called Ironic yet. Look at the console of the machine, at DHCP, and at the URL of the ramdisk. Ironic gives up by itself after half an hour."},
		},
		"deleted, another controller's finalizer": {
			Facts{Host: host(metal3.StateDeleting, deleted, func(h *metal3.BareMetalHost) { h.Finalizers = []string{"example.com/x"} })},
			[]string{"worker-0 is being deleted for 3m. It is gone from Ironic, and waits until whoever has set example.com/x in metadata.finalizers removes it."},
		},
		"detached": {
			Facts{Host: host(metal3.StateProvisioned, func(h *metal3.BareMetalHost) { h.Status.OperationalStatus = metal3.OperationalStatusDetached })},
			[]string{"worker-0 is detached: it has the annotation baremetalhost.metal3.io/detached, and Ironic does not know it. The machine is left as it is. Remove the annotation to have it registered again."},
		},
		"paused": {
			Facts{Host: host(metal3.StateProvisioned, ironic("active"), func(h *metal3.BareMetalHost) {
				h.Annotations = map[string]string{metal3.PausedAnnotation: "metal3.io/capm3"}
			})},
			[]string{
				"worker-0 has been provisioned for 5m: it runs its image.",
				"It is paused by metal3.io/capm3: nothing is done with it until the annotation baremetalhost.metal3.io/paused is removed. Whoever has set it usually removes it again.",
			},
		},
		"maintenance": {
			Facts{Host: host(metal3.StateProvisioned, ironic("active", func(s *metal3.IronicStatus) { s.Maintenance, s.MaintenanceReason = true, "a fan is broken" }))},
			[]string{
				"worker-0 has been provisioned for 5m: it runs its image.",
				"Somebody has set the node to maintenance in Ironic, because: a fan is broken. The server respects that and does nothing until maintenance is ended. To end it: kubectl bmh maintenance off worker-0 -n metal3",
			},
		},
		"on its way to another Ironic": {
			Facts{Host: host(metal3.StateProvisioned, ironic("active"), moving("room-b"))},
			[]string{
				"worker-0 has been provisioned for 5m: it runs its image.",
				"It has been on its way to the Ironic room-b for 2m: its node is removed from the Ironic of the server's flags, and then created and adopted in the other, while the machine goes on running as it is.",
				`kubectl bmh transfer worker-0 -n metal3 --to "" calls the move off.`,
				"Nothing is wrong: it goes on by itself. To see how far it is: kubectl bmh wait worker-0 -n metal3 --for idle",
			},
		},
		"the other Ironic does not take it": {
			Facts{Host: host(metal3.StateProvisioned, ironic("active"), moving("room-b"), func(h *metal3.BareMetalHost) { h.Status.Record.Ironic = "room-a" },
				condition(metal3.StepFailedCondition, metav1.ConditionTrue, metal3.DetachErrorReason, "it has a node with the BMC of the host"))},
			[]string{
				"worker-0 has been provisioned for 5m: it runs its image.",
				"It has been on its way to the Ironic room-b for 2m: its node is removed from the Ironic room-a, and then created and adopted in the other, while the machine goes on running as it is.",
				"The move goes on by itself when what is in its way has ended. kubectl bmh transfer worker-0 -n metal3 --to room-a calls the move off.",
				"A step has failed for 2m (DetachError): it has a node with the BMC of the host.",
				"Unless the move is called off, the server tries again by itself.",
				"To have it tried at once: kubectl bmh retry worker-0 -n metal3",
			},
		},
		"arriving in another Ironic": {
			Facts{Host: host(metal3.StateProvisioned, func(h *metal3.BareMetalHost) {
				h.Status.Record.Ironic = "room-b"
			}, condition(metal3.RegisteredCondition, metav1.ConditionFalse, metal3.NodeLostReason, "The host was moved"))},
			[]string{
				"worker-0 has been provisioned for 5m: it runs its image.",
				"Its node is being created again for 2m: The host was moved.",
			},
		},
		"blind": {
			Facts{Host: host(metal3.StateProvisioned, ironic("active"), condition(metal3.IronicReachableCondition, metav1.ConditionFalse, metal3.UnreachableReason, "connection refused"))},
			[]string{
				"worker-0 has been provisioned for 5m: it runs its image.",
				"Ironic has not answered for 2m, so all of this is as it was then: connection refused. It goes on by itself when Ironic is back.",
			},
		},
		"blind, one of several Ironics": {
			Facts{Host: host(metal3.StateProvisioned, ironic("active", func(s *metal3.IronicStatus) { s.Instance = "room-b" }), condition(metal3.IronicReachableCondition, metav1.ConditionFalse, metal3.UnreachableReason, "connection refused"))},
			[]string{
				"worker-0 has been provisioned for 5m: it runs its image.",
				"Ironic room-b has not answered for 2m, so all of this is as it was then: connection refused. It goes on by itself when Ironic is back. An administrator sees what is wrong with it: kubectl bmh ironics",
			},
		},
		"refused by Ironic": {
			Facts{Host: host(metal3.StateProvisioned, ironic("active"), condition(metal3.IronicReachableCondition, metav1.ConditionFalse, metal3.RefusedReason, "HTTP 401"))},
			[]string{
				"worker-0 has been provisioned for 5m: it runs its image.",
				"Ironic has refused the server for 2m, so all of this is as it was then: HTTP 401. That does not end by itself: an administrator corrects the user name or the password in the Secret that has the server's credentials for Ironic (metal3-apiserver-ironic), or what that user may do in Ironic.",
			},
		},
		"refused by one of several Ironics": {
			Facts{Host: host(metal3.StateProvisioned, ironic("active", func(s *metal3.IronicStatus) { s.Instance = "room-b" }), condition(metal3.IronicReachableCondition, metav1.ConditionFalse, metal3.RefusedReason, "HTTP 401"))},
			[]string{
				"worker-0 has been provisioned for 5m: it runs its image.",
				"Ironic room-b has refused the server for 2m, so all of this is as it was then: HTTP 401. That does not end by itself: an administrator corrects the user name or the password in the Secret of its IronicInstance, or what that user may do in Ironic. An administrator sees what is wrong with it: kubectl bmh ironics",
			},
		},
		"a node that Ironic fails to show": {
			Facts{Host: host(metal3.StateProvisioned, ironic("active"), condition(metal3.IronicReachableCondition, metav1.ConditionFalse, metal3.NodeUnreadableReason, "HTTP 500"))},
			[]string{
				"worker-0 has been provisioned for 5m: it runs its image.",
				"Ironic answers, but has not shown the node of this host for 2m, so all of this is as it was then: HTTP 500. That does not end by itself: `openstack baremetal node show the-uuid` fails as well, and Ironic's log has the reason. Whoever administers Ironic mends its records of the node.",
			},
		},
		"an IronicInstance that is not usable": {
			Facts{Host: host(metal3.StateProvisioned, ironic("active", func(s *metal3.IronicStatus) { s.Instance = "room-b" }), condition(metal3.IronicReachableCondition, metav1.ConditionFalse, metal3.NoIronicReason, "the server cannot use IronicInstance room-b"))},
			[]string{
				"worker-0 has been provisioned for 5m: it runs its image.",
				"Ironic room-b has not been asked for 2m, so all of this is as it was then: the server cannot use IronicInstance room-b. That does not end by itself: an administrator makes its IronicInstance usable again, and sees what is wrong with it: kubectl bmh ironics",
			},
		},
		"registration error of the BMC": {
			Facts{Host: host(metal3.StateRegistering, ironic("enroll", func(s *metal3.IronicStatus) { s.PowerState = "" }), failed(metal3.RegistrationError, "IPMI call failed: power status."))},
			[]string{
				"worker-0 is being registered for 5m: Ironic verifies that it has access to the BMC.",
				"It has had a registration error for 2m: An IPMI command to the BMC has failed. IPMI call failed: power status.",
				"Ironic does not say why ipmitool has failed. Check that ipmi://192.0.2.1 is right and answers at its UDP port, that IPMI over LAN is enabled in the BMC, and the credentials in the Secret metal3/bmc-secret: IPMI takes a user name of at most 16 bytes, and a password of at most 20.",
				"To have it tried at once: kubectl bmh retry worker-0 -n metal3",
			},
		},
		"a password that IPMI does not take": {
			Facts{Host: host(metal3.StateRegistering, ironic("enroll", func(s *metal3.IronicStatus) { s.PowerState = "" }), failed(metal3.RegistrationError, "Redfish connection failed: timed out"),
				condition(metal3.RegisteredCondition, metav1.ConditionTrue, metal3.RegisteredReason, `Secret "bmc-secret": the password has more bytes than IPMI takes, which is 20`))},
			[]string{
				"worker-0 is being registered for 5m: Ironic verifies that it has access to the BMC.",
				"It has had a registration error for 2m: The BMC does not answer. Redfish connection failed: timed out.",
				"Check that ipmi://192.0.2.1 is right, that the BMC is plugged in and answers, and that no firewall is between Ironic and it. The server tries again by itself.",
				`Of its registration: Secret "bmc-secret": the password has more bytes than IPMI takes, which is 20.`,
				"To have it tried at once: kubectl bmh retry worker-0 -n metal3",
			},
		},
		"wrong password": {
			Facts{Host: host(metal3.StateRegistering, failed(metal3.RegistrationError, "The BMC refuses the credentials. Redfish exception occurred. Error: HTTP GET https://192.0.2.1/redfish/v1/Systems/1 returned code 401. unknown error"))},
			[]string{
				"worker-0 is being registered for 5m: Ironic verifies that it has access to the BMC.",
				"It has had a registration error for 2m: The BMC refuses the credentials. Redfish exception occurred. Error: HTTP GET https://192.0.2.1/redfish/v1/Systems/1 returned code 401. unknown error.",
				"Correct the user name or the password in the Secret metal3/bmc-secret. The host goes on at once after that, or, if Ironic has put its node into maintenance meanwhile, within minutes.",
				"To have it tried at once: kubectl bmh retry worker-0 -n metal3",
			},
		},
		"history, validation and events": {
			Facts{
				Host: host(metal3.StateProvisioned, ironic("active")),
				History: []metal3.HistoryEvent{
					{Time: minutesAgo(60), Severity: "ERROR", Message: "the latest error"},
					{Time: minutesAgo(120), Severity: "ERROR", Message: "an older error"},
					{Time: minutesAgo(1), Severity: "INFO", Message: "a note"},
				},
				Interfaces: []metal3.InterfaceValidation{
					{Name: "console", Result: metal3.InterfaceUnusable, Reason: "not supported"},
					{Name: "deploy", Result: metal3.InterfaceUnusable, Reason: "no ramdisk"},
					{Name: "deploy", Result: metal3.InterfaceUnusable, Reason: "Some parameters were missing. Missing are: ['instance_info.image_source']"},
					{Name: "power", Result: metal3.InterfaceUsable},
				},
				Events: []corev1.Event{
					{Message: "old", LastTimestamp: minutesAgo(50)},
					{Message: "latest.", Type: corev1.EventTypeWarning, LastTimestamp: minutesAgo(40)},
				},
			},
			[]string{
				"worker-0 has been provisioned for 5m: it runs its image.",
				"Ironic could not use its deploy interface: no ramdisk.",
				"The last error in Ironic's history of the node, 60m ago: the latest error.",
				"The last event, a warning, 40m ago: latest.",
			},
		},
		"what was said is not repeated": {
			Facts{
				Host:    host(metal3.StateInspecting, ironic("inspect failed"), failed(metal3.InspectionError, "Timeout reached while inspecting the node")),
				History: []metal3.HistoryEvent{{Time: minutesAgo(0), Severity: "ERROR", Message: "Timeout reached while inspecting the node"}},
				Events:  []corev1.Event{{Message: "Timeout reached while inspecting the node", LastTimestamp: minutesAgo(1)}},
			},
			[]string{
				"worker-0 is being inspected for 5m: a ramdisk or the BMC reports the hardware.",
				"It has had an inspection error for 2m: The ramdisk on the machine did not call Ironic in time. Timeout reached while inspecting the node.",
				"Look at the console of the machine, at DHCP, and at the URL of the ramdisk.",
				"The server inspects it again by itself. With spec.inspectionMode: disabled, it becomes available without.",
				"To have it tried at once: kubectl bmh retry worker-0 -n metal3",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, Explain(c.facts, now)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

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

// TestGoneDeploymentRunsNothing: what somebody has undeployed is not said to run.
func TestGoneDeploymentRunsNothing(t *testing.T) {
	h := host(metal3.StateProvisioned)
	meta.SetStatusCondition(&h.Status.Conditions, metav1.Condition{Type: metal3.ProvisionedCondition, Status: metav1.ConditionFalse, Reason: metal3.DeploymentGoneReason})
	if got := Explain(Facts{Host: h}, now)[0]; !strings.Contains(got, "has been provisioned for 5m, but it may not run that any more") {
		t.Error(got)
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

// TestClocksDiffer: times in the future do not give negative durations.
func TestClocksDiffer(t *testing.T) {
	got := Explain(Facts{Host: host(metal3.StateAvailable)}, now.Add(-time.Hour))
	if !strings.Contains(got[0], "for 0s") {
		t.Error(got[0])
	}
}

func moving(to string) func(*metal3.BareMetalHost) {
	return func(h *metal3.BareMetalHost) {
		h.Status.Record.Transfer = &metal3.Transfer{To: to, RequestedAt: metav1.NewTime(now.Add(-2 * time.Minute))}
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

// TestUnbuiltImageIsExplained: the object that says more is named.
func TestUnbuiltImageIsExplained(t *testing.T) {
	h := host(metal3.StateRegistering, condition(metal3.RegisteredCondition, metav1.ConditionFalse, metal3.ImageNotBuiltReason, "no disk"))
	if got := strings.Join(Explain(Facts{Host: h}, now), "\n"); !strings.Contains(got, "kubectl get preprovisioningimage worker-0 -n metal3 -o yaml") {
		t.Error(got)
	}
}

// TestInventoryPartIsTold: a part of an inventory that cannot be read is told, and nothing is wrong with the host for that.
func TestInventoryPartIsTold(t *testing.T) {
	h := host(metal3.StateAvailable, condition(metal3.InventoryReadCondition, metav1.ConditionTrue, metal3.InventoryIncompleteReason, "Of the inventory, cpu.count is \"x\""))
	got := strings.Join(Explain(Facts{Host: h}, now), "\n")
	if !strings.Contains(got, `cpu.count is "x".`) || strings.Contains(got, "kubectl bmh inspect") {
		t.Errorf("explained as %s", got)
	}
}
