// SPDX-License-Identifier: Apache-2.0

package events

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

type host = metal3.BareMetalHost

var noon = metav1.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func minutes(n int) metav1.Time { return metav1.NewTime(noon.Add(time.Duration(n) * time.Minute)) }

func in(state metal3.ProvisioningState) func(*host) {
	return func(h *host) { h.Status.Provisioning.State = state }
}

func failing(kind metal3.ErrorType, message string, count int) func(*host) {
	return func(h *host) {
		h.Status.OperationalStatus = metal3.OperationalStatusError
		h.Status.Record.Error, h.Status.ErrorCount = &metal3.HostError{Type: kind, Message: message}, count
	}
}

func unregistered(reason, message string) func(*host) {
	return func(h *host) {
		failing(metal3.RegistrationError, message, 1)(h)
		h.Status.Record.Registration = &metal3.Registration{Reason: reason, Message: message}
	}
}

func heldFor(reason string) func(*host) {
	return func(h *host) { h.Status.Record.Hold = &metal3.Hold{Reason: reason} }
}

func gone(h *host) {
	h.Status.Record.Deployment = &metal3.Deployment{Gone: &metal3.GoneDeployment{}}
}

func nodeIn(state string) func(*host) {
	return func(h *host) { h.Status.Ironic = &metal3.IronicStatus{ProvisionState: state} }
}

func image(url string) func(*host) {
	return func(h *host) {
		h.Spec.Image = &metal3.Image{URL: url}
		h.Status.Provisioning.Image = *h.Spec.Image
	}
}

func custom(method string) func(*host) {
	return func(h *host) {
		h.Spec.CustomDeploy = &metal3.CustomDeploy{Method: method}
		h.Status.Provisioning.CustomDeploy = h.Spec.CustomDeploy
	}
}

func online(h *host)  { h.Spec.Online = true }
func powered(h *host) { h.Status.PoweredOn = true }

// arrivedBefore is a host that became available that long before its status was updated.
func arrivedBefore(d time.Duration) func(*host) {
	return func(h *host) {
		h.Status.LastUpdated = &noon
		h.Status.Record.State = &metal3.TimeInState{Name: metal3.StateAvailable, Since: metav1.NewTime(noon.Add(-d))}
	}
}

func deleted(h *host) { h.DeletionTimestamp = &noon }

func detached(h *host) { h.Status.OperationalStatus = metal3.OperationalStatusDetached }

func good(secret, version string) func(*host) {
	return func(h *host) {
		h.Spec.BMC.Address = "redfish://192.0.2.1/redfish/v1/Systems/1"
		h.Status.GoodCredentials = metal3.CredentialsStatus{Reference: &corev1.SecretReference{Name: secret, Namespace: "n"}, Version: version}
	}
}

func hardware(h *host) {
	h.Status.HardwareDetails = &metal3.HardwareDetails{
		SystemVendor: metal3.HardwareSystemVendor{Manufacturer: "Dell Inc.", ProductName: "R640"},
		CPU:          metal3.CPU{Count: 48, Arch: "x86_64"}, RAMMebibytes: 65536,
		Storage: []metal3.Storage{{Name: "/dev/sda"}},
		NIC:     []metal3.NIC{{Name: "eth0", MAC: "a", IP: "192.0.2.5"}, {Name: "eth0", MAC: "a", IP: "2001:db8::5"}, {Name: "eth1", MAC: "b"}},
	}
}

func inspect(m metal3.OperationMetric) func(*host) {
	return func(h *host) { h.Status.OperationHistory.Inspect = m }
}

func provision(m metal3.OperationMetric) func(*host) {
	return func(h *host) { h.Status.OperationHistory.Provision = m }
}

func deprovision(m metal3.OperationMetric) func(*host) {
	return func(h *host) { h.Status.OperationHistory.Deprovision = m }
}

func metric(start, end int) metal3.OperationMetric {
	return metal3.OperationMetric{Start: minutes(start), End: minutes(end)}
}

func since(start int) metal3.OperationMetric { return metal3.OperationMetric{Start: minutes(start)} }

func annotated(key, value string) func(*host) {
	return func(h *host) { metav1.SetMetaDataAnnotation(&h.ObjectMeta, key, value) }
}

func preparation(phase metal3.PreparationPhase, start, end int) func(*host) {
	return func(h *host) {
		h.Status.Record.Preparation = &metal3.Preparation{Phase: phase, StartedAt: minutes(start), Steps: []string{"raid.delete_configuration", "raid.create_configuration"}}
		if end > 0 {
			ended := minutes(end)
			h.Status.Record.Preparation.EndedAt = &ended
		}
	}
}

// volumes has Ironic execute a step of a layout of one volume, and find some on the machine.
func volumes(step string, found int) func(*host) {
	return func(h *host) {
		h.Status.Record.Preparation.RAID = &metal3.RAIDConfig{HardwareRAIDVolumes: []metal3.HardwareRAIDVolume{{Level: "1"}}}
		h.Status.Ironic = &metal3.IronicStatus{Step: step, RAIDVolumes: found}
	}
}

func made(changes ...func(*host)) *host {
	h := &host{ObjectMeta: metav1.ObjectMeta{Name: "h", Namespace: "n", UID: "u"}}
	for _, change := range changes {
		change(h)
	}
	return h
}

type changes = []func(*host)

func rebooting(h *host) {
	h.Status.Ironic = &metal3.IronicStatus{ProvisionState: "active", TargetPowerState: "rebooting"}
}

// setByClient has a client own the annotation.
func setByClient(manager, key string) func(*host) {
	return func(h *host) {
		h.ManagedFields = append(h.ManagedFields, metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, FieldsV1: metav1.NewFieldsV1(fmt.Sprintf(`{"f:metadata":{"f:annotations":{"f:%s":{}}}}`, key)),
		})
	}
}

// TestChanges: events as "TYPE REASON: MESSAGE", those of the second host being
// what is told when it follows upon the first.
func TestChanges(t *testing.T) {
	const (
		available      = metal3.StateAvailable
		provisioning   = metal3.StateProvisioning
		provisioned    = metal3.StateProvisioned
		deprovisioning = metal3.StateDeprovisioning
		inspecting     = metal3.StateInspecting
		preparing      = metal3.StatePreparing
		registering    = metal3.StateRegistering
	)
	for name, tt := range map[string]struct {
		old, new changes
		want     []string
	}{
		"nothing":            {changes{in(available), powered}, changes{in(available), powered}, nil},
		"conditions":         {changes{in(available)}, changes{in(available), nodeIn("available")}, nil},
		"begun":              {nil, changes{in(registering)}, nil},
		"paused":             {changes{in(available)}, changes{in(available), annotated(metal3.PausedAnnotation, "x")}, nil},
		"delayed":            {changes{in(available)}, changes{in(available), func(h *host) { h.Status.OperationalStatus = metal3.OperationalStatusDelayed }}, nil},
		"without BMC":        {nil, changes{in(metal3.StateUnmanaged)}, []string{"Normal Discovered: The host has no BMC details and is not managed: set spec.bmc"}},
		"still no BMC":       {changes{in(metal3.StateUnmanaged)}, changes{in(metal3.StateUnmanaged), online}, nil},
		"settings requested": {changes{in(preparing)}, changes{in(preparing), preparation(metal3.PreparationRequested, 1, 0)}, nil},
		"settings being applied": {
			changes{in(preparing), preparation(metal3.PreparationRequested, 1, 0)}, changes{in(preparing), preparation(metal3.PreparationRunning, 1, 0)},
			[]string{"Normal PreparationStarted: Preparation started: raid.delete_configuration, raid.create_configuration"},
		},
		"settings applied": {
			changes{in(preparing), preparation(metal3.PreparationRunning, 1, 0)}, changes{in(available), preparation(metal3.PreparationSucceeded, 1, 5)},
			[]string{"Normal PreparationComplete: Preparation complete after 4m0s: raid.delete_configuration, raid.create_configuration"},
		},
		"volumes made": {
			changes{in(preparing), preparation(metal3.PreparationRunning, 1, 0), volumes("raid.create_configuration", 0)},
			changes{in(available), preparation(metal3.PreparationSucceeded, 1, 5), volumes("", 1)},
			[]string{"Normal PreparationComplete: Preparation complete after 4m0s: raid.delete_configuration, raid.create_configuration"},
		},
		"volumes made, and there were others before": {
			changes{in(preparing), preparation(metal3.PreparationRunning, 1, 0), volumes("raid.delete_configuration", 2)},
			changes{in(available), preparation(metal3.PreparationSucceeded, 1, 5), volumes("", 1)},
			[]string{"Normal PreparationComplete: Preparation complete after 4m0s: raid.delete_configuration, raid.create_configuration"},
		},
		"volumes made, and there are others": {
			changes{in(preparing), preparation(metal3.PreparationRunning, 1, 0), volumes("raid.create_configuration", 1)},
			changes{in(available), preparation(metal3.PreparationSucceeded, 1, 5), volumes("", 2)},
			[]string{
				"Normal PreparationComplete: Preparation complete after 4m0s: raid.delete_configuration, raid.create_configuration",
				"Warning RAIDVolumesLeft: Ironic has found 2 RAID volumes on the machine, and spec.raid asks for 1: others were not deleted, or the controller has made them",
			},
		},
		"volumes deleted": {
			changes{in(preparing), preparation(metal3.PreparationRunning, 1, 0), volumes("raid.delete_configuration", 1)},
			changes{in(preparing), preparation(metal3.PreparationRunning, 1, 0), volumes("raid.create_configuration", 0)},
			nil,
		},
		"volumes not deleted": {
			changes{in(preparing), preparation(metal3.PreparationRunning, 1, 0), volumes("raid.delete_configuration", 1)},
			changes{in(preparing), preparation(metal3.PreparationRunning, 1, 0), volumes("raid.create_configuration", 1)},
			[]string{"Warning RAIDVolumesLeft: Ironic still finds 1 RAID volumes on the machine when it has deleted all. When others are made, check that the volumes there are those of spec.raid"},
		},
		"volumes made, or not deleted": {
			changes{in(preparing), preparation(metal3.PreparationRunning, 1, 0), volumes("raid.create_configuration", 1)},
			changes{in(available), preparation(metal3.PreparationSucceeded, 1, 5), volumes("", 1)},
			[]string{"Normal PreparationComplete: Preparation complete after 4m0s: raid.delete_configuration, raid.create_configuration"},
		},
		"settings applied again, seen late": {
			changes{in(preparing), preparation(metal3.PreparationSucceeded, 1, 5)}, changes{in(available), preparation(metal3.PreparationSucceeded, 6, 7)},
			[]string{
				"Normal PreparationStarted: Preparation started: raid.delete_configuration, raid.create_configuration",
				"Normal PreparationComplete: Preparation complete after 1m0s: raid.delete_configuration, raid.create_configuration",
			},
		},
		"settings applied long ago": {changes{in(available), preparation(metal3.PreparationSucceeded, 1, 5)}, changes{in(provisioned), preparation(metal3.PreparationSucceeded, 1, 5)}, nil},
		"settings not applied": {
			changes{in(preparing), preparation(metal3.PreparationRunning, 1, 0)}, changes{in(preparing), preparation(metal3.PreparationFailed, 1, 5), failing(metal3.PreparationError, "step failed", 1)},
			[]string{"Warning PreparationError: step failed"},
		},
		"registered": {
			changes{in(registering), func(h *host) { h.Status.OperationHistory.Register = since(0) }},
			changes{in(registering), good("bmc", "5"), powered, func(h *host) {
				h.Status.OperationHistory.Register = metric(0, 1)
				h.Status.Provisioning.ID = "4711"
			}},
			[]string{
				`Normal BMCAccessValidated: Ironic has access to the BMC at redfish://192.0.2.1/redfish/v1/Systems/1 with the credentials of Secret "bmc"`,
				"Normal Registered: Registered in Ironic as node 4711",
			},
		},
		"credentials changed": {
			changes{in(provisioned), good("bmc", "5")}, changes{in(provisioned), good("bmc", "6")},
			[]string{`Normal BMCAccessValidated: Ironic has access to the BMC at redfish://192.0.2.1/redfish/v1/Systems/1 with the credentials of Secret "bmc"`},
		},
		"credentials changed, registered again": {
			changes{in(provisioned), nodeIn("active"), good("bmc", "5"), func(h *host) { h.Status.OperationHistory.Register = since(7) }},
			changes{in(provisioned), nodeIn("active"), good("bmc", "6"), func(h *host) { h.Status.OperationHistory.Register = metric(7, 8) }},
			[]string{`Normal BMCAccessValidated: Ironic has access to the BMC at redfish://192.0.2.1/redfish/v1/Systems/1 with the credentials of Secret "bmc"`},
		},
		"registered in another Ironic": {
			changes{in(provisioned), nodeIn("verifying"), good("bmc", "5"), func(h *host) { h.Status.OperationHistory.Register = since(7) }},
			changes{in(provisioned), nodeIn("manageable"), good("bmc", "5"), func(h *host) { h.Status.OperationHistory.Register = metric(7, 8); h.Status.Provisioning.ID = "4711" }},
			[]string{"Normal Registered: Registered in Ironic as node 4711"},
		},
		"Secret missing": {
			changes{in(registering)}, changes{in(registering), unregistered(metal3.SecretNotFoundReason, `Secret "bmc" does not exist`)},
			[]string{`Warning BMCCredentialError: Secret "bmc" does not exist`},
		},
		"Secret incomplete now": {
			changes{in(registering), unregistered(metal3.SecretNotFoundReason, `Secret "bmc" does not exist`)},
			changes{in(registering), unregistered(metal3.SecretIncompleteReason, `Secret "bmc" has no username`)},
			[]string{`Warning BMCCredentialError: Secret "bmc" has no username`},
		},
		"network data of the ramdisk missing": {
			changes{in(registering)}, changes{in(registering), unregistered(metal3.NetworkDataUnusableReason, `Secret "network" does not exist`)},
			[]string{`Warning RegistrationError: Secret "network" does not exist`},
		},
		"boot MAC address of another": {
			changes{in(registering)}, changes{in(registering), unregistered(metal3.PortConflictReason, "MAC address is taken")},
			[]string{"Warning RegistrationError: MAC address is taken"},
		},
		"held": {
			changes{in(provisioned)}, changes{in(provisioned), failing(metal3.RegistrationError, "another node has its BMC", 1), heldFor(metal3.BMCInUseReason)},
			[]string{"Warning Held: BMCInUse: another node has its BMC"},
		},
		"deployment gone, which is not recorded as a hold yet": {
			changes{in(provisioned)}, changes{in(provisioned), failing(metal3.ProvisionedRegistrationError, "somebody has undeployed it", 1), gone},
			[]string{"Warning Held: DeploymentGone: somebody has undeployed it"},
		},
		"deployment gone, recorded now": {
			changes{in(provisioned), failing(metal3.ProvisionedRegistrationError, "somebody has undeployed it", 1), gone},
			changes{in(provisioned), failing(metal3.ProvisionedRegistrationError, "somebody has undeployed it", 1), gone, heldFor(metal3.DeploymentGoneReason)}, nil,
		},
		"deployment gone, and given up": {
			changes{in(deprovisioning), gone}, changes{in(deprovisioning), gone, failing(metal3.PowerManagementError, "x", 1)},
			[]string{"Warning PowerManagementError: x"},
		},
		"held for another reason": {
			changes{in(provisioned), failing(metal3.RegistrationError, "a", 1), heldFor(metal3.BMCInUseReason)},
			changes{in(provisioned), failing(metal3.RegistrationError, "b", 1), heldFor(metal3.AnotherBMCReason)},
			[]string{"Warning Held: AnotherBMC: b"},
		},
		"hold ends": {
			changes{in(provisioned), failing(metal3.RegistrationError, "a", 1), heldFor(metal3.BMCInUseReason)}, changes{in(provisioned)},
			[]string{"Normal HoldEnded: The machine is not held any more because of BMCInUse"},
		},
		"BMC silent": {
			changes{in(registering)}, changes{in(registering), failing(metal3.RegistrationError, "Unable to connect", 1)},
			[]string{"Warning RegistrationError: Unable to connect"},
		},
		"BMC silent again": {
			changes{in(registering), failing(metal3.RegistrationError, "Unable to connect", 1)},
			changes{in(registering), failing(metal3.RegistrationError, "Unable to connect", 2)},
			[]string{"Warning RegistrationError: Unable to connect (error 2 in a row)"},
		},
		"BMC still silent": {
			changes{in(registering), failing(metal3.RegistrationError, "Unable to connect", 2)},
			changes{in(registering), failing(metal3.RegistrationError, "Unable to connect", 2), nodeIn("enroll")}, nil,
		},
		"error count set back": {
			changes{in(registering), failing(metal3.RegistrationError, "Unable to connect", 2)},
			changes{in(registering), failing(metal3.RegistrationError, "Unable to connect", 0)}, nil,
		},
		"error over": {changes{in(available), failing(metal3.PowerManagementError, "x", 2)}, changes{in(available)}, nil},
		"other error": {
			changes{in(available), failing(metal3.PowerManagementError, "x", 1)}, changes{in(available), failing(metal3.PreparationError, "x", 1)},
			[]string{"Warning PreparationError: x"},
		},
		"error with credentials in it": {
			changes{in(provisioning)}, changes{in(provisioning), failing(metal3.ProvisioningError, "cannot get 'http://me:secret@h/i?x@y' nor oci://me:se@cret@r/i@sha256:1", 1)},
			[]string{"Warning ProvisioningError: cannot get 'http://h/i?x@y' nor oci://r/i@sha256:1"},
		},
		"adoption failed": {
			changes{in(provisioned)}, changes{in(provisioned), failing(metal3.ProvisionedRegistrationError, "x", 1)}, []string{"Warning ProvisionedRegistrationError: x"},
		},
		"inspection failed": {changes{in(inspecting)}, changes{in(inspecting), failing(metal3.InspectionError, "x", 1)}, []string{"Warning InspectionError: x"}},
		"power failed":      {changes{in(available)}, changes{in(available), failing(metal3.PowerManagementError, "x", 1)}, []string{"Warning PowerManagementError: x"}},
		"servicing failed":  {changes{in(provisioned)}, changes{in(provisioned), failing(metal3.ServicingError, "x", 1)}, []string{"Warning ServicingError: x"}},
		"detaching failed":  {changes{in(provisioned)}, changes{in(provisioned), failing(metal3.DetachError, "x", 1)}, []string{"Warning DetachError: x"}},
		"unknown error":     {changes{in(provisioned)}, changes{in(provisioned), failing("trouble", "x", 1)}, nil},

		"inspection begins": {changes{in(registering)}, changes{in(inspecting), inspect(since(0))}, []string{"Normal InspectionStarted: Inspection started"}},
		"inspection by somebody else": {
			changes{in(available), inspect(metric(0, 5))}, changes{in(inspecting), inspect(metric(0, 5))}, []string{"Normal InspectionStarted: Inspection started"},
		},
		"and its time": {changes{in(inspecting), inspect(metric(0, 5))}, changes{in(inspecting), inspect(since(9))}, nil},
		"inspection of a provisioned host": {
			changes{in(provisioned), inspect(metric(0, 5))}, changes{in(provisioned), inspect(since(9))},
			[]string{`Normal InspectionStarted: Inspection started in state "provisioned"`},
		},
		"inspection ends": {
			changes{in(inspecting), inspect(since(0))}, changes{in(inspecting), inspect(metric(0, 5)), hardware},
			[]string{"Normal InspectionComplete: Inspection complete after 5m0s: Dell Inc. R640, 48 CPUs (x86_64), 65536 MiB of RAM, 1 disk, 2 network interfaces"},
		},
		"inspection without inventory": {
			changes{in(inspecting), inspect(since(0))}, changes{in(inspecting), inspect(metric(0, 5))}, []string{"Normal InspectionComplete: Inspection complete after 5m0s"},
		},
		"adopted": {
			changes{in(preparing)}, changes{in(metal3.StateExternallyProvisioned), func(h *host) { h.Status.HardwareProfile = "unknown" }},
			[]string{`Normal ProfileSet: Hardware profile set to "unknown"`, "Normal ExternallyProvisioned: Adopted in Ironic as it is: the machine goes on running what is on it"},
		},
		"adopted already": {changes{in(metal3.StateExternallyProvisioned)}, changes{in(metal3.StateExternallyProvisioned), powered}, []string{"Normal PowerOn: The host is powered on, while spec.online is false"}},
		"one of each is found": {
			changes{in(inspecting), inspect(since(0))}, changes{in(inspecting), inspect(metric(0, 5)), hardware, func(h *host) {
				h.Status.HardwareDetails.CPU.Count, h.Status.HardwareDetails.NIC = 1, h.Status.HardwareDetails.NIC[:1]
			}},
			[]string{"Normal InspectionComplete: Inspection complete after 5m0s: Dell Inc. R640, 1 CPU (x86_64), 65536 MiB of RAM, 1 disk, 1 network interface"},
		},
		"prepared": {
			changes{in(inspecting), hardware}, changes{in(preparing), hardware, func(h *host) { h.Status.HardwareProfile = "unknown" }},
			[]string{`Normal ProfileSet: Hardware profile set to "unknown"`},
		},
		"hardware given": {
			changes{in(registering), annotated(metal3.HardwareDetailsAnnotation, "{}")}, changes{in(registering), hardware},
			[]string{"Normal UpdateHardwareDetails: Hardware details taken over: Dell Inc. R640, 48 CPUs (x86_64), 65536 MiB of RAM, 1 disk, 2 network interfaces"},
		},
		"inspection disabled": {
			changes{in(registering)}, changes{in(preparing), annotated(metal3.InspectAnnotation, "disabled")},
			[]string{"Normal InspectionSkipped: Inspection skipped: it is disabled"},
		},
		"inspected before": {
			changes{in(registering), hardware}, changes{in(preparing), hardware},
			[]string{"Normal InspectionSkipped: Inspection skipped: the hardware is known already"},
		},

		"provisioning begins": {
			changes{in(available), func(h *host) { h.Spec.Image = &metal3.Image{URL: "https://me:secret@h/i.qcow2?token=secret#x"} }},
			changes{in(provisioning), func(h *host) { h.Spec.Image = &metal3.Image{URL: "https://me:secret@h/i.qcow2?token=secret#x"} }, provision(since(0))},
			[]string{"Normal ProvisioningStarted: Provisioning started: image https://h/i.qcow2"},
		},
		"provisioning of who knows what": {
			changes{in(available)}, changes{in(provisioning), image("http://me:secret/word@h/")},
			[]string{"Normal ProvisioningStarted: Provisioning started: image with a URL that cannot be parsed"},
		},
		"provisioning of a live ISO": {
			changes{in(available)}, changes{in(provisioning), func(h *host) {
				format := metal3.LiveISO
				h.Spec.Image = &metal3.Image{URL: "http://h/live.iso", DiskFormat: &format}
			}},
			[]string{"Normal ProvisioningStarted: Provisioning started: live ISO http://h/live.iso"},
		},
		"custom deploy":             {changes{in(available)}, changes{in(provisioning), custom("install")}, []string{"Normal ProvisioningStarted: Provisioning started: custom deploy procedure install"}},
		"custom deploy of image":    {changes{in(available)}, changes{in(provisioning), image("oci://r/i"), custom("install")}, []string{"Normal ProvisioningStarted: Provisioning started: image oci://r/i, custom deploy procedure install"}},
		"deployed by somebody else": {changes{in(available)}, changes{in(provisioning)}, []string{"Normal ProvisioningStarted: Provisioning started"}},
		"provisioning ends": {
			changes{in(provisioning), provision(since(0))}, changes{in(provisioned), provision(metric(0, 7)), image("http://h/i")},
			[]string{"Normal ProvisioningComplete: Provisioning complete after 7m0s: image http://h/i"},
		},
		"provisioning ends unseen": {
			changes{in(available)}, changes{in(provisioned), provision(metric(0, 7)), image("http://h/i")},
			[]string{"Normal ProvisioningComplete: Provisioning complete after 7m0s: image http://h/i"},
		},
		"taken over": {changes{in(registering)}, changes{in(provisioned), image("http://h/i")}, nil},
		"provisioning failed": {
			changes{in(provisioning), provision(since(0))},
			changes{in(deprovisioning), provision(metric(0, 7)), failing(metal3.ProvisioningError, "no such image", 1), func(h *host) { h.Status.ProvisioningFailCount = 1 }},
			[]string{
				"Normal DeprovisioningStarted: Deprovisioning started, because provisioning failed",
				"Warning ProvisioningError: no such image",
			},
		},
		"image removed": {
			changes{in(provisioned), image("http://h/i")}, changes{in(deprovisioning), image("http://h/i")},
			[]string{"Normal DeprovisioningStarted: Deprovisioning started: image http://h/i"},
		},
		"deleted": {
			changes{in(provisioned), deleted}, changes{in(deprovisioning), deleted},
			[]string{"Normal DeprovisioningStarted: Deprovisioning started, because the host is deleted"},
		},
		"deprovisioned": {
			changes{in(deprovisioning), deprovision(since(0))}, changes{in(available), deprovision(metric(0, 2)), nodeIn("available")},
			[]string{"Normal DeprovisioningComplete: Deprovisioning complete after 2m0s"},
		},
		"deprovisioning taken back": {
			changes{in(deprovisioning), deprovision(since(0))}, changes{in(provisioned), deprovision(metric(0, 2)), nodeIn("active")},
			[]string{"Normal DeprovisioningCancelled: Deprovisioning was cancelled before it began: the spec asks for what the machine runs"},
		},
		"deprovisioning taken back, perhaps too late": {
			changes{in(deprovisioning), deprovision(since(0))}, changes{in(provisioned), deprovision(metric(0, 2)), nodeIn("manageable"), func(h *host) {
				h.Status.Record.Deployment = &metal3.Deployment{Gone: &metal3.GoneDeployment{}}
			}},
			[]string{"Normal DeprovisioningCancelled: Deprovisioning was cancelled, because the spec asks for what the machine ran. It may have begun"},
		},
		"deprovisioned for deletion": {
			changes{in(deprovisioning), deleted}, changes{in(metal3.StatePoweringOffBeforeDelete), deleted, nodeIn("available")},
			[]string{"Normal DeprovisioningComplete: Deprovisioning complete"},
		},
		"deprovisioning given up": {
			changes{in(deprovisioning), deleted, failing(metal3.ProvisioningError, "x", 3), func(h *host) { h.Status.Record.MachineErrors = 3 }},
			changes{in(metal3.StatePoweringOffBeforeDelete), deleted, nodeIn("clean failed"), failing(metal3.ProvisioningError, "x", 0)},
			[]string{"Warning DeprovisioningAbandoned: The host is deleted without being deprovisioned, after 3 errors of its machine: its disks may hold data"},
		},

		"power on":  {changes{in(available), online}, changes{in(available), online, powered}, []string{"Normal PowerOn: The host is powered on"}},
		"power off": {changes{in(provisioned), powered}, changes{in(provisioned)}, []string{"Normal PowerOff: The host is powered off"}},
		"power cut": {changes{in(provisioned), online, powered}, changes{in(provisioned), online}, []string{"Normal PowerOff: The host is powered off, while spec.online is true"}},
		"power cut, late": {
			changes{in(provisioned), online, powered, func(h *host) { h.Status.Record.AskedPower = &metal3.AskedPower{Target: "power off"} }}, changes{in(provisioned), online},
			[]string{"Normal PowerOff: The host is powered off, by a request (power off) that this server made before spec.online became true, and that Ironic has carried out late"},
		},
		"power cut, as asked for": {
			changes{in(provisioned), online, powered, annotated(metal3.RebootAnnotation, "")}, changes{in(provisioned), online, annotated(metal3.RebootAnnotation, "")},
			[]string{"Normal PowerOff: The host is powered off, because of the annotation reboot.metal3.io"},
		},
		"power cut, as Ironic was asked": {
			changes{in(provisioned), online, powered, rebooting}, changes{in(provisioned), online},
			[]string{"Normal PowerOff: The host is powered off, because Ironic was asked to reboot it"},
		},
		"a reboot": {
			changes{in(provisioned), online, powered}, changes{in(provisioned), online, powered, annotated(metal3.RebootAnnotation, `{"mode":"hard"}`), setByClient("kubectl-annotate", metal3.RebootAnnotation)},
			[]string{"Normal RebootRequested: Annotation reboot.metal3.io, set by kubectl-annotate, asks for a hard reboot"},
		},
		"fenced": {
			changes{in(provisioned), online, powered}, changes{in(provisioned), online, powered, annotated(metal3.RebootAnnotationPrefix+"fence", "")},
			[]string{"Normal RebootRequested: Annotation reboot.metal3.io/fence asks for the host to be off (soft) until it is removed"},
		},
		"fenced twice": {
			changes{in(provisioned), online, powered}, changes{in(provisioned), online, powered, annotated(metal3.RebootAnnotationPrefix+"fence", `{"mode":"hard"}`), annotated(metal3.RebootAnnotation, "")},
			[]string{"Normal RebootRequested: Annotations reboot.metal3.io and reboot.metal3.io/fence ask for the host to be off (hard) until they are removed"},
		},
		"switched on by hand":            {changes{in(available)}, changes{in(available), powered}, []string{"Normal PowerOn: The host is powered on, while spec.online is false"}},
		"at work on the node":            {changes{in(available), online, powered}, changes{in(available), online, nodeIn("cleaning")}, nil},
		"work on the node is over":       {changes{in(available), online, powered, nodeIn("clean wait")}, changes{in(available), online, nodeIn("available")}, nil},
		"switched for inspection":        {changes{in(inspecting), online}, changes{in(inspecting), online, powered}, nil},
		"switched for cleaning":          {changes{in(preparing), online, powered}, changes{in(preparing), online}, nil},
		"arrived, switched off":          {changes{in(preparing), online, powered}, changes{in(available), online}, nil},
		"spec.online restored":           {changes{in(available), online, arrivedBefore(20 * time.Second)}, changes{in(available), online, powered, arrivedBefore(21 * time.Second)}, nil},
		"power cut just after arrival":   {changes{in(available), online, powered, arrivedBefore(20 * time.Second)}, changes{in(available), online, arrivedBefore(21 * time.Second)}, []string{"Normal PowerOff: The host is powered off, while spec.online is true"}},
		"switched on long after arrival": {changes{in(available), online, arrivedBefore(time.Hour)}, changes{in(available), online, powered, arrivedBefore(time.Hour)}, []string{"Normal PowerOn: The host is powered on"}},
		"switched off for its deletion":  {changes{in(metal3.StatePoweringOffBeforeDelete), powered, deleted}, changes{in(metal3.StatePoweringOffBeforeDelete), deleted}, nil},
		"found switched on":              {changes{in(registering), online}, changes{in(registering), online, powered}, nil},

		"detached": {
			changes{in(provisioned)}, changes{in(provisioned), detached},
			[]string{`Normal Detached: Taken out of Ironic; the machine is left as it is, and so is the state "provisioned"`},
		},
		"attached": {changes{in(provisioned), detached}, changes{in(provisioned)}, []string{"Normal Attached: Managed again: the host is registered in Ironic anew"}},

		"moved to another Ironic": {
			changes{in(provisioned), func(h *host) { h.Status.Record.Transfer = &metal3.Transfer{To: "room-b"} }},
			changes{in(provisioned), func(h *host) { h.Status.Record.Ironic = "room-b" }},
			[]string{`Normal Transferred: Moved from the Ironic of the server's flags to IronicInstance "room-b", where it is registered anew; the machine is left as it is, and so is the state "provisioned"`},
		},
		"registered in an Ironic": {changes{in(provisioned)}, changes{in(provisioned), func(h *host) { h.Status.Record.Ironic = "room-b" }}, nil},

		"status restored": {
			changes{annotated(metal3.StatusAnnotation, "{}")},
			changes{in(provisioned), provision(metric(0, 7)), hardware, good("bmc", "1"), powered, failing(metal3.PowerManagementError, "x", 1)}, nil,
		},
		"another of the same name": {
			changes{in(provisioned), powered, image("http://h/i"), func(h *host) { h.UID = "other" }}, changes{in(registering)}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, e := range Changes(made(tt.old...), made(tt.new...)) {
				got = append(got, e.Type+" "+e.Reason+": "+e.Message)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for _, e := range got {
				if strings.Contains(e, "secret") {
					t.Errorf("a password is told: %s", e)
				}
			}
		})
	}
}

func TestChangesOfNewHosts(t *testing.T) {
	if got := Changes(nil, made()); got != nil {
		t.Errorf("a new host: %v", got)
	}
	if got := Changes(nil, made(in(metal3.StateUnmanaged))); len(got) != 1 || got[0].Reason != "Discovered" {
		t.Errorf("a new host without BMC: %v", got)
	}
	if got := Changes(made(), nil); got != nil {
		t.Errorf("no host: %v", got)
	}
}
