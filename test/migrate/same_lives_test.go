// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"cmp"
	"context"
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// life is what happens to a host.
type life struct {
	address string // of its BMC, with %d for the port; that of an IPMI BMC if it is empty
	isOn    bool   // the machine is on before it is enrolled
	claims  bool   // there are HostClaims
	steps   []lifeStep
	differs map[string]string // beginnings of paths that differ in this life, and why
}

func (l life) addressFormat() string { return cmp.Or(l.address, "ipmi://127.0.0.1:%d") }

// lifeStep is what a user does, and what the host is like afterwards. The first step of a life creates the host, with its patch.
type lifeStep struct {
	patch string // of the host
	act   func(context.Context, *player) error
	gone  bool // the host is gone then
	then  func(*metal3.BareMetalHost) bool
	until func(context.Context, *player) bool
}

// everywhere are beginnings of paths that differ in all lives, and why.
var everywhere = map[string]string{
	"host.status.lastAttemptedImage":                      "came with 0.14",
	"host.status.ironic":                                  "of this server only",
	"host.status.record":                                  "of this server only",
	"host.status.conditions.IronicReachable":              "of this server only",
	"host.status.conditions.Registered":                   "of this server only",
	"hostfirmwaresettings.host.status.source":             "of this server only",
	"hostfirmwarecomponents.host.status.source":           "of this server only",
	"hostfirmwarecomponents.host.status.preparedAt":       "of this server only",
	"firmwareschemas.schema-4f53cda1.spec.hardware":       "the operator leaves them empty",
	"firmwareschemas.schema-fd9d9e21.spec.hardware":       "the operator leaves them empty",
	"hostfirmwaresettings.host.status.settings.QuietBoot": "a boolean is true or false here, however the database of Ironic spells it",
	"node.extra": "the marks of this server",
	"node.driver_info.has_dedicated_power_supply":   "what keeps Ironic 29.0.5 from making a node its own parent",
	"node.driver_info.force_persistent_boot_device": "the operator sets it when it deploys",
	"node.properties.cpu_arch":                      "the operator guesses that of its own program; the inspection finds that of the machine",
	"events.PowerOn":                                "what belongs to another operation is not told",
	"events.PowerOff":                               "what belongs to another operation is not told",
	"events.InspectionSkipped":                      "told without the annotation, too",
	"events.ExternallyProvisioned":                  "of this server only",
	"events.Attached":                               "of this server only",
	"events.Detached":                               "of this server only",
	"events.RebootRequested":                        "of this server only",
	"events.PreparationStarted":                     "of this server only",
	"events.ServicingStarted":                       "of this server only",
	"events.ServicingComplete":                      "of this server only",
	"events.PreparationComplete":                    "of this server only",
}

// What differs where a host is detached, deleted, or not registered.
var (
	sameNode = map[string]string{"targets": "the node comes back with the UUID that it had", "disks": "the node comes back with the UUID that it had"}
	adopted  = map[string]string{"node.instance_info": "the operator leaves out what was deployed", "node.instance_uuid": "what is adopted gets one here, so that another user of Ironic sees that it is in use"}
)

func inState(state metal3.ProvisioningState) func(*metal3.BareMetalHost) bool {
	return func(h *metal3.BareMetalHost) bool {
		return h.Status.Provisioning.State == state && h.Status.ErrorMessage == "" && h.Status.OperationalStatus == metal3.OperationalStatusOK && h.Status.PoweredOn == h.Spec.Online
	}
}

func failed(kind metal3.ErrorType) func(*metal3.BareMetalHost) bool {
	return func(h *metal3.BareMetalHost) bool { return h.Status.ErrorType == kind && h.Status.ErrorMessage != "" }
}

func without(annotation string, then func(*metal3.BareMetalHost) bool) func(*metal3.BareMetalHost) bool {
	return func(h *metal3.BareMetalHost) bool {
		_, has := h.Annotations[annotation]
		return !has && then(h)
	}
}

const (
	image        = `"image":{"url":"http://192.0.2.1/image.qcow2","checksum":"http://192.0.2.1/image.qcow2.sha256","checksumType":"sha256"}`
	imagePatch   = `{"spec":{` + image + `}}`
	anotherImage = `{"spec":{"image":{"url":"http://192.0.2.1/another.qcow2","checksum":"http://192.0.2.1/another.qcow2.sha256","checksumType":"sha256"}}}`
	liveISO      = `{"spec":{"image":{"url":"http://192.0.2.1/live.iso","format":"live-iso"}}}`
	detach       = `{"metadata":{"annotations":{"baremetalhost.metal3.io/detached":""}}}`
	attach       = `{"metadata":{"annotations":{"baremetalhost.metal3.io/detached":null}}}`

	redfish       = "redfish://127.0.0.1:%d/redfish/v1/Systems/1"
	virtualMedia  = "redfish-virtualmedia://127.0.0.1:%d/redfish/v1/Systems/1"
	externalPatch = `{"spec":{"externallyProvisioned":true}}`
	wrongPatch    = `{"spec":{"bmc":{"credentialsName":"wrong"}}}`
)

var (
	available, provisioned = inState(metal3.StateAvailable), inState(metal3.StateProvisioned)
	external               = inState(metal3.StateExternallyProvisioned)
	registrationFailed     = failed(metal3.RegistrationError)
)

func detached(h *metal3.BareMetalHost) bool {
	return h.Status.OperationalStatus == metal3.OperationalStatusDetached
}

func both(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// lives are those that are compared. These are not, because one of the two does not do them. The operator takes for ever to inspect a
// host that was external, and accepts spec.firmware and secure boot by IPMI. It tells nobody that a Secret with user data is missing, that cleaning has failed before a deployment, and that a BMC is silent. (Its
// webhooks, which do not run here, refuse another BMC and another boot MAC address, as this server does.)
var lives = map[string]life{
	"enrol":                      {steps: []lifeStep{{then: available}}},
	"enrol, off":                 {steps: []lifeStep{{patch: `{"spec":{"online":false}}`, then: available}}},
	"enrol by Redfish":           {address: redfish, steps: []lifeStep{{then: available}}},
	"enrol by virtual media":     {address: virtualMedia, steps: []lifeStep{{then: available}}},
	"without verification":       {address: redfish, steps: []lifeStep{{patch: `{"spec":{"bmc":{"disableCertificateVerification":true}}}`, then: available}}},
	"without inspection":         {steps: []lifeStep{{patch: `{"spec":{"inspectionMode":"disabled"}}`, then: available}}},
	"inspection annotation":      {steps: []lifeStep{{patch: `{"metadata":{"annotations":{"inspect.metal3.io":"disabled"}}}`, then: available}}},
	"external":                   {differs: adopted, steps: []lifeStep{{patch: externalPatch, then: external}}},
	"external, then off":         {differs: adopted, steps: []lifeStep{{patch: externalPatch, then: external}, {patch: `{"spec":{"online":false}}`, then: external}}},
	"available, then external":   {differs: adopted, steps: []lifeStep{{then: available}, {patch: externalPatch, then: external}}},
	"wrong password":             {differs: map[string]string{"host.status.errorCount": "tried more often at first", "targets": "tried more often at first", "events.Registered": "a node that was not verified is not registered", "node.driver_info.deploy": "the operator tells Ironic later", "node.automated_clean": "the operator tells Ironic later"}, steps: []lifeStep{{patch: wrongPatch, then: registrationFailed}}},
	"no Secret":                  {differs: map[string]string{"host.status.errorCount": "waits until there is one", "states": "seen before", "host.status.conditions": "the operator does not judge them anew"}, steps: []lifeStep{{patch: `{"spec":{"bmc":{"credentialsName":"none"}}}`, then: registrationFailed}}},
	"incomplete Secret":          {differs: map[string]string{"host.status.errorCount": "tried more often at first", "states": "seen before", "host.status.conditions": "the operator does not judge them anew", "host.status.provisioning.ID": "chosen before the node is created", "secrets": "what has no credentials is nobody's Secret of a BMC"}, steps: []lifeStep{{patch: `{"spec":{"bmc":{"credentialsName":"incomplete"}}}`, then: registrationFailed}}},
	"corrected Secret":           {differs: map[string]string{"secrets.wrong.finalizers": "the operator never lets go of a Secret"}, steps: []lifeStep{{patch: wrongPatch, then: registrationFailed}, {patch: `{"spec":{"bmc":{"credentialsName":"bmc"}}}`, then: available}}},
	"power":                      {steps: []lifeStep{{then: available}, {patch: `{"spec":{"online":false}}`, then: available}, {patch: `{"spec":{"online":true}}`, then: available}}},
	"provision":                  {steps: []lifeStep{{then: available}, {patch: imagePatch, then: provisioned}}},
	"provision at once":          {steps: []lifeStep{{patch: imagePatch, then: provisioned}}},
	"provision by virtual media": {address: virtualMedia, steps: []lifeStep{{patch: imagePatch, then: provisioned}}},
	"full cleaning":              {steps: []lifeStep{{patch: `{"spec":{"automatedCleaningMode":"metadata"}}`, then: available}, {patch: imagePatch, then: provisioned}, {patch: `{"spec":{"image":null}}`, then: available}}},
	"without cleaning":           {steps: []lifeStep{{patch: `{"spec":{"automatedCleaningMode":"disabled"}}`, then: available}, {patch: imagePatch, then: provisioned}, {patch: `{"spec":{"image":null}}`, then: available}}},
	"deprovision":                {steps: []lifeStep{{patch: imagePatch, then: provisioned}, {patch: `{"spec":{"image":null}}`, then: available}}},
	"another image": {steps: []lifeStep{{patch: imagePatch, then: provisioned}, {patch: anotherImage, then: func(h *metal3.BareMetalHost) bool {
		return provisioned(h) && strings.Contains(h.Status.Provisioning.Image.URL, "another")
	}}}},
	"live ISO":                  {steps: []lifeStep{{patch: liveISO, then: provisioned}}},
	"live ISO by virtual media": {address: virtualMedia, steps: []lifeStep{{patch: liveISO, then: provisioned}, {patch: `{"spec":{"image":null}}`, then: available}}},
	"custom deploy":             {steps: []lifeStep{{patch: `{"spec":{"customDeploy":{"method":"install_coreos"}}}`, then: provisioned}, {patch: `{"spec":{"customDeploy":null}}`, then: available}}},
	"user data":                 {steps: []lifeStep{{patch: `{"spec":{"userData":{"name":"user-data"},"networkData":{"name":"network-data"},"metaData":{"name":"meta-data"},` + image + `}}`, then: provisioned}}},
	"root device hints":         {steps: []lifeStep{{patch: `{"spec":{"rootDeviceHints":{"deviceName":"/dev/sda","minSizeGigabytes":1,"rotational":true}}}`, then: available}, {patch: imagePatch, then: provisioned}}},
	"other root device hints": {steps: []lifeStep{{then: available}, {patch: `{"spec":{"rootDeviceHints":{"serialNumber":"x"}}}`, then: func(h *metal3.BareMetalHost) bool {
		return available(h) && h.Status.Provisioning.RootDeviceHints.SerialNumber == "x"
	}}}},
	"hardware profile":          {steps: []lifeStep{{patch: `{"spec":{"hardwareProfile":"libvirt"}}`, then: available}, {patch: imagePatch, then: provisioned}}},
	"provisioned, off":          {steps: []lifeStep{{patch: imagePatch, then: provisioned}, {patch: `{"spec":{"online":false}}`, then: provisioned}}},
	"detached":                  {steps: []lifeStep{{patch: imagePatch, then: provisioned}, {patch: detach, then: detached}}},
	"detached and back":         {differs: both(adopted, sameNode), steps: []lifeStep{{patch: imagePatch, then: provisioned}, {patch: detach, then: detached}, {patch: attach, then: provisioned}}},
	"available, detached, back": {differs: sameNode, steps: []lifeStep{{then: available}, {patch: detach, then: detached}, {patch: attach, then: available}}},
	"external, detached, back":  {differs: both(adopted, sameNode), steps: []lifeStep{{patch: externalPatch, then: external}, {patch: detach, then: detached}, {patch: attach, then: external}}},
	"detached and deleted":      {differs: map[string]string{"states": "it goes at once"}, steps: []lifeStep{{patch: imagePatch, then: provisioned}, {patch: detach, then: detached}, {act: deleteHost, gone: true}}},
	"reboot":                    {steps: []lifeStep{{patch: imagePatch, then: provisioned}, {patch: `{"metadata":{"annotations":{"reboot.metal3.io":"{\"mode\":\"hard\"}"}}}`, then: without("reboot.metal3.io", provisioned)}}},
	"soft reboot":               {steps: []lifeStep{{patch: imagePatch, then: provisioned}, {patch: `{"metadata":{"annotations":{"reboot.metal3.io":""}}}`, then: without("reboot.metal3.io", provisioned)}}},
	"reboot of available":       {steps: []lifeStep{{then: available}, {patch: `{"metadata":{"annotations":{"reboot.metal3.io":"{\"mode\":\"hard\"}"}}}`, then: available}}},
	"reboot held": {steps: []lifeStep{
		{patch: imagePatch, then: provisioned},
		{patch: `{"metadata":{"annotations":{"reboot.metal3.io/capm3":"{\"mode\":\"hard\"}"}}}`, then: func(h *metal3.BareMetalHost) bool { return !h.Status.PoweredOn }},
		{patch: `{"metadata":{"annotations":{"reboot.metal3.io/capm3":null}}}`, then: provisioned}}},
	"inspect again":              {steps: []lifeStep{{then: available}, {patch: `{"metadata":{"annotations":{"inspect.metal3.io":""}}}`, then: without("inspect.metal3.io", available)}}},
	"paused from the start":      {steps: []lifeStep{{patch: `{"metadata":{"annotations":{"baremetalhost.metal3.io/paused":"me"}}}`, then: func(*metal3.BareMetalHost) bool { return true }}}},
	"paused while provisioned":   {steps: []lifeStep{{patch: imagePatch, then: provisioned}, {patch: `{"metadata":{"annotations":{"baremetalhost.metal3.io/paused":"me"}},"spec":{"image":null}}`, then: func(h *metal3.BareMetalHost) bool { return h.Status.Provisioning.State == metal3.StateProvisioned }}}},
	"deleted while available":    {steps: []lifeStep{{then: available}, {act: deleteHost, gone: true}}},
	"deleted provisioned":        {steps: []lifeStep{{patch: imagePatch, then: provisioned}, {act: deleteHost, gone: true}}},
	"deleted external":           {steps: []lifeStep{{patch: externalPatch, then: external}, {act: deleteHost, gone: true}}},
	"deleted with wrong Secret":  {differs: map[string]string{"states": "the operator does not show it", "events.Registered": "a node that was not verified is not registered"}, steps: []lifeStep{{patch: wrongPatch, then: registrationFailed}, {act: deleteHost, gone: true}}},
	"deleted without power off":  {isOn: true, steps: []lifeStep{{patch: `{"spec":{"disablePowerOff":true}}`, then: available}, {act: deleteHost, gone: true}}},
	"consumer":                   {steps: []lifeStep{{patch: `{"spec":{"consumerRef":{"apiVersion":"v1","kind":"Pod","name":"me","namespace":"x"}}}`, then: available}}},
	"legacy boot":                {steps: []lifeStep{{patch: `{"spec":{"bootMode":"legacy"}}`, then: available}, {patch: imagePatch, then: provisioned}}},
	"secure boot":                {address: virtualMedia, steps: []lifeStep{{patch: `{"spec":{"bootMode":"UEFISecureBoot"}}`, then: available}, {patch: imagePatch, then: provisioned}}},
	"other boot mode":            {steps: []lifeStep{{then: available}, {patch: `{"spec":{"bootMode":"legacy"}}`, then: available}, {patch: imagePatch, then: provisioned}}},
	"description and taints":     {steps: []lifeStep{{patch: `{"spec":{"description":"a host","taints":[{"key":"a","effect":"NoSchedule"}],"architecture":"x86_64"}}`, then: available}}},
	"other architecture":         {steps: []lifeStep{{patch: `{"spec":{"architecture":"aarch64"}}`, then: available}}},
	"software RAID":              {differs: map[string]string{"host.status.provisioning.rootDeviceHints": "the volume is the root device", "node.raid_config": "the volume is the root device", "node.target_raid_config": "the volume is the root device"}, steps: []lifeStep{{patch: `{"spec":{"raid":{"softwareRAIDVolumes":[{"level":"1"}]}}}`, then: available}}},
	"unmanaged":                  {differs: map[string]string{"host.metadata.finalizers": "there is nothing to be undone"}, steps: []lifeStep{{patch: `{"spec":{"bmc":{"address":"","credentialsName":""}}}`, then: func(h *metal3.BareMetalHost) bool { return h.Status.Provisioning.State == metal3.StateUnmanaged }}}},
	"firmware settings":          {address: redfish, differs: map[string]string{"targets": "the operator cleans again and again until its HostFirmwareSettings show the new values"}, steps: []lifeStep{{then: available}, {act: patchSettings(`{"spec":{"settings":{"NumCores":8,"LogicalProc":"Disabled"}}}`), until: settingIs("NumCores", "8"), then: available}}},
	"unknown firmware setting":   {address: redfish, steps: []lifeStep{{then: available}, {act: patchSettings(`{"spec":{"settings":{"NoSuchSetting":"8"}}}`), until: settingsCondition("Valid", metav1.ConditionFalse)}}},
	"read-only firmware setting": {address: redfish, steps: []lifeStep{{then: available}, {act: patchSettings(`{"spec":{"settings":{"SerialNumber":"8"}}}`), until: settingsCondition("Valid", metav1.ConditionFalse)}}},
	"firmware settings at once":  {address: redfish, steps: []lifeStep{{patch: imagePatch, then: provisioned}, {act: patchSettings(`{"spec":{"settings":{"NumCores":8}}}`), until: settingsCondition("ChangeDetected", metav1.ConditionTrue)}}},
	"firmware update":            {address: redfish, differs: map[string]string{"node.power_state": "the operator leaves the machine off until it looks again"}, steps: []lifeStep{{then: available}, {act: patchComponents(`{"spec":{"updates":[{"component":"bios","url":"http://192.0.2.1/bios.bin"}]}}`), until: updated, then: available}}},
	"data image":                 {address: virtualMedia, steps: []lifeStep{{patch: imagePatch, then: provisioned}, {act: createDataImage}, {patch: `{"metadata":{"annotations":{"reboot.metal3.io":"{\"mode\":\"hard\"}"}}}`, then: without("reboot.metal3.io", provisioned), until: dataImageAttached}}},
	"event subscription":         {address: redfish, steps: []lifeStep{{then: available}, {act: createSubscription, until: subscribed}}},
	"no boot MAC":                {address: virtualMedia, steps: []lifeStep{{patch: `{"spec":{"bootMACAddress":""}}`, then: available}}},
}
