// SPDX-License-Identifier: Apache-2.0

// Package ironicsync is the engine that keeps BareMetalHosts and Ironic's nodes in
// step, in both directions. It is made of these packages; each imports only those
// above it:
//
//   - deploy: what a host is to run, as Ironic wants it (config drive, instance_info,
//     root device). Pure.
//   - settings: what Ironic has to do so that a machine has the settings that users ask
//     for (RAID, BIOS), and what is recorded of that. Pure.
//   - lifecycle: Observe turns what Ironic says into a status, Next decides the next
//     step towards Ironic. Pure: neither a context nor a clock nor a client.
//   - panics: a panic because of what one host says is an error of that host.
//   - secrets: what the Secrets of hosts say, and who owns them.
//   - limit, events, destination: how many hosts Ironic works on at a time; the Kubernetes
//     events of hosts; the addresses to which users may have Ironic connect.
//   - firmware: the HostFirmwareSettings, FirmwareSchemas and HostFirmwareComponents of
//     hosts, kept up to date.
//   - live: what Ironic says now, recorded in etcd before anybody is shown it. In it, flight
//     lets readers share observations, and index (pure) knows the nodes by the feed and sweeps.
//   - hostindex: all hosts in memory. recorder: writes the statuses of hosts.
//   - registrar: gives hosts their nodes. executor: takes the steps that Next decides on.
//   - fleet: which Ironics there are, how each is reached, and in which one a host is.
//   - reconcile: the leader's work. It takes a host from its queue, asks Next for the one
//     step to take now, has the executor take it, and plans the next one.
//   - manager: who leads, and what runs while this replica does. It knows none of the others.
//   - kinds: what the small controllers of the kinds other than BareMetalHost share. Each
//     of them has a package below it: dataimage, hostclaim, hostnetwork, networkswitch,
//     preprovisioning, subscription.
//   - foresight: what becomes of the hosts of another operator, which a migration shows before the switch.
//   - enginetest: what the tests of these packages share. Nothing else may import it.
package ironicsync
