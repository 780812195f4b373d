// Package ironicsync keeps BareMetalHosts and Ironic's nodes in step, in both
// directions.
//
// Towards the reader: Refresher observes Ironic, Observe (pure) turns what it
// said into a status, and the status is recorded in etcd by compare-and-swap
// before anybody is shown it. Poller does the same on the leader with nobody
// reading, for the watchers.
//
// Towards Ironic: Controller, on the leader, takes a host from its queue, asks
// Next (pure) for the one thing to do now, does it, and observes again.
package ironicsync
