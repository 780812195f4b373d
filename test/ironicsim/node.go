// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"time"

	"github.com/metal3-io/metal3-apiserver/test/ironicsim/fsm"
)

// node is one version of a row of Ironic's nodes table. It is never changed:
// each write makes a copy (see Sim.update), so readers need no lock while they
// encode it. Empty strings and zero times are JSON null.
type node struct {
	fsm.Node
	id int64 // the internal id, which only shows in a few error messages

	createdAt, updatedAt                      time.Time
	provisionUpdatedAt                        time.Time
	inspectionStartedAt, inspectionFinishedAt time.Time

	name, driver, description                    string
	owner, lessee, shard, resourceClass          string
	conductorGroup, parentNode                   string
	protectedReason, retiredReason, bootMode     string
	consoleEnabled                               bool
	automatedClean, secureBoot                   *bool
	biosInterface, bootInterface                 string
	consoleInterface, deployInterface            string
	firmwareInterface, inspectInterface          string
	managementInterface, networkInterface        string
	powerInterface, raidInterface                string
	rescueInterface, storageInterface            string
	vendorInterface                              string
	driverInfo, driverInternalInfo, instanceInfo *object
	properties, extra, networkData               *object
	cleanStep, deployStep, serviceStep           *object
	raidConfig, targetRAIDConfig                 *object
}

func newNode() *node {
	n := &node{Node: fsm.Node{ProvisionState: fsm.Enroll}}
	for i := range nodeFields {
		if f := &nodeFields[i]; f.objectAt != nil {
			*f.objectAt(n) = emptyObject
		}
	}
	return n
}

// entry is a node with what hangs on it. All of it is guarded by Sim.mu.
type entry struct {
	n    *node
	gone bool // deleted; a worker that still holds it must not write any more
	// inventory is the answer of GET inventory, nil for 404.
	inventory []byte
	// inventoryToStore replaces what the next inspections find; see SetRawInventory.
	inventoryToStore []byte
	history          []historyEvent
	// bios and firmware are what Ironic last read from the BMC. They are replaced, never changed.
	bios     []biosSetting
	firmware []firmwareComponent
	// failNext are the failures that were asked for, by phase.
	failNext map[string]string
	// ramdiskHeld keeps AutoInspect and AutoDeploy from this node.
	ramdiskHeld bool
	// goOn is what follows when the ramdisk that is held calls back; see CallBack.
	goOn func()
	// clockOffset is how far its conductor's clock is ahead of the Sim's.
	clockOffset time.Duration
	// syncFailures counts failed power syncs in a row.
	syncFailures int
	// waitCancel stops the time-out of the wait state the node is in.
	waitCancel func()
}

type historyEvent struct {
	UUID      string
	CreatedAt time.Time
	EventType string
	Event     string
	Conductor string
}
