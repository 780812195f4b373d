// SPDX-License-Identifier: Apache-2.0

package safety

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// The images that hosts of TestRestored run.
const firstImage, secondImage = "first.raw", "second.raw"

// fate is what happens to a host around a backup. Everything is as a user would do it.
type fate struct {
	name string
	// created changes the host that is created before the backup. nil: there is none then.
	created []change
	// ready reports whether it has come to where the backup finds it.
	ready func(*fleetHost) arrival
	// begun is what is asked for in the moment before the backup.
	begun func(*fleetHost)
	// day is what happens after the backup, one after the other.
	day []event
	// redeployed reports that the machine runs something else after the day, or for another user.
	redeployed bool

	// today changes the host as it is wanted at the end of the day. nil: it is gone.
	today []change
	// runs is what the machine runs then: an image, or something that this server knows nothing
	// of. Nobody may touch it if that is not empty.
	runs string
}

type change func(*fleetHost, *metal3.BareMetalHost)

// arrival reports whether a host has arrived; nil for one that is gone.
type arrival func(*metal3.BareMetalHost) bool

// event is something that is done to a host, and how it ends.
type event struct {
	do  func(*fleetHost)
	end func(*fleetHost) arrival
}

const strangers = "what a stranger runs"

func plain(*fleetHost, *metal3.BareMetalHost)             {}
func runsFirst(f *fleetHost, h *metal3.BareMetalHost)     { h.Spec.Image = f.image(firstImage) }
func runsSecond(f *fleetHost, h *metal3.BareMetalHost)    { h.Spec.Image = f.image(secondImage) }
func isOff(_ *fleetHost, h *metal3.BareMetalHost)         { h.Spec.Online = false }
func isExternal(_ *fleetHost, h *metal3.BareMetalHost)    { h.Spec.ExternallyProvisioned = true }
func secretMissing(_ *fleetHost, h *metal3.BareMetalHost) { h.Spec.BMC.CredentialsName = "later" }
func isDetached(_ *fleetHost, h *metal3.BareMetalHost) {
	metav1.SetMetaDataAnnotation(&h.ObjectMeta, metal3.DetachedAnnotation, `{"force":true}`)
}
func isPaused(_ *fleetHost, h *metal3.BareMetalHost) {
	metav1.SetMetaDataAnnotation(&h.ObjectMeta, metal3.PausedAnnotation, "")
}

func available(*fleetHost) arrival { return isAtRest(metal3.StateAvailable, "") }
func first(f *fleetHost) arrival   { return isAtRest(metal3.StateProvisioned, f.image(firstImage).URL) }
func second(f *fleetHost) arrival  { return isAtRest(metal3.StateProvisioned, f.image(secondImage).URL) }
func external(*fleetHost) arrival  { return isAtRest(metal3.StateExternallyProvisioned, "") }
func gone(*fleetHost) arrival      { return nil }
func registering(*fleetHost) arrival {
	return func(h *metal3.BareMetalHost) bool { return h.Status.ErrorType == metal3.RegistrationError }
}
func detached(*fleetHost) arrival {
	return func(h *metal3.BareMetalHost) bool {
		return h.Status.OperationalStatus == metal3.OperationalStatusDetached
	}
}

func wantFirst(f *fleetHost)  { f.update(runsFirst) }
func wantSecond(f *fleetHost) { f.update(runsSecond) }
func wantNothing(f *fleetHost) {
	f.update(func(_ *fleetHost, h *metal3.BareMetalHost) { h.Spec.Image = nil })
}
func remove(f *fleetHost) { f.delete() }
func create(f *fleetHost) { f.create(plain) }
func unannotate(f *fleetHost) {
	f.patch(fmt.Sprintf(`{"metadata":{"annotations":{%q:null,%q:null}}}`, metal3.DetachedAnnotation, metal3.PausedAnnotation))
}

// giveAway has a stranger install and start the machine of a host that is gone.
func giveAway(f *fleetHost) { f.machine.Press(true) }

// fates begin with those that a few hosts should have.
var fates = []fate{
	{name: "rolled", created: []change{runsFirst}, ready: first,
		day: []event{{wantSecond, second}}, redeployed: true, today: []change{runsSecond}, runs: secondImage},
	{name: "provisioned-since", created: []change{plain}, ready: available,
		day: []event{{wantFirst, first}}, redeployed: true, today: []change{runsFirst}, runs: firstImage},
	{name: "undone", created: []change{runsFirst}, ready: first,
		day: []event{{wantNothing, available}}, redeployed: true, today: []change{plain}},
	{name: "given-away", created: []change{runsFirst}, ready: first,
		day: []event{{remove, gone}, {giveAway, gone}}, redeployed: true, runs: strangers},
	{name: "created-anew", created: []change{runsFirst}, ready: first,
		day: []event{{remove, gone}, {create, available}, {wantSecond, second}}, redeployed: true, today: []change{runsSecond}, runs: secondImage},
	{name: "while-deprovisioning", created: []change{runsFirst}, ready: first, begun: wantNothing,
		day: []event{{func(*fleetHost) {}, available}, {wantSecond, second}}, redeployed: true, today: []change{runsSecond}, runs: secondImage},
	{name: "while-deleted", created: []change{runsFirst}, ready: first, begun: remove,
		day: []event{{func(*fleetHost) {}, gone}, {create, available}, {wantSecond, second}}, redeployed: true, today: []change{runsSecond}, runs: secondImage},
	{name: "external-since", created: []change{plain}, ready: available,
		day: []event{{func(f *fleetHost) { f.update(isExternal) }, external}}, redeployed: true, today: []change{isExternal}, runs: strangers},
	{name: "detached-since", created: []change{runsFirst}, ready: first,
		day: []event{{func(f *fleetHost) { f.update(isDetached) }, detached}}, today: []change{runsFirst, isDetached}, runs: firstImage},
	{name: "off-since", created: []change{runsFirst}, ready: first,
		day: []event{{func(f *fleetHost) { f.update(isOff) }, first}}, today: []change{runsFirst, isOff}, runs: firstImage},
	{name: "same", created: []change{runsFirst}, ready: first, today: []change{runsFirst}, runs: firstImage},
	{name: "new",
		day: []event{{create, available}, {wantFirst, first}}, redeployed: true, today: []change{runsFirst}, runs: firstImage},
	{name: "once-more", created: []change{runsFirst}, ready: first,
		day: []event{{wantNothing, available}, {wantFirst, first}}, redeployed: true, today: []change{runsFirst}, runs: firstImage},
	{name: "while-provisioning", created: []change{plain}, ready: available, begun: wantFirst,
		day: []event{{func(*fleetHost) {}, first}, {wantSecond, second}}, redeployed: true, today: []change{runsSecond}, runs: secondImage},
	{name: "while-inspecting", ready: gone, begun: create,
		day: []event{{func(*fleetHost) {}, available}, {wantFirst, first}}, redeployed: true, today: []change{runsFirst}, runs: firstImage},
	{name: "given-away-while-deleted", created: []change{runsFirst}, ready: first, begun: remove,
		day: []event{{func(*fleetHost) {}, gone}, {giveAway, gone}}, redeployed: true, runs: strangers},
	{name: "attached-since", created: []change{runsFirst}, ready: first, begun: func(f *fleetHost) { f.update(isDetached) },
		day: []event{{func(*fleetHost) {}, detached}, {unannotate, first}}, today: []change{runsFirst}, runs: firstImage},
	{name: "paused-since", created: []change{runsFirst}, ready: first,
		day: []event{{func(f *fleetHost) { f.update(isPaused) }, first}}, today: []change{runsFirst, isPaused}, runs: firstImage},
	{name: "rolled-after-pause", created: []change{runsFirst}, ready: first, begun: func(f *fleetHost) { f.update(isPaused) },
		day: []event{{unannotate, first}, {wantSecond, second}}, redeployed: true, today: []change{runsSecond}, runs: secondImage},
	{name: "on-since", created: []change{runsFirst}, ready: first, begun: func(f *fleetHost) { f.update(isOff) },
		day: []event{{func(*fleetHost) {}, first}, {func(f *fleetHost) { f.patch(`{"spec":{"online":true}}`) }, first}}, today: []change{runsFirst}, runs: firstImage},
	{name: "external", created: []change{isExternal}, ready: external, today: []change{isExternal}, runs: strangers},
	{name: "external-given-away", created: []change{isExternal}, ready: external,
		day: []event{{remove, gone}, {giveAway, gone}}, redeployed: true, runs: strangers},
	{name: "secret-since", created: []change{secretMissing}, ready: registering,
		day: []event{{func(f *fleetHost) { f.patch(`{"spec":{"bmc":{"credentialsName":"bmc"}}}`) }, available}, {wantFirst, first}}, redeployed: true, today: []change{runsFirst}, runs: firstImage},
	{name: "available", created: []change{plain}, ready: available, today: []change{plain}},
	{name: "available-given-away", created: []change{plain}, ready: available,
		day: []event{{remove, gone}, {giveAway, gone}}, redeployed: true, runs: strangers},
}

// fleetHost is a host of TestRestored.
type fleetHost struct {
	*fleet
	fate
	name    string
	machine machine
	// morning reports that its day was over before the second backup of Ironic's database.
	morning bool
	// atEnd is what had been done to its machine when the day was over.
	atEnd account
	// asExternal: it is externally provisioned after the restore, because nobody else knew.
	asExternal bool
	// inTransit: Ironic was at work on its node in the backup.
	inTransit bool
	confirmed bool
}

func (f *fleetHost) image(name string) *metal3.Image { return imageOf(f.Image(name)) }

// wanted is the host as its user wants it, with changes.
func (f *fleetHost) wanted(changes []change) *metal3.BareMetalHost {
	host := newHost(f.name, f.machine)
	for _, c := range changes {
		c(f, host)
	}
	return host
}

func (f *fleetHost) create(changes ...change) {
	f.t.Helper()
	if _, err := f.hosts.Create(f.ctx, f.wanted(changes), metav1.CreateOptions{}); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fleetHost) delete() {
	f.t.Helper()
	if err := f.hosts.Delete(f.ctx, f.name, metav1.DeleteOptions{}); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fleetHost) patch(patch string) {
	f.t.Helper()
	if _, err := f.hosts.Patch(f.ctx, f.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		f.t.Fatalf("%s: %v", f.name, err)
	}
}
