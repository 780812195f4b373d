// SPDX-License-Identifier: Apache-2.0

package why

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

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
				"The server tries again by itself, after a pause that grows with the number of failures, until it has tried as often as it is allowed to (--max-provisioning-retries). After that, it tries again when you ask for it, or when the image or its checksum is changed.",
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
			Facts{Host: host(metal3.StateProvisioned, ironic("active", func(s *metal3.IronicStatus) { s.Maintenance, s.MaintenanceReason = true, "a fan is broken" }),
				condition(metal3.InMaintenanceCondition, metav1.ConditionTrue, metal3.NodeInMaintenanceReason, ""))},
			[]string{
				"worker-0 has been provisioned for 5m: it runs its image.",
				"Somebody has set the node to maintenance in Ironic, because: a fan is broken. The server respects that and does nothing until maintenance is ended. To end it: kubectl bmh maintenance off worker-0 -n metal3",
			},
		},
		"maintenance of the server's own": {
			Facts{Host: host(metal3.StateProvisioned, ironic("active", func(s *metal3.IronicStatus) {
				s.Maintenance, s.MaintenanceReason = true, "BareMetalHost metal3/worker-0 leaves Ironic"
			}))},
			[]string{"worker-0 has been provisioned for 5m: it runs its image."},
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

// TestGoneDeploymentRunsNothing: what somebody has undeployed is not said to run.
func TestGoneDeploymentRunsNothing(t *testing.T) {
	h := host(metal3.StateProvisioned)
	meta.SetStatusCondition(&h.Status.Conditions, metav1.Condition{Type: metal3.ProvisionedCondition, Status: metav1.ConditionFalse, Reason: metal3.DeploymentGoneReason})
	if got := Explain(Facts{Host: h}, now)[0]; !strings.Contains(got, "has been provisioned for 5m, but it may not run that any more") {
		t.Error(got)
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
