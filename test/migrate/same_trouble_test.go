// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim/fsm"
)

func init() { maps.Copy(lives, troubles) }

// troubles are lives in which something fails, or changes while Ironic works.
var troubles = map[string]life{
	"inspection fails once": {steps: []lifeStep{{then: available}, {act: failNext("inspect")}, {patch: inspectPatch, then: failed(metal3.InspectionError)},
		{patch: `{}`, then: available}}},
	"deployment fails once": {differs: map[string]string{"states": "undeployed at once"}, steps: []lifeStep{{then: available}, {act: failNext("deploy")}, {patch: imagePatch, then: failed(metal3.ProvisioningError)}, {patch: `{}`, then: provisioned}}},
	"undeploying fails once": {steps: []lifeStep{{patch: imagePatch, then: provisioned}, {act: failNext("delete")}, {patch: `{"spec":{"image":null}}`, then: failed(metal3.ProvisioningError)},
		{patch: `{}`, then: available}}},
	"power-off fails once":          {differs: map[string]string{"host.status.errorCount": "ends with the error", "states": "a hard power-off follows at once", "events.PowerManagementError": "a hard power-off follows at once"}, steps: []lifeStep{{then: available}, {act: failNext("power")}, {patch: `{"spec":{"online":false}}`, then: available}}},
	"switched off by hand":          {steps: []lifeStep{{patch: imagePatch, then: provisioned}, {act: power(fsm.PowerOff), until: isOn}, {patch: `{}`, then: provisioned, until: nodeHas("power_state", fsm.PowerOn)}}},
	"BMC comes back":                {differs: map[string]string{"states": "the operator does not show it", "events.PowerManagementError": "the operator does not show it"}, steps: []lifeStep{{then: available}, {act: dead(true), until: nodeHas("fault", "power failure")}, {act: dead(false), then: available, until: nodeHas("maintenance", "false")}}},
	"password changed":              {steps: []lifeStep{{then: available}, {act: changePassword, then: available, until: credentialsAreNew}}},
	"node lost":                     {differs: sameNode, steps: []lifeStep{{then: available}, {act: loseNode, until: hasNode}, {patch: `{}`, then: available}}},
	"node of external host lost":    {differs: both(adopted, sameNode), steps: []lifeStep{{patch: externalPatch, then: external}, {act: loseNode, until: hasNode}, {patch: `{}`, then: external}}},
	"node of provisioned host lost": {differs: both(adopted, sameNode), steps: []lifeStep{{patch: imagePatch, then: provisioned}, {act: loseNode}, {patch: `{}`, until: hasNode}}},
	"deleted while inspecting":      {differs: map[string]string{"targets": "the operator has the node manageable before it is deleted"}, steps: []lifeStep{{then: available}, {act: holdRamdisk}, {patch: inspectPatch, until: nodeIs(fsm.InspectWait)}, {act: deleteHost, gone: true}}},
	"deleted while provisioning":    {steps: []lifeStep{{patch: `{"spec":{"automatedCleaningMode":"disabled"}}`, then: available}, {act: holdRamdisk}, {patch: imagePatch, until: nodeIs(fsm.DeployWait)}, {act: deleteHost, gone: true}}},
	"deleted while cleaning":        {differs: map[string]string{"states": "nothing was deployed", "events": "nothing was deployed", "targets": "this server aborts the cleaning", "disks": "this server aborts the cleaning"}, steps: []lifeStep{{then: available}, {act: holdRamdisk}, {patch: imagePatch, until: nodeIs(fsm.CleanWait)}, {act: deleteHost}, {act: callBack, gone: true}}},
	"deleted while deprovisioning":  {steps: []lifeStep{{patch: imagePatch, then: provisioned}, {act: holdRamdisk}, {patch: `{"spec":{"image":null}}`, until: nodeIs(fsm.CleanWait)}, {act: deleteHost}, {act: callBack, gone: true}}},
	"image removed while provisioning": {steps: []lifeStep{{patch: `{"spec":{"automatedCleaningMode":"disabled"}}`, then: available}, {act: holdRamdisk}, {patch: imagePatch, until: nodeIs(fsm.DeployWait)},
		{patch: `{"spec":{"image":null}}`, then: available}}},
	"off while provisioning": {steps: []lifeStep{{patch: `{"spec":{"automatedCleaningMode":"disabled"}}`, then: available}, {act: holdRamdisk}, {patch: imagePatch, until: nodeIs(fsm.DeployWait)},
		{patch: `{"spec":{"online":false}}`}, {act: callBack, then: provisioned}}},
	"deleted while paused": {steps: []lifeStep{{then: available}, {patch: `{"metadata":{"annotations":{"baremetalhost.metal3.io/paused":"me"}}}`}, {act: deleteHost},
		{patch: `{"metadata":{"annotations":{"baremetalhost.metal3.io/paused":null}}}`, gone: true}}},
	"network data":              {differs: map[string]string{"secrets.network-data.finalizers": "0.14 keeps it; this server deletes the host without it"}, steps: []lifeStep{{patch: `{"spec":{"preprovisioningNetworkDataName":"network-data"}}`, then: available}}},
	"no network data":           {differs: map[string]string{"host.status.errorCount": "waits until there is one", "host.status.triedCredentials": "not tried yet", "secrets.bmc": "not tried yet", "states": "seen before"}, steps: []lifeStep{{patch: `{"spec":{"preprovisioningNetworkDataName":"none"}}`, then: registrationFailed}}},
	"hardware given":            {differs: map[string]string{"hardwaredata": "what is given is kept like what is found", "host.spec.architecture": "what is given is kept like what is found"}, steps: []lifeStep{{patch: `{"metadata":{"annotations":{"inspect.metal3.io":"disabled","inspect.metal3.io/hardwaredetails":"{\"cpu\":{\"arch\":\"x86_64\",\"count\":3},\"hostname\":\"h\"}"}}}`, then: available}}},
	"firmware on reboot":        {address: redfish, differs: map[string]string{"targets": "the operator begins again and again until its HostFirmwareSettings show the new values"}, steps: []lifeStep{{patch: imagePatch, then: provisioned}, {act: createPolicy(metal3.HostUpdatePolicySpec{FirmwareSettings: metal3.UpdateOnReboot})}, {act: patchSettings(`{"spec":{"settings":{"NumCores":8}}}`), until: settingsCondition("ChangeDetected", metav1.ConditionTrue)}, {patch: `{"metadata":{"annotations":{"reboot.metal3.io":"{\"mode\":\"hard\"}"}}}`, then: without("reboot.metal3.io", provisioned), until: settingIs("NumCores", "8")}}},
	"firmware update on reboot": {address: redfish, steps: []lifeStep{{patch: imagePatch, then: provisioned}, {act: createPolicy(metal3.HostUpdatePolicySpec{FirmwareUpdates: metal3.UpdateOnReboot})}, {act: patchComponents(`{"spec":{"updates":[{"component":"bios","url":"http://192.0.2.1/bios.bin"}]}}`)}, {patch: `{"metadata":{"annotations":{"reboot.metal3.io":"{\"mode\":\"hard\"}"}}}`, then: without("reboot.metal3.io", provisioned), until: updated}}},
	"no policy, firmware set":   {address: redfish, steps: []lifeStep{{patch: imagePatch, then: provisioned}, {act: patchSettings(`{"spec":{"settings":{"NumCores":8}}}`), until: settingsCondition("ChangeDetected", metav1.ConditionTrue)}, {patch: `{"metadata":{"annotations":{"reboot.metal3.io":"{\"mode\":\"hard\"}"}}}`, then: without("reboot.metal3.io", provisioned)}}},
}

const inspectPatch = `{"metadata":{"annotations":{"inspect.metal3.io":""}}}`

// act is something that a player does, or that happens to it.
type act = func(context.Context, *player) error

func (p *player) nodeID() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.node
}

func (p *player) bmc() *ironicsim.BMC { return p.ironic.BMC(p.host.Spec.BMC.Address) }

// failNext has the next operation of a kind fail.
func failNext(phase string) act {
	return func(_ context.Context, p *player) error {
		return p.ironic.FailNext(p.nodeID(), phase, phase+" has failed")
	}
}

func holdRamdisk(_ context.Context, p *player) error { return p.ironic.HoldRamdisk(p.nodeID()) }

// callBack lets a ramdisk that was held call back, if the node waits for it still.
func callBack(_ context.Context, p *player) error {
	if node, exists := p.ironic.Node(p.nodeID()); !exists || !fsm.IsWaiting(fmt.Sprint(node["provision_state"])) {
		return nil
	}
	return p.ironic.CallBack(p.nodeID())
}

func loseNode(_ context.Context, p *player) error { return p.ironic.LoseNode(p.nodeID()) }

func power(state string) act {
	return func(_ context.Context, p *player) error {
		p.bmc().SetPower(state)
		return nil
	}
}

// isOn reports whether the machine is on: somebody has put that right, if it was switched off by hand.
func isOn(_ context.Context, p *player) bool { return p.bmc().Power() == fsm.PowerOn }

func dead(is bool) act {
	return func(_ context.Context, p *player) error {
		p.bmc().SetDead(is)
		return nil
	}
}

func deleteHost(ctx context.Context, p *player) error {
	return p.hosts.Delete(ctx, p.host.Name, metav1.DeleteOptions{})
}

// changePassword changes the password at the BMC and in the Secret.
func changePassword(ctx context.Context, p *player) error {
	p.ironic.AddBMC(p.host.Spec.BMC.Address, "root", "another")
	patch := []byte(`{"stringData":{"password":"another"}}`)
	_, err := p.core.CoreV1().Secrets(p.ns).Patch(ctx, "bmc", types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// credentialsAreNew reports whether the credentials that work are those in the Secret.
func credentialsAreNew(ctx context.Context, p *player) bool {
	secret, err := p.core.CoreV1().Secrets(p.ns).Get(ctx, "bmc", metav1.GetOptions{})
	if err != nil {
		return false
	}
	host, err := p.hosts.Get(ctx, p.host.Name, metav1.GetOptions{})
	return err == nil && host.Status.GoodCredentials.Version == secret.ResourceVersion
}

func createPolicy(spec metal3.HostUpdatePolicySpec) act {
	return func(ctx context.Context, p *player) error {
		policy := &metal3.HostUpdatePolicy{ObjectMeta: metav1.ObjectMeta{Name: p.host.Name}, Spec: spec}
		_, err := p.metal3.Metal3V1alpha1().HostUpdatePolicies(p.ns).Create(ctx, policy, metav1.CreateOptions{})
		return err
	}
}

func nodeIs(state string) func(context.Context, *player) bool {
	return nodeHas("provision_state", state)
}

func nodeHas(field, value string) func(context.Context, *player) bool {
	return func(_ context.Context, p *player) bool {
		node, exists := p.ironic.Node(p.nodeID())
		return exists && fmt.Sprint(node[field]) == value
	}
}

func hasNode(_ context.Context, p *player) bool {
	_, exists := p.ironic.Node(p.nodeID())
	return exists
}
