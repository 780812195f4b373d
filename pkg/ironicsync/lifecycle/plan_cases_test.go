// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// nodeIn is a node that is on.
func nodeIn(state ironic.ProvisionState, change ...func(*ironic.Node)) *ironic.Node {
	n := &ironic.Node{UUID: "u", ProvisionState: state, PowerState: ironic.PowerOn, Address: ownBMC}
	for _, c := range change {
		c(n)
	}
	return n
}

func off(n *ironic.Node) { n.PowerState = ironic.PowerOff }

// keepsPower is of a host whose machine was on when it was taken over.
func keepsPower(h *metal3.BareMetalHost) {
	h.Status.Record.Deployment = &metal3.Deployment{NodeUUID: "u", InstanceUUID: recordedInstance(h), KeepPower: true}
}

// attemptRecorded is of a host that is being provisioned by this server, or was.
func attemptRecorded(h *metal3.BareMetalHost) {
	h.Status.Record.Deployment = &metal3.Deployment{NodeUUID: "u", InstanceUUID: recordedInstance(h)}
}

// powerError is what Ironic has of the power of a machine whose BMC has said something that ipmitool does not understand.
func powerError(n *ironic.Node) { n.PowerState = "error" }

func lastError(text string) func(*ironic.Node) { return func(n *ironic.Node) { n.LastError = text } }

func fault(f string) func(*ironic.Node) {
	return func(n *ironic.Node) { n.Maintenance, n.Fault = true, f }
}

// withUpdates has Ironic keep the firmware updates of a failed clean or service.
func withUpdates(n *ironic.Node) { n.Internals.HasFirmwareUpdates = true }

// changedBefore is a node that came into its state some time before Ironic answered.
func changedBefore(d time.Duration) func(*ironic.Node) {
	return func(n *ironic.Node) {
		answered := now.Truncate(time.Second)
		changed := answered.Add(-d)
		n.ProvisionUpdatedAt, n.AnsweredAt = &changed, answered
	}
}

func answeredAt(t time.Time) func(*ironic.Node) { return func(n *ironic.Node) { n.AnsweredAt = t } }

func offline(h *metal3.BareMetalHost) { h.Spec.Online = false }

func rebootedFor(key string) func(*metal3.BareMetalHost) {
	return func(h *metal3.BareMetalHost) {
		h.Status.Record.Rebooted = map[string]string{metal3.RebootAnnotationPrefix + key: ""}
	}
}

func neverOff(h *metal3.BareMetalHost) { h.Spec.DisablePowerOff = true }

func failedTimes(n int) hostOption {
	return func(h *metal3.BareMetalHost) { h.Status.ProvisioningFailCount = n }
}

func operational(s metal3.OperationalStatus) hostOption {
	return func(h *metal3.BareMetalHost) { h.Status.OperationalStatus = s }
}

// refusedProvisioning lacks a Secret that its deployment needs.
func refusedProvisioning(h *metal3.BareMetalHost) {
	RefuseProvisioning(h, "Secret \"user-data\" does not exist")
	Render(h, now)
}

func hardwareKnown(h *metal3.BareMetalHost) {
	h.Status.HardwareDetails = &metal3.HardwareDetails{Hostname: "host-0"}
}

// provisionedHost runs the image that it is to run.
var provisionedHost = []hostOption{withState(metal3.StateProvisioned), wantsImage("http://images/a"), runs("http://images/a"), withPower(true)}

func and(options []hostOption, more ...hostOption) []hostOption {
	return append(append([]hostOption(nil), options...), more...)
}

// TestNextOfHost has what differs from the tables by state.
func TestNextOfHost(t *testing.T) {
	available := []hostOption{withState(metal3.StateAvailable), prepared, withPower(true)}
	provisioning := []hostOption{withState(metal3.StateProvisioning), wantsImage("http://images/a"), attempting("http://images/a")}
	inspecting := []hostOption{withState(metal3.StateInspecting), inspectionBegan}
	blank := func(h *metal3.BareMetalHost) { h.Finalizers, h.Status = nil, metal3.BareMetalHostStatus{} }
	noBMC := func(h *metal3.BareMetalHost) { h.Spec.BMC = metal3.BMCDetails{} }
	noID := func(h *metal3.BareMetalHost) { h.Status.Provisioning.ID = "" }
	softTimedOut := lastError("Failed to change power state to 'soft power off' by 'soft power off'. Error: timed out")
	for name, tt := range map[string]struct {
		options []hostOption
		node    *ironic.Node
		change  func(*situation)
		want    string
	}{
		// Into Ironic.
		"new":                             {options: []hostOption{blank}, want: "Begin=registering"},
		"new, without BMC":                {options: []hostOption{blank, noBMC}, want: "=unmanaged"},
		"unmanaged":                       {options: []hostOption{blank, noBMC, withState(metal3.StateUnmanaged)}, want: "Wait"},
		"unmanaged, BMC given":            {options: []hostOption{blank, withState(metal3.StateUnmanaged)}, want: "Begin=registering"},
		"recorded by a later version":     {options: []hostOption{laterRecord}, node: nodeIn(ironic.Manageable), want: "Wait"},
		"moved here, provisioned":         {options: []hostOption{withState(metal3.StateProvisioned), func(h *metal3.BareMetalHost) { h.Finalizers = nil }}, want: "Begin=provisioned"},
		"with a status to restore":        {options: []hostOption{blank, annotated(metal3.StatusAnnotation, `{"poweredOn":false,"provisioning":{"state":""}}`)}, want: "Begin=registering"},
		"with hardware details":           {options: []hostOption{annotated(metal3.HardwareDetailsAnnotation, "{}")}, node: nodeIn(ironic.Manageable), want: "RecordGivenHardware"},
		"with HardwareData":               {node: nodeIn(ironic.Manageable), change: func(s *situation) { s.GivesHardware = true }, want: "RecordGivenHardware"},
		"without node":                    {options: []hostOption{noID}, want: "FindNode"},
		"BMC taken out of a managed host": {options: []hostOption{noBMC}, node: nodeIn(ironic.Enroll), want: "Report:InvalidAddress"},
		"address not understood":          {options: []hostOption{noID, func(h *metal3.BareMetalHost) { h.Spec.BMC.Address = "telnet://192.0.2.1" }}, want: "Report:InvalidAddress"},
		"no provisioning network":         {options: []hostOption{noID}, change: func(s *situation) { s.ProvisioningNetworkDisabled = true }, want: "Report:InvalidAddress"},
		"no credentialsName":              {options: []hostOption{noID, func(h *metal3.BareMetalHost) { h.Spec.BMC.CredentialsName = "" }}, want: "Report:SecretNotFound"},
		"spec changed":                    {options: []hostOption{func(h *metal3.BareMetalHost) { h.Generation++ }}, node: nodeIn(ironic.Manageable), want: "Register"},
		"spec changed in transit":         {options: and(provisioning, func(h *metal3.BareMetalHost) { h.Generation++; h.Spec.Image = nil }), node: nodeIn(ironic.DeployWait), want: "=deprovisioning"},
		"another Secret named":            {options: []hostOption{func(h *metal3.BareMetalHost) { h.Spec.BMC.CredentialsName = "other" }}, node: nodeIn(ironic.Manageable), want: "Register"},
		"other settings of ours":          {options: provisionedHost, node: nodeIn(ironic.Active), change: func(s *situation) { s.SettingsDigest = "others" }, want: "Register"},
		"Secret changed while provisioned": {options: provisionedHost, node: nodeIn(ironic.Active),
			change: func(s *situation) { s.SecretVersion = "8" }, want: "Register"},
		"password to be told again":    {options: and(provisionedHost, func(h *metal3.BareMetalHost) { h.Status.TriedCredentials.Version = "" }), node: nodeIn(ironic.Active, fault(ironic.FaultPowerFailure)), want: "Register"},
		"refused just now":             {options: []hostOption{withRegistration(metal3.PortConflictReason, "no")}, node: nodeIn(ironic.Enroll), change: hold, want: "Wait:7s"},
		"refused before":               {options: []hostOption{withRegistration(metal3.PortConflictReason, "no")}, node: nodeIn(ironic.Enroll), want: "Register"},
		"verification failed just now": {node: nodeIn(ironic.Enroll, lastError("no")), change: hold, want: "Wait:7s"},
		"Secret missing, now there":    {options: []hostOption{withRegistration(metal3.SecretNotFoundReason, "no")}, node: nodeIn(ironic.Enroll), want: "Register"},
		"externally provisioned":       {options: []hostOption{externallyProvisioned}, node: nodeIn(ironic.Manageable), want: "=externally-provisioned"},
		"inspection disabled":          {options: []hostOption{inspectionDisabled}, node: nodeIn(ironic.Manageable), want: "=preparing"},
		"registered again":             {options: []hostOption{hardwareKnown}, node: nodeIn(ironic.Manageable), want: "=preparing"},
		"registered again, to inspect": {options: []hostOption{hardwareKnown, annotated(metal3.InspectAnnotation, "")}, node: nodeIn(ironic.Manageable), want: "=inspecting"},

		// Inspection.
		"inspection failed just now":       {options: and(inspecting, withError(metal3.InspectionError, "no", 1)), node: nodeIn(ironic.InspectFail), change: hold, want: "Wait:7s"},
		"inventory not there yet":          {options: inspecting, node: nodeIn(ironic.Manageable, func(n *ironic.Node) { n.InspectionFinishedAt = &now }), want: "Wait:1s"},
		"inspecting, disabled meanwhile":   {options: and(inspecting, inspectionDisabled), node: nodeIn(ironic.Manageable), want: "=preparing"},
		"inspecting, forced reboot":        {options: and(inspecting, annotated(metal3.RebootAnnotation, `{"force":true}`)), node: nodeIn(ironic.InspectWait), want: "abort"},
		"aborted by a forced reboot":       {options: and(inspecting, annotated(metal3.RebootAnnotation, `{"force":true}`)), node: nodeIn(ironic.InspectFail), want: "ClearRebootRequest"},
		"marked external while inspecting": {options: and(inspecting, externallyProvisioned), node: nodeIn(ironic.Manageable), want: "=externally-provisioned"},
		"inspecting, reboot not forced":    {options: and(inspecting, annotated(metal3.RebootAnnotation, "")), node: nodeIn(ironic.InspectWait), want: "Wait"},
		"re-inspection":                    {options: and(available, annotated(metal3.InspectAnnotation, "")), node: nodeIn(ironic.Available), want: "=inspecting"},
		"re-inspection, not cleaned yet":   {options: and(available, annotated(metal3.InspectAnnotation, "")), node: nodeIn(ironic.Manageable), want: "=inspecting"},
		"re-inspection switched off":       {options: and(available, annotated(metal3.InspectAnnotation, "disabled")), node: nodeIn(ironic.Available), want: "Wait"},

		// Preparation.
		"cleaning failed":          {options: []hostOption{withState(metal3.StatePreparing)}, node: nodeIn(ironic.CleanFail, fault(ironic.FaultCleanFailure)), want: "ClearMaintenance"},
		"cleaning failed just now": {options: []hostOption{withState(metal3.StatePreparing)}, node: nodeIn(ironic.CleanFail, fault(ironic.FaultCleanFailure)), change: hold, want: "Wait:7s"},
		"boot mode changed":        {options: and(available, func(h *metal3.BareMetalHost) { h.Spec.BootMode = metal3.Legacy }), node: nodeIn(ironic.Available), want: "=preparing"},
		"root device hints changed": {options: and(available, func(h *metal3.BareMetalHost) {
			h.Spec.RootDeviceHints = &metal3.RootDeviceHints{DeviceName: "/dev/nvme0n1"}
		}), node: nodeIn(ironic.Available), want: "=preparing"},
		"external, as it is available":     {options: and(available, externallyProvisioned), node: nodeIn(ironic.Available), want: "=externally-provisioned"},
		"external, as it is available now": {options: and(available, externallyProvisioned), node: nodeIn(ironic.Manageable), want: "=externally-provisioned"},
		"boot mode changed, not cleaned":   {options: and(available, func(h *metal3.BareMetalHost) { h.Spec.BootMode = metal3.Legacy }), node: nodeIn(ironic.Manageable), want: "=preparing"},

		// Provisioning.
		"image wanted, not online":       {options: and(available, wantsImage("http://images/a"), offline), node: nodeIn(ironic.Available, off), want: "Wait"},
		"custom deploy wanted":           {options: and(available, func(h *metal3.BareMetalHost) { h.Spec.CustomDeploy = &metal3.CustomDeploy{Method: "install"} }), node: nodeIn(ironic.Available), want: "=provisioning"},
		"failed just now":                {options: and(available, wantsImage("http://images/a"), attempting("http://images/a"), failedTimes(1), withError(metal3.ProvisioningError, "no", 1)), node: nodeIn(ironic.Available), change: hold, want: "Wait:7s"},
		"failed just now, and is off":    {options: and(available, wantsImage("http://images/a"), attempting("http://images/a"), failedTimes(1), withError(metal3.ProvisioningError, "no", 1)), node: nodeIn(ironic.Available, off), change: hold, want: "Wait:7s"},
		"wanted without its Secret":      {options: and(available, wantsImage("http://images/a"), refusedProvisioning), node: nodeIn(ironic.Manageable, off), change: hold, want: "Wait:7s"},
		"its Secret is there":            {options: and(available, wantsImage("http://images/a"), refusedProvisioning), node: nodeIn(ironic.Manageable, off), want: "=provisioning"},
		"other image without its Secret": {options: and(available, runs(""), attempting("http://images/b"), wantsImage("http://images/a"), refusedProvisioning), node: nodeIn(ironic.Manageable, off), change: hold, want: "Wait:7s"},
		"custom deploy without Secret":   {options: and(available, func(h *metal3.BareMetalHost) { h.Spec.CustomDeploy = &metal3.CustomDeploy{Method: "install"} }, refusedProvisioning), node: nodeIn(ironic.Available, off), change: hold, want: "Wait:7s"},
		"given up without its Secret":    {options: and(available, wantsImage("http://images/a"), refusedProvisioning, func(h *metal3.BareMetalHost) { h.Spec.Image = nil }), node: nodeIn(ironic.Available), want: "ForgetFailures"},
		"given up, its error cleared": {options: and(available, func(h *metal3.BareMetalHost) {
			h.Status.Provisioning.CustomDeploy = &metal3.CustomDeploy{Method: "install"}
		}), node: nodeIn(ironic.Available), want: "ForgetFailures"},
		"failed before":                 {options: and(available, wantsImage("http://images/a"), attempting("http://images/a"), failedTimes(1), withError(metal3.ProvisioningError, "no", 1)), node: nodeIn(ironic.Available), want: "=provisioning"},
		"failed too often":              {options: and(available, wantsImage("http://images/a"), attempting("http://images/a"), failedTimes(3), withError(metal3.ProvisioningError, "no", 3)), node: nodeIn(ironic.Available), want: "Wait"},
		"failed too often, no limit":    {options: and(available, wantsImage("http://images/a"), attempting("http://images/a"), failedTimes(30), withError(metal3.ProvisioningError, "no", 30)), node: nodeIn(ironic.Available), change: func(s *situation) { s.MaxRetries = 0 }, want: "=provisioning"},
		"checksum corrected":            {options: and(available, wantsImage("http://images/a"), attempting("http://images/a"), failedTimes(3), withError(metal3.ProvisioningError, "no", 3), func(h *metal3.BareMetalHost) { h.Spec.Image.Checksum = "other" }), node: nodeIn(ironic.Available), want: "ForgetFailures"},
		"checksum corrected meanwhile":  {options: and(provisioning, func(h *metal3.BareMetalHost) { h.Spec.Image.Checksum = "other" }), node: nodeIn(ironic.DeployWait), want: "Wait"},
		"failed too often, other image": {options: and(available, wantsImage("http://images/b"), attempting("http://images/a"), failedTimes(3), withError(metal3.ProvisioningError, "no", 3)), node: nodeIn(ironic.Available), change: hold, want: "ForgetFailures"},
		"failed, image given up":        {options: and(available, attempting("http://images/a"), failedTimes(1), withError(metal3.ProvisioningError, "no", 1)), node: nodeIn(ironic.Available), want: "ForgetFailures"},
		"failed, retried, given up":     {options: and(available, attempting("http://images/a"), withError(metal3.ProvisioningError, "no", 0)), node: nodeIn(ironic.Available), want: "ForgetFailures"},
		"image changed while deploying": {options: []hostOption{withState(metal3.StateProvisioning), wantsImage("http://images/b"), attempting("http://images/a")}, node: nodeIn(ironic.DeployWait), want: "=deprovisioning"},
		"deploying, forced reboot":      {options: and(provisioning, annotated(metal3.RebootAnnotation, `{"force":true}`)), node: nodeIn(ironic.DeployWait), want: "=deprovisioning"},
		"not cleaned, not online":       {options: and(available, wantsImage("http://images/a"), offline), node: nodeIn(ironic.Manageable, off), want: "Wait"},
		"cleaning fails for it":         {options: provisioning, node: nodeIn(ironic.CleanFail, fault(ironic.FaultCleanFailure)), want: "ClearMaintenance"},
		"cleaning failed for it now":    {options: and(provisioning, withError(metal3.ProvisioningError, "no", 1)), node: nodeIn(ironic.CleanFail, fault(ironic.FaultCleanFailure)), change: hold, want: "Wait:7s"},
		"cleaning refused for it now":   {options: and(provisioning, withError(metal3.ProvisioningError, "no", 1)), node: nodeIn(ironic.Manageable), change: hold, want: "Wait:7s"},
		"silent while cleaned for it":   {options: and(provisioning, timedOut), node: nodeIn(ironic.CleanWait), want: "abort"},
		"not ours to clean after all":   {options: and(provisioning, externallyProvisioned), node: nodeIn(ironic.Manageable), want: "=externally-provisioned"},
		"other image before cleaning":   {options: []hostOption{withState(metal3.StateProvisioning), wantsImage("http://images/b"), attempting("http://images/a"), attemptRecorded}, node: nodeIn(ironic.Manageable), want: "=available"},
		"other image while cleaned":     {options: []hostOption{withState(metal3.StateProvisioning), wantsImage("http://images/b"), attempting("http://images/a")}, node: nodeIn(ironic.CleanWait), want: "Wait"},
		"cleaned, to be forced off":     {options: and(provisioning, annotated(metal3.DetachedAnnotation, `{"force":true}`)), node: nodeIn(ironic.CleanWait), want: "abort"},
		"deployment refused just now":   {options: and(provisioning, withError(metal3.ProvisioningError, "no", 1)), node: nodeIn(ironic.Available), change: hold, want: "Wait:7s"},

		"forgotten while deploying":   {options: and(provisioning, forgotten), node: nodeIn(ironic.Deploying), want: "DeleteNode"},
		"forgotten, in a maintenance": {options: and(provisioning, forgotten), node: nodeIn(ironic.Deploying, func(n *ironic.Node) { n.Maintenance = true }), want: "Wait"},
		"forgotten, but worked on":    {options: and(provisioning, forgotten), node: nodeIn(ironic.Deploying, func(n *ironic.Node) { n.Reservation = "conductor-0" }), want: "Wait"},

		// Provisioned.
		"checksum and user data changed": {options: and(provisionedHost, func(h *metal3.BareMetalHost) { h.Spec.Image.Checksum = "other" }), node: nodeIn(ironic.Active), want: "Wait"},
		"flag cleared, image":            {options: []hostOption{withState(metal3.StateExternallyProvisioned), wantsImage("http://images/a")}, node: nodeIn(ironic.Active), want: "=provisioned"},
		"flag cleared, nothing":          {options: []hostOption{withState(metal3.StateExternallyProvisioned)}, node: nodeIn(ironic.Active), want: "=provisioned"},
		"taken over as it is":            {options: []hostOption{withState(metal3.StateProvisioned), withPower(true)}, node: nodeIn(ironic.Active), want: "Wait"},
		"adoption failed just now":       {options: and(provisionedHost, withError(metal3.ProvisionedRegistrationError, "no", 1)), node: nodeIn(ironic.AdoptFail), change: hold, want: "Wait:7s"},
		"undeploying failed just now":    {options: []hostOption{withState(metal3.StateDeprovisioning), withError(metal3.ProvisioningError, "no", 1)}, node: nodeIn(ironic.Error), change: hold, want: "Wait:7s"},

		// Power.
		"switched off behind our back":   {options: provisionedHost, node: nodeIn(ironic.Active, off), want: "power-on"},
		"to be off":                      {options: and(provisionedHost, offline), node: nodeIn(ironic.Active), want: "soft-power-off"},
		"available, to be off":           {options: and(available, offline), node: nodeIn(ironic.Available), want: "soft-power-off"},
		"not cleaned, to be off":         {options: and(available, offline), node: nodeIn(ironic.Manageable), want: "soft-power-off"},
		"not cleaned, to be on":          {options: available, node: nodeIn(ironic.Manageable, off), want: "power-on"},
		"available for 2s, to be on":     {options: available, node: nodeIn(ironic.Available, off, changedBefore(2*time.Second)), want: "Wait:4s"},
		"not cleaned, for 2s, to be on":  {options: available, node: nodeIn(ironic.Manageable, off, changedBefore(2*time.Second)), want: "Wait:4s"},
		"available for 5s, to be on":     {options: available, node: nodeIn(ironic.Available, off, changedBefore(imageGrace)), want: "power-on"},
		"available for 2s, to be off":    {options: and(available, offline), node: nodeIn(ironic.Available, changedBefore(2*time.Second)), want: "soft-power-off"},
		"available for 2s, with image":   {options: and(available, wantsImage("http://images/a")), node: nodeIn(ironic.Available, off, changedBefore(2*time.Second)), want: "=provisioning"},
		"did not shut down":              {options: and(provisionedHost, offline, withError(metal3.PowerManagementError, "no", 1)), node: nodeIn(ironic.Active, softTimedOut), change: hold, want: "power-off"},
		"power failed just now":          {options: and(provisionedHost, withError(metal3.PowerManagementError, "no", 1)), node: nodeIn(ironic.Active, off), change: hold, want: "Wait:7s"},
		"something else failed":          {options: and(available, wantsImage("http://images/a"), attempting("http://images/a"), failedTimes(5), withError(metal3.ProvisioningError, "no", 5)), node: nodeIn(ironic.Available, off), change: hold, want: "power-on"},
		"an earlier power-off may come":  {options: and(provisionedHost, askedPower(ironic.TargetPowerOff, 1)), node: nodeIn(ironic.Active, off), want: "Wait:4m0s"},
		"the power-off was answered":     {options: and(provisionedHost, askedPower(ironic.TargetPowerOff, 1)), node: nodeIn(ironic.Active, off), change: func(s *situation) { s.PowerAnswered = true }, want: "power-on"},
		"the last of several was":        {options: and(provisionedHost, askedPower(ironic.TargetPowerOff, 2)), node: nodeIn(ironic.Active, off), change: func(s *situation) { s.PowerAnswered = true }, want: "Wait:4m0s"},
		"a request is not wanted now":    {options: and(provisionedHost, requestFailing), node: nodeIn(ironic.Active), want: "ForgetRequest"},
		"the same, and locked":           {options: and(provisionedHost, requestFailing), node: nodeIn(ironic.Active, func(n *ironic.Node) { n.Reservation = "conductor-0" }), want: "Wait"},
		"the same, and paused":           {options: and(provisionedHost, requestFailing, annotated(metal3.PausedAnnotation, "")), node: nodeIn(ironic.Active), want: "Wait"},
		"power on the way":               {options: provisionedHost, node: nodeIn(ironic.Active, off, func(n *ironic.Node) { n.TargetPowerState = ironic.TargetPowerOn }), want: "Wait"},
		"power not known":                {options: provisionedHost, node: nodeIn(ironic.Active, func(n *ironic.Node) { n.PowerState = "" }), want: "power-on"},
		"power not known, to be off":     {options: and(provisionedHost, offline), node: nodeIn(ironic.Active, func(n *ironic.Node) { n.PowerState = "" }), want: "soft-power-off"},
		"power not known, nor asked for": {options: provisionedHost, node: nodeIn(ironic.Active, func(n *ironic.Node) { n.PowerState, n.ParentNode = "", "u" }), want: "power-on"},
		"power in error, to be on":       {options: provisionedHost, node: nodeIn(ironic.Active, powerError), want: "power-on"},
		"power in error, to be off":      {options: and(provisionedHost, offline), node: nodeIn(ironic.Active, powerError), want: "soft-power-off"},
		"power in error, reboot":         {options: and(provisionedHost, annotated(metal3.RebootAnnotation, `{"mode":"hard"}`)), node: nodeIn(ironic.Active, powerError), want: "power-off"},
		"power in error, held off":       {options: and(provisionedHost, annotated(metal3.RebootAnnotationPrefix+"fencing", `{"mode":"hard"}`)), node: nodeIn(ironic.Active, powerError), want: "power-off"},
		"power in error, was on":         {options: and(provisionedHost, offline, keepsPower), node: nodeIn(ironic.Active, powerError), want: "Wait"},
		"BMC does not answer":            {options: provisionedHost, node: nodeIn(ironic.Active, off, fault(ironic.FaultPowerFailure)), want: "Wait"},
		"reboot":                         {options: and(provisionedHost, annotated(metal3.RebootAnnotation, "")), node: nodeIn(ironic.Active), want: "soft-power-off"},
		"hard reboot":                    {options: and(provisionedHost, annotated(metal3.RebootAnnotation, `{"mode":"hard"}`)), node: nodeIn(ironic.Active), want: "power-off"},
		"reboot, off now":                {options: and(provisionedHost, annotated(metal3.RebootAnnotation, "")), node: nodeIn(ironic.Active, off), want: "ClearRebootRequest"},
		"held off":                       {options: and(provisionedHost, annotated(metal3.RebootAnnotationPrefix+"fencing", `{"mode":"hard"}`)), node: nodeIn(ironic.Active), want: "power-off"},
		"held off, off now":              {options: and(provisionedHost, annotated(metal3.RebootAnnotationPrefix+"fencing", "")), node: nodeIn(ironic.Active, off), want: "Wait"},
		"reboot of an available host":    {options: and(available, annotated(metal3.RebootAnnotation, "")), node: nodeIn(ironic.Available), want: "Wait"},
		"reboot of it while it is off":   {options: and(available, offline, annotated(metal3.RebootAnnotation, "")), node: nodeIn(ironic.Available, off), want: "ClearRebootRequest"},
		"reboot of it, to be on":         {options: and(available, annotated(metal3.RebootAnnotation, "")), node: nodeIn(ironic.Available, off), want: "ClearRebootRequest"},
		"held off by it while it is off": {options: and(available, offline, annotated(metal3.RebootAnnotationPrefix+"fencing", "")), node: nodeIn(ironic.Available, off), want: "Wait"},
		"forced reboot of it":            {options: and(available, annotated(metal3.RebootAnnotation, `{"force":true}`)), node: nodeIn(ironic.Available), want: "soft-power-off"},
		"never off, reboot":              {options: and(provisionedHost, neverOff, annotated(metal3.RebootAnnotation, "")), node: nodeIn(ironic.Active), want: "soft-rebooting"},
		"never off, hard reboot":         {options: and(provisionedHost, neverOff, annotated(metal3.RebootAnnotation, `{"mode":"hard"}`)), node: nodeIn(ironic.Active), want: "rebooting"},
		"never off, reboot of nothing":   {options: and(available, neverOff, annotated(metal3.RebootAnnotation, "")), node: nodeIn(ironic.Available), want: "Wait"},
		"never off, rebooted once": {options: and(provisionedHost, neverOff, annotated(metal3.RebootAnnotation, ""), func(h *metal3.BareMetalHost) {
			Rebooted(&h.Status, ironic.TargetSoftReboot, h.Annotations)
			h.Status.Record.Reboot = nil
		}), node: nodeIn(ironic.Active), want: "ClearRebootRequest"},
		"never off, held off":          {options: and(provisionedHost, neverOff, annotated(metal3.RebootAnnotationPrefix+"fencing", `{"mode":"hard"}`)), node: nodeIn(ironic.Active), want: "rebooting"},
		"never off, rebooted for that": {options: and(provisionedHost, neverOff, annotated(metal3.RebootAnnotationPrefix+"fencing", ""), rebootedFor("fencing")), node: nodeIn(ironic.Active), want: "Wait"},
		"never off, asked by two":      {options: and(provisionedHost, neverOff, annotated(metal3.RebootAnnotationPrefix+"drain", ""), annotated(metal3.RebootAnnotationPrefix+"fencing", ""), rebootedFor("fencing")), node: nodeIn(ironic.Active), want: "soft-rebooting"},
		"never off, not held off now":  {options: and(provisionedHost, neverOff, rebootedFor("fencing")), node: nodeIn(ironic.Active), want: "ForgetReboots"},
		"never off, and it is, reboot": {options: and(provisionedHost, neverOff, annotated(metal3.RebootAnnotation, "")), node: nodeIn(ironic.Active, off), want: "ClearRebootRequest"},
		"never off, and it is":         {options: and(provisionedHost, neverOff), node: nodeIn(ironic.Active, off), want: "power-on"},

		// Detachment.
		"detach":                    {options: and(provisionedHost, annotated(metal3.DetachedAnnotation, "true")), node: nodeIn(ironic.Active), want: "DeleteNode"},
		"detach, node gone":         {options: and(provisionedHost, annotated(metal3.DetachedAnnotation, "")), want: "Detach"},
		"detached":                  {options: and(provisionedHost, annotated(metal3.DetachedAnnotation, ""), operational(metal3.OperationalStatusDetached)), want: "Wait"},
		"detach while provisioning": {options: and(provisioning, annotated(metal3.DetachedAnnotation, "")), node: nodeIn(ironic.DeployWait), want: "Wait"},
		"forced":                    {options: and(provisioning, annotated(metal3.DetachedAnnotation, `{"force":true}`)), node: nodeIn(ironic.DeployWait), want: "DeleteNode"},
		"forced, inspecting":        {options: and(inspecting, annotated(metal3.DetachedAnnotation, `{"force":true}`)), node: nodeIn(ironic.InspectWait), want: "abort"},
		"attach":                    {options: and(provisionedHost, operational(metal3.OperationalStatusDetached)), want: "Attach"},
		"detached without its Secret": {options: and(provisionedHost, annotated(metal3.DetachedAnnotation, ""), operational(metal3.OperationalStatusDetached)),
			change: func(s *situation) { s.SecretVersion = "" }, want: "Wait"},
	} {
		s := planned(newHost(tt.options...), tt.node)
		if tt.change != nil {
			tt.change(&s)
		}
		if got := nextOf(s).String(); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

func laterRecord(h *metal3.BareMetalHost) { h.Status.Record.Epoch = metal3.RecordEpoch + 1 }

func timedOut(h *metal3.BareMetalHost) {
	h.Status.Record.Failure = &metal3.Failure{Cause: metal3.CallbackTimeout}
}

func forgotten(h *metal3.BareMetalHost) { h.Status.Ironic = &metal3.IronicStatus{Forgotten: true} }

func hold(s *situation) { s.Hold = 7 * time.Second }

func inspectionDisabled(h *metal3.BareMetalHost) {
	h.Spec.InspectionMode = metal3.InspectionModeDisabled
}

// A host that goes, deprovisioned, switched off, out of Ironic, where that differs from the tables by state.
func TestNextOfDeletedHost(t *testing.T) {
	with := func(options []hostOption, more ...hostOption) []hostOption {
		return and(and(options, deleted), more...)
	}
	state := func(s metal3.ProvisioningState) []hostOption { return []hostOption{withState(s)} }
	delayed := annotated(metal3.DetachedAnnotation, `{"deleteAction":"delay"}`)
	for name, tt := range map[string]struct {
		options []hostOption
		node    *ironic.Node
		want    string
	}{
		"before it began":              {options: with(nil, func(h *metal3.BareMetalHost) { h.Finalizers = nil }), want: "Wait"},
		"before it had a node":         {options: with(nil, func(h *metal3.BareMetalHost) { h.Status.Provisioning.ID = "" }), want: "Release"},
		"lost, BMC out of reach":       {options: with(state(metal3.StateDeprovisioning), deletionBegun, withError(metal3.RegistrationError, "no", 3)), node: nodeIn(ironic.Enroll), want: "=deleting"},
		"deprovisioning given up":      {options: with(state(metal3.StateDeprovisioning), deletionBegun, withError(metal3.ProvisioningError, "no", 3)), node: nodeIn(ironic.Error), want: "=powering-off-before-delete"},
		"off":                          {options: with(state(metal3.StatePoweringOffBeforeDelete)), node: nodeIn(ironic.Available, off), want: "=deleting"},
		"on, and to stay so":           {options: with(state(metal3.StatePoweringOffBeforeDelete), neverOff), node: nodeIn(ironic.Active), want: "=deleting"},
		"cleaning failed, on":          {options: with(state(metal3.StatePoweringOffBeforeDelete)), node: nodeIn(ironic.CleanFail, fault(ironic.FaultCleanFailure)), want: "power-off"},
		"in maintenance, on":           {options: with(state(metal3.StatePoweringOffBeforeDelete)), node: nodeIn(ironic.Available, fault("")), want: "=deleting"},
		"switching off given up":       {options: with(state(metal3.StatePoweringOffBeforeDelete), withError(metal3.PowerManagementError, "no", 3)), node: nodeIn(ironic.Active), want: "=deleting"},
		"deprovisioning, forgotten":    {options: with(state(metal3.StateDeprovisioning), forgotten), node: nodeIn(ironic.Deleting), want: "Wait"},
		"forgotten, and not polled":    {options: with(state(metal3.StateDeprovisioning), forgotten), node: nodeIn(ironic.Deleting, func(n *ironic.Node) { n.ParentNode = "u" }), want: "DeleteNode"},
		"detached":                     {options: with(provisionedHost, annotated(metal3.DetachedAnnotation, ""), operational(metal3.OperationalStatusDetached)), want: "Release"},
		"detached, delayed":            {options: with(provisionedHost, delayed, operational(metal3.OperationalStatusDetached)), want: "Wait"},
		"detached, annotation removed": {options: with(provisionedHost, operational(metal3.OperationalStatusDetached)), want: "Attach"},
	} {
		if got := nextOf(planned(newHost(tt.options...), tt.node)).String(); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

// The watch on Secrets may lag behind our own write of label, owner and
// finalizer; that is no change of the Secret.
func TestNextSecretWatchLags(t *testing.T) {
	for version, want := range map[string]Action{"6": Wait, "7": Wait, "8": Register, "10": Register, "not-a-number": Register} {
		s := planned(newHost(provisionedHost...), nodeIn(ironic.Active))
		s.SecretVersion = version
		if got := nextOf(s); got.Do != want {
			t.Errorf("Secret at %s, 7 was tried: %s, want %s", version, got, want)
		}
	}
}

// askedPower records that Ironic was asked so often to switch the machine off.
func askedPower(target ironic.PowerTarget, times int) func(*metal3.BareMetalHost) {
	return func(h *metal3.BareMetalHost) {
		h.Status.Record.AskedPower = &metal3.AskedPower{NodeUUID: "u", Target: string(target), At: metav1.NewTime(now), Times: times}
	}
}

func requestFailing(h *metal3.BareMetalHost) {
	SetRequestFailing(h, Step{Do: SwitchPower}, "no answer within 30s")
}

// asked records that Ironic was asked once for a transition of the node, which was in a state.
func asked(target ironic.ProvisionTarget, state ironic.ProvisionState) func(*metal3.BareMetalHost) {
	return func(h *metal3.BareMetalHost) {
		h.Status.Record.Asked = &metal3.AskedChange{NodeUUID: "u", Target: string(target), ProvisionState: string(state), At: metav1.NewTime(now), Times: 1}
	}
}
