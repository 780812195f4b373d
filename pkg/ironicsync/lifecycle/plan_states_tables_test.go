// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// "=x" enters the state x, "!x" too, and what was under way has failed; words in
// lower case are verbs and power states of Ironic's. All nodes are on, as it is
// wanted.

// arriving are hosts on their way to available.
var arriving = map[string][]hostOption{
	"none":        {withState(metal3.StateNone)},
	"unmanaged":   {withState(metal3.StateUnmanaged)},
	"registering": {withState(metal3.StateRegistering)},
	"inspecting":  {withState(metal3.StateInspecting), inspectionBegan},
	"inspected":   {withState(metal3.StateInspecting), inspectionBegan, inspectionEnded},
	"matching":    {withState(metal3.StateMatchProfile), inspectionBegan, inspectionEnded},
	"preparing":   {withState(metal3.StatePreparing)},
	"marked":      {withState(metal3.StatePreparing), externallyProvisioned},
}

const arrivingTable = `
                 none               unmanaged          registering      inspecting    inspected     matching      preparing        marked
no node          Begin=registering  Begin=registering  CreateNode       CreateNode    CreateNode    CreateNode    CreateNode       CreateNode
enroll           Begin=registering  Begin=registering  Register         Register      Register      Register      Register         Register
verifying        Begin=registering  Begin=registering  Wait             Wait          Wait          Wait          Wait             Wait
manageable       Begin=registering  Begin=registering  =inspecting      inspect       =preparing    =preparing    =available       =externally-provisioned
available        Begin=registering  Begin=registering  =inspecting      manage        manage        manage        =available       =externally-provisioned
active           Begin=registering  Begin=registering  =provisioned     =provisioned  =provisioned  =provisioned  =provisioned     =externally-provisioned
deploying        Begin=registering  Begin=registering  Wait             Wait          Wait          Wait          Wait             Wait
wait call-back   Begin=registering  Begin=registering  Wait             Wait          Wait          Wait          Wait             Wait
deploy failed    Begin=registering  Begin=registering  Wait             Wait          Wait          Wait          Wait             =externally-provisioned
deploy hold      Begin=registering  Begin=registering  Wait             Wait          Wait          Wait          Wait             Wait
deleting         Begin=registering  Begin=registering  Wait             Wait          Wait          Wait          Wait             Wait
error            Begin=registering  Begin=registering  Wait             Wait          Wait          Wait          Wait             =externally-provisioned
cleaning         Begin=registering  Begin=registering  Wait             Wait          Wait          Wait          Wait             Wait
clean wait       Begin=registering  Begin=registering  Wait             Wait          Wait          Wait          Wait             Wait
clean failed     Begin=registering  Begin=registering  =inspecting      manage        manage        manage        manage           =externally-provisioned
clean hold       Begin=registering  Begin=registering  Wait             Wait          Wait          Wait          Wait             Wait
inspecting       Begin=registering  Begin=registering  Wait             Wait          Wait          Wait          Wait             Wait
inspect wait     Begin=registering  Begin=registering  Wait             Wait          Wait          Wait          Wait             Wait
inspect failed   Begin=registering  Begin=registering  =inspecting      inspect       inspect       inspect       manage           =externally-provisioned
adopting         Begin=registering  Begin=registering  Wait             Wait          Wait          Wait          Wait             Wait
adopt failed     Begin=registering  Begin=registering  =inspecting      manage        manage        manage        manage           =externally-provisioned
rescue           Begin=registering  Begin=registering  =provisioned     =provisioned  =provisioned  =provisioned  =provisioned     =externally-provisioned
rescuing         Begin=registering  Begin=registering  =provisioned     =provisioned  =provisioned  =provisioned  =provisioned     =externally-provisioned
rescue wait      Begin=registering  Begin=registering  =provisioned     =provisioned  =provisioned  =provisioned  =provisioned     =externally-provisioned
rescue failed    Begin=registering  Begin=registering  =provisioned     =provisioned  =provisioned  =provisioned  =provisioned     =externally-provisioned
unrescuing       Begin=registering  Begin=registering  =provisioned     =provisioned  =provisioned  =provisioned  =provisioned     =externally-provisioned
unrescue failed  Begin=registering  Begin=registering  =provisioned     =provisioned  =provisioned  =provisioned  =provisioned     =externally-provisioned
servicing        Begin=registering  Begin=registering  =provisioned     =provisioned  =provisioned  =provisioned  =provisioned     =externally-provisioned
service wait     Begin=registering  Begin=registering  =provisioned     =provisioned  =provisioned  =provisioned  =provisioned     =externally-provisioned
service failed   Begin=registering  Begin=registering  =provisioned     =provisioned  =provisioned  =provisioned  =provisioned     =externally-provisioned
service hold     Begin=registering  Begin=registering  =provisioned     =provisioned  =provisioned  =provisioned  =provisioned     =externally-provisioned
`

// resting are hosts that are available, or on their way from there to an image.
var resting = map[string][]hostOption{
	"available":    {withState(metal3.StateAvailable), prepared},
	"wanted":       {withState(metal3.StateAvailable), prepared, wantsImage("http://images/a")},
	"ready":        {prepared, withState(metal3.StateReady), wantsImage("http://images/a")},
	"provisioning": {withState(metal3.StateProvisioning), wantsImage("http://images/a"), attempting("http://images/a")},
	"cancelled":    {withState(metal3.StateProvisioning), attempting("http://images/a"), attemptRecorded},
	// What an operator had deployed in Ironic, past us.
	"foreign": {prepared, inspectedOnce, withState(metal3.StateProvisioning)},
	// The same, and it is prepared without an inspection.
	"adopted": {adoptedOnce, withState(metal3.StateProvisioning)},
	// The same on the node that a new host was found to have.
	"found": {withState(metal3.StateProvisioning)},
	// The same, and then undeployed.
	"undone": {func(h *metal3.BareMetalHost) { h.Status.Provisioning.State = metal3.StateDeprovisioning }},
}

const restingTable = `
                 available        wanted           ready            provisioning     cancelled        foreign          adopted          found         undone
no node          CreateNode       CreateNode       CreateNode       CreateNode       CreateNode       CreateNode       CreateNode       CreateNode    CreateNode
enroll           Register         Register         Register         Register         Register         Register         Register         Register      Register
verifying        Wait             Wait             Wait             Wait             Wait             Wait             Wait             Wait          Wait
manageable       Wait             =provisioning    =provisioning    provide          =available       =available       =registering     =registering  =registering
available        Wait             =provisioning    =provisioning    Deploy           =available       =available       =registering     =registering  =registering
active           =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned  =provisioned
deploying        Wait             Wait             Wait             Wait             =deprovisioning  Wait             Wait             Wait          Wait
wait call-back   Wait             Wait             Wait             Wait             =deprovisioning  Wait             Wait             Wait          Wait
deploy failed    Wait             Wait             Wait             !deprovisioning  =deprovisioning  Wait             Wait             Wait          Wait
deploy hold      Wait             Wait             Wait             Wait             =deprovisioning  Wait             Wait             Wait          Wait
deleting         Wait             Wait             Wait             Wait             =deprovisioning  Wait             Wait             Wait          Wait
error            Wait             Wait             Wait             !deprovisioning  =deprovisioning  Wait             Wait             Wait          Wait
cleaning         Wait             Wait             Wait             Wait             Wait             Wait             Wait             Wait          Wait
clean wait       Wait             Wait             Wait             Wait             Wait             Wait             Wait             Wait          Wait
clean failed     Wait             Wait             Wait             manage           manage           manage           manage           manage        manage
clean hold       Wait             Wait             Wait             Wait             Wait             Wait             Wait             Wait          Wait
inspecting       Wait             Wait             Wait             Wait             Wait             Wait             Wait             Wait          Wait
inspect wait     Wait             Wait             Wait             Wait             Wait             Wait             Wait             Wait          Wait
inspect failed   Wait             Wait             Wait             manage           manage           manage           manage           manage        manage
adopting         Wait             Wait             Wait             Wait             Wait             Wait             Wait             Wait          Wait
adopt failed     manage           manage           manage           manage           manage           manage           manage           manage        manage
rescue           =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned  =provisioned
rescuing         =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned  =provisioned
rescue wait      =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned  =provisioned
rescue failed    =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned  =provisioned
unrescuing       =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned  =provisioned
unrescue failed  =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned  =provisioned
servicing        =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned  =provisioned
service wait     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned  =provisioned
service failed   =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned  =provisioned
service hold     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned     =provisioned  =provisioned
`

// leaving are hosts that run something, and those that do so no longer. The last two
// are hosts that were moved here with such a status, and are not deleted any more.
var leaving = map[string][]hostOption{
	"provisioned":    {withState(metal3.StateProvisioned), wantsImage("http://images/a"), runs("http://images/a"), withPower(true)},
	"changed":        {withState(metal3.StateProvisioned), wantsImage("http://images/b"), runs("http://images/a"), withPower(true)},
	"external":       {withState(metal3.StateExternallyProvisioned), externallyProvisioned, withPower(true)},
	"deprovisioning": {withState(metal3.StateDeprovisioning), runs("http://images/a")},
	"powering-off":   {withState(metal3.StatePoweringOffBeforeDelete)},
	"deleting":       {withState(metal3.StateDeleting)},
}

const leavingTable = `
                 provisioned      changed          external         deprovisioning   powering-off     deleting
no node          CreateNode       CreateNode       CreateNode       CreateNode       CreateNode       CreateNode
enroll           Register         Register         Register         Register         Register         Register
verifying        Wait             Wait             Wait             Wait             Wait             Wait
manageable       adopt            =deprovisioning  adopt            provide          =inspecting      =inspecting
available        manage           =deprovisioning  manage           =available       =inspecting      =inspecting
active           Wait             =deprovisioning  Wait             deleted          =provisioned     =provisioned
deploying        Wait             =deprovisioning  Wait             Wait             Wait             Wait
wait call-back   Wait             =deprovisioning  Wait             deleted          Wait             Wait
deploy failed    Wait             =deprovisioning  Wait             deleted          Wait             Wait
deploy hold      Wait             =deprovisioning  Wait             abort            Wait             Wait
deleting         Wait             =deprovisioning  Wait             Wait             Wait             Wait
error            Wait             =deprovisioning  Wait             deleted          Wait             Wait
cleaning         Wait             =deprovisioning  Wait             Wait             Wait             Wait
clean wait       Wait             =deprovisioning  Wait             Wait             Wait             Wait
clean failed     manage           =deprovisioning  manage           manage           =inspecting      =inspecting
clean hold       Wait             =deprovisioning  Wait             abort            Wait             Wait
inspecting       Wait             =deprovisioning  Wait             Wait             Wait             Wait
inspect wait     Wait             =deprovisioning  Wait             Wait             Wait             Wait
inspect failed   manage           =deprovisioning  manage           manage           =inspecting      =inspecting
adopting         Wait             =deprovisioning  Wait             Wait             Wait             Wait
adopt failed     adopt            =deprovisioning  adopt            manage           =inspecting      =inspecting
rescue           Wait             =deprovisioning  Wait             deleted          =provisioned     =provisioned
rescuing         Wait             =deprovisioning  Wait             Wait             =provisioned     =provisioned
rescue wait      Wait             =deprovisioning  Wait             deleted          =provisioned     =provisioned
rescue failed    Wait             =deprovisioning  Wait             deleted          =provisioned     =provisioned
unrescuing       Wait             =deprovisioning  Wait             Wait             =provisioned     =provisioned
unrescue failed  Wait             =deprovisioning  Wait             deleted          =provisioned     =provisioned
servicing        Wait             =deprovisioning  Wait             Wait             =provisioned     =provisioned
service wait     Wait             =deprovisioning  Wait             deleted          =provisioned     =provisioned
service failed   Wait             =deprovisioning  Wait             deleted          =provisioned     =provisioned
service hold     Wait             =deprovisioning  Wait             abort            =provisioned     =provisioned
`

// deletedEarly are hosts that run nothing of ours when they are deleted.
var deletedEarly = map[string][]hostOption{
	"none":        arriving["none"],
	"unmanaged":   arriving["unmanaged"],
	"registering": arriving["registering"],
	"inspecting":  arriving["inspecting"],
	"matching":    arriving["matching"],
	"preparing":   arriving["preparing"],
	"available":   resting["available"],
	"ready":       resting["ready"],
	"found":       resting["found"],
	"undone":      resting["undone"],
}

const deletedEarlyTable = `
                 none           unmanaged      registering    inspecting     matching       preparing      available      ready          found          undone
no node          Release        Release        Release        Release        Release        Release        Release        Release        Release        Release
enroll           =deleting      =deleting      =deleting      Register       Register       Register       Register       Register       Register       Register
verifying        =deleting      =deleting      =deleting      Wait           Wait           Wait           Wait           Wait           Wait           Wait
manageable       =deleting      =deleting      =deleting      =powering-off  =powering-off  =powering-off  =powering-off  =powering-off  =powering-off  =powering-off
available        =deleting      =deleting      =deleting      =powering-off  =powering-off  =powering-off  =powering-off  =powering-off  =powering-off  =powering-off
active           =deleting      =deleting      =deleting      =deleting      =deleting      =deleting      =deleting      =deleting      =deleting      =deleting
deploying        =deleting      =deleting      =deleting      Wait           Wait           Wait           Wait           Wait           Wait           Wait
wait call-back   =deleting      =deleting      =deleting      Wait           Wait           Wait           Wait           Wait           Wait           Wait
deploy failed    =deleting      =deleting      =deleting      =powering-off  =powering-off  =powering-off  =powering-off  =powering-off  =powering-off  =powering-off
deploy hold      =deleting      =deleting      =deleting      abort          abort          abort          abort          abort          abort          abort
deleting         =deleting      =deleting      =deleting      Wait           Wait           Wait           Wait           Wait           Wait           Wait
error            =deleting      =deleting      =deleting      =powering-off  =powering-off  =powering-off  =powering-off  =powering-off  =powering-off  =powering-off
cleaning         =deleting      =deleting      =deleting      Wait           Wait           Wait           Wait           Wait           Wait           Wait
clean wait       =deleting      =deleting      =deleting      abort          abort          abort          abort          abort          abort          abort
clean failed     =deleting      =deleting      =deleting      =powering-off  =powering-off  =powering-off  =powering-off  =powering-off  =powering-off  =powering-off
clean hold       =deleting      =deleting      =deleting      abort          abort          abort          abort          abort          abort          abort
inspecting       =deleting      =deleting      =deleting      Wait           Wait           Wait           Wait           Wait           Wait           Wait
inspect wait     =deleting      =deleting      =deleting      abort          abort          abort          abort          abort          abort          abort
inspect failed   =deleting      =deleting      =deleting      =powering-off  =powering-off  =powering-off  =powering-off  =powering-off  =powering-off  =powering-off
adopting         =deleting      =deleting      =deleting      Wait           Wait           Wait           Wait           Wait           Wait           Wait
adopt failed     =deleting      =deleting      =deleting      =powering-off  =powering-off  =powering-off  =powering-off  =powering-off  =powering-off  =powering-off
rescue           =deleting      =deleting      =deleting      =deleting      =deleting      =deleting      =deleting      =deleting      =deleting      =deleting
rescuing         =deleting      =deleting      =deleting      Wait           Wait           Wait           Wait           Wait           Wait           Wait
rescue wait      =deleting      =deleting      =deleting      Wait           Wait           Wait           Wait           Wait           Wait           Wait
rescue failed    =deleting      =deleting      =deleting      =deleting      =deleting      =deleting      =deleting      =deleting      =deleting      =deleting
unrescuing       =deleting      =deleting      =deleting      Wait           Wait           Wait           Wait           Wait           Wait           Wait
unrescue failed  =deleting      =deleting      =deleting      =deleting      =deleting      =deleting      =deleting      =deleting      =deleting      =deleting
servicing        =deleting      =deleting      =deleting      Wait           Wait           Wait           Wait           Wait           Wait           Wait
service wait     =deleting      =deleting      =deleting      abort          abort          abort          abort          abort          abort          abort
service failed   =deleting      =deleting      =deleting      =deleting      =deleting      =deleting      =deleting      =deleting      =deleting      =deleting
service hold     =deleting      =deleting      =deleting      abort          abort          abort          abort          abort          abort          abort
`

// deletedLate are the others.
var deletedLate = map[string][]hostOption{
	"provisioning":   resting["provisioning"],
	"provisioned":    leaving["provisioned"],
	"external":       leaving["external"],
	"deprovisioning": leaving["deprovisioning"],
	"powering-off":   leaving["powering-off"],
	"deleting":       leaving["deleting"],
}

const deletedLateTable = `
                 provisioning     provisioned      external         deprovisioning   powering-off     deleting
no node          CreateNode       CreateNode       Release          CreateNode       Release          Release
enroll           Register         Register         Register         Register         power-off        DeleteNode
verifying        Wait             Wait             Wait             Wait             =deleting        Wait
manageable       =deprovisioning  =deprovisioning  =powering-off    provide          power-off        DeleteNode
available        =powering-off    =deprovisioning  =powering-off    =powering-off    power-off        DeleteNode
active           =deprovisioning  =deprovisioning  =powering-off    deleted          power-off        DeleteNode
deploying        =deprovisioning  =deprovisioning  Wait             Wait             =deleting        Wait
wait call-back   =deprovisioning  =deprovisioning  Wait             deleted          =deleting        DeleteNode
deploy failed    =deprovisioning  =deprovisioning  =powering-off    deleted          power-off        DeleteNode
deploy hold      =deprovisioning  =deprovisioning  abort            abort            =deleting        abort
deleting         =deprovisioning  =deprovisioning  Wait             Wait             =deleting        Wait
error            =deprovisioning  =deprovisioning  =powering-off    deleted          power-off        DeleteNode
cleaning         Wait             =deprovisioning  Wait             Wait             =deleting        Wait
clean wait       abort            =deprovisioning  abort            Wait             =deleting        abort
clean failed     =powering-off    =deprovisioning  =powering-off    manage           power-off        DeleteNode
clean hold       abort            =deprovisioning  abort            abort            =deleting        abort
inspecting       =deprovisioning  =deprovisioning  Wait             Wait             =deleting        Wait
inspect wait     =deprovisioning  =deprovisioning  abort            Wait             =deleting        abort
inspect failed   =deprovisioning  =deprovisioning  =powering-off    manage           power-off        DeleteNode
adopting         =deprovisioning  =deprovisioning  Wait             Wait             =deleting        Wait
adopt failed     =deprovisioning  =deprovisioning  =powering-off    manage           power-off        DeleteNode
rescue           =deprovisioning  =deprovisioning  =powering-off    deleted          power-off        DeleteNode
rescuing         =deprovisioning  =deprovisioning  Wait             Wait             =deleting        Wait
rescue wait      =deprovisioning  =deprovisioning  Wait             deleted          =deleting        DeleteNode
rescue failed    =deprovisioning  =deprovisioning  =powering-off    deleted          power-off        DeleteNode
unrescuing       =deprovisioning  =deprovisioning  Wait             Wait             =deleting        Wait
unrescue failed  =deprovisioning  =deprovisioning  =powering-off    deleted          power-off        DeleteNode
servicing        =deprovisioning  =deprovisioning  Wait             Wait             =deleting        Wait
service wait     =deprovisioning  =deprovisioning  abort            deleted          =deleting        abort
service failed   =deprovisioning  =deprovisioning  =powering-off    deleted          power-off        DeleteNode
service hold     =deprovisioning  =deprovisioning  abort            abort            =deleting        abort
`
