// SPDX-License-Identifier: Apache-2.0

package why

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/failure"

	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/hosts"
)

// Facts are what is known of a host. All but the host can be missing.
type Facts struct {
	Host   *metal3.BareMetalHost
	Events []corev1.Event
	// History is what Ironic has recorded about the node, in any order.
	History []metal3.HistoryEvent
	// Interfaces says which of the node's interfaces, such as deploy or power, Ironic could use.
	Interfaces []metal3.InterfaceValidation
}

// needed are the interfaces without which a host cannot be provisioned, in the order in which
// mistakes are best corrected.
var needed = []string{"power", "management", "boot", "deploy", "network", "inspect"}

// Explain returns the explanation of a host, in paragraphs: what it does, what is wrong, what would
// help, and what was recorded last.
func Explain(f Facts, now time.Time) []string {
	e := &hostExplanation{explanation: explanation{now: now}, subject: subject{f.Host}, Facts: f}
	e.state()
	e.transfer()
	e.blocks()
	before := len(e.paragraphs)
	e.problem()
	e.hasProblem = len(e.paragraphs) > before
	e.powerMismatch()
	e.waiting()
	e.validation()
	e.recorded()
	return e.paragraphs
}

// hostExplanation is the explanation of a host.
type hostExplanation struct {
	explanation
	subject
	Facts
	// hasProblem is set when something was said that may be wrong with the host, even if it goes on.
	hasProblem bool
}

// explanation is an explanation that is being written, of a host or of an Ironic.
type explanation struct {
	now        time.Time
	paragraphs []string
	// isExplained is set when a reason was found why it does not go on, so that guesses are not added.
	isExplained bool
	// shown are the texts of errors that were quoted already.
	shown []string
}

func (e *explanation) say(format string, args ...any) {
	e.paragraphs = append(e.paragraphs, fmt.Sprintf(format, args...))
}

// explain says why it does not go on.
func (e *explanation) explain(format string, args ...any) {
	e.isExplained = true
	e.say(format, args...)
}

// quote returns an error message as part of a sentence, and remembers it.
func (e *explanation) quote(message string) string {
	e.shown = append(e.shown, message)
	return strings.TrimRight(strings.TrimSpace(message), ".")
}

func (e *explanation) isShown(message string) bool {
	return slices.ContainsFunc(e.shown, func(s string) bool {
		return strings.Contains(s, message) || message != "" && strings.Contains(message, s)
	})
}

// ago returns for example "4m ago", or an empty text for the zero time.
func (e *explanation) ago(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return duration.HumanDuration(max(0, e.now.Sub(t))) + " ago"
}

// lasting returns for example " for 4m", or an empty text for the zero time.
func (e *explanation) lasting(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return " for " + duration.HumanDuration(max(0, e.now.Sub(t)))
}

// state says what the host is doing.
func (e *hostExplanation) state() {
	host := e.host
	since := e.lasting(hosts.Since(host))
	if host.DeletionTimestamp != nil {
		e.say("%s is being deleted%s. %s", host.Name, since, e.deletion())
		e.asked()
		return
	}
	if host.IsDetached() {
		e.explain("%s is detached: it has the annotation %s, and Ironic does not know it. The machine is left as it is. Remove the annotation to have it registered again.", host.Name, metal3.DetachedAnnotation)
		return
	}
	text, known := stateTexts[host.Status.Provisioning.State]
	if !known {
		text = fmt.Sprintf("has been in the state %q%%s", host.Status.Provisioning.State)
	}
	if c := e.condition(metal3.ProvisionedCondition, metav1.ConditionFalse); c != nil && c.Reason == metal3.DeploymentGoneReason {
		text = "has been " + string(host.Status.Provisioning.State) + "%s, but it may not run that any more"
	}
	if d := host.Status.Record.Deployment; d != nil && d.Rebuild != nil {
		text = "is being rebuilt%s: its image is written to it again, without cleaning its disks"
	}
	text = fmt.Sprintf(text, since)
	doing := ""
	if progress := hosts.ProgressOf(host); progress.Activity != "" {
		doing = " Ironic is at it: " + progressText(progress) + "."
	}
	e.say("%s %s.%s%s", host.Name, text, doing, e.consumer())
	e.asked()
}

// asked says what Ironic may still carry out, and what waits for that.
func (e *hostExplanation) asked() {
	host := e.host
	if asked := host.Status.Record.Asked; asked != nil && (asked.ProvisionState == e.ironicState() || asked.Times > 1) {
		e.say("Ironic was asked to make the node %s %s, and has not been seen to do it. It still may, so nothing that this would undo is begun for another %s.", targetTexts[asked.Target], e.ago(asked.At.Time), e.left(asked.At.Time))
	}
	if asked := host.Status.Record.AskedPower; asked != nil && host.Spec.Online && !host.Status.PoweredOn && host.DeletionTimestamp == nil {
		e.say("Ironic was asked for %q %s, and has not been seen to do it. It still may, so the machine is not switched on for another %s.", asked.Target, e.ago(asked.At.Time), e.left(asked.At.Time))
	}
	e.fenced()
}

// fenced says why a machine that is off is not shown so.
func (e *hostExplanation) fenced() {
	host, node := e.host, e.host.Status.Ironic
	if node == nil || node.PowerState != "power off" || !host.Status.PoweredOn {
		return
	}
	deployment := host.Status.Record.Deployment
	switch asked := host.Status.Record.PowerOns; {
	case e.ironicState() == "servicing" || e.ironicState() == "service wait":
		e.say("The machine is off, and not shown so: Ironic changes its settings, and has it on in the end. Do not take the machine for fenced before it is switched off after that.")
	case deployment != nil && deployment.Rebuild != nil && (e.ironicState() == "deploying" || e.ironicState() == "wait call-back"):
		e.say("The machine is off, and not shown so: Ironic writes its image again, and has it on in the end. Do not take the machine for fenced before it is switched off after that.")
	case len(asked) > 0:
		last := asked[len(asked)-1].At.Time
		e.say("The machine is off, and not shown so yet: Ironic was asked to switch it on %s, and has not answered. It still may, for another %s. Do not take the machine for fenced before that.", e.ago(last), e.left(last))
	}
}

// left is for how long what was asked of Ironic at a time may still be carried out.
func (e *explanation) left(asked time.Time) time.Duration {
	return min(max(0, asked.Add(metal3.AskedLimit).Sub(e.now)), metal3.AskedLimit).Round(time.Second) // the clocks may differ
}

// targetTexts say what a node is to be made by a transition that may be carried out late.
var targetTexts = map[string]string{
	"active": "run an image", "rebuild": "write its image again", "deleted": "run nothing any more", "clean": "apply settings or carry out clean steps", "service": "change settings while it runs",
}

// stateTexts say what a host does in a state. The %s is for how long.
var stateTexts = map[metal3.ProvisioningState]string{
	metal3.StateNone:                    "has been new%s, and nobody has looked at it yet",
	metal3.StateUnmanaged:               "has not been managed%s, because its spec has no address of a BMC (spec.bmc)",
	metal3.StateRegistering:             "is being registered%s: Ironic verifies that it has access to the BMC",
	metal3.StateInspecting:              "is being inspected%s: a ramdisk or the BMC reports the hardware",
	metal3.StatePreparing:               "is being prepared%s, and becomes available then",
	metal3.StateAvailable:               "has been available%s: an image can be written to it",
	metal3.StateReady:                   "has been available%s: an image can be written to it",
	metal3.StateProvisioning:            "is being provisioned%s: its disks are cleaned and an image is written to them",
	metal3.StateProvisioned:             "has been provisioned%s: it runs its image",
	metal3.StateExternallyProvisioned:   "has been externally provisioned%s: it runs what was on it, and its disks are never written to",
	metal3.StateDeprovisioning:          "is being deprovisioned%s: its image is removed and its disks are cleaned",
	metal3.StatePoweringOffBeforeDelete: "is being powered off%s, before it is deleted",
	metal3.StateDeleting:                "is being removed from Ironic%s",
}

func progressText(p hosts.Progress) string {
	text := p.Activity
	if p.Step == "" {
		switch p.Activity {
		case "clean", "deploy", "service", "inspect":
			return text + ", no step of it runs yet"
		}
		return text
	}
	name := ""
	if p.IsStepNamed() {
		name = p.Step
	}
	switch {
	case p.Count > 0 && name != "":
		return fmt.Sprintf("%s, step %d of %d, %s", text, p.Index, p.Count, name)
	case p.Count > 0:
		return fmt.Sprintf("%s, step %d of %d", text, p.Index, p.Count)
	case name != "":
		return text + ", step " + name
	}
	return text
}

func (s subject) consumer() string {
	ref := s.host.Spec.ConsumerRef
	if ref == nil || ref.Name == "" {
		return ""
	}
	return fmt.Sprintf(" It is used by %s %s.", ref.Kind, ref.Name)
}

// deletion says what a deletion waits for.
func (e *hostExplanation) deletion() string {
	var others []string
	for _, finalizer := range e.host.Finalizers {
		if finalizer != metal3.BareMetalHostFinalizer {
			others = append(others, finalizer)
		}
	}
	ironic := e.host.Status.Ironic
	detached, isDetached := e.host.Annotations[metal3.DetachedAnnotation]
	args, _ := metal3.ParseDetachedAnnotation(detached)
	switch {
	case len(others) > 0 && !slices.Contains(e.host.Finalizers, metal3.BareMetalHostFinalizer):
		e.isExplained = true
		return "It is gone from Ironic, and waits until whoever has set " + strings.Join(others, ", ") + " in metadata.finalizers removes it."
	case isDetached && args.DeleteAction == metal3.DetachedDeleteActionDelay:
		e.isExplained = true
		return fmt.Sprintf("That waits, because its annotation %s says so (deleteAction: delay). To let it go and leave the machine as it is: kubectl annotate bmh %s -n %s %s= --overwrite. "+
			"If the annotation is removed instead, what this server has provisioned is undeployed, and its disks are cleaned.", metal3.DetachedAnnotation, e.host.Name, e.host.Namespace, metal3.DetachedAnnotation)
	case ironic == nil && !isDetached && mayHaveToBeCleaned(e.host.Status.Provisioning.State):
		return "Ironic has no node of it, which is created again first if the machine has to be undeployed and its disks cleaned."
	case ironic == nil:
		return "It is about to go: Ironic has no node of it."
	}
	return fmt.Sprintf("Ironic has its node in the state %q.", ironic.ProvisionState)
}

// mayHaveToBeCleaned reports whether a host in a state may run what this server has provisioned.
func mayHaveToBeCleaned(state metal3.ProvisioningState) bool {
	return state == metal3.StateProvisioning || state == metal3.StateProvisioned || state == metal3.StateDeprovisioning
}

// powerMismatch says that the power is not as the spec asks for.
func (e *hostExplanation) powerMismatch() {
	ironic := e.host.Status.Ironic
	switch {
	case ironic == nil || e.host.IsDetached() || e.host.DeletionTimestamp != nil:
	case ironic.Forgotten: // which is the host's error
	case ironic.TargetPowerState != "":
		e.say("Ironic is %s.", hosts.PowerChange(e.host))
	case strings.HasSuffix(hosts.Power(e.host), "!"):
		e.say("Its power is %s, and spec.online asks for %s.%s", strings.TrimSuffix(hosts.Power(e.host), "!"), onOff(e.host.Spec.Online), e.powerReason())
	}
}

func (s subject) powerReason() string {
	for key := range s.host.Annotations {
		if strings.HasPrefix(key, metal3.RebootAnnotationPrefix) {
			return " The annotation " + key + " keeps it off."
		}
	}
	if d := s.host.Status.Record.Deployment; d != nil && d.KeepPower {
		return " It ran when it was taken over, and is left on until spec.online changes or somebody switches its power."
	}
	return ""
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// longWait is after which time a ramdisk that has not called is worth a remark. Servers with much
// memory take ten minutes to boot.
const longWait = 15 * time.Minute

// waiting says what would bring the host further, if nothing is wrong with it.
func (e *hostExplanation) waiting() {
	host := e.host
	switch {
	case e.isExplained:
		return
	case host.DeletionTimestamp != nil: // it wants nothing but to go
		e.waitingForNode()
		return
	}
	switch state := host.Status.Provisioning.State; {
	case host.Status.OperationalStatus == metal3.OperationalStatusDelayed:
		e.say("It waits for its turn: the server works on as many hosts as it may at a time (--provisioning-limit), or requests as many deployments as it may. If that lasts, look at those hosts, and at the server of their images. It goes on by itself.")
	case state == metal3.StateUnmanaged:
		e.say("Set spec.bmc.address and spec.bmc.credentialsName to have it managed.")
	case state == metal3.StateAvailable && wantsImage(host) && !host.Spec.Online:
		e.say("An image is asked for, but spec.online is false: to switch it on: %s", e.command("power on"))
	case state == metal3.StateAvailable && !wantsImage(host) && host.Status.OperationalStatus != metal3.OperationalStatusError:
		e.say("It waits for an image: nothing happens until spec.image is set.")
	case e.waitingForNode():
	case hosts.IsBusy(host):
		goesOn := "Nothing is wrong: it goes on by itself."
		if e.hasProblem {
			goesOn = "It goes on by itself."
		}
		e.say("%s To see how far it is: %s --for %s", goesOn, e.command("wait"), next(state))
	}
}

// waitingForNode says what keeps Ironic from going on with the node, and reports whether something may.
func (e *hostExplanation) waitingForNode() bool {
	host, since := e.host, hosts.Since(e.host)
	switch {
	case isRamdiskWait(e.ironicState()) && hosts.ProgressOf(host).Step == "" && !since.IsZero() && e.now.Sub(since) > longWait:
		e.say("The ramdisk has not called Ironic yet. Look at the console of the machine, at DHCP, and at the URL of the ramdisk. Ironic gives up by itself after half an hour.")
	case host.Status.Ironic != nil && host.Status.Ironic.Reservation != "":
		e.say("The conductor %s of Ironic is working on the node at the moment. If it has died, whoever administers Ironic starts one with its name.", host.Status.Ironic.Reservation)
	default:
		return false
	}
	return true
}

func wantsImage(host *metal3.BareMetalHost) bool {
	return host.Spec.Image != nil && host.Spec.Image.URL != "" || host.Spec.CustomDeploy != nil
}

func isRamdiskWait(ironicState string) bool {
	return ironicState == "inspect wait" || ironicState == "clean wait" || ironicState == "wait call-back" || ironicState == "service wait"
}

func next(state metal3.ProvisioningState) hosts.Target {
	switch state {
	case metal3.StateProvisioning:
		return hosts.Provisioned
	case metal3.StateProvisioned, metal3.StateExternallyProvisioned:
		return hosts.Idle
	}
	return hosts.Available
}

// validation says which interfaces Ironic could not use.
func (e *hostExplanation) validation() {
	for _, name := range needed {
		for _, i := range e.Interfaces {
			// The server tells Ironic of the image when it deploys it, so Ironic misses it of each node that is not being deployed.
			meaning, _ := failure.Of(i.Reason)
			if i.Name == name && i.Result == metal3.InterfaceUnusable && meaning.Kind != failure.NoImageYet && !e.isShown(i.Reason) {
				e.say("Ironic could not use its %s interface: %s.", i.Name, e.quote(i.Reason))
			}
		}
	}
}

// recorded says what Ironic and the server have recorded last, if it was not said yet.
func (e *hostExplanation) recorded() {
	var last metal3.HistoryEvent
	for _, entry := range e.History {
		if entry.Severity == "ERROR" && entry.Time.After(last.Time.Time) {
			last = entry
		}
	}
	if last.Message != "" && !e.isShown(last.Message) {
		e.say("The last error in Ironic's history of the node, %s: %s.", e.ago(last.Time.Time), e.quote(last.Message))
	}
	if event, at := latest(e.Events); event != nil && !e.isShown(inARow.ReplaceAllString(event.Message, "")) {
		kind := "event"
		if event.Type == corev1.EventTypeWarning {
			kind = "event, a warning"
		}
		e.say("The last %s, %s: %s.", kind, e.ago(at), e.quote(event.Message))
	}
}

// inARow is what the server adds to the event of an error that has happened again.
var inARow = regexp.MustCompile(` \(error [0-9]+ in a row\)$`)

// latest returns the event that happened last.
func latest(events []corev1.Event) (*corev1.Event, time.Time) {
	var last *corev1.Event
	var lastTime time.Time
	for i := range events {
		if at := EventTime(&events[i]); last == nil || at.After(lastTime) {
			last, lastTime = &events[i], at
		}
	}
	return last, lastTime
}

// EventTime returns when an event happened the last time.
func EventTime(event *corev1.Event) time.Time {
	switch {
	case event.Series != nil && !event.Series.LastObservedTime.IsZero():
		return event.Series.LastObservedTime.Time
	case !event.LastTimestamp.IsZero():
		return event.LastTimestamp.Time
	case !event.EventTime.IsZero():
		return event.EventTime.Time
	}
	return event.CreationTimestamp.Time
}
