// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// turbo is the BIOS of a machine with one setting, of which the user wants another value.
func turbo(s *situation, has, wanted string) {
	s.Firmware, s.Schema = &metal3.HostFirmwareSettings{}, &metal3.FirmwareSchema{}
	s.Firmware.Spec.Settings = metal3.DesiredSettingsMap{"Turbo": intstr.FromString(wanted)}
	s.Firmware.Status.Settings = metal3.SettingsMap{"Turbo": has}
	s.Schema.Spec.Schema = map[string]metal3.SettingSchema{"Turbo": {AttributeType: metal3.SettingString}}
}

var onReboot = &metal3.HostUpdatePolicySpec{FirmwareSettings: metal3.UpdateOnReboot}

// servicing is a host whose service was requested when the state of its node was last changed at
// stateTime.
func servicing(phase metal3.PreparationPhase, change ...func(*metal3.Servicing)) hostOption {
	return func(h *metal3.BareMetalHost) {
		at := metav1.NewMicroTime(stateTime)
		h.Status.Record.Servicing = &metal3.Servicing{Preparation: metal3.Preparation{
			NodeUUID: "u", Phase: phase, StartedAt: WholeSeconds(now), StateChangedAt: &at, Steps: []string{"bios.apply_configuration"},
			FirmwareSettings: metal3.SettingsMap{"Turbo": "off"},
		}}
		for _, c := range change {
			c(h.Status.Record.Servicing)
		}
	}
}

func serviceEnded(s *metal3.Servicing) { at := WholeSeconds(now); s.EndedAt = &at }
func isLeaving(s *metal3.Servicing)    { s.Leaving = true }

// stateTime is when the nodes of these tests came into their state.
var stateTime = now.Add(-time.Hour)

// TestServicing has the steps around a service, for which the tables by state have no column.
// unread is that Ironic does not give the BIOS settings of the machine.
func unread(s *situation) { s.Firmware, s.Schema, s.SettingsUnread = nil, nil, "no list" }

func TestServicing(t *testing.T) {
	reported := withStepError(metal3.ServicingError, "no")
	external := []hostOption{withState(metal3.StateExternallyProvisioned), externallyProvisioned}
	failed := fault(ironic.FaultServiceFailure)
	reboot := annotated(metal3.RebootAnnotation, "")
	forced := annotated(metal3.RebootAnnotation, `{"force":true}`)
	heldOff := annotated(metal3.RebootAnnotationPrefix+"fence", `{"mode":"hard"}`)
	done := servicing(metal3.PreparationSucceeded, serviceEnded)
	recorded := servicing(metal3.PreparationSucceeded, serviceEnded, func(s *metal3.Servicing) { s.FirmwareSettings = nil })
	noPolicy := func(s *situation) { s.Policy = nil }
	applied := func(s *situation) { turbo(s, "off", "off") }
	newer := func(s *situation) { s.CanAbortService = true }
	image := func(image Image) func(*situation) { return func(s *situation) { s.Image = &image } }
	awaits, given := awaitingImage(awaitedImage.Waiting), awaitingImage(imageNotGiven)
	const noImage = "PreprovisioningImage host-0: no space left. The host is switched on without the change"
	for name, tt := range map[string]struct {
		options []hostOption
		node    *ironic.Node
		change  func(*situation)
		want    string
	}{
		// When a service begins.
		"running":                                {options: provisionedHost, node: nodeIn(ironic.Active), want: "Wait"},
		"to be rebooted":                         {options: and(provisionedHost, reboot), node: nodeIn(ironic.Active), want: "soft-power-off"},
		"off for the reboot":                     {options: and(provisionedHost, reboot), node: nodeIn(ironic.Active, off), want: "ClearRebootRequest"},
		"about to be switched on":                {options: provisionedHost, node: nodeIn(ironic.Active, off), want: "Service"},
		"external, about to be switched on":      {options: external, node: nodeIn(ironic.Active, off), want: "Service"},
		"held off":                               {options: and(provisionedHost, heldOff), node: nodeIn(ironic.Active, off), want: "Wait"},
		"to be off":                              {options: and(provisionedHost, offline), node: nodeIn(ironic.Active, off), want: "Wait"},
		"power not known":                        {options: provisionedHost, node: nodeIn(ironic.Active, func(n *ironic.Node) { n.PowerState = "" }), want: "power-on"},
		"power that Ironic does not understand":  {options: provisionedHost, node: nodeIn(ironic.Active, func(n *ironic.Node) { n.PowerState = "error" }), want: "power-on"},
		"switched by the firmware just now":      {options: provisionedHost, node: nodeIn(ironic.Active, off, changedAt(now)), want: "Wait:2s"},
		"no policy":                              {options: provisionedHost, node: nodeIn(ironic.Active, off), change: noPolicy, want: "power-on"},
		"policy for firmware updates":            {options: provisionedHost, node: nodeIn(ironic.Active, off), change: func(s *situation) { s.Policy = &metal3.HostUpdatePolicySpec{FirmwareUpdates: metal3.UpdateOnReboot} }, want: "power-on"},
		"policy of before":                       {options: provisionedHost, node: nodeIn(ironic.Active, off), change: func(s *situation) { s.Policy.FirmwareSettings = metal3.UpdateOnPreparing }, want: "power-on"},
		"nothing differs":                        {options: provisionedHost, node: nodeIn(ironic.Active, off), change: applied, want: "power-on"},
		"RAID differs":                           {options: and(provisionedHost, wantsRAID(hardwareRAID)), node: nodeIn(ironic.Active, off), change: applied, want: "power-on"},
		"another image is wanted":                {options: and(provisionedHost, wantsImage("http://images/b")), node: nodeIn(ironic.Active, off), want: "=deprovisioning"},
		"never off":                              {options: and(provisionedHost, neverOff, reboot), node: nodeIn(ironic.Active), want: "soft-rebooting"},
		"Ironic cannot":                          {options: provisionedHost, node: nodeIn(ironic.Active, off), change: func(s *situation) { s.CanService = false }, want: "Service: " + noServiceMessage},
		"Ironic cannot, and that is known":       {options: and(provisionedHost, withStepError(metal3.ServicingError, noServiceMessage)), node: nodeIn(ironic.Active, off), change: func(s *situation) { s.CanService = false }, want: "power-on"},
		"settings unread":                        {options: provisionedHost, node: nodeIn(ironic.Active, off), change: unread, want: "Service: no list"},
		"settings unread, and that is known":     {options: and(provisionedHost, withStepError(metal3.ServicingError, "no list")), node: nodeIn(ironic.Active, off), change: unread, want: "power-on"},
		"settings unread, a service is open":     {options: and(provisionedHost, servicing(metal3.PreparationRequested), withStepError(metal3.ServicingError, "no list")), node: nodeIn(ironic.Active, off), change: unread, want: "power-on"},
		"another's deployment":                   {options: provisionedHost, node: nodeIn(ironic.Active, off, func(n *ironic.Node) { n.InstanceUUID = "another" }), want: "Hold"},
		"another's deployment, which is known":   {options: and(provisionedHost, withHold), node: nodeIn(ironic.Active, off, func(n *ironic.Node) { n.InstanceUUID = "another" }), change: heldAlready, want: "power-on"},
		"a rebuild may still come":               {options: and(provisionedHost, servicing(metal3.PreparationRequested), asked(ironic.TargetRebuild, ironic.Active)), node: nodeIn(ironic.Active, off), want: "Wait:4m0s"},
		"it may still come":                      {options: and(provisionedHost, servicing(metal3.PreparationRequested), asked(ironic.TargetService, ironic.Active)), node: nodeIn(ironic.Active, off), want: "Wait:4m0s"},
		"killed before it was asked for":         {options: and(provisionedHost, servicing(metal3.PreparationRequested)), node: nodeIn(ironic.Active, off), want: "Service"},
		"requested, and switched on by somebody": {options: and(provisionedHost, servicing(metal3.PreparationRequested)), node: nodeIn(ironic.Active), want: "EndServicing"},
		"requested, and not wanted any more":     {options: and(provisionedHost, servicing(metal3.PreparationRequested)), node: nodeIn(ironic.Active, off), change: applied, want: "EndServicing"},

		// The ramdisk that it boots.
		"image not built":                         {options: and(external, registeredAs()), node: nodeIn(ironic.Active, off), change: image(awaitedImage), want: "AwaitImage: " + awaitedImage.Waiting},
		"image not built, of a deployed host":     {options: and(provisionedHost, registeredAs()), node: nodeIn(ironic.Active, off), change: image(awaitedImage), want: "AwaitImage: " + awaitedImage.Waiting},
		"image not built, told":                   {options: and(external, registeredAs(), awaits), node: nodeIn(ironic.Active, off), change: image(awaitedImage), want: "Wait"},
		"image not built, running":                {options: and(external, registeredAs()), node: nodeIn(ironic.Active), change: image(awaitedImage), want: "Wait"},
		"image not built, nothing differs":        {options: and(external, registeredAs()), node: nodeIn(ironic.Active, off), change: func(s *situation) { applied(s); image(awaitedImage)(s) }, want: "power-on"},
		"image not built, taken back":             {options: and(external, registeredAs(), awaits), node: nodeIn(ironic.Active, off), change: func(s *situation) { applied(s); image(awaitedImage)(s) }, want: "AwaitImage"},
		"image not built, no policy any more":     {options: and(external, registeredAs(), awaits), node: nodeIn(ironic.Active, off), change: func(s *situation) { noPolicy(s); image(awaitedImage)(s) }, want: "AwaitImage"},
		"image not built, switched on":            {options: and(external, registeredAs(), awaits), node: nodeIn(ironic.Active), change: image(awaitedImage), want: "AwaitImage"},
		"image not built, service failed":         {options: and(external, registeredAs(), servicing(metal3.PreparationFailed), reported), node: nodeIn(ironic.Active, off), change: image(awaitedImage), want: "power-on"},
		"image built":                             {options: and(external, registeredAs(), awaits), node: nodeIn(ironic.Active, off), change: image(builtImage), want: "Register"},
		"image there already":                     {options: and(external, registeredAs()), node: nodeIn(ironic.Active, off), change: image(builtImage), want: "AwaitImage: " + imageNotGiven},
		"image there already, told":               {options: and(external, registeredAs(), given), node: nodeIn(ironic.Active, off), change: image(builtImage), want: "Register"},
		"image there already, refused":            {options: and(external, registeredAs(), given, withRegistration(metal3.ImageNotBuiltReason, "not allowed")), node: nodeIn(ironic.Active, off), change: image(builtImage), want: "Register"},
		"image refused, taken back":               {options: and(external, registeredAs(), given, withRegistration(metal3.ImageNotBuiltReason, "not allowed")), node: nodeIn(ironic.Active, off), change: func(s *situation) { applied(s); image(builtImage)(s); hold(s) }, want: "AwaitImage"},
		"image given":                             {options: and(external, registeredWithImage(builtImage), given), node: nodeIn(ironic.Active, off), change: image(builtImage), want: "AwaitImage"},
		"image given, told":                       {options: and(external, registeredWithImage(builtImage)), node: nodeIn(ironic.Active, off), change: image(builtImage), want: "Service"},
		"image built anew while the service is":   {options: and(external, registeredAs(), servicing(metal3.PreparationRunning)), node: nodeIn(ironic.ServiceWait), change: image(builtImage), want: "Wait"},
		"image cannot be built":                   {options: and(external, registeredAs()), node: nodeIn(ironic.Active, off), change: image(failedImage), want: "Service: " + noImage},
		"image cannot be built, asked for":        {options: and(external, registeredAs(), awaits), node: nodeIn(ironic.Active, off), change: image(failedImage), want: "Service: " + noImage},
		"image cannot be built, reported":         {options: and(external, registeredAs(), withStepError(metal3.ServicingError, noImage)), node: nodeIn(ironic.Active, off), change: image(failedImage), want: "power-on"},
		"image cannot be built, another's":        {options: and(external, withHold), node: nodeIn(ironic.Active, off, func(n *ironic.Node) { n.InstanceUUID = "another" }), change: func(s *situation) { heldAlready(s); image(awaitedImage)(s) }, want: "power-on"},
		"images are not built for hosts any more": {options: and(external, registeredAs(), awaits), node: nodeIn(ironic.Active, off), want: "AwaitImage"},

		// While it runs.
		"at work":                             {options: and(provisionedHost, servicing(metal3.PreparationRunning)), node: nodeIn(ironic.Servicing), want: "Wait"},
		"waiting":                             {options: and(provisionedHost, servicing(metal3.PreparationRunning)), node: nodeIn(ironic.ServiceWait), want: "Wait"},
		"waiting, forced":                     {options: and(provisionedHost, servicing(metal3.PreparationRunning), forced), node: nodeIn(ironic.ServiceWait), want: "LeaveService abort"},
		"waiting, forced, asked already":      {options: and(provisionedHost, servicing(metal3.PreparationRunning, isLeaving), forced), node: nodeIn(ironic.ServiceWait), want: "Wait"},
		"waiting, silent":                     {options: and(provisionedHost, servicing(metal3.PreparationRunning), timedOut), node: nodeIn(ironic.ServiceWait), want: "LeaveService abort"},
		"waiting, not wanted any more":        {options: and(provisionedHost, servicing(metal3.PreparationRunning)), node: nodeIn(ironic.ServiceWait), change: noPolicy, want: "Wait"},
		"waiting, not wanted any more, newer": {options: and(provisionedHost, servicing(metal3.PreparationRunning)), node: nodeIn(ironic.ServiceWait), change: func(s *situation) { noPolicy(s); newer(s) }, want: "LeaveService abort"},
		"waiting, settings unread, newer":     {options: and(provisionedHost, servicing(metal3.PreparationRunning)), node: nodeIn(ironic.ServiceWait), change: func(s *situation) { unread(s); newer(s) }, want: "Wait"},
		"waiting for somebody else":           {options: provisionedHost, node: nodeIn(ironic.ServiceWait), change: newer, want: "Wait"},
		"waiting, deprovisioned":              {options: and(provisionedHost, servicing(metal3.PreparationRunning), wantsImage("http://images/b")), node: nodeIn(ironic.ServiceWait), want: "=deprovisioning"},

		// When it has failed.
		"failed":                                {options: and(provisionedHost, servicing(metal3.PreparationFailed), reported), node: nodeIn(ironic.ServiceFail, failed), want: "LeaveService service"},
		"failed, newer":                         {options: and(provisionedHost, servicing(metal3.PreparationFailed), reported), node: nodeIn(ironic.ServiceFail, failed), change: newer, want: "LeaveService abort"},
		"failed, external":                      {options: and(external, servicing(metal3.PreparationFailed), reported), node: nodeIn(ironic.ServiceFail, failed), want: "LeaveService service"},
		"failed just now":                       {options: and(provisionedHost, servicing(metal3.PreparationFailed), reported), node: nodeIn(ironic.ServiceFail, failed), change: hold, want: "LeaveService service"},
		"failed, updates not discarded":         {options: and(provisionedHost, servicing(metal3.PreparationFailed), reported), node: nodeIn(ironic.ServiceFail, failed, withUpdates, changedAt(now.Add(-time.Minute))), want: "Wait:5s"},
		"failed, updates never discarded":       {options: and(provisionedHost, servicing(metal3.PreparationFailed), reported), node: nodeIn(ironic.ServiceFail, failed, withUpdates, changedAt(now.Add(-2*time.Minute))), want: "LeaveService service"},
		"failed, updates kept for good":         {options: and(provisionedHost, servicing(metal3.PreparationFailed), reported), node: nodeIn(ironic.ServiceFail, withUpdates, changedAt(now.Add(-time.Minute))), want: "LeaveService service"},
		"failed, not discarded, to be off":      {options: and(provisionedHost, servicing(metal3.PreparationFailed), reported, offline), node: nodeIn(ironic.ServiceFail, failed, withUpdates, changedAt(now)), want: "soft-power-off"},
		"failed, maintenance cleared":           {options: and(provisionedHost, servicing(metal3.PreparationFailed), reported), node: nodeIn(ironic.ServiceFail), want: "LeaveService service"},
		"failed, and leaving fails":             {options: and(provisionedHost, servicing(metal3.PreparationFailed, isLeaving), reported), node: nodeIn(ironic.ServiceFail, failed), change: hold, want: "Wait:7s"},
		"failed, and leaving failed":            {options: and(provisionedHost, servicing(metal3.PreparationFailed, isLeaving), reported), node: nodeIn(ironic.ServiceFail, failed), want: "LeaveService service"},
		"failed, and leaving was asked for":     {options: and(provisionedHost, servicing(metal3.PreparationFailed), reported, asked(ironic.TargetService, ironic.ServiceFail)), node: nodeIn(ironic.ServiceFail, failed), want: "Wait:4m0s"},
		"failed, and leaving was refused":       {options: and(provisionedHost, servicing(metal3.PreparationFailed), reported, asked(ironic.TargetService, ironic.ServiceFail)), node: nodeIn(ironic.ServiceFail, failed), change: func(s *situation) { s.AskedInVain = true }, want: "LeaveService service"},
		"failed, in somebody's maintenance":     {options: and(provisionedHost, servicing(metal3.PreparationFailed), reported), node: nodeIn(ironic.ServiceFail, fault("")), want: "Wait"},
		"failed, and to be off":                 {options: and(provisionedHost, servicing(metal3.PreparationFailed), reported, offline), node: nodeIn(ironic.ServiceFail, failed), want: "soft-power-off"},
		"failed, and fenced":                    {options: and(provisionedHost, servicing(metal3.PreparationFailed), reported, heldOff), node: nodeIn(ironic.ServiceFail, failed), want: "power-off"},
		"failed, fenced and off":                {options: and(provisionedHost, servicing(metal3.PreparationFailed), reported, heldOff), node: nodeIn(ironic.ServiceFail, failed, off), want: "Wait"},
		"failed, image removed":                 {options: and(provisionedHost, servicing(metal3.PreparationFailed), reported, wantsImage("http://images/b")), node: nodeIn(ironic.ServiceFail, failed), want: "=deprovisioning"},
		"failed for somebody else":              {options: provisionedHost, node: nodeIn(ironic.ServiceFail), want: "Wait"},
		"failed for somebody else afterwards":   {options: and(provisionedHost, recorded), node: nodeIn(ironic.ServiceFail), want: "Wait"},
		"failed, and the machine is off":        {options: and(provisionedHost, servicing(metal3.PreparationFailed), reported), node: nodeIn(ironic.Active, off), want: "power-on"},
		"failed, and the machine runs":          {options: and(provisionedHost, servicing(metal3.PreparationFailed, serviceEnded), reported), node: nodeIn(ironic.Active), want: "Wait"},
		"failed, and rebooted again":            {options: and(provisionedHost, servicing(metal3.PreparationFailed, serviceEnded), reported), node: nodeIn(ironic.Active, off), change: hold, want: "Service"},
		"failed, and not wanted any more":       {options: and(provisionedHost, servicing(metal3.PreparationFailed, serviceEnded), reported), node: nodeIn(ironic.Active), change: applied, want: "EndServicing"},
		"failed, and no policy any more":        {options: and(provisionedHost, servicing(metal3.PreparationFailed, serviceEnded), reported), node: nodeIn(ironic.Active), change: noPolicy, want: "EndServicing"},
		"failed, somebody deploys the node now": {options: and(provisionedHost, servicing(metal3.PreparationFailed), reported), node: nodeIn(ironic.Rescue), want: "Wait"},

		// When it has ended.
		"ended":               {options: and(provisionedHost, done), node: nodeIn(ironic.Active), change: applied, want: "EndServicing"},
		"ended, and recorded": {options: and(provisionedHost, recorded), node: nodeIn(ironic.Active), change: applied, want: "Wait"},
		"ended, not taken":    {options: and(provisionedHost, done), node: nodeIn(ironic.Active), want: `Service: Ironic has applied the BIOS settings without an error, and the machine does not have them: Turbo is "on", and not "off"`},
		"not taken, reported": {options: and(provisionedHost, done, reported), node: nodeIn(ironic.Active), want: "Wait"},
		"not taken, rebooted": {options: and(provisionedHost, done, reported), node: nodeIn(ironic.Active, off), want: "Service"},
		"wanted again":        {options: and(provisionedHost, recorded), node: nodeIn(ironic.Active, off), want: "Service"},
	} {
		t.Run(name, func(t *testing.T) {
			host := newHost(tt.options...)
			if strings.HasPrefix(host.Spec.BMC.Address, "redfish") {
				onRedfish(tt.node)
			}
			s := planned(host, tt.node)
			s.Node.AnsweredAt = now
			if s.Node.ProvisionUpdatedAt == nil {
				changedAt(stateTime)(s.Node)
			}
			policy := *onReboot
			s.Policy, s.CanService = &policy, true
			turbo(&s, "on", "off")
			if tt.change != nil {
				tt.change(&s)
			}
			step := nextOf(s)
			got := step.String()
			switch {
			case (step.Do == Service || step.Do == AwaitImage) && step.Message != "":
				got += ": " + step.Message
			case step.Do == Service:
				if len(step.Clean.Steps) != 1 || step.Clean.FirmwareSettings["Turbo"] != "off" {
					t.Errorf("the service is %+v", step.Clean)
				}
			case step.Do == LeaveService:
				got += " " + string(step.Target)
			}
			if got != tt.want {
				t.Errorf("next is %q, not %q", got, tt.want)
			}
			if (step.Do == Service || step.Do == LeaveService) && !step.Interrupts() {
				t.Error("the step does not count as one that interrupts")
			}
		})
	}
}

func changedAt(at time.Time) func(*ironic.Node) {
	return func(n *ironic.Node) { n.ProvisionUpdatedAt = &at }
}

func withStepError(kind metal3.ErrorType, message string) hostOption {
	return func(h *metal3.BareMetalHost) {
		SetFailure(h, kind, message)
		withError(kind, message, 1)(h)
	}
}

func withHold(h *metal3.BareMetalHost) { SetHold(h, Step{Reason: "Test", Message: "a test"}) }

// heldAlready records what holds the host.
func heldAlready(s *situation) {
	step := nextOf(*s)
	SetHold(s.Host, step)
}

// TestObserveServicing follows services from the request to the end.
func TestObserveServicing(t *testing.T) {
	at := func(state ironic.ProvisionState, when time.Duration, change ...func(*ironic.Node)) *ironic.Node {
		return nodeIn(state, append(change, changedAt(stateTime.Add(when)))...)
	}
	failed := at(ironic.ServiceFail, 2*time.Minute, fault(ironic.FaultServiceFailure), lastError("Can not transition from state 'service failed' on event 'done'"),
		func(n *ironic.Node) { n.MaintenanceReason = "Turbo is not updated" })
	cleared := at(ironic.ServiceFail, 2*time.Minute, lastError("Can not transition from state 'service failed' on event 'done'"))
	type seen struct {
		node  *ironic.Node
		phase metal3.PreparationPhase
		ended bool
		shows string // operationalStatus and errorMessage
	}
	running := seen{at(ironic.Servicing, time.Minute, reservedNode), metal3.PreparationRunning, false, "servicing "}
	for name, tt := range map[string]struct {
		phase metal3.PreparationPhase
		steps []seen
	}{
		"succeeds": {metal3.PreparationRequested, []seen{
			{at(ironic.Active, 0, off), metal3.PreparationRequested, false, "servicing "},
			running,
			{at(ironic.ServiceWait, time.Minute), metal3.PreparationRunning, false, "servicing "},
			{at(ironic.Active, 2*time.Minute, reservedNode), metal3.PreparationRunning, false, "servicing "},
			{at(ironic.Active, 2*time.Minute), metal3.PreparationSucceeded, true, "OK "},
			{at(ironic.ServiceFail, 3*time.Minute, lastError("by hand")), metal3.PreparationSucceeded, true, "error by hand"},
		}},
		"succeeds while nobody looks": {metal3.PreparationRequested, []seen{{at(ironic.Active, time.Minute), metal3.PreparationSucceeded, true, "OK "}}},
		"aborted while nobody looks": {metal3.PreparationRequested, []seen{
			{at(ironic.Active, time.Minute, off, lastError("By request, the service operation was aborted")), metal3.PreparationFailed, false, "error By request, the service operation was aborted"},
			{at(ironic.Active, time.Minute, lastError("By request, the service operation was aborted")), metal3.PreparationFailed, true, "error By request, the service operation was aborted"},
		}},
		"fails": {metal3.PreparationRequested, []seen{
			running,
			{failed, metal3.PreparationFailed, false, "error Turbo is not updated"},
			{cleared, metal3.PreparationFailed, false, "error Turbo is not updated"},
			{at(ironic.Servicing, 3*time.Minute, reservedNode), metal3.PreparationFailed, false, "error Turbo is not updated"},
			{at(ironic.Active, 4*time.Minute, off), metal3.PreparationFailed, false, "error Turbo is not updated"},
			{at(ironic.Active, 4*time.Minute), metal3.PreparationFailed, true, "error Turbo is not updated"},
		}},
		"node lost": {metal3.PreparationRunning, []seen{{at(ironic.Enroll, time.Minute), metal3.PreparationFailed, true, "OK "}}},
	} {
		host := newHost(and(provisionedHost, servicing(tt.phase))...)
		for i, s := range tt.steps {
			s.node.AnsweredAt = now
			host = observe(observe(host, s.node), s.node)
			service := host.Status.Record.Servicing
			if shows := string(host.Status.OperationalStatus) + " " + recordedMessage(host); service.Phase != s.phase || (service.EndedAt != nil) != s.ended || shows != s.shows {
				t.Errorf("%s, step %d: %s, ended %v, shows %q; want %s, %v, %q", name, i, service.Phase, service.EndedAt, shows, s.phase, s.ended, s.shows)
			}
		}
		if count := host.Status.ErrorCount; count > 1 {
			t.Errorf("%s: %d errors are counted", name, count)
		}
	}
}

func reservedNode(n *ironic.Node) { n.Reservation = "conductor-0" }
