// SPDX-License-Identifier: Apache-2.0

package registrar

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/deploy"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/secrets"
)

// kernelParamsKey in driver_info are the parameters of the ramdisk's kernel.
const kernelParamsKey = "kernel_append_params"

// ipmiAddressKey in driver_info is the host of a BMC with IPMI.
const ipmiAddressKey = "ipmi_address"

// wantedNode is what Ironic has to know of a host in every state, apart from the
// credentials and from what is deployed on it.
type wantedNode struct {
	access bmc.Access
	// isSpellingMinded is set if Ironic minds how the name of a BMC is spelt.
	isSpellingMinded bool
	ramdisk          map[string]any // the part of driver_info that is not the BMC's
	// image identifies the host's own image in ramdisk. keepsImage is set if the node keeps the image that
	// it has, which image identifies, too.
	image      string
	keepsImage bool
	// keepsExternalURL is set if it is not known from where the BMC fetches virtual media.
	keepsExternalURL bool
	inspectInterface string // empty where ironic-inspector inspects
	automatedClean   bool
	disablePowerOff  *bool  // nil where Ironic knows no such thing, and nobody wants it
	conductorGroup   string // empty leaves it as it is
	networkData      map[string]any
	// networkVersion is the resourceVersion of the Secret that networkData is from.
	networkVersion string
	// hasOtherNetwork is set if that Secret has the network configuration in another format alone.
	hasOtherNetwork bool
}

// requirements derives from a host what Ironic has to know of it.
type requirements struct {
	ironic   Ironic
	secrets  *secrets.Secrets
	images   HostImages
	settings Settings
}

// wantedOf returns what Ironic has to know of the host, its network configuration apart.
func (r *requirements) wantedOf(ctx context.Context, host *metal3.BareMetalHost, access bmc.Access) (*wantedNode, error) {
	wanted := &wantedNode{
		access:         access,
		automatedClean: host.Spec.AutomatedCleaningMode != metal3.CleaningModeDisabled,
		conductorGroup: r.settings.ConductorGroups.GroupOf(host.Labels),
	}
	if err := r.chooseRamdisk(ctx, host, access, wanted); err != nil {
		return nil, err
	}
	r.chooseExternalURL(ctx, access, wanted)
	features, err := r.ironic.Features(ctx)
	if err != nil {
		return nil, err
	}
	wanted.isSpellingMinded = features.StrictIPMINames
	if features.AgentInspection {
		wanted.inspectInterface = "agent"
		if host.Spec.InspectionMode == metal3.InspectionModeFast && access.FastInspectInterface != "" {
			wanted.inspectInterface = access.FastInspectInterface
		}
	}
	if features.DisablePowerOff || host.Spec.DisablePowerOff { // which it refuses then: it would switch the host off
		wanted.disablePowerOff = &host.Spec.DisablePowerOff
	}
	return wanted, nil
}

// readNetwork reads the network configuration of the ramdisk.
func (r *requirements) readNetwork(ctx context.Context, host *metal3.BareMetalHost, wanted *wantedNode) error {
	name := host.Spec.PreprovisioningNetworkDataName
	if name == "" {
		return nil
	}
	if r.settings.isNetworkInImages() {
		wanted.networkVersion = r.secrets.NetworkVersion(host)
		return nil
	}
	secret, err := r.secrets.Data(ctx, host.Namespace, name)
	if apierrors.IsNotFound(err) {
		return &problem{metal3.NetworkDataUnusableReason, lifecycle.MissingNetworkData(host)} // its creation requeues the host
	}
	if err != nil {
		return fmt.Errorf("reading Secret %s/%s: %w", host.Namespace, name, err)
	}
	wanted.networkVersion = secret.Since
	if wanted.networkData, err = deploy.RamdiskNetwork(host.Namespace, name, secret.Data); err != nil {
		return &problem{metal3.NetworkDataUnusableReason, err.Error()}
	}
	wanted.hasOtherNetwork = wanted.networkData == nil && len(secret.Data["nmstate"]) > 0
	return nil
}

func (w *wantedNode) driverInfo(credentials secrets.Credentials) map[string]any {
	info := w.access.DriverInfo(credentials.Username, credentials.Password)
	maps.Copy(info, w.ramdisk)
	return info
}

// patches are what turns a node's registration, driver_info apart, into what is
// wanted. A node that was taken over keeps its driver and what goes with it.
func (w *wantedNode) patches(host *metal3.BareMetalHost, node *ironic.Node, current *ironic.Registration) []ironic.Patch {
	var patches []ironic.Patch
	set := func(path string, value any) {
		patches = append(patches, ironic.Patch{Op: ironic.PatchAdd, Path: path, Value: value})
	}
	if name := lifecycle.NodeName(host); node.Name != name {
		set("/name", name)
	}
	if current.AutomatedClean == nil || *current.AutomatedClean != w.automatedClean {
		set("/automated_clean", w.automatedClean)
	}
	if w.disablePowerOff != nil && (current.DisablePowerOff == nil && *w.disablePowerOff || current.DisablePowerOff != nil && *current.DisablePowerOff != *w.disablePowerOff) {
		set("/disable_power_off", *w.disablePowerOff)
	}
	if !lifecycle.IsIdle(node.ProvisionState) {
		return patches
	}
	// Ironic would permit it in other states, too. Then another conductor takes the node over, and prepares again what a
	// deployed machine boots.
	if w.conductorGroup != "" && !strings.EqualFold(current.ConductorGroup, w.conductorGroup) {
		set("/conductor_group", w.conductorGroup)
	}
	if node.Driver != w.access.Driver {
		return patches
	}
	if w.inspectInterface != "" && current.InspectInterface != w.inspectInterface {
		set("/inspect_interface", w.inspectInterface)
	}
	capabilities, _ := current.Properties["capabilities"].(string)
	if swapped := deploy.Capabilities(capabilities, host.Spec.BootMode); swapped != capabilities {
		set("/properties/capabilities", swapped)
	}
	if arch := deploy.WantedArchitecture(host); arch != "" && current.Properties["cpu_arch"] != arch {
		set("/properties/cpu_arch", arch)
	}
	switch {
	case w.networkData == nil && len(current.NetworkData) > 0 && isMadeFor(host, current):
		set("/network_data", map[string]any{})
	case w.networkData != nil && !ironic.SameJSON(current.NetworkData, w.networkData):
		set("/network_data", w.networkData)
	}
	return patches
}

// ironicDefaults is what Ironic takes for parts of driver_info that are missing. They are no reason for a PATCH: the Bare Metal
// Operator sets this one only when it deploys, so each host that it has not deployed would be changed after a migration.
var ironicDefaults = map[string]string{"force_persistent_boot_device": "Default"}

// isAsWanted reports whether driver_info has a value already, or Ironic behaves as if it had.
func isAsWanted(current map[string]any, key string, wanted any) bool {
	value, has := current[key]
	if assumed, known := ironicDefaults[key]; known && (!has || value == nil) {
		value = assumed
	}
	return fmt.Sprint(value) == fmt.Sprint(wanted)
}

// isSameName reports whether two values are the same name of a BMC, however it is spelt.
func isSameName(a, b any) bool { return strings.EqualFold(fmt.Sprint(a), fmt.Sprint(b)) }

func isPassword(key string) bool { return strings.HasSuffix(key, "_password") }

// isSameLogin reports whether Ironic has the wanted BMC and user already. Otherwise somebody has given the node another BMC, whose password
// it may be that it has.
func isSameLogin(current, wanted map[string]any) bool {
	for key, value := range wanted {
		if key == ipmiAddressKey && isSameName(current[key], value) {
			continue
		}
		if (strings.HasSuffix(key, "_address") || strings.HasSuffix(key, "_username")) && !isAsWanted(current, key, value) {
			return false
		}
	}
	return true
}

// driverInfoPatches are what turns driver_info into what is wanted, leaving alone
// what others have put there. The password, which Ironic does not give away, is
// sent unless it is known to be there, for this user and BMC.
func driverInfoPatches(current, wanted map[string]any, passwordKnown bool) []ironic.Patch {
	var patches []ironic.Patch
	for _, key := range slices.Sorted(maps.Keys(wanted)) {
		if isPassword(key) && current[key] != nil && passwordKnown && isSameLogin(current, wanted) || !isPassword(key) && isAsWanted(current, key, wanted[key]) {
			continue
		}
		patches = append(patches, ironic.Patch{Op: ironic.PatchAdd, Path: "/driver_info/" + key, Value: wanted[key]})
	}
	// Those that we do not always set: what a setting said that is gone must go, too,
	// also where somebody has set it by hand. (Without deploy_kernel and the like of
	// ours, the node may have its own.)
	stale := []string{"ipmi_verify_ca", "redfish_verify_ca", "redfish_system_id", externalURLKey, kernelParamsKey}
	if wanted["deploy_iso"] != nil {
		stale = append(stale, "deploy_kernel", "deploy_ramdisk") // an ISO is either alone or not used
	} else if wanted["deploy_kernel"] != nil {
		stale = append(stale, "deploy_iso")
	}
	for _, key := range stale {
		_, has := current[key]
		if _, wants := wanted[key]; has && !wants {
			patches = append(patches, ironic.Patch{Op: ironic.PatchRemove, Path: "/driver_info/" + key})
		}
	}
	return patches
}
