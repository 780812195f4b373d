// Package bmcsim is, to a real Ironic, a number of machines: each has a BMC that
// speaks Redfish over HTTP and boots the ramdisk (ironic-python-agent) when it is
// switched on towards the network or a virtual CD. The ramdisk reports an
// inventory, heartbeats, and does what Ironic tells it: it cleans, and "writes"
// images, of which it keeps what a test wants to see.
//
// Each machine's BMC has a port of its own on 127.0.0.1, as each real BMC has an
// address of its own; all ramdisks, the files that Ironic fetches and the admin
// endpoint share one more. Close ends all of it.
//
// The fields, paths and error texts are those that Ironic 21.4 to 39.0 and sushy,
// its Redfish library, read. What they do not read is not there.
package bmcsim
