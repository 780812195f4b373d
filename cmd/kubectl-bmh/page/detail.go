// SPDX-License-Identifier: Apache-2.0

package page

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"

	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/consumers"
	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/why"
)

// Right is something that the user may do to hosts of a namespace.
type Right string

// The rights. Those of actions are called like the subresources.
const (
	RightCreateHosts   Right = "createHosts"
	RightCreateSecrets Right = "createSecrets"
	RightChange        Right = "change"
	RightDelete        Right = "delete"
	RightPower         Right = "power"
	RightInspect       Right = "inspect"
	RightRetry         Right = "retry"
	RightRebuild       Right = "rebuild"
	RightMaintenance   Right = "maintenance"
	RightIndicator     Right = "indicator"
	RightNMI           Right = "nmi"
	RightConsole       Right = "console"
)

// Detail is what the page shows of one host.
type Detail struct {
	Row
	UID             string      `json:"uid"`
	ResourceVersion string      `json:"resourceVersion"`
	Created         metav1.Time `json:"created"`
	Description     string      `json:"description,omitempty"`
	BootMAC         string      `json:"bootMAC,omitempty"`
	BootMode        string      `json:"bootMode,omitempty"`
	Image           string      `json:"image,omitempty"`
	NodeUUID        string      `json:"nodeUUID,omitempty"`
	IronicState     string      `json:"ironicState,omitempty"`
	CustomDeploy    string      `json:"customDeploy,omitempty"`
	IsDetached      bool        `json:"isDetached,omitempty"`
	InMaintenance   bool        `json:"inMaintenance,omitempty"`
	// KeepsDisks is set if the disks are not cleaned when what runs is removed.
	KeepsDisks bool `json:"keepsDisks,omitempty"`
	// Deletion says what becomes of the machine if the host is deleted.
	Deletion    string                  `json:"deletion"`
	Explanation []string                `json:"explanation"`
	Conditions  []Condition             `json:"conditions"`
	Hardware    *metal3.HardwareDetails `json:"hardware,omitempty"`
	Timeline    []Entry                 `json:"timeline"`
	// Operations are the last registration, inspection, and so on, the earliest first.
	Operations []Operation `json:"operations"`
	// Commands are what to type to see more of the host, and of its Machine and Node.
	Commands []string `json:"commands"`
	// YAML is the host as kubectl get -o yaml shows it, without passwords in URLs.
	YAML string `json:"yaml"`
	// Missing says what the user may not read, or what could not be read.
	Missing []string `json:"missing,omitempty"`
}

// Entry is something that happened to a host.
type Entry struct {
	Time time.Time `json:"time"`
	// Source is "event" for what was recorded in the cluster, and "Ironic" for what is in Ironic's
	// history of the node.
	Source    string `json:"source"`
	IsWarning bool   `json:"isWarning"`
	Title     string `json:"title"`
	Message   string `json:"message"`
	// Count is how often it happened, if more than once.
	Count int32 `json:"count,omitempty"`
}

// NewDetail returns what the page shows of a host.
func NewDetail(facts why.Facts, behind consumers.Consumer, missing []string, now time.Time) *Detail {
	host := facts.Host
	detail := &Detail{
		Row: rowOf(host, behind), UID: string(host.UID), ResourceVersion: host.ResourceVersion, Created: host.CreationTimestamp,
		Description: host.Spec.Description, BootMAC: host.Spec.BootMACAddress, BootMode: string(host.BootMode()),
		NodeUUID:    host.Status.Provisioning.ID,
		Explanation: why.Explain(facts, now), Conditions: conditionsOf(host), Hardware: host.Status.HardwareDetails,
		Timeline: timelineOf(facts), Missing: missing, Operations: operationsOf(host), Commands: commandsOf(host, behind), YAML: yamlOf(host),
		KeepsDisks: keepsDisks(host), Deletion: deletionOf(host),
	}
	if host.Spec.CustomDeploy != nil {
		detail.CustomDeploy = host.Spec.CustomDeploy.Method
	}
	if host.Spec.Image != nil {
		detail.Image = withoutPassword(host.Spec.Image.URL)
	}
	_, detail.IsDetached = host.Annotations[metal3.DetachedAnnotation]
	if node := host.Status.Ironic; node != nil {
		detail.IronicState, detail.InMaintenance = node.ProvisionState, node.Maintenance
		if node.TargetProvisionState != "" {
			detail.IronicState += " → " + node.TargetProvisionState
		}
	}
	return detail
}

func keepsDisks(host *metal3.BareMetalHost) bool {
	return host.Spec.AutomatedCleaningMode == metal3.CleaningModeDisabled
}

// deletionOf says what becomes of the machine of a host that is deleted: nextOfDeleted in pkg/ironicsync/lifecycle.
func deletionOf(host *metal3.BareMetalHost) string {
	saved := &host.Status.Provisioning
	_, isDetached := host.Annotations[metal3.DetachedAnnotation]
	runsOurs := saved.Image.URL != "" || saved.CustomDeploy != nil && saved.CustomDeploy.Method != ""
	runsOthers := host.Status.Ironic != nil && ironic.ProvisionState(host.Status.Ironic.ProvisionState).IsDeployed()
	switch saved.State {
	case metal3.StateProvisioned, metal3.StateProvisioning, metal3.StateDeprovisioning:
		if isDetached || saved.State == metal3.StateProvisioned && !runsOurs {
			break
		}
		text := "What was deployed on the machine is removed first, and its disks are cleaned."
		if keepsDisks(host) {
			text = "What was deployed on the machine is ended first. Its disks are not cleaned (automatedCleaningMode)."
		}
		if host.Spec.DisablePowerOff {
			return text + " To keep it running, detach the host first."
		}
		return text + " Then the machine is switched off. To keep it running, detach the host first."
	}
	switch {
	case isDetached:
		return "The machine goes on as it is, because the host is detached."
	case saved.State == metal3.StateNone, saved.State == metal3.StateUnmanaged, saved.State == metal3.StateRegistering:
		return "The machine goes on as it is."
	case runsOthers && saved.State != metal3.StateExternallyProvisioned:
		return "The machine goes on as it is, because somebody has deployed it in Ironic directly."
	case host.Spec.DisablePowerOff:
		return "The machine goes on as it is, because it must not be switched off (disablePowerOff)."
	}
	return "The machine is switched off at once, whatever runs on it, and its disks stay as they are. To keep it running, detach the host first."
}

// withoutPassword hides the password in a URL, for those who look over a shoulder or at a screenshot.
func withoutPassword(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "(not a valid URL)"
	}
	return u.Redacted()
}

// timelineOf puts the events and Ironic's history in one order, newest first.
func timelineOf(facts why.Facts) []Entry {
	entries := []Entry{}
	for i := range facts.Events {
		event := &facts.Events[i]
		entry := Entry{
			Time: why.EventTime(event), Source: "event", IsWarning: event.Type == corev1.EventTypeWarning,
			Title: event.Reason, Message: event.Message, Count: event.Count,
		}
		if event.Series != nil {
			entry.Count = event.Series.Count
		}
		entries = append(entries, entry)
	}
	for _, event := range facts.History {
		entries = append(entries, Entry{
			Time: event.Time.Time, Source: "Ironic", IsWarning: event.Severity == "ERROR", Title: event.Type, Message: event.Message,
		})
	}
	slices.SortStableFunc(entries, func(a, b Entry) int { return b.Time.Compare(a.Time) })
	return entries
}

// Condition is a condition of a host in words.
type Condition struct {
	Type    string      `json:"type"`
	Text    string      `json:"text"`
	IsBad   bool        `json:"isBad"`
	Since   metav1.Time `json:"since"`
	Message string      `json:"message,omitempty"`
}

// conditionWords are what conditions mean when they are True and False. The one that is a problem, if
// any, begins with "!".
var conditionWords = map[string][2]string{
	metal3.RegisteredCondition:               {"Ironic has the host as its spec says", "!Ironic does not have the host as its spec says"},
	metal3.ManageableCondition:               {"The BMC answers", "The BMC cannot be used yet"},
	metal3.AvailableForProvisioningCondition: {"An image can be written to it", "No image can be written to it now"},
	metal3.ProvisionedCondition:              {"It runs an image", "It runs no image"},
	metal3.ReadyCondition:                    {"It runs an image and has no error", "It is not ready for use"},
	metal3.ProgressingCondition:              {"Something is being done with it", "Nothing is being done with it"},
	metal3.HealthyCondition:                  {"The BMC reports that the hardware is well", "!The BMC reports that the hardware is not well"},
	metal3.IronicReachableCondition:          {"Ironic answers", "!Ironic does not show the host, so this is the last known state"},
	metal3.InventoryReadCondition:            {"The result of the inspection was read", "!The result of the inspection cannot be used"},
	metal3.ImageBuiltCondition:               {"Its ramdisk image is built", "!It waits for its ramdisk image"},
	metal3.NetworkInterfacesValidCondition:   {"Ironic has its switch ports", "!Its switch ports cannot be configured"},
	metal3.PowerSyncedCondition:              {"Ironic watches the power", "Ironic does not watch the power"},
	metal3.HeldCondition:                     {"!It is held: nothing is done to the machine until a contradiction is solved", "It is not held"},
	metal3.InMaintenanceCondition:            {"!It is in maintenance: nothing is done with it until that ends", "It is not in maintenance"},
	metal3.MachineUniqueCondition:            {"No other host has such a machine", "Another host's machine reports some of the same identity"},
	metal3.StepFailedCondition:               {"!The last step failed", "The last step did not fail"},
}

// conditionsOf returns the conditions in words, problems first.
func conditionsOf(host *metal3.BareMetalHost) []Condition {
	conditions := []Condition{}
	for _, c := range host.Status.Conditions {
		condition := Condition{Type: c.Type, Since: c.LastTransitionTime, Message: c.Message}
		words, isKnown := conditionWords[c.Type]
		switch {
		case isKnown && c.Status == metav1.ConditionTrue:
			condition.Text, condition.IsBad = strings.CutPrefix(words[0], "!")
		case isKnown && c.Status == metav1.ConditionFalse:
			condition.Text, condition.IsBad = strings.CutPrefix(words[1], "!")
		default:
			condition.Text = c.Type + ": " + strings.ToLower(string(c.Status))
		}
		conditions = append(conditions, condition)
	}
	slices.SortStableFunc(conditions, func(a, b Condition) int {
		if a.IsBad != b.IsBad {
			return map[bool]int{true: -1, false: 1}[a.IsBad]
		}
		return cmp.Compare(a.Type, b.Type)
	})
	return conditions
}
