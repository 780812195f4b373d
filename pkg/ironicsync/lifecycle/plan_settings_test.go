// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

var (
	hardwareRAID = &metal3.RAIDConfig{HardwareRAIDVolumes: []metal3.HardwareRAIDVolume{{Level: "1", SizeGibibytes: ptr.To(100)}}}
	softwareRAID = &metal3.RAIDConfig{SoftwareRAIDVolumes: []metal3.SoftwareRAIDVolume{{Level: "1", RootVolume: true}}}
)

// wantsRAID also gives the host a BMC that can make hardware RAID.
func wantsRAID(raid *metal3.RAIDConfig) hostOption {
	return func(h *metal3.BareMetalHost) {
		h.Spec.RAID = raid.DeepCopy()
		h.Spec.BMC.Address = "redfish://192.0.2.1/redfish/v1/Systems/1"
	}
}

func hasRAID(raid *metal3.RAIDConfig) hostOption {
	return func(h *metal3.BareMetalHost) { h.Status.Provisioning.RAID = raid.DeepCopy() }
}

func preparationIn(phase metal3.PreparationPhase) hostOption {
	return func(h *metal3.BareMetalHost) {
		h.Status.Record.Preparation = &metal3.Preparation{NodeUUID: "u", Phase: phase, RAID: h.Spec.RAID.DeepCopy(), Steps: []string{"raid.create_configuration"}}
	}
}

// onRedfish has Ironic talk to the BMC of wantsRAID.
func onRedfish(n *ironic.Node) {
	n.Address = ironic.Address{RedfishAddress: "https://192.0.2.1", RedfishSystem: "/redfish/v1/Systems/1"}
}

// TestSettings has the steps around the application of settings, for which the tables by state
// have no column.
func TestSettings(t *testing.T) {
	preparing := []hostOption{withState(metal3.StatePreparing), wantsRAID(hardwareRAID)}
	available := []hostOption{withState(metal3.StateAvailable), prepared, withPower(true)}
	noVolumes := &metal3.RAIDConfig{HardwareRAIDVolumes: []metal3.HardwareRAIDVolume{}}
	for name, tt := range map[string]struct {
		options []hostOption
		node    *ironic.Node
		hold    bool
		unread  string
		want    string
	}{
		"firmware unread":                        {options: available, node: nodeIn(ironic.Manageable), unread: "no list", want: "=preparing"},
		"firmware unread, image wanted":          {options: and(available, wantsImage("http://images/a")), node: nodeIn(ironic.Manageable), unread: "no list", want: "=preparing"},
		"firmware unread, inspection wanted":     {options: and(available, annotated(metal3.InspectAnnotation, "")), node: nodeIn(ironic.Manageable), unread: "no list", want: "=inspecting"},
		"firmware unread, preparing":             {options: preparing, node: nodeIn(ironic.Manageable), unread: "no list", want: "Prepare: no list"},
		"RAID asked for, and may still come":     {options: and(preparing, asked(ironic.TargetClean, ironic.Manageable)), node: nodeIn(ironic.Manageable), want: "Wait:4m0s"},
		"RAID wanted, an undeployment may come":  {options: and(preparing, asked(ironic.TargetDeleted, ironic.Manageable)), node: nodeIn(ironic.Manageable), want: "Wait:4m0s"},
		"RAID wanted":                            {options: preparing, node: nodeIn(ironic.Manageable), want: "Prepare redfish raid.delete_configuration raid.create_configuration"},
		"RAID wanted, node available":            {options: preparing, node: nodeIn(ironic.Available), want: "manage"},
		"RAID wanted, node being cleaned":        {options: preparing, node: nodeIn(ironic.CleanWait), want: "Wait"},
		"requested, and not begun":               {options: and(preparing, preparationIn(metal3.PreparationRequested)), node: nodeIn(ironic.Manageable), want: "Prepare redfish raid.delete_configuration raid.create_configuration"},
		"running":                                {options: and(preparing, preparationIn(metal3.PreparationRunning)), node: nodeIn(ironic.CleanWait), want: "Wait"},
		"failed":                                 {options: and(preparing, preparationIn(metal3.PreparationFailed)), node: nodeIn(ironic.CleanFail, fault(ironic.FaultCleanFailure)), want: "ClearMaintenance"},
		"failed, updates not discarded":          {options: and(preparing, preparationIn(metal3.PreparationFailed)), node: nodeIn(ironic.CleanFail, fault(ironic.FaultCleanFailure), withUpdates, changedAt(now.Add(-time.Minute)), answeredAt(now)), want: "Wait:5s"},
		"failed, updates never discarded":        {options: and(preparing, preparationIn(metal3.PreparationFailed)), node: nodeIn(ironic.CleanFail, fault(ironic.FaultCleanFailure), withUpdates, changedAt(now.Add(-2*time.Minute)), answeredAt(now)), want: "ClearMaintenance"},
		"failed, cleared":                        {options: and(preparing, preparationIn(metal3.PreparationFailed)), node: nodeIn(ironic.CleanFail), want: "manage"},
		"failed, manageable":                     {options: and(preparing, preparationIn(metal3.PreparationFailed)), node: nodeIn(ironic.Manageable), want: "Prepare redfish raid.delete_configuration raid.create_configuration"},
		"refused just now":                       {options: preparing, node: nodeIn(ironic.Manageable), hold: true, want: "Wait"},
		"failed, forced reboot":                  {options: and(preparing, preparationIn(metal3.PreparationRunning), annotated(metal3.RebootAnnotation, `{"force":true}`)), node: nodeIn(ironic.CleanWait), want: "abort"},
		"applied":                                {options: and(preparing, hasRAID(hardwareRAID), preparationIn(metal3.PreparationSucceeded)), node: nodeIn(ironic.Manageable), want: "=available"},
		"not possible":                           {options: []hostOption{withState(metal3.StatePreparing), wantsRAID(hardwareRAID), func(h *metal3.BareMetalHost) { h.Spec.BMC.Address = "ipmi://192.0.2.1" }}, node: nodeIn(ironic.Manageable), want: "Prepare: RAID settings are defined, but the node's driver no-raid does not support RAID"},
		"deployed by somebody":                   {options: preparing, node: nodeIn(ironic.Active), want: "=provisioned"},
		"marked external":                        {options: and(preparing, externallyProvisioned), node: nodeIn(ironic.Manageable), want: "=externally-provisioned"},
		"changed while available":                {options: and(available, wantsRAID(hardwareRAID)), node: nodeIn(ironic.Available), want: "=preparing"},
		"changed while manageable":               {options: and(available, wantsRAID(hardwareRAID)), node: nodeIn(ironic.Manageable), want: "=preparing"},
		"emptied while available":                {options: and(available, wantsRAID(noVolumes), hasRAID(hardwareRAID)), node: nodeIn(ironic.Available), want: "=preparing"},
		"changed, image wanted":                  {options: and(available, wantsRAID(hardwareRAID), wantsImage("http://images/a")), node: nodeIn(ironic.Available), want: "=preparing"},
		"recorded by a release without settings": {options: and(available, wantsRAID(hardwareRAID), hasRAID(hardwareRAID)), node: nodeIn(ironic.Available), want: "Wait"},
		"empty layout of such a release":         {options: and(available, wantsRAID(&metal3.RAIDConfig{}), hasRAID(&metal3.RAIDConfig{})), node: nodeIn(ironic.Available), want: "Wait"},
		"changed while provisioned":              {options: and(provisionedHost, wantsRAID(hardwareRAID)), node: nodeIn(ironic.Active), want: "Wait"},
		"changed while provisioned, node lost":   {options: and(provisionedHost, wantsRAID(hardwareRAID)), node: nodeIn(ironic.Manageable), want: "adopt"},
		"changed while externally provisioned":   {options: []hostOption{withState(metal3.StateExternallyProvisioned), externallyProvisioned, wantsRAID(softwareRAID), withPower(true)}, node: nodeIn(ironic.Active), want: "Wait"},
		"changed while being provisioned":        {options: []hostOption{withState(metal3.StateProvisioning), wantsImage("http://images/a"), attempting("http://images/a"), wantsRAID(hardwareRAID)}, node: nodeIn(ironic.DeployWait), want: "Wait"},
	} {
		t.Run(name, func(t *testing.T) {
			node := tt.node
			host := newHost(tt.options...)
			if strings.HasPrefix(host.Spec.BMC.Address, "redfish") {
				onRedfish(node)
			}
			s := planned(host, node)
			if tt.hold {
				hold(&s)
			}
			s.SettingsUnread = tt.unread
			step := nextOf(s)
			got := step.String()
			switch {
			case step.Do == Prepare && step.Clean == nil:
				got += ": " + step.Message
			case step.Do == Prepare:
				got += " " + step.Clean.RAIDInterface
				for _, s := range step.Clean.Steps {
					got += " " + s.Interface + "." + s.Step
				}
				if !step.Interrupts() {
					t.Error("the step does not count as one that interrupts")
				}
			}
			if got != tt.want && (tt.want != "Wait" || !strings.HasPrefix(got, "Wait")) {
				t.Errorf("next is %q, not %q", got, tt.want)
			}
		})
	}
}
