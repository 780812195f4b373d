// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/utils/clock"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/deploy"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/destination"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/recorder"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/secrets"
)

// Ironic is what steps ask of Ironic, registrations apart.
type Ironic interface {
	GetNode(ctx context.Context, idOrName string) (*ironic.Node, error)
	GetRegistration(ctx context.Context, uuid string) (*ironic.Registration, error)
	Validate(ctx context.Context, uuid string, interfaces ...string) ([]string, error)
	UpdateNode(ctx context.Context, fence ironic.Fence, idOrName string, patches []ironic.Patch) (*ironic.Node, error)
	DeleteNode(ctx context.Context, fence ironic.Fence, idOrName string) error
	SetMaintenance(ctx context.Context, fence ironic.Fence, idOrName, reason string) error
	ClearMaintenance(ctx context.Context, fence ironic.Fence, idOrName string) error
	SwitchPower(ctx context.Context, fence ironic.Fence, idOrName string, target ironic.PowerTarget) (used ironic.PowerTarget, softRefusal string, err error)
	SetProvisionState(ctx context.Context, fence ironic.Fence, idOrName string, target ironic.ProvisionTarget, options ironic.ProvisionOptions) error
	SetTargetRAID(ctx context.Context, fence ironic.Fence, idOrName string, disks []ironic.LogicalDisk) error
}

// Hosts are the hosts in etcd.
type Hosts interface {
	recorder.Hosts
	// Update writes spec and metadata. Removing the last finalizer of a host that is being deleted
	// completes the deletion.
	Update(ctx context.Context, host *metal3.BareMetalHost) (*metal3.BareMetalHost, error)
}

// Observer observes nodes in Ironic and records what has changed.
type Observer interface {
	ObserveHost(ctx context.Context, namespace, name string) error
	// FreshNode returns a host and its node as Ironic has it now, or, if allowRecent is set, as it was
	// observed a moment ago.
	FreshNode(ctx context.Context, namespace, name string, allowRecent bool) (*metal3.BareMetalHost, *ironic.Node, error)
	// ForgetNode says that a node was deleted.
	ForgetNode(uuid string)
}

// Registrar registers hosts in Ironic. Its changed reports whether the node is to be observed.
type Registrar interface {
	FindNode(ctx context.Context, host *metal3.BareMetalHost) (*metal3.BareMetalHost, error)
	CreateNode(ctx context.Context, fence ironic.Fence, host *metal3.BareMetalHost) (changed bool, err error)
	Register(ctx context.Context, fence ironic.Fence, host *metal3.BareMetalHost, node *ironic.Node) (changed bool, err error)
}

// Claims knows which host has a BMC.
type Claims interface {
	HasBMCToItself(ctx context.Context, host *metal3.BareMetalHost) (bool, error)
}

// Deps are what an Executor works with.
type Deps struct {
	// Name is that of the IronicInstance; empty for the Ironic of the server's flags.
	Name      string
	Ironic    Ironic
	Hosts     Hosts
	Observer  Observer
	Recorder  *recorder.Recorder
	Registrar Registrar
	Claims    Claims
	// Destinations are the Ironics to which hosts can be moved.
	Destinations Destinations
	Secrets      *secrets.Secrets
	Hardware     HardwareStore
	// DataImages is nil if no host has a virtual drive.
	DataImages DataImages
	// Policy returns what may be changed while a host runs something; nil if nothing may.
	Policy func(host *metal3.BareMetalHost) *metal3.HostUpdatePolicySpec
	// StoredPolicy returns the same as it is stored at this moment.
	StoredPolicy func(ctx context.Context, host *metal3.BareMetalHost) (*metal3.HostUpdatePolicySpec, error)
	// Images are the addresses from which users may have Ironic fetch images and firmware.
	Images destination.Policy
	// Ramdisk is how hosts boot the ramdisk.
	Ramdisk deploy.Ramdisk
	Clock   clock.PassiveClock
}

// Task is a step that is to be taken for a host.
type Task struct {
	Host *metal3.BareMetalHost
	// Node is what the step was planned with; nil if Ironic has no node of the host.
	Node *ironic.Node
	Step lifecycle.Step
	// Fence is what the step was decided on. Each request that changes something in Ironic carries it.
	Fence ironic.Fence
	// AskedInVain is set if the request that Host.Status.Record.Asked is about was refused or never sent.
	AskedInVain bool
	// PowerAnswered is set if the request that Host.Status.Record.AskedPower is about was accepted, refused or never sent.
	PowerAnswered bool
	// AskedKnownFor and AskedPowerKnownFor are for how long this process has known of these requests.
	AskedKnownFor, AskedPowerKnownFor time.Duration
	// Failures is how many steps for the host have failed in a row, for reasons that are not the host's.
	Failures int

	// notCarriedOut and powerAnswered are set by a request that was recorded before it was sent; see Outcome.
	notCarriedOut, powerAnswered bool
	// asked is the host as it was when the request was recorded; nil if none was.
	asked *metal3.BareMetalHost
	// powerOn is the ID of a request that was recorded because it leads to a machine that is on.
	powerOn string
}

// Outcome is how a host goes on after a step. The zero Outcome is that the next step is planned when
// something happens to the host, to its Secrets or in Ironic.
type Outcome struct {
	// PlanAgain is set if the next step is to be planned at once, with Host and Node. The Node may be nil.
	PlanAgain bool
	Host      *metal3.BareMetalHost
	Node      *ironic.Node
	// Refused is set if Ironic has refused the step, which the host shows as its error.
	Refused bool
	// Accepted is set if Ironic has accepted a step that takes it a while, and whose effect a poll is to
	// show: a poll serves all hosts that have just taken such a step, and takes a busy Ironic about as
	// long as a read of one node.
	Accepted bool
	// NotCarriedOut is set if the request that Host.Status.Record.Asked is about was refused or never sent.
	NotCarriedOut bool
	// PowerAnswered is set if the request that Host.Status.Record.AskedPower is about was accepted, refused or never sent.
	PowerAnswered bool
}

func planAgainWith(host *metal3.BareMetalHost, node *ironic.Node) Outcome {
	return Outcome{PlanAgain: true, Host: host, Node: node}
}

// action takes the steps of one kind.
type action func(ctx context.Context, task Task) (Outcome, error)

// Executor takes steps.
type Executor struct {
	actions map[lifecycle.Action]action
}

// New returns an Executor.
func New(deps Deps) *Executor {
	registerMetrics()
	settler := &settler{deps.Recorder, deps.Observer, deps.Clock}
	registrations := &registrations{settler, deps.Registrar, deps.Claims, deps.Secrets}
	drive := virtualDrive{deps.DataImages}
	asker := &asker{deps.Recorder, deps.Clock}
	deployments := &deployments{deps.Ironic, deps.Secrets, deps.Images, asker}
	states := &states{deps.Name, deps.Recorder, deps.Claims, deps.Secrets, &hardware{deps.Hosts, deps.Recorder, deps.Hardware, deps.Ramdisk, deps.Clock}, deployments.checkSecrets, deps.Clock}
	power := &power{deps.Ironic, deps.Recorder, asker, drive, deps.Clock}
	cleans := &cleans{settler, deps.Ironic, deps.Images}
	services := &services{settler, deps.Ironic, drive, deps.Policy, deps.StoredPolicy, deps.Images, asker}
	nodes := &nodes{deps.Ironic, deps.Observer, deps.Recorder}
	transfers := &transfers{settler, nodes, deps.Ironic, deps.Destinations}
	releases := &releases{deps.Hosts, deps.Secrets, deps.Hardware}
	return &Executor{map[lifecycle.Action]action{
		lifecycle.Begin:               states.begin,
		lifecycle.SetState:            states.setState,
		lifecycle.RecordGivenHardware: states.hardware.recordGiven,
		lifecycle.Hold:                states.hold,
		lifecycle.AwaitImage:          states.awaitImage,
		lifecycle.NoteResemblance:     states.noteResemblance,
		lifecycle.ClearRebootRequest:  states.recording(clearRebootRequest),
		lifecycle.ForgetReboots:       states.recording(lifecycle.ForgetGoneReboots),
		lifecycle.ForgetFailures:      states.recording(lifecycle.ClearFailures),
		lifecycle.ForgetRequest:       states.recording(forgetRequest),
		lifecycle.ForgetLost:          states.forgetLost,
		lifecycle.Detach:              states.recording(lifecycle.MarkDetached),
		lifecycle.Attach:              states.recording(lifecycle.MarkAttached),
		lifecycle.Report:              registrations.reportUnlessSecretExists,
		lifecycle.FindNode:            registrations.findNode,
		lifecycle.CreateNode:          registrations.createNode,
		lifecycle.Register:            registrations.register,
		lifecycle.Provision:           settler.requesting(deployments.provision),
		lifecycle.Deploy:              settler.requesting(deployments.deploy),
		lifecycle.Rebuild:             settler.requesting(deployments.rebuild),
		lifecycle.SwitchPower:         settler.requesting(power.switchPower),
		lifecycle.Prepare:             cleans.prepare,
		lifecycle.Service:             services.service,
		lifecycle.LeaveService:        services.leave,
		lifecycle.EndServicing:        services.conclude,
		lifecycle.ClearMaintenance:    settler.requesting(nodes.clearMaintenance),
		lifecycle.SetCleaning:         settler.requesting(nodes.setCleaning),
		lifecycle.DeleteNode:          settler.requesting(nodes.delete),
		lifecycle.LeaveIronic:         transfers.leave,
		lifecycle.ChangeIronic:        transfers.change,
		lifecycle.Release:             releases.release,
	}}
}

// Execute takes a step. What its Outcome says holds even if it returns an error.
func (x *Executor) Execute(ctx context.Context, task Task) (Outcome, error) {
	run, known := x.actions[task.Step.Do]
	if !known {
		return Outcome{}, fmt.Errorf("step %q is not known", task.Step.Do)
	}
	return run(ctx, task)
}

// Actions returns the actions of the steps that an Executor can take.
func (x *Executor) Actions() []lifecycle.Action { return slices.Collect(maps.Keys(x.actions)) }
