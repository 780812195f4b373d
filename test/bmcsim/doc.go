// SPDX-License-Identifier: Apache-2.0

// Package bmcsim simulates machines for a real Ironic. Each machine has a BMC that uses Redfish over
// HTTP, and runs a ramdisk (ironic-python-agent) when it boots from the network or from a virtual CD.
// The ramdisk reports an inventory, sends heartbeats, and executes Ironic's commands: it cleans, and
// it "writes" images, which means that it records what tests need to know about them.
//
// The BMC of each machine has its own port on 127.0.0.1, as each real BMC has its own address. All
// ramdisks, and the files that Ironic fetches, share one more port. Close stops everything.
//
// Only the fields, paths and error messages are implemented that Ironic 21.4 to 39.0 and sushy, its
// Redfish library, use.
package bmcsim
